"""Records that are applied in columns give the tree that they give one by one, or are refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worlds.server_history import ServerHistory
from tests.worlds.zkfiles_tables import needs_kernel, values_of
from zkgroup.zkfiles.arrow import Batch
from zkgroup.zkfiles.columns import log_columns
from zkgroup.zkfiles.records import Acl, AclEntry, Operation, Transaction, TransactionType, TreeDigest
from zkgroup.zkfiles.replay import can_replay_columns
from zkgroup.zkfiles.tree import Compared, Tree

if can_replay_columns():
    from zkgroup.zkfiles.column_replay import COLUMNS, ColumnReplay, OddRowsError

pytestmark = needs_kernel
READ: Acl = (AclEntry(1, "world", "anyone"),)
ENTRIES = 400
"""So many records that the log is worth columns."""


def random_history(seed: int, entries: int = ENTRIES) -> ServerHistory:
    """Sessions, ephemerals, sets, deletes, multis, and requests that failed."""
    draw, world = random.Random(seed), ServerHistory()
    sessions: list[int] = []
    world.create("/a")
    world.create("/b", None)
    session = 16
    while len(world.transactions) < entries:
        session += 1
        sessions.append(session)
        world.open(session, 4000 + session)
        for _ in range(draw.randrange(12)):
            _one(draw, world, draw.choice(sessions))
        if len(sessions) > 2:
            world.close(sessions.pop(draw.randrange(len(sessions))), expired=draw.random() < 0.5)
    world.set("/a", b"end")  # a batch in which nothing is done is refused, too
    return world


def _one(draw: random.Random, world: ServerHistory, session: int) -> None:
    path = f"/{draw.choice('ab')}/{draw.choice('wxyz')}"
    data = draw.choice([None, b"", b"1", b"22", b"\xff\x00"])
    match draw.randrange(6):
        case 0 if path not in world.tree:
            acl = draw.choice([READ, (AclEntry(31, "world", "anyone"),)])
            world.create(path, data, session, ephemeral=draw.random() < 0.5, acl=acl)
        case 1 if path in world.tree:
            world.delete(path)
        case 2 if path in world.tree:
            world.multi(world.change(path, data), world.change(path[:2], b"m"), session=session)
        case 3 if path in world.tree:
            world.multi(world.change(path, b"no"), Operation(TransactionType.ERROR, error=-101))
        case 4:
            world.fail()
        case _:
            world.set(path if path in world.tree else path[:2], data, session)


def exact(transactions: list[Transaction], tree: Tree) -> Compared:
    wrong = []
    for transaction in transactions:
        tree.apply(transaction)
        if tree.agrees(transaction) is False:
            wrong.append(transaction.zxid)
    digests = sum(each.digest is not None for each in transactions)
    return Compared(len(transactions), digests, len(wrong), wrong[0] if wrong else None)


def applied(batch: Batch, replay: ColumnReplay) -> Compared:
    return replay.apply([batch], values_of(batch, "zxid")[0], values_of(batch, "zxid")[-1], lambda zxid: True)


def in_columns(
    world: ServerHistory, folder: Path, tree: Tree, rows: int = 10_000, settled_every: int = 2
) -> list[Compared]:
    """The log of a history, some rows at a time; after some of them the tree is brought to it."""
    replay, found = ColumnReplay(tree), list[Compared]()
    for batch in log_columns(world.log(folder), columns=COLUMNS, rows_per_batch=rows):
        found.append(applied(batch, replay))
        if len(found) % settled_every == 0:
            replay.settle()
    replay.settle()
    return found


def state(tree: Tree) -> object:
    stored = {path: (tree.stored(path), tree.znode(path)) for path in tree.paths()}
    ephemerals = {session: tree.ephemerals(session) for session in range(60)}
    return stored, ephemerals, tree.sessions, tree.digest, tree.zxid, tree.time_ms


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("is_wrong", [False, True])
def test_columns_give_the_tree_of_all_records(tmp_path: Path, seed: int, is_wrong: bool) -> None:
    """On random histories, with right digests, and with one that is another."""
    world = random_history(seed)
    if is_wrong:
        place = next(place for place in range(200, ENTRIES) if world.transactions[place].digest is not None)
        world.transactions[place] = world.transactions[place]._replace(digest=TreeDigest(2, 5))
    one_by_one, tree = Tree(), Tree()
    expected = exact(world.transactions, one_by_one)

    found = in_columns(world, tmp_path, tree, rows=90)

    assert state(tree) == state(one_by_one)
    assert sum(each.records for each in found) == expected.records
    assert sum(each.digests for each in found) == expected.digests
    assert sum(each.wrong for each in found) == expected.wrong == is_wrong
    firsts = [each.first_wrong_zxid for each in found if each.first_wrong_zxid is not None]
    assert firsts == [expected.first_wrong_zxid] * is_wrong
    assert len(found) > 3


def _other_operation(world: ServerHistory, kind: int, **fields: object) -> None:
    """Of the last record of a type."""
    place = max(place for place, each in enumerate(world.transactions) if each.type == kind)
    record = world.transactions[place]
    operation = record.operations[0]._replace(**fields)  # type: ignore[arg-type]
    world.transactions[place] = record._replace(operations=(operation,))


def _delete_with_children(world: ServerHistory) -> None:
    world.create("/a/n")
    world.create("/a/n/m")
    world.delete("/a/n")


def _end_without_its_ephemeral(world: ServerHistory) -> None:
    world.open(99)
    world.create("/e", session=99, ephemeral=True)
    world.write(TransactionType.CLOSE_SESSION, 99, closed_paths=())


def _no_digest(world: ServerHistory) -> None:
    world.set("/a", b"z")
    world.transactions[-1] = world.transactions[-1]._replace(digest=None)


ODD: dict[str, Callable[[ServerHistory], object]] = {
    "a set of nothing": lambda world: _other_operation(world, TransactionType.SET_DATA, path="/no"),
    "a delete of nothing": lambda world: _other_operation(world, TransactionType.DELETE, path="/no"),
    "a create of what is there": lambda world: _other_operation(world, TransactionType.CREATE, path="/a"),
    "a create below nothing": lambda world: _other_operation(world, TransactionType.CREATE, path="/no/x"),
    "a count that falls": lambda world: _other_operation(world, TransactionType.CREATE, parent_cversion=0),
    "a delete with children": _delete_with_children,
    "an end without its ephemeral": _end_without_its_ephemeral,
    "an ACL": lambda world: world.set_acl("/a", READ),
    "a container": lambda world: world.create("/c", kind=TransactionType.CREATE_CONTAINER),
    "a znode outside the digest": lambda world: world.create("/zookeeper/x"),
    "a name in another charset": lambda world: world.create("/\u00e4"),
    "a set of the root": lambda world: world.set("/", b"r"),
    "a record without a digest": _no_digest,
}


@pytest.mark.parametrize("odd", ODD)
def test_what_is_not_plain_is_refused_with_nothing_done(tmp_path: Path, odd: str) -> None:
    """The exact way judges it."""
    world, tree = random_history(3), Tree()
    before = state(tree)
    in_columns(world, tmp_path, Tree())
    ODD[odd](world)

    with pytest.raises(OddRowsError):
        in_columns(world, tmp_path, tree)

    assert state(tree) == before


def test_records_between_those_in_columns_are_applied_one_by_one(tmp_path: Path) -> None:
    """What others do to the tree is seen by what is applied next."""
    world, one_by_one, tree = random_history(5), Tree(), Tree()
    replay = ColumnReplay(tree)
    exact(world.transactions, one_by_one)
    batches = list(log_columns(world.log(tmp_path), columns=COLUMNS, rows_per_batch=25))
    known = {each.zxid: each for each in world.transactions}

    for number, batch in enumerate(batches):
        if number % 3 == 2:
            replay.settle()
            for zxid in dict.fromkeys(values_of(batch, "zxid")):
                tree.apply(known[zxid])
        else:
            assert applied(batch, replay).wrong == 0

    replay.settle()
    assert len(batches) > 9
    assert state(tree) == state(one_by_one)


@pytest.mark.parametrize("path", ["/a" * 100, "/" + "a" * 5000, "/" * 50_000], ids=len)
def test_paths_that_are_too_long_are_left_to_the_exact_way(tmp_path: Path, path: str) -> None:
    """Neither many levels nor many bytes are followed."""
    world = random_history(3, 30)
    world.write(TransactionType.DELETE, 1, [Operation(TransactionType.DELETE, path)])
    with pytest.raises(OddRowsError):
        in_columns(world, tmp_path, Tree())
