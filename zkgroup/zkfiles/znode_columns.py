"""Znodes of a snapshot as columns: the table `schemas.SNAPSHOT`. Needs numpy.

Where znodes lie one behind the other, all those of a piece are taken at once: a znode starts with the length
of its path, two bytes of which are zero if it is no giant, and the path's first slash. Such places are looked
for, and are znodes where each one's lengths lead to the next. Numbers are read by views that start anywhere,
and texts and data are given by their bounds. The root and giants are found one by one.

Sources: FileSnap.java, DataTree.serializeNode and StatPersisted of ZooKeeper 3.4 to 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from zkgroup.errors import DamagedFileError
from zkgroup.zkfiles.batches import Batch, Coded, FixedWidth, Packed, PackedBatch, Same, Slices
from zkgroup.zkfiles.byte_arrays import Bytes, Flags, Numbers
from zkgroup.zkfiles.columns import ROWS_PER_BATCH
from zkgroup.zkfiles.compression import MAX_RECORD_BYTES
from zkgroup.zkfiles.jute import INT, JuteError, text_of
from zkgroup.zkfiles.lifetimes import lifetime_of
from zkgroup.zkfiles.records import Acl
from zkgroup.zkfiles.schemas import SNAPSHOT, Column, select
from zkgroup.zkfiles.snapshots import (
    STAT,
    RawZnode,
    SnapshotReader,
    SummedWindow,
    glimpsed_end,
    open_snapshot,
    znodes_from,
)

PIECE_BYTES: Final = 1 << 20
"""Bytes that are read at a time: enough for numpy's calls to cost little, few enough for the caches."""
_LONGS, _INTS = ("czxid", "mzxid", "ctime", "mtime", "owner", "pzxid"), ("version", "cversion", "aversion")
_STAT: Final = np.dtype(
    [
        ("acl", ">i8"), ("czxid", ">i8"), ("mzxid", ">i8"), ("ctime", ">i8"), ("mtime", ">i8"),
        ("version", ">i4"), ("cversion", ">i4"), ("aversion", ">i4"), ("owner", ">i8"), ("pzxid", ">i8"),
    ]
)  # fmt: skip
_KINDS: Final = ("persistent", "session", "container", "ttl")
_SHORTEST: Final = 2
"""Bytes of a path: the one of a single slash is the terminator."""


def snapshot_columns(
    path: Path,
    *,
    columns: Iterable[str] | None = None,
    data: bool = True,
    path_prefix: str | None = None,
    zxid: int | None = None,
    rows_per_batch: int = ROWS_PER_BATCH,
) -> Iterator[Batch]:
    """The znodes of a snapshot, a parent before its children.

    `columns` are names of schemas.SNAPSHOT; `path_prefix` and `data` are those of `log_columns`, `zxid`
    stands in for that of the file's name. `end_zxid` is behind the znodes: a packed file is read twice where
    that column is wanted.

    A batch has at least one row. One piece of the file is in memory, or one larger znode, and one batch.

    What was given is to be trusted only when the iteration has ended: the seals are behind the znodes. Raises
    as `snapshots.SnapshotReader.znodes` does, after the rows before the damage.
    """
    wanted = select(SNAPSHOT, columns, data=data)
    reader = open_snapshot(path, zxid)
    return _batches(reader, wanted, path_prefix, max(rows_per_batch, 1))


class _ZnodeRun(NamedTuple):
    """Znodes that follow each other in one piece of a snapshot."""

    buffer: Bytes
    base: int
    """The offset of the buffer in the plain file."""
    places: Numbers
    """Of each znode the start of its path, the end of its path, where the length of its data stands, and the
    end of its data, where its stat stands."""


def _runs_from(window: SummedWindow) -> Iterator[_ZnodeRun]:
    """Up to the terminator, which is passed. Raises as `znodes_from` does.

    What `_find` does not take comes znode by znode.
    """
    one_by_one = znodes_from(window)
    while True:
        window.fill(PIECE_BYTES)
        run = _find(window.data[window.at :], window.offset)
        if run is not None:
            window.at += int(run.places[2, -1]) + STAT.size
            yield run
            continue
        znode = next(one_by_one, None)
        if znode is None:
            return
        yield _run_of(znode)


