"""Lives of `/controller`, times without one, storms."""

from __future__ import annotations

from tests.pure.audit.cluster import CONTROLLER, EPOCH, Cluster, controller, started
from zkgroup.audit.findings.controller import controller_election

POISON = '{"jmx_port":-1,"timestamp":1396019252998,"host":"h","version":1,"port":9}'


def test_each_election_is_reported_with_its_epoch_and_the_time_without_a_controller() -> None:
    """Each life of `/controller` is a row: its epoch, how it ended, how long nobody held it before."""
    log = Cluster()
    first = log.start(1, 2)
    log.wait(3_000)
    ended = log.expire(1)
    log.wait(40)
    second = log.elect(2, 2, 2)

    found = log.find(controller_election)

    assert [(each.severity, each.session, each.from_zxid, each.to_zxid) for each in found] == [
        ("info", 1, first, ended),
        ("info", 2, second, None),
    ]
    assert [each.detail for each in found] == [
        "broker 1 (session 0x1) elected, epoch 1; its session expired after 3.0 s",
        "broker 2 (session 0x2) elected, epoch 2; after 40 ms without a controller",
    ]


def test_how_it_ended() -> None:
    """Deleted by itself, by another session, closed, or still there: each is worded apart."""
    log = started(1, 2)
    log.delete(CONTROLLER, 1)
    log.elect_ours(2, 2, 2)
    log.delete(CONTROLLER, 9)
    log.elect_ours(1, 1, 3)
    log.close(1)
    log.elect(2, 2, None)

    assert [each.detail.partition("; ")[2] for each in log.find(controller_election)] == [
        "deleted by itself after 0 ms",
        "after 0 ms without a controller; deleted by session 0x9 after 0 ms",
        "after 0 ms without a controller; it closed its session after 0 ms",
        "after 0 ms without a controller",
    ]
    assert log.find(controller_election)[-1].detail.startswith(
        "broker 2 (session 0x2) elected, epoch not raised"
    )


def test_an_epoch_that_is_raised_in_the_transaction_that_ends_it_is_the_next_ones() -> None:
    """An epoch raised in the multi that replaces `/controller` belongs to who takes it."""
    log = started(1, 2)
    log.multi(
        2,
        log.setting(EPOCH, "2"),
        log.deletion(CONTROLLER),
        log.creation(CONTROLLER, controller(2), ephemeral=True),
    )

    assert [each.detail.partition(";")[0] for each in log.find(controller_election)] == [
        "broker 1 (session 0x1) elected, epoch 1",
        "broker 2 (session 0x2) elected, epoch 2",
    ]


def test_long_without_a_controller_is_a_warning() -> None:
    """More than 30 s without a controller is a warning, whether one came in the end or nobody did."""
    log = started(1, 2)
    log.close(1)
    log.wait(30_001)
    late = log.elect(2, 2, 2)
    log.wait(1_000)
    none = log.delete(CONTROLLER, 2)
    log.passes(60_000)

    found = [each for each in log.find(controller_election) if each.severity == "warning"]

    assert [(each.from_zxid, each.detail.partition(";")[2]) for each in found] == [
        (late, " after 30.0 s without a controller; deleted by itself after 1.0 s"),
        (none, ""),
    ]
    assert found[1].detail == "no controller for 60.0 s, up to the end"


def storm(log: Cluster, elections: int, apart_ms: int) -> tuple[int, int]:
    zxids = []
    for number in range(elections):
        zxids.append(log.elect(1, 1, 2 + number))
        log.wait(apart_ms)
        log.delete(CONTROLLER, 1)
    return zxids[0], zxids[-1]


def test_elections_one_after_the_other_are_a_storm_with_what_no_jvm_can_read() -> None:
    """Twenty elections 100 ms apart are one warning, which names the registration that no JVM can read."""
    log = started(1, 2)
    log.broker(8, 2, POISON)
    log.wait(60_000)
    log.delete(CONTROLLER, 9)
    first, last = storm(log, 20, 100)

    before, found = log.find(controller_election)  # the election before the storm; its own are in it

    assert (before.severity, before.to_zxid) == ("info", first - 1)
    assert (found.severity, found.from_zxid, found.to_zxid) == ("warning", first, last)
    assert found.detail == "a storm of 20 elections in 1.9 s; no JVM can read /brokers/ids/8"


def test_a_registration_that_came_again_in_a_storm_is_named_once() -> None:
    """However often its broker came back."""
    log = started(1, 2)
    log.delete(CONTROLLER, 9)
    log.broker(8, 2, POISON)
    storm(log, 10, 100)
    log.delete("/brokers/ids/8", 2)
    log.broker(8, 2, POISON)
    storm(log, 10, 100)

    found = log.find(controller_election)[-1]

    assert found.detail.count("/brokers/ids/8") == 1


def test_a_few_and_slow_ones_are_none() -> None:
    """Four elections in a row, or six that are more than a second apart, are no storm."""
    log = started(1, 2)
    log.wait(60_000)
    log.delete(CONTROLLER, 9)
    storm(log, 4, 100)
    log.wait(60_000)
    storm(log, 6, 1_001)

    assert not [each for each in log.find(controller_election) if "storm" in each.detail]


def test_the_controller_of_a_snapshot_was_elected_before() -> None:
    """A controller that stands in the snapshot has no row of its own; the one after it has."""
    log = Cluster(100)
    log.seed(CONTROLLER, controller(1), zxid=9, session=1)
    log.open(2)
    log.expire(1)
    log.wait(5)
    elected = log.elect(2, 2, 2)

    (found,) = log.find(controller_election)

    assert (found.from_zxid, found.detail) == (
        elected,
        "broker 2 (session 0x2) elected, epoch 2; after 5 ms without a controller",
    )


def test_an_unreadable_controller_is_reported_too() -> None:
    """A `/controller` whose content is no JSON is an election too, told by its session alone."""
    log = Cluster()
    log.create(CONTROLLER, "?", 7, ephemeral=True)

    assert [each.detail for each in log.find(controller_election)] == [
        "a controller that cannot be read (session 0x7) elected, epoch not raised"
    ]


def test_only_a_registration_that_stood_in_the_storm_is_named() -> None:
    """Not one that was gone before it, or came after it."""
    log = started(1, 2)
    log.broker(7, 2, POISON)
    log.delete("/brokers/ids/7", 2)
    log.wait(60_000)
    log.delete(CONTROLLER, 9)
    storm(log, 5, 1_000)
    log.broker(8, 2, POISON)

    (found,) = [each for each in log.find(controller_election) if "storm" in each.detail]

    assert found.detail == "a storm of 5 elections in 4.0 s"


def test_thirty_seconds_without_a_controller_are_not_long() -> None:
    """By default; one that is not registered at the end for as long is none either."""
    log = started(1, 2)
    log.close(1)
    log.wait(30_000)
    log.elect(2, 2, 2)
    log.delete(CONTROLLER, 2)
    log.passes(30_000)

    assert {each.severity for each in log.find(controller_election)} == {"info"}
    assert [each.severity for each in log.find(controller_election, gap_ms=29_999)] == [
        "info",
        "warning",
        "warning",
    ]
