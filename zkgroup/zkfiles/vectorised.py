"""Records of a transaction log as columns, by numpy: all records of a chunk at once.

Sources: FileTxnLog.java, SerializeUtils.java and zookeeper.jute of ZooKeeper 3.4 to 3.9.

A number that each record has somewhere is read for all of them by one indexing, of a view that takes the
bytes for numbers which may start anywhere. Texts and data are not copied but told by their bounds.
A chunk with anything in it that is not decoded here is left to `log_lists`; so nothing is decided here about
damage, nor about dialects that hardly occur. Only this module, `record_arrays` and `snapshot_arrays` import
numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import error as StructError  # noqa: N812
from typing import Any, Final

import numpy as np

from zkgroup.zkfiles.batches import Batch, Coded, Fixed, Packed, PackedBatch, Same, Slices, select
from zkgroup.zkfiles.frames import FRAME, LogChunk
from zkgroup.zkfiles.jute import OPEN_ACL, OPEN_ACL_BYTES, JuteError, acl_at
from zkgroup.zkfiles.log_lists import BEFORE_BODY, Taken, Wanted
from zkgroup.zkfiles.log_parts import OddError
from zkgroup.zkfiles.operations import DIGEST
from zkgroup.zkfiles.record_arrays import (
    CLOSE,
    MULTI,
    SLASH,
    Bytes,
    Flags,
    Numbers,
    Records,
    need,
    rows_of,
)
from zkgroup.zkfiles.records import CREATES, DELETES, SETS, Acl, TransactionType
from zkgroup.zkfiles.schemas import OP_NAMES

PIECE_BYTES: Final = 1 << 20
"""What is read at a time: enough for numpy's calls to cost little, and little enough for the caches."""

_HEADER: Final = np.dtype(
    [("session", ">i8"), ("cxid", ">i4"), ("zxid", ">i8"), ("time", ">i8"), ("type", ">i4")]
)
_TTL: Final = int(TransactionType.CREATE_TTL)
_FIRST_TYPE: Final = int(min(TransactionType))


def _table(types: Iterable[int]) -> Flags:
    """Which types are among these, by their distance from the first."""
    table = np.zeros(int(max(TransactionType)) - _FIRST_TYPE + 1, np.bool_)
    table[[int(type_) - _FIRST_TYPE for type_ in types]] = True
    return table


_KNOWN = _table(OP_NAMES)
_HAS_DATA = _table({*SETS, *CREATES})
_HAS_ACL = _table({*CREATES, TransactionType.SET_ACL})
_HAS_VERSION = _table({*SETS, TransactionType.SET_ACL, TransactionType.CHECK})
_HAS_PATH = _HAS_DATA | _HAS_VERSION | _table(DELETES)
_HAS_FLAG = _table((TransactionType.CREATE, TransactionType.CREATE2))
_OPS: Final = (None, *sorted(set(OP_NAMES.values())))
_OP_CODES = np.array(
    [_OPS.index(OP_NAMES.get(_FIRST_TYPE + place)) for place in range(len(_KNOWN))], np.int32
)
_LIFETIMES: Final = (None, "session", "container", "ttl")


def take(chunk: LogChunk, first: int, wanted: Wanted) -> Taken | None:
    """Records of a chunk as `log_lists.take` takes them; None where that has to do it."""
    starts, ends = np.asarray(chunk.starts)[first:], np.asarray(chunk.ends)[first:]
    buffer = Bytes(chunk.data)
    headers = buffer.view(f"V{_HEADER.itemsize}")[starts + FRAME.size].view(_HEADER)
    zxids = headers["zxid"].astype(np.int64)
    is_past = False
    try:
        count = _count(buffer, starts, ends, headers["type"], wanted)
        if int(zxids.max()) > wanted.to_zxid:
            past = int(np.argmax(zxids > wanted.to_zxid))
            count, is_past = min(count, past), past <= count
        records = Records(starts[:count], ends[:count], headers[:count])
        if int(zxids.min()) < wanted.from_zxid:
            kept = zxids[:count] >= wanted.from_zxid
            records = Records(records.starts[kept], records.ends[kept], records.headers[kept])
        batch = _Columns(buffer, records, chunk.base).batch(wanted) if len(records.starts) else None
    except (OddError, StructError, JuteError):
        return None
    return Taken(first + count, batch, is_past)


def _count(buffer: Bytes, starts: Numbers, ends: Numbers, kinds: Numbers, wanted: Wanted) -> int:
    """How many records make a batch."""
    rows = np.ones(len(kinds), np.int64)
    multis = np.flatnonzero(kinds == MULTI)
    rows[multis] = buffer.ints(starts[multis] + BEFORE_BODY, ends[multis])
    closes = np.flatnonzero(kinds == CLOSE)
    if len(closes):
        # A digest without a list begins with 2, its version: that one is counted for three rows.
        closes = closes[ends[closes] - starts[closes] > BEFORE_BODY]
        rows[closes] += buffer.ints(starts[closes] + BEFORE_BODY, ends[closes])
    need(rows >= 0)
    return min(int(np.searchsorted(np.cumsum(rows), wanted.rows)) + 1, len(rows))


