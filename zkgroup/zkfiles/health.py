"""The health of a snapshot or log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import lt
from pathlib import Path
from typing import Any, Final

from zkgroup.errors import NotZooKeeperFileError
from zkgroup.zkfiles.files import LOG, FileBytes, ServerFile
from zkgroup.zkfiles.jute import ZXID, Damage, LogChunk, Oversized, RecordsEnd, kernel
from zkgroup.zkfiles.logs import LogReader

_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class FileHealth:
    """The findings of one pass over a file; the values of `zkgroup audit inspect`."""

    path: Path
    kind: str
    """`snapshot` or `log`."""
    first_zxid: int | None
    """The zxid of the first record of a log, or the last one applied when a snapshot began."""
    last_zxid: int | None
    """The zxid of the last record of a log, or the last one of which a snapshot can have changes, if known.

    None for a damaged snapshot, whose zxids may be wrong.
    """
    records: int
    """The transactions or znodes that could be read, with those behind a damage."""
    is_healthy: bool
    """True if no seal, checksum or length is wrong. A last write that is not whole is no damage."""
    good_until_zxid: int | None
    """The zxid up to which nothing is missing or wrong; None where there is none."""
    is_exact: bool
    """True for a log that ends with a whole record, and a snapshot known to be the tree at one zxid."""
    detail: str = ""
    """Text about the damage; empty for none."""
    oversized: tuple[Oversized, ...] = ()
    """The records or znodes with which no server loads the file by default, by zxid."""


def oversized_notes(oversized: Sequence[Oversized]) -> list[str]:
    """A text for each of the first ones, and one about the number of others."""
    more = [f"{len(oversized) - _NAMED} more that are too large"] if len(oversized) > _NAMED else []
    return [*(one.text for one in oversized[:_NAMED]), *more]


def inspect_log(path: Path) -> FileHealth:
    """The health of a log: every checksum is compared and every record decoded.

    Raises NotZooKeeperFileError where the file cannot be read, or neither its name nor its front is a log's.
    """
    FileBytes(path).close()  # raises for a file that may not be read, and for a link
    named = ServerFile.of(path)
    named = named if named is not None and named.kind == LOG else None
    reader = LogReader(path, resync=True)
    first, last, records, good_until, notes = _read(reader, is_named=named is not None)
    damages, end, oversized = reader.damages, reader.end, tuple(reader.oversized.values())
    if named is not None and first is not None and named.zxid != first:
        notes.append(f"the name says {named.zxid:#x}, the first record is {first:#x}")
    return FileHealth(
        path=path,
        kind=LOG,
        first_zxid=first,
        last_zxid=last,
        records=records,
        is_healthy=not damages,
        good_until_zxid=good_until,
        is_exact=not damages and end is not None and not end.is_torn,
        detail="; ".join(
            [*_damages(damages), *oversized_notes(oversized), *_end(end, records), *notes[:_NAMED]]
        ),
        oversized=oversized,
    )


def _read(reader: LogReader, *, is_named: bool) -> tuple[int | None, int | None, int, int | None, list[str]]:
    """The first and the last zxid, the number of records, the zxid up to which all is well, and notes."""
    first = last = good_until = None
    records = 0
    notes: list[str] = []
    try:
        for chunk in reader.chunks():
            zxids = _rising_zxids(chunk)
            if zxids and (last is None or zxids[0] > last):
                records += len(zxids)
                first = zxids[0] if first is None else first
                last = zxids[-1]
                good_until = good_until if reader.damages else last
                continue
            for transaction in reader.transactions_of(chunk):
                records += 1
                if last is not None and transaction.zxid <= last:
                    notes.append(f"zxid {transaction.zxid:#x} behind {last:#x} at byte {transaction.offset}")
                first = transaction.zxid if first is None else first
                last = transaction.zxid
                good_until = good_until if reader.damages else last
    except NotZooKeeperFileError as error:
        if not is_named:
            raise
        reader.damages.append(Damage(0, None, error.expected, error.found))
    return first, last, records, good_until, notes


_COLUMNS, _ZXID_OF_RECORD = 34, 30
"""The number of columns of the kernel's `fill`, and the place of the records' zxids."""


def _rising_zxids(chunk: LogChunk) -> Sequence[int]:
    """The zxids of a chunk that the kernel decodes, if they rise; else None."""
    compiled = kernel()
    if compiled is None:
        return ()
    records = chunk.data, chunk.starts, chunk.ends, 0, len(chunk.starts), -(1 << 63), (1 << 63) - 1
    measured = compiled.measure(*records, 1 << 62)
    if measured is None:
        return ()
    columns: list[Any] = [None] * _COLUMNS
    found = memoryview(bytearray(ZXID.size * measured[1])).cast("q")
    columns[_ZXID_OF_RECORD] = found
    filled = compiled.fill(*records, measured[1], None, None, tuple(columns))
    if filled is None or filled[1] != len(chunk.starts):
        return ()
    zxids: list[int] = found[: filled[1]].tolist()
    return zxids if all(map(lt, zxids, zxids[1:])) else ()


def _damages(damages: Sequence[Damage]) -> Iterator[str]:
    for damage in damages[:_NAMED]:
        at = damage.resumed_at
        goes_on = "nothing whole behind it" if at is None else f"whole again from byte {at}"
        yield f"byte {damage.offset}: expected {damage.expected}, found {damage.found} ({goes_on})"
    if len(damages) > _NAMED:
        yield f"{len(damages) - _NAMED} more damages"


def _end(end: RecordsEnd | None, records: int) -> Iterator[str]:
    if end is not None and end.is_torn:
        yield f"the last write is not whole, from byte {end.offset}: it is being written, or was cut off"
    elif end is not None and not records:
        yield "no record"
