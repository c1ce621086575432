"""What a report counts of all rows, counted in columns; needs numpy and pyarrow (the extra `fast`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from zkgroup.audit.columns.rows import Columns, Flags, columns_of
from zkgroup.audit.columns.selection import Keyed
from zkgroup.audit.columns.session_rows import sessions_in
from zkgroup.audit.columns.tables import Tables
from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.findings.load import BY_AREA
from zkgroup.audit.report.data import Counted
from zkgroup.audit.report.keeping import Limits
from zkgroup.audit.report.load import AREAS_MAX, Load
from zkgroup.audit.screening import of_group
from zkgroup.audit.source import Rows
from zkgroup.znodes.paths import Kind, path_kind

_SHOWN: Final[frozenset[Kind]] = frozenset(
    ("owner", "offset", "member", "group", "topic", "partition_state", "admin")
)
"""Kinds of paths whose rows a report shows, and does not only count."""


def counted(rows: Rows, facts: Facts, limits: Limits, group: str | None) -> tuple[Iterator[Event], Counted]:
    """The rows that are shown, and what is counted of all; of one group, where one is given."""
    columns = rows.columns()
    if columns is None:
        columns = columns_of(rows.events())
    if group is not None:
        columns = of_group(columns, group)
    load = _load(columns, facts, limits)
    is_shown = np.array([path_kind(path).kind in _SHOWN for path in columns.paths], np.bool_)
    shown: Flags = columns.applied & is_shown[columns.path] if len(columns) else columns.applied
    return columns.events(np.flatnonzero(shown)), Counted(sessions_in(columns, facts), load)


def _load(columns: Columns, facts: Facts, limits: Limits) -> Load:
    load = Load(facts, limits)
    areas = Keyed(columns).of(BY_AREA)
    if len(areas.keys) >= AREAS_MAX:  # which ones are counted apart depends on which came first
        for event in columns.events():
            load.see(event)
        return load
    refused = np.flatnonzero(~columns.applied[areas.rows])
    zxids = columns.zxid[areas.rows[refused]]
    kept: Flags = np.ones(len(areas.rows), np.bool_)
    kept[refused[1:][zxids[1:] == zxids[:-1]]] = False  # one failed multi, however many rows it has
    places, codes = areas.rows[kept], areas.codes[kept]
    sizes = np.bincount(codes, weights=Tables(columns, facts).sizes(places), minlength=len(areas.keys))
    steps = (columns.time_ms[places] - load.start_ms) // load.step_ms
    cells = codes.astype(np.int64) * load.buckets + np.clip(steps, 0, load.buckets - 1)
    known, counts = np.unique(cells, return_counts=True)
    by_area: dict[int, dict[int, int]] = {}
    for cell, count in zip(known.tolist(), counts.tolist(), strict=True):
        area, step = divmod(cell, load.buckets)
        by_area.setdefault(area, {})[step] = count
    for area, of_steps in by_area.items():
        load.add(areas.keys[area][0], of_steps, int(sizes[area]))
    return load
