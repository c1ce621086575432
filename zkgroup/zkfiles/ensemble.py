"""The servers of one ensemble: what their logs hold together, and what of it is certain.

A record in one server's log was proposed, not necessarily committed: what a deposed leader had written and
nobody else had is cut off when it comes back, and stays in copies made before; where it comes back by a
snapshot, it stays in its log for good. A server that was far behind is given a snapshot, too, and lacks what
it stands for. So logs are joined by zxid, and each record is judged by who has it. Sources: Leader.java,
Learner.syncWithLeader and LearnerHandler.syncFollower of ZooKeeper 3.4 to 3.9.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from zkgroup.errors import DamagedFileError, MixedEnsembleError, NotZooKeeperFileError
from zkgroup.zkfiles.frames import ZXID, ZXID_AT, LogChunk
from zkgroup.zkfiles.logs import LogReader
from zkgroup.zkfiles.names import ServerFile, ServerFiles, list_files, with_following
from zkgroup.zkfiles.operations import OVERWRITTEN
from zkgroup.zkfiles.records import Operation, Transaction, TransactionType

_NOTED: Final = 1000
"""So many notes of a kind are kept."""
_FRONT_BYTES: Final = 4096
"""What is read at a time where only the first record of a log is wanted."""


T = TypeVar("T")


def epoch_of(zxid: int) -> int:
    """The leader's reign; 0 for a server alone."""
    return zxid >> 32


def follows(zxid: int, before: int) -> bool:
    """Whether nothing can be missing between two zxids: each epoch counts from 1 without a gap."""
    return zxid == before + 1 or (epoch_of(zxid) > epoch_of(before) and zxid & 0xFFFFFFFF == 1)


class Hole(NamedTuple):
    """Zxids that must have been, and are in no file; both ends are missing."""

    first_missing: int
    last_missing: int


def hole_between(before: int, zxid: int) -> Hole | None:
    """What is missing between two zxids that follow each other in the files; None where nothing is."""
    if zxid <= before or follows(zxid, before):
        return None
    first = before + 1 if epoch_of(zxid) == epoch_of(before) else epoch_of(zxid) << 32 | 1
    return Hole(first, zxid - 1)


class LogDamage(NamedTuple):
    """Where a log could not be read."""

    path: Path
    offset: int
    expected: str
    found: str


