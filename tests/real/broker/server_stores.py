"""Stores of groups on a real server, each with a session and a thread; the test plays controller."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TypeVar

from tests.waiting import PATIENCE_S, eventually
from tests.worlds.stepped_stores import GROUP, P0, record
from zkgroup.broker.groups.store import GroupStore
from zkgroup.broker.groups.store_events import Effect, GroupStoreConfig, SlotLed, StoreEvent
from zkgroup.coordinator.effects import ReserveGenerations, WriteGroup, WriteOffsets
from zkgroup.coordinator.events import GroupWritten, OffsetsWritten, SlotLoaded, WriteOutcome
from zkgroup.coordinator.records import GroupRecord
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, SetData
from zkgroup.runtime.events import LogEvent
from zkgroup.runtime.loop import MachineLoop
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.consumers import consumers_path
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, OffsetAndMetadata, SlotConfig
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.client import SystemClock

EffectT = TypeVar("EffectT", bound="Effect | LogEvent")
SESSION_MS = 40_000
"""No pause of a busy machine ends a session."""


class AheadClock(SystemClock):
    """The system's clock, ahead by what the test has added."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class ServerStore:
    """The store of one broker."""

    def __init__(self, address: str, broker: int) -> None:
        self.broker = broker
        self.effects: list[Effect | LogEvent] = []
        self.crashed: list[BaseException] = []
        self._ids = itertools.count(1)
        self._clock = AheadClock()
        self.client = ZooKeeperClient(address, ClientSettings(session_timeout_ms=SESSION_MS))
        machine = GroupStore(GroupStoreConfig(broker=broker), lambda: 0.5)
        self.loop: MachineLoop[StoreEvent, Effect | LogEvent] = MachineLoop(
            machine,
            self.client,
            self._clock,
            perform=self.effects.append,
            after_step=lambda: None,
            on_crash=self.crashed.append,
            name=f"store-{broker}",
        )
        self.loop.listen()
        self.loop.start()

    def close(self) -> None:
        self.loop.post(self.loop.stop)
        assert self.loop.join(PATIENCE_S)
        self.client.close()
        assert self.crashed == []

    def advance(self, ms: int) -> None:
        """The store's clock is so much later from now on."""
        self._clock.ahead_ms += ms
        self.loop.post(lambda: None)

    def emitted(self, kind: type[EffectT]) -> list[EffectT]:
        return [effect for effect in list(self.effects) if isinstance(effect, kind)]

    def next(self, kind: type[EffectT], count: int = 1) -> EffectT:
        """The effect of this kind with this number, as soon as it is there."""
        return eventually(lambda: self.emitted(kind)[count - 1 : count], what=f"{kind.__name__} {count}")[0]

    def lead(self, epoch: int) -> SlotLoaded:
        """Tells the store that it leads slot 0; what it has loaded."""
        before = len(self.emitted(SlotLoaded))
        self.loop.post(SlotLed(0, epoch))
        return self.next(SlotLoaded, before + 1)

    def claim(self, group: str = GROUP) -> WriteOutcome:
        """The first generations of a group, with the marker."""
        write_id = next(self._ids)
        self.loop.post(
            ReserveGenerations(
                write_id=write_id, group_id=group, generation=0, reserved_generation=100, marks=True
            )
        )
        return self.outcome(write_id)

    def store(self, stored: GroupRecord) -> WriteOutcome:
        write_id = next(self._ids)
        self.loop.post(WriteGroup(write_id, stored))
        return self.outcome(write_id)

    def stable(self, group: str = GROUP) -> None:
        """A group with one member is stored."""
        assert (self.claim(group), self.store(record(group))) == (WriteOutcome.STORED, WriteOutcome.STORED)

    def outcome(self, write_id: int) -> WriteOutcome:
        found = eventually(
            lambda: [each.outcome for each in self.emitted(GroupWritten) if each.write_id == write_id],
            what=f"the outcome of write {write_id}",
        )
        assert len(found) == 1
        return found[0]

    def begin_commit(self, offset: int, partition: TopicPartition = P0, group: str = GROUP) -> int:
        write_id = next(self._ids)
        self.loop.post(
            WriteOffsets(
                write_id=write_id,
                group_id=group,
                offsets={partition: OffsetAndMetadata(offset=offset)},
                refuse_zookeeper_members=False,
            )
        )
        return write_id

    def commit_outcomes(self, write_id: int) -> Mapping[TopicPartition, WriteOutcome]:
        found = eventually(
            lambda: [
                each.outcomes[write_id] for each in self.emitted(OffsetsWritten) if write_id in each.outcomes
            ],
            what=f"the outcome of commit {write_id}",
        )
        assert len(found) == 1
        return found[0]

    def commit(self, offset: int, partition: TopicPartition = P0, group: str = GROUP) -> WriteOutcome:
        return self.commit_outcomes(self.begin_commit(offset, partition, group))[partition]


class ServerStores:
    """One slot on a server, and the stores of some brokers."""

    def __init__(self, address: str, zk: Blocking, *, through: str | None = None) -> None:
        """through: the address for the stores, where it is another than that of `zk`."""
        self.zk = zk
        self._address = through or address
        self._epoch = -1
        self._stack = ExitStack()
        for path in ("/brokers", "/brokers/topics", f"/brokers/topics/{OFFSETS_TOPIC}"):
            zk.create_missing(path)
        self._state = PartitionState.path(TopicPartition(OFFSETS_TOPIC, 0))
        zk.create_missing(
            Topic.partitions_path(OFFSETS_TOPIC), self._state.rpartition("/")[0], consumers_path()
        )
        zk.create_missing("/zkgroup")
        zk.multi(Create(SlotConfig.path(), SlotConfig(1).encode()), Create(self._state, None))

    def node(self, broker: int) -> ServerStore:
        made = ServerStore(self._address, broker)
        self._stack.callback(made.close)
        return made

    def elect(self, broker: int) -> int:
        """Writes that a broker leads the slot; the leader epoch."""
        self._epoch += 1
        state = PartitionState(broker, self._epoch, (broker,), 1)
        self.zk.multi(SetData(self._state, state.encode(), -1))
        return self._epoch

    def lead(self, node: ServerStore) -> SlotLoaded:
        """Makes a broker leader of the slot, as the controller does; what it has loaded."""
        return node.lead(self.elect(node.broker))

    def close(self) -> None:
        self._stack.close()
