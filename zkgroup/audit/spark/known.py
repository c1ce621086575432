"""The rows of facts and of sessions of a part of a history, on the driver."""

from __future__ import annotations

from collections.abc import Sequence

from zkgroup.audit.buckets.known_rows import known_rows
from zkgroup.audit.columns.logs import with_ends
from zkgroup.audit.columns.parts import between, closes_in, inside, sorted_seeds
from zkgroup.audit.columns.rows import Columns, columns_of
from zkgroup.audit.columns.stored import in_order, joined
from zkgroup.audit.converted import LogTimes, last_at
from zkgroup.audit.manifest import ConvertedLog
from zkgroup.audit.points_in_time import PointInTime, zxid_range
from zkgroup.audit.spark.ensembles import AuditedEnsemble
from zkgroup.audit.spark.folding import ZxidRange, operations_in, rows_in
from zkgroup.audit.stored_files import FACTS, OPERATIONS, StoredFile, read_files
from zkgroup.errors import NotFoundError
from zkgroup.zkfiles.dates import time_text


def part_of(of: AuditedEnsemble, start: PointInTime | None, end: PointInTime | None) -> ZxidRange:
    """The part between two moments, both included. Raises ConfigError and NotFoundError."""
    from_zxid, to_zxid = zxid_range(start, end, lambda time_ms: _zxid_at(of, time_ms))
    return ZxidRange(max(of.converted.base_zxid, from_zxid - 1), to_zxid)


def known_of(of: AuditedEnsemble, part: ZxidRange, state: Sequence[Columns] | None) -> Columns:
    """The rows that make the facts of a part, and those of its sessions, behind what stood before.

    Args:
        state: such rows among what stands before the part, by bucket; None for the beginning of all.
    """
    tables, converted = of.tables, of.converted
    if state is None:
        before = rows_in(tuple(tables.seed_facts(of.name)), tables.source)
    else:
        before = sorted_seeds(joined([columns_of(()), *state]))
    cut = [log for log in converted.logs if _is_cut(log, part, converted.base_zxid)]
    starts = {log.start for log in cut}
    files = [each for each in tables.files(FACTS, of.name) if each.log not in starts]
    files = [each for each in files if each.has_any(*part)]
    parts = [between(rows_in(tuple(files), tables.source), *part)]
    for log in cut:
        logged = in_order(operations_in(_files(of, log), tables.source, *part))
        seen = inside(logged, converted.chroot)
        parts.append(seen.take(known_rows(seen)))
    return with_ends([in_order(joined(parts))], before)


def closes_between(of: AuditedEnsemble, after_zxid: int, to_zxid: int | None) -> Columns:
    """The ends of sessions behind one zxid up to another, or of all behind it."""
    files = [each for each in of.tables.files(FACTS, of.name) if each.has_any(after_zxid, to_zxid)]
    closes = closes_in(rows_in(tuple(files), of.tables.source))
    return in_order(between(closes, after_zxid, to_zxid))


def _is_cut(log: ConvertedLog, part: ZxidRange, base_zxid: int) -> bool:
    """Whether a part begins or ends within a log. Where all begins is no cut."""
    bounds = [part.to_zxid] if part.after_zxid <= base_zxid else list(part)
    return any(bound is not None and log.start <= bound < log.last_zxid for bound in bounds)


def _files(of: AuditedEnsemble, log: ConvertedLog) -> tuple[StoredFile, ...]:
    return tuple(each for each in of.tables.files(OPERATIONS, of.name) if each.log == log.start)


def _zxid_at(of: AuditedEnsemble, time_ms: int) -> int:
    """The last transaction at or before a time. Raises NotFoundError where all are later."""
    logs = [log for log in of.converted.logs if log.rows]
    found = last_at([LogTimes(log.first_ms, number) for number, log in enumerate(logs)], time_ms)
    if found is None:
        raise NotFoundError(f"{of.tables.storage.place}: no log goes back to {time_text(time_ms)}")
    table = read_files(_files(of, logs[found]), of.tables.source, ("zxid", "time"), ())
    until = table["time"].cast("int64").to_numpy() // 1000 <= time_ms
    zxids = table["zxid"].to_numpy()[until]
    return int(zxids.max()) if len(zxids) else -1