class Server:
    """The files of one server. What reading them showed is noted."""

    def __init__(self, files: ServerFiles) -> None:
        self.files = files
        self.damages: dict[tuple[Path, int], LogDamage] = {}
        """By file and offset."""
        self.overlaps: dict[Path, int] = {}
        """Logs with records that a log before had, each with the first such zxid: they were left out."""
        self._last: int | None = None
        self._gap: tuple[int, int | None] = (0, 0)
        """A zxid, and that of the first record behind it: what `_next_logged` found last."""

    @property
    def folder(self) -> Path:
        return self.files.folder

    @property
    def first_logged(self) -> int | None:
        """The zxid of the first record, by the files' names; None without a log."""
        return self.files.logs[0].zxid if self.files.logs else None

    @property
    def newest_snapshot(self) -> int | None:
        """The zxid of its name: what was applied then was committed."""
        return self.files.snapshots[-1].zxid if self.files.snapshots else None

    @property
    def last_zxid(self) -> int:
        """Of the last record or snapshot; 0 where there is neither. Hops once over the newest log."""
        if self._last is None:
            self._last = self.newest_snapshot or 0
            for log in reversed(self.files.logs):
                found = self._last_in(log)
                if found is not None:
                    self._last = max(self._last, found)
                    break
        return self._last

    def reaches(self, zxid: int) -> bool:
        """Whether it has a record or a snapshot at or behind a zxid; nothing is read where names tell."""
        newest = max((file.zxid for file in (*self.files.snapshots[-1:], *self.files.logs[-1:])), default=0)
        return zxid <= newest or zxid <= self.last_zxid

    def stretch_at(self, time_ms: int) -> tuple[int, int | None] | None:
        """The zxids, by the names, of the last log whose first record is stamped at or before a time.

        None where there is no such log. Of the logs behind it the first record is read.
        """
        for log, following in reversed(list(with_following(self.files.logs))):
            first = self._first_in(log)
            if first is not None and first.time_ms <= time_ms:
                return log.zxid, None if following is None else following.zxid - 1
        return None

    def went_on_without(self, zxid: int) -> bool:
        """Whether its log, which lacks this record, goes on with the first one of a later epoch.

        Whoever takes part in an epoch has all that was committed before it: in its log, or in a snapshot.
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

    def transactions(
        self, from_zxid: int = 0, to_zxid: int | None = None
    ) -> Generator[Transaction, None, None]:
        """Its records by rising zxid, both ends included; only the logs that can hold them are opened."""
        last = -1
        for log in self.files.logs_within(from_zxid, to_zxid):
            for transaction in self._read(log, from_zxid):
                zxid = transaction.zxid
                if to_zxid is not None and zxid > to_zxid:
                    break
                if zxid <= last:
                    self.overlaps.setdefault(log.path, zxid)
                elif zxid >= from_zxid:
                    last = zxid
                    yield transaction

    def _read(self, log: ServerFile, from_zxid: int) -> Iterator[Transaction]:
        """What is behind damage comes too: the zxids tell what is missing. Nothing before is decoded."""
        start = self._offset_of(log, from_zxid) if log.zxid < from_zxid else None
        reader = LogReader(log.path, from_offset=start, resync=True)
        with self._noting(reader):
            yield from reader

    def _offset_of(self, log: ServerFile, zxid: int) -> int | None:
        """Where the first record from a zxid on is; for none the last one of the log."""
        offset = None
        reader = LogReader(log.path, resync=True)
        with self._noting(reader):
            for chunk in reader.chunks():
                starts = chunk.starts
                if _zxid_in(chunk, -1) >= zxid:
                    place = bisect_left(range(len(starts)), zxid, key=lambda each: _zxid_in(chunk, each))
                    return chunk.base + starts[place]
                offset = chunk.base + starts[-1]
        return offset

    def _first_in(self, log: ServerFile) -> Transaction | None:
        reader = LogReader(log.path, resync=True, piece_bytes=_FRONT_BYTES)
        with self._noting(reader):
            for transaction in reader:
                return transaction
        return None

    def _last_in(self, log: ServerFile) -> int | None:
        reader = LogReader(log.path, resync=True)
        last = None
        with self._noting(reader):
            for chunk in reader.chunks():
                last = _zxid_in(chunk, -1)
        return last

    @contextmanager
    def _noting(self, reader: LogReader) -> Iterator[None]:
        """A file that is none, or cannot be unpacked, is damaged; one that may not be read is an error."""
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


class Ensemble:
    """Some or all servers of one ensemble."""

    def __init__(self, folders: Sequence[Path], voters: int | None = None) -> None:
        """`voters` is how many servers vote, where not all folders are given, or some are of observers.

        Raises NotZooKeeperFileError where a folder has no files of ZooKeeper.
        """
        self.servers = tuple(Server(list_files(folder)) for folder in folders)
        self.voters = voters
        self.splits: dict[int, tuple[tuple[Path, ...], ...]] = {}
        """Zxids met so far for which servers have different records: the folders that agree with each other,
        first those whose record was taken."""
        self.rolled_back: dict[int, tuple[Path, ...]] = {}
        """Zxids met so far that the ensemble went on without, with the folders that have them."""
        self._is_checked = len(self.servers) < 2
        self._certain_until: int | None = None

    @property
    def last_zxid(self) -> int:
        """The highest of any server."""
        return max(server.last_zxid for server in self.servers)

    @property
    def certain_until(self) -> int:
        """Up to there everything that is given was committed; behind it nobody can tell from these files.

        Certain is what most voters have, what a server applied before a snapshot, and what a server has from
        before an epoch that it took part in. A server alone (epoch 0) commits what it writes.
        """
        if self._certain_until is None:
            epochs = [epoch_of(server.last_zxid) for server in self.servers]
            before_epochs = [(epoch << 32) - 1 for epoch in epochs if epoch]
            self._certain_until = min(max((*self._certain, *before_epochs)), self.last_zxid)
        return self._certain_until

    def is_certain(self, zxid: int) -> bool:
        """Whether it is within `certain_until`; where names alone tell, nothing is read."""
        return any(zxid <= (each.newest_snapshot or 0) for each in self.servers) or zxid <= self.certain_until

    @property
    def _certain(self) -> tuple[int, ...]:
        """Zxids that were committed, and so was everything of the same epoch before them."""
        lasts = sorted((server.last_zxid for server in self.servers), reverse=True)
        found = [server.newest_snapshot or 0 for server in self.servers]
        found += [last for last in lasts if not epoch_of(last)]
        if self._majority is not None and self._majority <= len(lasts):
            found.append(lasts[self._majority - 1])
        return tuple(found)

    @property
    def _majority(self) -> int | None:
        """How many servers are most of them; None where one folder says nothing about the others."""
        if self.voters is None and len(self.servers) == 1:
            return None
        return (self.voters or len(self.servers)) // 2 + 1

    def transactions(
        self, from_zxid: int = 0, to_zxid: int | None = None, *, certain_only: bool = False
    ) -> Iterator[Transaction]:
        """What the servers have together, by zxid, both ends included; each record once.

        Records that the ensemble went on without are left out and noted in `rolled_back`; where records
        differ, the one that most servers have is taken, and `splits` says so. Memory: one record for each
        server beside the readers' buffers. Raises MixedEnsembleError where the folders are not of one.
        """
        self.require_one()
        if certain_only:
            to_zxid = self.certain_until if to_zxid is None else min(to_zxid, self.certain_until)
        if len(self.servers) == 1:
            yield from self.servers[0].transactions(from_zxid, to_zxid)
            return
        for holders in _joined([each.transactions(from_zxid, to_zxid) for each in self.servers]):
            transaction = self._judged(holders)
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

    def _judged(self, holders: Sequence[tuple[int, Transaction]]) -> Transaction | None:
        zxid = holders[0][1].zxid
        groups: list[list[tuple[int, Transaction]]] = []
        for holder in holders:
            alike = next((group for group in groups if same_record(group[0][1], holder[1])), None)
            if alike is None:
                groups.append([holder])
            else:
                alike.append(holder)
        if len(groups) > 1:
            groups.sort(key=lambda group: (-len(group), -max(self._last_of(each) for each, _ in group)))
            self._note(self.splits, zxid, tuple(self._folders(group) for group in groups))
        if self._is_rolled_back(zxid, [each for each, _ in holders]):
            self._note(self.rolled_back, zxid, self._folders(holders))
            return None
        # Of a refused multi a leader's log can lack operations that the others have.
        return min((record for _, record in groups[0]), key=_count_of_errors)

    def _is_rolled_back(self, zxid: int, holders: Sequence[int]) -> bool:
        """Whether later ones are certain and this one is not."""
        epoch, majority = epoch_of(zxid), self._majority
        if not epoch or majority is None or len(holders) >= majority or zxid > self.certain_until:
            return False
        if any(epoch_of(certain) == epoch and certain >= zxid for certain in self._certain):
            return False
        return all(epoch_of(self._last_of(number)) == epoch for number in holders) or any(
            server.went_on_without(zxid)
            for number, server in enumerate(self.servers)
            if number not in holders
        )

    def _last_of(self, number: int) -> int:
        return self.servers[number].last_zxid

    def _folders(self, holders: Iterable[tuple[int, Transaction]]) -> tuple[Path, ...]:
        return tuple(self.servers[number].folder for number, _ in holders)

    @staticmethod
    def _note(notes: dict[int, T], zxid: int, note: T) -> None:
        if len(notes) < _NOTED:
            notes[zxid] = note


def _zxid_in(chunk: LogChunk, number: int) -> int:
    (zxid,) = ZXID.unpack_from(chunk.data, chunk.starts[number] + ZXID_AT)
    return int(zxid)


def same_record(one: Transaction, other: Transaction) -> bool:
    """Whether two servers wrote the same; one may lack the digest or the list of ephemerals of the other."""
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
    """Whether the operations are the same, as far as both servers have them."""
    return one == other or (
        len(one) == len(other)
        and all(
            mine == its
            or any(each.type == TransactionType.ERROR and each.error == OVERWRITTEN for each in (mine, its))
            for mine, its in zip(one, other, strict=True)
        )
    )


def _count_of_errors(record: Transaction) -> int:
    return sum(each.type == TransactionType.ERROR for each in record.operations)


def _joined(streams: Sequence[Iterator[Transaction]]) -> Iterator[Sequence[tuple[int, Transaction]]]:
    """The records of each zxid, with the number of the stream that has it."""
    heads = [next(stream, None) for stream in streams]
    while True:
        zxid = min((head.zxid for head in heads if head is not None), default=None)
        if zxid is None:
            return
        holders = [
            (number, head) for number, head in enumerate(heads) if head is not None and head.zxid == zxid
        ]
        yield holders
        for number, _ in holders:
            heads[number] = next(streams[number], None)


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
