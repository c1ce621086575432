"""Decisions by sessions that are not the controller's, or of an older epoch."""

from __future__ import annotations

from tests.pure.audit.cluster import (
    CONTROLLER,
    EPOCH,
    REASSIGN,
    Cluster,
    controller,
    started,
    state_path,
    state_text,
)
from zkgroup.audit.findings.controller import deposed_controller_write

T0, T1 = ("t", 0), ("t", 1)
TOOL = 0x70


def ruled() -> Cluster:
    """A log in which broker 1 ruled and made t-0, and broker 2 rules now, in epoch 2."""
    log = started(1, 2)
    log.topic("t", {0: (1, 2), 1: (2, 1)}, TOOL)
    log.state(T0, 1, (1, 2), session=1)
    log.delete(CONTROLLER, TOOL)
    log.elect(2, 2, 2)
    return log


def test_states_by_the_deposed_one_are_errors() -> None:
    """A decision by the session that ruled before is an error, whichever controller epoch it puts in."""
    log = ruled()
    made = log.state(T1, 2, (2, 1), controller_epoch=1, session=1)
    led = log.state(T0, 2, (1, 2), epoch=1, controller_epoch=1, session=1)
    bumped = log.state(T0, 2, (1, 2), epoch=2, controller_epoch=2, session=1)

    found = log.find(deposed_controller_write)

    assert [(each.severity, each.partition, each.from_zxid, each.session) for each in found] == [
        ("error", 1, made, 1),
        ("error", 0, led, 1),
        ("error", 0, bumped, 1),
    ]
    assert found[0].detail == (
        "state made with leader 2, in controller epoch 1, by broker 1 (session 0x1),"
        " while broker 2 (session 0x2) held /controller"
    )
    assert found[1].detail.startswith("leader 1 -> 2, leader epoch 0 -> 1, in controller epoch 1")


def test_an_older_epoch_is_one_even_from_the_controllers_session() -> None:
    """A state with controller epoch 1 while 2 is in force is an error, even from who holds `/controller`."""
    log = ruled()
    stale = log.state(T0, 2, (1, 2), epoch=1, controller_epoch=1, session=2)

    (found,) = log.find(deposed_controller_write)

    assert (found.from_zxid, found.detail.rpartition(", ")[2]) == (
        stale,
        "while controller epoch 2 was in force",
    )


def test_a_kraft_controller_writes_its_own_epoch() -> None:
    """During a migration; `/controller` says which it is."""
    log = ruled()
    log.delete(CONTROLLER, 2)
    kraft = '{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":1}'
    log.create(CONTROLLER, kraft, 0x3000, ephemeral=True)
    log.raise_epoch(3, 0x3000)
    log.state(T0, 2, (1, 2), epoch=1, controller_epoch=1, session=0x3000)
    stale = log.state(T0, 1, (1, 2), epoch=2, controller_epoch=0, session=0x3000)

    assert [each.from_zxid for each in log.find(deposed_controller_write)] == [stale]


def test_isr_writes_of_leaders_are_not() -> None:
    """They carry the epoch of the last decision, and come from whoever leads."""
    log = ruled()
    log.state(T0, 1, (1,), session=1)
    log.state(T0, 1, (1, 2), session=1)

    assert log.find(deposed_controller_write) == []


def test_what_the_controller_writes_is_not() -> None:
    """States, replica lists and the end of a request are fine from the session that holds `/controller`."""
    log = ruled()
    log.state(T1, 2, (2, 1), controller_epoch=2, session=2)
    log.state(T0, 2, (1, 2), epoch=1, controller_epoch=2, session=2)
    log.reassign({T0: (2,)}, TOOL)
    log.topic("t", {0: (2,), 1: (2, 1)}, 2)
    log.delete(REASSIGN, 2)

    assert log.find(deposed_controller_write) == []


def test_a_zkgroup_controller_elects_and_decides_in_multis() -> None:
    """What a controller of ours decides in one multi, after an election in one multi, is its to decide."""
    log = ruled()
    log.delete(CONTROLLER, 2)
    log.elect_ours(1, 1, 3)
    log.multi(
        1,
        log.setting(state_path(T0), state_text(1, (1, 2), 1, 3)),
        log.creation(state_path(T1), state_text(2, (2, 1), 0, 3)),
    )

    assert log.find(deposed_controller_write) == []


def test_replica_lists_are_the_controllers_but_tools_may_make_and_grow_topics() -> None:
    """Replicas that others move or drop are errors; a topic that a tool makes or lets grow is none."""
    log = ruled()
    log.topic("u", {0: (1,)}, TOOL)
    log.topic("u", {0: (1,), 1: (2,)}, TOOL)
    moved = log.topic("t", {0: (2, 1), 1: (2, 1)}, 1)
    dropped = log.topic("t", {0: (2, 1)}, TOOL)

    found = log.find(deposed_controller_write)

    assert [(each.severity, each.topic, each.partition, each.from_zxid) for each in found] == [
        ("error", "t", 0, moved),
        ("error", "t", 1, dropped),
    ]
    assert found[0].detail.startswith("replicas [1, 2] -> [2, 1], by broker 1 (session 0x1)")


