"""Changes of groups, one after another for each group, and many groups at once.

    claim   = multi[ check(slot), delete(ids), create(ids), create(protocol), set(header, reserved, v) ]
    store   = multi[ check(slot), create(chunks), set(header, v), delete(former chunks), create(rebalance) ]
    empty   = multi[ check(slot), set(header, no members, v), delete(former chunks), delete(protocol) ]

A group that is too large for one transaction has its chunks written before, each with the slot's check.
A change begins when the commits that came before it have their outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from zkgroup.broker.groups.deletions import Deletions
from zkgroup.broker.groups.led_slots import (
    GroupChange,
    LedSlot,
    QueuedChange,
    SentHeader,
    StoreCore,
    StoredGroup,
)
from zkgroup.broker.groups.members_watch import MembersWatch
from zkgroup.coordinator.effects import DeleteGroup, ReserveGenerations, WriteGroup
from zkgroup.coordinator.events import GroupWritten, WriteOutcome
from zkgroup.coordinator.records import GroupRecord
from zkgroup.model import Znode
from zkgroup.model.requests import (
    Check,
    Code,
    Create,
    Delete,
    ListChildren,
    Multi,
    MultiDone,
    MultiRefused,
    Operation,
    ReadMany,
    ReadManyDone,
    SetData,
    Sync,
)
from zkgroup.runtime.machine import Job
from zkgroup.runtime.procedures import (
    ConnectionLossError,
    GuardRefusedError,
    Procedure,
    Query,
    ask,
    list_done,
    read_many,
    require_answers,
    write,
)
from zkgroup.znodes.consumers import group_path, ids_path
from zkgroup.znodes.coordinated_groups import GroupChunk, GroupHeader, ProtocolMarker, chunks_of
from zkgroup.znodes.group_history import REBALANCES_MAX, RebalanceRecord

ONE_TRANSACTION_BYTES = 600 * 1024
"""Chunks of so many bytes are created in the transaction of the header; below ZooKeeper's limit of 1 MiB."""
REBALANCE_BYTES_MAX = 64 * 1024
"""A rebalance with more is left out, so that the transaction fits."""
REBALANCES_DELETED_MAX = 20
"""Rebalances that one transaction deletes."""
TRIES = 5
"""Transactions that other clients' changes of the group's parents may refuse."""


