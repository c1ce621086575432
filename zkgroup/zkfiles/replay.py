"""The trees that a replay starts from, the zxids from which on it is exact, and the replay of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from zkgroup.zkfiles.files import ServerFile, with_following
from zkgroup.zkfiles.jute import DIGEST_VERSION, kernel
from zkgroup.zkfiles.records import FIRST_ZXIDS, Transaction, TreeDigest
from zkgroup.zkfiles.servers import EnsembleFiles
from zkgroup.zkfiles.snapshots import SnapshotEnd, likely_end, open_snapshot
from zkgroup.zkfiles.tree import Compared, Tree

if TYPE_CHECKING:
    from zkgroup.zkfiles.agreement import Piece
    from zkgroup.zkfiles.arrow import Batch
    from zkgroup.zkfiles.column_replay import ColumnReplay

    _PieceRows = tuple[Piece, Sequence[Batch]]

_STRETCH_ROWS: Final = 1 << 18
"""The rows that are applied at a time, as a znode is looked up and written back once for all of them."""


@dataclass(frozen=True, slots=True)
class SnapshotCandidate:
    """A snapshot file, with the zxid of the next one."""

    file: ServerFile
    next_zxid: int | None
    """The zxid of the same server's next snapshot, which began after this one had ended."""

    @property
    def zxid(self) -> int:
        return self.file.zxid


@dataclass(slots=True)
class Base:
    """A tree with all transactions up to `zxid`, and some of those up to `exact_from`.

    `agrees` is called after each transaction that is applied to the tree. A snapshot can have one
    transaction more than its end says without a znode that shows it, if that one deletes a znode or sets
    an ACL. After a replay up to that end, the tree has another digest than the snapshot ends with, and is
    right from the next transaction on. A wrong snapshot looks the same there; the next transaction's digest
    distinguishes the two.
    """

    tree: Tree
    zxid: int
    exact_from: int
    """The zxid from which on a replay gives the servers' tree. One later than the snapshot says, if the
    tree turned out to be ahead."""
    is_sure: bool
    """True if `exact_from` is known; otherwise it is the newest change in the snapshot."""
    snapshot: Path | None
    """The snapshot; None for the empty tree of a server's first start."""
    digest: TreeDigest | None = None
    """The digest of the tree at `digest_zxid`, if the snapshot has one of the known version."""
    digest_zxid: int = 0
    is_in_doubt: bool = field(default=False, init=False)
    """True if the tree had another digest than the snapshot, and no digest was compared since."""
    is_wrong: bool = field(default=False, init=False)
    """True if the next digest differed too, so that the snapshot is not the servers' tree."""
    _own: TreeDigest | None = field(default=None, init=False)
    """The digest of the snapshot, until the tree is compared with it."""

    def begin(self) -> Base:
        """Begins a replay: from now on the tree is compared with the digest of the snapshot."""
        self._own = self.digest if self.digest_zxid == self.exact_from else None
        self._look(self.zxid)
        return self

    def agrees(self, transaction: Transaction) -> bool | None:
        """Returns whether the tree has the digest of the transaction just applied; None where it has none."""
        zxid = transaction.zxid
        if not self.is_in_doubt:
            self._look(zxid)
            return None if zxid < self.exact_from else self.tree.agrees(transaction)
        agrees = self.tree.agrees(transaction)
        if agrees is None:
            self.exact_from = zxid + 1
        else:
            self.is_in_doubt, self.is_wrong = False, not agrees
        return agrees

    def is_over(self, zxid: int) -> bool:
        """Returns whether this transaction and those behind it only have to be compared with the tree."""
        return self._own is None and not self.is_in_doubt and zxid >= self.exact_from

    def doubt(self, zxid: int) -> str | None:
        """The reason why a replay from here does not give the tree at a zxid; None where it does."""
        return _doubt(self.snapshot, self.exact_from if self.is_sure else None, zxid)

    def _look(self, zxid: int) -> None:
        own = self._own
        if own is not None and zxid >= self.exact_from:
            self._own = None
            if zxid == self.exact_from and self.tree.has(own) is False:
                self.exact_from, self.is_in_doubt = zxid + 1, True


def candidates(ensemble: EnsembleFiles) -> list[SnapshotCandidate]:
    """All snapshots of all servers, by rising zxid."""
    found = [
        SnapshotCandidate(file, None if following is None else following.zxid)
        for server in ensemble.servers
        for file, following in with_following(server.files.snapshots)
    ]
    return sorted(found, key=lambda each: (each.zxid, each.file.path))


def begins_with_nothing(ensemble: EnsembleFiles) -> bool:
    """Returns whether the logs go back to the first transaction by their names, and can be read there."""
    logged = [server for server in ensemble.servers if server.first_logged is not None]
    first = min((server.first_logged or 0 for server in logged), default=None)
    return first in FIRST_ZXIDS and any(
        server.has_readable_front for server in logged if server.first_logged == first
    )


def empty_base() -> Base:
    """The tree before the first transaction."""
    return Base(Tree(), 0, 0, is_sure=True, snapshot=None)


def end_digest(candidate: SnapshotCandidate) -> tuple[int, TreeDigest] | None:
    """The digest that a snapshot ends with, and its zxid; None where it has none to compare.

    Reads the file to its end without keeping it; raises as `load` does.
    """
    return _usable(candidate, open_snapshot(candidate.file.path, candidate.zxid).end)