class _Columns:
    """The columns of some records; whatever is odd about them is found when this is made."""

    def __init__(self, buffer: Bytes, records: Records, offset: int) -> None:
        self._buffer = buffer
        self._records = records
        self._offset = offset
        self._rows = rows = rows_of(buffer, records)
        self._has_parts = bool(rows.part_ends.any())
        """Also where they are all empty multis, which have no row."""
        self._codes = rows.kinds - _FIRST_TYPE
        need((self._codes >= 0) & (self._codes < len(_KNOWN)))
        need(_KNOWN[self._codes])
        self._end = rows.starts.copy()
        """Of each row, where what was decoded of it ends."""
        self._is_listed = rows.is_part & (rows.kinds == CLOSE) & (rows.subs >= 0)
        self._paths = self._texts(np.flatnonzero(_HAS_PATH[self._codes] | self._is_listed))
        self._data = self._buffers(self._where(_HAS_DATA))
        self._acls = self._acl_lists(self._where(_HAS_ACL))
        self._ints = {
            "version": self._next_ints(self._where(_HAS_VERSION)),
            "error": self._next_ints(np.flatnonzero(rows.kinds == TransactionType.ERROR)),
            "timeout_ms": self._next_ints(np.flatnonzero(rows.kinds == TransactionType.CREATE_SESSION)),
        }
        self._lifetimes = self._flags(self._where(_HAS_FLAG))
        self._ints["parent_cversion"] = self._next_ints(self._where(_HAS_DATA & _HAS_ACL))
        self._ttls = self._longs(np.flatnonzero(rows.kinds == _TTL))
        self._digests = self._behind_operations()

    def _where(self, types: Flags) -> Numbers:
        return np.flatnonzero(types[self._codes])

    def _texts(self, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Rows, starts and ends of paths in plain ASCII."""
        starts, ends = self._end[rows] + 4, self._rows.ends[rows]
        stops = starts + self._buffer.ints(starts - 4, ends)
        need((stops > starts) & (stops <= ends))
        if len(rows):
            need(self._buffer.bytes[starts] == SLASH)
            if not self._buffer.are_ascii(starts, stops):
                raise OddError
        self._end[rows] = stops
        return rows, starts, stops

    def _buffers(self, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Rows, starts and ends of buffers that are not null."""
        starts, ends = self._end[rows] + 4, self._rows.ends[rows]
        lengths = self._buffer.ints(starts - 4, ends)
        need(lengths >= -1)
        stops = starts + np.maximum(lengths, 0)
        need(stops <= ends)
        self._end[rows] = stops
        is_there = lengths >= 0
        if is_there.all():
            return rows, starts, stops
        return rows[is_there], starts[is_there], stops[is_there]

    def _acl_lists(self, rows: Numbers) -> tuple[Numbers, Numbers, tuple[Acl | None, ...]]:
        """Rows, codes and what these stand for."""
        size = len(OPEN_ACL_BYTES)
        starts, ends = self._end[rows], self._rows.ends[rows]
        codes = np.ones(len(rows), np.int32)
        is_open = starts + size <= ends
        is_open[is_open] = self._buffer.view(f"S{size}")[starts[is_open]] == OPEN_ACL_BYTES
        starts[is_open] += size
        known: dict[Acl | None, int] = {None: 0, OPEN_ACL: 1}
        for number in np.flatnonzero(~is_open).tolist():
            acl, starts[number] = acl_at(self._buffer.raw, int(starts[number]), int(ends[number]))
            codes[number] = known.setdefault(acl, len(known))
        self._end[rows] = starts
        return rows, codes, tuple(known)

    def _next_ints(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        values = self._buffer.ints(self._end[rows], self._rows.ends[rows])
        self._end[rows] += 4
        return rows, values

    def _longs(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        values = self._buffer.longs(self._end[rows], self._rows.ends[rows])
        self._end[rows] += 8
        return rows, values

    def _flags(self, rows: Numbers) -> Numbers:
        """Codes of the lifetimes: by a flag, or by the type."""
        lifetimes = np.zeros(len(self._codes), np.int32)
        need(self._end[rows] < self._rows.ends[rows])
        flags = self._buffer.bytes[self._end[rows]]
        need(flags <= 1)
        lifetimes[rows] = flags
        self._end[rows] += 1
        lifetimes[self._rows.kinds == TransactionType.CREATE_CONTAINER] = _LIFETIMES.index("container")
        lifetimes[self._rows.kinds == _TTL] = _LIFETIMES.index("ttl")
        return lifetimes

    def _behind_operations(self) -> tuple[Numbers, Flags]:
        """Nothing or a digest has to follow the operations of each record, and nothing each part."""
        rows, ends = self._rows, self._records.ends
        places = rows.part_ends
        if self._has_parts:
            need((self._end == rows.ends)[rows.is_part])
            alone = ~rows.is_part
            places[rows.records[alone]] = self._end[alone]
        else:
            places = self._end
        left = ends - places
        is_there = left == DIGEST.size
        need(is_there | (left == 0))
        values = np.zeros(len(ends), np.int64)
        values[is_there] = self._buffer.longs(places[is_there] + 4, ends[is_there])
        return values, is_there

    def batch(self, wanted: Wanted) -> Batch | None:
        """The wanted columns of the wanted rows."""
        kept = None if wanted.path_prefix is None else self._below(wanted.path_prefix.encode())
        count = len(self._codes) if kept is None else len(kept)
        if not count:
            return None
        packed: dict[str, Packed] = {}
        for column in wanted.columns:
            whole = Same(wanted.file) if column.name == "file" else self._column(column.name)
            packed[column.name] = whole if kept is None else select(whole, kept)
        return PackedBatch(wanted.columns, count, packed)

    def _below(self, prefix: bytes) -> Numbers:
        rows, starts, stops = self._paths
        return rows[self._buffer.begin_with(prefix, starts, stops)]

    def _column(self, name: str) -> Packed:
        headers, rows = self._records.headers, self._rows
        if name in self._ints:
            return self._sparse(*self._ints[name], np.int32)
        if name in ("zxid", "session", "time"):
            return Fixed(self._of_record(headers[name].astype(np.int64)))
        others: dict[str, Callable[[], Packed]] = {
            "epoch": lambda: Fixed(self._of_record((headers["zxid"] >> 32).astype(np.int32))),
            "sub": lambda: Fixed(rows.subs.astype(np.int32)),
            "cxid": lambda: Fixed(self._of_record(headers["cxid"].astype(np.int32))),
            "type": lambda: Fixed(rows.kinds.astype(np.int32)),
            "op": self._ops,
            "path": lambda: self._slices(*self._paths),
            "parent": self._parents,
            "data": lambda: self._slices(*self._data),
            "ephemeral": lambda: Coded(self._lifetimes, _LIFETIMES),
            "ttl_ms": lambda: self._sparse(*self._ttls, np.int64),
            "acl": self._acl_codes,
            "applied": self._applied,
            "digest": lambda: Fixed(*map(self._of_record, self._digests)),
            "offset": lambda: Fixed(self._of_record(self._records.starts + self._offset)),
        }
        return others[name]()

    def _of_record(self, values: Numbers) -> Numbers:
        """What all rows of a record have in common."""
        return values[self._rows.records] if self._has_parts else values

    def _sparse(self, rows: Numbers, values: Numbers, width: type[np.signedinteger[Any]]) -> Fixed:
        filled = np.zeros(len(self._codes), width)
        filled[rows] = values
        present = np.zeros(len(filled), np.bool_)
        present[rows] = True
        return Fixed(filled, present)

    def _slices(self, rows: Numbers, starts: Numbers, stops: Numbers) -> Slices:
        bounds = np.empty((len(self._codes), 2), np.int32)
        if len(rows) == len(bounds):
            bounds[:, 0], bounds[:, 1] = starts, stops
            return Slices(self._buffer.raw, bounds.reshape(-1))
        bounds[:] = self._rows.starts[:, None]
        bounds[rows, 0], bounds[rows, 1] = starts, stops
        present = np.zeros(len(bounds), np.bool_)
        present[rows] = True
        return Slices(self._buffer.raw, bounds.reshape(-1), present)

    def _parents(self) -> Slices:
        rows, starts, stops = self._paths
        slashes = self._buffer.slashes
        last = slashes[np.searchsorted(slashes, stops) - 1]
        is_below = stops - starts > 1
        stops = np.maximum(last, starts + 1)
        if is_below.all():
            return self._slices(rows, starts, stops)
        return self._slices(rows[is_below], starts[is_below], stops[is_below])

    def _ops(self) -> Coded:
        codes = _OP_CODES[self._codes]
        codes[self._is_listed] = _OPS.index("delete")
        return Coded(codes, _OPS)

    def _acl_codes(self) -> Coded:
        rows, codes, acls = self._acls
        all_codes = np.zeros(len(self._codes), np.int32)
        all_codes[rows] = codes
        return Coded(all_codes, acls)

    def _applied(self) -> Fixed:
        failed = np.zeros(len(self._records.starts), np.bool_)
        failed[self._rows.records[self._rows.kinds == TransactionType.ERROR]] = True
        return Fixed(self._of_record(~failed))