def _run_of(znode: RawZnode) -> _ZnodeRun:
    """The same as a run; the root has its slash."""
    path = znode.path or b"/"
    data = path + INT.pack(-1 if znode.data is None else len(znode.data)) + (znode.data or b"")
    places = np.array([[0], [len(path)], [len(data)]])
    return _ZnodeRun(Bytes(data + STAT.pack(*znode.stat)), znode.offset, places)


def _batches(
    reader: SnapshotReader, columns: tuple[Column, ...], path_prefix: str | None, rows: int
) -> Iterator[Batch]:
    """The znodes whose path begins with a prefix, by so many at most."""
    prefix = (path_prefix or "").encode()
    names = [column.name for column in columns]
    end_zxid = _end_zxid(reader) if "end_zxid" in names else None
    values = {"snap_zxid": reader.zxid, "end_zxid": end_zxid, "file": str(reader.path)}
    of_file = {name: Same(value) for name, value in values.items() if name in names}
    with closing(reader.read(_runs_from)) as runs:
        for run in chain.from_iterable(_in_utf8(reader, run, prefix) for run in runs):
            for first in range(0, run.places.shape[1], rows):
                some = _ZnodeColumns(run.buffer, run.places[:, first : first + rows], reader.acls)
                packed = {name: of_file[name] if name in of_file else some.column(name) for name in names}
                yield PackedBatch(columns, some.count, packed)
    if "end_zxid" in names and end_zxid != reader.end_zxid:
        expected, found = (
            "no end zxid" if zxid is None else f"the end zxid {zxid:#x}"
            for zxid in (end_zxid, reader.end_zxid)
        )
        raise DamagedFileError(str(reader.path), 0, expected, f"{found}: it was replaced")


def _in_utf8(reader: SnapshotReader, run: _ZnodeRun, prefix: bytes) -> Iterator[_ZnodeRun]:
    """The znodes whose path begins with a prefix. Raises DamagedFileError for a path that is no text."""
    buffer, base, places = run
    first = 0
    if prefix:
        places = places[:, buffer.begin_with(prefix, places[0], places[1])]
    if not buffer.are_ascii(places[0], places[1]):
        for number, (start, path_end, data_end) in enumerate(places.T.tolist()):
            path = buffer.raw[start:path_end]
            try:
                text = text_of(path).encode()
            except JuteError as error:
                yield run._replace(places=places[:, first:number])
                raise reader.no_text(path, base + start, error) from error
            if text != path:  # of surrogates
                yield run._replace(places=places[:, first:number])
                longer = Bytes(text + buffer.raw[path_end : data_end + STAT.size])
                ends = np.array([[path_end], [data_end]]) - path_end + len(text)
                yield _ZnodeRun(longer, base, np.concatenate(([[0]], ends)))
                first = number + 1
    yield run._replace(places=places[:, first:])


def _end_zxid(reader: SnapshotReader) -> int | None:
    """Returns what the end of the file says; None too where it is damaged, for then the znodes before it are
    told.

    The last bytes of a plain file tell, if they look like a dialect's; it is compared behind the znodes.
    """
    told = glimpsed_end(reader.path)
    if told is not None:
        return told.window_end(reader.zxid)
    try:
        return reader.end_zxid
    except DamagedFileError:
        return None


def _find(data: bytes, base: int) -> _ZnodeRun | None:
    """Whole znodes from the front of a piece on, which stands at an offset of the file.

    Some or all of those that `snapshots.znodes_from` would give, but for the root, and nothing else; None
    where it finds none.
    """
    buffer = Bytes(data)
    places = _places(buffer)
    starts, _, data_ends = places
    if not len(starts) or starts[0] != INT.size:
        return None
    following = data_ends + STAT.size + INT.size
    linked = following[:-1] == starts[1:]
    return _ZnodeRun(buffer, base, places if linked.all() else places[:, _chain(starts, following, linked)])