def test_requests_are_the_controllers_to_take_off() -> None:
    """An error by a broker, a warning by hand, and nothing where nobody rules."""
    log = ruled()
    log.reassign({T0: (2,)}, TOOL)
    deposed = log.delete(REASSIGN, 1)
    log.create("/admin/delete_topics/t", b"", TOOL)
    by_hand = log.delete("/admin/delete_topics/t", TOOL)
    log.create("/admin/preferred_replica_election", "{}", TOOL)
    log.delete(CONTROLLER, 2)
    log.delete("/admin/preferred_replica_election", TOOL)

    assert log.told(deposed_controller_write, "severity", "from_zxid") == [
        ("error", deposed),
        ("warning", by_hand),
    ]


def test_entries_of_a_request_are_the_controllers_to_take_off() -> None:
    """As the whole request: an error by a broker, a warning by hand, nothing by the controller."""
    log = ruled()
    log.reassign({(name, 0): (2,) for name in "abcd"}, TOOL)
    log.reassign({(name, 0): (2,) for name in "abc"}, 2)
    deposed = log.reassign({("a", 0): (2,), ("b", 0): (2,)}, 1)
    by_hand = log.reassign({("b", 0): (2,), ("e", 0): (1,)}, TOOL)
    emptied = log.reassign({}, 1)

    found = log.find(deposed_controller_write)

    assert [(each.severity, each.from_zxid) for each in found] == [
        ("error", deposed),
        ("warning", by_hand),
        ("error", emptied),
    ]
    assert found[0].detail.startswith(f"1 entry taken off {REASSIGN}, by broker 1 (session 0x1), while")


def test_a_persistent_registration_is_no_broker() -> None:
    """A snapshot has no session for it, and a tool whose session is not known is not that broker."""
    log = Cluster(100)
    log.seed("/brokers/ids/9", "{}", zxid=3)
    log.seed(CONTROLLER, controller(1), zxid=9, session=1)
    log.reassign({T0: (2,)}, 0)
    by_hand = log.delete(REASSIGN, 0)

    assert log.told(deposed_controller_write, "severity", "from_zxid") == [("warning", by_hand)]


def test_a_request_may_be_changed_by_a_tool() -> None:
    """As a cancellation of ours does: another target; or one more entry. What cannot be read says nothing."""
    log = ruled()
    log.reassign({T0: (2,), T1: (1,)}, TOOL)
    log.reassign({T0: (1, 2), T1: (1,), ("u", 0): (2,)}, TOOL)
    log.set(REASSIGN, "torn", 1)
    log.reassign({T0: (2,)}, TOOL)

    assert log.find(deposed_controller_write) == []


def test_the_epoch_is_the_controllers() -> None:
    """A real candidate that won, expired and came back can raise it late."""
    log = ruled()
    late = log.raise_epoch(3, 1)

    (found,) = log.find(deposed_controller_write)

    assert (found.severity, found.topic, found.from_zxid) == ("error", None, late)
    assert found.detail.startswith("/controller_epoch set to 3, by broker 1 (session 0x1), while broker 2")


def test_it_may_be_made_before_the_first_election() -> None:
    """`/controller_epoch` made with 0 by a broker that wins after that is its to make."""
    log = Cluster()
    log.open(1)
    log.create(EPOCH, "0", 1)
    log.elect_ours(1, 1, 1)

    assert log.find(deposed_controller_write) == []


def test_a_write_without_an_active_controller_is_by_a_deposed_one() -> None:
    """A decision after `/controller` went and before the next one came is an error."""
    log = ruled()
    log.delete(CONTROLLER, TOOL)
    zxid = log.state(T0, 2, (2,), epoch=1, controller_epoch=2, session=2)

    (found,) = log.find(deposed_controller_write)

    assert (found.from_zxid, found.detail.rpartition(", ")[2]) == (zxid, "while there was no /controller")


def test_without_the_beginning_the_active_controller_is_unknown() -> None:
    """Not even what a state was before."""
    log = Cluster(100)
    log.set(state_path(T0), state_text(1, (1,), 5, 7), 1)
    log.create(state_path(T1), state_text(1, (1,), 0, 7), 1)
    seeded = Cluster(100)
    seeded.seed(CONTROLLER, controller(1), zxid=9, session=1)
    seeded.seed(EPOCH, "7", zxid=5)
    seeded.seed(state_path(T0), state_text(1, (1,), 5, 6), zxid=6)
    seeded.state(T0, 2, (1, 2), epoch=6, controller_epoch=7, session=1)

    assert log.find(deposed_controller_write) == []
    assert seeded.find(deposed_controller_write) == []


def test_what_cannot_be_read_is_passed_over() -> None:
    """A torn state or topic is no finding, and the state after it has nothing to be compared with."""
    log = ruled()
    log.set(state_path(T0), "torn", 1)
    log.set("/brokers/topics/t", "torn", 1)
    log.state(T0, 2, (2,), epoch=9, controller_epoch=1, session=1)

    assert log.find(deposed_controller_write) == []