class GroupWrites:
    """The changes of all groups."""

    def __init__(
        self,
        core: StoreCore,
        members: MembersWatch,
        deletions: Deletions,
        on_done: Callable[[LedSlot], None],
    ) -> None:
        """`on_done`: called when a change of a group of this slot has its outcome, and commits wait."""
        self._core = core
        self._members = members
        self._deletions = deletions
        self._on_done = on_done
        self._under_way: dict[StoredGroup, LedSlot] = {}
        """Groups whose first change has a procedure; also of slots that are closed."""

    def add(self, change: GroupChange) -> None:
        """Takes a change; refuses it where the slot is not owned."""
        group_id = change.record.group_id if isinstance(change, WriteGroup) else change.group_id
        slot = self._core.owned(group_id)
        if slot is None:
            self._report(QueuedChange(change, 0), WriteOutcome.NOT_OWNER)
            return
        group = slot.group(group_id)
        group.changes.append(QueuedChange(change, slot.commits_accepted))
        if len(group.changes) == 1:
            self._start(slot, group)

    def commits_done(self, slot: LedSlot) -> None:
        """Starts the changes that waited for commits."""
        waiting, slot.waiting = slot.waiting, {}
        for group in waiting:
            if group.changes and group not in self._under_way:
                self._start(slot, group)

    def close(self, slot: LedSlot) -> None:
        """The slot is given up: nothing more is sent, and what was sent gets its outcome."""
        slot.waiting.clear()
        for group in slot.groups.values():
            is_sent = self._core.procedures.is_running(("group", group))
            while len(group.changes) > is_sent:
                self._end(group, group.changes.pop())

    def session_over(self) -> None:
        """No reply comes any more."""
        for group in list(self._under_way):
            while group.changes:
                self._end(group, group.changes.pop())

    def _end(self, group: StoredGroup, queued: QueuedChange) -> None:
        """Ends a change without a reply."""
        is_unknown = not group.changes and group.sent is not None
        if not group.changes and self._under_way.pop(group, None) is not None:
            self._core.procedures.cancel(("group", group))
        self._report(queued, WriteOutcome.UNKNOWN if is_unknown else WriteOutcome.NOT_OWNER)

    def _start(self, slot: LedSlot, group: StoredGroup) -> None:
        queued = group.changes[0]
        if slot.commits_done < queued.after:
            slot.waiting[group] = None
            return
        self._under_way[group] = slot
        job = Job(
            f"{type(queued.change).__name__} of a group",
            partial(self._perform, slot, group, queued),
            partial(self._ended, slot, group, queued),
        )
        self._core.run(("group", group), job)

    def _ended(
        self, slot: LedSlot, group: StoredGroup, queued: QueuedChange, error: Exception | None
    ) -> None:
        match error:
            case None:
                assert queued.outcome is not None
                outcome = queued.outcome
            case GuardRefusedError():
                outcome = WriteOutcome.NOT_OWNER
            case ConnectionLossError():
                outcome = WriteOutcome.TOO_LARGE
            case _:
                outcome = WriteOutcome.CONFLICT
        del self._under_way[group]
        assert group.changes.popleft() is queued
        group.sent = None
        self._report(queued, outcome)
        if outcome in (WriteOutcome.NOT_OWNER, WriteOutcome.CONFLICT, WriteOutcome.UNKNOWN) and error is None:
            self._core.lost(slot, f"{group.group_id} is not as it was: {outcome.value}")
        elif isinstance(error, GuardRefusedError):
            self._core.lost(slot, "a write was refused")
        elif outcome is WriteOutcome.ZOOKEEPER_MEMBERS:
            self._members.report(slot, group)
        elif outcome is WriteOutcome.STORED and group.is_marked and not group.watches_members:
            self._members.watch(slot, group)
        if group.changes and group not in self._under_way:
            self._start(slot, group)
        elif isinstance(queued.change, DeleteGroup) and outcome is WriteOutcome.STORED:
            slot.groups.pop(group.group_id, None)
        if slot.commits:
            self._on_done(slot)

    def _report(self, queued: QueuedChange, outcome: WriteOutcome) -> None:
        change = queued.change
        if isinstance(change, (WriteGroup, ReserveGenerations, DeleteGroup)):
            self._core.context.emit(GroupWritten(change.write_id, outcome))
        else:
            self._deletions.finished(queued, outcome)

    def _perform(self, slot: LedSlot, group: StoredGroup, queued: QueuedChange) -> Procedure[None]:
        outcome: WriteOutcome | None = None
        if group.sent is not None:
            outcome = yield from self._read_back(slot, group)
        elif slot.is_closed:
            outcome = WriteOutcome.NOT_OWNER
        if outcome is None:
            match queued.change:
                case WriteGroup(_, record):
                    outcome = yield from self._store(slot, group, record)
                case ReserveGenerations():
                    outcome = yield from self._reserve(slot, group, queued.change)
                case _:
                    outcome = yield from self._deletions.perform(slot, group, queued)
        queued.outcome = outcome

    def _read_back(self, slot: LedSlot, group: StoredGroup) -> Procedure[WriteOutcome | None]:
        """Returns the outcome of a write without a reply; None: it was not done, and it can be made again."""
        sent = group.sent
        assert sent is not None
        _, outcome = yield from ask(Query(Sync(slot.path)), Query(ReadMany((slot.path, group.path))))
        assert isinstance(outcome, ReadManyDone), outcome
        owner, header = outcome.znodes
        if not isinstance(owner, Znode) or owner.stat.version != slot.version or isinstance(header, Code):
            return WriteOutcome.UNKNOWN
        if header is not None and header.stat.version == sent.version_after and header.data == sent.data:
            group.adopt(sent)
            return WriteOutcome.STORED
        group.sent = None
        if (None if header is None else header.stat.version) == sent.version:
            return None
        return WriteOutcome.CONFLICT

    def _store(self, slot: LedSlot, group: StoredGroup, record: GroupRecord) -> Procedure[WriteOutcome]:
        """Stores a group. Without members it loses its marker; with members it has it, or claims it again."""
        for _ in range(TRIES):
            outcome = yield from self._try_store(slot, group, record)
            if outcome is not None:
                return outcome
        return WriteOutcome.CONFLICT

    def _try_store(
        self, slot: LedSlot, group: StoredGroup, record: GroupRecord
    ) -> Procedure[WriteOutcome | None]:
        """One transaction; None where the marker, or what is above it, is not as it was known."""
        yield from self._find_header(group)
        if group.has_stray_chunks:
            yield from self._list_chunks(group)
        chunks, checksum = chunks_of(record.members)
        generation, first = record.generation, group.chunk_numbers.get(record.generation, 0)
        group.chunk_numbers[generation] = first + len(chunks)
        numbers = range(first, first + len(chunks))
        paths = [GroupChunk.path(slot.number, group.group_id, generation, number) for number in numbers]
        header = GroupHeader(
            generation=generation,
            reserved_generation=record.reserved_generation,
            protocol_type=record.protocol_type,
            protocol=record.protocol,
            leader=record.leader,
            state_timestamp_ms=self._core.wall_ms(record.state_timestamp_ms),
            first_chunk=first,
            chunks=len(chunks),
            checksum=checksum,
        )
        creates = [Create(path, chunk.encode()) for path, chunk in zip(paths, chunks, strict=True)]
        if sum(len(chunk.data) for chunk in chunks) > ONE_TRANSACTION_BYTES:
            if not (yield from self._store_chunks(slot, group, creates)):
                return WriteOutcome.CONFLICT
            creates = []
        marker = ProtocolMarker.path(group.group_id)
        history, rebalances = self._history(slot, group, record)
        sent = SentHeader(header, group.version, paths, bool(record.members), rebalances)
        removed = [Delete(path, -1) for path in group.chunk_paths if path not in paths]
        guard: Sequence[Operation] = ()
        if record.members:
            guard = [Check(marker, -1)] if group.is_marked else (yield from self._claim(group))
        elif group.is_marked:
            removed.append(Delete(marker, -1))
        operations = [slot.check, *guard, _set_header(group, sent), *creates, *removed, *history]
        outcome = yield from self._send(slot, group, sent, operations)
        if isinstance(outcome, MultiDone):
            return WriteOutcome.STORED
        refused = operations[outcome.index].path
        if operations[outcome.index] in history:  # another program has created or deleted it
            one = {RebalanceRecord.parse(refused.rpartition("/")[2]) or 0}
            known = set(group.rebalances)
            group.rebalances = sorted(known | one if outcome.code is Code.NODE_EXISTS else known - one)
            return None
        if refused == marker:  # another program has deleted or created it
            group.is_marked = not group.is_marked
            if not group.is_marked and record.members:
                self._core.context.note("group.unmarked", group=group.group_id)
            return None
        return self._refused_claim(group, refused, outcome.code)

    def _history(
        self, slot: LedSlot, group: StoredGroup, record: GroupRecord
    ) -> tuple[list[Operation], list[int]]:
        """The operations that add a rebalance to the history, and what the history then has.

        Without one where the generation has it already, and where it is too large for the transaction.
        """
        known, one = group.rebalances, record.rebalance
        if one is None or record.generation in known:
            return [], known
        data = replace(one, time_ms=self._core.wall_ms(one.time_ms)).encode()
        if len(data) > REBALANCE_BYTES_MAX:
            return [], known
        gone = known[: max(len(known) + 1 - REBALANCES_MAX, 0)][:REBALANCES_DELETED_MAX]
        path = partial(RebalanceRecord.path, slot.number, group.group_id)
        create, deletes = Create(path(record.generation), data), [Delete(path(each), -1) for each in gone]
        return [create, *deletes], [*known[len(gone) :], record.generation]

    def _refused_claim(self, group: StoredGroup, path: str, code: Code) -> WriteOutcome | None:
        """Returns the outcome of a claim that was refused at this path; None: the claim can be made again."""
        if path == ids_path(group.group_id) and code is Code.NOT_EMPTY:
            return WriteOutcome.ZOOKEEPER_MEMBERS
        if path in (ids_path(group.group_id), group_path(group.group_id)):
            return None
        return WriteOutcome.CONFLICT

    def _find_header(self, group: StoredGroup) -> Procedure[None]:
        """Reads the header that is not known: a commit without a reply may have created it, without data."""
        if group.version is None:
            ((found,),) = yield from read_many([group.path])
            group.version = None if found is None or found.data else found.stat.version

    def _store_chunks(
        self, slot: LedSlot, group: StoredGroup, creates: Sequence[Operation]
    ) -> Procedure[bool]:
        """Creates the chunks of a large group, before any header names them; False if one exists."""
        if group.version is None:
            made = yield from write([slot.check, Create(group.path, None)], {slot.path})
            if isinstance(made, MultiRefused):
                return False
            group.version = 0
        group.has_stray_chunks = True
        transactions = [[slot.check, create] for create in creates]
        outcomes = yield tuple(Query(Multi(tuple(each))) for each in transactions)
        require_answers(outcomes, transactions, {slot.path})
        return all(isinstance(outcome, MultiDone) for outcome in outcomes)

    def _list_chunks(self, group: StoredGroup) -> Procedure[None]:
        """Finds the chunks that exist; those of a write that is made again are removed with the former."""
        (outcome,) = yield from ask(Query(ListChildren(group.path)))
        names = [name for name in list_done(outcome).children if GroupChunk.parse(name)]
        group.chunk_paths = [f"{group.path}/{name}" for name in sorted(names)]
        group.has_stray_chunks = False

    def _send(
        self, slot: LedSlot, group: StoredGroup, sent: SentHeader, operations: Sequence[Operation]
    ) -> Procedure[MultiDone | MultiRefused]:
        """Sends the transaction of a header, which is noted before for the case that no reply comes."""
        group.sent = sent
        try:
            outcome = yield from write(operations, {slot.path})
        except ConnectionLossError as error:
            if error.certain:
                group.sent = None
            raise
        if isinstance(outcome, MultiDone):
            group.adopt(sent)
        group.sent = None
        return outcome

    def _reserve(
        self, slot: LedSlot, group: StoredGroup, change: ReserveGenerations
    ) -> Procedure[WriteOutcome]:
        for _ in range(TRIES):
            yield from self._find_header(group)
            header, is_anew = self._reserved_header(group, change)
            kept = [] if is_anew else group.chunk_paths
            is_marked = group.is_marked or change.marks
            sent = SentHeader(header, group.version, kept, is_marked, group.rebalances)
            removed = [Delete(path, -1) for path in group.chunk_paths if is_anew]
            claim = (yield from self._claim(group)) if change.marks else []
            operations = [slot.check, *claim, _set_header(group, sent), *removed]
            outcome = yield from self._send(slot, group, sent, operations)
            if isinstance(outcome, MultiDone):
                return WriteOutcome.STORED
            refused = self._refused_claim(group, operations[outcome.index].path, outcome.code)
            if refused is not None:
                return refused
        return WriteOutcome.CONFLICT

    def _reserved_header(self, group: StoredGroup, change: ReserveGenerations) -> tuple[GroupHeader, bool]:
        """The header with more generations, and whether it is the first of a group that starts anew."""
        if group.header is not None:
            return replace(group.header, reserved_generation=change.reserved_generation), False
        header = GroupHeader(
            generation=change.generation,
            reserved_generation=change.reserved_generation,
            protocol_type=None,
            protocol=None,
            leader=None,
            state_timestamp_ms=self._core.context.now.wall_ms,
        )
        return header, True

    def _claim(self, group: StoredGroup) -> Procedure[list[Operation]]:
        """The operations that set the marker, and are refused while ZooKeeper consumers are members."""
        parent, ids = group_path(group.group_id), ids_path(group.group_id)
        marker = ProtocolMarker(self._core.context.config.broker, self._core.context.now.wall_ms)
        create = Create(ProtocolMarker.path(group.group_id), marker.encode())
        ((above, members),) = yield from read_many([parent, ids])
        if above is None:
            return [Create(parent, None), Create(ids, None), create]
        if members is None:
            return [Create(ids, None), create]
        return [Delete(ids, -1), Create(ids, None), create]


def _set_header(group: StoredGroup, sent: SentHeader) -> Operation:
    if sent.version is None:
        return Create(group.path, sent.data)
    return SetData(group.path, sent.data, sent.version)
