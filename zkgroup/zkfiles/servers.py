"""The files of one server: its records, the damages in them, and its last zxid."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from zkgroup.errors import DamagedFileError, MixedEnsembleError, NotZooKeeperFileError
from zkgroup.zkfiles.files import ServerFile, ServerFiles, with_following
from zkgroup.zkfiles.frames import ZXID_AND_TIME, ZXID_AT, LogChunk, Oversized
from zkgroup.zkfiles.jute import OVERWRITTEN, JuteError
from zkgroup.zkfiles.logs import QUICK_BYTES, LogReader, written_bytes
from zkgroup.zkfiles.records import Operation, Transaction, TransactionType, epoch_of

_FRONT_BYTES: Final = 4096
_TAIL_BYTES: Final = 1 << 16


class LogDamage(NamedTuple):
    """A place at which a log could not be read."""

    path: Path
    offset: int
    expected: str
    found: str


class LogOrder:
    """The check by which records of a server's logs count: each zxid once, in order."""

    def __init__(self, server: Server, from_zxid: int) -> None:
        self.last = -1
        """The last zxid that counted."""
        self._server = server
        self._from_zxid = from_zxid
        self._misplaced: set[Path] = set()

    def takes(self, log: ServerFile, record: Transaction) -> bool:
        """Returns whether the next record counts. Raises MixedEnsembleError."""
        zxid, server = record.zxid, self._server
        if zxid > self.last:
            if zxid < self._from_zxid:
                return False
            self.last = zxid
            return True
        if log.path not in server.overlaps and log.path not in self._misplaced:
            if server.is_in_earlier_log(log, record):
                server.overlaps[log.path] = zxid
            else:
                self._misplaced.add(log.path)
                server.note_misplaced(log, record, self.last)
        return False


