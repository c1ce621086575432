"""Histories of records that a real server could have written, and the files of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.worlds import zkfiles_writer as writer
from tests.worlds.golden_data import data_of, lines
from zkgroup.model.requests import Znode, ZnodeStat
from zkgroup.zkfiles.records import Acl, Operation, StoredZnode, Transaction, TransactionType, TreeDigest
from zkgroup.zkfiles.tree import Tree

START_MS = 1_700_000_000_000
STEP_MS = 1000
OPEN_ACL: Acl = writer.OPEN_ACL
Change = Callable[["ServerHistory"], Operation]


def seen_znodes(tree: Tree, below: str = "/") -> list[Znode]:
    """All znodes at and below a path, as clients see them."""
    return [znode for path in tree.paths(below) if (znode := tree.znode(path)) is not None]


class ServerHistory:
    """A server that only writes. Each method that writes returns the zxid; a record advances time by 1 s."""

    def __init__(self, zxid: int = 1, *, digests: bool = True, lists: bool = True) -> None:
        self.tree = Tree()
        self.transactions: list[Transaction] = []
        self._next = zxid
        self._ms = START_MS
        self._digests = digests
        self._lists = lists

    @property
    def zxid(self) -> int:
        return self.transactions[-1].zxid

    @property
    def ms(self) -> int:
        """The time of the last record."""
        return self.transactions[-1].time_ms

    def new_epoch(self) -> None:
        """Begins the epoch of a new leader: the counter of zxids restarts."""
        self._next = ((self.zxid >> 32) + 1) << 32 | 1

    def skip(self, count: int) -> None:
        """Skips this many zxids, so that no file has them."""
        self._next += count

    def clock_steps(self, ms: int) -> None:
        self._ms += ms

    def write(
        self,
        kind: int,
        session: int,
        operations: Iterable[Operation] = (),
        *,
        timeout_ms: int | None = None,
        closed_paths: tuple[str, ...] | None = None,
        cxid: int = 1,
    ) -> int:
        made = Transaction(
            self._next, session, cxid, self._ms, kind, tuple(operations), timeout_ms, closed_paths
        )
        self.tree.apply(made)
        if self._digests and kind != TransactionType.ERROR:
            made = made._replace(digest=TreeDigest(2, self.tree.digest))
        self.transactions.append(made)
        self._next += 1
        self._ms += STEP_MS
        return made.zxid

    def open(self, session: int, timeout_ms: int = 6000) -> int:
        return self.write(TransactionType.CREATE_SESSION, session, timeout_ms=timeout_ms)

    def close(self, session: int, *, expired: bool = False) -> int:
        paths = tuple(sorted(self.tree.ephemerals(session)))
        return self.write(
            TransactionType.CLOSE_SESSION,
            session,
            closed_paths=paths if self._lists else None,
            cxid=0 if expired else 7,
        )

    def create(
        self,
        path: str,
        data: bytes | None = b"",
        session: int = 1,
        *,
        ephemeral: bool = False,
        kind: int = TransactionType.CREATE,
        ttl_ms: int | None = None,
        acl: Acl = OPEN_ACL,
    ) -> int:
        return self.write(
            kind, session, [self.creation(path, data, ephemeral=ephemeral, kind=kind, ttl_ms=ttl_ms, acl=acl)]
        )

    def delete(self, path: str, session: int = 1, *, kind: int = TransactionType.DELETE) -> int:
        return self.write(kind, session, [Operation(kind, path)])

    def set(self, path: str, data: bytes | None, session: int = 1) -> int:
        return self.write(TransactionType.SET_DATA, session, [self.change(path, data)])

    def set_acl(self, path: str, acl: Acl, session: int = 1) -> int:
        stored = self.tree.stored(path)
        assert stored is not None
        kind = TransactionType.SET_ACL
        return self.write(kind, session, [Operation(kind, path, acl=acl, version=stored.stat.aversion + 1)])

    def multi(self, *operations: Operation, session: int = 1) -> int:
        return self.write(TransactionType.MULTI, session, operations)

    def fail(self, session: int = 1, error: int = -101) -> int:
        return self.write(TransactionType.ERROR, session, [Operation(TransactionType.ERROR, error=error)])

    def creation(
        self,
        path: str,
        data: bytes | None = b"",
        *,
        ephemeral: bool = False,
        kind: int = TransactionType.CREATE,
        ttl_ms: int | None = None,
        acl: Acl = OPEN_ACL,
        number: int = 1,
    ) -> Operation:
        """One create; `number`: its position among the creates below the same parent within a multi."""
        parent = self.tree.stored(path.rpartition("/")[0] or "/")
        assert parent is not None
        return Operation(
            kind,
            path,
            data,
            acl,
            is_ephemeral=ephemeral,
            parent_cversion=parent.stat.cversion + number,
            ttl_ms=ttl_ms,
        )

    def change(self, path: str, data: bytes | None) -> Operation:
        stored = self.tree.stored(path)
        assert stored is not None
        return Operation(TransactionType.SET_DATA, path, data, version=stored.stat.version + 1)

    def at(self, zxid: int) -> Tree:
        """The tree after a record."""
        tree = Tree()
        for transaction in self.transactions:
            if transaction.zxid <= zxid:
                tree.apply(transaction)
        return tree

    def log(self, folder: Path, from_zxid: int = 0, to_zxid: int | None = None) -> Path:
        """Writes a range of records as one log."""
        folder.mkdir(parents=True, exist_ok=True)
        return writer.write_log(
            folder,
            [
                each
                for each in self.transactions
                if each.zxid >= from_zxid and (to_zxid is None or each.zxid <= to_zxid)
            ],
        )

    def snapshot(
        self,
        folder: Path,
        zxid: int,
        *,
        until: int | None = None,
        tells: bool = True,
        told: int | None = None,
        without: str | None = None,
    ) -> Path:
        """Writes a snapshot that began at a zxid and has everything up to `until`, by default that zxid.

        `tells`: whether it ends with a digest, as from 3.6 on; `told`: that digest's zxid, if not the last.
        `without`: a znode that was deleted before it was written, though its parent was written before.
        """
        tree = self.at(zxid if until is None else until)
        counted = tree if told is None else self.at(told)
        digest = (counted.zxid, TreeDigest(2, counted.digest)) if tells else None
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"snapshot.{zxid:x}"
        znodes = [each for each in znodes_of(tree) if each.path != without]
        acls = {each.path: each.acl for each in znodes if each.acl != OPEN_ACL}
        path.write_bytes(
            writer.snapshot(
                znodes,
                sessions=self.at(zxid).sessions,
                acls={number: acl or () for number, acl in enumerate(acls.values())},
                acl_ids={path: number for number, path in enumerate(acls)},
                digest=digest,
            )
        )
        return path


def znodes_of(tree: Tree) -> list[StoredZnode]:
    """All znodes, parents first."""
    stored = [tree.stored(path) for path in tree.paths()]
    return [each for each in stored if each is not None]


def shown_tree(tree: Tree) -> list[tuple[Any, ...]]:
    """Path, data, stat and ACL of each znode as a client walks them, without the server's own."""
    found = []
    for znode in seen_znodes(tree):
        if znode.path.split("/")[1] != "zookeeper":
            stored = tree.stored(znode.path)
            assert stored is not None
            found.append((znode.path, znode.data, znode.stat, stored.acl))
    return found


def recorded_tree(name: str) -> list[tuple[Any, ...]]:
    """Path, data, stat and ACL of each znode of a tree in `tests/golden`."""
    return [
        (
            each["path"],
            data_of(each),
            ZnodeStat(*each["stat"].values()),
            tuple((acl["perms"], acl["scheme"], acl["id"]) for acl in each["acl"]),
        )
        for each in sorted(lines(f"{name}.jsonl"), key=lambda each: str(each["path"]))
    ]
