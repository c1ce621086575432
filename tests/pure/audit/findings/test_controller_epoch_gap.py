"""Steps of the controller epoch other than one."""

from __future__ import annotations

from tests.pure.audit.cluster import CONTROLLER, EPOCH, Cluster, controller, started
from zkgroup.audit.findings.controller import controller_epoch_gap


def test_gaps_repeats_and_falls_are_errors() -> None:
    """An epoch that skips, repeats or falls is an error at its write, with who wrote it."""
    log = started(1)
    gap = log.raise_epoch(3, 1)
    repeat = log.raise_epoch(3, 2)
    fall = log.raise_epoch(1, 1)
    log.raise_epoch(2, 1)

    found = log.find(controller_epoch_gap)

    assert [(each.severity, each.from_zxid, each.to_zxid, each.session) for each in found] == [
        ("error", gap, gap, 1),
        ("error", repeat, repeat, 2),
        ("error", fall, fall, 1),
    ]
    assert [each.detail for each in found] == [
        "epoch 3 follows 1, by broker 1 (session 0x1)",
        "epoch 3 follows 3, by session 0x2",
        "epoch 1 follows 3, by broker 1 (session 0x1)",
    ]


def test_an_epoch_that_is_made_anew_falls() -> None:
    """`/controller_epoch` deleted and made again with a lower number has fallen; it is no first epoch."""
    log = started(1)
    log.raise_epoch(2, 1)
    log.delete(EPOCH, 9)
    made = log.raise_epoch(1, 1)

    assert log.told(controller_epoch_gap, "severity", "from_zxid") == [("error", made)]


def test_elections_of_kafka_and_zkgroup_controllers_are_fine() -> None:
    """A snapshot's epoch counts, and so does one made with 0 before the first election, as from 2.1 on."""
    log = Cluster(100)
    log.seed(EPOCH, "41", zxid=5, version=40)
    log.elect_ours(1, 1, 42)
    log.delete(CONTROLLER, 1)
    log.elect(2, 2, 43)
    log.multi(2, log.setting(EPOCH, "44"), log.creation("/zkgroup/controller/history/44"))
    fresh = Cluster()
    fresh.create(EPOCH, "0", 1)
    fresh.elect_ours(1, 1, 1)

    assert log.find(controller_epoch_gap) == []
    assert fresh.find(controller_epoch_gap) == []


def test_an_epoch_that_cannot_be_read_is_an_error() -> None:
    """An epoch that is no number is an error; the next one is measured by the last that could be read."""
    log = started(1)
    torn = log.raise_epoch("two", 1)
    log.raise_epoch(2, 1)

    assert log.told(controller_epoch_gap, "severity", "from_zxid", "detail") == [
        ("error", torn, "the epoch cannot be read: b'two'")
    ]


def test_a_winner_that_never_raised_it_is_a_warning() -> None:
    """Who holds `/controller` for over 2 s and never raises the epoch is told; raising it then is fine."""
    log = started(1, 2)
    log.delete(CONTROLLER, 1)
    silent = log.elect(2, 2, None)
    log.wait(2_001)
    gone = log.expire(2)
    quick = log.elect(1, 1, None)
    log.wait(2_000)
    log.raise_epoch(2, 1)

    found = log.find(controller_epoch_gap)

    assert [(each.severity, each.from_zxid, each.to_zxid, each.session) for each in found] == [
        ("warning", silent, gone, 2)
    ]
    assert found[0].detail == "broker 2 (session 0x2) held /controller for 2.0 s and never raised the epoch"
    assert quick


def test_the_order_within_a_transaction_does_not_count() -> None:
    """A KRaft controller that takes over raises the epoch before it takes `/controller`."""
    log = started(1, 2)
    log.multi(
        2,
        log.setting(EPOCH, "2"),
        log.deletion(CONTROLLER),
        log.creation(CONTROLLER, controller(2), ephemeral=True),
    )
    log.passes(10_000)

    assert log.find(controller_epoch_gap) == []


def test_one_that_still_holds_it_at_the_end_is_too() -> None:
    """A controller that lasts to the end without having raised the epoch is a warning without an end."""
    log = started(1, 2)
    log.delete(CONTROLLER, 1)
    silent = log.elect(2, 2, None)
    log.passes(10_000)

    assert log.told(controller_epoch_gap, "severity", "from_zxid", "to_zxid") == [("warning", silent, None)]


def test_an_epoch_that_another_session_raised_is_not_the_winners() -> None:
    """The one that holds `/controller` has still not raised it; and a data change there elects nobody."""
    log = started(1, 2)
    log.delete(CONTROLLER, 1)
    silent = log.elect(2, 2, None)
    log.raise_epoch(2, 1)
    log.wait(2_001)
    log.set(CONTROLLER, controller(2), 2)
    log.wait(2_001)
    gone = log.delete(CONTROLLER, 2)

    assert log.told(controller_epoch_gap, "severity", "from_zxid", "to_zxid") == [("warning", silent, gone)]
