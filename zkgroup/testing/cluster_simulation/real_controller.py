"""The controller inside a broker of Kafka 0.8.2.2, as far as it meets ours. Source: controller.md 2, 3, 5.

Written as Kafka is: one thread (`real_thread`) that reads and writes step by step. It creates `/controller`
first and raises the epoch two steps later; it has no fence of its own; its queue of events is drained one
event at a time, and a change of `/controller` to another's does not make it resign (K1). It deletes
`/controller`, whoever owns it, when its failover throws (K2).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from zkgroup.controller.machine.requests import ControlRequest
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.ports import Store
from zkgroup.model.requests import Code, Create, Delete, MultiDone, MultiRefused, SetData
from zkgroup.testing.cluster_simulation.network import Line
from zkgroup.testing.cluster_simulation.real_channels import RealChannels
from zkgroup.testing.cluster_simulation.real_decisions import (
    Cluster,
    first_state,
    led_anew,
    metadata_of,
    orders_of,
    without,
)
from zkgroup.testing.cluster_simulation.real_thread import (
    Calls,
    MovedError,
    RealThread,
    children,
    read,
    write,
)
from zkgroup.testing.memory_zookeeper_client import MemoryClient
from zkgroup.wire.messages import Response
from zkgroup.znodes.brokers import PartitionState, Topic, broker_ids_path, topics_path
from zkgroup.znodes.controller import Controller, ControllerEpoch

if TYPE_CHECKING:
    from zkgroup.testing.cluster_simulation.world import World

ANY: Final = -1


class RealController:
    """One candidate of Kafka, on the session of its broker."""

    is_alone = False

    def __init__(self, world: World, broker: int, name: str, store: Store, client: MemoryClient) -> None:
        self.broker, self.name, self.client = broker, name, client
        self.is_active = False
        self.epoch = 0
        self.epochs: list[int] = []
        self.stands = True
        self.cluster = Cluster()
        self._world = world
        self._thread = RealThread(store, self._begin)
        self._channels = RealChannels(world.network, self)

    @property
    def rules(self) -> bool:
        return self.is_active

    def is_writing(self, path: str) -> bool:
        """Whether its next call, not made yet, changes this znode."""
        return self._thread.is_writing(path)

    def stop(self) -> None:
        """The process is gone."""
        self._thread.stop()
        self.stands = False
        self._channels.close_all()

    def retire(self) -> None:
        """Stands for election no more. A real broker cannot be asked to: its process is stopped."""
        self.stands = False

    # --- events ---------------------------------------------------------------------------------------

    def choices(self) -> list[Callable[[], object]]:
        """What it can do now: make its call (again), or take the next event."""
        return self._thread.choices() if self.stands or self.is_active else []

    def act(self) -> bool:
        """Does one thing, if there is one."""
        found = self.choices()
        if found:
            found[0]()
        return bool(found)

    def _begin(self, event: str) -> Calls | None:
        match event:
            case "elect" | "reconnected":
                return self._look() if event == "elect" or not self.is_active else self._rearm()
            case "expired":
                self._resign()
                return self._look()
            case "controller":
                return self._controller_changed()
            case _:
                return self._changed(event) if self.is_active else None

    # --- election -------------------------------------------------------------------------------------

    def _look(self) -> Calls:
        """Elects where nobody holds `/controller`; else waits for its watch."""
        found = yield from read(Controller.path(), watch=True)
        if found is None and self.stands:
            yield from self._elect()

    def _controller_changed(self) -> Calls:
        found = yield from read(Controller.path(), watch=True)
        if found is None:
            self._resign()
            if self.stands:
                yield from self._elect()
        # else: another's, or still its own. It remembers the id and rules on (K1).

    def _elect(self) -> Calls:
        data = Controller(self.broker, self._world.clock.wall_ms()).encode()
        made = yield from write(Create(Controller.path(), data, ephemeral=True))
        if isinstance(made, MultiRefused):
            found = yield from read(Controller.path(), watch=True)
            if found is None or found.data != data:
                return  # somebody else's; the lost reply of an own create is known by its text
        try:
            yield from self._fail_over()
        except MovedError:
            self._resign()
            yield from write(Delete(Controller.path(), ANY))  # whoever owns it (K2)

    def _fail_over(self) -> Calls:
        found = yield from read(ControllerEpoch.path())
        if found is None:
            self.epoch = 1
            answer = yield from write(Create(ControllerEpoch.path(), ControllerEpoch(1).encode()))
        else:
            self.epoch = ControllerEpoch.decode(found.path, found.data).epoch + 1
            data = ControllerEpoch(self.epoch).encode()
            answer = yield from write(SetData(ControllerEpoch.path(), data, found.stat.version))
        if isinstance(answer, MultiRefused):
            raise MovedError
        self.is_active = True
        self.epochs.append(self.epoch)
        self.cluster = Cluster()
        yield from self._load()

    def _rearm(self) -> Calls:
        """The client arms its watches anew and fires what has changed meanwhile."""
        yield from read(Controller.path(), watch=True)
        self._thread.events.extend(("brokers", "topics"))

    def _resign(self) -> None:
        self.is_active = False
        self._channels.close_all()

    # --- ruling ---------------------------------------------------------------------------------------

    def _load(self) -> Calls:
        yield from self._read_brokers()
        yield from self._read_topics()
        for tp in self.cluster.partitions():
            yield from self._read_state(tp)
        every = list(self.cluster.partitions())
        self.tell(every, self.cluster.live)
        yield from self._elect_leaderless()
        self._send_all(metadata_of(self.cluster, self.broker, self.epoch, every))

    def _changed(self, event: str) -> Calls:
        if event == "brokers":
            yield from self._brokers_changed()
        elif event == "topics":
            before = set(self.cluster.partitions())
            yield from self._read_topics()
            for tp in sorted(set(self.cluster.partitions()) - before):
                yield from self._create_state(tp)

    def _brokers_changed(self) -> Calls:
        before = dict(self.cluster.live)
        yield from self._read_brokers()
        live = self.cluster.live
        dead, new = before.keys() - live.keys(), live.keys() - before.keys()
        yield from self._elect_leaderless()
        for tp, state in sorted(self.cluster.states.items()):
            for broker in sorted(dead & set(state.isr)):
                yield from self._change(tp, partial(without, broker=broker, epoch=self.epoch))
        every = list(self.cluster.partitions())
        if new:
            self.tell([tp for tp in every if new & set(self.cluster.replicas(tp))], new)
            for tp in every:
                if tp not in self.cluster.states:
                    yield from self._create_state(tp)
        self._send_all(metadata_of(self.cluster, self.broker, self.epoch, every))

    def _elect_leaderless(self) -> Calls:
        for tp in list(self.cluster.partitions()):
            state = self.cluster.states.get(tp)
            if state is None:
                yield from self._create_state(tp)
            elif state.leader not in self.cluster.live:
                decide = partial(
                    led_anew, replicas=self.cluster.replicas(tp), live=self.cluster.live, epoch=self.epoch
                )
                yield from self._change(tp, decide)

    def _change(self, tp: TopicPartition, decide: Callable[[PartitionState], PartitionState | None]) -> Calls:
        """Reads, refuses what a newer controller has decided (fence F3), decides, writes at that version."""
        path = PartitionState.path(tp)
        while True:
            found = yield from self._read_state(tp)
            state = self.cluster.states.get(tp)
            if found is None or state is None or state.controller_epoch > self.epoch:
                return
            wanted = decide(state)
            if wanted is None:
                return
            answer = yield from write(SetData(path, wanted.encode(), found.stat.version))
            if isinstance(answer, MultiDone):
                self.cluster.states[tp] = wanted
                self.cluster.versions[tp] = found.stat.version + 1
                self.tell([tp], self.cluster.live)
                return
            if answer.code is not Code.BAD_VERSION:
                return

    def _create_state(self, tp: TopicPartition) -> Calls:
        state = first_state(self.cluster.replicas(tp), self.cluster.live, self.epoch)
        if state is None:
            return
        for parent in (Topic.partitions_path(tp.topic), Topic.partition_path(tp)):
            yield from write(Create(parent, None))
        answer = yield from write(Create(PartitionState.path(tp), state.encode()))
        if isinstance(answer, MultiDone):
            self.cluster.states[tp], self.cluster.versions[tp] = state, 0
            self.tell([tp], self.cluster.live)

    # --- reading and writing --------------------------------------------------------------------------

    def _read_brokers(self) -> Calls:
        live = {}
        for name in (yield from children(broker_ids_path())):
            found = yield from read(f"{broker_ids_path()}/{name}")
            if found is not None and name.isdigit():
                live[int(name)] = found.stat.czxid
        self.cluster.live = live
        self._channels.follow(live)

    def _read_topics(self) -> Calls:
        lists: dict[str, dict[int, tuple[int, ...]]] = {}
        for name in (yield from children(topics_path())):
            found = yield from read(Topic.path(name), watch=True)
            if found is not None:
                try:
                    lists[name] = dict(Topic.decode(found.path, found.data).partitions)
                except CorruptZnodeError:
                    continue
        self.cluster.topics = lists

    def _read_state(self, tp: TopicPartition) -> Calls:
        found: Znode | None = yield from read(PartitionState.path(tp))
        if found is not None:
            try:
                self.cluster.states[tp] = PartitionState.decode(found.path, found.data)
            except CorruptZnodeError as error:
                raise MovedError from error
            self.cluster.versions[tp] = found.stat.version
        return found

    # --- telling --------------------------------------------------------------------------------------

    def tell(self, partitions: list[TopicPartition], brokers: Any) -> None:
        for broker, request in orders_of(self.cluster, self.broker, self.epoch, partitions, brokers):
            self._channels.send(broker, request)
        self._send_all(metadata_of(self.cluster, self.broker, self.epoch, partitions))

    def _send_all(self, request: ControlRequest) -> None:
        for broker in sorted(self.cluster.live):
            self._channels.send(broker, request)

    def connected(self, line: Line) -> None:
        self._channels.connected(line)

    def disconnected(self, line: Line) -> None:
        self._channels.disconnected(line)

    def answered(self, line: Line, response: Response) -> None:
        self._channels.answered(line)
