"""The walk of a living tree: what it says stood still is what the server had at one zxid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.worlds.acls import UNREADABLE
from tests.worlds.stores import MeddledStore, before_nth
from zkgroup.audit.inputs.one_tree import walk
from zkgroup.errors import AccessDeniedError
from zkgroup.model.requests import (
    Create,
    Delete,
    Multi,
    Operation,
    Outcome,
    ReadAcls,
    ReadMany,
    Request,
    SetData,
    Sync,
    Znode,
)
from zkgroup.testing import MemoryZooKeeper
from zkgroup.testing.memory_zookeeper.tree import DataTree
from zkgroup.zkfiles.exports import ExportedZnode, ExportHeader
from zkgroup.zookeeper.blocking import Blocking


class WalkedServer:
    """One server, who walks and who meddles."""

    def __init__(self) -> None:
        self.server = MemoryZooKeeper()
        self.other = self.server.client()
        self.meddled = MeddledStore(self.server.client())
        self.write(Create("/a", b"1"), Create("/a/b", None), Create("/a/b/c", b"3"), Create("/z", b""))
        self.start_zxid = self.server.log[-1].zxid

    def write(self, *operations: Operation) -> Outcome:
        outcomes: list[Outcome] = []
        self.other.submit(Multi(operations), incarnation=1, on_outcome=outcomes.append)
        return outcomes[0]

    def walk(
        self, rounds: int = 5, paths_at_once: int = 5000
    ) -> tuple[ExportHeader, Sequence[ExportedZnode]]:
        with Blocking(self.meddled) as zk:
            return walk(zk, rounds=rounds, paths_at_once=paths_at_once)

    def tree_at(self, zxid: int) -> dict[str, Znode]:
        """What the server had at a zxid, from its log."""
        tree = DataTree()
        for entry in self.server.log:
            if entry.zxid <= zxid:
                for change in entry.changes:
                    tree.apply(change, entry.zxid, entry.time_ms)
        return {path: znode for path in tree.nodes if (znode := tree.read(path)) is not None}

    def close(self) -> None:
        self.other.close()
        self.meddled.close()


@pytest.fixture
def world() -> Iterator[WalkedServer]:
    """A small tree."""
    made = WalkedServer()
    yield made
    made.close()


def _nearest(path: str, seen: dict[str, Znode]) -> str:
    """The nearest parent that was seen."""
    while path not in seen:
        path = path.rpartition("/")[0] or "/"
    return path


def _check(world: WalkedServer, found: ExportHeader, znodes: Sequence[ExportedZnode]) -> None:
    """What is said to have stood still did, and the rest is named.

    A znode that came after the start and went before anybody looked has no name; its parent has.
    """
    then = world.tree_at(found.zxid_before)
    seen = {znode.path: Znode(znode.path, znode.data, znode.stat) for znode in znodes}
    unseen = {
        path
        for path in set(then) - set(seen)
        if then[path].stat.czxid > world.start_zxid and _nearest(path, seen) in found.changed
    }
    still = {*then, *seen} - unseen - set(found.changed)
    assert {path: seen.get(path) for path in still} == {path: then.get(path) for path in still}
    alive = still & set(world.server.tree())  # a znode that stood still may have gone after the walk
    assert all(znode.acl == world.server.acl(znode.path) for znode in znodes if znode.path in alive)
    places = [znode.path for znode in znodes]
    known: set[str] = set()
    for path in places:
        assert path == "/" or (path.rpartition("/")[0] or "/") in known, places
        known.add(path)
    newest = max(max(z.stat.czxid, z.stat.mzxid, z.stat.pzxid) for z in znodes)
    assert newest <= found.zxid_after


def test_a_tree_without_changes_is_a_snapshot_of_one_moment(world: WalkedServer) -> None:
    """Every znode, depth first, two looks, nothing changed."""
    found, znodes = world.walk()

    _check(world, found, znodes)
    assert (found.changed, found.unreadable) == ((), ())
    assert found.zxid_before == found.zxid_after
    assert [znode.path for znode in znodes] == [
        *("/", "/a", "/a/b", "/a/b/c", "/z", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")
    ]


@pytest.mark.parametrize(
    ("operations", "changed"),
    [
        ((SetData("/a", b"new", -1),), {"/a"}),
        ((Create("/a/new", b""), Create("/a/new/below", b"")), {"/a", "/a/new", "/a/new/below"}),
        ((Delete("/a/b/c", -1), Delete("/a/b", -1)), {"/a", "/a/b", "/a/b/c"}),
        ((Delete("/z", -1), Create("/z", b"again")), {"/", "/z"}),
    ],
)
def test_changes_between_the_reads_are_named(
    world: WalkedServer, operations: tuple[Operation, ...], changed: set[str]
) -> None:
    """It is in the tree as it was at some moment between the two zxids, and its parent with it."""
    world.meddled.before = before_nth(ReadAcls, 1, lambda: world.write(*operations))

    found, znodes = world.walk()

    _check(world, found, znodes)
    assert set(found.changed) == changed
    assert found.zxid_before < found.zxid_after
    assert {znode.path for znode in znodes} == set(world.tree_at(found.zxid_after))


def test_changes_before_the_second_read_do_not_count(world: WalkedServer) -> None:
    """The tree is that of the moment between the looks: what came before is read again, and exact."""
    writes = SetData("/a", b"n", -1), Create("/n", b"")
    world.meddled.before = before_nth(ReadMany, 3, lambda: world.write(*writes))

    found, znodes = world.walk()

    _check(world, found, znodes)
    assert found.changed == ()
    assert {"/n", "/a"} <= {znode.path for znode in znodes}


def test_what_goes_with_its_parent_while_that_is_read_again_is_named_too(world: WalkedServer) -> None:
    """Past bug: the child, which had stood still until then, was gone without a word."""
    world.meddled.before = before_nth(ReadAcls, 1, lambda: world.write(SetData("/a/b", b"new", -1)))
    first = world.meddled.before
    second = before_nth(ReadMany, 5, lambda: world.write(Delete("/a/b/c", -1), Delete("/a/b", -1)))

    def both(request: Request) -> None:
        first(request)
        second(request)

    world.meddled.before = both

    found, znodes = world.walk()

    _check(world, found, znodes)
    assert set(found.changed) == {"/a", "/a/b", "/a/b/c"}


def test_deletions_before_the_second_read_are_no_change(world: WalkedServer) -> None:
    """It was not there at that zxid, and one more round settles it."""
    world.meddled.before = before_nth(Sync, 2, lambda: world.write(Delete("/a/b/c", -1), Delete("/a/b", -1)))

    found, znodes = world.walk()

    _check(world, found, znodes)
    assert found.changed == ()
    assert sum(isinstance(request, ReadAcls) for request in world.meddled.requests) <= 3


def test_what_never_stands_still_ends_the_rounds(world: WalkedServer) -> None:
    """Bounded, and said."""

    def always(request: Request) -> None:
        if isinstance(request, ReadAcls):
            world.write(SetData("/a", b"again", -1))

    world.meddled.before = always

    found, znodes = world.walk(rounds=3)

    _check(world, found, znodes)
    assert found.changed == ("/a",)
    assert sum(isinstance(request, ReadAcls) for request in world.meddled.requests) == 4


def test_what_may_not_be_read_is_left_out_and_named(world: WalkedServer) -> None:
    """With everything below it."""
    world.server.set_acl("/a/b", UNREADABLE)

    found, znodes = world.walk()

    assert found.unreadable == ("/a/b",)
    assert [znode.path for znode in znodes][:3] == ["/", "/a", "/z"]


def test_a_root_that_may_not_be_read_is_an_error(world: WalkedServer) -> None:
    """There would be nothing to write."""
    world.server.set_acl("/", UNREADABLE)

    with pytest.raises(AccessDeniedError):
        world.walk()


_PATHS = ("/a", "/a/b", "/a/b/c", "/z", "/z/1", "/z/2")
_operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Create, st.sampled_from(_PATHS), st.just(b"c")),
    st.builds(SetData, st.sampled_from(_PATHS), st.just(b"s"), st.just(-1)),
    st.builds(Delete, st.sampled_from(_PATHS), st.just(-1)),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    writes=st.lists(st.lists(_operations, max_size=2), max_size=60),
    rounds=st.integers(1, 4),
    paths_at_once=st.sampled_from((1, 2, 5000)),
)
def test_whatever_happens_meanwhile_what_stood_still_is_right(
    writes: list[list[Operation]], rounds: int, paths_at_once: int
) -> None:
    """Any writes before any of the walk's requests, of one path or many; refused ones do nothing."""
    left = iter(writes)
    world = WalkedServer()

    def meddle(request: Request) -> None:
        for operation in next(left, ()):
            world.write(operation)

    world.meddled.before = meddle

    _check(world, *world.walk(rounds, paths_at_once))

    world.close()
