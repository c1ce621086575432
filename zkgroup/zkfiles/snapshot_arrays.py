"""Znodes of a snapshot as columns, by numpy: all znodes of a piece at once.

Source: DataTree.serializeNode and StatPersisted of ZooKeeper 3.4 to 3.9.

A znode starts with the length of its path, two bytes of which are zero if it is no giant, and the path's
first slash. Such places are looked for, and are znodes where each one's lengths lead to the next. Numbers
are read by views that start anywhere, and texts and data are given by their bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from zkgroup.zkfiles.batches import Batch, Coded, FixedWidth, Packed, PackedBatch, Same, Slices
from zkgroup.zkfiles.byte_arrays import Bytes, Flags, Numbers
from zkgroup.zkfiles.compression import MAX_RECORD_BYTES
from zkgroup.zkfiles.jute import INT
from zkgroup.zkfiles.lifetimes import lifetime_of
from zkgroup.zkfiles.records import Acl
from zkgroup.zkfiles.schemas import Column
from zkgroup.zkfiles.snapshot_lists import Run
from zkgroup.zkfiles.snapshots import STAT

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


def find(data: bytes, base: int) -> Run | None:
    """Znodes from the front of a piece on, as snapshot_runs.FindRun says."""
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
    # Arrays on purpose: `batches` goes on with them as they are.
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


def batches(
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
        return self._slices(self._starts, ends)

    def _depths(self) -> FixedWidth:
        before = np.searchsorted(self._buffer.slashes, self._starts) - 1
        return FixedWidth((self._last_slashes - before).astype(np.int32))

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