class Server:
    """The files of one server, with notes from reading them."""

    def __init__(self, files: ServerFiles) -> None:
        self.files = files
        self.damages: dict[tuple[Path, int], LogDamage] = {}
        """The damages by file and offset."""
        self.overlaps: dict[Path, int] = {}
        """The logs with records that an earlier log has, which are left out, and the first such zxids."""
        self.oversized: dict[Path, dict[int, Oversized]] = {}
        """The records that no server loads by default, by log that was read and by zxid."""
        self._gap: tuple[int, int | None] = (0, 0)
        """The last result of `_next_logged`: a zxid, and that of the first record behind it."""

    @property
    def folder(self) -> Path:
        return self.files.folder

    def oversized_in(self, log: Path) -> dict[int, Oversized]:
        """The dictionary in which readers of a log note the records that are too large."""
        return self.oversized.setdefault(log, {})

    @property
    def first_logged(self) -> int | None:
        """The zxid of the first record, by the files' names; None without a log."""
        return self.files.logs[0].zxid if self.files.logs else None

    @property
    def has_readable_front(self) -> bool:
        """True if a record of the first log can be read, or the log has neither records nor damage."""
        first = self.files.logs[0]
        return self._first_in(first) is not None or not self.has_damage(first.path)

    @property
    def newest_snapshot(self) -> int | None:
        """The zxid in the name of the newest snapshot; all up to it was committed."""
        return self.files.snapshots[-1].zxid if self.files.snapshots else None

    @property
    def last_zxid(self) -> int:
        """The zxid of the last record or snapshot; 0 for neither. Passes once over the newest log."""
        return max(self.newest_snapshot or 0, self.last_record or 0)

    @cached_property
    def last_record(self) -> int | None:
        """The zxid of the last record; None where no log has any. Passes once over the newest log."""
        for log in reversed(self.files.logs):
            *_, last = None, *(chunk.zxid(-1) for chunk in self._chunks(log))
            if last is not None:
                return last
        return None

    def about_last_zxid(self) -> int:
        """The zxid of the last record, from the end of the newest log only; 0 where none is found there.

        It is for estimates of the rest to read. Damage there is not noted.
        """
        found = 0
        with suppress(DamagedFileError, NotZooKeeperFileError):
            for log in self.files.logs[-1:]:
                end = max(written_bytes(log.path) - _TAIL_BYTES, 0)
                reader = LogReader(log.path, from_offset=end, resync=True, piece_bytes=_TAIL_BYTES)
                for chunk in reader.chunks():
                    found = chunk.zxid(-1)
        return found

    def reaches(self, zxid: int) -> bool:
        """Returns whether a record or snapshot is at or behind a zxid; reads nothing if names are enough."""
        newest = max((file.zxid for file in (*self.files.snapshots[-1:], *self.files.logs[-1:])), default=0)
        return zxid <= newest or zxid <= self.last_zxid

    def log_range_at(self, time_ms: int) -> tuple[int, int | None] | None:
        """The zxids, by its name, of the last log whose first record is stamped at or before a time.

        None where there is no such log. The first records of the logs behind it are read.
        """
        for log, following in reversed(list(with_following(self.files.logs))):
            first = self._first_in(log)
            if first is not None and first.time_ms <= time_ms:
                return log.zxid, None if following is None else following.zxid - 1
        return None

    def went_on_without(self, zxid: int) -> bool:
        """Returns whether its log, which lacks a record, goes on with the first one of a later epoch.

        A server that takes part in an epoch has all that was committed before it, in its log or a snapshot.
        """
        if self.first_logged is None or self.first_logged >= zxid:
            return False
        then = self._next_logged(zxid)
        if then is None or epoch_of(then) == epoch_of(zxid) or then & 0xFFFFFFFF != 1:
            return False
        damaged = {path for path, _ in self.damages}
        return not (
            any(zxid <= snapshot.zxid < then for snapshot in self.files.snapshots)
            or any(log.path in damaged for log in self.files.logs_within(zxid, then))
        )

    def _next_logged(self, zxid: int) -> int | None:
        """The zxid of the first record behind one; None where there is none."""
        since, then = self._gap
        if not (since <= zxid and (then is None or zxid < then)):
            with closing(self.transactions(zxid + 1)) as behind:
                then = next((transaction.zxid for transaction in behind), None)
            self._gap = zxid, then
        return then

    def transactions(self, from_zxid: int = 0, to_zxid: int | None = None) -> Generator[Transaction]:
        """Yields its records by rising zxid, both ends included; only logs that can have them are opened.

        A record that comes too late, and is in no earlier log, is left out and noted as a damage: the log has
        another name than its server gave it. Raises MixedEnsembleError where a log has another record of a
        zxid than a log before it.
        """
        order = LogOrder(self, from_zxid)
        for log in self.files.logs_within(from_zxid, to_zxid):
            for transaction in self._read(log, from_zxid):
                if to_zxid is not None and transaction.zxid > to_zxid:
                    break
                if order.takes(log, transaction):
                    yield transaction

    def times(self, from_zxid: int, to_zxid: int | None) -> Iterator[tuple[int, int]]:
        """Yields the zxid and milliseconds of each record of `transactions`; nothing is decoded."""
        last = from_zxid - 1
        for log in self.files.logs_within(from_zxid, to_zxid):
            for chunk in self._chunks(log):
                for start in chunk.starts:
                    zxid, time_ms = ZXID_AND_TIME.unpack_from(chunk.data, start + ZXID_AT)
                    if to_zxid is not None and zxid > to_zxid:
                        return
                    if zxid > last:
                        last = zxid
                        yield zxid, time_ms

    def is_long_from(self, zxid: int) -> bool:
        """Returns whether a log with records from a zxid on is worth the import of numpy."""
        return any(written_bytes(log.path) >= QUICK_BYTES for log in self.files.logs_within(zxid))

    def _read(self, log: ServerFile, from_zxid: int) -> Iterator[Transaction]:
        """Yields the transactions of a log, also behind damage, as the zxids show what is missing."""
        start = self._offset_of(log, from_zxid) if log.zxid < from_zxid else None
        oversized = self.oversized_in(log.path)
        reader = LogReader(log.path, from_offset=start, resync=True, oversized=oversized)
        with self.noting(reader):
            yield from reader

    def _chunks(self, log: ServerFile) -> Iterator[LogChunk]:
        reader = LogReader(log.path, resync=True)
        with self.noting(reader):
            yield from reader.chunks()

    def is_in_earlier_log(self, log: ServerFile, record: Transaction) -> bool:
        """Returns whether an earlier log has a record. Raises MixedEnsembleError if it has another one."""
        is_there = False
        for earlier in self.files.logs[: self.files.logs.index(log)]:
            for other in self._read(earlier, record.zxid):
                if other.zxid == record.zxid and not same_record(other._replace(digest=None), record):
                    raise MixedEnsembleError(
                        str(earlier.path),
                        str(log.path),
                        record.zxid,
                        advice="copy the files of each ensemble into a folder of its own",
                    )
                if other.zxid >= record.zxid:
                    is_there = is_there or other.zxid == record.zxid
                    break
        return is_there

    def note_misplaced(self, log: ServerFile, record: Transaction, last: int) -> None:
        """Notes a record that, by its zxid, belongs into the log before."""
        self._note(
            log.path,
            record.offset,
            f"a record behind {last:#x}, as the log's name says",
            f"{record.zxid:#x}, which no log before it has: records up to {last:#x} are left out",
        )

    def _offset_of(self, log: ServerFile, zxid: int) -> int | None:
        """The place of the first record from a zxid on, or of the last record of the log."""
        offset = None
        for chunk in self._chunks(log):
            if chunk.zxid(-1) >= zxid:
                place = bisect_left(range(len(chunk.starts)), zxid, key=chunk.zxid)
                return chunk.base + chunk.starts[place]
            offset = chunk.base + chunk.starts[-1]
        return offset

    def _first_in(self, log: ServerFile) -> Transaction | None:
        reader = LogReader(log.path, resync=True, piece_bytes=_FRONT_BYTES)
        with self.noting(reader):
            for transaction in reader:
                return transaction
        return None

    def has_damage(self, log: Path) -> bool:
        return any(path == log for path, _ in self.damages)

    def note_unreadable(self, path: Path, base: int, start: int, error: JuteError) -> None:
        """Notes a record of a chunk that no server writes."""
        self._note(path, base + start, error.expected, error.found)

    @contextmanager
    def noting(self, reader: LogReader) -> Iterator[None]:
        """Notes damage for a wrong file and one that cannot be unpacked; raises if it may not be read."""
        try:
            yield
        except DamagedFileError as error:
            self._note(reader.path, error.offset, error.expected, error.found)
        except NotZooKeeperFileError as error:
            if error.__cause__ is not None:
                raise
            self._note(reader.path, 0, error.expected, error.found)
        finally:
            for damage in reader.damages:
                self._note(reader.path, damage.offset, damage.expected, damage.found)

    def _note(self, path: Path, offset: int, expected: str, found: str) -> None:
        self.damages[path, offset] = LogDamage(path, offset, expected, found)


def same_record(one: Transaction, other: Transaction) -> bool:
    """Returns whether two records are the same; one may lack the digest or the list of ephemerals."""
    return (
        one.session == other.session
        and one.cxid == other.cxid
        and one.time_ms == other.time_ms
        and one.type == other.type
        and _are_same(one.operations, other.operations)
        and one.timeout_ms == other.timeout_ms
        and (one.digest == other.digest or None in (one.digest, other.digest))
        and (one.closed_paths == other.closed_paths or None in (one.closed_paths, other.closed_paths))
    )


def _are_same(one: Sequence[Operation], other: Sequence[Operation]) -> bool:
    """Returns whether the operations are the same, as far as both records have them."""
    return one == other or (
        len(one) == len(other)
        and all(
            mine == its
            or any(each.type == TransactionType.ERROR and each.error == OVERWRITTEN for each in (mine, its))
            for mine, its in zip(one, other, strict=True)
        )
    )
