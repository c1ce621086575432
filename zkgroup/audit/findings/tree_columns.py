"""Says what stands at the end of a history, as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from zkgroup.audit.findings.tables import ScreenTables
from zkgroup.audit.inputs.events import CREATE, DELETE, SET
from zkgroup.audit.inputs.rows import Columns, Flags, Numbers, last_of_paths
from zkgroup.audit.inputs.selection import Selection

_PER_NAME = 4
"""Bytes that a child costs in a list answer beside its name."""


class TreeTable:
    """The last rows of each path, among those of a selection."""

    def __init__(self, tables: ScreenTables, rows: Selection) -> None:
        self._tables, self._rows = tables, rows
        columns = tables.columns
        op, paths = columns.op[rows.rows], columns.path[rows.rows]
        size = len(columns.paths)
        change = last_of_paths(size, paths, (op == CREATE) | (op == DELETE))
        changed = np.flatnonzero(change >= 0)
        self.living = changed[op[change[changed]] == CREATE]
        """The codes of the paths that are there."""
        self.change: Numbers = change[self.living]
        """The place of the create of each of them; and of its last write."""
        self.write: Numbers = last_of_paths(size, paths, (op == CREATE) | (op == SET))[self.living]

    def of_large_subtrees(self, bounds: Mapping[str, float]) -> Selection:
        """The creates and last writes of what stands in subtrees with something large, wide or numerous."""
        rows, columns = self._rows, self._tables.columns
        codes = rows.codes[self.change]
        is_large = self._tables.sizes(rows.rows[self.write]) >= bounds["data_bytes"]
        counts = np.bincount(codes, minlength=len(rows.keys))
        flags = counts >= bounds["znodes"]
        flags[codes[is_large]] = True
        lists: defaultdict[str, int] = defaultdict(int)
        subtrees: dict[str, int] = {}
        for path, code in zip(self.living.tolist(), codes.tolist(), strict=True):
            parent, _, name = columns.paths[path].rpartition("/")
            lists[parent] += len(name.encode()) + _PER_NAME
            subtrees[parent] = code
        for parent, size in lists.items():
            if parent and size >= bounds["list_bytes"]:
                flags[subtrees[parent]] = True
        kept = np.zeros(len(rows.rows), np.bool_)
        kept[self.change] = True
        kept[self.write] = True
        return rows.where(kept & flags[rows.codes])


def is_last_of_path(columns: Columns, rows: Selection) -> Flags:
    """Returns whether a row is the last one of its path among these."""
    last = last_of_paths(len(columns.paths), columns.path[rows.rows], np.ones(len(rows.rows), np.bool_))
    flags: Flags = np.zeros(len(rows.rows), np.bool_)
    flags[last[last >= 0]] = True
    return flags


def have_rows(columns: Columns, rows: Selection) -> Flags:
    """For each path whether it has a row among these."""
    flags: Flags = np.zeros(len(columns.paths), np.bool_)
    flags[columns.path[rows.rows]] = True
    return flags
