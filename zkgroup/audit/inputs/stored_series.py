"""Tree snapshots in the Parquet of `audit run`: what is otherwise in each. Needs pyarrow."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from zkgroup.audit.inputs.converted import ConvertedSource, OpenFile, table_in
from zkgroup.audit.inputs.found_files import SkippedFile, Stamp
from zkgroup.audit.inputs.manifest import SNAPSHOTS, ZNODES, OutputFolder, StoredFile
from zkgroup.audit.inputs.series_source import SeriesSource
from zkgroup.audit.inputs.snapshots import Series
from zkgroup.errors import ConfigError
from zkgroup.zkfiles.arrow import Numbers
from zkgroup.zkfiles.exports import ExportHeader
from zkgroup.zkfiles.records import AclEntry
from zkgroup.zkfiles.snapshots import TreeSnapshot
from zkgroup.zkfiles.states import ABSENT, STAT, States, StatesReader, Znodes

_TEXTS: Final = {"path": pa.string(), "is_there": pa.bool_(), "data": pa.binary(), "acl": pa.string()}
_ZNODES: Final = pa.schema({"snapshot_zxid": pa.int64(), **_TEXTS, **dict.fromkeys(STAT, pa.int64())})
"""What a path is from a snapshot on; all but `path` is null where it is not there any more."""
_SNAPSHOTS: Final = pa.schema(
    {"snapshot_zxid": pa.int64(), "time_ms": pa.int64(), "path": pa.string(), "more": pa.string()}
)
"""`more` has all that is known of a snapshot, in JSON."""


TAIL: Final = ""
"""The content of the tree at the end of logs, which is no file."""


class StoredSnapshot(NamedTuple):
    """A tree snapshot, and the files that have its zxid."""

    snapshot: TreeSnapshot
    contents: Mapping[str, Stamp]
    """Of each file the bytes, and the CRC of its end, where its own checksum is; and its stamp."""


def snapshot_table(stored: Iterable[StoredSnapshot]) -> Any:
    """The rows of table `snapshots`, as a pyarrow.Table."""
    rows = []
    for each in stored:
        of, more = each.snapshot, json.dumps((each.snapshot._asdict(), each.contents), default=_plain)
        rows.append({"snapshot_zxid": of.zxid, "time_ms": of.time_ms, "path": str(of.path), "more": more})
    return pa.Table.from_pylist(rows, schema=_SNAPSHOTS)


def _plain(value: Any) -> Any:
    """What JSON has no word for."""
    if isinstance(value, ExportHeader):
        return asdict(value)
    return sorted(value) if isinstance(value, frozenset) else str(value)


def snapshots_in(output: OutputFolder, name: str) -> Sequence[StoredSnapshot]:
    """The tree snapshots of an ensemble, by zxid. Raises as `table_in`."""
    return _snapshots_in(output, output.number, name)


@lru_cache(maxsize=1)
def _snapshots_in(output: OutputFolder, _number: int, name: str) -> Sequence[StoredSnapshot]:
    table = table_in(output.files(SNAPSHOTS, name), output.folder.source, ["more"])
    found = {}
    for fields, contents in map(json.loads, [] if table is None else table["more"].to_pylist()):
        fields |= {
            "path": Path(fields["path"]),
            "header": fields["header"] and ExportHeader(**fields["header"]),
        }
        fields |= {each: frozenset(fields[each]) for each in ("unreadable", "unknown")}
        if fields["sessions"] is not None:
            fields["sessions"] = {int(session): timeout for session, timeout in fields["sessions"].items()}
        stamps = {content: (path, size, time_ns) for content, (path, size, time_ns) in contents.items()}
        found[fields["zxid"]] = StoredSnapshot(TreeSnapshot(**fields), stamps)
    return [found[zxid] for zxid in sorted(found)]


def changes_in(series: Series, after_zxid: int, whole: Collection[int] = ()) -> Any:
    """The rows of table `znodes` for the snapshots behind a zxid: what is otherwise than in the one before.

    Args:
        whole: the zxids of snapshots of which each path gets a row.
    """
    table = series.table
    before = table.by_path(np.empty(0, np.int32))
    changes: list[tuple[Numbers, ...]] = [(np.empty(0, np.int64), before[:0], before[:0])]
    for number, snapshot in enumerate(series.snapshots):
        now = table.by_path(series.trees[number])
        if snapshot.zxid > after_zxid:
            codes = np.flatnonzero((now != before) | (snapshot.zxid in whole))
            changes.append((np.full(len(codes), snapshot.zxid), codes, now[codes]))
        before = now
    return _rows(table, *(np.concatenate(parts) for parts in zip(*changes, strict=True)))


def last_tree(series: Series) -> Any:
    """Rows of table `znodes` for all that the last snapshot has."""
    states = series.trees[-1]
    zxids = np.full(len(states), series.snapshots[-1].zxid)
    return _rows(series.table, zxids, series.table.path[states], states)


def _rows(table: States, zxids: Numbers, codes: Numbers, states: Numbers) -> Any:
    there = states != ABSENT
    znodes = list(table.znodes(states[there]))
    acls = {acl: None if acl is None else json.dumps(acl) for acl in table.acls}
    columns = [
        pa.array([each.data for each in znodes], pa.binary()),
        pa.array([acls[each.acl] for each in znodes], pa.string()),
        *table.stats[states[there]].T,
    ]
    at = pa.array(np.cumsum(there) - 1, mask=~there)
    stored = pa.table(columns, _ZNODES.names[3:]).take(at)
    paths = pa.array(table.paths, pa.string()).take(pa.array(codes))
    return pa.table([zxids, paths, there, *stored.columns], schema=_ZNODES)


def znodes_in(files: Iterable[StoredFile], source: OpenFile) -> Any:
    """The rows of such files as a pyarrow.Table, with codes for texts. Raises as `table_in`."""
    table = table_in(files, source, _ZNODES.names, ("path", "acl"))
    return _ZNODES.empty_table() if table is None else table.unify_dictionaries()


def rows_from(rows: Any, zxid: int) -> Any:
    """Rows by path and then by snapshot, of those that stand for one path and snapshot the last alone.

    Those before a zxid count as of it, and of paths that are not there then is none.
    """
    codes, zxids = _codes(rows["path"]).indices.to_numpy(), rows["snapshot_zxid"].to_numpy()
    order = np.lexsort((zxids, codes))
    codes, zxids = codes[order], np.maximum(zxids[order], zxid)
    is_last = np.append((codes[1:] != codes[:-1]) | (zxids[1:] != zxids[:-1]), np.True_)[: len(order)]
    is_last &= rows["is_there"].to_numpy()[order] | (zxids > zxid)
    some = rows.take(pa.array(order[is_last])).set_column(0, _ZNODES.field(0), pa.array(zxids[is_last]))
    return some.set_column(1, _ZNODES.field(1), some["path"].cast(pa.string()))  # codes would keep all paths


def read_stored(snapshot: TreeSnapshot, rows: Any, reader: StatesReader) -> tuple[TreeSnapshot, Numbers]:
    """A snapshot, and the states of the znodes in its rows, as readers of files give them."""
    znodes = _znodes(rows, reader.states)._replace(paths=rows["path"].to_pylist())
    return snapshot, reader.states.intern(znodes)


def _znodes(rows: Any, table: States) -> Znodes:
    coded = _codes(rows["acl"])
    texts = map(json.loads, coded.dictionary.to_pylist())
    acls = [table.acl_code(tuple(AclEntry(*entry) for entry in acl)) for acl in texts]
    of_rows = np.array([*acls, table.acl_code(None)], np.int32)[coded.indices.fill_null(len(acls)).to_numpy()]
    stats = np.stack([rows[name].fill_null(0).to_numpy() for name in STAT], axis=1)
    return Znodes((), rows["data"].to_numpy().tolist(), of_rows, stats)


def _codes(column: Any) -> Any:
    whole = column.combine_chunks()
    return whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()


def series_in(rows: Any, snapshots: Sequence[TreeSnapshot]) -> Series:
    """The series of these snapshots."""
    paths, there, table = _codes(rows["path"]), rows["is_there"].to_numpy(), States()
    codes, znodes = paths.indices.to_numpy(), _znodes(rows, table)
    table.fill(paths.dictionary.to_pylist(), codes, znodes)
    numbers = np.where(there, np.arange(len(codes), dtype=np.int32), ABSENT)
    zxids = rows["snapshot_zxid"].to_numpy()
    # Of rows that stand for one path and snapshot the last counts.
    order, now, trees = np.argsort(zxids, kind="stable"), table.by_path(numbers[:0]), []
    ends = np.searchsorted(zxids[order], [each.zxid for each in snapshots], "right")
    for some in np.split(order, ends)[: len(snapshots)]:
        now[codes[some]] = numbers[some]
        trees.append(now[now != ABSENT])
    return Series(snapshots, table, trees)


def stored_series(logs: ConvertedSource, *, is_read: bool = True) -> SeriesSource:
    """The tree snapshots of an ensemble that `audit run` converted, beside its logs where it has some.

    Args:
        is_read: False for the snapshots without their znodes.

    Raises ConfigError for another chroot.
    """
    output, name = logs.output, logs.ensemble
    require_chroot(output, name, logs.chroot)
    every, last = snapshots_in(output, name), logs.converted.last_record
    # The tree at the end of logs counts while they end there, and other snapshots are behind it.
    counts = last is not None and any(each.snapshot.zxid > last for each in every)
    stored = [each for each in every if [*each.contents] != [TAIL] or (counts and each.snapshot.zxid == last)]
    snapshots = [each.snapshot for each in stored]
    series = Series(snapshots, States(), [np.empty(0, np.int32)] * len(snapshots))
    if is_read:
        series = series_in(znodes_in(output.files(ZNODES, name), output.folder.source), snapshots)
    twins = sum(len(each.contents) - 1 for each in stored)
    of_logs = logs if logs.converted.logs else None
    skipped = [SkippedFile(*each) for each in logs.converted.skipped]
    return SeriesSource(series, logs.chroot, logs.progress, of_logs, skipped, twins=twins)


def require_chroot(output: OutputFolder, name: str, chroot: str) -> None:
    """Raises ConfigError for a chroot for which an ensemble was not converted."""
    converted = output.ensembles[name]
    if (chroot or converted.logs) and converted.chroot != chroot:
        raise ConfigError(
            f"{output.folder.place}: expected the chroot {converted.chroot or '/'} of its ensemble {name},"
            f" found {chroot or '/'}: convert the snapshots again, into another output"
        )