def load(candidate: SnapshotCandidate, *, digests: bool = True) -> Base:
    """Reads a snapshot. Raises DamagedFileError (a seal that does not hold too), NotZooKeeperFileError."""
    file = candidate.file
    reader = open_snapshot(file.path, file.zxid)
    tree = Tree.from_znodes(reader.znodes(), zxid=file.zxid, digests=digests)
    tree.sessions.update(reader.sessions)
    end = reader.end
    end_zxid = _window_end(candidate, end)
    exact_from = file.zxid if end_zxid is None else end_zxid
    if end_zxid is None or end.window_end(file.zxid) is not None:
        # A server changes the tree before it counts a transaction, so it can write one more than it says.
        exact_from = max(exact_from, tree.newest_zxid())
    digest_zxid, digest = _usable(candidate, end) or (0, None)
    return Base(tree, file.zxid, exact_from, end_zxid is not None, file.path, digest, digest_zxid)


def likely_doubt(candidate: SnapshotCandidate, zxid: int) -> str | None:
    """The reason why a replay from this snapshot does not give the tree at a zxid; None where it may.

    It is found from the file's last bytes and the names of other files, without reading the snapshot. Raises
    as `likely_end` does.
    """
    end = likely_end(candidate.file.path)
    return None if end is None else _doubt(candidate.file.path, _window_end(candidate, end), zxid)


def _doubt(snapshot: Path | None, exact_from: int | None, zxid: int) -> str | None:
    if exact_from is None:
        return f"{snapshot} does not say at which zxid it was complete"
    return f"{snapshot} was being written until {exact_from:#x}" if exact_from > zxid else None


def _usable(candidate: SnapshotCandidate, end: SnapshotEnd) -> tuple[int, TreeDigest] | None:
    """The digest, unless it is of zxid 0 or an earlier epoch: `SnapshotEnd.window_end`."""
    zxid, digest = end.digest_zxid, end.digest
    if zxid is None or digest is None or digest.version != DIGEST_VERSION:
        return None
    return (zxid, digest) if zxid and zxid >= candidate.zxid else None


def _window_end(candidate: SnapshotCandidate, end: SnapshotEnd) -> int | None:
    """The end of the window, from the file or the names of others; None where neither has it."""
    end_zxid = end.window_end(candidate.zxid)
    if end_zxid is None and candidate.zxid == 0:
        return 0  # written at the first start, before any client could connect
    return candidate.next_zxid if end_zxid is None else end_zxid


class Taker(Protocol):
    """The receiver of a replay: it takes all records in order, some of them many at a time."""

    def see(self, transaction: Transaction) -> None: ...

    def tree_within(self, first: int, last: int) -> Tree | None:
        """The tree, if records from one zxid to another only have to be compared with it."""
        ...

    def saw(self, last: int, compared: Compared) -> None:
        """Notes that records up to a zxid were applied to that tree."""
        ...

    @property
    def needs_tree(self) -> bool:
        """True if its znodes are read behind the last record."""
        ...


def replay(ensemble: EnsembleFiles, taker: Taker, after: int = 0, to_zxid: int | None = None) -> None:
    """Gives a taker all records in order, or those behind one zxid and up to another.

    They are given in columns if the logs are worth the import of numpy and the compiled kernel is installed.
    """
    first = after + 1 if after else 0
    if not (any(server.is_long_from(first) for server in ensemble.servers) and can_replay_columns()):
        for transaction in ensemble.transactions(first, to_zxid):
            taker.see(transaction)
        return
    from zkgroup.zkfiles.agreement import pieces
    from zkgroup.zkfiles.arrow import LOG, select
    from zkgroup.zkfiles.column_replay import COLUMNS
    from zkgroup.zkfiles.columns import Wanted

    wanted, stretches = Wanted(select(LOG, COLUMNS)), _Stretches(taker)
    waiting: list[_PieceRows] = []
    rows = 0
    for piece in pieces(ensemble, first, to_zxid):
        batches = list(piece.batches(wanted))
        waiting.append((piece, batches))
        rows += sum(batch.rows for batch in batches)
        if rows >= _STRETCH_ROWS:
            stretches.give(waiting)
            waiting, rows = [], 0
    stretches.give(waiting)
    if taker.needs_tree:
        stretches.settle()


def can_replay_columns() -> bool:
    """Returns whether records can be applied in columns: with numpy, pyarrow and the kernel."""
    try:
        from zkgroup.zkfiles import column_replay  # noqa: F401
    except ImportError:
        return False
    return kernel() is not None


class _Stretches:
    """The pieces for a taker, which are given in columns where they are plain."""

    def __init__(self, taker: Taker) -> None:
        self._taker = taker
        self._columns: ColumnReplay | None = None

    def settle(self) -> None:
        """Writes the znodes of the records so far into the tree."""
        if self._columns is not None:
            self._columns.settle()

    def give(self, some: Sequence[_PieceRows]) -> None:
        """Gives all in columns; where that is refused, each half, and a single piece record by record."""
        if not some or self._is_taken(some):
            return
        if len(some) == 1:
            self.settle()
            for transaction in some[0][0].transactions():
                self._taker.see(transaction)
            return
        half = len(some) // 2
        self.give(some[:half])
        self.give(some[half:])

    def _is_taken(self, some: Sequence[_PieceRows]) -> bool:
        from zkgroup.zkfiles.column_replay import ColumnReplay, OddRowsError

        if not all(batches for _, batches in some):
            return False
        first, last = int(some[0][0].zxids[0]), int(some[-1][0].zxids[-1])
        tree = self._taker.tree_within(first, last)
        if tree is None:
            return False
        if self._columns is None or self._columns.tree is not tree:
            self.settle()
            self._columns = ColumnReplay(tree)

        def is_known(zxid: int) -> bool:
            records = (record for piece, _ in some for record in piece.transactions(zxid))
            return all(record.digest is None or record.digest.version == DIGEST_VERSION for record in records)

        every = [batch for _, batches in some for batch in batches]
        try:
            compared = self._columns.apply(every, first, last, is_known)
        except OddRowsError:
            return False
        self._taker.saw(last, compared)
        return True
