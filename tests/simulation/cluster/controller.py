"""A zkgroup controller in the simulation: the production machine, with its connections and its lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from tests.simulation.cluster.environment import ClusterEnvironment
from tests.simulation.cluster.network import SimulatedConnection
from tests.simulation.cluster.shell import MachineShell, Task
from zkgroup.controller.machine import events as ef
from zkgroup.controller.machine.events import (
    BrokerAnswered,
    ChannelDown,
    ChannelUp,
    ControllerEvent,
    LeaveElection,
    ShutdownAsked,
)
from zkgroup.controller.machine.machine import ControllerMachine
from zkgroup.controller.machine.settings import ControllerAddress, ElectorConfig
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Store
from zkgroup.model.requests import Check, Create, Delete, Multi, MultiDone, Outcome, Request, SetData
from zkgroup.runtime.events import LogEvent
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper.client import MemoryClient
from zkgroup.wire.messages import Response


class ProvenStore:
    """A store that remembers the sending time of the newest accepted write of this session."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.listen, self.abandon, self.close = store.listen, store.abandon, store.close
        self._store = store
        self._clock = clock
        self._proven: tuple[int, int] | None = None
        """The session's incarnation, and the time."""

    @property
    def last_zxid(self) -> int:
        return self._store.last_zxid

    @property
    def age_ms(self) -> int | None:
        """Time since then; None before the first."""
        return None if self._proven is None else self._clock.now_ms() - self._proven[1]

    def submit(
        self,
        request: Request,
        *,
        incarnation: int,
        on_outcome: Callable[[Outcome], None],
        on_watch: Callable[[str], None] | None = None,
    ) -> None:
        """See `Store`."""
        sent = incarnation, self._clock.now_ms()

        def heard(outcome: Outcome) -> None:
            if isinstance(outcome, MultiDone) and (self._proven is None or sent > self._proven):
                self._proven = sent
            on_outcome(outcome)

        watched_outcome = heard if isinstance(request, Multi) else on_outcome
        self._store.submit(request, incarnation=incarnation, on_outcome=watched_outcome, on_watch=on_watch)


class ControllerProcess:
    """One controller, on the store of its broker or on its own client."""

    def __init__(
        self,
        world: ClusterEnvironment,
        broker: int,
        name: str,
        store: Store,
        client: MemoryClient,
        *,
        alone: bool,
    ) -> None:
        self.broker, self.name, self.client = broker, name, client
        self.is_alone = alone
        self.epochs: list[int] = []
        """Epochs that it has won."""
        self._world = world
        self._lease_until_ms: int | None = None
        self._last_shutdown = 0
        config = ElectorConfig(
            broker=broker,
            controller_only=ControllerAddress(f"h{broker}", 9092) if alone else None,
            jitter=world.rng.random,
            request_bytes_max=world.setup.request_bytes_max,
        )
        self.machine = ControllerMachine(config, world.setup.controller_settings())
        self._proof = ProvenStore(store, world.clock)
        self._lease_fraction = config.lease_fraction
        self.shell = MachineShell(self.machine, self._proof, world.clock, self._perform)

    @property
    def is_active(self) -> bool:
        return self.machine.election.is_active

    def has_read(self, tp: TopicPartition) -> bool:
        """Whether it is active and has read a reassignment of this partition."""
        request = self.machine.active.parts.reassignments.request if self.machine.active is not None else None
        return request is not None and tp in request.targets

    @property
    def awaited(self) -> list[SimulatedConnection]:
        """Connections with a request or response in flight, and more requests queued."""
        active = self.machine.active
        queues = {} if active is None else active.parts.requests.queues._send_queues
        return [
            connection
            for connection in self._world.network.busy(self)
            if len(queues.get(connection.broker, ())) > 1
        ]

    def transactions(self) -> list[list[Create | SetData | Delete]]:
        """Transactions in flight that change znodes."""
        sent = [flight.request for flight in self.client.requests if isinstance(flight.request, Multi)]
        found = [[each for each in one.operations if not isinstance(each, Check)] for one in sent]
        return [changes for changes in found if changes]

    def stop(self) -> None:
        """The process is gone."""
        self.shell.stop()
        self._world.network.close_all(self)

    def leave_election(self) -> None:
        self.shell.enqueue(LeaveElection("the simulation asks for it"))

    def shut_down(self, broker: int) -> None:
        """A broker requests a controlled shutdown."""
        self._last_shutdown += 1
        self.shell.enqueue(ShutdownAsked(self._last_shutdown, broker))

    def connected(self, connection: SimulatedConnection) -> None:
        self._happened(connection, ChannelUp(connection.broker, connection.incarnation))

    def disconnected(self, connection: SimulatedConnection) -> None:
        self._happened(connection, ChannelDown(connection.broker, connection.incarnation))

    def answered(self, connection: SimulatedConnection, response: Response) -> None:
        self._happened(connection, BrokerAnswered(connection.broker, connection.incarnation, response))

    def _happened(self, connection: SimulatedConnection, event: ControllerEvent) -> None:
        """As `ControllerChannelManager`: events of a closed channel are dropped, and requests that the
        machine sends on an event go out on that connection or not at all."""
        number = connection.number

        def deliver() -> None:
            if connection.is_open:
                connection.seen_number = number
                self.shell.step(event)

        self.shell.enqueue(Task(deliver))

    def _perform(self, effect: ef.ControllerEffect) -> None:
        network = self._world.network
        match effect:
            case ef.OpenChannel(broker, incarnation):
                network.open(self, broker, incarnation)
            case ef.CloseChannel(broker, incarnation):
                network.close(self, broker, incarnation)
            case ef.BrokerRequest(broker, incarnation):
                self._send(broker, incarnation, effect)
            case ef.ExtendSendLease(until_ms):
                self._lease_until_ms = until_ms
            case ef.Elected():
                self.epochs.append(effect.epoch)
            case ef.Resigned():
                self._lease_until_ms = None
                network.close_all(self)
            case ef.ShutdownAnswered():
                self._world.shutdown_answered(is_granted=effect.error == 0 and not effect.remaining)
            case LogEvent(kind, fields):
                assert kind != "handler.failed", f"{self.name}: {fields.get('detail')}"
                self._world.figures[f"note {kind}"] += 1
                if kind == "replicas_of_deleted_topic.assigned":
                    partitions = cast("tuple[str, ...]", fields["partitions"])
                    self._world.unprotected.update((fields["broker"], name) for name in partitions)
            case _:
                pass

    def _send(self, broker: int, incarnation: int, effect: ef.BrokerRequest) -> None:
        """As `Channel`: without a lease no request is sent, and the connection is closed."""
        lease = self._lease_until_ms
        if lease is None or self._world.clock.now_ms() >= lease:
            self._world.figures["requests held back by the lease"] += 1
            self._world.network.cut_of(self, broker)
            return
        session = self.client.session
        timeout_ms = self._world.setup.session_timeout_ms if session is None else session.timeout_ms
        age_ms = self._proof.age_ms
        assert age_ms is not None, f"S18 {self.name}: a request goes out before any write was accepted"
        assert age_ms < self._lease_fraction * timeout_ms, (
            f"S18 {self.name}: a request to {broker} goes out {age_ms} ms after the last accepted write"
        )
        self._world.network.send(self, broker, incarnation, effect.request)
