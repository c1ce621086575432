"""Who may join a group, read its offsets, or watch it."""

from __future__ import annotations

import pytest

from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.group_access import (
    GroupAccessPlan,
    GroupRights,
    group_access_change,
    plan_group_access,
    set_group_access,
)
from zkgroup.errors import AccessDeniedError, ConfigError, NotFoundError, RefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.reader import read_offsets
from zkgroup.model import StaticSubscription
from zkgroup.model.requests import Create, SetData
from zkgroup.testing.memory_zookeeper.tree import digest_id
from zkgroup.znodes.group_history import GroupHistory
from zkgroup.zookeeper import Digest, Secret

ADA, BOB, EVE, ZOE = (Digest(name, Secret(name)) for name in ("ada", "bob", "eve", "zoe"))
OFFSET = "/consumers/g/offsets/t/0"


def identity(user: Digest) -> str:
    return f"digest:{digest_id(user)}"


class GroupAccessWorld:
    """Group g with a member of zkgroup and an offset; Ada, Bob and Eve are connected."""

    def __init__(self) -> None:
        self.groups = MemoryGroups()
        self.server = self.groups.server
        self.groups.topic("t", 1)
        self.groups.commit("g", "t", 0, 5)
        self.groups.member("g", "m", StaticSubscription({"t": 1}))
        self.ada, self.bob, self.eve, self.anyone = (
            self.groups.operator(self.server.client(name, auth=user))
            for name, user in (("ada", ADA), ("bob", BOB), ("eve", EVE), ("anyone", None))
        )

    def give(self, rights: GroupRights | None, by: Ensemble | None = None) -> int:
        by = by or self.ada
        return set_group_access(by, self.plan(rights, by))

    def plan(self, rights: GroupRights | None = None, by: Ensemble | None = None) -> GroupAccessPlan:
        return plan_group_access(by or self.ada, "g", rights)


@pytest.fixture
def world() -> GroupAccessWorld:
    return GroupAccessWorld()


def test_members_join_readers_read_offsets_and_watchers_watch(world: GroupAccessWorld) -> None:
    """And nobody else does anything; what is created has the same rights, also of a watcher's offsets."""
    rights = GroupRights(members=(identity(BOB),), offset_readers=(identity(EVE),))
    assert world.give(rights) == len(world.plan().paths) + world.plan().znodes
    world.bob.zk.multi(
        Create("/consumers/g/ids/bob", b"", ephemeral=True),
        Create("/consumers/g/offsets/t/1", b"7"),
        SetData(OFFSET, b"6", -1),
    )

    assert world.eve.zk.read("/consumers/g/offsets/t/1").data == b"7"
    assert world.eve.zk.children("/consumers/g/offsets")[0] == ("t",)
    assert [offset.znode.data for offset in read_offsets(world.eve, "g").offsets.values()] == [b"6", b"7"]
    with pytest.raises(AccessDeniedError):
        read_offsets(world.anyone, "g")
    for stranger, path in ((world.eve, "/consumers/g/ids/bob"), (world.anyone, OFFSET)):
        with pytest.raises(AccessDeniedError):
            stranger.zk.read(path)
    for write in (Create("/consumers/g/ids/eve", b""), SetData(OFFSET, b"0", -1)):
        with pytest.raises(AccessDeniedError):
            world.eve.zk.multi(write)
    assert world.plan().paths == ()

    world.give(GroupRights(members=(identity(BOB),), watchers=(identity(EVE),)), world.bob)
    assert world.eve.zk.children("/consumers/g/ids")[0] == ("g_m", "bob")
    with pytest.raises(AccessDeniedError):
        world.eve.zk.multi(SetData(OFFSET, b"0", -1))


