"""`group history`: what members and coordinators have kept, as one list."""

from __future__ import annotations

import pytest

from tests.worlds.coordinated_groups import CoordinatedGroups
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.errors import CorruptZnodeError, NotFoundError
from zkgroup.groups.history import RebalanceDescription, read_history
from zkgroup.znodes.group_history import REBALANCES_MAX, GroupHistory, RebalanceRecord
from zkgroup.znodes.group_records import View


def rebalance(time_ms: int, generation: int = 1, took_ms: int | None = 500) -> RebalanceRecord:
    return RebalanceRecord(
        time_ms=time_ms,
        generation=generation,
        reason="joined",
        joined=("g_a",),
        left=(),
        moved=None,
        took_ms=took_ms,
    )


def keep(world: MemoryGroups, *rebalances: RebalanceRecord) -> None:
    """What the members of `g` have kept."""
    history = GroupHistory(zxid=1, members={}, rebalances=rebalances)
    world.server.put(GroupHistory.path("g"), history.encode())


def test_newest_rebalance_took_as_long_as_its_slowest_member(world: MemoryGroups) -> None:
    """The views of its generation say so; a view of another generation and an unreadable one do not count."""
    for name in ("a", "b", "c"):
        world.member("g", name, {"orders": 1})
    keep(world, rebalance(1, generation=7, took_ms=100), rebalance(2, generation=8, took_ms=100))
    world.publish("g", "a", View(8, "i", "r", took_ms=2500))
    world.publish("g", "b", View(7, "i", "r", took_ms=9000))
    world.publish("g", "c", View(8, "i", "r"))

    _, rows = read_history(world.ensemble, "g")
    assert [row.took_s for row in rows] == [0.1, 2.5]
    assert rows[0] == RebalanceDescription(
        time_ms=1, generation=7, reason="joined", joined=("g_a",), left=(), moved=None, took_s=0.1
    )


def test_group_that_changed_its_protocol_has_one_history(world: MemoryGroups) -> None:
    """By time; what cannot be read of a coordinator's is left out; at most 200."""
    groups = CoordinatedGroups(world)
    groups.store("g")
    for number in range(REBALANCES_MAX):
        each = rebalance(1000 + number, number)
        world.server.put(RebalanceRecord.path(groups.slot("g"), "g", number), each.encode())
    world.server.put(RebalanceRecord.path(groups.slot("g"), "g", 999), b"?")
    keep(world, rebalance(1, 4), rebalance(5000, 5, took_ms=None))

    _, rows = read_history(world.ensemble, "g")
    assert [row.time_ms for row in rows] == [*range(1001, 1000 + REBALANCES_MAX), 5000]
    assert rows[-1].took_s is None


def test_group_without_a_history_and_no_group(world: MemoryGroups) -> None:
    """Nothing is known of the one; the other is an error, as is a history that cannot be read."""
    world.member("g", "a", {"orders": 1})
    assert read_history(world.ensemble, "g")[1] == ()
    with pytest.raises(NotFoundError, match="there is no group 'other'"):
        read_history(world.ensemble, "other")
    world.server.put(GroupHistory.path("g"), b"[]")
    with pytest.raises(CorruptZnodeError, match="the history of a group"):
        read_history(world.ensemble, "g")
