"""The rules of a server's replay, and what a client would see of the tree."""

from __future__ import annotations

import pytest

from tests.pure.zkfiles.digests import naive_digest
from tests.worlds.server_history import OPEN_ACL, START_MS, STEP_MS, ServerHistory, seen_znodes, znodes_of
from zkgroup.zkfiles.records import (
    CONTAINER_OWNER,
    AclEntry,
    Operation,
    StoredStat,
    Transaction,
    TransactionType,
    lifetime_of,
    owner_of,
)
from zkgroup.zkfiles.tree import Tree

READ = (AclEntry(1, "world", "anyone"),)


def record(zxid: int, *operations: Operation, kind: int | None = None, session: int = 1) -> Transaction:
    return Transaction(zxid, session, 1, zxid * 10, operations[0].type if kind is None else kind, operations)


def create(path: str, parent_cversion: int | None, data: bytes = b"", **more: object) -> Operation:
    return Operation(TransactionType.CREATE, path, data, OPEN_ACL, parent_cversion=parent_cversion, **more)  # type: ignore[arg-type]


def stat(tree: Tree, path: str) -> StoredStat:
    found = tree.stored(path)
    assert found is not None
    return found.stat


def test_a_client_sees_the_eleven_names() -> None:
    """Data and stat of a znode are what a client reads: lengths, children counted, a session as owner."""
    world = ServerHistory()
    world.create("/a", b"one")
    world.create("/a/b", session=7, ephemeral=True)
    world.create("/a/c")
    world.delete("/a/c")
    world.set("/a", b"three")
    a, b = world.tree.znode("/a"), world.tree.znode("/a/b")
    assert a is not None
    assert b is not None
    assert a.data == b"three"
    assert a.stat._asdict() == {
        "czxid": 1,
        "mzxid": 5,
        "ctime": START_MS,
        "mtime": START_MS + 4 * STEP_MS,
        "version": 1,
        "cversion": 3,
        "aversion": 0,
        "ephemeral_owner": 0,
        "data_length": 5,
        "children_count": 1,
        "pzxid": 4,
    }
    assert b.stat.ephemeral_owner == 7
    assert (world.tree.zxid, world.tree.time_ms) == (5, START_MS + 4 * STEP_MS)


def test_containers_and_times_to_live_show_no_owner() -> None:
    """The stored owner of containers and TTL znodes holds their kind; a client sees 0."""
    world = ServerHistory()
    world.create("/c", kind=TransactionType.CREATE_CONTAINER)
    world.create("/t", kind=TransactionType.CREATE_TTL, ttl_ms=1234)
    assert stat(world.tree, "/c").ephemeral_owner == CONTAINER_OWNER
    assert stat(world.tree, "/t").ephemeral_owner & 0xFF_FFFF_FFFF == 1234
    for path in ("/c", "/t"):
        seen = world.tree.znode(path)
        assert seen is not None
        assert seen.stat.ephemeral_owner == 0
    world.delete("/c", session=0, kind=TransactionType.DELETE_CONTAINER)
    assert "/c" not in world.tree


@pytest.mark.parametrize(
    ("owner", "lifetime"),
    [
        (0, None),
        (7, "session"),
        (-(2**63), "container"),
        (-(2**56) + 1, "ttl"),
        (-(2**56) + 2**40 - 1, "ttl"),
        (-(2**56) + 2**40, "session"),  # of server 255: a part of its clock is where a time has zeros
        (-(2**56) - 1, "session"),
        (-1, "session"),
    ],
)
def test_what_an_owner_means(owner: int, lifetime: str | None) -> None:
    """0, a session, a container or a time to live, told by the number alone."""
    assert lifetime_of(owner) == lifetime


def test_the_owner_that_a_create_makes() -> None:
    """A plain create stores owner 0, an ephemeral one the session of its record."""
    assert owner_of(create("/a", 1), 7) == 0
    assert owner_of(create("/a", 1, is_ephemeral=True), 7) == 7


def test_a_create_without_a_parent_is_ignored() -> None:
    """A record that creates below a path that is not there leaves the tree as it was."""
    tree = Tree()
    tree.apply(record(1, create("/a/b", 1)))
    assert tree.paths() == ["/", "/zookeeper", "/zookeeper/quota"]


def test_a_create_of_what_is_there_keeps_data_and_takes_the_acl_and_the_parents_count() -> None:
    """A create replayed over its own result keeps data and czxid, and sets ACL and the parent's stat."""
    tree = Tree()
    tree.apply(record(1, create("/a", 1, b"first")))
    tree.apply(record(2, create("/a", 5, b"second")._replace(acl=READ)))
    there = tree.stored("/a")
    assert there is not None
    assert (there.data, there.acl, there.stat.czxid) == (b"first", READ, 1)
    assert (stat(tree, "/").cversion, stat(tree, "/").pzxid) == (5, 2)


