"""Deleting a group: only without members, whole or resumable, and never an owner of a live session."""

from __future__ import annotations

import pytest

from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stores import MeddledStore, before_nth
from zkgroup.admin.groups import delete_group, plan_deletion
from zkgroup.errors import ConflictError, NotFoundError, PartlyDoneError, RefusedError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, Multi
from zkgroup.znodes.consumers import Offset, Owner
from zkgroup.znodes.deletions import DELETES_MAX
from zkgroup.znodes.group_history import GroupHistory
from zkgroup.znodes.group_records import Reset


@pytest.fixture
def idle(world: MemoryGroups) -> MemoryGroups:
    """A group that had members: owners' parents, offsets, a marker, and something unknown."""
    world.topic("orders", 2)
    world.member("g", "a", {"orders": 1})
    world.own_as_planned("g")
    world.leave("g", "a")
    world.commit("g", "orders", 0, 42)
    world.server.put(Reset.path("g", TopicPartition("orders", 0)), Reset(1, 1, "x").encode())
    world.server.put("/consumers/g/notes/1/deep", b"x")
    world.server.put(GroupHistory.path("g"), b"{}")
    return world


def _below(world: MemoryGroups) -> list[str]:
    ours = ("/consumers/g", GroupHistory.path("g"))
    return [path for path in world.server.tree() if path.startswith(ours)]


def test_an_idle_group_goes_with_everything_below_it(idle: MemoryGroups) -> None:
    """All znodes of the group go, its siblings stay."""
    idle.server.put("/consumers/other/ids")
    plan = plan_deletion(idle.ensemble, "g")

    removed = delete_group(idle.ensemble, plan)

    assert _below(idle) == []
    assert idle.server.find("/consumers/other/ids") is not None
    assert removed == len(plan.znodes) + 3 == plan.count
    assert plan.offsets == ((TopicPartition("orders", 0), 42),)


def test_a_group_with_a_member_is_refused_before_anything_is_written(idle: MemoryGroups) -> None:
    """Any child of `ids` refuses the deletion, and is named."""
    idle.member("g", "b", {"orders": 1})
    before = _below(idle)

    with pytest.raises(RefusedError, match="g_b"):
        delete_group(idle.ensemble, plan_deletion(idle.ensemble, "g"))

    assert _below(idle) == before


def test_a_member_that_joins_after_the_plan_is_refused_in_the_transaction(idle: MemoryGroups) -> None:
    """Atomic against a concurrent join: `delete(ids)` answers NotEmpty (recipes 8)."""
    plan = plan_deletion(idle.ensemble, "g")
    idle.member("g", "b", {"orders": 1})
    before = _below(idle)

    with pytest.raises(RefusedError, match="g_b"):
        delete_group(idle.ensemble, plan)

    assert _below(idle) == before


def test_a_living_owner_is_never_deleted(idle: MemoryGroups) -> None:
    """`delete(owners/<topic>)` fails while an owner lives; the error names the holder (recipes 8)."""
    stranger = idle.server.client("stranger").session
    assert stranger is not None
    idle.own("g", "orders", 1, "g_zombie-0", session=stranger.session_id)

    with pytest.raises(RefusedError, match=f"g_zombie-0 \\(session 0x{stranger.session_id:x}\\)"):
        delete_group(idle.ensemble, plan_deletion(idle.ensemble, "g"))

    assert idle.server.find(Owner.path("g", TopicPartition("orders", 1))) is not None


def test_a_large_deletion_that_is_stopped_is_partly_done_and_can_be_repeated(world: MemoryGroups) -> None:
    """Interrupted between two transactions means partly done; the next run finishes it (recipes 8)."""
    world.server.put("/consumers/g/ids")
    for number in range(DELETES_MAX + 5):
        world.server.put(Offset.path("g", TopicPartition("t", number)), b"1")
    left = []

    def join() -> None:
        world.member("g", "late", {"t": 1})
        left.append(len(_below(world)))

    store = MeddledStore(world.server.client(), before_nth(Multi, 2, join))

    with pytest.raises(PartlyDoneError, match=f"{DELETES_MAX} znodes are removed"):
        delete_group(world.operator(store), plan_deletion(world.ensemble, "g"))
    assert len(_below(world)) == left[0]
    world.leave("g", "late")
    delete_group(world.ensemble, plan_deletion(world.ensemble, "g"))

    assert _below(world) == []


def test_a_group_with_a_name_of_many_bytes_is_deleted_in_transactions_that_fit(world: MemoryGroups) -> None:
    """A ZooKeeper group may have a longer name than a coordinator takes (recipes 8)."""
    group = "g" * 2_000
    world.server.put(f"/consumers/{group}/ids")
    for number in range(600):
        world.server.put(Offset.path(group, TopicPartition("t", number)), b"1")

    delete_group(world.ensemble, plan_deletion(world.ensemble, group))

    assert world.server.find(f"/consumers/{group}") is None


def test_every_transaction_carries_the_guard(idle: MemoryGroups) -> None:
    """Each one begins with delete and create of `ids`; the last removes it with the group (recipes 8)."""
    start = len(idle.server.log)

    delete_group(idle.ensemble, plan_deletion(idle.ensemble, "g"))

    first, last = idle.server.log[start:]
    assert first.operations[:2] == (Delete("/consumers/g/ids", 0), Create("/consumers/g/ids", None))
    group = Delete("/consumers/g/ids", 0), Delete("/consumers/g", 0)
    assert last.operations == (*group, Delete(GroupHistory.path("g"), 0))


def test_a_znode_that_changed_since_the_plan_is_a_conflict(idle: MemoryGroups) -> None:
    """Versions are checked: data that another client wrote meanwhile is not deleted unseen."""
    plan = plan_deletion(idle.ensemble, "g")
    idle.commit("g", "orders", 0, 43)

    with pytest.raises(ConflictError, match="/consumers/g/offsets/orders/0"):
        delete_group(idle.ensemble, plan)

    assert idle.offset("g", "orders", 0) == "43"


def test_a_group_that_never_had_ids_can_be_deleted(world: MemoryGroups) -> None:
    """A tree that only tools wrote (offsets alone) is a group too."""
    world.commit("g", "orders", 0, 1)

    delete_group(world.ensemble, plan_deletion(world.ensemble, "g"))

    assert _below(world) == []


def test_a_missing_group_is_not_found(world: MemoryGroups) -> None:
    """A group that does not exist raises NotFoundError."""
    with pytest.raises(NotFoundError, match="/consumers/g"):
        plan_deletion(world.ensemble, "g")
