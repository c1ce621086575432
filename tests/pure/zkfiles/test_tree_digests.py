"""The digest that a replay keeps up, and how it is held against the server's."""

from __future__ import annotations

import pytest

from tests.pure.zkfiles.digests import counted_as, naive_digest
from tests.worlds.server_history import ServerHistory, znodes_of
from zkgroup.zkfiles.records import AclEntry, TransactionType, TreeDigest
from zkgroup.zkfiles.tree import Tree

READ = (AclEntry(1, "world", "anyone"),)


def test_the_digest_is_kept_up_with_every_change() -> None:
    """After each kind of record the digest is that of the whole tree, counted anew."""
    world = ServerHistory()
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
    """Znodes below `/zookeeper/quota` leave the digest alone, though their parent's cversion rises."""
    world = ServerHistory()
    world.create("/a")
    before = world.tree.digest
    world.create("/zookeeper/quota/a", b"count=1")
    world.set("/zookeeper/quota/a", b"count=2")
    assert world.tree.digest == before
    parent = world.tree.stored("/zookeeper/quota")
    assert parent is not None
    assert parent.stat.cversion == 1


def test_a_digest_is_compared_or_is_not() -> None:
    """True and False where the record has a digest of our version; None without one, or with nothing kept."""
    world = ServerHistory()
    world.create("/a")
    right = world.transactions[0]
    wrong = right._replace(digest=TreeDigest(2, 1))
    assert world.tree.agrees(right) is True
    assert world.tree.agrees(wrong) is False
    assert world.tree.agrees(right._replace(digest=None)) is None
    assert world.tree.agrees(right._replace(digest=TreeDigest(3, 1))) is None
    bare = Tree(digests=False)
    bare.apply(right)
    assert bare.agrees(wrong) is None


@pytest.mark.parametrize("charset", ["ascii", "latin-1"])
def test_a_server_with_another_charset_has_other_digests_of_paths(charset: str) -> None:
    """DigestCalculator takes Java's default, which was the locale's before Java 18: `LANG=C` gives ASCII."""
    world = ServerHistory()
    world.create("/a")
    world.create("/é€")
    world.set("/é€", b"1")
    tree = Tree()
    for transaction in world.transactions:
        tree.apply(transaction)
        shown = tree.stored("/é€")
        value = tree.digest
        if shown is not None:
            value += counted_as(shown, "/é€".encode(charset, "replace"))
            value -= counted_as(shown, "/é€".encode())
        assert tree.agrees(transaction._replace(digest=TreeDigest(2, value))) is True
        assert tree.agrees(transaction._replace(digest=TreeDigest(2, value + 1))) is False
        tree = Tree.from_znodes(znodes_of(tree))


def test_a_charset_that_was_found_is_kept() -> None:
    """Once `/é` was seen to count as `/?`, later paths count in that charset without a search."""
    world = ServerHistory()
    world.create("/é")
    tree = world.tree
    found = tree.stored("/é")
    assert found is not None
    value = tree.digest - counted_as(found, "/é".encode()) + counted_as(found, b"/?")
    assert tree.agrees(world.transactions[0]._replace(digest=TreeDigest(2, value))) is True
    assert tree.digest == value
    world.delete("/é")
    assert tree.digest == naive_digest(tree)
    world.create("/ü")
    found = tree.stored("/ü")
    assert found is not None
    assert tree.digest == naive_digest(tree) - counted_as(found, "/ü".encode()) + counted_as(found, b"/?")


def test_a_tree_that_is_ahead_does_not_use_up_the_search_for_the_charset() -> None:
    """The first digest that is compared can be a snapshot's whose dump holds one transaction more."""
    world = ServerHistory()
    world.create("/é")
    found = world.tree.stored("/é")
    assert found is not None
    value = world.tree.digest - counted_as(found, "/é".encode()) + counted_as(found, b"/?")
    assert world.tree.has(TreeDigest(2, 1)) is False
    assert world.tree.has(TreeDigest(2, value)) is True
