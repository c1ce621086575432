"""Records that follow each other in one server's logs, as columns for `compiled_replay`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from zkgroup.zkfiles.batches import Batch, Coded, FixedWidth, Same, Slices
from zkgroup.zkfiles.records import Acl, TransactionType

Numbers = NDArray[Any]
Flags = NDArray[np.bool_]

NOTHING, SET, MAKE, DROP = range(4)
"""The acts of a row: nothing to the tree, or it sets, makes or deletes a znode."""
_ODD: Final = -1
_CLOSE, _ERROR = int(TransactionType.CLOSE_SESSION), int(TransactionType.ERROR)
_CREATE_SESSION: Final = int(TransactionType.CREATE_SESSION)
_ACTS: Final = {
    int(TransactionType.CREATE_SESSION): NOTHING,
    int(TransactionType.CHECK): NOTHING,
    int(TransactionType.SET_DATA): SET,
    int(TransactionType.CREATE): MAKE,
    int(TransactionType.CREATE2): MAKE,
    int(TransactionType.DELETE): DROP,
    int(TransactionType.DELETE_CONTAINER): DROP,
}
_FIRST_TYPE: Final = -32
_OF_TYPE: Final = np.full(64 - _FIRST_TYPE, _ODD, np.int8)
for _type, _act in _ACTS.items():
    _OF_TYPE[_type - _FIRST_TYPE] = _act


class OddRowsError(Exception):
    """Only the exact reader knows what these rows do."""


class Compared(NamedTuple):
    """Holds what the digests of a stretch showed."""

    records: int
    digests: int
    wrong: int
    first_wrong_zxid: int | None


class DataOf:
    """The column `data` of batches: a value is copied when it is asked for."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._slices = [slices_of(batch, "data") for batch in batches]
        self._ends: Numbers = np.cumsum([batch.rows for batch in batches])

    def values_at(self, rows: Numbers) -> list[bytes | None]:
        """The values of some rows."""
        values: list[bytes | None] = [None] * len(rows)
        numbers = np.searchsorted(self._ends, rows, "right")
        for number in np.unique(numbers).tolist():
            pieces = self._slices[number]
            places = np.flatnonzero(numbers == number)
            inside = rows[places] - (self._ends[number - 1] if number else 0)
            if pieces.present is not None:
                is_there = pieces.present[inside]
                places, inside = places[is_there], inside[is_there]
            bounds = pieces.bounds.reshape(-1, 2)[inside].tolist()
            for place, (start, end) in zip(places.tolist(), bounds, strict=True):
                values[place] = pieces.raw[start:end]
        return values

    def crcs(self, codes: Numbers, seeds: Numbers) -> Numbers:
        """Of each row the CRC of its path and data; 0 for rows with a negative code."""
        sums = np.zeros(len(codes), np.int64)
        start = 0
        for pieces, end in zip(self._slices, self._ends.tolist(), strict=True):
            places = np.flatnonzero(codes[start:end] >= 0)
            starts, ends = pieces.bounds[2 * places], pieces.bounds[2 * places + 1]
            if pieces.present is not None:
                ends = np.where(pieces.present[places], ends, starts)
            of_paths = seeds[codes[start + places]]
            sums[start + places] = crcs_of(pieces.raw, starts.tolist(), ends.tolist(), of_paths)
            start = end
        return sums


def slices_of(batch: Batch, name: str) -> Slices:
    """A column of texts or bytes. Raises OddRowsError where it is a list."""
    packed = batch.packed(name)
    if not isinstance(packed, Slices):
        raise OddRowsError("columns in lists")
    return packed


def crcs_of(raw: bytes, starts: Iterable[int], ends: Iterable[int], seeds: Numbers) -> Numbers:
    """The CRC of each piece of some bytes, behind that of what was before it."""
    pieces = map(raw.__getitem__, map(slice, starts, ends))
    return np.fromiter(map(crc32, pieces, seeds.tolist()), np.int64, len(seeds))


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of whole records in order."""

    zxid: Numbers
    session: Numbers
    time_ms: Numbers
    act: Numbers
    path: Numbers
    """Codes of `compiled_replay.CompiledPaths`."""
    data: DataOf
    version: Numbers
    is_ephemeral: Flags
    count: Numbers
    """Of a create: the parent's count of creates after it; -1 where the record does not have it."""
    acl: Numbers
    acls: Sequence[Acl | None]
    digest: Numbers
    """Signed."""
    has_digest: Flags
    opened: Sequence[tuple[int, int]]
    """Rows that open sessions, with the timeouts; and the rows that close some."""
    closed: Sequence[int]

    def __len__(self) -> int:
        return len(self.zxid)

    def tells(self, first: int, last: int) -> bool:
        """Returns whether the rows are of all records from one zxid to another."""
        steps = np.diff(self.zxid)
        is_without_holes = bool(((steps == 0) | (steps == 1)).all())
        return is_without_holes and (self.zxid[0], self.zxid[-1]) == (first, last)

    def tell_sessions(self, sessions: dict[int, int]) -> None:
        """Opens and closes sessions among those of a tree."""
        changes = [(row, timeout) for row, timeout in self.opened] + [(row, -1) for row in self.closed]
        for row, timeout in sorted(changes):
            session = int(self.session[row])
            if timeout < 0:
                sessions.pop(session, None)
            else:
                sessions[session] = timeout


