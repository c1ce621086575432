"""Warm-up: the new owner of a partition prepares while the old one works on (recipes 27).

A member whose application has `on_prepare` publishes `prepare_ms`, the bound, in its registration. As the
*new owner* it calls `on_prepare` for each assigned partition that a registered member still owns, and when
that has returned, it names the partition in its own ephemeral znode `prepared/<c>`. It claims a partition as
soon as nobody owns it, prepared or not: a crash of the old owner never leaves a partition without an owner
for longer.

As the *old owner* a member keeps such a partition instead of revoking it, until the znode of the new owner
names it, or the bound has passed since it read the assignment. The znode counts if it is of that assignment's
generation or a later one: what was prepared before may have been dropped since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from zkgroup.consumer.machine.assignment import AssignmentComputer
from zkgroup.consumer.machine.events import Prepare
from zkgroup.consumer.machine.group_snapshot import GroupSnapshotReader
from zkgroup.consumer.machine.machine_context import GroupPaths, MemberContext
from zkgroup.consumer.machine.transactions import guard
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, CreateMissing, Delete, Exists, MultiDone, Operation, Read, SetData
from zkgroup.runtime.events import Watch
from zkgroup.runtime.procedures import ConnectionLossError, Procedure, Query, ask, read_done, read_many, write
from zkgroup.znodes.group_records import PreparedPartitions
from zkgroup.znodes.ids import split_thread_id

WARM_UP_TIMER = "warm_up"


class NewOwner:
    """Has the application prepare partitions, and publishes which are ready."""

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
        self._preparing: dict[int, frozenset[TopicPartition]] = {}
        """The calls of `on_prepare` that have not returned."""
        self.ready: set[TopicPartition] = set()
        """What the application has prepared and still waits for."""
        self._published: tuple[int, frozenset[TopicPartition]] | None = None
        self._version: int | None = None
        """Data version of the znode; None if there is none."""

    def forget(self) -> None:
        """Drops everything: the registration is gone."""
        self._preparing.clear()
        self.ready.clear()
        self._published = self._version = None

    def assigned(self) -> None:
        """Notes a new assignment: what is no longer assigned is not ready any more."""
        if self.ready:
            self.ready.intersection_update(self._context.owned.assigned)

    def blocked(self) -> None:
        """Has the application prepare those blocked partitions whose owner is registered."""
        owned, newest = self._context.owned, self._snapshot.newest
        members = newest.registrations if newest is not None else {}
        known = self.ready.union(*self._preparing.values())
        wanted = sorted(
            tp
            for tp, owner in owned.blocked.items()
            if tp not in known and split_thread_id(owner)[0] in members
        )
        if wanted:
            call_id = self._context.next_id()
            self._preparing[call_id] = frozenset(wanted)
            self._context.emit(Prepare(call_id, tuple(wanted)))

    def prepared(self, call_id: int) -> None:
        """Notes that `on_prepare` has returned."""
        self.ready |= self._preparing.pop(call_id, frozenset()).intersection(self._context.owned.assigned)

    @property
    def is_preparing(self) -> bool:
        return bool(self._preparing or self.ready)

    @property
    def is_due(self) -> bool:
        """Returns whether there is something to publish that the old owners wait for."""
        news, published = self._news() if self.ready else None, self._published
        if news is None:
            return False
        return published is None or published[0] != news[0] or not news[1] <= published[1]

    def _news(self) -> tuple[int, frozenset[TopicPartition]] | None:
        planned = self._assignments.planned
        waiting = frozenset(self.ready.intersection(self._context.owned.blocked))
        return (planned.generation, waiting) if planned is not None and waiting else None

    def publish(self) -> Procedure[None]:
        """Writes what is ready in one guarded write; after a refusal it reads the znode."""
        news, path = self._news(), self._paths.prepared
        if news is None:
            return
        data = PreparedPartitions(*news).encode()
        change: Operation = (
            Create(path, data, ephemeral=True)
            if self._version is None
            else SetData(path, data, self._version)
        )
        answer = yield from write([guard(self._paths), change], (self._paths.own,))
        if isinstance(answer, MultiDone):
            self._version = 0 if self._version is None else self._version + 1
            self._published = news
            return
        (outcome,) = yield from ask(Query(Read(path)))
        znode, session = read_done(outcome), self._context.session
        if znode is None:
            yield from ask(Query(CreateMissing((self._paths.prepared_parent,))))
        mine = znode is not None and session is not None and znode.stat.ephemeral_owner == session.session_id
        self._version = znode.stat.version if mine and znode is not None else None
        if znode is not None and not mine:
            self._published = news  # left by a former session: the bound ends the wait

    def remove(self) -> Procedure[None]:
        """Deletes the znode, before a member that shares its client leaves."""
        version, self._version = self._version, None
        if version is None:
            return
        try:
            change = Delete(self._paths.prepared, version)
            yield from write([guard(self._paths), change], (self._paths.own,))
        except ConnectionLossError:
            self._version = version  # the leave is tried again
            raise


@dataclass(slots=True)
class _Hold:
    """A partition that is kept for its new owner."""

    thread: str
    member: str
    registered: int
    """czxid of the new owner's registration."""
    own_registered: int | None
    """As `MemberContext.registered_zxid`: a wait ends with the registration of this member."""
    generation: int
    """Of the assignment in which the wait began."""
    until_ms: int