@pytest.mark.parametrize(
    "kind",
    [TransactionType.CREATE2, TransactionType.CREATE_CONTAINER, TransactionType.CREATE_TTL],
)
def test_every_kind_of_create_counts_for_the_parent_of_what_is_there(kind: int) -> None:
    """A server that is restarted does so for `create` only, and then has another tree than before."""
    tree = Tree()
    tree.apply(record(1, create("/a", 1)))
    tree.apply(record(2, create("/a", 5)._replace(type=kind, ttl_ms=9)))
    assert (stat(tree, "/").cversion, stat(tree, "/").pzxid) == (5, 2)


def test_a_znode_that_is_created_anew_keeps_the_children_of_its_later_life() -> None:
    """A snapshot that began before a delete can hold what came behind the create that follows it."""
    world = ServerHistory()
    world.create("/a")
    begun = world.zxid
    world.delete("/a")
    world.create("/a", b"new")
    world.create("/a/b")
    tree = Tree.from_znodes(znodes_of(world.tree))
    for transaction in world.transactions[begun:]:
        tree.apply(transaction)
    assert seen_znodes(tree) == seen_znodes(world.tree)


def test_a_znode_that_is_later_than_the_record_is_left_alone() -> None:
    """Before 3.6 a session's end does not name what goes, and the znode may be another's by then."""
    world = ServerHistory(lists=False)
    world.open(7)
    world.create("/a", session=7, ephemeral=True)
    begun = world.zxid
    world.set("/a", b"old")
    world.set_acl("/a", READ)
    world.close(7)
    world.create("/a", b"new", session=8, ephemeral=True)
    tree = Tree.from_znodes(znodes_of(world.tree))
    for transaction in world.transactions[begun:]:
        tree.apply(transaction)
    assert seen_znodes(tree) == seen_znodes(world.tree)
    assert tree.first_difference(world.tree, except_below="/zookeeper/") is None


def test_a_parents_count_never_falls() -> None:
    """A create that carries cversion 2 below a parent at 3 leaves 3 and its pzxid, and makes the znode."""
    tree = Tree()
    tree.apply(record(5, create("/a", 3)))
    tree.apply(record(6, create("/b", 2)))
    assert (stat(tree, "/").cversion, stat(tree, "/").pzxid) == (3, 5)
    assert "/b" in tree


@pytest.mark.parametrize("count", [None, -1])
def test_a_create_from_before_3_4_counts_on(count: int | None) -> None:
    """A create that carries no cversion of its parent, or -1, adds one to what the parent has."""
    tree = Tree()
    tree.apply(record(1, create("/a", 4)))
    tree.apply(record(2, create("/b", count)))
    assert (stat(tree, "/").cversion, stat(tree, "/").pzxid) == (5, 2)


def test_a_delete_of_what_is_gone_raises_the_parents_pzxid_and_nothing_else() -> None:
    """A delete replayed over its own result raises pzxid only, never back, and needs the parent."""
    tree = Tree()
    tree.apply(record(1, create("/a", 1)))
    tree.apply(record(9, Operation(TransactionType.DELETE, "/b")))
    assert (stat(tree, "/").cversion, stat(tree, "/").pzxid) == (1, 9)
    tree.apply(record(8, Operation(TransactionType.DELETE, "/a")))
    assert stat(tree, "/").pzxid == 9
    tree.apply(record(10, Operation(TransactionType.DELETE, "/x/y")))
    assert stat(tree, "/").pzxid == 9


def test_versions_are_taken_from_the_record() -> None:
    """A set gives the version that its record says, be it 7 after 0; a gone path is ignored."""
    tree = Tree()
    tree.apply(record(1, create("/a", 1)))
    tree.apply(record(2, Operation(TransactionType.SET_DATA, "/a", b"x", version=7)))
    tree.apply(record(3, Operation(TransactionType.SET_ACL, "/a", acl=READ, version=4)))
    tree.apply(record(4, Operation(TransactionType.SET_DATA, "/gone", b"x", version=1)))
    tree.apply(record(5, Operation(TransactionType.SET_ACL, "/gone", acl=READ, version=1)))
    there = tree.stored("/a")
    assert there is not None
    assert (there.data, there.acl) == (b"x", READ)
    assert (there.stat.version, there.stat.aversion, there.stat.mzxid) == (7, 4, 2)
    assert "/gone" not in tree


