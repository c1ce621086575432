"""The rules of a server's replay, and what a client would see of the tree."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

import pytest

from tests.zkfiles_world import OPEN_ACL, START_MS, STEP_MS, World, znodes_of
from zkgroup.zkfiles.lifetimes import CONTAINER_OWNER, lifetime_of, owner_of, ttl_ms_of
from zkgroup.zkfiles.records import (
    AclEntry,
    Operation,
    StoredStat,
    StoredZnode,
    Transaction,
    TransactionType,
    TreeDigest,
)
from zkgroup.zkfiles.tree import Tree

READ = (AclEntry(1, "world", "anyone"),)


def naive_digest(tree: Tree) -> int:
    """From DigestCalculator.java, over the whole tree."""
    total = 0
    for znode in znodes_of(tree):
        path = "" if znode.path == "/" else znode.path
        if not path.startswith("/zookeeper/"):
            total += _counted_as(znode, path.encode())
    return total % 2**64


def _counted_as(znode: StoredZnode, path: bytes) -> int:
    """Field by field."""
    stat = znode.stat
    longs = (stat.czxid, stat.mzxid, stat.pzxid, stat.ctime, stat.mtime)
    raw = b"".join(each.to_bytes(8, "big", signed=True) for each in longs)
    raw += b"".join(
        each.to_bytes(4, "big", signed=True) for each in (stat.version, stat.cversion, stat.aversion)
    )
    raw += stat.ephemeral_owner.to_bytes(8, "big", signed=True)
    return crc32(path + (znode.data or b"") + raw)


def record(zxid: int, *operations: Operation, kind: int | None = None, session: int = 1) -> Transaction:
    return Transaction(zxid, session, 1, zxid * 10, operations[0].type if kind is None else kind, operations)


def create(path: str, parent_cversion: int | None, data: bytes = b"", **more: object) -> Operation:
    return Operation(TransactionType.CREATE, path, data, OPEN_ACL, parent_cversion=parent_cversion, **more)  # type: ignore[arg-type]


def stat(tree: Tree, path: str) -> StoredStat:
    found = tree.stored(path)
    assert found is not None
    return found.stat


def test_a_client_sees_the_eleven_names() -> None:
    """A client sees the eleven names."""
    world = World()
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
    """Containers and times to live show no owner."""
    world = World()
    world.create("/c", kind=TransactionType.CREATE_CONTAINER)
    world.create("/t", kind=TransactionType.CREATE_TTL, ttl_ms=1234)
    assert stat(world.tree, "/c").ephemeral_owner == CONTAINER_OWNER
    assert ttl_ms_of(stat(world.tree, "/t").ephemeral_owner) == 1234
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
    """The owner that a create makes."""
    assert owner_of(create("/a", 1), 7) == 0
    assert owner_of(create("/a", 1, is_ephemeral=True), 7) == 7


def test_a_create_without_a_parent_is_ignored() -> None:
    """A create without a parent is ignored."""
    tree = Tree()
    tree.apply(record(1, create("/a/b", 1)))
    assert tree.paths() == ["/", "/zookeeper", "/zookeeper/quota"]


def test_a_create_of_what_is_there_keeps_data_and_takes_the_acl_and_the_parents_count() -> None:
    """A create of what is there keeps data and takes the acl and the parents count."""
    tree = Tree()
    tree.apply(record(1, create("/a", 1, b"first")))
    tree.apply(record(2, replace(create("/a", 5, b"second"), acl=READ)))
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
    tree.apply(record(2, replace(create("/a", 5), type=kind, ttl_ms=9)))
    assert (stat(tree, "/").cversion, stat(tree, "/").pzxid) == (5, 2)


def test_a_znode_that_is_created_anew_keeps_the_children_of_its_later_life() -> None:
    """A snapshot that began before a delete can hold what came behind the create that follows it."""
    world = World()
    world.create("/a")
    begun = world.zxid
    world.delete("/a")
    world.create("/a", b"new")
    world.create("/a/b")
    tree = Tree.from_znodes(znodes_of(world.tree))
    for transaction in world.transactions[begun:]:
        tree.apply(transaction)
    assert list(tree.znodes()) == list(world.tree.znodes())


def test_a_znode_that_is_later_than_the_record_is_left_alone() -> None:
    """Before 3.6 a session's end does not name what goes, and the znode may be another's by then."""
    world = World(lists=False)
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
    assert list(tree.znodes()) == list(world.tree.znodes())
    assert tree.first_difference(world.tree, except_below="/zookeeper/") is None


def test_a_parents_count_never_falls() -> None:
    """A parents count never falls."""
    tree = Tree()
    tree.apply(record(5, create("/a", 3)))
    tree.apply(record(6, create("/b", 2)))
    assert (stat(tree, "/").cversion, stat(tree, "/").pzxid) == (3, 5)
    assert "/b" in tree


@pytest.mark.parametrize("count", [None, -1])
def test_a_create_from_before_3_4_counts_on(count: int | None) -> None:
    """A create from before 3.4 counts on."""
    tree = Tree()
    tree.apply(record(1, create("/a", 4)))
    tree.apply(record(2, create("/b", count)))
    assert (stat(tree, "/").cversion, stat(tree, "/").pzxid) == (5, 2)


def test_a_delete_of_what_is_gone_raises_the_parents_pzxid_and_nothing_else() -> None:
    """A delete of what is gone raises the parents pzxid and nothing else."""
    tree = Tree()
    tree.apply(record(1, create("/a", 1)))
    tree.apply(record(9, Operation(TransactionType.DELETE, "/b")))
    assert (stat(tree, "/").cversion, stat(tree, "/").pzxid) == (1, 9)
    tree.apply(record(8, Operation(TransactionType.DELETE, "/a")))
    assert stat(tree, "/").pzxid == 9
    tree.apply(record(10, Operation(TransactionType.DELETE, "/x/y")))
    assert stat(tree, "/").pzxid == 9


def test_versions_are_taken_from_the_record() -> None:
    """Versions are taken from the record."""
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
    """The root has two names."""
    tree = Tree()
    for zxid, path in enumerate(("/", ""), 1):
        tree.apply(record(zxid, Operation(TransactionType.SET_DATA, path, b"x", version=zxid)))
        assert stat(tree, "/").version == stat(tree, "").version == zxid
    assert tree.digest == naive_digest(tree)


def test_nothing_of_a_failed_multi_is_applied() -> None:
    """Nothing of a failed multi is applied."""
    tree = Tree()
    error = Operation(TransactionType.ERROR, error=-110)
    tree.apply(record(1, create("/a", 1), error, Operation(TransactionType.ERROR, error=-2), kind=14))
    assert "/a" not in tree
    assert tree.zxid == 1
    tree.apply(record(2, create("/a", 1), Operation(TransactionType.CHECK, "/a", version=1), kind=14))
    assert "/a" in tree


def test_what_a_later_server_may_write_changes_nothing() -> None:
    """What a later server may write changes nothing."""
    tree = Tree()
    before = tree.digest
    tree.apply(record(1, Operation(99, "/a")))
    assert (tree.digest, tree.zxid) == (before, 1)


def test_a_session_takes_what_is_listed_and_what_it_has_besides() -> None:
    """A session takes what is listed and what it has besides."""
    world = World()
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
    """Without a list the tree knows what goes."""
    world = World(lists=False)
    world.open(7)
    world.create("/mine", session=7, ephemeral=True)
    world.create("/let-go", session=7, ephemeral=True)
    world.delete("/let-go", session=8)
    world.create("/let-go", session=8, ephemeral=True)
    world.close(7)
    assert world.tree.paths() == ["/", "/let-go", "/zookeeper", "/zookeeper/quota"]
    assert world.tree.ephemerals(8) == {"/let-go"}


def test_the_digest_is_kept_up_with_every_change() -> None:
    """The digest is kept up with every change."""
    world = World()
    world.open(7)
    changes = [
        lambda: world.create("/a", None),
        lambda: world.create("/a/ä€𝄞", b"\xff", session=7, ephemeral=True),
        lambda: world.set("/a", b"x" * 100),
        lambda: world.set_acl("/a", READ),
        lambda: world.create("/c", kind=TransactionType.CREATE_CONTAINER),
        lambda: world.create("/t", kind=TransactionType.CREATE_TTL, ttl_ms=5),
        lambda: world.create("/zookeeper/quota/a", b"count=1"),
        lambda: world.set("/zookeeper/quota/a", b"count=2"),
        lambda: world.multi(world.creation("/m"), world.change("/a", b""), world.creation("/n", number=2)),
        lambda: world.delete("/c"),
        lambda: world.set("/", b"root"),
        lambda: world.close(7),
    ]
    for change in changes:
        change()
        assert world.tree.digest == naive_digest(world.tree)


def test_quotas_count_nothing_and_their_parent_counts() -> None:
    """Quotas count nothing and their parent counts."""
    world = World()
    world.create("/a")
    before = world.tree.digest
    world.create("/zookeeper/quota/a", b"count=1")
    world.set("/zookeeper/quota/a", b"count=2")
    assert world.tree.digest == before
    assert stat(world.tree, "/zookeeper/quota").cversion == 1


def test_a_digest_is_compared_or_is_not() -> None:
    """A digest is compared or is not."""
    world = World()
    world.create("/a")
    right = world.transactions[0]
    wrong = replace(right, digest=TreeDigest(2, 1))
    assert world.tree.agrees(right) is True
    assert world.tree.agrees(wrong) is False
    assert world.tree.agrees(replace(right, digest=None)) is None
    assert world.tree.agrees(replace(right, digest=TreeDigest(3, 1))) is None
    bare = Tree(digests=False)
    bare.apply(right)
    assert bare.agrees(wrong) is None


@pytest.mark.parametrize("charset", ["ascii", "latin-1"])
def test_a_server_with_another_charset_has_other_digests_of_paths(charset: str) -> None:
    """DigestCalculator takes Java's default, which was the locale's before Java 18: `LANG=C` gives ASCII."""
    world = World()
    world.create("/a")
    world.create("/é€")
    world.set("/é€", b"1")
    tree = Tree()
    for transaction in world.transactions:
        tree.apply(transaction)
        shown = tree.stored("/é€")
        value = tree.digest
        if shown is not None:
            value += _counted_as(shown, "/é€".encode(charset, "replace"))
            value -= _counted_as(shown, "/é€".encode())
        assert tree.agrees(replace(transaction, digest=TreeDigest(2, value))) is True
        assert tree.agrees(replace(transaction, digest=TreeDigest(2, value + 1))) is False
        tree = Tree.from_znodes(znodes_of(tree))


def test_a_charset_that_was_found_is_kept() -> None:
    """A charset that was found is kept."""
    world = World()
    world.create("/é")
    tree = world.tree
    found = tree.stored("/é")
    assert found is not None
    value = tree.digest - _counted_as(found, "/é".encode()) + _counted_as(found, b"/?")
    assert tree.agrees(replace(world.transactions[0], digest=TreeDigest(2, value))) is True
    assert tree.digest == value
    world.delete("/é")
    assert tree.digest == naive_digest(tree)
    world.create("/ü")
    found = tree.stored("/ü")
    assert found is not None
    assert tree.digest == naive_digest(tree) - _counted_as(found, "/ü".encode()) + _counted_as(found, b"/?")


def test_a_tree_is_made_of_a_snapshots_znodes() -> None:
    """A tree is made of a snapshots znodes."""
    world = World()
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
    assert [each.path for each in made.znodes("/a")] == ["/a", "/a/b"]
    assert made.paths("/b") == []
    assert len(made) == 5


def test_an_acl_that_a_snapshot_lacks_is_no_difference() -> None:
    """An acl that a snapshot lacks is no difference."""
    world = World()
    world.create("/a")
    znodes = [each if each.path != "/a" else replace(each, acl=None) for each in znodes_of(world.tree)]
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
