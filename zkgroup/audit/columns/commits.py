"""The commits of each group, counted in columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zkgroup.audit.columns.partitions import begins
from zkgroup.audit.columns.tables import Tables


def commits_by_group(
    tables: Tables, minute_ms: int
) -> Iterator[tuple[str, tuple[int, int, int, int], tuple[int, int, int, int]]]:
    """Of each group without an odd offset: zxids and times of its first and last commit, and four counts.

    These are commits, repeated offsets, sessions, and the commits of the busiest minute: those in a row that
    are of one minute.
    """
    p, groups = tables.partitions, tables.groups
    of_row = np.full(len(tables.columns), -1)
    of_row[groups.rows] = groups.codes
    places = np.flatnonzero(p.is_commit)
    codes = of_row[p.selection.rows[places]]
    order = np.lexsort((p.selection.rows[places], codes))
    places, codes = places[order], codes[order]
    if not len(places):
        return
    is_first, _ = begins(codes)
    starts = np.flatnonzero(is_first)
    ends = np.append(starts[1:], len(codes))
    minute = p.time_ms[places] // minute_ms
    is_new = is_first | np.append([True], minute[1:] != minute[:-1])
    runs = np.flatnonzero(is_new)
    lengths = np.diff(np.append(runs, len(codes)))
    busiest = np.maximum.reduceat(lengths, np.searchsorted(runs, starts))
    repeats = np.add.reduceat(p.repeats[places].astype(np.int64), starts)
    sessions, of_session = np.unique(p.session[places], return_inverse=True)
    pairs = np.unique(codes.astype(np.int64) * len(sessions) + of_session) // len(sessions)
    writers = np.bincount(pairs, minlength=len(groups.keys))
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        code, first, last = int(codes[start]), places[start], places[end - 1]
        if not tables.odd_groups[code]:
            bounds = (int(p.zxid[first]), int(p.zxid[last]), int(p.time_ms[first]), int(p.time_ms[last]))
            counts = (end - start, int(repeats[number]), int(writers[code]), int(busiest[number]))
            yield groups.keys[code][0], bounds, counts
