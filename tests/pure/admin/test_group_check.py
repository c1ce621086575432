"""`group check`: the reasons, by the limits, and the verdicts over a window."""

from __future__ import annotations

from collections.abc import Sequence

from tests.worlds.acls import UNREADABLE
from tests.worlds.coordinated_groups import CoordinatedGroups, stored_member
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.groups.check import CheckLimits, ReasonKind, check_groups, judged
from zkgroup.groups.lag_verdict import READS, LagVerdict, LagWindows
from zkgroup.groups.reads import describe, describe_groups, list_groups
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import group_path

LAG, AGE, VERDICT, UNOWNED, PROBLEM, MISSING = (
    *(ReasonKind.LAG, ReasonKind.AGE, ReasonKind.VERDICT),
    *(ReasonKind.UNOWNED, ReasonKind.PROBLEM, ReasonKind.MISSING),
)
ORDERS = [TopicPartition("orders", number) for number in range(3)]
Found = list[tuple[str, ReasonKind, int | None]]


def _check(
    world: MemoryGroups,
    *groups: str,
    ends: dict[TopicPartition, int] | None = None,
    max_lag: int | None = None,
    max_age_ms: int | None = None,
) -> Found:
    """Group, kind and partition of each reason."""
    limits = CheckLimits(max_lag=max_lag, max_age_ms=max_age_ms)
    _, found = check_groups(world.ensemble, groups or None, limits, lambda _: ends or {})
    return [(one.group, reason.kind, reason.partition) for one in found for reason in one.reasons]


def _owned(world: MemoryGroups, *offsets: int) -> None:
    """A group whose one member owns a partition for each offset, and has committed it now."""
    world.topic("orders", len(offsets))
    world.member("g", "a", {"orders": 1}, {})
    world.own_as_planned("g")
    for number, offset in enumerate(offsets):
        world.commit("g", "orders", number, offset)


def test_a_lag_above_its_limit_or_unknown_is_a_reason(world: MemoryGroups) -> None:
    """A lag that equals the limit is none, and without a limit none is."""
    _owned(world, 5, 5, 5)
    ends = {ORDERS[0]: 10, ORDERS[1]: 11}

    assert _check(world, ends=ends) == []
    assert _check(world, ends=ends, max_lag=5) == [("g", LAG, 1), ("g", LAG, 2)]


def test_a_partition_without_a_committed_offset_has_no_lag(world: MemoryGroups) -> None:
    """A consumer of Kafka 0.8 commits nothing before it has consumed something."""
    _owned(world, -1)

    assert _check(world, ends={ORDERS[0]: 10}, max_lag=0, max_age_ms=1) == []


def test_an_old_commit_is_a_reason_unless_there_is_no_lag(world: MemoryGroups) -> None:
    """A partition whose lag is unknown may have some."""
    _owned(world, 5, 5, 5)
    ends = {ORDERS[0]: 5, ORDERS[1]: 6}

    world.clock.advance(60_000)
    assert _check(world, ends=ends, max_age_ms=60_000) == []
    world.clock.advance(1)
    assert _check(world, ends=ends, max_age_ms=60_000) == [("g", AGE, 1), ("g", AGE, 2)]


def test_a_claim_is_no_commit(world: MemoryGroups) -> None:
    """The owner has claimed the partition, which wrote the offset, and has committed nothing since."""
    world.topic("orders", 1)
    world.commit("g", "orders", 0, 5)
    world.member("g", "a", {"orders": 1})
    world.own_as_planned("g")
    world.clock.advance(60_001)

    assert _check(world, ends={ORDERS[0]: 6}, max_age_ms=60_000) == [("g", AGE, 0)]