def stretch_of(
    batches: Sequence[Batch],
    codes_of: Callable[[Sequence[Batch]], Numbers],
) -> Stretch:
    """Batches with `column_replay.COLUMNS` as one, with the codes of their paths.

    Raises OddRowsError for what the kernel does not apply.
    """
    zxid, session, time_ms = (_joined(batches, name) for name in ("zxid", "session", "time"))
    kind, sub = _joined(batches, "type"), _joined(batches, "sub")
    applied = _joined(batches, "applied").astype(np.bool_)
    digest = _joined(batches, "digest")
    has_digest = np.concatenate([_present(batch, "digest") for batch in batches])
    act = _acts(kind, sub, applied)
    if not (has_digest | ~applied | (kind == _CREATE_SESSION)).all():
        raise OddRowsError("a record without a digest")
    opened = np.flatnonzero(kind == _CREATE_SESSION).tolist()
    timeouts = _joined(batches, "timeout_ms")
    return Stretch(
        zxid,
        session,
        time_ms,
        act,
        codes_of(batches),
        DataOf(batches),
        _joined(batches, "version"),
        np.concatenate([_is_ephemeral(batch) for batch in batches]),
        np.where(
            np.concatenate([_present(batch, "parent_cversion") for batch in batches]),
            _joined(batches, "parent_cversion"),
            -1,
        ),
        *_acls(batches),
        digest,
        has_digest,
        [(row, int(timeouts[row])) for row in opened],
        np.flatnonzero((kind == _CLOSE) & (sub < 0)).tolist(),
    )


def _acts(kind: Numbers, sub: Numbers, applied: Flags) -> Numbers:
    if len(kind) and (kind.min() < _FIRST_TYPE or kind.max() >= 64):
        raise OddRowsError("a type that no version knows")
    act: Numbers = _OF_TYPE[kind - _FIRST_TYPE]
    closes = kind == _CLOSE
    act[closes] = np.where(sub[closes] < 0, NOTHING, DROP)
    act[~applied] = NOTHING
    if (act == _ODD).any():
        raise OddRowsError("a record of a rare kind")
    return act


def _joined(batches: Sequence[Batch], name: str) -> Numbers:
    return np.concatenate([_numbers(batch, name) for batch in batches])


def _numbers(batch: Batch, name: str) -> Numbers:
    """Null is 0."""
    packed = batch.packed(name)
    if not isinstance(packed, FixedWidth):
        raise OddRowsError("columns in lists")
    values: Numbers = packed.values.astype(np.int64)
    return values


def _present(batch: Batch, name: str) -> Flags:
    packed = batch.packed(name)
    if not isinstance(packed, FixedWidth):
        raise OddRowsError("columns in lists")
    present: Flags = (
        np.ones(batch.rows, np.bool_) if packed.present is None else packed.present.astype(np.bool_)
    )
    return present


def _is_ephemeral(batch: Batch) -> Flags:
    packed = batch.packed("ephemeral")
    if isinstance(packed, Same):
        return np.full(batch.rows, packed.value == "session", np.bool_)
    if not isinstance(packed, Coded):
        raise OddRowsError("columns in lists")
    flags: Flags = np.array([value == "session" for value in packed.values], np.bool_)[packed.codes]
    return flags


def _acls(batches: Sequence[Batch]) -> tuple[Numbers, list[Acl | None]]:
    known: dict[Acl | None, int] = {}
    codes = []
    for batch in batches:
        packed = batch.packed("acl")
        if not isinstance(packed, Coded):
            raise OddRowsError("columns in lists")
        of_values = [known.setdefault(acl, len(known)) for acl in packed.values]
        codes.append(np.array(of_values, np.int64)[packed.codes])
    return np.concatenate(codes), list(known)
