"""The minute of each key that has most rows, counted in columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zkgroup.audit.findings.partition_columns import begins
from zkgroup.audit.findings.sliding_window import Occurrence
from zkgroup.audit.findings.tables import ScreenTables
from zkgroup.audit.inputs.keys import Key
from zkgroup.audit.inputs.selection import Selection


def busiest_minutes(
    tables: ScreenTables, rows: Selection, enough: float, minute_ms: int, once: Key
) -> Iterator[tuple[Key, Occurrence, Occurrence, tuple[int, int, int, int, int, int]]]:
    """Of each key with a minute of enough rows: the ends of the busiest, and six counts.

    These are rows, bytes, the session with most rows, how many it has, how many minutes have enough, and the
    most rows of one transaction at any time. Of the key `once` a transaction counts as one row.
    """
    columns, ordered = tables.columns, rows.by_key()
    if not len(ordered.rows):
        return
    numbers, codes = ordered.rows, ordered.codes
    is_first, _ = begins(codes)
    zxid = columns.zxid[numbers]
    is_new = is_first | np.append([True], zxid[1:] != zxid[:-1])
    transactions = np.flatnonzero(is_new)
    sizes = np.diff(np.append(transactions, len(codes)))
    keys = np.searchsorted(transactions, np.flatnonzero(is_first))
    biggest = dict(zip(codes[is_first].tolist(), np.maximum.reduceat(sizes, keys).tolist(), strict=True))
    if once in ordered.keys:
        kept = (codes != ordered.keys.index(once)) | is_new
        numbers, codes = numbers[kept], codes[kept]
    is_first, _ = begins(codes)
    minute = columns.time_ms[numbers] // minute_ms
    runs = np.flatnonzero(is_first | np.append([True], minute[1:] != minute[:-1]))
    lengths = np.diff(np.append(runs, len(codes)))
    is_hot = lengths >= enough
    for code in np.unique(codes[runs[is_hot]]).tolist():
        hot = np.flatnonzero(is_hot & (codes[runs] == code))
        best = hot[int(np.argmax(lengths[hot]))]
        part = numbers[runs[best] : runs[best] + lengths[best]]
        sessions, counts = np.unique(columns.session[part], return_counts=True)
        most = int(counts.max())
        ends = part[0], part[-1]
        first, last = (Occurrence(int(columns.zxid[at]), int(columns.time_ms[at])) for at in ends)
        yield (
            ordered.keys[code],
            first,
            last,
            (
                len(part),
                int(tables.sizes(part).sum()),
                int(sessions[counts == most].min()),
                most,
                len(hot),
                biggest[code],
            ),
        )