def _chain(starts: Numbers, following: Numbers, linked: Flags) -> Numbers:
    """Returns which of the places follow one from the other, from the first on, when some only look like
    znodes."""
    breaks = np.append(np.flatnonzero(~linked), len(starts) - 1)
    pieces, first = [], 0
    while True:
        last = int(breaks[np.searchsorted(breaks, first)])
        pieces.append(np.arange(first, last + 1))
        first = int(np.searchsorted(starts, following[last]))
        if first <= last or first >= len(starts) or starts[first] != following[last]:
            return np.concatenate(pieces)


def _places(buffer: Bytes) -> Numbers:
    """Returns where a znode may be, and wholly: its path's start and end, and its data's end."""
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
    can_be = (lengths >= -1) & (lengths <= MAX_RECORD_BYTES) & (data_ends + STAT.size <= size)
    return np.stack((starts, path_ends, data_ends))[:, can_be]


class _ZnodeColumns:
    """The columns of some znodes."""

    def __init__(self, buffer: Bytes, places: Numbers, acls: Mapping[int, Acl]) -> None:
        self._buffer = buffer
        self._starts, self._path_ends, self._data_ends = places
        self._acls = acls
        self.count = places.shape[1]
        self._stats = buffer.view(f"V{_STAT.itemsize}")[self._data_ends].view(_STAT)
        self._last_slashes = np.searchsorted(buffer.slashes, self._path_ends) - 1
        """Of each path, by its number among all."""
        self._has_parent: Flags = self._path_ends - self._starts >= _SHORTEST

    def column(self, name: str) -> Packed:
        """One that is not the same in all rows."""
        if name in _LONGS:
            return FixedWidth(self._stats[name].astype(np.int64))
        if name in _INTS:
            return FixedWidth(self._stats[name].astype(np.int32))
        others: dict[str, Callable[[], Packed]] = {
            "path": lambda: self._slices(self._starts, self._path_ends),
            "parent": self._parents,
            "name": lambda: self._slices(self._buffer.slashes[self._last_slashes] + 1, self._path_ends),
            "depth": self._depths,
            "data": self._data,
            "data_length": lambda: FixedWidth(
                (self._data_ends - self._path_ends - INT.size).astype(np.int32)
            ),
            "acl": self._acl_codes,
            "kind": self._kinds,
        }
        return others[name]()

    def _slices(self, starts: Numbers, ends: Numbers, present: Numbers | None = None) -> Slices:
        bounds = np.empty((self.count, 2), np.int32)
        bounds[:, 0], bounds[:, 1] = starts, ends
        return Slices(self._buffer.raw, bounds.reshape(-1), present)

    def _parents(self) -> Slices:
        ends = np.maximum(self._buffer.slashes[self._last_slashes], self._starts + 1)
        return self._slices(self._starts, ends, None if self._has_parent.all() else self._has_parent)

    def _depths(self) -> FixedWidth:
        before = np.searchsorted(self._buffer.slashes, self._starts) - 1
        return FixedWidth(np.where(self._has_parent, self._last_slashes - before, 0).astype(np.int32))

    def _data(self) -> Slices:
        is_there = self._buffer.ints(self._path_ends) >= 0
        return self._slices(self._path_ends + INT.size, self._data_ends, None if is_there.all() else is_there)

    def _acl_codes(self) -> Coded:
        codes, numbers = _coded(self._stats["acl"].astype(np.int64))
        return Coded(codes, tuple(self._acls.get(number) for number in numbers))

    def _kinds(self) -> Coded:
        codes, owners = _coded(self._stats["owner"].astype(np.int64))
        kinds = [_KINDS.index(lifetime_of(owner) or "persistent") for owner in owners]
        return Coded(np.array(kinds, np.int32)[codes], _KINDS)


def _coded(values: Numbers) -> tuple[Numbers, list[int]]:
    """For each value its place among the different ones, and these."""
    if (values == values[0]).all():
        return np.zeros(len(values), np.int32), [int(values[0])]
    different, codes = np.unique(values, return_inverse=True)
    return codes.astype(np.int32), different.tolist()
