"""The compiled kernel gives what plain Python gives, whatever the bytes are, and is used where it is."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from tests.worlds import zkfiles_writer as writer
from tests.worlds.zkfiles_tables import Row, everything, needs_kernel, rows_of
from zkgroup.zkfiles.arrow import LOG, Batch, LeftOutWrites
from zkgroup.zkfiles.columns import Taken, Wanted, take_by_kernel, take_plainly
from zkgroup.zkfiles.jute import LogChunk, kernel, whole_records
from zkgroup.zkfiles.records import Operation, Transaction
from zkgroup.zkfiles.records import TransactionType as T

ALL = Wanted(LOG, "log", rows=1 << 20)
SOME = LeftOutWrites("/", "/b")
ENTRIES = [writer.entry(each) for each in everything()[:17]]
"""One of each kind."""


def chunk_of(*entries: bytes) -> LogChunk:
    """Entries as whole records, with right lengths and checksums."""
    data = b"".join(map(writer.record, entries))
    starts, ends, _ = whole_records(data, 0)
    return LogChunk(data, 0, starts, ends)


def rows_in(taken: Taken) -> list[Row]:
    return [] if taken.batch is None else rows_of([taken.batch])


def is_decoded_alike(chunk: LogChunk, left_out: LeftOutWrites = SOME) -> bool:
    """Whether the kernel decodes a chunk; all rows are compared then, and those that stay where some do."""
    whole, some = (take_by_kernel(chunk, 0, ALL._replace(left_out=each)) for each in (None, left_out))
    assert (whole is None) == (some is None)
    if whole is None or some is None:
        return False
    plain = take_plainly(chunk, 0, ALL)
    # No server writes what plain Python has an error for, so the kernel may not decode it either.
    assert plain.error is None
    rows = rows_in(plain)
    assert rows_in(whole) == rows
    assert rows_in(some) == [row for row, stays in zip(rows, staying(rows, left_out), strict=True) if stays]
    if some.batch is not None:
        assert told(some.batch) == records_in(rows)
    return True


def staying(rows: Sequence[Row], left_out: LeftOutWrites) -> list[bool]:
    """Whether each row stays, by the words of `LeftOutWrites`."""
    records = {row["offset"]: row for row in rows if row["op"] is not None}
    whole = {*[*records][-1:], *sorted(records, key=lambda each: records[each]["time"], reverse=True)[:1]}
    sessions: set[int] = set()
    for offset, row in records.items():
        if row["session"] not in sessions:
            whole.add(offset)
        if len(sessions) < 1024:
            sessions.add(row["session"])
    return [row["offset"] in whole or not is_left_out(row, left_out) for row in rows]


def is_left_out(row: Row, left_out: LeftOutWrites) -> bool:
    path = row["path"] or ""
    is_write = (
        row["applied"] and row["ephemeral"] is None and row["type"] in (T.SET_DATA, T.CREATE, T.CREATE2)
    )
    _, slash, rest = path.removeprefix(left_out.front).partition("/")
    return (
        is_write
        and path.startswith(left_out.front)
        and (slash + rest).startswith(left_out.behind)
        and not (left_out.but is not None and path.startswith(left_out.but))
    )


def records_in(rows: Sequence[Row]) -> list[list[int]]:
    """Zxid, session, time and type of each record that has rows, and how many rows there are."""
    records = {row["offset"]: row for row in rows}
    return [
        [len(rows)],
        *([row[name] for row in records.values()] for name in ("zxid", "session", "time")),
    ]


def told(batch: Batch) -> list[list[int]]:
    """The same of a batch of which rows are left out."""
    assert batch.records is not None
    return [[batch.records.rows], *(each.tolist() for each in batch.records[1:4])]


def changed(entry: bytes, draw: random.Random) -> Iterator[bytes]:
    """Each byte another one, and the entry cut off before it; the last byte doubled."""
    for place in range(len(entry)):
        for value in {0xFF, (entry[place] + draw.choice((1, -1))) & 0xFF, draw.randrange(256)}:
            yield entry[:place] + bytes([value]) + entry[place + 1 :]
        if place >= 32:  # less is no header, and no record
            yield entry[:place]
    yield entry + entry[-1:]


@needs_kernel
@pytest.mark.parametrize("place", range(len(ENTRIES)))
def test_a_change_of_each_byte_is_decoded_alike_or_left_to_plain_python(place: int) -> None:
    """Checksums hold, so that the bytes come to the decoder."""
    draw = random.Random(place)
    alike = sum(is_decoded_alike(chunk_of(entry)) for entry in changed(ENTRIES[place], draw))
    assert is_decoded_alike(chunk_of(*ENTRIES, ENTRIES[place]))
    assert alike > 32


OFFSETS = LeftOutWrites("/consumers/", "/offsets/", "/consumers/own/")
OTHER, OWN = "/consumers/g/offsets/t/0", "/consumers/own/offsets/t/0"


def kept(records: Sequence[Transaction]) -> list[tuple[int, int]]:
    """Zxid and place of each row that stays without offsets of other groups."""
    chunk = chunk_of(*map(writer.entry, records))
    assert is_decoded_alike(chunk, OFFSETS)
    taken = take_by_kernel(chunk, 0, ALL._replace(left_out=OFFSETS))
    assert taken is not None
    return [(row["zxid"], row["sub"]) for row in rows_in(taken)]


@needs_kernel
def test_writes_by_path_are_left_out() -> None:
    """Plain ones alone, and none of a session's first record, of the latest and of the last one."""

    def write(path: str, kind: int = T.SET_DATA, **fields: Any) -> Operation:
        return Operation(kind, path, b"1", **{"version": 1} | fields)

    created: dict[str, Any] = {"acl": writer.OPEN_ACL, "version": None, "parent_cversion": 1}
    failed = Operation(T.ERROR, error=-2)
    of_records: list[tuple[int, Sequence[Operation], Sequence[int]]] = [
        (1, [write(OTHER)], [-1]),
        (1, [write(OTHER)], []),
        (1, [write(OWN)], [-1]),
        (
            1,
            [write("/consumers/g/offsets"), write("/consumers/offsets/t"), write("/consumers/g/x/offsets/t")],
            [0, 1, 2],
        ),
        (1, [write(OTHER, T.CREATE, **created), write(OTHER, T.CREATE2, **created, is_ephemeral=True)], [1]),
        (1, [write(OTHER, T.CREATE_CONTAINER, **created), Operation(T.DELETE, OTHER)], [0, 1]),
        (1, [write(OTHER), failed], [0, 1]),
        (2, [write(OTHER), write(OTHER)], [0, 1]),
        (2, [write(OTHER), write(OWN), write(OTHER)], [1]),
        (2, [write(OTHER)], [-1]),  # the latest
        (1, [write(OTHER)], []),
        (2, [write(OTHER)], [-1]),  # the last
    ]
    records = []
    for zxid, (session, operations, _) in enumerate(of_records, 1):
        kind = operations[0].type if len(operations) == 1 else T.MULTI
        time_ms = 99 if zxid == len(of_records) - 2 else 5
        records.append(Transaction(zxid, session, 1, time_ms, kind, tuple(operations)))
    assert kept(records) == [(zxid, sub) for zxid, (_, _, stays) in enumerate(of_records, 1) for sub in stays]


