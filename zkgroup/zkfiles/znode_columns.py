"""Znodes of a snapshot as columns: the table `schemas.SNAPSHOT`. Needs numpy.

Where znodes lie one behind the other, all those of a piece are taken at once: a znode starts with the length
of its path, two bytes of which are zero if it is no giant, and the path's first slash. Such places are looked
for, and are znodes where each one's lengths lead to the next. Numbers are read by views that start anywhere,
and texts and data are given by their bounds. The root, giants and paths that are not ASCII are found one by
one.

Sources: FileSnap.java, DataTree.serializeNode and StatPersisted of ZooKeeper 3.4 to 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

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
BATCH_BYTES: Final = 4 << 20
"""Bytes to which the data of a batch of such znodes may come, and one more."""
_WORTH_BYTES: Final = 4096
"""Of less the plain way finds the znodes sooner."""
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


class Run(NamedTuple):
    """Znodes that follow each other in one piece of a snapshot: all but the root, whose path is empty."""

    data: bytes
    base: int
    """Says where `data[0]` stands in the plain file."""
    starts: Sequence[int]
    """Says where each path is in `data`."""
    path_ends: Sequence[int]
    """Says where each path ends, and the length of the znode's data stands."""
    data_ends: Sequence[int]
    """Says where each znode's data ends, and its stat starts."""
    is_plain: bool
    """True if all paths are plain ASCII."""

    @property
    def end(self) -> int:
        """Returns where the last znode ends."""
        return int(self.data_ends[-1]) + STAT.size


def _runs_from(window: SummedWindow) -> Iterator[Run | RawZnode]:
    """Up to the terminator, which is passed. Raises as `znodes_from` does.

    What `find` does not take comes znode by znode, and so does a run in which a path is not plain.
    """
    one_by_one = znodes_from(window)
    while True:
        window.fill(PIECE_BYTES)
        run = find(window.data[window.at :], window.offset)
        if run is not None:
            window.at += run.end
            if run.is_plain:
                yield run
            else:
                yield from _znodes_of(run)
            continue
        znode = next(one_by_one, None)
        if znode is None:
            return
        yield znode


def _znodes_of(run: Run) -> Iterator[RawZnode]:
    """The same one by one."""
    data, int_of, stat_of = run.data, INT.unpack_from, STAT.unpack_from
    for start, path_end, data_end in zip(run.starts, run.path_ends, run.data_ends, strict=True):
        (size,) = int_of(data, path_end)
        value = None if size < 0 else data[path_end + INT.size : data_end]
        yield RawZnode(data[start:path_end], value, stat_of(data, data_end), run.base + int(start))


def _batches(
    reader: SnapshotReader, columns: tuple[Column, ...], path_prefix: str | None, rows: int
) -> Iterator[Batch]:
    """The znodes whose path begins with a prefix, by so many at most."""
    prefix = (path_prefix or "").encode()
    names = {column.name for column in columns}
    end_zxid = _end_zxid(reader) if "end_zxid" in names else None
    values = {"snap_zxid": reader.zxid, "end_zxid": end_zxid, "file": str(reader.path)}
    of_file = {name: Same(value) for name, value in values.items() if name in names}
    with closing(_groups(reader, rows, prefix)) as groups:
        for group in groups:
            if isinstance(group, Run):
                yield from _packed(group, columns, of_file, reader.acls, prefix, rows)
                continue
            readable, error = _readable(reader, group)
            if readable:
                yield from _packed(_run_of(readable), columns, of_file, reader.acls, b"", rows)
            if error is not None:
                raise error
    if "end_zxid" in names and end_zxid != reader.end_zxid:
        expected, found = (
            "no end zxid" if zxid is None else f"the end zxid {zxid:#x}"
            for zxid in (end_zxid, reader.end_zxid)
        )
        raise DamagedFileError(str(reader.path), 0, expected, f"{found}: it was replaced")


