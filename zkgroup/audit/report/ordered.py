"""Rows of a table that come bucket by bucket, given back in the order of the history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from zkgroup.audit.buckets.temporary import TemporaryTables
from zkgroup.audit.columns.rows import Flags, Numbers

SIZE: Final = 50_000
"""Rows that are given at a time."""
_SEEDS: Final = "seeds"
_PATH, _ZXID, _SUB = "_path", "_zxid", "_sub"
_ORDER: Final = (_ZXID, _SUB, _PATH)


class OrderedTable:
    """Takes the rows of some partitions at a time. Memory: those of one part of the history.

    Rows of a history that is in memory come at once, and are given at once. Others are kept as temporary
    Parquet, for each part of the history apart.
    """

    def __init__(
        self, give: Callable[[Any], None], ends: Sequence[int], tables: TemporaryTables | None
    ) -> None:
        """
        Args:
            give: gets pyarrow.Tables of SIZE rows, the last one of fewer.
            ends: the last zxid of each part of the history.
            tables: where rows are kept; None where all come at once.
        """
        self._give, self._ends, self._tables = give, np.array(ends, np.int64), tables

    def add(
        self,
        make: Callable[[Numbers], Any],
        zxid: Numbers,
        sub: Numbers,
        is_seed: Flags,
        paths: Callable[[Numbers], Sequence[str]],
    ) -> None:
        """Rows in order. `make` gives some of them, by their numbers, as a pyarrow.Table.

        What stood before the history is in the order of zxids and paths.
        """
        numbers = np.arange(len(zxid))
        if self._tables is None:
            for begin in range(0, len(numbers), SIZE):
                self._give(make(numbers[begin : begin + SIZE]))
            return
        seeds = numbers[is_seed]
        if len(seeds):
            order = {_ZXID: zxid[seeds], _SUB: sub[seeds], _PATH: pa.array(paths(seeds), pa.string())}
            self._keep(_SEEDS, make(seeds), order)
        logged = numbers[~is_seed]
        parts = np.searchsorted(self._ends, zxid[logged])
        for part in np.unique(parts).tolist():
            some = logged[parts == part]
            self._keep(str(part), make(some), {_ZXID: zxid[some], _SUB: sub[some]})

    def finish(self) -> None:
        """Gives what was kept."""
        rest: Any = None
        for part in self._parts():
            rest = part if rest is None else pa.concat_tables([rest, part])
            whole = len(rest) // SIZE * SIZE
            for begin in range(0, whole, SIZE):
                self._give(rest.slice(begin, SIZE))
            rest = rest.slice(whole)
        if rest is not None and len(rest):
            self._give(rest)

    def _keep(self, name: str, table: Any, order: dict[str, Any]) -> None:
        assert self._tables is not None
        for key, values in order.items():
            table = table.append_column(key, values if isinstance(values, pa.Array) else pa.array(values))
        self._tables.add(name, table)

    def _parts(self) -> Iterator[Any]:
        """The rows of each part of the history in order."""
        if self._tables is None:
            return
        for name in (_SEEDS, *map(str, range(len(self._ends) + 1))):
            pieces = self._tables.read(name)
            if not pieces:
                continue
            table = pa.concat_tables(pieces)
            keys = [(key, "ascending") for key in (_ZXID, _PATH if name == _SEEDS else _SUB)]
            ordered = table.sort_by(keys)
            yield ordered.drop_columns([key for key in _ORDER if key in ordered.column_names])
