"""Where the records of a log and their operations lie, as numpy arrays of places.

Sources: FileTxnLog.java and zookeeper.jute (TxnHeader, MultiTxn, Txn) of ZooKeeper 3.4 to 3.9.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple
from zlib import adler32

import numpy as np
from numpy.typing import NDArray

from zkgroup.zkfiles.frames import END_MARK, FRAME, whole_records
from zkgroup.zkfiles.log_lists import BEFORE_BODY
from zkgroup.zkfiles.log_parts import OddError, parts_of_close, parts_of_multi
from zkgroup.zkfiles.operations import HEADER
from zkgroup.zkfiles.records import TransactionType

Numbers = NDArray[Any]
Flags = NDArray[np.bool_]

SLASH: Final = 0x2F
CLOSE, MULTI = int(TransactionType.CLOSE_SESSION), int(TransactionType.MULTI)
_LAST_TYPE: Final = int(max(TransactionType))
_WORTH_BYTES: Final = 4096
"""Of less the plain way finds the records sooner."""
_WORD: Final = 8
_BEFORE_SLASH: Final = 12
"""In a multi: type and length of an operation, and the length of its path."""
_PARTS_WORTH: Final = 20
"""Slashes looked at for one operation of a multi that may be found, at most."""


def need(condition: Flags) -> None:
    """Raises OddError where it does not hold everywhere."""
    if not condition.all():
        raise OddError


class Bytes:
    """Bytes as numbers that start at any place."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.bytes = np.frombuffer(raw, np.uint8)
        self._ints = self.view(">i4")
        self._longs = self.view(">i8")
        self._words = self.view("=i8")

    def view(self, type_: str) -> Numbers:
        """What would be read as this type from each place on."""
        layout = np.dtype(type_)
        return np.ndarray((max(len(self.raw) - layout.itemsize + 1, 0),), layout, self.raw, strides=(1,))

    def ints(self, places: Numbers, ends: Numbers) -> Numbers:
        """The int at each place; it has to end before the end that belongs to it."""
        need(places + 4 <= ends)
        return self._ints[places].astype(np.int64)

    def longs(self, places: Numbers, ends: Numbers) -> Numbers:
        """The long at each place."""
        need(places + 8 <= ends)
        return self._longs[places].astype(np.int64)

    def ints_within(self, places: Numbers) -> Numbers:
        """Ints at places that are known to be inside."""
        return self._ints[places].astype(np.int64)

    def begin_with(self, prefix: bytes, starts: Numbers, ends: Numbers) -> Numbers:
        """Which of the pieces do.

        Eight bytes at a time: to compare numbers costs a tenth of comparing rows of bytes.
        """
        fits: Numbers = np.flatnonzero(ends - starts >= len(prefix))
        wide = len(prefix) // _WORD * _WORD
        for at in range(0, wide, _WORD):
            word = int.from_bytes(prefix[at : at + _WORD], sys.byteorder, signed=True)
            fits = fits[self._words[starts[fits] + at] == word]
        for at in range(wide, len(prefix)):
            fits = fits[self.bytes[starts[fits] + at] == prefix[at]]
        return fits

    def are_ascii(self, starts: Numbers, ends: Numbers) -> bool:
        """Whether all the pieces are, none of which is empty or reaches the end of the bytes."""
        bounds = np.stack((starts, ends), axis=1).reshape(-1)
        return bool((np.bitwise_or.reduceat(self.bytes, bounds)[::2] < 0x80).all())

    @cached_property
    def slashes(self) -> Numbers:
        """Where they are."""
        return np.flatnonzero(self.bytes == SLASH)


def find(data: bytes, at: int) -> tuple[Sequence[int], Sequence[int], int]:
    """Whole records as `frames.whole_records` finds them, all at once.

    A record ends with `B`, and the checksum behind it begins with four zeros. These places are found first,
    and are records where each one's length leads to the next.
    """
    if len(data) - at < _WORTH_BYTES:
        return whole_records(data, at)
    source = Bytes(data)
    marks = np.flatnonzero(source.bytes[at : -FRAME.size] == END_MARK) + at
    starts = np.concatenate(([at], marks[source.ints_within(marks + 1) == 0] + 1))
    following = starts + (FRAME.size + 1) + source.ints_within(starts + 8)
    linked = following[:-1] == starts[1:]
    if not linked.all():
        linked_on = chain(starts, following, linked)
        starts, following = starts[linked_on], following[linked_on]
    starts, ends = starts[:-1], following[:-1] - 1  # of the last one nothing is known yet
    starts, ends = _until(ends - starts < FRAME.size + HEADER.size, starts, ends)
    places = zip((starts + FRAME.size).tolist(), ends.tolist(), strict=True)
    sums = np.array([adler32(data[start:end]) for start, end in places], np.int64)
    starts, ends = _until(sums != source.view(">i8")[starts], starts, ends)
    more_starts, more_ends, needed = whole_records(data, int(ends[-1]) + 1 if len(ends) else at)
    return _joined(starts, more_starts), _joined(ends, more_ends), needed


