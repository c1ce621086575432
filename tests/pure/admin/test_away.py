"""Static members that are away, as an operator sees them (static members, recipes 24)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.worlds.memory_groups import OURS, MemoryGroups
from zkgroup.admin.change import UndoRecorder
from zkgroup.admin.groups import delete_group_change, plan_deletion
from zkgroup.admin.status import diagnose_groups
from zkgroup.admin.undo_records import UndoFolder
from zkgroup.exporter.group_cache import GroupCache
from zkgroup.groups.check import CheckLimits, check_groups
from zkgroup.groups.descriptions import GroupState, ProblemKind
from zkgroup.groups.reads import describe, list_groups, verify
from zkgroup.model.text import iso_time
from zkgroup.znodes.consumers import Registration, group_path, owners_path, static_path
from zkgroup.znodes.group_records import Freeze, StaticMember

GRACE_MS = 60_000
STATIC = {**OURS, "features": "static", "restart_grace_ms": str(GRACE_MS)}


def _group(world: MemoryGroups, *, is_marked: bool = True) -> int:
    """A group of three, of which `b` is away; until when."""
    world.topic("orders", 6)
    for name in ("a", "b", "c"):
        world.member("g", name, {"orders": 1}, STATIC)
    world.own_as_planned("g")
    kept = StaticMember(Registration({"orders": 1}, "static", 0, STATIC))
    world.parent(static_path("g"))
    for name in ("a", "b", "c"):
        world.server.put(StaticMember.path("g", f"g_{name}"), kept.encode())
    world.leave("g", "b")
    if is_marked:
        world.server.put(StaticMember.path("g", "g_b"), replace(kept, is_away=True).encode())
    return world.clock.wall_ms() + GRACE_MS


def test_an_away_member_is_described_with_the_end_of_its_grace(world: MemoryGroups) -> None:
    """It has no session; its partitions wait for it, so the group is stable, and they are not unowned."""
    until_ms = _group(world)
    found = describe(world.ensemble, "g")

    members = {one.member: (one.session_id is None, one.away_until_ms) for one in found.members}
    assert members == {"g_a": (False, None), "g_b": (True, until_ms), "g_c": (False, None)}
    waiting = [row.topic_partition.partition for row in found.partitions if row.problem is ProblemKind.AWAY]
    assert (found.state, waiting) == (GroupState.STABLE, [2, 3])
    _, (summary,), _ = list_groups(world.ensemble)
    assert (summary.unowned, summary.members) == (0, 2)
    assert (summary.away, summary.away_until_ms) == (2, until_ms)
    (told,) = diagnose_groups([summary], None, {})
    assert told.detail == f"2 partitions without owner, away until {iso_time(until_ms)}"


def test_verify_check_and_exporter_say_away_until(world: MemoryGroups) -> None:
    """Until the grace ends nobody consumes the partitions: that is a problem, and it is not `unowned`."""
    until = iso_time(_group(world))

    found = verify(world.ensemble, "g")
    assert {(one.kind, one.partition) for one in found.problems} == {
        (ProblemKind.AWAY, 2),
        (ProblemKind.AWAY, 3),
    }
    assert all(f"g_b is away until {until}" in one.detail for one in found.problems)
    _, (checked,) = check_groups(world.ensemble, ["g"], CheckLimits())
    assert [one.detail.partition(":")[0] for one in checked.reasons] == ["away", "away"]
    readings, _ = GroupCache().read(world.ensemble, ["g"], None)
    assert readings["g"].unowned == 0


def test_an_absence_that_nobody_has_noticed_has_no_end_yet(world: MemoryGroups) -> None:
    """Nor has it one in a group without members, which is empty as any other."""
    _group(world, is_marked=False)
    assert "no member has noticed it" in verify(world.ensemble, "g").problems[0].detail
    for name in ("a", "c"):
        world.leave("g", name)
    found = describe(world.ensemble, "g")
    assert (found.state, found.problems, len(found.members)) == (GroupState.EMPTY, (), 3)


@pytest.mark.parametrize("takeover", [False, True])
def test_in_a_frozen_group_its_partitions_wait_for_it_only_with_a_takeover(
    world: MemoryGroups, takeover: bool
) -> None:
    """Otherwise they wait for the end of the freeze: it gets none before, and nothing moves when its grace
    ends."""
    _group(world)
    marker = Freeze(reason="deploy", by="me", for_ms=1000, allows_takeover=takeover)
    world.server.put(owners_path("g"))  # counts the freeze
    world.server.put(Freeze.path("g"), marker.encode())

    kinds = {one.kind for one in verify(world.ensemble, "g").problems if one.partition in (2, 3)}
    assert kinds == {ProblemKind.AWAY if takeover else ProblemKind.FROZEN}
    _, (summary,), _ = list_groups(world.ensemble)
    assert (summary.away, summary.unowned) == ((2, 0) if takeover else (0, 2))


@pytest.mark.parametrize("extensions", [{}, OURS], ids=["jvm", "earlier version"])
def test_a_member_that_does_not_know_static_members_is_the_reason(
    world: MemoryGroups, extensions: dict[str, str]
) -> None:
    """While it is registered no grace holds: the partitions are expected at the others, and it is named."""
    _group(world)
    world.member("g", "z", {"payments": 1}, extensions)
    problems = verify(world.ensemble, "g").problems

    named = [one for one in problems if one.kind is ProblemKind.RESTART_GRACE_VOID]
    assert [one.found for one in named] == ["g_z"]
    assert "does not know static members" in named[0].detail
    assert {one.kind for one in problems} >= {ProblemKind.UNOWNED}
    assert ProblemKind.AWAY not in {one.kind for one in problems}


def test_a_group_of_which_all_members_are_away_can_be_deleted(world: MemoryGroups, tmp_path: Path) -> None:
    """An away member holds nothing; what is kept for it goes with the group."""
    _group(world)
    for name in ("a", "c"):
        world.leave("g", name)
    change = delete_group_change(world.ensemble, plan_deletion(world.ensemble, "g"))
    change.apply(UndoRecorder(UndoFolder(tmp_path), zookeeper="zk:2181"))
    assert world.server.find(group_path("g")) is None