def test_the_rights_are_read_from_the_acls(world: GroupAccessWorld) -> None:
    """So the undo gives the former ones again, here to everyone."""
    given = GroupRights(members=(identity(BOB),), offset_readers=(identity(ZOE),), watchers=(identity(EVE),))
    plan = world.plan(given)
    undo = group_access_change(world.ada, plan).undo
    world.give(given)

    now = world.plan().now
    assert now.members == tuple(sorted((identity(ADA), identity(BOB))))
    assert (now.offset_readers, now.watchers) == ((identity(ZOE),), (identity(EVE),))
    assert getattr(undo, "undo_command", None) == (
        *("acl", "zookeeper", "apply", "g"),
        *("--member", "world:anyone"),
    )
    world.give(GroupRights(members=("world:anyone",)))
    assert {world.server.acl(path) for path in world.server.tree() if "/g" in path} == {
        ((31, "world", "anyone"),)
    }


def test_znodes_of_members_without_credentials_are_found_and_closed(world: GroupAccessWorld) -> None:
    """Without identities only those with another ACL than the group are set."""
    world.give(GroupRights(members=(identity(BOB),), watchers=("world:anyone",)))
    world.server.put("/consumers/g/owners/t/0", b"x")
    world.server.put(GroupHistory.path("g"), b"{}")
    history = GroupHistory.path("g")
    assert world.plan().paths == (history, "/consumers/g/owners/t", "/consumers/g/owners/t/0")
    assert world.give(None) == 5
    assert world.plan().paths == ()


def test_a_group_with_jvm_members_cannot_be_closed(world: GroupAccessWorld) -> None:
    """They log in to no server; opening the group and looking at it are allowed."""
    world.groups.member("g", "jvm", StaticSubscription({"t": 1}), extensions={})
    path = "/consumers/g/ids/g_jvm"
    assert world.plan().uncloseable == (path,)
    with pytest.raises(RefusedError, match=f"{path}: expected members that log in"):
        group_access_change(world.ada, world.plan(GroupRights(members=(identity(BOB),))))
    assert group_access_change(world.ada, world.plan(GroupRights(members=("world:anyone",)))).is_effective


@pytest.mark.parametrize("name", ["ada", "sasl:", "kerberos:ada", "world:all"])
def test_an_identity_that_no_server_knows_is_refused(world: GroupAccessWorld, name: str) -> None:
    """Before anything is read."""
    with pytest.raises(ConfigError, match=f"identity '{name}'"):
        world.plan(GroupRights(watchers=(name,)))


@pytest.mark.parametrize("name", ["digest:ada", "digest:ada:canary", "digest:ada:"])
def test_a_digest_without_its_hash_is_refused(world: GroupAccessWorld, name: str) -> None:
    """It would close the group to Ada, and show everyone what may be her password."""
    with pytest.raises(ConfigError, match=r"identity digest:ada: expected digest:NAME:HASH") as caught:
        world.plan(GroupRights(members=(name,)))
    assert "canary" not in str(caught.value)


def test_a_scheme_that_the_servers_lack_is_named(world: GroupAccessWorld) -> None:
    """Before the credentials, which may be there."""
    with pytest.raises(ConfigError, match=r"^expected schemes that the servers have, found x509; or"):
        world.give(GroupRights(members=("x509:CN=a",)))


def test_who_may_not_is_told_so(world: GroupAccessWorld) -> None:
    """Without credentials, without a right, and of a group that does not exist."""
    rights = GroupRights(members=(identity(BOB),))
    with pytest.raises(ConfigError, match="found no credentials"):
        world.give(rights, world.anyone)
    world.give(GroupRights(members=(identity(BOB),), watchers=("world:anyone",)))
    with pytest.raises(AccessDeniedError, match="0 znodes set; 7 znodes may not be changed"):
        world.give(rights, world.eve)
    world.give(rights)
    with pytest.raises(AccessDeniedError, match="expected a right to read the ACL of the group"):
        world.plan(by=world.eve)
    with pytest.raises(NotFoundError):
        plan_group_access(world.ada, "none")
