"""Stores of groups on a ZooKeeper in memory, run step by step; the test plays controller and coordinator."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TypeVar

from tests.worlds.stepped_machines import SteppedMachines
from zkgroup.broker.groups.store import GroupStore
from zkgroup.broker.groups.store_events import (
    Effect,
    GroupStoreConfig,
    OffsetsRead,
    SlotLed,
    SlotResigned,
    StoreEvent,
)
from zkgroup.coordinator.effects import DeleteGroup, ReadOffsets, ReserveGenerations, WriteGroup, WriteOffsets
from zkgroup.coordinator.events import GroupWritten, OffsetsWritten, SlotLoaded, WriteOutcome
from zkgroup.coordinator.records import GroupRecord
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Request
from zkgroup.runtime.events import LogEvent
from zkgroup.runtime.loop import MachineLoop
from zkgroup.testing.memory_zookeeper import Fault, ServerStep
from zkgroup.testing.memory_zookeeper.client import MemoryClient
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.consumers import consumers_path, ids_path, offset_path
from zkgroup.znodes.coordinated_groups import (
    OFFSETS_TOPIC,
    GroupHeader,
    OffsetAndMetadata,
    ProtocolMarker,
    SlotConfig,
    SlotOwner,
    StoredMember,
)

GROUP = "payments"
P0 = TopicPartition("t", 0)
EffectT = TypeVar("EffectT", bound="Effect | LogEvent")


class StoreNode:
    """The store of one broker in its loop, without a thread."""

    def __init__(self, world: SteppedStores, broker: int, **config: object) -> None:
        self.broker = broker
        self.machine = GroupStore(GroupStoreConfig(broker=broker, **config), lambda: 0.5)  # type: ignore[arg-type]
        self.effects: list[Effect | LogEvent] = []
        self.client: MemoryClient = world.server.client(f"n{broker}")
        self.loop: MachineLoop[StoreEvent, Effect | LogEvent] = world.looped(
            self.machine, self.client, self.perform, f"n{broker}"
        )

    def perform(self, effect: Effect | LogEvent) -> None:
        self.effects.append(effect)

    def emitted(self, kind: type[EffectT]) -> list[EffectT]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def notes(self, kind: str) -> list[LogEvent]:
        return [note for note in self.emitted(LogEvent) if note.kind == kind]

    def outcome(self, write_id: int) -> WriteOutcome | None:
        """The outcome of a write of a group; None while there is none."""
        found = [each.outcome for each in self.emitted(GroupWritten) if each.write_id == write_id]
        assert len(found) <= 1, found
        return found[0] if found else None

    def commit_outcomes(self, write_id: int) -> Mapping[TopicPartition, WriteOutcome] | None:
        found = [
            each.outcomes[write_id] for each in self.emitted(OffsetsWritten) if write_id in each.outcomes
        ]
        assert len(found) <= 1, found
        return found[0] if found else None

    @property
    def slot_events(self) -> list[str]:
        """What the coordinator was told about slots."""
        return [type(each).__name__ for each in self.effects if type(each).__name__.startswith("Slot")]

    @property
    def loaded(self) -> dict[str, GroupRecord]:
        """The groups of the last load."""
        return {record.group_id: record for record in self.emitted(SlotLoaded)[-1].groups}


class SteppedStores(SteppedMachines[StoreNode]):
    """A server, a clock and stores, with `slots` slots, and the topic of `P0`."""

    def __init__(self, slots: int | None = 1) -> None:
        super().__init__()
        self._ids = itertools.count(1)
        self._epochs: dict[int, int] = {}
        self.server.put(consumers_path())
        self.server.put(Topic.path(P0.topic), b"")
        if slots is not None:
            self.server.put(SlotConfig.path(), SlotConfig(slots).encode())

    def node(self, broker: int = 1, **config: object) -> StoreNode:
        node = StoreNode(self, broker, **config)
        self.nodes.append(node)
        return node

    def elect(self, broker: int, slot: int = 0, epoch: int | None = None) -> int:
        """Writes that a broker leads a slot; returns the leader epoch."""
        epoch = self._epochs.get(slot, -1) + 1 if epoch is None else epoch
        self._epochs[slot] = epoch
        path = PartitionState.path(TopicPartition(OFFSETS_TOPIC, slot))
        self.server.put(path, PartitionState(broker, epoch, (broker,), 1).encode())
        return epoch

    def lead(self, node: StoreNode, slot: int = 0) -> int:
        """Makes a broker leader of a slot, as the controller does; returns the leader epoch."""
        epoch = self.elect(node.broker, slot)
        node.loop.post(SlotLed(slot, epoch))
        return epoch

    def move(self, to: StoreNode, slot: int = 0) -> None:
        """Makes another broker leader of a slot, and tells all."""
        epoch = self.lead(to, slot)
        for node in self.nodes:
            if node is not to:
                node.loop.post(SlotResigned(slot, epoch))

    def claim(self, node: StoreNode, group: str = GROUP, *, reserved: int = 100, marks: bool = True) -> int:
        write_id = next(self._ids)
        node.loop.post(
            ReserveGenerations(
                write_id=write_id, group_id=group, generation=0, reserved_generation=reserved, marks=marks
            )
        )
        return write_id

    def store(self, node: StoreNode, record: GroupRecord) -> int:
        write_id = next(self._ids)
        node.loop.post(WriteGroup(write_id, record))
        return write_id

    def delete(self, node: StoreNode, group: str = GROUP, *, keeps_offsets: bool = False) -> int:
        write_id = next(self._ids)
        node.loop.post(DeleteGroup(write_id, group, keeps_offsets))
        return write_id

    def commit(
        self,
        node: StoreNode,
        offsets: Mapping[TopicPartition, int] | None = None,
        group: str = GROUP,
        *,
        is_member: bool = True,
        **fields: object,
    ) -> int:
        write_id = next(self._ids)
        node.loop.post(
            WriteOffsets(
                write_id=write_id,
                group_id=group,
                offsets={
                    each: OffsetAndMetadata(offset=offset, **fields)  # type: ignore[arg-type]
                    for each, offset in (offsets or {P0: 1}).items()
                },
                refuse_zookeeper_members=not is_member,
            )
        )
        return write_id

    def fetch(
        self, node: StoreNode, partitions: Sequence[TopicPartition] | None = (P0,), group: str = GROUP
    ) -> OffsetsRead:
        """The offsets that a node reads."""
        request_id = next(self._ids)
        node.loop.post(
            ReadOffsets(
                request_id=request_id,
                group_id=group,
                partitions=None if partitions is None else tuple(partitions),
                unstable=frozenset(),
            )
        )
        self.run()
        (found,) = [each for each in node.emitted(OffsetsRead) if each.request_id == request_id]
        return found

    def stable(self, node: StoreNode, group: str = GROUP, generation: int = 1) -> None:
        """A group with one member is stored."""
        claimed = self.claim(node, group)
        stored = self.store(node, record(group, generation=generation))
        self.run()
        assert node.outcome(claimed) is node.outcome(stored) is WriteOutcome.STORED

    def until_asks(self, node: StoreNode, kind: type[Request], path: str = "") -> None:
        """Runs until the server is about to execute a request of this kind about this path."""

        def asks() -> bool:
            request = node.client.requests[0].request if node.client.requests else None
            return isinstance(request, kind) and path in repr(request)

        self.run(asks)
        assert asks(), f"{node.client.name} never asked for {kind.__name__} of {path}"

    def lose(self, node: StoreNode, fault: Fault) -> None:
        """Sets the fault for the node's next request."""
        self.deliver(ServerStep("request", node.client.name), fault)

    def zookeeper_member(self, group: str = GROUP, name: str = "c1") -> None:
        """A ZooKeeper consumer that does not know the marker."""
        self.server.put(f"{ids_path(group)}/{name}", b"{}")

    def header(self, group: str = GROUP, slot: int = 0) -> GroupHeader:
        path = GroupHeader.path(slot, group)
        return GroupHeader.decode(path, self.find(path).data)

    def chunks(self, group: str = GROUP) -> list[str]:
        """The names of a group's chunks."""
        parent = GroupHeader.path(0, group) + "/rec-"
        return sorted(path.rsplit("/", 1)[1] for path in self.server.tree() if path.startswith(parent))

    def has_marker(self, group: str = GROUP) -> bool:
        return self.server.find(ProtocolMarker.path(group)) is not None

    def offset(self, partition: TopicPartition = P0, group: str = GROUP) -> bytes | None:
        """The data of an offset znode; None if there is none."""
        znode = self.server.find(offset_path(group, partition))
        return None if znode is None else znode.data

    def owner(self, slot: int = 0) -> SlotOwner:
        return SlotOwner.decode(SlotOwner.path(slot), self.find(SlotOwner.path(slot)).data)


def member(name: str = "m1", assignment: bytes = b"a", metadata: bytes = b"r") -> StoredMember:
    return StoredMember(
        member_id=name,
        group_instance_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocols=(("range", metadata),),
        assignment=assignment,
    )


def record(
    group: str = GROUP,
    *,
    generation: int = 1,
    reserved: int = 100,
    members: Sequence[StoredMember] = (member(),),
    timestamp_ms: int = 0,
) -> GroupRecord:
    """A group as the coordinator stores it."""
    return GroupRecord(
        group_id=group,
        generation=generation,
        reserved_generation=reserved,
        protocol_type="consumer",
        protocol="range" if members else None,
        leader=members[0].member_id if members else None,
        state_timestamp_ms=timestamp_ms,
        members=tuple(members),
    )


def led(slots: int = 1, **config: object) -> tuple[SteppedStores, StoreNode]:
    """A world with one broker that has loaded slot 0."""
    world = SteppedStores(slots)
    node = world.node(1, **config)
    world.lead(node)
    world.run()
    return world, node
