"""The servers of one ensemble: the records of all their logs, and those among them that are certain.

A record in one server's log was proposed, not necessarily committed: a record that only a deposed leader has
is cut off when that server comes back, and stays in copies made before; if it comes back by a snapshot, the
record stays in its log. A server that was far behind gets a snapshot, too, and lacks the records before it.
So logs are joined by zxid, and the servers that have a record decide if it counts. Sources: Leader.java,
Learner.syncWithLeader and LearnerHandler.syncFollower of ZooKeeper 3.4 to 3.9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from heapq import merge
from itertools import groupby, repeat
from pathlib import Path
from typing import Any, Final, TypeVar

from zkgroup.errors import MixedEnsembleError
from zkgroup.zkfiles.files import list_files
from zkgroup.zkfiles.records import Hole, Transaction, TransactionType, epoch_of, hole_between
from zkgroup.zkfiles.servers import Server, same_record

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
