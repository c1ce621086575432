"""Znodes of a snapshot as columns: the table `arrow.SNAPSHOT`. Needs numpy.

Where znodes follow each other, all those of a piece are read at once: a znode starts with the length of its
path, two bytes of which are zero if it is no giant, and the path's first slash. Such places are searched, and
are znodes where the lengths of each lead to the next. Numbers are read by views that start anywhere, and
texts and data are slices of the piece. The root and giants are read one by one.

Sources: FileSnap.java, DataTree.serializeNode and StatPersisted of ZooKeeper 3.4 to 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from zkgroup.errors import DamagedFileError
from zkgroup.zkfiles import arrow, snapshots
from zkgroup.zkfiles.columns import ROWS_PER_BATCH
from zkgroup.zkfiles.files import MAX_RECORD_BYTES
from zkgroup.zkfiles.jute import INT, JuteError, text_of
from zkgroup.zkfiles.records import Acl, lifetime_of

PIECE_BYTES: Final = 1 << 20
"""The bytes that are read at a time: many for few calls of numpy, few for the caches."""
_LONGS, _INTS = ("czxid", "mzxid", "ctime", "mtime", "owner", "pzxid"), ("version", "cversion", "aversion")
_STAT: Final = np.dtype(
    [
        ("acl", ">i8"), ("czxid", ">i8"), ("mzxid", ">i8"), ("ctime", ">i8"), ("mtime", ">i8"),
        ("version", ">i4"), ("cversion", ">i4"), ("aversion", ">i4"), ("owner", ">i8"), ("pzxid", ">i8"),
    ]
)  # fmt: skip
_SLASH: Final = 0x2F
_SHORTEST: Final = 2
"""The bytes of the shortest path: a single slash is the terminator."""


def snapshot_columns(
    path: Path,
    *,
    columns: Iterable[str] | None = None,
    path_prefix: str | None = None,
    zxid: int | None = None,
    rows_per_batch: int = ROWS_PER_BATCH,
) -> Iterator[arrow.Batch]:
    """Yields the znodes of a snapshot, a parent before its children.

    `columns` are names of arrow.SNAPSHOT; `path_prefix` is that of `log_columns`, `zxid` is for files
    without one in their name. `end_zxid` is behind the znodes: a packed file is read twice if
    that column is wanted.

    A batch has at least one row. One piece of the file is in memory, or one larger znode, and one batch.

    The rows are reliable only when the iteration has ended, as the seals are behind the znodes. Raises
    as `snapshots.SnapshotReader.znodes` does, after the rows before the damage.
    """
    wanted = arrow.select(arrow.SNAPSHOT, columns)
    reader = snapshots.open_snapshot(path, zxid)
    return znode_batches(reader, wanted, path_prefix, max(rows_per_batch, 1))


class _Numbered:
    """Bytes, read as numbers that start at any place."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.bytes = np.frombuffer(raw, np.uint8)
        self._ints = self.view(">i4")

    def view(self, type_: str) -> arrow.Numbers:
        """The values of this type that stand at each place."""
        layout = np.dtype(type_)
        return np.ndarray((max(len(self.raw) - layout.itemsize + 1, 0),), layout, self.raw, strides=(1,))

    def ints(self, places: arrow.Numbers) -> arrow.Numbers:
        """The ints at places, which all are inside."""
        return self._ints[places].astype(np.int64)

    def are_ascii(self, starts: arrow.Numbers, ends: arrow.Numbers) -> bool:
        """True if all slices are ASCII; none may be empty or reach the end of the bytes."""
        bounds = np.stack((starts, ends), axis=1).reshape(-1)
        return bool((np.bitwise_or.reduceat(self.bytes, bounds)[::2] < 0x80).all())

    @cached_property
    def slashes(self) -> arrow.Numbers:
        """The places of all slashes."""
        return np.flatnonzero(self.bytes == _SLASH)


class _ZnodeRun(NamedTuple):
    """Znodes that follow each other in one piece of a snapshot."""

    buffer: _Numbered
    base: int
    """The offset of the buffer in the plain file."""
    places: arrow.Numbers
    """For each znode the start and the end of its path, where the length of its data stands, and the
    end of its data, where its stat stands."""


