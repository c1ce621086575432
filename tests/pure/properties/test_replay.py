"""Properties of the replay: records that a fuzzy snapshot contains already make no difference."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.server_history import ServerHistory, seen_znodes
from zkgroup.model.requests import Znode
from zkgroup.zkfiles.records import (
    AclEntry,
    Operation,
    StoredZnode,
    Transaction,
    TransactionType,
    TreeDigest,
)
from zkgroup.zkfiles.replay import Base
from zkgroup.zkfiles.tree import Tree
from zkgroup.zkfiles.verification import apply_and_doubt

QUOTAS = "/zookeeper/"
SESSIONS = (7, 8)
STEPS = st.tuples(st.integers(0, 9), st.integers(0, 999), st.integers(0, 999))
HISTORIES = st.tuples(st.lists(STEPS, max_size=60), st.booleans())


def written(steps: Sequence[tuple[int, int, int]], *, lists: bool) -> ServerHistory:
    """A history that a server could have written, made from numbers."""
    world = ServerHistory(lists=lists)
    for session in SESSIONS:
        world.open(session)
    for action, which, how in steps:
        _step(world, action, which, how)
    return world


def _step(world: ServerHistory, action: int, which: int, how: int) -> None:
    tree = world.tree
    paths = [each for each in tree.paths() if not each.startswith("/zookeeper")]
    path = paths[which % len(paths)]
    session = SESSIONS[how % 2]
    found = tree.stored(path)
    assert found is not None
    new = f"{path.rstrip('/')}/{'abcdé'[how % 5]}"
    kind = (TransactionType.CREATE, TransactionType.CREATE2)[how // 2 % 2]
    may_have_children = found.stat.ephemeral_owner == 0
    if action <= 3:
        if may_have_children and new not in tree:
            ephemeral = action == 0 and session in tree.sessions
            if action == 3:
                world.create(new, kind=TransactionType.CREATE_TTL, ttl_ms=how + 1)
            else:
                world.create(new, bytes(how % 3), session, ephemeral=ephemeral, kind=kind)
    elif action <= 5:
        if path != "/" and not tree.children(path):
            world.delete(path, session)
    elif action == 6:
        world.set(path, None if how % 7 == 0 else bytes([how % 256]), session)
    elif action == 7:
        world.set_acl(path, (AclEntry(how % 32, "world", "anyone"),))
    elif action == 8:
        if session in tree.sessions:
            world.close(session, expired=how % 2 == 0)
        world.open(session)
    else:
        error = Operation(TransactionType.ERROR, error=-101)
        operations = [world.change(path, b"multi")]
        if how % 3 == 0:
            operations.append(error)
        elif may_have_children and new not in tree:
            operations.append(world.creation(new, b"m"))
        world.multi(*operations)


def fuzzy(transactions: Sequence[Transaction], start: int, pauses: Sequence[int]) -> tuple[Tree, int]:
    """A snapshot that begins after `start` records and has this many records between one znode and the next.

    It follows DataTree.serializeNode: a znode's data and its children's names are those of its visit. Returns
    its tree, and the number of records that were applied at its end.
    """
    living, waiting = Tree(), list(pauses)
    for transaction in transactions[:start]:
        living.apply(transaction)
    sessions, place = dict(living.sessions), start
    stored: list[StoredZnode] = []
    to_visit = ["/"]
    while to_visit:
        path = to_visit.pop()
        znode = living.stored(path)
        if znode is not None:
            stored.append(znode)
            to_visit += [f"{path.rstrip('/')}/{name}" for name in living.children(path)]
        for transaction in transactions[place : place + (waiting.pop() if waiting else 0)]:
            living.apply(transaction)
            place += 1
    zxid = transactions[start - 1].zxid if start else 0
    return Tree.from_znodes(stored, zxid=zxid, sessions=sessions), place


def ended(tree: Tree, world: ServerHistory, end: int, *, is_counted: bool) -> Base:
    """A snapshot that ended after this many records; the server has counted the last one or not."""
    began = tree.zxid
    told = max(began, world.transactions[end - 1].zxid - (not is_counted) if end else 0)
    digest = TreeDigest(2, world.at(told).digest) if told else None
    exact_from = max(told, tree.newest_zxid())
    return Base(tree, began, exact_from, True, None, digest, told if told else 0).begin()


@given(
    HISTORIES,
    st.integers(0, 60),
    st.lists(st.integers(0, 3) | st.integers(0, 40), max_size=12),
    st.booleans(),
)
def test_a_fuzzy_snapshot_and_the_log_behind_it_give_the_same_tree(
    history: tuple[list[tuple[int, int, int]], bool], begun: int, pauses: list[int], is_counted: bool
) -> None:
    """A snapshot at a random point and the log from the end of its window on give the tree of the log alone.

    The snapshot can contain a record that its trailing zxid does not cover, as the server counts after the
    change. Where a close lists no paths, a pzxid is lost if an ephemeral is deleted between the visits of its
    parent and of itself.
    """
    world = written(history[0], lists=history[1])
    records = world.transactions
    start = begun % (len(records) + 1)
    tree, end = fuzzy(records, start, pauses)
    window = ended(tree, world, end, is_counted=is_counted)
    for transaction in records[start:]:
        tree.apply(transaction)
        agrees = window.agrees(transaction)
        if history[1]:
            assert agrees is not False
            assert transaction.zxid <= end or agrees is not None or transaction.digest is None
    if history[1]:
        assert (window.is_in_doubt, window.is_wrong) == (False, False)
    assert shown(tree, with_pzxid=history[1]) == shown(world.tree, with_pzxid=history[1])
    assert tree.first_difference(world.tree, except_below=QUOTAS, with_pzxid=history[1]) is None
    assert tree.sessions == world.tree.sessions
    assert {each: tree.ephemerals(each) for each in SESSIONS} == {
        each: world.tree.ephemerals(each) for each in SESSIONS
    }


@given(st.lists(STEPS, min_size=20, max_size=40), st.integers(0, 5))
def test_a_dump_with_one_record_missing(steps: list[tuple[int, int, int]], place: int) -> None:
    """Each record in turn arrives while the snapshot is at one of its znodes, and is not counted yet.

    The record before it arrives after the visit of the root, so that there is one to compare at the
    snapshot's end.
    """
    world = written(steps, lists=True)
    records = world.transactions
    for start in range(len(records) - 1):
        tree, end = fuzzy(records, start, [1, *[0] * place, 1])
        window = ended(tree, world, end, is_counted=False)
        for transaction in records[start:]:
            tree.apply(transaction)
            agrees = window.agrees(transaction)
            assert agrees is not False
            if agrees:
                break
        assert (window.is_in_doubt, window.is_wrong) == (False, False)


@given(HISTORIES, st.integers(0, 60))
def test_a_stretch_applied_twice_is_applied_once(
    history: tuple[list[tuple[int, int, int]], bool], begun: int
) -> None:
    """A record of the window that the snapshot contains already is not applied twice."""
    world = written(history[0], lists=history[1])
    tree = world.at(world.zxid)
    for transaction in world.transactions[begun % len(world.transactions) :]:
        tree.apply(transaction)
    assert seen_znodes(tree) == seen_znodes(world.tree)
    assert tree.digest == world.tree.digest


@given(HISTORIES)
def test_records_of_a_right_history_give_no_violation(
    history: tuple[list[tuple[int, int, int]], bool],
) -> None:
    """Otherwise an old server's folder would be reported as wrong, where no digest proves the opposite."""
    world = written(history[0], lists=history[1])
    tree = Tree()
    assert [apply_and_doubt(tree, each) for each in world.transactions] == [None] * len(world.transactions)
    assert tree.digest == world.tree.digest


def shown(tree: Tree, *, with_pzxid: bool) -> list[Znode]:
    return [
        each if with_pzxid else each._replace(stat=each.stat._replace(pzxid=0)) for each in seen_znodes(tree)
    ]