def test_problems_and_groups_that_are_not_there_are_reasons(world: MemoryGroups) -> None:
    """Of groups that are named; among all groups none is missing."""
    _owned(world, 5, 5)
    world.leave("g", "a")
    world.member("g", "b", {"orders": 1}, {})
    world.raw_member("h", "c", b"no registration")
    world.server.put(group_path("hidden"))
    world.server.set_acl(group_path("hidden"), UNREADABLE)
    expected = [("g", UNOWNED, 0), ("g", UNOWNED, 1), ("h", PROBLEM, None), ("hidden", PROBLEM, None)]

    assert _check(world) == sorted(expected, key=lambda reason: reason[0])
    assert _check(world, "none", "g", "g")[1:] == [("g", UNOWNED, 1), ("none", MISSING, None)]


def test_a_group_of_kafkas_protocol_is_checked_alike(world: MemoryGroups) -> None:
    """Its partitions, offsets and problems are reasons as those of ZooKeeper consumers."""
    world.topic("orders", 2)
    groups = CoordinatedGroups(world)
    groups.store("g", stored_member("ada", ORDERS[0]))
    world.commit("g", "orders", 0, 5)

    found = _check(world, ends={ORDERS[0]: 10}, max_lag=4)

    assert ("g", UNOWNED, 1) in found
    assert ("g", LAG, 0) in found
    assert ("g", PROBLEM, None) in found  # no broker leads its slot


def test_a_window_of_ten_reads_has_verdicts(world: MemoryGroups) -> None:
    """The consumer of partition 0 commits at each pause, that of partition 1 at none; 2 has no lag."""
    _owned(world, 5, 5, 5)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        world.clock.advance(round(seconds * 1000))
        world.commit("g", "orders", 0, 5 + len(pauses))

    def ends(asked: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {ORDERS[0]: 100 + 10 * len(pauses), ORDERS[1]: 6, ORDERS[2]: 5}

    operator = world.operator(world.server.client("monitor"), pause)
    _, (found,) = check_groups(operator, None, CheckLimits(window_ms=90_000), ends)

    assert pauses == [10.0] * (READS - 1)
    assert [(reason.kind, reason.partition) for reason in found.reasons] == [(VERDICT, 0), (VERDICT, 1)]
    assert [reason.detail.split(": ")[:2] for reason in found.reasons] == [
        ["orders-0", "warn"],
        ["orders-1", "stop"],
    ]


def test_a_verdict_that_no_log_end_gives_is_a_reason(world: MemoryGroups) -> None:
    """Past bug: while no broker answered, every consumer kept up."""
    _owned(world, 5, 5)

    _, (found,) = check_groups(world.ensemble, None, CheckLimits(window_ms=90), lambda _: {ORDERS[0]: 5})

    assert [(reason.kind, reason.partition) for reason in found.reasons] == [(VERDICT, 1)]


def test_windows_of_groups_that_are_gone_are_forgotten(world: MemoryGroups) -> None:
    """The offset of the new group of that name is below the former one, which is no rewind."""
    windows = LagWindows()
    ends = {ORDERS[0]: 100}
    _owned(world, 50)
    described, _ = describe_groups(world.ensemble, ["g"], lambda _: ends)

    assert judged(described, windows)["g"].partitions[0].verdict is None
    assert judged({}, windows) == {}
    world.commit("g", "orders", 0, 5)
    described, _ = describe_groups(world.ensemble, ["g"], lambda _: ends)
    assert judged(described, windows)["g"].partitions[0].verdict is None
    world.commit("g", "orders", 0, 4)
    described, _ = describe_groups(world.ensemble, ["g"], lambda _: ends)
    assert judged(described, windows)["g"].partitions[0].verdict is LagVerdict.REWIND


def test_one_read_describes_what_it_knows(world: MemoryGroups) -> None:
    """No lag is ok; a group is ok if each of its partitions is."""
    _owned(world, 5, 5)
    first, second = ({ORDERS[0]: 5, ORDERS[1]: end} for end in (5, 6))

    for read, verdict in ((lambda _: first, LagVerdict.OK), (lambda _: second, None)):
        rows = describe(world.ensemble, "g", read).partitions
        _, (summary,), _ = list_groups(world.ensemble, read)
        assert [row.verdict for row in rows] == [LagVerdict.OK, verdict]
        assert summary.verdict is verdict
