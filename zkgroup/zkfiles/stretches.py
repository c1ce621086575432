"""Records that follow each other in one server's logs, as columns for `compiled_replay`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zkgroup.zkfiles.batches import Batch, Coded, FixedWidth, Same
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


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of whole records in order."""

    zxid: Numbers
    session: Numbers
    time_ms: Numbers
    act: Numbers
    path: Numbers
    """Codes of `compiled_replay.CompiledPaths`."""
    data: Sequence[bytes | None]
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
    data_of: Callable[[Sequence[Batch]], Sequence[bytes | None]],
) -> Stretch:
    """Batches with `column_replay.COLUMNS` as one, with the codes of their paths, and their data.

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
        data_of(batches),
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
