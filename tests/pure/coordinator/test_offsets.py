"""Commits and fetches of offsets; groups that are described, listed and deleted; retention."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.coordinators import GROUP, PARTITION, Coordinator
from zkgroup.coordinator.effects import FetchOffsetsResult, ReadOffsets, WriteOffsets
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata
from zkgroup.coordinator.retention import expired_offsets, is_over
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
ILLEGAL, REBALANCE = ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("state", "member", "generation", "error"),
    [
        ("none", "", -1, NONE),
        ("none", "x", -1, NONE),
        ("none", "x", 1, ILLEGAL),
        ("Empty", "", -1, NONE),
        ("Empty", "x", -1, NONE),
        ("Empty", "x", 2, UNKNOWN),
        ("Stable", "", -1, UNKNOWN),
        ("Stable", "x", 1, UNKNOWN),
        ("Stable", "known", 0, ILLEGAL),
        ("Stable", "known", 2, ILLEGAL),
        ("Stable", "known", -1, ILLEGAL),
        ("Stable", "known", 1, NONE),
        ("PreparingRebalance", "", -1, UNKNOWN),
        ("PreparingRebalance", "known", 1, NONE),
        ("PreparingRebalance", "known", 2, ILLEGAL),
        ("CompletingRebalance", "", -1, UNKNOWN),
        ("CompletingRebalance", "x", 1, UNKNOWN),
        ("CompletingRebalance", "known", 0, ILLEGAL),
        ("CompletingRebalance", "known", 1, REBALANCE),
        ("Dead", "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_commit_is_checked(state: str, member: str, generation: int, error: ErrorCode) -> None:
    """What is refused is not written."""
    coordinator = Coordinator()
    known = ""
    if state in ("Stable", "PreparingRebalance"):
        known = coordinator.stable()[0]
    elif state == "CompletingRebalance":
        known = coordinator.completing()[0]
    elif state in ("Empty", "Dead"):
        coordinator.leave(*coordinator.stable())
    if state == "PreparingRebalance":
        coordinator.send_join()
    if state == "Dead":
        coordinator.stores = False
        coordinator.delete()

    assert coordinator.commit(known if member == "known" else member, generation) is error
    written = [each for each in coordinator.written if isinstance(each, WriteOffsets)]
    assert len(written) == (error is NONE)
    assert all(each.refuse_zookeeper_members is (generation < 0) for each in written)


def test_a_first_join_can_commit_at_generation_0() -> None:
    """Kafka's oddity: a member whose first join waits is one."""
    coordinator = Coordinator()
    member = coordinator.joined(coordinator.send_join(v4=True)).member_id
    coordinator.send_join(member)

    assert coordinator.commit(member, 0) is NONE


def test_a_generation_that_is_over_cannot_commit() -> None:
    """The fence of Kafka's consumers."""
    coordinator = Coordinator()
    leader, follower = coordinator.stable(2)
    assert coordinator.commit(follower, 1) is NONE
    assert coordinator.rejoin(leader, follower) == 2

    assert coordinator.commit(follower, 1) is ILLEGAL
    assert coordinator.commit(follower, 2) is NONE


