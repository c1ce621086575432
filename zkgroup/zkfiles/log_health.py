"""Says how far a transaction log is good: by the kernel where it is here, else record by record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.compression import FileBytes
from zkgroup.zkfiles.frames import Damage, RecordsEnd
from zkgroup.zkfiles.health import FileHealth, SeenRecords, oversized_notes
from zkgroup.zkfiles.log_lists import ALL_ZXIDS, Wanted
from zkgroup.zkfiles.logs import QUICK_BYTES, LogReader, written_bytes
from zkgroup.zkfiles.names import LOG, ServerFile
from zkgroup.zkfiles.schemas import LOG as LOG_COLUMNS
from zkgroup.zkfiles.schemas import select

_ALL_ROWS: Final = 1 << 62


def inspect_log(path: Path, seen: SeenRecords | None = None) -> FileHealth:
    """Returns how far a log is good: every checksum is compared and every record decoded.

    `seen` is what a pass over it found, where there was one already: `Server.seen_logs`. Raises
    NotZooKeeperFileError where the file cannot be read, or neither its name nor its front is a log's.
    """
    FileBytes(path).close()  # whoever may not read it, or follow it, hears so
    named = ServerFile.of(path)
    named = named if named is not None and named.kind == LOG else None
    seen = seen or _quickly_seen(path) or _seen(path, is_named=named is not None)
    first, last, records, good_until, notes, damages, end, oversized = seen
    notes = [*notes]
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
        detail="; ".join([*_damages(damages), *oversized_notes(oversized), *_end(end, records), *notes[:3]]),
        oversized=oversized,
    )


def _quickly_seen(path: Path) -> SeenRecords | None:
    """The same by the kernel; None without it, for short logs, and for damage and disorder."""
    if written_bytes(path) < QUICK_BYTES:
        return None
    with suppress(ImportError, DamagedFileError, NotZooKeeperFileError):
        return _checked(path)
    return None


def _checked(path: Path) -> SeenRecords | None:
    """Raises ImportError, DamagedFileError and NotZooKeeperFileError."""
    from zkgroup.zkfiles import compiled
    from zkgroup.zkfiles.byte_arrays import zxids_of

    reader = LogReader(path, find=compiled.find, piece_bytes=compiled.PIECE_BYTES)
    wanted = Wanted(select(LOG_COLUMNS, ("zxid",)), str(path), *ALL_ZXIDS, None, _ALL_ROWS)
    first = last = None
    records = 0
    for chunk in reader.chunks():
        zxids = zxids_of(chunk)
        if not len(zxids):
            continue
        if (zxids[1:] <= zxids[:-1]).any() or (last is not None and zxids[0] <= last):
            return None
        taken = compiled.take(chunk, 0, wanted)
        if taken is None or taken.error is not None or taken.until != len(zxids):
            return None
        records += len(zxids)
        first = int(zxids[0]) if first is None else first
        last = int(zxids[-1])
    return SeenRecords(first, last, records, last, [], [], reader.end, tuple(reader.oversized.values()))


def _seen(path: Path, *, is_named: bool) -> SeenRecords:
    """Record by record; what is damaged is skipped."""
    reader = LogReader(path, resync=True)
    first = last = good_until = None
    records = 0
    notes: list[str] = []
    try:
        for transaction in reader:
            records += 1
            if last is not None and transaction.zxid <= last:
                notes.append(f"zxid {transaction.zxid:#x} behind {last:#x} at byte {transaction.offset}")
            first = transaction.zxid if first is None else first
            last = transaction.zxid
            if not reader.damages or transaction.offset < reader.damages[0].offset:
                good_until = last
    except NotZooKeeperFileError as error:
        if not is_named:
            raise
        reader.damages.append(Damage(0, None, error.expected, error.found))
    oversized = tuple(reader.oversized.values())
    return SeenRecords(first, last, records, good_until, notes, reader.damages, reader.end, oversized)


def _damages(damages: list[Damage]) -> Iterator[str]:
    for damage in damages[:3]:
        goes_on = (
            "nothing whole behind it"
            if damage.resumed_at is None
            else f"whole again from byte {damage.resumed_at}"
        )
        yield f"byte {damage.offset}: expected {damage.expected}, found {damage.found} ({goes_on})"
    if len(damages) > 3:
        yield f"{len(damages) - 3} more damages"


def _end(end: RecordsEnd | None, records: int) -> Iterator[str]:
    if end is not None and end.is_torn:
        yield f"the last write is not whole, from byte {end.offset}: it is being written, or was cut off"
    elif end is not None and not records:
        yield "no record"