def _groups(reader: SnapshotReader, rows: int, prefix: bytes) -> Generator[list[RawZnode] | Run]:
    """Damage is raised after the znodes before it. Runs are given as they are, with all their znodes."""
    group: list[RawZnode] = []
    size = 0
    try:
        for znode in reader.read(_runs_from):
            if isinstance(znode, Run):
                if group:
                    yield group
                    group, size = [], 0
                yield znode
                continue
            if prefix and not (znode.path or b"/").startswith(prefix):
                continue
            group.append(znode)
            if znode.data is not None:
                size += len(znode.data)
            if len(group) >= rows or size > BATCH_BYTES:
                yield group
                group, size = [], 0
    except DamagedFileError:
        if group:
            yield group
        raise
    if group:
        yield group


def _readable(
    reader: SnapshotReader, znodes: list[RawZnode]
) -> tuple[list[RawZnode], DamagedFileError | None]:
    """Those before the first whose path is no text, and what is wrong with that one."""
    for number, znode in enumerate(znodes):
        if not znode.path.isascii():
            try:
                text_of(znode.path)
            except JuteError as error:
                expected, found = f"a path in {error.expected}", repr(znode.path[:40])
                damage = DamagedFileError(str(reader.path), znode.offset, expected, found)
                damage.__cause__ = error
                return znodes[:number], damage
    return znodes, None


def _run_of(znodes: list[RawZnode]) -> Run:
    """The same as a run, with paths in UTF-8, and that of the root."""
    data = bytearray()
    starts, path_ends, data_ends = [], [], []
    for path, value, stat, _ in znodes:
        starts.append(len(data))
        data += (path if path.isascii() else text_of(path).encode()) or b"/"
        path_ends.append(len(data))
        data += INT.pack(-1 if value is None else len(value)) + (value or b"")
        data_ends.append(len(data))
        data += STAT.pack(*stat)
    return Run(bytes(data), 0, starts, path_ends, data_ends, True)


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


def find(data: bytes, base: int) -> Run | None:
    """Whole znodes from the front of a piece on, which stands at an offset of the file.

    Some or all of those that `snapshots.znodes_from` would give, and nothing else; None where it finds none.
    """
    if len(data) < _WORTH_BYTES:
        return None
    buffer = Bytes(data)
    starts, path_ends, data_ends = _places(buffer)
    if not len(starts) or starts[0] != INT.size:
        return None
    following = data_ends + STAT.size + INT.size
    linked = following[:-1] == starts[1:]
    if not linked.all():
        linked_on = _chain(starts, following, linked)
        starts, path_ends, data_ends = starts[linked_on], path_ends[linked_on], data_ends[linked_on]
    # Arrays on purpose: `_packed` goes on with them as they are.
    places: tuple[Any, Any, Any] = (starts, path_ends, data_ends)
    return Run(data, base, *places, buffer.are_ascii(starts, path_ends))


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


def _places(buffer: Bytes) -> tuple[Numbers, Numbers, Numbers]:
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
    return starts[can_be], path_ends[can_be], data_ends[can_be]


def _packed(
    run: Run,
    columns: tuple[Column, ...],
    of_file: Mapping[str, Same],
    acls: Mapping[int, Acl],
    prefix: bytes,
    rows: int,
) -> Iterator[Batch]:
    """The znodes of a plain run whose path begins with a prefix, by so many at most.

    `of_file` are columns that are the same in all rows, `acls` those of the file's table by their numbers.
    """
    buffer = Bytes(run.data)
    places = np.stack((np.asarray(run.starts), np.asarray(run.path_ends), np.asarray(run.data_ends)))
    if prefix:
        places = places[:, buffer.begin_with(prefix, places[0], places[1])]
    for first in range(0, places.shape[1], rows):
        some = _ZnodeColumns(buffer, places[:, first : first + rows], acls)
        packed = {
            column.name: of_file[column.name] if column.name in of_file else some.column(column.name)
            for column in columns
        }
        yield PackedBatch(columns, some.count, packed)


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
