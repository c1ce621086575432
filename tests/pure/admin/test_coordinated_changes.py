"""Changes of groups of Kafka's group protocol: refused beside members, or behind a fence (recipes 20, 22)."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.coordinated_groups import CoordinatedGroups, stored_member
from tests.worlds.memory_groups import MemoryGroups
from zkgroup import Admin
from zkgroup.admin.change import AdminChange
from zkgroup.errors import ConfigError, ConflictError, NotFoundError, RefusedError
from zkgroup.model import TopicPartition
from zkgroup.znodes.coordinated_groups import GroupHeader, OffsetAndMetadata, ProtocolMarker, SlotOwner

ORDERS_0 = TopicPartition("orders", 0)
ADA = stored_member("ada", ORDERS_0)


@pytest.fixture
def groups(world: MemoryGroups) -> CoordinatedGroups:
    """A topic with an offset of group `g`; no broker leads a slot."""
    world.topic("orders", 1)
    world.commit("g", "orders", 0, 10)
    world.server.put("/consumers/g/ids")
    made = CoordinatedGroups(world)
    made.lead(1)
    return made


@pytest.fixture
def admin(world: MemoryGroups, tmp_path: Path) -> Any:
    """Over an open client."""
    client = world.server.client("admin")
    client.address = "zk:2181"
    with Admin(client=client, undo_folder=tmp_path / "undo", clock=world.clock) as made:
        yield made
    client.close()


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """`act` comes between the plan of a change and its write."""
    apply = AdminChange.apply

    def act_and_apply(change: Any, recorder: Any, **how: Any) -> Any:
        act()
        return apply(change, recorder, **how)

    monkeypatch.setattr(AdminChange, "apply", act_and_apply)


CHANGES: dict[str, Callable[..., Any]] = {
    "set": lambda admin, **how: admin.set_offsets("g", {ORDERS_0: 5}, **how),
    "reset": lambda admin, **how: admin.reset_offsets("g", "-5", **how),
    "import": lambda admin, **how: admin.import_offsets("/consumers/g/offsets/orders/0:3\n", **how),
    "delete": lambda admin, **how: admin.delete_offsets("g", ["orders"]),
    "delete the group": lambda admin, **how: admin.delete_group("g"),
    "nudge": lambda admin, **how: admin.nudge_group("g"),
}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", [name for name in CHANGES if name != "nudge"])
def test_a_change_is_refused_beside_clients(
    world: MemoryGroups, groups: CoordinatedGroups, admin: Admin, name: str, force: bool
) -> None:
    """Also with force: they would not notice it. The refusal names them; nothing is written or recorded."""
    groups.store("g", ADA)
    before = world.server.tree()

    with pytest.raises(
        RefusedError, match="/consumers/g/protocol: expected no member of g, found ada, client"
    ):
        CHANGES[name](admin, force=force)

    assert world.server.tree() == before
    assert admin.list_undos() == ()


def test_clients_are_not_nudged(groups: CoordinatedGroups, admin: Admin) -> None:
    """They do not read ZooKeeper."""
    groups.store("g", ADA)

    with pytest.raises(RefusedError, match="do not read ZooKeeper"):
        admin.nudge_group("g")


def test_a_marker_alone_refuses_and_names_the_command(groups: CoordinatedGroups, admin: Admin) -> None:
    """Clients may be joining at this moment; if their coordinator has ended, an operator takes it off."""
    groups.store("g", marked=True)

    with pytest.raises(RefusedError, match=r"clients are joining, or .* `zkgroup coordinator release g`"):
        admin.set_offsets("g", {ORDERS_0: 5})


@pytest.mark.parametrize("name", [name for name in CHANGES if name != "nudge"])
def test_a_client_that_joins_meanwhile_refuses_the_change(
    world: MemoryGroups,
    groups: CoordinatedGroups,
    admin: Admin,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """The check is in the transaction: the marker comes after the plan, before the write."""
    groups.store("g")
    meanwhile(monkeypatch, lambda: groups.store("g", ADA, generation=2))

    with pytest.raises(RefusedError, match=r"expected no member of g, found ada"):
        CHANGES[name](admin)

    assert admin.list_undos() == ()
    assert world.offset("g", "orders", 0) == "10"


def test_offsets_of_an_idle_group_are_changed_and_put_back(
    world: MemoryGroups, groups: CoordinatedGroups, admin: Admin
) -> None:
    """Straight in ZooKeeper, with and without a coordinator; the marker is not left behind (ADR 0038)."""
    groups.store("g", generation=3)
    groups.broker(1)
    header = groups.header("g")

    admin.set_offsets("g", {ORDERS_0: 5})
    changed = world.offset("g", "orders", 0)
    admin.undo()

    assert (changed, world.offset("g", "orders", 0)) == ("5", "10")
    assert not groups.is_marked("g")
    assert groups.header("g") == header


def test_a_release_lets_zookeeper_members_join(
    world: MemoryGroups, groups: CoordinatedGroups, admin: Admin
) -> None:
    """The marker and the members go, the numbers of generations stay, and the fence of the slot is set."""
    groups.store("g", ADA, generation=7)
    slot = SlotOwner.path(groups.slot("g"))
    before = world.server.find(slot)
    assert before is not None

    done = admin.release_group("g")

    header, after = groups.header("g"), world.server.find(slot)
    assert after is not None
    assert (done.executed, done.plan.members) == (True, ("ada",))
    assert not groups.is_marked("g")
    assert (header.generation, header.reserved_generation, header.chunks) == (7, 100, 0)
    assert (header.leader, header.protocol_type) == (None, "consumer")
    assert after.stat.version == before.stat.version + 1
    assert SlotOwner.decode(slot, after.data) == SlotOwner(-1, 1)
    assert admin.describe_group("g").members == ()
    with pytest.raises(NotFoundError, match="no marker"):
        admin.release_group("g")


def test_a_release_is_refused_while_a_broker_leads_the_slot(
    world: MemoryGroups, groups: CoordinatedGroups, admin: Admin
) -> None:
    """It takes the marker off itself."""
    groups.store("g", ADA)
    groups.broker(1)
    before = world.server.tree()

    with pytest.raises(RefusedError, match="broker 1 leads slot"):
        admin.release_group("g")

    assert world.server.tree() == before


@pytest.mark.parametrize("change", ["state", "slot", "header"])
def test_a_release_loses_to_a_broker_that_takes_the_slot(
    world: MemoryGroups,
    groups: CoordinatedGroups,
    admin: Admin,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    """Whatever it has written by then: the state, the fence, or a new generation."""
    groups.store("g", ADA)
    slot = groups.slot("g")

    def taken() -> None:
        if change == "state":
            groups.lead(2)
        elif change == "slot":
            world.server.put(SlotOwner.path(slot), SlotOwner(2, 2).encode())
        else:
            groups.store("g", ADA, generation=9)

    meanwhile(monkeypatch, taken)
    with pytest.raises(ConflictError, match="changed since it was read"):
        admin.release_group("g")

    assert groups.is_marked("g")
    assert groups.header("g").chunks > 0


def test_a_release_of_a_slot_that_was_never_loaded(
    world: MemoryGroups, groups: CoordinatedGroups, admin: Admin
) -> None:
    """Neither the state nor the fence is there: the fence is created."""
    groups.store("g", ADA)
    groups.drop(SlotOwner.path(groups.slot("g")))

    admin.release_group("g")

    assert world.server.find(SlotOwner.path(groups.slot("g"))) is not None
    assert not groups.is_marked("g")


def test_a_release_of_a_group_without_a_stored_generation(
    world: MemoryGroups, groups: CoordinatedGroups, admin: Admin
) -> None:
    """Its header only has offsets below it: it stays as it is, and the marker goes."""
    header = GroupHeader.path(groups.slot("g"), "g")
    world.server.put(header)
    world.server.put(ProtocolMarker.path("g"), ProtocolMarker(1, 1).encode())

    admin.release_group("g")

    found = world.server.find(header)
    assert found is not None
    assert (found.data, found.stat.version) == (None, 0)
    assert not groups.is_marked("g")


def test_a_group_is_deleted_where_no_broker_leads_its_slot(
    world: MemoryGroups, groups: CoordinatedGroups, admin: Admin
) -> None:
    """Its header, metadata and orphaned chunks go behind the fence of the slot, then its offsets."""
    groups.store("g", ADA)
    groups.store("g", generation=2, marked=False)
    groups.drop("/consumers/g/protocol")
    slot = groups.slot("g")
    metadata = OffsetAndMetadata(offset=10, leader_epoch=0, metadata="m", commit_timestamp_ms=1)
    world.server.put(OffsetAndMetadata.path(slot, "g", ORDERS_0), metadata.encode())
    fence = world.server.find(SlotOwner.path(slot))
    assert fence is not None

    preview = admin.delete_group("g", dry_run=True)
    done = admin.delete_group("g")

    after = world.server.find(SlotOwner.path(slot))
    assert after is not None
    assert done.written == preview.plan.count
    assert world.server.find(GroupHeader.path(slot, "g")) is None
    assert world.server.find("/consumers/g") is None
    assert after.stat.version == fence.stat.version + 1
    admin.undo()
    assert world.offset("g", "orders", 0) == "10"


def test_a_group_of_the_slots_alone_is_deleted(
    world: MemoryGroups, groups: CoordinatedGroups, admin: Admin
) -> None:
    """Nothing of it is left below `/consumers`."""
    groups.store("h")
    groups.drop("/consumers/h/ids")
    groups.drop("/consumers/h")

    admin.delete_group("h")

    assert [row.group for row in admin.list_groups()] == ["g"]


def test_a_topic_with_clients_is_not_deleted(
    world: MemoryGroups, groups: CoordinatedGroups, admin: Admin
) -> None:
    """As with ZooKeeper members on it."""
    groups.store("g", ADA)

    with pytest.raises(RefusedError, match="found ada of g"):
        admin.delete_topic("orders")


@pytest.mark.parametrize("name", ["my group", "app:v1", "billing@eu", "gr\u00fc\u00dfe", "con,ma"])
def test_groups_are_administered_under_every_name_that_a_coordinator_serves(
    world: MemoryGroups, groups: CoordinatedGroups, admin: Admin, name: str
) -> None:
    """Kafka's clients may call a group what a ZooKeeper consumer may not; hints quote it for the shell."""
    world.commit(name, "orders", 0, 10)
    groups.store(name, ADA)

    assert admin.describe_group(name).group == admin.verify_group(name).group == name
    assert [one.group for one in admin.describe_coordinator(name).groups] == [name]
    with pytest.raises(RefusedError, match="expected no member"):
        admin.delete_group(name)
    groups.store(name, marked=True, generation=2)
    with pytest.raises(RefusedError) as refused:
        admin.nudge_group(name)
    assert name in str(refused.value)
    with pytest.raises(RefusedError) as refused:
        admin.delete_group(name)
    assert f"zkgroup coordinator describe {shlex.quote(name)}`" in str(refused.value)
    admin.release_group(name)
    saved = admin.export_offsets(name)
    admin.set_offsets(name, {ORDERS_0: 5})
    admin.import_offsets(saved)
    assert world.offset(name, "orders", 0) == "10"
    admin.reset_offsets(name, "-4")
    assert world.offset(name, "orders", 0) == "6"
    admin.delete_group(name)
    assert world.server.find(f"/consumers/{name}") is None
    assert world.server.find(GroupHeader.path(groups.slot(name), name)) is None
    with pytest.raises(ConfigError, match="there is no such group, and only Kafka's clients could join it"):
        admin.import_offsets(saved)
    admin.import_offsets(saved, allow_missing=True)
    assert world.offset(name, "orders", 0) == "10"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2Fb", "a\n", "\U0001f600"])
def test_names_that_no_group_can_have_are_refused(groups: CoordinatedGroups, admin: Admin, name: str) -> None:
    """Before anything is read."""
    for command in (
        admin.describe_group,
        admin.describe_coordinator,
        admin.delete_group,
        admin.release_group,
    ):
        with pytest.raises(ConfigError, match=r"^group"):
            command(name)
