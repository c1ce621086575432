"""A tree with every kind of znode that ZooKeeper has, walked and compared with the server's own files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl

from tests.waiting import PATIENCE_S
from zkgroup.audit.inputs.one_tree import walk
from zkgroup.model import Znode
from zkgroup.zkfiles.exports import ExportedZnode
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.records import Acl
from zkgroup.zkfiles.tree import Tree
from zkgroup.zookeeper import ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking

ROOT = "/walked"


def plant(client: KazooClient) -> None:
    """Writes data of all kinds, ACLs, sequences, changes, deletions, and an ephemeral of an open session."""
    world = make_acl("world", "anyone", all=True)
    client.create(ROOT, b"")
    client.create(f"{ROOT}/grüße", b"\x00\xff")
    client.create(f"{ROOT}/empty", b"")
    client.create(f"{ROOT}/rights", b"1", acl=[world, make_digest_acl("me", "secret", read=True)])
    client.set_acls(f"{ROOT}/grüße", [world])
    client.create(f"{ROOT}/parent", b"")
    for number in range(5):
        client.create(f"{ROOT}/parent/s-", b"%d" % number, sequence=True)
    client.delete(f"{ROOT}/parent/s-0000000002")
    for number in range(3):
        client.set(f"{ROOT}/parent/s-0000000003", b"again %d" % number)
    client.create(f"{ROOT}/ephemeral", b"e", ephemeral=True)


def walk_and_compare(address: str, folder: Path) -> Sequence[ExportedZnode]:
    """Walks a tree at rest and checks that the server's files have the same tree at that zxid."""
    with ZooKeeperClient(address) as client, Blocking(client, PATIENCE_S) as zk:
        found, znodes = walk(zk)
    past = History(folder).tree_at(zxid=found.zxid_before)
    assert past.account.zxid == found.zxid_before
    assert past.account.first_bad_zxid is None
    assert found.unreadable == ()
    moved = set(found.changed)  # by others who use this server
    assert not any(path.startswith(ROOT) for path in moved)
    walked = {one.path: (Znode(one.path, one.data, one.stat), one.acl) for one in znodes}
    assert {path: walked[path] for path in set(walked) - moved} == {
        path: _seen(past.tree, path) for path in set(past.tree.paths()) - moved
    }
    assert [one.stored() for one in znodes if one.path.startswith(ROOT)] == [
        past.tree.stored(one.path) for one in znodes if one.path.startswith(ROOT)
    ]
    return znodes


def _seen(tree: Tree, path: str) -> tuple[Znode | None, Acl | None]:
    stored = tree.stored(path)
    return tree.znode(path), None if stored is None else stored.acl