def _until(stop: Flags, *arrays: Numbers) -> Iterable[Numbers]:
    count = int(np.argmax(stop)) if stop.any() else len(stop)
    return (array[:count] for array in arrays)


def _joined(places: Numbers, more: list[int]) -> Sequence[int]:
    """An array on purpose: `take` goes on with it as it is."""
    joined: Any = np.concatenate((places, np.array(more, np.int64)))
    return joined  # type: ignore[no-any-return]


def chain(starts: Numbers, following: Numbers, linked: Flags) -> Numbers:
    """Which of the places follow one from the other, from the first on, when some only look like records."""
    breaks = np.append(np.flatnonzero(~linked), len(starts) - 1)
    pieces, first = [], 0
    while True:
        last = int(breaks[np.searchsorted(breaks, first)])
        pieces.append(np.arange(first, last + 1))
        first = int(np.searchsorted(starts, following[last]))
        if first <= last or first >= len(starts) or starts[first] != following[last]:
            return np.concatenate(pieces)


class Records(NamedTuple):
    """Records of a chunk: where they start, where their entries end, and their headers."""

    starts: Numbers
    ends: Numbers
    headers: Numbers


class Rows(NamedTuple):
    """One operation each: type, where its body starts and ends, its record, its place in that."""

    kinds: Numbers
    starts: Numbers
    ends: Numbers
    records: Numbers
    subs: Numbers
    is_part: Flags
    """Of a multi or a close."""
    part_ends: Numbers
    """For each record of parts, where they end; for others 0."""


def rows_of(source: Bytes, records: Records) -> Rows:
    """Multis and closes opened."""
    kinds = records.headers["type"].astype(np.int64)
    starts, ends = records.starts + BEFORE_BODY, records.ends
    numbers = np.arange(len(kinds))
    part_ends = np.zeros(len(kinds), np.int64)
    several = (kinds == MULTI) | (kinds == CLOSE)
    if not several.any():
        return Rows(kinds, starts, ends, numbers, np.full(len(kinds), -1), several, part_ends)
    counts = np.ones(len(kinds), np.int64)
    multis = np.flatnonzero(kinds == MULTI)
    counts[multis] = source.ints_within(starts[multis])
    chained = _chained(source, multis, counts[multis], starts[multis] + 4, ends[multis])
    part_ends[chained.records] = chained.ends
    one_by_one: list[list[int]] = [[], [], []]
    for number in np.flatnonzero(several & (part_ends == 0)).tolist():
        opened = parts_of_multi if kinds[number] == MULTI else parts_of_close
        parts = opened(source.raw, int(starts[number]), int(ends[number]))
        counts[number] = len(parts.kinds)
        part_ends[number] = parts.ends[-1] if parts.ends else starts[number] + 4
        for column, more in zip(one_by_one, parts, strict=True):
            column += more
    owners = np.repeat(numbers, counts)
    subs = np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners]
    subs[kinds[owners] != MULTI] -= 1
    is_chained = np.zeros(len(kinds), np.bool_)
    is_chained[chained.records] = True
    rows = np.stack((kinds[owners], starts[owners], ends[owners]))
    rows[:, is_chained[owners]] = chained.parts
    rows[:, (several & ~is_chained)[owners]] = one_by_one
    return Rows(rows[0], rows[1], rows[2], owners, subs, several[owners], part_ends)


class _Chained(NamedTuple):
    """Multis whose operations were all found at once."""

    records: Numbers
    ends: Numbers
    """Where the operations of each end."""
    parts: Numbers
    """Of all operations the types, starts and ends."""


def _chained(source: Bytes, multis: Numbers, counts: Numbers, starts: Numbers, ends: Numbers) -> _Chained:
    """The multis in which each operation has a path and its length leads to the next one.

    What stands before a path's first slash tells whether it can be an operation; the lengths prove it.
    """
    places = source.slashes - _BEFORE_SLASH
    if counts.sum() * _PARTS_WORTH < len(places):  # few of these slashes are in multis
        return _Chained(multis[:0], ends[:0], np.zeros((3, 0), np.int64))
    places = places[places >= 0]
    high = source.bytes[places] | source.bytes[places + 4] | source.bytes[places + 8]
    places = places[high == 0]
    kinds = source.ints_within(places)
    fits = (kinds > 0) & (kinds <= _LAST_TYPE)
    places, kinds = places[fits], kinds[fits]
    following = places + 8 + source.ints_within(places + 4)
    broken = np.concatenate(([0], np.cumsum(following[:-1] != places[1:])))
    first = np.searchsorted(places, starts)
    last = first + counts - 1
    inside = (counts > 0) & (last < len(places))
    multis, counts, starts, ends = (each[inside] for each in (multis, counts, starts, ends))
    first, last = first[inside], last[inside]
    whole = (places[first] == starts) & (broken[first] == broken[last]) & (following[last] <= ends)
    multis, counts, first, last = (each[whole] for each in (multis, counts, first, last))
    picked = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    parts = np.stack((kinds[picked], places[picked] + 8, following[picked]))
    return _Chained(multis, following[last], parts)
