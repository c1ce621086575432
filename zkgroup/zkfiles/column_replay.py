"""The records of an ensemble for a replay, many at a time, by the compiled kernel.

What the kernel refuses, or does not decode, is given record by record.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from zkgroup.zkfiles.batches import Batch
from zkgroup.zkfiles.columns import ROWS_PER_BATCH
from zkgroup.zkfiles.ensemble import EnsembleFiles
from zkgroup.zkfiles.log_lists import ALL_ZXIDS, Wanted
from zkgroup.zkfiles.records import Transaction
from zkgroup.zkfiles.schemas import LOG, select
from zkgroup.zkfiles.zxids import follows

if TYPE_CHECKING:
    from zkgroup.zkfiles.agreement import Piece
    from zkgroup.zkfiles.compiled_replay import CompiledPaths
    from zkgroup.zkfiles.stretches import Compared
    from zkgroup.zkfiles.tree import Tree

COLUMNS: Final = (
    *("zxid", "sub", "session", "time", "type", "path", "data", "version", "ephemeral"),
    *("timeout_ms", "parent_cversion", "acl", "applied", "digest"),
)
"""Holds what a stretch is made of."""
_STRETCH_ROWS: Final = 1 << 18
"""That many are given at a time: a znode that changes is looked up and written back once for all of them."""


class Sees(Protocol):
    """Takes all records in order, some of them many at a time."""

    def see(self, transaction: Transaction) -> None: ...

    def tree_within(self, first: int, last: int) -> Tree | None:
        """The tree, where records from one zxid to another have only to be compared with it."""
        ...

    def saw(self, first: int, last: int, compared: Compared) -> None:
        """Records that follow each other were applied to that tree."""
        ...

    @property
    def looks_at_tree(self) -> bool:
        """True if anybody looks at the znodes of the tree when all records were given."""
        ...


class NoKernelError(Exception):
    """The compiled kernel is not here, or cannot tell: records have to be taken one by one."""


def has_kernel() -> bool:
    """Returns whether `replay` can be asked."""
    try:
        from zkgroup.zkfiles import compiled_replay  # noqa: F401
    except ImportError:
        return False
    return True


def replay(ensemble: EnsembleFiles, taker: Sees, after: int = 0, to_zxid: int | None = None) -> None:
    """Gives all records in order, or those behind one zxid and up to another.

    Raises NoKernelError before any was given.
    """
    try:
        from zkgroup.zkfiles.agreement import pieces
        from zkgroup.zkfiles.compiled_replay import CompiledPaths
    except ImportError as error:
        raise NoKernelError(str(error)) from error
    wanted = Wanted(select(LOG, COLUMNS), "", *ALL_ZXIDS, None, ROWS_PER_BATCH)
    with closing(_Stretches(taker, CompiledPaths(), after)) as stretches:
        for piece in pieces(ensemble, after + 1 if after else 0, to_zxid):
            stretches.add(_Rows(piece, list(piece.batches(wanted)) if piece.held else []))
        stretches.give()


class _Rows(NamedTuple):
    """A piece of a history and its rows; no batches where they do not tell all."""

    piece: Piece
    batches: Sequence[Batch]

    @property
    def size(self) -> int:
        """Returns how many rows there are."""
        return sum(batch.rows for batch in self.batches)


class _Stretches:
    """Brings pieces together, and gives as many at a time as the taker wants."""

    def __init__(self, taker: Sees, paths: CompiledPaths, after: int) -> None:
        self._last = after
        """The last zxid that was given, or the one behind which they begin."""
        self._taker = taker
        self._paths = paths
        self._pieces: list[_Rows] = []
        self._rows = 0

    def add(self, rows: _Rows) -> None:
        self._pieces.append(rows)
        self._rows += rows.size
        if self._rows >= _STRETCH_ROWS or not rows.batches:
            self.give()

    def give(self) -> None:
        """All that was added."""
        pieces, self._pieces, self._rows = self._pieces, [], 0
        if pieces:
            self._give(pieces)

    def close(self) -> None:
        """Brings the taker's tree to what was given in columns, if anybody looks at it."""
        if self._taker.looks_at_tree:
            self._paths.settle()

    def _give(self, pieces: Sequence[_Rows]) -> None:
        """Where all are refused, each half is tried; those of one piece are given record by record."""
        if self._is_taken(pieces):
            return
        if len(pieces) == 1:
            self._paths.settle()
            for transaction in pieces[0].piece.transactions():
                self._taker.see(transaction)
                self._last = transaction.zxid
            return
        half = len(pieces) // 2
        self._give(pieces[:half])
        self._give(pieces[half:])

    def _is_taken(self, pieces: Sequence[_Rows]) -> bool:
        if not all(rows.batches for rows in pieces):
            return False
        zxids = [rows.piece.zxids for rows in pieces]
        first, last = int(zxids[0][0]), int(zxids[-1][-1])
        tree = self._taker.tree_within(first, last)
        if tree is None or (self._last and not follows(first, self._last)):
            return False
        from zkgroup.zkfiles.stretches import OddRowsError, stretch_of

        batches = [batch for rows in pieces for batch in rows.batches]
        try:
            rows = stretch_of(batches, self._paths.codes_of)
            # A record without rows, or one that cannot be read, is a hole here.
            if not rows.tells(first, last):
                return False
            compared = self._paths.apply(tree, rows)
        except OddRowsError:
            return False
        self._taker.saw(first, last, compared)
        self._last = last
        return True