def test_the_root_has_two_names() -> None:
    """Records that name the root "/" or "" change the same znode, and the digest follows."""
    tree = Tree()
    for zxid, path in enumerate(("/", ""), 1):
        tree.apply(record(zxid, Operation(TransactionType.SET_DATA, path, b"x", version=zxid)))
        assert stat(tree, "/").version == stat(tree, "").version == zxid
    assert tree.digest == naive_digest(tree)


def test_nothing_of_a_failed_multi_is_applied() -> None:
    """A multi with an error in it changes nothing but the zxid; a check in a good one is no obstacle."""
    tree = Tree()
    error = Operation(TransactionType.ERROR, error=-110)
    tree.apply(record(1, create("/a", 1), error, Operation(TransactionType.ERROR, error=-2), kind=14))
    assert "/a" not in tree
    assert tree.zxid == 1
    tree.apply(record(2, create("/a", 1), Operation(TransactionType.CHECK, "/a", version=1), kind=14))
    assert "/a" in tree


def test_what_a_later_server_may_write_changes_nothing() -> None:
    """A record of a type that we do not know leaves the digest alone and counts its zxid."""
    tree = Tree()
    before = tree.digest
    tree.apply(record(1, Operation(99, "/a")))
    assert (tree.digest, tree.zxid) == (before, 1)


def test_a_session_takes_what_is_listed_and_what_it_has_besides() -> None:
    """A close takes all ephemerals of its session, listed or not, and no others."""
    world = ServerHistory()
    world.open(7)
    world.open(8)
    world.create("/mine", session=7, ephemeral=True)
    world.create("/too", session=7, ephemeral=True)
    world.create("/its", session=8, ephemeral=True)
    world.create("/stays", session=7)
    tree = world.tree
    assert tree.sessions == {7: 6000, 8: 6000}
    tree.apply(Transaction(9, 7, 0, 90, TransactionType.CLOSE_SESSION, closed_paths=("/mine", "/never")))
    assert tree.paths() == ["/", "/its", "/stays", "/zookeeper", "/zookeeper/quota"]
    assert tree.sessions == {8: 6000}
    assert stat(tree, "/").pzxid == 9
    assert tree.digest == naive_digest(tree)


def test_without_a_list_the_tree_knows_what_goes() -> None:
    """A close of before 3.6 takes what its session still owns, not a path that another made since."""
    world = ServerHistory(lists=False)
    world.open(7)
    world.create("/mine", session=7, ephemeral=True)
    world.create("/let-go", session=7, ephemeral=True)
    world.delete("/let-go", session=8)
    world.create("/let-go", session=8, ephemeral=True)
    world.close(7)
    assert world.tree.paths() == ["/", "/let-go", "/zookeeper", "/zookeeper/quota"]
    assert world.tree.ephemerals(8) == {"/let-go"}


def test_a_tree_is_made_of_a_snapshots_znodes() -> None:
    """Made of a snapshot's znodes a tree has the digest, sessions, children and subtrees of the replay."""
    world = ServerHistory()
    world.open(7)
    world.create("/a", b"1")
    world.create("/a/b", session=7, ephemeral=True)
    world.set("/a", b"2")
    made = Tree.from_znodes(znodes_of(world.tree), zxid=world.zxid, sessions={7: 6000})
    assert made.first_difference(world.tree, except_below="/zookeeper/") is None
    assert (made.digest, made.zxid, made.sessions) == (world.tree.digest, 4, {7: 6000})
    assert made.ephemerals(7) == {"/a/b"}
    assert made.children("/a") == ["b"]
    assert made.children("/") == ["a", "zookeeper"]
    assert made.paths("/a") == ["/a", "/a/b"]
    assert [each.path for each in seen_znodes(made, "/a")] == ["/a", "/a/b"]
    assert made.paths("/b") == []
    assert len(made) == 5


def test_an_acl_that_a_snapshot_lacks_is_no_difference() -> None:
    """An ACL that one tree lacks is passed over; data that differ are found."""
    world = ServerHistory()
    world.create("/a")
    znodes = [each if each.path != "/a" else each._replace(acl=None) for each in znodes_of(world.tree)]
    made = Tree.from_znodes(znodes)
    assert made.first_difference(world.tree, except_below="/zookeeper/") is None
    world.set("/a", b"x")
    assert made.first_difference(world.tree, except_below="/zookeeper/") == "/a"
    assert made.first_difference(world.tree, except_below="/a") is None


def test_a_count_of_creates_goes_round() -> None:
    """Java's int; no server gets there, a damaged record might."""
    tree = Tree()
    tree.apply(record(1, create("/a", 2**31 - 1)))
    tree.apply(record(2, create("/b", None)))
    assert stat(tree, "/").cversion == 2**31 - 1