def _runs_from(window: snapshots.SummedWindow) -> Iterator[_ZnodeRun]:
    """Yields znodes up to the terminator, and passes that. Raises as `znodes_from` does.

    Znodes that `_find` does not find come one by one; the root has its slash.
    """
    one_by_one = snapshots.znodes_from(window)
    while True:
        window.fill(PIECE_BYTES)
        run = _find(window.data[window.at :], window.offset)
        if run is not None:
            window.at += int(run.places[2, -1]) + snapshots.STAT.size
            yield run
            continue
        znode = next(one_by_one, None)
        if znode is None:
            return
        path = znode.path or b"/"
        data = path + INT.pack(-1 if znode.data is None else len(znode.data)) + (znode.data or b"")
        places = np.array([[0], [len(path)], [len(data)]])
        yield _ZnodeRun(_Numbered(data + snapshots.STAT.pack(*znode.stat)), znode.offset, places)


def znode_batches(
    reader: snapshots.SnapshotReader, columns: tuple[arrow.Column, ...], path_prefix: str | None, rows: int
) -> Iterator[arrow.Batch]:
    """Yields the batches of `snapshot_columns`; the reader has read its tables and its end then."""
    prefix = (path_prefix or "").encode()
    names = {column.name for column in columns}
    end_zxid = _end_zxid(reader) if "end_zxid" in names else None
    values = {"snap_zxid": reader.zxid, "end_zxid": end_zxid, "file": str(reader.path)}
    with closing(reader.read(_runs_from)) as runs:
        for run in chain.from_iterable(_in_utf8(reader, run, prefix) for run in runs):
            for first in range(0, run.places.shape[1], rows):
                some = _ZnodeColumns(run.buffer, run.places[:, first : first + rows], reader.acls)
                arrays = {
                    each.name: arrow.same(values[each.name], each.type, some.count)
                    if each.name in values
                    else some.column(each)
                    for each in columns
                }
                yield arrow.Batch(columns, arrays)
    if "end_zxid" in names and end_zxid != reader.end_zxid:
        expected, found = (
            "no end zxid" if zxid is None else f"the end zxid {zxid:#x}"
            for zxid in (end_zxid, reader.end_zxid)
        )
        raise DamagedFileError(str(reader.path), 0, expected, f"{found}: it was replaced")


def _in_utf8(reader: snapshots.SnapshotReader, run: _ZnodeRun, prefix: bytes) -> Iterator[_ZnodeRun]:
    """The znodes whose path begins with a prefix. Raises DamagedFileError for a path that is no text."""
    buffer, base, places = run
    first = 0
    if prefix:
        paths = arrow.slices(buffer.raw, places[:2].T.astype(np.int32).reshape(-1), "binary")
        places = places[:, pc.starts_with(paths, prefix).to_numpy(zero_copy_only=False)]
    if not buffer.are_ascii(places[0], places[1]):
        for number, (start, path_end, data_end) in enumerate(places.T.tolist()):
            path = buffer.raw[start:path_end]
            try:
                text = text_of(path).encode()
            except JuteError as error:
                yield run._replace(places=places[:, first:number])
                raise reader.no_text(path, base + start, error) from error
            if text != path:  # it had surrogates
                yield run._replace(places=places[:, first:number])
                longer = _Numbered(text + buffer.raw[path_end : data_end + snapshots.STAT.size])
                ends = np.array([[path_end], [data_end]]) - path_end + len(text)
                yield _ZnodeRun(longer, base, np.concatenate(([[0]], ends)))
                first = number + 1
    yield run._replace(places=places[:, first:])


def _end_zxid(reader: snapshots.SnapshotReader) -> int | None:
    """The end zxid; None also where the end is damaged, for the znodes before it are yielded then.

    It is read from the last bytes of a plain file, if they look right, and compared behind the znodes.
    """
    likely = snapshots.likely_end(reader.path)
    if likely is not None:
        return likely.window_end(reader.zxid)
    try:
        return reader.end_zxid
    except DamagedFileError:
        return None


def _find(data: bytes, base: int) -> _ZnodeRun | None:
    """Finds whole znodes from the front of a piece on, which begins at an offset of the file.

    They are some or all of those of `snapshots.znodes_from`, without the root, and nothing else; None
    for none.
    """
    buffer = _Numbered(data)
    places = _places(buffer)
    starts, _, data_ends = places
    if not len(starts) or starts[0] != INT.size:
        return None
    following = data_ends + snapshots.STAT.size + INT.size
    linked = following[:-1] == starts[1:]
    return _ZnodeRun(buffer, base, places if linked.all() else places[:, _chain(starts, following, linked)])


def _chain(starts: arrow.Numbers, following: arrow.Numbers, linked: arrow.Flags) -> arrow.Numbers:
    """The places that lead from the first one to the next and on, as some only look like znodes."""
    breaks = np.append(np.flatnonzero(~linked), len(starts) - 1)
    runs, first = [], 0
    while True:
        last = int(breaks[np.searchsorted(breaks, first)])
        runs.append(np.arange(first, last + 1))
        first = int(np.searchsorted(starts, following[last]))
        if first <= last or first >= len(starts) or starts[first] != following[last]:
            return np.concatenate(runs)


