"""What a member's znodes look like to a third party on a real server."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent, ZnodeStat
from kazoo.security import OPEN_ACL_UNSAFE

from tests.waiting import PATIENCE_S, next_of
from tests.worlds.other_clients import kazoo_on
from zkgroup import GroupMember, GroupSettings, TopicPartition
from zkgroup.model.requests import Create
from zkgroup.testing.plugin import ServerTree
from zkgroup.znodes.brokers import Topic, brokers_path, topics_path
from zkgroup.znodes.consumers import Offset, Owner, Registration, group_path
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking

GROUP = "billing"
MEMBER = f"{GROUP}_ada"
ORDERS_0 = TopicPartition("orders", 0)
SETTINGS = GroupSettings(consumer_id="ada", initial_rebalance_delay_ms=0)


@pytest.fixture
def third_party(zk_server: ServerTree) -> Iterator[KazooClient]:
    """Somebody else's client, in the same chroot, with a topic of two partitions prepared."""
    ours = ZooKeeperClient(zk_server.address, ClientSettings())
    try:
        zk = Blocking(ours)
        zk.wait_connected()
        zk.create_missing(brokers_path(), topics_path())
        zk.multi(Create(Topic.path("orders"), Topic({0: (0,), 1: (0,)}).encode()))
    finally:
        ours.close()
    with kazoo_on(zk_server.address) as client:
        yield client


def test_leaf_is_never_seen_without_its_data(third_party: KazooClient, zk_server: ServerTree) -> None:
    """Whoever is told that a registration, owner or offset came to be reads its data at once."""
    leaves = [
        Registration.path(GROUP, MEMBER),
        Owner.path(GROUP, ORDERS_0),
        Offset.path(GROUP, ORDERS_0),
    ]
    created: queue.Queue[str] = queue.Queue()

    def told(event: WatchedEvent) -> None:
        created.put(event.path)

    for leaf in leaves:
        assert third_party.exists(leaf, watch=told) is None

    with GroupMember(zk_server.address, group=GROUP, topics=["orders"], settings=SETTINGS) as member:
        seen = {}
        for _ in leaves:
            path = next_of(created)
            seen[path] = third_party.get(path)
        member.wait_until_assigned(PATIENCE_S)

    assert sorted(seen) == sorted(leaves)
    assert all(data for data, _ in seen.values())
    registration, stat = seen[leaves[0]]
    assert Registration.decode(leaves[0], registration).subscription == {"orders": 1}
    assert stat.version == 0


def test_every_znode_of_a_member_is_open_by_default(third_party: KazooClient, zk_server: ServerTree) -> None:
    """Without other settings everything that a member creates has the ACL world:anyone:cdrwa."""
    with GroupMember(zk_server.address, group=GROUP, topics=["orders"], settings=SETTINGS) as member:
        member.wait_until_assigned(PATIENCE_S)
        member.commit({ORDERS_0: 7})

        acls = {path: third_party.get_acls(path)[0] for path in _below(third_party, group_path(GROUP))}

    assert Owner.path(GROUP, ORDERS_0) in acls
    assert {path: acl for path, acl in acls.items() if acl != OPEN_ACL_UNSAFE} == {}


def test_leaves_live_as_long_as_the_protocol_says(third_party: KazooClient, zk_server: ServerTree) -> None:
    """Registration and owners are ephemeral, of one session; parents and offsets persist."""
    with GroupMember(zk_server.address, group=GROUP, topics=["orders"], settings=SETTINGS) as member:
        member.wait_until_assigned(PATIENCE_S)

        stats = {path: _stat(third_party, path) for path in _below(third_party, group_path(GROUP))}

    views = f"{group_path(GROUP)}/views/"
    ephemeral = {path for path, stat in stats.items() if stat.ephemeralOwner and not path.startswith(views)}
    owners = {Owner.path(GROUP, TopicPartition("orders", number)) for number in (0, 1)}
    assert ephemeral == {Registration.path(GROUP, MEMBER), *owners}
    assert len({stats[path].ephemeralOwner for path in ephemeral}) == 1
    remaining = set(_below(third_party, group_path(GROUP)))
    assert Offset.path(GROUP, ORDERS_0) in remaining
    assert not ephemeral & remaining


def _stat(client: KazooClient, path: str) -> ZnodeStat:
    stat = client.exists(path)
    assert stat is not None, path
    return stat


def _below(client: KazooClient, path: str) -> Iterator[str]:
    for name in client.get_children(path):
        yield f"{path}/{name}"
        yield from _below(client, f"{path}/{name}")
