"""Generations and the marker: nothing is given to members that ZooKeeper does not have."""

from __future__ import annotations

import pytest

from tests.worlds.coordinators import Coordinator
from zkgroup.coordinator.effects import ReserveGenerations, WriteGroup
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.coordinator.group import GroupPhase
from zkgroup.model.error_codes import ErrorCode


def reservations(coordinator: Coordinator) -> list[tuple[int, bool]]:
    """The numbers that were reserved alone, and whether the marker was set with them."""
    return [
        (each.reserved_generation, each.marks)
        for each in coordinator.written
        if isinstance(each, ReserveGenerations)
    ]


def test_the_first_join_sets_the_marker_and_reserves_generations() -> None:
    """In one write, during the initial delay; the generation then costs one write more."""
    coordinator = Coordinator()
    number = coordinator.send_join()
    assert reservations(coordinator) == [(100, True)]
    coordinator.advance(50)
    coordinator.send_sync(coordinator.joined(number).member_id, 1)

    assert [type(each) for each in coordinator.written] == [ReserveGenerations, WriteGroup]


def test_a_generation_costs_one_write() -> None:
    """Over more than a block: the assignment's write reserves the next one in time."""
    coordinator = Coordinator()
    (member,) = coordinator.stable()
    before = len(coordinator.written)
    for expected in range(2, 302):
        assert coordinator.rejoin(member) == expected

    assert len(coordinator.written) - before == 300
    assert reservations(coordinator) == [(100, True)]


def test_members_wait_until_their_generation_is_reserved() -> None:
    """The join phase is over, and its members are not answered; one that comes now joins as well."""
    coordinator = Coordinator(stores=False)
    numbers = [coordinator.send_join()]
    coordinator.advance(1000)
    assert coordinator.error(numbers[0]) is None
    assert coordinator.describe().phase == GroupPhase.RESERVING.value
    numbers.append(coordinator.send_join())
    coordinator.complete()

    assert [coordinator.joined(number).generation for number in numbers] == [1, 1]


def test_a_reservation_that_ends_in_the_initial_delay_ends_nothing_else() -> None:
    """The delay goes on."""
    coordinator = Coordinator(stores=False)
    number = coordinator.send_join()
    coordinator.complete()
    assert coordinator.describe().phase == GroupPhase.INITIAL_DELAY.value
    coordinator.advance(50)

    assert coordinator.joined(number).generation == 1


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (WriteOutcome.ZOOKEEPER_MEMBERS, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (WriteOutcome.UNKNOWN, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (WriteOutcome.CONFLICT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (WriteOutcome.NOT_OWNER, ErrorCode.NOT_COORDINATOR),
    ],
)
@pytest.mark.parametrize("wait_ms", [0, 1000])
def test_a_group_that_is_not_marked_has_no_members(
    outcome: WriteOutcome, error: ErrorCode, wait_ms: int
) -> None:
    """During the delay or after it: joins get the error; the group is Empty, its generation the same."""
    coordinator = Coordinator(stores=False)
    numbers = [coordinator.send_join(), coordinator.send_join()]
    coordinator.advance(wait_ms)
    coordinator.complete(outcome)

    assert [coordinator.error(number) for number in numbers] == [error] * 2
    assert (coordinator.state, coordinator.generation, coordinator.describe().members) == ("Empty", 0, ())
    assert coordinator.machine.next_deadline_ms is None
    coordinator.stores = True
    again = coordinator.send_join()
    coordinator.advance(50)
    assert coordinator.joined(again).generation == 1


def test_the_empty_group_gives_its_marker_back() -> None:
    """The next member sets it again, without a new block."""
    coordinator = Coordinator()
    coordinator.leave(*coordinator.stable())
    coordinator.send_join()

    assert reservations(coordinator) == [(100, True), (100, True)]


def test_a_reservation_of_members_that_are_gone_changes_nothing() -> None:
    """All have left before it ended; the next members have their own."""
    coordinator = Coordinator(stores=False)
    member = coordinator.joined(coordinator.send_join(v4=True)).member_id
    coordinator.send_join(member)
    coordinator.leave(member)
    coordinator.advance(50)
    assert coordinator.state == "Empty"
    number = coordinator.send_join()
    coordinator.complete(WriteOutcome.ZOOKEEPER_MEMBERS)
    assert coordinator.error(number) is None
    coordinator.complete()
    coordinator.complete()
    coordinator.advance(50)

    assert coordinator.joined(number).generation == 2


def loaded() -> tuple[Coordinator, list[str]]:
    """A stable group of two that was loaded: its next generation is not reserved."""
    old = Coordinator()
    members = old.stable(2)
    record = [each.record for each in old.written if isinstance(each, WriteGroup)][-1]
    coordinator = Coordinator(stores=False, first_id=100)
    coordinator.load(record, epoch=1)
    return coordinator, members


def test_a_loaded_group_reserves_before_its_next_generation() -> None:
    """Without the marker, which it has; its members wait for the write."""
    coordinator, members = loaded()
    numbers = [coordinator.send_join(each) for each in members]
    assert [coordinator.error(number) for number in numbers] == [None, None]
    assert reservations(coordinator) == [(200, False)]
    coordinator.complete()

    assert [coordinator.joined(number).generation for number in numbers] == [101, 101]


def test_a_block_that_cannot_be_reserved_keeps_the_members() -> None:
    """They are answered with an error and may try again; new ones are gone."""
    coordinator, members = loaded()
    numbers = [coordinator.send_join(each) for each in members]
    new = coordinator.send_join()
    coordinator.complete(WriteOutcome.UNKNOWN)
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [coordinator.error(number) for number in (*numbers, new)] == [unavailable] * 3
    assert [each.member_id for each in coordinator.describe().members] == members
    assert coordinator.beat(members[0], 1) is ErrorCode.REBALANCE_IN_PROGRESS

    again = [coordinator.send_join(each) for each in members]
    coordinator.complete()
    assert [coordinator.joined(number).generation for number in again] == [101, 101]


def test_members_that_do_not_try_again_are_removed() -> None:
    """The join phase has its timer again."""
    coordinator, members = loaded()
    for each in members:
        coordinator.send_join(each)
    coordinator.complete(WriteOutcome.UNKNOWN)
    coordinator.advance(1000)

    assert coordinator.state == "Empty"
