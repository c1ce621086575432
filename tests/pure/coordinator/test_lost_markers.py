"""Without the marker the members of a coordinator give way to ZooKeeper consumers (recipes 22)."""

from __future__ import annotations

import pytest

from tests.worlds.coordinators import GROUP, Coordinator
from zkgroup.coordinator.effects import ReserveGenerations, WriteGroup
from zkgroup.coordinator.events import MarkerLost, WriteOutcome
from zkgroup.model.error_codes import ErrorCode

REFUSED = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def emptied(coordinator: Coordinator) -> bool:
    """Whether the last write stores a group without members."""
    last = coordinator.written[-1]
    return isinstance(last, WriteGroup) and last.record.members == ()


def test_the_members_of_a_stable_group_are_removed_at_once() -> None:
    """Heartbeats and commits get 25; the next join claims the marker: 23 while consumers are there."""
    coordinator = Coordinator()
    members = coordinator.stable(2)
    generation = coordinator.generation
    coordinator.do(MarkerLost(GROUP))

    assert (coordinator.state, coordinator.generation) == ("Empty", generation + 1)
    assert emptied(coordinator)
    assert [coordinator.beat(each, generation) for each in members] == [UNKNOWN] * 2
    assert coordinator.commit(members[0], generation) is UNKNOWN
    assert [each.fields["member"] for each in coordinator.logged if each.kind == "member_gave_way"] == members
    coordinator.stores = False
    joined = coordinator.send_join()
    (claim,) = coordinator.unwritten
    assert isinstance(claim, ReserveGenerations)
    assert claim.marks
    coordinator.complete(WriteOutcome.ZOOKEEPER_MEMBERS)
    assert coordinator.error(joined) is REFUSED


def test_syncs_that_wait_are_refused() -> None:
    """No assignment is given any more, not even when its write ends as stored."""
    coordinator = Coordinator()
    first, second = coordinator.completing(2)
    coordinator.stores = False
    numbers = [coordinator.send_sync(first, 1, {first: b"a"}), coordinator.send_sync(second, 1)]
    coordinator.do(MarkerLost(GROUP))
    coordinator.complete()

    assert [coordinator.error(number) for number in numbers] == [REFUSED] * 2
    assert coordinator.state == "Empty"
    assert emptied(coordinator)


@pytest.mark.parametrize("has_pending", [False, True])
def test_joins_that_wait_are_refused(has_pending: bool) -> None:
    """Also while an id was given of which nobody has made use; the timer of the join phase ends."""
    coordinator = Coordinator()
    first, _ = coordinator.stable(2)
    if has_pending:
        coordinator.join(v4=True)
    number = coordinator.send_join(first, protocols=(("range", b"changed"),))
    coordinator.do(MarkerLost(GROUP))

    assert coordinator.error(number) is REFUSED
    assert coordinator.state == "Empty"
    assert emptied(coordinator)
    coordinator.advance(10_000)
    assert coordinator.state == "Empty"


def test_static_members_are_removed_too() -> None:
    """They come back with their instance ids when the consumers have left."""
    coordinator = Coordinator()
    members = coordinator.static("a", "b")
    coordinator.do(MarkerLost(GROUP))

    assert coordinator.state == "Empty"
    assert coordinator.beat(members["a"], 1, instance="a") is UNKNOWN
    again = coordinator.static("a", "b")
    assert set(again.values()).isdisjoint(members.values())


def test_a_group_without_the_marker_has_nothing_to_lose() -> None:
    """An empty group, one that is unknown, and one whose first member waits for the marker."""
    coordinator = Coordinator(stores=False)
    coordinator.do(MarkerLost(GROUP))
    number = coordinator.send_join()
    coordinator.do(MarkerLost(GROUP))

    assert coordinator.error(number) is None
    assert coordinator.state == "PreparingRebalance"
    assert len(coordinator.written) == 1