@needs_kernel
def test_of_many_sessions_all_records_stay() -> None:
    """Of those behind the first 1,024."""
    sessions = [*range(1100)] * 2
    records = [
        Transaction(zxid, session << 40, 1, 5, T.SET_DATA, (Operation(T.SET_DATA, OTHER, b"", version=1),))
        for zxid, session in enumerate(sessions, 1)
    ]
    assert [zxid for zxid, _ in kept(records)] == [*range(1, 1101), *range(1100 + 1025, 2201)]


@needs_kernel
@pytest.mark.parametrize("count", [-1, 2**31 - 1, -(2**31), 2**28, 3])
@pytest.mark.parametrize("kind", [T.MULTI, T.CLOSE_SESSION])
def test_a_count_that_cannot_be_is_left_to_plain_python(kind: int, count: int) -> None:
    """No room is made for it."""
    (entry,) = [each for each in ENTRIES if each[28:32] == kind.to_bytes(4, "big", signed=True)][:1]
    damaged = entry[:32] + count.to_bytes(4, "big", signed=True) + entry[36:]
    assert not is_decoded_alike(chunk_of(damaged))


@needs_kernel
def test_a_kernel_of_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a checkout that is newer than what was built in it."""
    assert kernel() is not None
    monkeypatch.delattr("zkgroup.zkfiles.kernel.VERSION")
    assert kernel() is None


def test_the_kernel_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain Python reads logs then."""
    monkeypatch.setenv("ZKGROUP_KERNEL", "off")
    assert kernel() is None


@needs_kernel
def test_what_does_not_fit_the_buffers_is_an_error() -> None:
    """And nothing is written behind their ends."""
    compiled = kernel()
    chunk = chunk_of(*ENTRIES)
    starts, ends = np.array(chunk.starts), np.array(chunk.ends)
    count = len(starts)
    nothing = (None,) * 34
    records = chunk.data, starts, ends, 0, count, 0, 1 << 62
    assert compiled.fill(*records, 100, None, None, nothing) is not None
    assert compiled.fill(*records, 3, None, None, nothing) is None
    for columns in ((np.empty(9), *nothing[1:]), (*nothing[1:], np.empty(9, np.int32))):
        with pytest.raises(ValueError, match="too short"):
            compiled.fill(*records, 100, None, None, columns)
    with pytest.raises(ValueError, match="columns"):
        compiled.fill(*records, 100, None, None, nothing[1:])
    with pytest.raises(ValueError, match="outside"):
        compiled.measure(chunk.data, starts, ends, 0, count + 1, 0, 1 << 62, 1)
    with pytest.raises(ValueError, match="outside"):
        compiled.find(chunk.data, len(chunk.data) + 1, starts, ends)
    assert compiled.measure(chunk.data, starts, ends + 10**6, 0, count, 0, 1 << 62, 1) is None
    assert compiled.find(chunk.data, 0, starts[:2], ends[:1]) == (1, 0)


@needs_kernel
def test_crcs_are_those_of_zlib() -> None:
    """Of pieces of any length, each continued from another CRC; pieces outside the bytes are refused."""
    data, compiled = bytes(range(256)), kernel()
    bounds = np.array([3, *np.cumsum(range(22)) + 3, 256, 256], np.int32)
    seeds = np.arange(len(bounds) - 1) * 177_777_777
    sums = np.zeros(len(seeds), np.int64)

    compiled.crcs(data, bounds, seeds, sums)

    pieces = (data[start:end] for start, end in pairwise(bounds.tolist()))
    assert sums.tolist() == list(map(crc32, pieces, seeds.tolist()))
    for wrong in (bounds + 1, bounds[::-1].copy(), bounds - 4, bounds[1:]):
        with pytest.raises(ValueError, match="pieces outside"):
            compiled.crcs(data, wrong, seeds, sums)
