"""The checker that the demo of the coordinator runs: each planted fault is found by its invariant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.pure.history.test_coordinated_groups import (
    CONSUMER,
    FIRST,
    OPERATOR,
    P0,
    SECOND,
    CoordinatedHistory,
)
from tests.simulation.coordinator.assignments import assignment_bytes
from zkgroup.history import Change, Violation
from zkgroup.history.coordinated_group import CoordinatedGroupChecker
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import ids_path, offset_path
from zkgroup.znodes.coordinated_groups import (
    GroupChunk,
    GroupHeader,
    ProtocolMarker,
    StoredMember,
    chunks_of,
)

A, B = {"a": (0,), "b": (1,)}, {"a": (1,), "b": (0,)}


def header_of(generation: int, chunks: int = 0, checksum: int = 0) -> GroupHeader:
    return GroupHeader(
        generation=generation,
        reserved_generation=100,
        protocol_type="consumer",
        protocol="range",
        leader="a",
        state_timestamp_ms=1,
        chunks=chunks,
        checksum=checksum,
    )


def stored(generation: int, shares: Mapping[str, Sequence[int]]) -> list[Change]:
    """The changes that store a generation; `shares` are the partitions of each client."""
    members = [
        StoredMember(
            member_id=f"{client}-id",
            group_instance_id=None,
            client_id=client,
            client_host="/h",
            session_timeout_ms=1,
            rebalance_timeout_ms=1,
            protocols=(),
            assignment=assignment_bytes(TopicPartition("t", number) for number in numbers),
        )
        for client, numbers in shares.items()
    ]
    (chunk,), checksum = chunks_of(members)
    return [
        Change("create", GroupChunk.path(0, "g", generation, 0), chunk.encode()),
        Change("set", GroupHeader.path(0, "g"), header_of(generation, 1, checksum).encode()),
    ]


def left(generation: int) -> list[Change]:
    """The changes that store a generation without members."""
    return [
        Change("set", GroupHeader.path(0, "g"), header_of(generation).encode()),
        Change("delete", ProtocolMarker.path("g")),
    ]


def violations(history: CoordinatedHistory) -> list[Violation]:
    checker = CoordinatedGroupChecker("g", 0, "t", "java")
    checker.run(history.log)
    return checker.violations


def good() -> CoordinatedHistory:
    """Two generations of two members; a commit in each."""
    history = CoordinatedHistory()
    history.fence(FIRST)
    history.write(FIRST, *stored(1, A), Change("create", ProtocolMarker.path("g"), b"{}"))
    history.set_offset(FIRST, "a 7", 5)
    history.write(FIRST, *stored(2, B))
    history.set_offset(FIRST, "b 8", 6)
    return history


def test_a_group_that_is_handed_over_holds() -> None:
    """A failover, members that leave, ZooKeeper consumers that go on, and foreign metadata."""
    history = good()
    history.write(FIRST, Change("set", offset_path("g", P0), b"1"), refused=offset_path("g", P0))
    history.fence(SECOND)
    history.write(SECOND, *stored(101, B))
    history.set_offset(SECOND, "b 9", 7)
    history.set_offset(SECOND, "b of another program", 7)
    history.write(SECOND, *left(102))
    history.write(CONSUMER, Change("create", f"{ids_path('g')}/z", b"{}"))
    history.write(CONSUMER, Change("set", offset_path("g", P0), b"9"))

    assert violations(history) == []


def generation_goes_back(history: CoordinatedHistory) -> None:
    history.write(FIRST, *stored(1, A))


def generation_with_two_assignments(history: CoordinatedHistory) -> None:
    history.write(FIRST, *stored(2, A))


def generation_without_its_chunk(history: CoordinatedHistory) -> None:
    history.write(FIRST, stored(3, B)[1])


def partition_of_two_members(history: CoordinatedHistory) -> None:
    history.write(FIRST, *stored(3, {"a": (0,), "b": (0, 1)}))


def commit_of_no_owner(history: CoordinatedHistory) -> None:
    history.set_offset(FIRST, "a 9", 7)


def commit_of_an_old_assignment(history: CoordinatedHistory) -> None:
    history.write(FIRST, *stored(3, B))
    history.set_offset(FIRST, "b 8", 7)


def foreign_metadata_of_no_owner(history: CoordinatedHistory) -> None:
    history.set_offset(FIRST, "a b", 7)


def commit_without_members(history: CoordinatedHistory) -> None:
    history.write(FIRST, *left(3))
    history.set_offset(FIRST, "b 8", 7)


def former_coordinator_stores(history: CoordinatedHistory) -> None:
    history.fence(SECOND)
    history.write(FIRST, *stored(3, B))


def former_coordinator_commits(history: CoordinatedHistory) -> None:
    history.fence(SECOND)
    history.set_offset(FIRST, "b 8", 7)


def consumer_beside_members(history: CoordinatedHistory) -> None:
    history.write(CONSUMER, Change("create", f"{ids_path('g')}/z", b"{}"))


def members_without_a_marker(history: CoordinatedHistory) -> None:
    history.write(FIRST, Change("delete", ProtocolMarker.path("g")))


def another_member_goes_back(history: CoordinatedHistory) -> None:
    history.write(FIRST, *stored(3, A))
    history.set_offset(FIRST, "a 9", 4)


def consumer_goes_back(history: CoordinatedHistory) -> None:
    history.write(FIRST, *left(3))
    history.write(CONSUMER, Change("set", offset_path("g", P0), b"3"))


def removed_with_members(history: CoordinatedHistory) -> None:
    history.delete(FIRST, ProtocolMarker.path("g"), GroupHeader.path(0, "g"))


def offset_deleted(history: CoordinatedHistory) -> None:
    history.delete(FIRST, offset_path("g", P0))


def offset_deleted_by_an_operator(history: CoordinatedHistory) -> None:
    history.delete(OPERATOR, offset_path("g", P0))


@pytest.mark.parametrize(
    ("mistake", "rule", "detail"),
    [
        (generation_goes_back, "S23", "generation 1 after 2"),
        (generation_with_two_assignments, "S23", "generation 2 has two assignments"),
        (generation_without_its_chunk, "S23", "generation 3 has no assignment"),
        (partition_of_two_members, "S24", "it belongs to a and b in generation 3"),
        (commit_of_no_owner, "S25", "7 by a, no owner in generation 2"),
        (commit_of_an_old_assignment, "S25", "of generation 2 is stored in generation 3"),
        (foreign_metadata_of_no_owner, "S25", "7 by a, no owner in generation 2"),
        (commit_without_members, "S25", "of generation 2 is stored in a group without members"),
        (former_coordinator_stores, "S26", "is written by session 0xb, the slot is of 0xc"),
        (former_coordinator_commits, "S26", "is written by session 0xb, the slot is of 0xc"),
        (consumer_beside_members, "S27", "ZooKeeper members z beside those of a coordinator"),
        (members_without_a_marker, "S27", "stored members without the marker"),
        (another_member_goes_back, "S28", "goes back from 6 ('b 8') to 4 ('a 9')"),
        (consumer_goes_back, "S28", "goes back from 6 ('b 8') to 3 (None)"),
        (removed_with_members, "S30", "the group is removed with its members"),
        (offset_deleted, "S31", "/consumers/g/offsets/t/0 is deleted"),
        (offset_deleted_by_an_operator, "S31", "/consumers/g/offsets/t/0 is deleted"),
    ],
)
def test_each_planted_fault_has_its_name(
    mistake: Callable[[CoordinatedHistory], None], rule: str, detail: str
) -> None:
    """One mistake at the end of a good log, with the numbers of the generations."""
    history = good()
    assert violations(history) == []

    mistake(history)
    found = violations(history)

    assert {each.invariant for each in found} == {rule}
    assert detail in found[0].detail
