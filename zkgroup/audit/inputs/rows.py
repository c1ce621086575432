"""The rows of a history as columns: what `Event` has, a numpy array or Arrow array a field.

Paths are codes of the list of different paths, ACLs codes of the list of different ACLs, so that what depends
on a path alone is computed once for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zkgroup.audit.inputs.codes import LIFETIMES, OPS
from zkgroup.audit.inputs.events import Event
from zkgroup.zkfiles.records import Acl

Numbers = npt.NDArray[Any]
"""Of any kind of number."""
Flags = npt.NDArray[np.bool_]

_OP_CODES: Final = {op: code for code, op in enumerate(OPS)}
_LIFETIME_CODES: Final = {lifetime: code for code, lifetime in enumerate(LIFETIMES)}
_EVENTS_AT_A_TIME: Final = 1 << 15
_LARGEST: Final = 2_000_000_000
"""Bytes that an Arrow array with 32-bit offsets may hold."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows in the order of zxid and place. `paths` and `acls` have what `path` and `acl` are codes of."""

    zxid: Numbers
    sub: Numbers
    time_ms: Numbers
    session: Numbers
    cxid: Numbers
    op: Numbers
    """Codes of OPS."""
    path: Numbers
    data: Any
    """A pyarrow array of bytes."""
    version: Any
    """A pyarrow array of numbers, as are those of timeouts, errors and times of writing."""
    ephemeral: Numbers
    """Codes of LIFETIMES."""
    timeout_ms: Any
    error: Any
    applied: Flags
    seed: Flags
    synthetic: Flags
    acl: Numbers
    mtime_ms: Any
    paths: Sequence[str]
    acls: Sequence[Acl | None]

    def __len__(self) -> int:
        return len(self.zxid)

    def take(self, rows: Numbers) -> Columns:
        """Some rows, by their numbers."""
        taken = {name: _taken(getattr(self, name), rows) for name in _ROW_FIELDS}
        return replace(self, **taken)

    def behind(self, row: int) -> Columns:
        """The rows from a number on; nothing is copied."""
        return replace(self, **{name: getattr(self, name)[row:] for name in _ROW_FIELDS})

    def events(self, rows: Numbers | None = None) -> Iterator[Event]:
        """Rows as objects, all or those with these numbers; made some thousands at a time."""
        numbers = np.arange(len(self)) if rows is None else rows
        for start in range(0, len(numbers), _EVENTS_AT_A_TIME):
            yield from self._some_events(numbers[start : start + _EVENTS_AT_A_TIME])

    def _some_events(self, rows: Numbers) -> Iterator[Event]:
        some, paths, acls = self.take(rows), self.paths, self.acls
        return map(
            Event._make,
            zip(
                some.zxid.tolist(),
                some.sub.tolist(),
                some.time_ms.tolist(),
                some.session.tolist(),
                some.cxid.tolist(),
                map(OPS.__getitem__, some.op.tolist()),
                map(paths.__getitem__, some.path.tolist()),
                some.data.to_pylist(),
                some.version.to_pylist(),
                map(LIFETIMES.__getitem__, some.ephemeral.tolist()),
                some.timeout_ms.to_pylist(),
                some.error.to_pylist(),
                some.applied.tolist(),
                some.seed.tolist(),
                some.synthetic.tolist(),
                map(acls.__getitem__, some.acl.tolist()),
                some.mtime_ms.to_pylist(),
                strict=True,
            ),
        )


_ROW_FIELDS: Final = tuple(each.name for each in fields(Columns) if each.name not in ("paths", "acls"))
_NULLABLE: Final = ("version", "timeout_ms", "error", "mtime_ms")


def _taken(column: Any, rows: Numbers) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else column.take(pa.array(rows))


