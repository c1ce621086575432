"""Copying, renaming and pruning groups: only without members, never over a commit, undone whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worlds.coordinated_groups import CoordinatedGroups, stored_member
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stores import MeddledStore, before_nth
from zkgroup.admin.client.admin import Admin
from zkgroup.admin.group_copies import plan_rename, rename_group
from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.errors import ConfigError, ConflictError, NotFoundError, PartlyDoneError, RefusedError
from zkgroup.groups.reader import group_names
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Multi
from zkgroup.znodes.group_records import Freeze

DAY_S = 86_400
ADA = stored_member("ada", TopicPartition("orders", 0))
BY = ChangeRecord(undo_id="1", command="group rename g h", user="me")


@pytest.fixture
def idle(world: MemoryGroups) -> MemoryGroups:
    """A group with offsets of two topics, one of them gone, and what is no offset."""
    world.topic("orders", 3)
    world.server.put("/consumers/g/ids")
    world.server.put("/consumers/g/owners/orders")
    world.commit("g", "orders", 0, 10)
    world.commit("g", "orders", 1, b"007")
    world.commit("g", "orders", 2, -1)
    world.commit("g", "gone", 0, 5)
    return world


@pytest.fixture
def admin(idle: MemoryGroups, tmp_path: Path) -> Admin:
    return Admin(client=idle.server.client("admin"), clock=idle.clock, undo_folder=tmp_path)


def _offsets(world: MemoryGroups, group: str) -> dict[str, bytes | None]:
    prefix = f"/consumers/{group}/offsets/"
    tree = world.server.tree()
    return {
        path.removeprefix(prefix): one.data
        for path, one in tree.items()
        if path.startswith(prefix) and path.count("/") == 5
    }


def _frozen(world: MemoryGroups, group: str, days: int = 1) -> None:
    """As a freeze leaves a group whose members have all left."""
    for _ in range(2):  # the version of `owners` counts it
        world.server.put(f"/consumers/{group}/owners")
    freeze = Freeze(reason="deploy", by="me", for_ms=days * DAY_S * 1000, allows_takeover=False)
    world.server.put(Freeze.path(group), freeze.encode())


def test_a_copy_has_the_committed_offsets_of_what_exists(idle: MemoryGroups, admin: Admin) -> None:
    """A member of the first group does not matter; offsets that the second has alone stay."""
    idle.member("g", "a", {"orders": 1})
    idle.server.put("/consumers/h/ids")
    idle.commit("h", "orders", 0, 99)
    idle.commit("h", "orders", 2, 3)

    done = admin.copy_group("g", "h")

    assert _offsets(idle, "h") == {"orders/0": b"10", "orders/1": b"7", "orders/2": b"3"}
    assert done.notes[0] == "gone-0: no longer there, left out"
    assert done.notes[1].startswith("g has members, which go on")
    admin.undo()
    assert _offsets(idle, "h") == {"orders/0": b"99", "orders/2": b"3"}


def test_a_rename_moves_every_offset_byte_by_byte(idle: MemoryGroups, admin: Admin) -> None:
    """What is left of the former group goes; the undo gives it its name again."""
    before = _offsets(idle, "g")

    done = admin.rename_group("g", "h")

    assert done.written == len(before) == 4
    assert _offsets(idle, "h") == before
    assert idle.server.find("/consumers/g") is None
    assert {"ids", "owners", "offsets"} <= {
        path.split("/")[3] for path in idle.server.tree() if path.startswith("/consumers/h/")
    }
    admin.undo()
    assert _offsets(idle, "g") == before
    assert idle.server.find("/consumers/h") is None


def _member(world: MemoryGroups, group: str) -> None:
    world.member(group, "late", {"orders": 1})


REFUSED: dict[str, tuple[Callable[[MemoryGroups], None], type[Exception], str]] = {
    "members": (lambda world: _member(world, "g"), RefusedError, "g_late"),
    "members of the other": (lambda world: _member(world, "h"), RefusedError, "h_late"),
    "offsets of the other": (lambda world: world.commit("h", "orders", 1, 1), RefusedError, "orders-1"),
    "a freeze": (lambda world: _frozen(world, "g"), RefusedError, "frozen until .*deploy.*unfreeze g"),
    "a freeze of the other": (lambda world: _frozen(world, "h"), RefusedError, "unfreeze h"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_rename_that_is_refused_is_refused_in_the_preview(
    idle: MemoryGroups, admin: Admin, name: str
) -> None:
    """With what is in the way; nothing is written."""
    given, error, told = REFUSED[name]
    given(idle)
    before = idle.server.tree()

    for dry_run in (True, False):
        with pytest.raises(error, match=told):
            admin.rename_group("g", "h", dry_run=dry_run)

    assert idle.server.tree() == before


@pytest.mark.parametrize("group", ["g", "h"])
def test_a_member_that_joins_meanwhile_refuses_the_transaction(idle: MemoryGroups, group: str) -> None:
    """Of either group, by the guards of recipes 8."""
    idle.server.put("/consumers/h/ids")
    plan = plan_rename(idle.ensemble, "g", "h")
    _member(idle, group)
    before = _offsets(idle, "g")

    with pytest.raises(RefusedError, match=f"{group}_late"):
        rename_group(idle.ensemble, plan, BY)

    assert (_offsets(idle, "g"), _offsets(idle, "h")) == (before, {})


def test_a_commit_meanwhile_is_never_lost(idle: MemoryGroups) -> None:
    """Before the transaction it refuses it; after it the former group keeps what is new."""
    plan = plan_rename(idle.ensemble, "g", "h")
    idle.commit("g", "orders", 0, 11)
    with pytest.raises(ConflictError, match="changed since it was read"):
        rename_group(idle.ensemble, plan, BY)
    assert _offsets(idle, "h") == {}

    again = plan_rename(idle.ensemble, "g", "h")
    late = MeddledStore(idle.server.client(), before_nth(Multi, 2, lambda: idle.commit("g", "orders", 0, 12)))
    with pytest.raises(PartlyDoneError, match="the offsets are those of h now"):
        rename_group(idle.operator(late), again, BY)

    assert _offsets(idle, "h")["orders/0"] == b"11"
    assert _offsets(idle, "g") == {"orders/0": b"12"}


def test_names_are_checked(admin: Admin) -> None:
    """Members of the group must be able to have the new name; the same name is a mistake."""
    for name in ("g", "my group", "a/b"):
        for call in (admin.copy_group, admin.rename_group):
            with pytest.raises(ConfigError):
                call("g", name)
    for call in (admin.copy_group, admin.rename_group):
        with pytest.raises(NotFoundError, match="there is no group 'none'"):
            call("none", "h")


def test_a_group_of_a_coordinator_is_copied_and_renamed(world: MemoryGroups, tmp_path: Path) -> None:
    """Its clients refuse it; without them its offsets move, and what the slot has of it is deleted."""
    groups = CoordinatedGroups(world)
    groups.lead(1)
    admin = Admin(client=world.server.client("admin"), clock=world.clock, undo_folder=tmp_path)
    world.topic("orders", 1)
    world.commit("my group", "orders", 0, 10)
    groups.store("my group", ADA)

    admin.copy_group("my group", "my copy")
    world.commit("my copy", "orders", 0, 11)
    for pair in (("my group", "h"), ("my copy", "my group")):
        with pytest.raises(RefusedError, match="ada"):
            admin.rename_group(*pair)
    with pytest.raises(RefusedError, match="ada"):
        admin.copy_group("my copy", "my group")
    groups.store("my group", generation=2, marked=False)
    groups.drop("/consumers/my group/protocol")
    admin.rename_group("my group", "his group")

    assert group_names(world.ensemble) == ("his group", "my copy")
    assert _offsets(world, "his group") == {"orders/0": b"10"}


def test_groups_that_are_idle_for_long_are_pruned(idle: MemoryGroups, admin: Admin) -> None:
    """Not those with a member, a freeze, or a newer commit; the undo gives each its offsets."""
    for name in ("fresh", "used", "held"):
        idle.server.put(f"/consumers/{name}/ids")
        idle.commit(name, "orders", 0, 1)
    _frozen(idle, "held", days=900)
    idle.member("used", "a", {"orders": 1})
    idle.server.put("/consumers/empty/ids")
    idle.pass_time(90 * DAY_S)
    idle.commit("fresh", "orders", 0, 2)
    committed = {place: data for place, data in _offsets(idle, "g").items() if data != b"-1"}

    preview = admin.prune_groups(90 * DAY_S, dry_run=True)
    done = admin.prune_groups(90 * DAY_S)

    assert [one.plan.group for one in preview] == [one.plan.group for one in done] == ["empty", "g"]
    assert group_names(idle.ensemble) == ("fresh", "held", "used")
    admin.undo(done[1].undo_id)
    assert _offsets(idle, "g") == committed
    with pytest.raises(NotFoundError, match="empty"):
        admin.prune_groups(DAY_S, ["empty"])


def test_offsets_are_deleted_by_age(idle: MemoryGroups, admin: Admin) -> None:
    """Those that were last written before; of one topic, or of all."""
    idle.pass_time(DAY_S)
    idle.commit("g", "orders", 0, 11)
    idle.pass_time(1)

    assert admin.delete_offsets("g", ["orders"], older_than_s=2 * DAY_S).plan.effective == ()
    admin.delete_offsets("g", ["orders"], older_than_s=DAY_S)
    assert sorted(_offsets(idle, "g")) == ["gone/0", "orders/0"]
    admin.delete_offsets("g", older_than_s=DAY_S)
    assert sorted(_offsets(idle, "g")) == ["orders/0"]
    with pytest.raises(ConfigError, match="or an age"):
        admin.delete_offsets("g")
