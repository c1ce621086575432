"""Counts the slots, takes one and reads its groups: fence first, read after (ownership of slots: recipes 20).

    read `state` -> fence -> read the slot (watched), the groups, their chunks -> clean up -> SlotLoaded

Every read is after the fence and in its session: a write of the former coordinator is then either in what is
read, or refused. A missing reply begins at `state` again; a new fence does no harm.

A corrupt group starts anew, empty, at a generation that is not below any that its members may have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from zkgroup.broker.groups.led_slots import FrozenGroup, LedSlot, SlotPhase, StoreCore, StoredGroup
from zkgroup.broker.groups.store_events import SlotsCounted
from zkgroup.coordinator.events import SlotKept, SlotLoaded, SlotUnloaded
from zkgroup.coordinator.records import GroupRecord
from zkgroup.coordinator.settings import GENERATIONS_RESERVED
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
    GroupChunk,
    GroupHeader,
    ProtocolMarker,
    SlotConfig,
    SlotOwner,
    StoredMember,
    groups_path,
    members_of,
    slot_groups_path,
    slots_path,
)
from zkgroup.znodes.group_history import RebalanceRecord
from zkgroup.znodes.group_records import Freeze
from zkgroup.znodes.json_fields import INT32, is_integer, read_object, show
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
        markers = tuple(path(name) for path in (ProtocolMarker.path, Freeze.path) for name in names)
        headers, children, marked = yield from ask(
            Query(ReadMany(paths)), Query(ListMany(paths)), Query(ReadMany(markers))
        )
        assert isinstance(headers, ReadManyDone)
        assert isinstance(children, ListManyDone)
        assert isinstance(marked, ReadManyDone)
        found = []
        freezes = marked.znodes[len(names) :]
        for name, header, below, marker, freeze in zip(
            names, headers.znodes, children.children, marked.znodes[: len(names)], freezes, strict=True
        ):
            if isinstance(header, Code) or isinstance(below, Code):
                self._core.context.note("group.unreadable", path=GroupHeader.path(slot.number, name))
            elif header is not None:
                found.append(ReadGroup(name, header, below or (), marker is not None, freeze))
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
        slot.frozen.clear()
        for group, header, paths in zip(groups, headers, named, strict=True):
            record = record_of(group, header, paths, chunks, self._core.machine_ms)
            if group.freeze is not None and record.members:
                record = replace(record, is_frozen=True)
                self._freeze(slot, group.group_id, group.freeze)
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

    def _freeze(self, slot: LedSlot, group: str, marker: Znode | Code) -> None:
        """Keeps the freeze of a group; one that cannot be read stands until an operator deletes it."""
        if isinstance(marker, Code):
            detail, path = f"it may not be read: {marker.value}", Freeze.path(group)
            self._core.context.note("freeze.unreadable", group=group, path=path, detail=detail)
            return
        try:
            slot.frozen[group] = FrozenGroup(Freeze.decode(marker.path, marker.data), marker)
        except CorruptZnodeError as error:
            self._core.context.note("freeze.unreadable", group=group, path=error.path, detail=str(error))

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


class SlotCountReader:
    """Emits `SlotsCounted` once, as soon as the znode is there."""

    def __init__(self, core: StoreCore, on_counted: Callable[[], None]) -> None:
        self._core = core
        self._on_counted = on_counted

    def connected(self) -> None:
        """Reads the znode, and watches it while it does not exist."""
        if self._core.count is None:
            self._core.procedures.cancel("config")
            self._start()

    def _start(self) -> None:
        job = Job("read how many slots there are", self._read, self._ended, is_repeated=True)
        self._core.run("config", job)

    def _changed(self) -> None:
        if self._core.count is None and "config" not in self._core.procedures:
            self._start()

    def _read(self) -> Procedure[None]:
        (outcome,) = yield from ask(Query(Read(SlotConfig.path(), watch=True), Watch(self._changed)))
        znode = read_done(outcome)
        if znode is None:
            return
        try:
            self._core.count = SlotConfig.decode(znode.path, znode.data).slots
        except CorruptZnodeError as error:
            self._core.context.note("slots.unreadable", path=error.path, detail=str(error))
            return
        self._core.context.emit(SlotsCounted(self._core.count))

    def _ended(self, error: Exception | None) -> None:
        if error is not None:
            raise error
        if self._core.count is not None:
            self._on_counted()


@dataclass(slots=True)
class ReadGroup:
    """The znodes of one group, as they were read."""

    group_id: str
    header: Znode
    children: tuple[str, ...]
    has_marker: bool
    freeze: Znode | Code | None = None
    """The marker of a freeze; a code in place of one that an ACL hides."""
    corrupt: CorruptZnodeError | None = None
    """The reason why the group starts anew."""


def chunk_paths(slot: int, group: ReadGroup, header: GroupHeader | None) -> list[str]:
    """The chunks that a header names, in order."""
    if header is None:
        return []
    numbers = range(header.first_chunk, header.first_chunk + header.chunks)
    return [GroupChunk.path(slot, group.group_id, header.generation, number) for number in numbers]


def header_of(group: ReadGroup) -> GroupHeader | None:
    """The header; None if it has no data. One that cannot be read is noted in the group."""
    if not group.header.data:
        return None
    try:
        return GroupHeader.decode(group.header.path, group.header.data)
    except CorruptZnodeError as error:
        group.corrupt = error
        return None


def stored_group(
    group: ReadGroup, header: GroupHeader | None, named: list[str]
) -> tuple[StoredGroup, list[str]]:
    """The group as the store keeps it, and the paths of the chunks that no header names."""
    stored = StoredGroup(
        group.group_id,
        group.header.path,
        version=group.header.stat.version,
        header=header,
        is_marked=group.has_marker,
    )
    chunks = {f"{stored.path}/{name}": parts for name in group.children if (parts := GroupChunk.parse(name))}
    for generation, number in chunks.values():
        stored.chunk_numbers[generation] = max(stored.chunk_numbers.get(generation, 0), number + 1)
    rebalances = map(RebalanceRecord.parse, group.children)
    stored.rebalances = sorted(each for each in rebalances if each is not None)
    stored.chunk_paths = [each for each in named if each in chunks]
    if group.corrupt is not None:
        stored.chunk_paths = sorted(chunks)  # the evidence stays until the group is written again
        return stored, []
    return stored, sorted(chunks.keys() - set(named))


def record_of(
    group: ReadGroup,
    header: GroupHeader | None,
    named: Iterable[str],
    chunks: Mapping[str, Znode | Code | None],
    to_machine_ms: Callable[[int], int],
) -> GroupRecord:
    """The group for the coordinator. Notes in `group` why it starts anew."""
    if header is None:
        generation, reserved = _generations_of(group) if group.corrupt is not None else (0, 0)
        return _empty(group.group_id, generation, reserved)
    try:
        members = members_of(group.header.path, header, list(_decoded(named, chunks)))
    except CorruptZnodeError as error:
        group.corrupt = error
        return _empty(group.group_id, header.generation, header.reserved_generation)
    group.corrupt = _contradiction(group.header.path, header, members)
    if group.corrupt is not None:
        return _empty(group.group_id, header.generation, header.reserved_generation)
    return GroupRecord(
        group_id=group.group_id,
        generation=header.generation,
        reserved_generation=header.reserved_generation,
        protocol_type=header.protocol_type,
        protocol=header.protocol,
        leader=header.leader,
        state_timestamp_ms=to_machine_ms(header.state_timestamp_ms),
        members=members,
    )


def _contradiction(
    path: str, header: GroupHeader, members: Sequence[StoredMember]
) -> CorruptZnodeError | None:
    """Returns a contradiction of members to each other or the header, as no coordinator writes it."""
    if not members:
        return None
    if header.protocol_type is None:
        return CorruptZnodeError(path, "the protocol type of its members", "none")
    ids = [each.member_id for each in members]
    instances = [each.group_instance_id for each in members if each.group_instance_id is not None]
    if len(set(ids)) < len(ids) or len(set(instances)) < len(instances):
        return CorruptZnodeError(path, "members with different ids", show([*ids, *instances]))
    if not all(header.protocol in dict(each.protocols) for each in members):
        return CorruptZnodeError(path, "a protocol that all its members have", show(header.protocol))
    return None


def _decoded(named: Iterable[str], chunks: Mapping[str, Znode | Code | None]) -> Iterable[GroupChunk]:
    for path in named:
        found = chunks.get(path)
        if not isinstance(found, Znode):
            raise CorruptZnodeError(path, "a part of a group", "no znode" if found is None else found.value)
        yield GroupChunk.decode(path, found.data)


def _empty(group_id: str, generation: int, reserved: int) -> GroupRecord:
    return GroupRecord(
        group_id=group_id,
        generation=generation,
        reserved_generation=max(generation, reserved),
        protocol_type=None,
        protocol=None,
        leader=None,
        state_timestamp_ms=0,
        members=(),
    )


def _generations_of(group: ReadGroup) -> tuple[int, int]:
    """Generation and reserved generation of an unreadable header: as far as it, or its chunks, say.

    Where the reserved generation is missing, it is taken to be as high as it can be for the generation.
    """
    chunks = [parts[0] for name in group.children if (parts := GroupChunk.parse(name))]
    try:
        fields = read_object(group.header.path, group.header.data, "a group")
    except CorruptZnodeError:
        fields = {}
    generation = max([0, *chunks, *_numbers(fields.get("generation"))])
    reserved = [*_numbers(fields.get("reserved")), generation]
    return generation, max(reserved) if len(reserved) > 1 else generation + 2 * GENERATIONS_RESERVED


def _numbers(value: object) -> list[int]:
    """The value as a list, if it is a generation."""
    return [value] if isinstance(value, int) and is_integer(value, range(INT32[-1] + 1)) else []