class OldOwner:
    """Keeps partitions while their new owners prepare."""

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
        self._holds: dict[TopicPartition, _Hold] = {}
        self._watches: dict[str, Watch] = {}
        """New owner to the watch on its znode."""
        self.revoke: Callable[[Sequence[TopicPartition]], None] = lambda partitions: None
        """Revokes partitions for a rebalance."""

    def forget_watches(self) -> None:
        """Notes that a disconnect has ended the watches."""
        self._watches.clear()

    def keep(self, lost: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Keeps those of the partitions whose new owner prepares; returns the others, to be revoked now."""
        snapshot, planned = self._snapshot.newest, self._assignments.planned
        if not lost or snapshot is None or planned is None:
            self._holds.clear()
            return tuple(lost)
        before, self._holds, own = self._holds, {}, self._context.config.member_id
        for tp in lost:
            thread = planned.owners.get(tp)
            member = split_thread_id(thread)[0] if thread is not None else own
            registration = snapshot.registrations.get(member)
            bound_ms = registration.prepare_ms if registration is not None else None
            if thread is None or member == own or bound_ms is None:
                continue
            hold, registered = before.get(tp), snapshot.created.get(member, 0)
            of = (thread, registered, self._context.registered_zxid)
            if hold is None or (hold.thread, hold.registered, hold.own_registered) != of:
                until_ms = self._context.now.ms + bound_ms
                hold = _Hold(thread, member, *of[1:], planned.generation, until_ms)
            if hold.until_ms > self._context.now.ms:
                self._holds[tp] = hold
        self._context.owned.kept = set(self._holds)
        self._set_timer()
        return tuple(tp for tp in lost if tp not in self._holds)

    def _set_timer(self) -> None:
        if self._holds:
            self._context.set_timer(WARM_UP_TIMER, min(hold.until_ms for hold in self._holds.values()))
        else:
            self._context.cancel_timer(WARM_UP_TIMER)

    @property
    def is_due(self) -> bool:
        """Returns whether the znode of a new owner is to be read."""
        return bool(self._context.owned.kept) and any(
            self._is_unwatched(hold.member) for hold in self._holds.values()
        )

    def _is_unwatched(self, member: str) -> bool:
        watch = self._watches.get(member)
        return watch is None or watch.fired

    def read(self) -> Procedure[None]:
        """Reads, under watches, what the new owners have prepared, and gives up what is ready."""
        members = sorted({hold.member for hold in self._holds.values() if self._is_unwatched(hold.member)})
        watches = [Watch(lambda: None) for _ in members]
        paths = [self._paths.prepared_by(member) for member in members]
        yield from ask(
            *(Query(Exists(path, watch=True), watch) for path, watch in zip(paths, watches, strict=True))
        )
        self._watches.update(zip(members, watches, strict=True))
        (znodes,) = yield from read_many(paths)
        ready: list[TopicPartition] = []
        for member, znode in zip(members, znodes, strict=True):
            if znode is None:
                continue
            try:
                news = PreparedPartitions.decode(znode.path, znode.data)
            except CorruptZnodeError as error:
                self._snapshot.report_corrupt(znode, error)
                continue
            ready += (
                tp
                for tp in news.partitions
                if (hold := self._holds.get(tp)) is not None
                and hold.member == member
                and news.generation >= hold.generation
            )
        self._give_up(ready)

    def overdue(self) -> None:
        """Gives up the partitions whose bound has passed."""
        now_ms = self._context.now.ms
        self._give_up([tp for tp, hold in self._holds.items() if hold.until_ms <= now_ms])
        self._set_timer()

    def _give_up(self, partitions: Iterable[TopicPartition]) -> None:
        kept = self._context.owned.kept
        due = []
        for tp in sorted(partitions):
            self._holds.pop(tp, None)  # also where the registration is over, and nothing is owned any more
            if tp in kept:
                due.append(tp)
        kept.difference_update(due)
        self.revoke(due)
