"""What rules count and search in the columns of a series, in which most states say nothing. Needs numpy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from zkgroup.audit.findings.load import is_open
from zkgroup.audit.findings.offsets import marked_offset
from zkgroup.audit.findings.tables import offsets_in
from zkgroup.audit.inputs.events import Seen
from zkgroup.audit.inputs.snapshots import Series
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted
from zkgroup.zkfiles.arrow import Numbers
from zkgroup.zkfiles.records import StoredStat
from zkgroup.zkfiles.states import ABSENT, Runs, States
from zkgroup.znodes.consumers import offset_path
from zkgroup.znodes.paths import path_kind, subtree_text

CZXID, MZXID, VERSION, OWNER = map(StoredStat._fields.index, ("czxid", "mzxid", "version", "ephemeral_owner"))
"""Columns of `States.stats`."""
_UNKNOWN = ABSENT - 1


class Steps(NamedTuple):
    """An entry for each two runs of a path that follow each other."""

    path: Numbers
    old: Numbers
    new: Numbers
    """States, below 0 where the path was not there."""
    last: Numbers
    first: Numbers
    """The snapshots before and after."""


def steps_of(runs: Runs) -> Steps:
    """Those of some runs, which are by path."""
    at = np.flatnonzero(runs.path[1:] == runs.path[:-1])
    return Steps(runs.path[at], runs.state[at], runs.state[at + 1], runs.last[at], runs.first[at + 1])


def growth_in(states: States, runs: Runs, depth: int) -> Iterator[tuple[int, str]]:
    """What came and went, by subtree of `depth` names: the number of the later snapshot, and words.

    A path is left out, of the totals too, where one of the two snapshots does not know it.
    """
    names, of_path = np.unique([subtree_text(path, depth) for path in states.paths], return_inverse=True)
    used = np.flatnonzero(np.bincount(runs.state[runs.state >= 0]))
    # Behind the states there is a place for those below 0, which are none.
    size, mzxid = np.zeros((2, used.max(initial=0) + 3), np.int64)
    size[used], mzxid[used] = (
        [len(data) if data else 0 for data in states.data(used)],
        states.stats[used, MZXID],
    )
    end = runs.last.max(initial=-1)
    gaps = np.append((runs.path[1:] != runs.path[:-1]) | (runs.last[:-1] + 1 != runs.first[1:]), [True])
    gaps = gaps[: len(runs.path)] & (runs.last < end)  # behind them a path is not known
    path, first = np.append(runs.path, runs.path[gaps]), np.append(runs.first, runs.last[gaps] + 1)
    state, was = np.append(runs.state, np.full(gaps.sum(), _UNKNOWN)), np.full(len(states.paths), _UNKNOWN)
    rows, totals = np.argsort(first, kind="stable"), np.zeros((2, len(names)), np.int64)
    begins = np.searchsorted(first[rows], np.arange(end + 2))
    for number, new in enumerate(np.split(rows, begins[1:-1])):
        code, now, name = path[new], state[new], of_path[path[new]]
        old, was[code] = was[code], now
        known, stood, there = np.minimum(old, now) > _UNKNOWN, old >= 0, now >= 0
        moves = (there & ~stood, stood & ~there, stood & there & (mzxid[old] != mzxid[now]))
        sums = [*(known & each for each in moves), stood, stood * size[old], there, there * size[now]]
        if not known.all():
            came, went = there & ~known, stood & ~known
            sums += [went, went * size[old], came, came * size[now]]
        table = np.zeros((11, len(names)), np.int64)
        for row, each in enumerate(sums):
            table[row] = np.bincount(name, each, len(names))
        before, totals = totals - table[7:9], totals - table[3:5] + table[5:7]
        after = totals - table[9:]
        for at in np.flatnonzero(table[: len(moves)].any(axis=0)).tolist():
            added, removed, changed = table[: len(moves), at].tolist()
            moved = f"{added} added, {removed} removed, {changed} changed"
            (znodes, data), (znodes_now, data_now) = before[:, at].tolist(), after[:, at].tolist()
            total = f"{counted(znodes, 'znode')}, {counted(data, 'byte')} of data"
            yield number, f"{names[at]}: {moved}; {total} -> {znodes_now}, {counted(data_now, 'byte')}"


def writes_of_offsets(series: Series) -> Iterator[tuple[str, int, int, int]]:
    """Group, two snapshots, and the least number of writes of its offsets between them."""
    runs, stats, count = series.runs, series.table.stats, len(series.snapshots)
    places = [path_kind(path) for path in series.table.paths]
    names, of_path = np.unique([place.name for place in places], return_inverse=True)
    of_offsets = np.array([place.kind == "offset" for place in places], np.bool_)[runs.path]
    steps = steps_of(Runs(*(each[of_offsets] for each in runs)))
    is_same = (steps.old >= 0) & (stats[steps.old, CZXID] == stats[steps.new, CZXID])
    known = np.where(is_same, stats[steps.old, VERSION], -1)
    keys, of_key = np.unique(
        (of_path[steps.path] * count + steps.last) * count + steps.first, return_inverse=True
    )
    writes = np.bincount(of_key, np.where(steps.new >= 0, stats[steps.new, VERSION] - known, 0))
    for key, number in zip(keys.tolist(), writes.astype(np.int64).tolist(), strict=True):
        if number:
            yield str(names[key // count**2]), key // count % count, key % count, number


def opened(series: Series) -> Iterator[tuple[str, int, int]]:
    """The znodes that any client may change, and might not before: the path, and two snapshots."""
    table, there = series.table, series.runs.state >= 0
    runs = Runs(*(each[there] for each in series.runs))
    acls = np.array([-1 if acl is None else is_open(acl) for acl in table.acls], np.int8)[
        table.acl[runs.state]
    ]
    steps = steps_of(Runs(*(each[acls >= 0] for each in runs._replace(state=acls))))
    at = np.flatnonzero(steps.new > steps.old)
    for path, last, first in np.stack([steps.path[at], steps.last[at], steps.first[at]], 1).tolist():
        yield table.paths[path], last, first


def ephemerals_in(series: Series) -> Iterable[tuple[str, Sequence[Seen]]]:
    """The paths that a session or a TTL owned, with their runs."""
    owned = (series.runs.state >= 0) & (series.table.stats[series.runs.state, OWNER] != 0)
    return series.seen(np.unique(series.runs.path[owned]).tolist()).items()


def without_quiet_offsets(series: Series, least: float) -> Runs:
    """The runs of a series, of each offset the first one alone, and those in which or between which it does
    not only grow.

    Those that stood in `least` snapshots stay where it had an owner, and all where it has a marker.
    """
    runs, table = series.runs, series.table
    places = [path_kind(path) for path in table.paths]
    is_offset = np.array([place.kind == "offset" for place in places], np.bool_)[runs.path]
    owned = {
        offset_path(each.name, TopicPartition(each.topic, each.partition))
        for each in places
        if each.kind == "owner"
    }
    marked = {path for each in table.paths if (path := marked_offset(each)) is not None}
    rows = np.flatnonzero(is_offset & (runs.state >= 0))
    value = np.full(len(runs.path), -1)
    known, is_number = offsets_in(pa.array(table.data(runs.state[rows]), pa.binary()))
    value[rows] = np.where(is_number, known, -1)
    czxid = table.stats[runs.state, CZXID]
    is_next = runs.path[1:] == runs.path[:-1]
    grows = (value[:-1] >= 0) & (value[1:] >= value[:-1]) & (czxid[1:] == czxid[:-1])
    kept = ~is_offset | np.append([True], ~is_next)[: len(is_offset)]
    kept[:-1] |= is_next & ~grows
    kept[1:] |= is_next & ~grows
    kept |= np.array([path in marked for path in table.paths], np.bool_)[runs.path]
    is_owned = np.array([path in owned for path in table.paths], np.bool_)[runs.path]
    kept |= is_owned & (runs.last - runs.first + 1 >= least)
    return Runs(*(each[kept] for each in runs))
