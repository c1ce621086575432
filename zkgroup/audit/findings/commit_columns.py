"""The commits of each group, counted in columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from zkgroup.audit.findings.partition_columns import begins
from zkgroup.audit.findings.sliding_window import Occurrence
from zkgroup.audit.findings.tables import ScreenTables


def commits_by_group(
    tables: ScreenTables, minute_ms: int
) -> Iterator[tuple[str, Occurrence, Occurrence, tuple[int, int, int, int]]]:
    """Of each group without an odd offset: its first and its last commit, and four counts.

    These are commits, repeated offsets, sessions, and the commits of the busiest minute: those in a row that
    are of one minute.
    """
    columns, p, groups = tables.columns, tables.partitions, tables.groups
    is_commit, is_repeat = (np.zeros(len(columns), np.bool_) for _ in range(2))
    is_commit[p.selection.rows[p.is_commit]] = True
    is_repeat[p.selection.rows[p.repeats]] = True
    commits = groups.where(is_commit[groups.rows]).by_key()
    rows, codes = commits.rows, commits.codes
    if not len(rows):
        return
    is_first, _ = begins(codes)
    starts = np.flatnonzero(is_first)
    ends = np.append(starts[1:], len(codes))
    minute = columns.time_ms[rows] // minute_ms
    is_new = is_first | np.append([True], minute[1:] != minute[:-1])
    runs = np.flatnonzero(is_new)
    lengths = np.diff(np.append(runs, len(codes)))
    busiest = np.maximum.reduceat(lengths, np.searchsorted(runs, starts))
    repeats = np.add.reduceat(is_repeat[rows].astype(np.int64), starts)
    sessions = pa.array(columns.session[rows]).dictionary_encode()
    pairs = codes.astype(np.int64) * len(sessions.dictionary) + sessions.indices.to_numpy()
    writers = np.bincount(pa.array(pairs).unique().to_numpy() // len(sessions.dictionary))
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        code, ends_at = int(codes[start]), (rows[start], rows[end - 1])
        if not tables.odd_groups[code]:
            first, last = (Occurrence(int(columns.zxid[at]), int(columns.time_ms[at])) for at in ends_at)
            counts = (end - start, int(repeats[number]), int(writers[code]), int(busiest[number]))
            yield groups.keys[code][0], first, last, counts
