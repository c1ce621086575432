"""The files of one server: its records, the damages in them, and its last zxid; and those of an ensemble.

A record in one server's log was proposed, not necessarily committed: a record that only a deposed leader has
is cut off when that server comes back, and stays in copies made before; if it comes back by a snapshot, the
record stays in its log. A server that was far behind gets a snapshot, too, and lacks the records before it.
So logs are joined by zxid, and the servers that have a record decide if it counts. Sources: Leader.java,
Learner.syncWithLeader and LearnerHandler.syncFollower of ZooKeeper 3.4 to 3.9.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from heapq import merge
from itertools import groupby, repeat
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from zkgroup.errors import DamagedFileError, MixedEnsembleError, NotZooKeeperFileError
from zkgroup.zkfiles.files import ServerFile, ServerFiles, list_files, with_following
from zkgroup.zkfiles.jute import OVERWRITTEN, ZXID_AND_TIME, ZXID_AT, JuteError, LogChunk, Oversized
from zkgroup.zkfiles.logs import QUICK_BYTES, LogReader, written_bytes
from zkgroup.zkfiles.records import Hole, Operation, Transaction, TransactionType, epoch_of, hole_between

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
        return self._first_in(first) is not None or all(path != first.path for path, _ in self.damages)

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


_NOTED: Final = 1000
_ERROR: Final = int(TransactionType.ERROR)

T = TypeVar("T")
_Holder = tuple[int, Transaction]


class EnsembleFiles:
    """Some or all servers of one ensemble."""

    def __init__(self, folders: Sequence[Path], voters: int | None = None) -> None:
        """`voters` is the number of voting servers, where some folders are missing, or of observers.

        Raises NotZooKeeperFileError where a folder has no files of ZooKeeper.
        """
        self.servers = tuple(Server(list_files(folder)) for folder in folders)
        self.voters = voters
        self.splits: dict[int, tuple[tuple[Path, ...], ...]] = {}
        """The zxids found so far for which servers have different records: the folders that agree, together,
        those of the record that was taken first."""
        self.rolled_back: dict[int, tuple[Path, ...]] = {}
        """The zxids found so far that the ensemble went on without, with the folders that have them."""
        self._is_checked = len(self.servers) < 2

    @property
    def last_zxid(self) -> int:
        """The highest zxid of any server."""
        return max(server.last_zxid for server in self.servers)

    @property
    def first_logged(self) -> int | None:
        """The zxid of the first record, by the files' names; None without a log."""
        return min((zxid for each in self.servers if (zxid := each.first_logged) is not None), default=None)

    @property
    def last_record(self) -> int | None:
        """The highest zxid of a record; None where there is none."""
        return max((zxid for each in self.servers if (zxid := each.last_record) is not None), default=None)

    @property
    def unlogged(self) -> Hole | None:
        """The zxids behind the last record that the name of a snapshot proves to exist.

        None where the logs go as far as the snapshots, or there is no record. If the end of the newest log
        is enough, nothing else is read.
        """
        newest = max(server.newest_snapshot or 0 for server in self.servers)
        if not newest or any(server.about_last_zxid() >= newest for server in self.servers):
            return None
        last = self.last_record
        return None if last is None else hole_between(last, newest + 1)

    @property
    def undecided(self) -> list[int]:
        """The zxids of `splits` at which no record is that of most servers that have one."""
        return [zxid for zxid, (taken, *others) in self.splits.items() if len(taken) <= sum(map(len, others))]

    @cached_property
    def certain_until(self) -> int:
        """The zxid up to which every record was committed; behind it these files do not show it.

        Certain are records of most voters, records that a server applied before a snapshot, and those that it
        has from before an epoch that it took part in. A server alone (epoch 0) commits what it writes.
        """
        epochs = [epoch_of(server.last_zxid) for server in self.servers]
        before_epochs = [(epoch << 32) - 1 for epoch in epochs if epoch]
        return min(max((*self._certain, *before_epochs)), self.last_zxid)

    def is_certain(self, zxid: int) -> bool:
        """Returns whether a zxid is within `certain_until`; nothing is read if names are enough."""
        return any(zxid <= (each.newest_snapshot or 0) for each in self.servers) or zxid <= self.certain_until

    @cached_property
    def _certain(self) -> tuple[int, ...]:
        """The zxids that were committed, as was everything of the same epoch before them."""
        lasts = sorted((server.last_zxid for server in self.servers), reverse=True)
        found = [server.newest_snapshot or 0 for server in self.servers]
        found += [last for last in lasts if not epoch_of(last)]
        if self._majority is not None and self._majority <= len(lasts):
            found.append(lasts[self._majority - 1])
        return tuple(found)

    @property
    def _majority(self) -> int | None:
        """The number of servers that are most of them; None where one folder says nothing about others."""
        if self.voters is None and len(self.servers) == 1:
            return None
        return (self.voters or len(self.servers)) // 2 + 1

    def transactions(
        self, from_zxid: int = 0, to_zxid: int | None = None, *, certain_only: bool = False
    ) -> Iterator[Transaction]:
        """Yields the records of all servers by zxid, both ends included, each record once.

        Records that the ensemble went on without are left out and noted in `rolled_back`; where records
        differ, the one that most servers have is taken, else that of the server whose log goes furthest, and
        noted in `splits`. Memory: one record for each server beside the readers' buffers. Raises
        MixedEnsembleError where the folders are not of one.
        """
        self.require_one()
        if certain_only:
            to_zxid = self.certain_until if to_zxid is None else min(to_zxid, self.certain_until)
        if len(self.servers) == 1:
            yield from self.servers[0].transactions(from_zxid, to_zxid)
            return
        for holders in _joined([each.transactions(from_zxid, to_zxid) for each in self.servers]):
            transaction = self.chosen(holders)
            if transaction is not None:
                yield transaction

    def require_one(self) -> None:
        """Raises MixedEnsembleError where two servers differ in the first record that both have."""
        if self._is_checked:
            return
        for number, server in enumerate(self.servers):
            for other in self.servers[:number]:
                _require_same_ensemble(other, server)
        self._is_checked = True

    def chosen(self, holders: Sequence[_Holder]) -> Transaction | None:
        """The record of a zxid that counts, among those of servers, each with the server's number.

        None where the ensemble went on without it.
        """
        zxid = holders[0][1].zxid
        groups: list[list[_Holder]] = []
        for holder in holders:
            alike = next((group for group in groups if same_record(group[0][1], holder[1])), None)
            if alike is None:
                groups.append([holder])
            else:
                alike.append(holder)
        if len(groups) > 1:
            groups.sort(key=lambda group: (-len(group), -max(self._last_of(each) for each, _ in group)))
            folders = tuple(tuple(self.servers[each].folder for each, _ in group) for group in groups)
            if len(self.splits) < _NOTED:
                self.splits[zxid] = folders
        if self.leaves_out(zxid, [each for each, _ in holders]):
            return None
        # A leader's log can lack operations of a refused multi that the others have.
        records = [record for _, record in groups[0]]
        return min(records, key=lambda record: [each.type for each in record.operations].count(_ERROR))

    def leaves_out(self, zxid: int, holders: Sequence[int]) -> bool:
        """Returns whether the ensemble went on without a record of only these servers, and notes it."""
        if self.is_kept(zxid, len(holders)):
            return False
        epoch = epoch_of(zxid)
        went_on = all(epoch_of(self._last_of(number)) == epoch for number in holders) or any(
            server.went_on_without(zxid)
            for number, server in enumerate(self.servers)
            if number not in holders
        )
        if went_on and len(self.rolled_back) < _NOTED:
            self.rolled_back[zxid] = tuple(self.servers[number].folder for number in holders)
        return went_on

    def is_kept(self, zxid: Any, holders: Any) -> Any:
        """Returns whether a record of so many servers counts; False if it depends on which servers they are.

        For an array it returns a flag for each.
        """
        majority = self._majority
        if majority is None:
            return holders > 0
        kept = (holders >= majority) | (epoch_of(zxid) == 0)
        if not (kept.all() if hasattr(kept, "all") else kept):
            kept = kept | (zxid > self.certain_until)
            for certain in self._certain:
                kept = kept | ((zxid <= certain) & (epoch_of(zxid) == epoch_of(certain)))
        return kept

    def _last_of(self, number: int) -> int:
        return self.servers[number].last_zxid


def _joined(streams: Sequence[Iterator[Transaction]]) -> Iterator[Sequence[_Holder]]:
    """Yields the records of each zxid, with the numbers of the streams that have it."""
    numbered = [zip(repeat(number), stream) for number, stream in enumerate(streams)]
    for _, holders in groupby(merge(*numbered, key=_zxid_of), _zxid_of):
        yield list(holders)


def _zxid_of(holder: _Holder) -> int:
    return holder[1].zxid


def _require_same_ensemble(one: Server, other: Server) -> None:
    if one.first_logged is None or other.first_logged is None:
        return
    start = max(one.first_logged, other.first_logged)
    if not (one.reaches(start) and other.reaches(start)):
        return
    for holders in _joined([one.transactions(start), other.transactions(start)]):
        if len(holders) == 2:
            first, second = holders[0][1], holders[1][1]
            if not same_record(first, second):
                raise MixedEnsembleError(str(one.folder), str(other.folder), first.zxid)
            return
