"""Takes a slot and reads its groups: fence first, read after (ownership of slots: recipes 20).

    read `state` -> fence -> read the slot (watched), the groups, their chunks -> clean up -> SlotLoaded

Every read is after the fence and in its session: a write of the former coordinator is then either in what is
read, or refused. A missing reply begins at `state` again; a new fence does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from zkgroup.broker.groups.group_reading import ReadGroup, chunk_paths, header_of, record_of, stored_group
from zkgroup.broker.groups.led_slots import LedSlot, SlotPhase, StoreCore, StoredGroup
from zkgroup.coordinator.events import SlotKept, SlotLoaded, SlotUnloaded
from zkgroup.coordinator.records import GroupRecord
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import (
    Check,
    Code,
    CreateMissing,
    Delete,
    ListChildren,
    ListMany,
    ListManyDone,
    Multi,
    MultiDone,
    Operation,
    Read,
    ReadMany,
    ReadManyDone,
    SetData,
    Sync,
)
from zkgroup.runtime.events import Watch
from zkgroup.runtime.machine import Job
from zkgroup.runtime.procedures import (
    GuardRefusedError,
    Procedure,
    Query,
    ask,
    ask_allowed,
    list_done,
    read_done,
    require_answers,
    write,
)
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.consumers import consumers_path
from zkgroup.znodes.coordinated_groups import (
    OFFSETS_TOPIC,
    GroupHeader,
    ProtocolMarker,
    SlotOwner,
    groups_path,
    slot_groups_path,
    slots_path,
)
from zkgroup.znodes.paths import zkgroup_path

CHUNKS_AT_ONCE = 32
"""Chunks of one read; a chunk has up to 512 KiB."""
WRITES_AT_ONCE = 500
"""Most transactions that are sent together."""


class SlotLoader:
    """Loads slots, each as a job of its own, and finds out whether one that is loaded is still owned."""

    def __init__(self, core: StoreCore, on_loaded: Callable[[LedSlot], None]) -> None:
        """on_loaded: called when a slot was loaded, after `SlotLoaded`."""
        self._core = core
        self._on_loaded = on_loaded

    def load(self, slot: LedSlot) -> None:
        """Starts to load a slot, instead of whatever is done with it."""
        self._core.procedures.cancel(("slot", slot.number))
        job = Job("load a slot", partial(self._load, slot), partial(self._ended, slot), is_repeated=True)
        self._core.run(("slot", slot.number), job)

    def keep(self, slot: LedSlot) -> None:
        """Starts to find out whether a loaded slot still has its version: epoch or connection is new."""
        job = Job("keep a slot", partial(self._keep, slot), partial(self._ended, slot), is_repeated=True)
        self._core.procedures.cancel(("slot", slot.number))
        self._core.run(("slot", slot.number), job)

    def _ended(self, slot: LedSlot, error: Exception | None) -> None:
        if isinstance(error, GuardRefusedError):
            self._core.lost(slot, "set by another client")
        elif error is not None:
            raise error

    def _load(self, slot: LedSlot) -> Procedure[None]:
        context, started_ms = self._core.context, self._core.context.now.ms
        self._core.announce(slot)
        if not (yield from self._fence(slot)):
            slot.phase = SlotPhase.NOT_LED
            context.emit(SlotUnloaded(slot.number))
            context.note("slot.not_led", slot=slot.number, leader_epoch=slot.epoch)
            return
        groups = yield from self._read(slot)
        records = yield from self._take(slot, groups)
        slot.phase = SlotPhase.OWNED
        context.emit(SlotLoaded(slot.number, slot.epoch, tuple(records)))
        context.note(
            "slot.loaded",
            slot=slot.number,
            leader_epoch=slot.epoch,
            groups=len(records),
            ms=context.now.ms - started_ms,
        )
        self._on_loaded(slot)

    def _fence(self, slot: LedSlot) -> Procedure[bool]:
        """Sets the slot under a check of the partition's state; False if it names another leader."""
        path = PartitionState.path(TopicPartition(OFFSETS_TOPIC, slot.number))
        while True:
            state, owner = yield from self._read_state(path, slot)
            if state is None or not self._leads(state):
                return False
            if owner is None:
                yield from ask(Query(CreateMissing((zkgroup_path(), slots_path(), slot.path))))
                continue
            data = SlotOwner(self._core.context.config.broker, slot.epoch).encode()
            fence = Check(path, state.stat.version), SetData(slot.path, data, owner.stat.version)
            outcome = yield from write(fence, ())
            if isinstance(outcome, MultiDone):
                assert outcome.stats[1] is not None
                slot.version = outcome.stats[1].version
                return True

    def _read_state(self, path: str, slot: LedSlot) -> Procedure[tuple[Znode | None, Znode | None]]:
        _, outcome = yield from ask(Query(Sync(path)), Query(ReadMany((path, slot.path))))
        assert isinstance(outcome, ReadManyDone), outcome
        state, owner = outcome.znodes
        return _znode(state), _znode(owner)

    def _leads(self, state: Znode) -> bool:
        try:
            found = PartitionState.decode(state.path, state.data)
        except CorruptZnodeError as error:
            self._core.context.note("slot.unreadable", path=error.path, detail=str(error))
            return False
        return found.leader == self._core.context.config.broker

    def _watch(self, slot: LedSlot) -> Query:
        """A read of the slot that watches it."""
        return Query(
            Read(slot.path, watch=True), Watch(lambda: self._core.lost(slot, "set by another client"))
        )

    def _keep(self, slot: LedSlot) -> Procedure[None]:
        _, outcome = yield from ask(Query(Sync(slot.path)), self._watch(slot))
        _require_version(slot, read_done(outcome))
        self._core.context.emit(SlotKept(slot.number, slot.epoch))

    def _read(self, slot: LedSlot) -> Procedure[list[ReadGroup]]:
        """The headers of all groups, with the names of their children."""
        parent = slot_groups_path(slot.number)
        owner, listed = yield from ask(self._watch(slot), Query(ListChildren(parent)))
        _require_version(slot, read_done(owner))
        if list_done(listed).stat is None:
            parents = (zkgroup_path(), groups_path(), parent, consumers_path())
            yield from ask(Query(CreateMissing(parents)))
        names = list_done(listed).children
        if not names:
            return []
        paths = tuple(GroupHeader.path(slot.number, name) for name in names)
        markers = tuple(ProtocolMarker.path(name) for name in names)
        headers, children, marked = yield from ask(
            Query(ReadMany(paths)), Query(ListMany(paths)), Query(ReadMany(markers))
        )
        assert isinstance(headers, ReadManyDone)
        assert isinstance(children, ListManyDone)
        assert isinstance(marked, ReadManyDone)
        found = []
        for name, header, below, marker in zip(
            names, headers.znodes, children.children, marked.znodes, strict=True
        ):
            if isinstance(header, Code) or isinstance(below, Code):
                self._core.context.note("group.unreadable", path=GroupHeader.path(slot.number, name))
            elif header is not None:
                found.append(ReadGroup(name, header, below or (), marker is not None))
        return found

    def _take(self, slot: LedSlot, groups: Sequence[ReadGroup]) -> Procedure[list[GroupRecord]]:
        """Reads the chunks, makes records of the groups, and removes what should not be there."""
        headers = [header_of(group) for group in groups]
        named = [
            chunk_paths(slot.number, group, header) for group, header in zip(groups, headers, strict=True)
        ]
        chunks = yield from self._read_chunks([path for paths in named for path in paths])
        records, clean_up = [], []
        slot.groups.clear()
        for group, header, paths in zip(groups, headers, named, strict=True):
            record = record_of(group, header, paths, chunks, self._core.machine_ms)
            stored, orphans = stored_group(group, header, paths)
            if group.corrupt is not None:
                error = group.corrupt
                self._core.context.note(
                    "group.corrupt", group=group.group_id, path=error.path, detail=str(error)
                )
            slot.groups[group.group_id] = stored
            records.append(record)
            clean_up += list(self._clean_up(slot, stored, record, orphans))
        yield from self._write_all(slot, clean_up)
        return records

    def _read_chunks(self, paths: Sequence[str]) -> Procedure[dict[str, Znode | Code | None]]:
        """Chunks by path, in several reads at once."""
        batches = [tuple(paths[start : start + CHUNKS_AT_ONCE]) for start in _starts(paths)]
        if not batches:
            return {}
        outcomes = yield from ask_allowed(*(Query(ReadMany(batch)) for batch in batches))
        found: dict[str, Znode | Code | None] = {}
        for batch, outcome in zip(batches, outcomes, strict=True):
            assert isinstance(outcome, ReadManyDone), outcome
            found.update(zip(batch, outcome.znodes, strict=True))
        return found

    def _clean_up(
        self, slot: LedSlot, group: StoredGroup, record: GroupRecord, orphans: Iterable[str]
    ) -> Iterator[list[Operation]]:
        """Transactions: a group without members loses its marker; chunks that no header names go."""
        if group.is_marked and not record.members:
            assert group.version is not None
            header = Check(group.path, group.version)
            yield [slot.check, header, Delete(ProtocolMarker.path(group.group_id), -1)]
            group.is_marked = False
        elif record.members and not group.is_marked:
            self._core.context.note("group.unmarked", group=group.group_id)
        for path in orphans:
            yield [slot.check, Delete(path, -1)]

    def _write_all(self, slot: LedSlot, transactions: Sequence[list[Operation]]) -> Procedure[None]:
        """Sends all at once. What is refused stays, unless the slot is another's."""
        for start in range(0, len(transactions), WRITES_AT_ONCE):
            batch = transactions[start : start + WRITES_AT_ONCE]
            outcomes = yield tuple(Query(Multi(tuple(operations))) for operations in batch)
            require_answers(outcomes, batch, {slot.path})


def _starts(paths: Sequence[str]) -> range:
    return range(0, len(paths), CHUNKS_AT_ONCE)


def _require_version(slot: LedSlot, owner: Znode | None) -> None:
    if owner is None or owner.stat.version != slot.version:
        raise GuardRefusedError(slot.path)


def _znode(found: Znode | Code | None) -> Znode | None:
    return found if isinstance(found, Znode) else None
