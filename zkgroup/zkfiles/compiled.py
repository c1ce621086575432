"""Records of a transaction log as columns, by the compiled kernel.

Importing it raises ImportError where the kernel was not built, or of other sources than these, where it is
switched off (ZKGROUP_KERNEL=off), and without numpy. A chunk with anything in it that the kernel does not
decode is left to `log_lists`; so nothing is decided there about damage.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from zkgroup.zkfiles.batches import Batch, Coded, FixedWidth, Packed, PackedBatch, Records, Same, Slices
from zkgroup.zkfiles.frames import FRAME, LogChunk
from zkgroup.zkfiles.jute import OPEN_ACL, acl_at
from zkgroup.zkfiles.log_lists import Taken, Wanted
from zkgroup.zkfiles.operations import HEADER
from zkgroup.zkfiles.records import Acl

if os.environ.get("ZKGROUP_KERNEL") == "off":
    raise ImportError("the kernel is switched off")
from zkgroup.zkfiles import kernel

if getattr(kernel, "VERSION", 1) != 2:
    raise ImportError("the kernel was built of other sources: install zkgroup again")

PIECE_BYTES: Final = 1 << 20

OPS: Final = (None, "check", "closeSession", "create", "createSession", "delete", "error", "set", "setACL")
_LIFETIMES: Final = (None, "session", "container", "ttl")
_LONGS: Final = ("zxid", "session", "time", "offset", "digest", "ttl_ms")
_INTS: Final = (
    *("epoch", "sub", "cxid", "type", "op", "ephemeral", "acl"),
    *("version", "error", "timeout_ms", "parent_cversion"),
)
_PIECES: Final = ("path", "parent", "data")
_NULLABLE: Final = (
    *("digest", "ttl_ms", "version", "error", "timeout_ms", "parent_cversion"),
    *("path", "parent", "data"),
)
_OF_RECORDS: Final = (np.int64, np.int64, np.int64, np.int32)
"""The types of the columns of `Records`."""
_SMALLEST: Final = FRAME.size + HEADER.size + 1


def find(data: bytes, at: int) -> tuple[Sequence[int], Sequence[int], int]:
    """Whole records as `frames.whole_records` finds them."""
    most = max(len(data) - at, 0) // _SMALLEST + 1
    starts, ends = np.empty(most, np.int64), np.empty(most, np.int64)
    count, needed = kernel.find(data, at, starts, ends)
    found: Any = starts[:count], ends[:count]
    return found[0], found[1], needed


def take(chunk: LogChunk, first: int, wanted: Wanted) -> Taken | None:
    """Records of a chunk as `log_lists.take` takes them; None where that has to do it."""
    data = chunk.data
    starts, ends = np.ascontiguousarray(chunk.starts, np.int64), np.ascontiguousarray(chunk.ends, np.int64)
    low, high = wanted.from_zxid, wanted.to_zxid
    measured = kernel.measure(data, starts, ends, first, len(starts), low, high, wanted.rows)
    if measured is None:
        return None
    until, rows, is_past, *whole = measured
    columns = _KernelColumns(wanted, rows)
    prefix = None if wanted.path_prefix is None else wanted.path_prefix.encode()
    left_out: Any = None if wanted.left_out is None else (*wanted.left_out, *whole)
    filled = kernel.fill(
        data, starts, ends, first, until, low, high, rows, prefix, left_out, columns.buffers()
    )
    if filled is None:
        return None
    count, records, acls = filled
    return Taken(until, columns.batch(chunk, count, records, acls) if count else None, bool(is_past))


class _KernelColumns:
    """Columns that the kernel fills."""

    def __init__(self, wanted: Wanted, rows: int) -> None:
        self._wanted = wanted
        self._rows = rows
        self._arrays: dict[str, Any] = {}
        self._present: dict[str, Any] = {}
        for column in wanted.columns:
            name = column.name
            if name in _LONGS:
                self._arrays[name] = np.empty(rows, np.int64)
            elif name in _INTS:
                self._arrays[name] = np.empty(rows, np.int32)
            elif name in _PIECES:
                self._arrays[name] = np.empty(2 * rows, np.int32)
            elif name == "applied":
                self._arrays[name] = np.empty(rows, np.bool_)
            if name in _NULLABLE:
                self._present[name] = np.empty(rows, np.bool_)
        self._of_records: list[Any] = [
            None if wanted.left_out is None else np.empty(rows, type_) for type_ in _OF_RECORDS
        ]

    def buffers(self) -> tuple[Any, ...]:
        """In the kernel's order; None for what is not wanted."""
        names = (*_LONGS, *_INTS, *_PIECES, "applied")
        return (*map(self._arrays.get, names), *map(self._present.get, _NULLABLE), *self._of_records)

    def batch(self, chunk: LogChunk, count: int, records: int, acls: bytes) -> Batch:
        """The first rows as a batch, with the first of the records if some rows are left out."""
        packed = {
            column.name: Same(self._wanted.file)
            if column.name == "file"
            else self._packed(column.name, chunk, count, acls)
            for column in self._wanted.columns
        }
        of_records = (
            None
            if self._wanted.left_out is None
            else Records(self._rows, *(column[:records] for column in self._of_records))
        )
        return PackedBatch(self._wanted.columns, count, packed, of_records)

    def _packed(self, name: str, chunk: LogChunk, count: int, acls: bytes) -> Packed:
        values, present = self._arrays[name], self._present.get(name)
        if name in _PIECES:
            assert present is not None
            present = present[:count]
            return Slices(chunk.data, values[: 2 * count], None if present.all() else present)
        values = values[:count]
        coded: dict[str, Callable[[], tuple[Any, ...]]] = {
            "op": lambda: OPS,
            "ephemeral": lambda: _LIFETIMES,
            "acl": lambda: (None, OPEN_ACL, *_acls(chunk.data, acls)),
        }
        if name in coded:
            return Coded(values, coded[name]())
        if name == "offset":
            values = values + chunk.base
        return FixedWidth(values, None if present is None else present[:count])


def _acls(data: bytes, bounds: bytes) -> Iterable[Acl | None]:
    for start, end in np.frombuffer(bounds, np.int32).reshape(-1, 2).tolist():
        yield acl_at(data, start, end)[0]