def test_partitions_are_refused_one_by_one() -> None:
    """Metadata that is too long, counted in characters, and unknown partitions."""
    coordinator = Coordinator()
    good, long, wide, unknown = (TopicPartition("t", number) for number in range(4))
    number = coordinator.send_commit(
        offsets={
            good: OffsetAndMetadata(offset=-5),
            long: OffsetAndMetadata(offset=1, metadata="x" * 4097),
            wide: OffsetAndMetadata(offset=1, metadata="\u00e4" * 4096),
            unknown: OffsetAndMetadata(offset=1),
        },
        unknown=[unknown],
    )
    answer: Any = coordinator.answers[number]
    (write,) = coordinator.written

    assert answer.errors == {
        good: NONE,
        long: ErrorCode.OFFSET_METADATA_TOO_LARGE,
        wide: NONE,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert isinstance(write, WriteOffsets)
    assert set(write.offsets) == {good, wide}


def test_an_unknown_partition_keeps_its_own_error() -> None:
    """The others have the group's."""
    coordinator = Coordinator()
    number = coordinator.send_commit(
        "x", 1, offsets={PARTITION: OffsetAndMetadata(offset=1)}, unknown=[PARTITION]
    )
    answer: Any = coordinator.answers[number]

    assert answer.errors == {PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (WriteOutcome.STORED, NONE),
        (WriteOutcome.NOT_OWNER, ErrorCode.NOT_COORDINATOR),
        (WriteOutcome.CONFLICT, ErrorCode.NOT_COORDINATOR),
        (WriteOutcome.UNKNOWN, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (WriteOutcome.TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (WriteOutcome.ZOOKEEPER_MEMBERS, UNKNOWN),
    ],
)
def test_a_commit_is_answered_when_it_is_written(outcome: WriteOutcome, error: ErrorCode) -> None:
    """With what became of it."""
    coordinator = Coordinator(stores=False)
    number = coordinator.send_commit()
    assert number not in coordinator.answers
    coordinator.complete(outcome)

    answer: Any = coordinator.answers[number]
    assert answer.errors == {PARTITION: error}


def test_offsets_are_read_without_a_membership() -> None:
    """Also of a group that is unknown, which ZooKeeper consumers may have."""
    coordinator = Coordinator()
    found = coordinator.fetch(group="never seen")

    assert isinstance(found, ReadOffsets)
    assert (found.group_id, found.partitions) == ("never seen", (PARTITION,))
    assert coordinator.list().groups == ()


@pytest.mark.parametrize("require_stable", [True, False])
def test_a_commit_in_flight_makes_a_partition_unstable(require_stable: bool) -> None:
    """For those that ask for stable offsets, until all commits of it have ended."""
    coordinator = Coordinator(stores=False)
    coordinator.send_commit()
    coordinator.send_commit()
    unstable = []
    for _ in range(3):
        found = coordinator.fetch(require_stable=require_stable)
        assert not isinstance(found, FetchOffsetsResult)
        assert isinstance(found, ReadOffsets)
        unstable.append(len(found.unstable))
        if coordinator.unwritten:
            coordinator.complete()

    assert unstable == ([1, 1, 0] if require_stable else [0, 0, 0])


def test_a_group_is_described() -> None:
    """In full while it is stable; an unknown one is Dead, which is no error."""
    coordinator = Coordinator()
    unknown = coordinator.describe("never seen")
    assert (unknown.error, unknown.state, unknown.members) == (NONE, "Dead", ())

    members = coordinator.completing(2)
    completing = coordinator.describe()
    assert (completing.state, completing.protocol) == ("CompletingRebalance", "")
    assert [(each.metadata, each.assignment) for each in completing.members] == [(b"", b"")] * 2
    coordinator.send_sync(members[0], 1, dict.fromkeys(members, b"a"))

    stable = coordinator.describe()
    assert (stable.state, stable.protocol_type, stable.protocol) == ("Stable", "consumer", "range")
    assert [(each.member_id, each.metadata, each.assignment) for each in stable.members] == [
        (each, b"r", b"a") for each in members
    ]
    coordinator.send_join()
    assert [each.metadata for each in coordinator.describe().members] == [b""] * 3


def test_groups_are_listed_by_state() -> None:
    """Those in any state without a filter."""
    coordinator = Coordinator()
    coordinator.commit(group="offsets only")
    coordinator.stable()
    found = {
        filtered: [each.group for each in coordinator.list(*filtered).groups]
        for filtered in ((), ("Stable",), ("Stable", "Empty"), ("Dead",))
    }

    assert found == {
        (): ["offsets only", GROUP],
        ("Stable",): [GROUP],
        ("Stable", "Empty"): ["offsets only", GROUP],
        ("Dead",): [],
    }


def test_a_group_is_deleted_when_it_is_empty() -> None:
    """68 with members, 69 for one that is unknown; its generation begins anew."""
    coordinator = Coordinator()
    assert coordinator.delete() is ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = coordinator.stable()
    assert coordinator.delete() is ErrorCode.NON_EMPTY_GROUP
    coordinator.leave(member)

    assert coordinator.delete() is NONE
    assert coordinator.list().groups == ()
    assert coordinator.stable()
    assert coordinator.generation == 1


def test_nobody_joins_while_a_group_is_deleted() -> None:
    """J5: 15 until the deletion is known; then a new group begins."""
    coordinator = Coordinator()
    coordinator.leave(*coordinator.stable())
    pending = coordinator.joined(coordinator.send_join(v4=True)).member_id
    coordinator.stores = False
    assert coordinator.delete() is None
    assert coordinator.join() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.delete() is ErrorCode.GROUP_ID_NOT_FOUND
    coordinator.complete()

    assert coordinator.join(pending) is UNKNOWN
    assert coordinator.join() is None


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (WriteOutcome.UNKNOWN, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (WriteOutcome.NOT_OWNER, ErrorCode.NOT_COORDINATOR),
        (WriteOutcome.ZOOKEEPER_MEMBERS, ErrorCode.NON_EMPTY_GROUP),
    ],
)
def test_a_group_that_could_not_be_deleted_is_there_again(outcome: WriteOutcome, error: ErrorCode) -> None:
    """With its generation, and no generation is given again."""
    coordinator = Coordinator()
    coordinator.leave(*coordinator.stable())
    coordinator.stores = False
    coordinator.delete()
    coordinator.complete(outcome)
    assert [
        each.error for each in coordinator.answers.values() if type(each).__name__ == "RemoveGroupResult"
    ] == [  # type: ignore[union-attr]
        error
    ]

    assert (coordinator.state, coordinator.generation) == ("Empty", 2)
    coordinator.stores = True
    number = coordinator.send_join()
    coordinator.advance(50)
    assert coordinator.joined(number).generation > 2


OFFSETS = {
    TopicPartition("a", 0): OffsetAndMetadata(offset=1, commit_timestamp_ms=1000),
    TopicPartition("b", 0): OffsetAndMetadata(offset=1, commit_timestamp_ms=2000),
    TopicPartition("c", 0): OffsetAndMetadata(offset=1, commit_timestamp_ms=0, expire_timestamp_ms=9000),
}


@pytest.mark.parametrize(
    ("kind", "state", "subscribed", "now_ms", "expired"),
    [
        (None, "Empty", None, 1999, ""),
        (None, "Empty", None, 2000, "a"),
        (None, "Empty", None, 3000, "a b"),
        (None, "Empty", None, 9000, "a b c"),
        ("consumer", "Empty", None, 5999, ""),
        ("consumer", "Empty", None, 6000, "a b"),
        ("consumer", "Stable", {"a"}, 3000, "b"),
        ("consumer", "Stable", {"a"}, 9000, "b c"),
        ("consumer", "Stable", set(), 2000, "a"),
        ("consumer", "Stable", None, 9000, ""),
        ("connect", "Stable", {"a"}, 9000, ""),
        ("connect", "Empty", None, 6000, "a b"),
    ],
)
def test_offsets_expire(kind: str | None, state: str, subscribed: Any, now_ms: int, expired: str) -> None:
    """From when the group became empty, or from the commit; never of topics that a member subscribes to."""
    group = GroupMetadata("g")
    group.protocol_type, group.state = kind, ConsumerGroupState(state)
    group.state_timestamp_ms = 5000

    found = expired_offsets(group, OFFSETS, subscribed, now_ms, 1000)
    assert sorted(each.topic for each in found) == expired.split()


def test_an_offset_that_is_being_committed_does_not_expire() -> None:
    """And its group is not over."""
    group = GroupMetadata("g")
    assert is_over(group, has_offsets=False)
    group.pending_commits[TopicPartition("a", 0)] = 1

    assert {each.topic for each in expired_offsets(group, OFFSETS, None, 5000, 1000)} == {"b"}
    assert not is_over(group, has_offsets=False)


@pytest.mark.parametrize("state", ["PreparingRebalance", "Stable", "Dead"])
def test_only_an_empty_group_is_over(state: str) -> None:
    """Offsets keep it as well."""
    group = GroupMetadata("g")
    assert not is_over(group, has_offsets=True)
    group.state = ConsumerGroupState(state)

    assert not is_over(group, has_offsets=False)
