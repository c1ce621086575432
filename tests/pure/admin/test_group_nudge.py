"""Nudging a group: every member reads the group again, nothing else changes, and not too often."""

from __future__ import annotations

import pytest

from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stepped_group import GROUP, SteppedGroup, effects_of, is_stable
from zkgroup.admin.groups import NUDGE_EVERY_MS, nudge, nudge_operations, plan_nudge
from zkgroup.consumer.machine.events import Revoke
from zkgroup.errors import ConflictError, NotFoundError, RefusedError
from zkgroup.model.requests import ListChildren
from zkgroup.znodes.consumers import ids_path, views_path


@pytest.fixture
def group(world: MemoryGroups) -> MemoryGroups:
    world.topic("orders", 2)
    world.member("g", "a", {"orders": 1})
    world.own_as_planned("g")
    return world


def test_nudge_leaves_no_trace_below_ids(group: MemoryGroups) -> None:
    """The child that fires the watches is made and removed in one transaction."""
    before = group.server.find(ids_path("g"))

    nudge(group.ensemble, plan_nudge(group.ensemble, "g"))

    after = group.server.find(ids_path("g"))
    assert before is not None
    assert after is not None
    assert group.ensemble.zk.children(ids_path("g"))[0] == ("g_a",)
    assert after.stat.cversion == before.stat.cversion + 2


def test_nudge_is_rate_limited(group: MemoryGroups) -> None:
    """Within ten seconds of the last one it is refused, and afterwards it works again."""
    nudge(group.ensemble, plan_nudge(group.ensemble, "g"))

    group.pass_time((NUDGE_EVERY_MS - 1) / 1000)
    with pytest.raises(RefusedError, match="nudged less than 10 s ago"):
        nudge(group.ensemble, plan_nudge(group.ensemble, "g"))

    group.pass_time(1)
    nudge(group.ensemble, plan_nudge(group.ensemble, "g"))


def test_of_two_nudges_at_once_one_is_refused(group: MemoryGroups) -> None:
    """Both operators saw the same state: the second transaction fails at the version of `views`."""
    mine, theirs = plan_nudge(group.ensemble, "g"), plan_nudge(group.ensemble, "g")
    nudge(group.ensemble, mine)

    with pytest.raises(ConflictError, match="views"):
        nudge(group.ensemble, theirs)


@pytest.mark.parametrize("name", ["nobody", "left"])
def test_nudge_needs_members(group: MemoryGroups, name: str) -> None:
    """A group that does not exist, or has no members, cannot be nudged."""
    group.server.put(ids_path("left"))

    with pytest.raises(NotFoundError, match="expected members"):
        plan_nudge(group.ensemble, name)


def test_nudged_members_read_again_and_keep_their_partitions() -> None:
    """Each member reads the group anew; owners and their tokens stay, nothing is revoked."""
    stage = SteppedGroup()
    members = [stage.join(name, run_ms=None) for name in ("a", "b")]
    stage.run(3000)
    before = [stage.owner(number) for number in range(4)]
    asked = [len(member.asked) for member in members]

    stage.server.put(views_path(GROUP), b"")
    views = stage.server.find(views_path(GROUP))
    assert views is not None
    stage.foreign_write(*nudge_operations(GROUP, views.stat.version))
    stage.run(3000)

    assert all(is_stable(member) for member in members)
    assert None not in before
    assert [stage.owner(number) for number in range(4)] == before
    for member, count in zip(members, asked, strict=True):
        again = [r for r in member.asked[count:] if isinstance(r, ListChildren) and r.path == ids_path(GROUP)]
        assert again != []
        assert effects_of(member, Revoke) == []