class ColumnsBuilder:
    """Takes parts of a history in order; `columns` gives them as one."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Any]] = {name: [] for name in _ROW_FIELDS}
        self._acls: dict[Acl | None, int] = {None: 0}

    def add_events(self, events: Iterable[Event]) -> None:
        """Rows that are objects; some thousands of them are in memory at a time."""
        rows = iter(events)
        while some := list(islice(rows, _EVENTS_AT_A_TIME)):
            self._add_events(some)

    def _add_events(self, events: Sequence[Event]) -> None:
        lists = dict(zip(Event._fields, zip(*events, strict=True), strict=True))
        part: dict[str, Any] = {
            name: np.array(lists[name], np.int64) for name in ("zxid", "sub", "time_ms", "session", "cxid")
        }
        part |= {name: np.array(lists[name], np.bool_) for name in ("applied", "seed", "synthetic")}
        part |= {name: pa.array(lists[name], pa.int64()) for name in _NULLABLE}
        part["op"] = np.array([_OP_CODES[op] for op in lists["op"]], np.int8)
        part["ephemeral"] = np.array([_LIFETIME_CODES[each] for each in lists["ephemeral"]], np.int8)
        part["path"] = pa.array(lists["path"], pa.string())
        part["data"] = pa.array(lists["data"], pa.binary())
        part["acl"] = self.acl_codes(lists["acl"])
        self.add(part)

    def add(self, part: dict[str, Any]) -> None:
        """Columns by the names of `Columns`; `path` is a pyarrow array of texts, plain or as codes."""
        for name, column in part.items():
            self._parts[name].append(column)
        paths = self._parts["path"][-1]
        if not pa.types.is_dictionary(paths.type):
            self._parts["path"][-1] = paths.dictionary_encode()

    def add_columns(self, columns: Columns) -> None:
        """Rows that are columns already."""
        part = {name: getattr(columns, name) for name in _ROW_FIELDS}
        paths = pa.array(columns.paths, pa.string())
        part["path"] = pa.DictionaryArray.from_arrays(pa.array(columns.path, pa.int32()), paths)
        part["acl"] = self.acl_codes(columns.acls)[columns.acl]
        self.add(part)

    def acl_codes(self, acls: Iterable[Acl | None]) -> Numbers:
        """The codes of ACLs, new ones for new ACLs."""
        known = self._acls
        return np.array([known.setdefault(acl, len(known)) for acl in acls], np.int32)

    def columns(self) -> Columns:
        """All parts. Paths become codes."""
        parts, self._parts = self._parts, {}
        whole: dict[str, Any] = {}
        codes, paths = encoded(parts.pop("path"))
        for name in [name for name in _ROW_FIELDS if name != "path"]:
            whole[name] = _joined(name, parts.pop(name))
        return Columns(path=codes, paths=paths, acls=list(self._acls), **whole)


def columns_of(events: Iterable[Event]) -> Columns:
    """Rows that are objects as columns."""
    builder = ColumnsBuilder()
    builder.add_events(events)
    return builder.columns()


def encoded(parts: Sequence[Any]) -> tuple[Numbers, list[str]]:
    """Codes of several lists of texts as codes of one list, and that list."""
    if not sum(map(len, parts)):
        return np.zeros(0, np.int32), []
    whole = pa.chunked_array(parts).unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in whole.chunks])
    return codes.astype(np.int32), whole.chunk(0).dictionary.to_pylist()


def first_places(values: Numbers) -> Numbers:
    """The first place of each different value, in order."""
    codes = pa.array(values).dictionary_encode().indices.to_numpy()
    known = np.append([-1], np.maximum.accumulate(codes)[:-1])[: len(codes)]
    return np.flatnonzero(codes > known)


def last_of_paths(size: int, paths: Numbers, mask: Flags) -> Numbers:
    """For each path the last place in a mask; -1 for none."""
    last: Numbers = np.full(size, -1)
    places = np.flatnonzero(mask)
    last[paths[places]] = places
    return last


_TYPES: Final = {
    **dict.fromkeys(("zxid", "sub", "time_ms", "session", "cxid"), np.int64),
    **dict.fromkeys(("applied", "seed", "synthetic"), np.bool_),
    **dict.fromkeys(("op", "ephemeral"), np.int8),
    "acl": np.int32,
}


def _joined(name: str, parts: Sequence[Any]) -> Any:
    if name in _TYPES:
        return np.concatenate(parts) if parts else np.zeros(0, _TYPES[name])
    type_ = pa.int64() if name in _NULLABLE else pa.binary()
    if name == "data" and sum(part.nbytes for part in parts) > _LARGEST:
        type_ = pa.large_binary()
    return pa.concat_arrays([part.cast(type_) for part in parts]) if parts else pa.array([], type_)