def _places(buffer: _Numbered) -> arrow.Numbers:
    """The places of possible whole znodes: the start and end of the path, and the end of the data."""
    size = len(buffer.raw)
    starts = buffer.slashes
    starts = starts[np.searchsorted(starts, INT.size) :]
    starts = starts[(buffer.bytes[starts - 4] | buffer.bytes[starts - 3]) == 0]
    lengths = buffer.ints(starts - INT.size)
    path_ends = starts + lengths
    can_be = (lengths >= _SHORTEST) & (path_ends + INT.size <= size)
    starts, path_ends = starts[can_be], path_ends[can_be]
    lengths = buffer.ints(path_ends)
    data_ends = path_ends + INT.size + np.maximum(lengths, 0)
    can_be = (lengths >= -1) & (lengths <= MAX_RECORD_BYTES) & (data_ends + snapshots.STAT.size <= size)
    return np.stack((starts, path_ends, data_ends))[:, can_be]


class _ZnodeColumns:
    def __init__(self, buffer: _Numbered, places: arrow.Numbers, acls: Mapping[int, Acl]) -> None:
        self._buffer = buffer
        self._starts, self._path_ends, self._data_ends = places
        self._acls = acls
        self.count = places.shape[1]
        self._stats = buffer.view(f"V{_STAT.itemsize}")[self._data_ends].view(_STAT)
        self._last_slashes = np.searchsorted(buffer.slashes, self._path_ends) - 1
        """The numbers of the last slash of each path among all slashes."""
        self._has_parent: arrow.Flags = self._path_ends - self._starts >= _SHORTEST

    def column(self, of: arrow.Column) -> Any:
        """A column that is not the same in all rows."""
        name = of.name
        if name in _LONGS:
            return arrow.numbers(self._stats[name].astype(np.int64), of.type)
        if name in _INTS:
            return arrow.numbers(self._stats[name].astype(np.int32), of.type)
        return getattr(self, f"_{name}")(of)

    def _slices(
        self,
        of: arrow.Column,
        starts: arrow.Numbers,
        ends: arrow.Numbers,
        present: arrow.Numbers | None = None,
    ) -> Any:
        bounds = np.stack((starts, ends), axis=1).astype(np.int32).reshape(-1)
        return arrow.slices(self._buffer.raw, bounds, of.type, present)

    def _path(self, of: arrow.Column) -> Any:
        return self._slices(of, self._starts, self._path_ends)

    def _parent(self, of: arrow.Column) -> Any:
        ends = np.maximum(self._buffer.slashes[self._last_slashes], self._starts + 1)
        return self._slices(of, self._starts, ends, None if self._has_parent.all() else self._has_parent)

    def _name(self, of: arrow.Column) -> Any:
        return self._slices(of, self._buffer.slashes[self._last_slashes] + 1, self._path_ends)

    def _depth(self, of: arrow.Column) -> Any:
        before = np.searchsorted(self._buffer.slashes, self._starts) - 1
        depths = np.where(self._has_parent, self._last_slashes - before, 0)
        return arrow.numbers(depths.astype(np.int32), of.type)

    def _data(self, of: arrow.Column) -> Any:
        is_there = self._buffer.ints(self._path_ends) >= 0
        present = None if is_there.all() else is_there
        return self._slices(of, self._path_ends + INT.size, self._data_ends, present)

    def _data_length(self, of: arrow.Column) -> Any:
        return arrow.numbers((self._data_ends - self._path_ends - INT.size).astype(np.int32), of.type)

    def _acl(self, of: arrow.Column) -> Any:
        codes, different = _coded(self._stats["acl"].astype(np.int64))
        return arrow.coded(codes, [self._acls.get(number) for number in different], of.type)

    def _kind(self, of: arrow.Column) -> Any:
        codes, owners = _coded(self._stats["owner"].astype(np.int64))
        return arrow.coded(codes, [lifetime_of(owner) or "persistent" for owner in owners], of.type)


def _coded(values: arrow.Numbers) -> tuple[arrow.Numbers, list[int]]:
    """The place of each value among the different ones, and these."""
    if (values == values[0]).all():
        return np.zeros(len(values), np.int32), [int(values[0])]
    different, codes = np.unique(values, return_inverse=True)
    return codes.astype(np.int32), different.tolist()
