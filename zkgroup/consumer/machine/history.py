"""Keeps the history of the group's rebalances in `/zkgroup/group_history/<g>` (history, recipes 25).

Every member notes each new assignment: who has joined and left, how many partitions move, how long it took.
The oldest zkgroup member writes these changes, in the transaction of its view, which is written anyway; the
others keep theirs, because one of them is the oldest next. It reads the znode in a verification, which is one
bulk read anyway, and writes it with the version that it has read or written: of two members that both think
they are the oldest, one is refused, and reads it again. A refusal concerns the view and the history only;
claims, commits and releases do not know of them.

The views of the others say how long they took. The writer reads them in a later verification, and writes the
longest time with the next rebalance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zkgroup.consumer.machine.assignment import AssignmentComputer, GroupAssignment
from zkgroup.consumer.machine.group_snapshot import GroupSnapshotReader
from zkgroup.consumer.machine.machine_context import GroupPaths, MemberContext
from zkgroup.consumer.machine.shared_results import remembered
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Code, Create, Operation, SetData
from zkgroup.znodes.group_history import (
    REBALANCES_MAX,
    GroupHistory,
    MemberChange,
    RebalanceRecord,
    continued,
    difference,
    group_history_path,
)
from zkgroup.znodes.group_records import View
from zkgroup.znodes.ids import split_thread_id
from zkgroup.znodes.paths import zkgroup_path

VIEWS_READ_MAX = 5
"""Verifications after a rebalance that read the views: a member without one must not be waited for."""


class HistoryWriter:
    """Notes the rebalances of the group, and writes them if this member is the oldest."""

    def __init__(
        self,
        context: MemberContext,
        paths: GroupPaths,
        snapshot: GroupSnapshotReader,
        assignments: AssignmentComputer,
    ) -> None:
        self._context = context
        self._paths = paths
        self._snapshot = snapshot
        self._assignments = assignments
        self._is_denied = False
        self._noted: GroupAssignment | None = None
        """The newest assignment that was noted."""
        self._members: Mapping[str, int] = {}
        """The registrations of its snapshot."""
        self._topics: Mapping[str, tuple[int, ...]] = {}
        """The partitions in it."""
        self._registered: int | None = None
        """The registration of this member at that time."""
        self._started_ms: int | None = None
        """Of the newest rebalance, by the machine's clock; None once this member has carried it out."""
        self._pending: list[MemberChange] = []
        """Changes that no znode has, as far as this member knows."""
        self._is_read = False
        """True if the three fields below are what ZooKeeper has."""
        self._stored: GroupHistory | None = None
        self._version: int | None = None
        """Data version of the znode; None if there is none."""
        self._missing: tuple[str, ...] = ()
        """The parents that do not exist."""
        self._sent: GroupHistory | None = None
        self._awaited: set[str] = set()
        """Members whose views of the newest rebalance in the znode were not read."""
        self._views_read = 0
        self.took_ms: int | None = None
        """Milliseconds that the newest rebalance took this member."""

    @property
    def must_read(self) -> bool:
        """True if this member has changes to write and does not know the znode."""
        return bool(self._pending) and not self._is_read and self._is_writer

    @property
    def _is_writer(self) -> bool:
        """True if no zkgroup member is older, and it may write."""
        snapshot = self._snapshot.newest
        if snapshot is None or self._is_denied or not self._context.config.settings.group_history:
            return False
        ours = (name for name, one in snapshot.registrations.items() if one.is_zkgroup)
        oldest = min(ours, key=lambda name: (snapshot.created[name], name), default=None)
        return oldest == self._context.config.member_id

    def planned(self) -> None:
        """Notes the present assignment, unless it is noted."""
        planned, snapshot, before = self._assignments.planned, self._snapshot.newest, self._noted
        if planned is None or snapshot is None or planned is before:
            return
        if self._registered != self._context.registered_zxid:  # another member may have written meanwhile
            self._registered, self._is_read = self._context.registered_zxid, False
            self._awaited.clear()
        joined, left = difference(self._members, snapshot.created)
        moved = None if before is None else moved_partitions(before.owners, planned.owners)
        has_new_topics = snapshot.partitions != self._topics
        self._noted, self._members, self._topics = planned, snapshot.created, snapshot.partitions
        if not (joined or left or moved or has_new_topics):
            return
        self.carried_out()
        now = self._context.now
        self._started_ms = min(now.ms, self._snapshot.settling.since_ms)
        rebalance = RebalanceRecord(
            time_ms=now.wall_ms - (now.ms - self._started_ms),
            generation=planned.generation,
            reason="topics changed" if has_new_topics else "partitions moved",
            joined=(),
            left=(),
            moved=moved,
            took_ms=None,
        )
        if self._context.config.settings.group_history:
            zxid = max([planned.generation, *self._snapshot.topic_facts.values()])
            self._pending.append(MemberChange(rebalance, zxid, joined, left))
            del self._pending[:-REBALANCES_MAX]

    def carried_out(self) -> None:
        """The newest rebalance has ended for this member, or another one begins."""
        if self._started_ms is None:
            return
        self.took_ms, self._started_ms = self._context.now.ms - self._started_ms, None
        if self._pending:
            last = self._pending[-1]
            self._pending[-1] = last._replace(rebalance=replace(last.rebalance, took_ms=self.took_ms))

    def paths_to_read(self) -> list[str]:
        """What the next verification reads for the history; nothing for most members."""
        if self.must_read:
            return [*self._parents, self._paths.history]
        if self._awaited and self._is_writer:
            return [self._paths.view_of(name) for name in sorted(self._awaited)]
        return []

    @property
    def _parents(self) -> tuple[str, str]:
        return zkgroup_path(), group_history_path()

    def read(self, found: Mapping[str, Znode | Code | None]) -> None:
        """Takes what was read at `paths_to_read`."""
        if self._paths.history in found:
            self._take_history(found)
        elif found:
            self._take_views(found)

    def _take_history(self, found: Mapping[str, Znode | Code | None]) -> None:
        znode = found[self._paths.history]
        denied = next((path for path, each in found.items() if isinstance(each, Code)), None)
        if denied is not None:
            self._deny(denied)
            return
        assert not isinstance(znode, Code)
        self._is_read, self._stored, self._version = True, None, znode.stat.version if znode else None
        self._missing = tuple(path for path in self._parents if found[path] is None)
        if self._missing and not self._context.config.creates_parents:
            self._deny(self._missing[0])
            return
        if znode is None:
            return
        try:
            self._stored = GroupHistory.decode(znode.path, znode.data)
        except CorruptZnodeError as error:
            self._snapshot.report_corrupt(znode, error)
            return
        self._pending = [change for change in self._pending if self._stored.lacks(change)]

    def _take_views(self, found: Mapping[str, Znode | Code | None]) -> None:
        stored = self._stored
        assert stored is not None
        newest, longest = stored.rebalances[-1], 0
        for name in list(self._awaited):
            znode = found.get(self._paths.view_of(name))
            took_ms = _took_ms(znode, newest.generation) if isinstance(znode, Znode) else None
            if took_ms is not None:
                self._awaited.discard(name)
                longest = max(longest, took_ms)
        self._stored = replace(
            stored,
            rebalances=(*stored.rebalances[:-1], replace(newest, took_ms=max(newest.took_ms or 0, longest))),
        )
        self._views_read += 1
        if self._views_read >= VIEWS_READ_MAX:
            self._awaited.clear()

    def operations(self) -> Sequence[Operation]:
        """The operations for the transaction of the view; none for most members."""
        self._sent = None
        if not (self._pending and self._is_read and self._started_ms is None and self._is_writer):
            return ()
        history = continued(self._stored, self._pending, self._members)
        data = history.encode_newest(self._context.request_bytes_max // 2)
        if data is None:
            return ()
        self._sent, self._is_read = history, False
        if self._version is not None:
            return (SetData(self._paths.history, data, self._version),)
        return *(Create(path, None) for path in self._missing), Create(self._paths.history, data)

    def written(self) -> None:
        """The transaction with the operations, if there were any, was applied."""
        if self._sent is None:
            return
        self._is_read, self._missing = True, ()
        self._version = 0 if self._version is None else self._version + 1
        self._stored, self._sent = self._sent, None
        self._pending.clear()
        snapshot = self._snapshot.newest
        ours = snapshot.registrations.items() if snapshot is not None else ()
        own = self._context.config.member_id
        self._awaited = {name for name, one in ours if one.is_zkgroup and name != own}
        self._views_read = 0

    def refused(self, path: str, code: Code) -> None:
        """The transaction was refused at one of the operations: the znode is read again, or left alone."""
        if code not in (Code.NO_NODE, Code.NODE_EXISTS, Code.BAD_VERSION):
            self._deny(path)

    def _deny(self, path: str) -> None:
        """Ends the history of this member: an ACL or a quota forbids it, or it may not create the parents."""
        self._is_denied = True
        self._pending.clear()
        self._context.note("history_denied", path=path)


@remembered
def moved_partitions(before: Mapping[TopicPartition, str], after: Mapping[TopicPartition, str]) -> int:
    """The number of partitions that another member gets; both are partition to thread id."""
    return sum(
        1
        for tp, who in before.items()
        if (now := after.get(tp, who)) != who and split_thread_id(now)[0] != split_thread_id(who)[0]
    )


def _took_ms(znode: Znode, generation: int) -> int | None:
    """The time in a view of this generation."""
    try:
        view = View.decode(znode.path, znode.data)
    except CorruptZnodeError:
        return None
    return view.took_ms if view.generation == generation else None
