"""Electors on a ZooKeeper in memory, run step by step, and a Kafka broker beside them."""

from __future__ import annotations

from collections.abc import Callable

from tests.worlds.stepped_machines import SteppedMachines
from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.controller_election.elector import Elector
from zkgroup.controller.machine.events import ControllerEffect, Elected, ExtendSendLease, Resigned
from zkgroup.controller.machine.machine import ControllerMachine
from zkgroup.controller.machine.settings import ControllerAddress, ControllerSettings, ElectorConfig
from zkgroup.model.requests import Create, Delete, Multi, SetData
from zkgroup.runtime.events import LogEvent
from zkgroup.runtime.loop import MachineLoop
from zkgroup.runtime.procedures import Procedure, Work
from zkgroup.testing.memory_zookeeper import ServerStep
from zkgroup.testing.memory_zookeeper.client import MemoryClient
from zkgroup.znodes.brokers import BrokerRegistration, broker_ids_path
from zkgroup.znodes.controller import ControllerEpoch, ControllerRecord, ControllerRegistration

CONTROLLER, EPOCH = ControllerRegistration.path(), ControllerEpoch.path()
GRACE_MS = 2000
GRACE_AND_SPREAD_MS = 2250
"""With a jitter of one half."""


NextWork = Callable[[Elector], Work | None]
"""The next work of an active controller, or None."""


class WorkingElector(ControllerMachine):
    """A controller whose work, while it is active, is the test's."""

    def __init__(
        self, config: ElectorConfig, work: NextWork, prepare: Callable[[], Procedure[None]] | None
    ) -> None:
        super().__init__(config, None, prepare)
        self._work = work

    def _next_of_active(self) -> Work | None:
        return self._work(self.election)


class ElectorNode:
    """One elector in its loop, without a thread."""

    def __init__(self, world: SteppedElectors, name: str, elector: ControllerMachine) -> None:
        self.broker, self.name = elector.core.config.broker, name
        self.machine = elector
        self.effects: list[ControllerEffect] = []
        self.client: MemoryClient = world.server.client(self.name)
        self.loop: MachineLoop[object, ControllerEffect] = world.looped(
            elector, self.client, self._perform, self.name
        )

    def _perform(self, effect: ControllerEffect) -> None:
        self.effects.append(effect)

    @property
    def is_active(self) -> bool:
        return self.machine.election.is_active

    @property
    def active(self) -> ActiveController:
        assert self.machine.active is not None
        return self.machine.active

    @property
    def waiting(self) -> dict[str, str]:
        """What its status reports as waiting."""
        return dict(self.active.parts.events.blocked)

    @property
    def unreadable(self) -> set[str]:
        return set(self.active.context.unreadable)

    @property
    def session_id(self) -> int:
        assert self.client.session is not None
        return self.client.session.session_id

    def received(self, kind: type[ControllerEffect]) -> list[ControllerEffect]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def notes(self, kind: str) -> list[LogEvent]:
        return [each for each in self.effects if isinstance(each, LogEvent) and each.kind == kind]

    @property
    def story(self) -> list[ControllerEffect]:
        """Its elections and resignations, in order."""
        return [each for each in self.effects if not isinstance(each, (ExtendSendLease, LogEvent))]


class SteppedElectors(SteppedMachines[ElectorNode]):
    """A server, a clock and all electors."""

    def node(
        self,
        broker: int,
        *,
        controller_only: bool = False,
        work: NextWork | ControllerSettings = lambda election: None,
        prepare: Callable[[], Procedure[None]] | None = None,
        name: str | None = None,
    ) -> ElectorNode:
        alone = ControllerAddress("h", 9000 + broker) if controller_only else None
        config = ElectorConfig(broker=broker, controller_only=alone)
        kind = ControllerMachine if isinstance(work, ControllerSettings) else WorkingElector
        node = ElectorNode(self, name or f"n{broker}", kind(config, work, prepare))  # type: ignore[arg-type]
        self.nodes.append(node)
        return node

    def until_asked(self, node: ElectorNode, path: str) -> Multi:
        """Runs until the server is about to execute this node's transaction about this path."""
        self.run(lambda: self.asked(node, path) is not None)
        request = self.asked(node, path)
        assert request is not None, f"{node.name} never asked about {path}"
        return request

    def asked(self, node: ElectorNode, path: str) -> Multi | None:
        """The transaction that is the node's next request, if it is about this path."""
        flight = node.client.requests[0].request if node.client.requests else None
        is_about = isinstance(flight, Multi) and any(op.path == path for op in flight.operations)
        return flight if is_about and isinstance(flight, Multi) else None

    def record(self, epoch: int) -> ControllerRecord:
        path = ControllerRecord.path(epoch)
        return ControllerRecord.decode(path, self.find(path).data)

    def depose(self) -> None:
        """Deletes `/controller` by hand, as another client."""
        self.write(Delete(CONTROLLER, -1))
        self.run()

    def pass_grace(self) -> None:
        self.run()
        self.advance(GRACE_AND_SPREAD_MS)

    def epoch(self) -> tuple[int, int]:
        """The value and the version of `/controller_epoch`."""
        znode = self.find(EPOCH)
        return ControllerEpoch.decode(EPOCH, znode.data).epoch, znode.stat.version

    def bump(self) -> None:
        """Raises the epoch as another process."""
        value, version = self.epoch()
        self.write(SetData(EPOCH, ControllerEpoch(value + 1).encode(), version))

    @property
    def active_nodes(self) -> list[ElectorNode]:
        return [node for node in self.nodes if node.is_active]

    def real(self, broker: int = 9, *, epoch: int | None = None) -> int:
        """Registers a Kafka broker, which becomes controller as 0.8.2.2 does; its session."""
        client = self.server.client(f"kafka-{broker}")
        self.server.deliver(ServerStep("connect", client.name))
        assert client.session is not None
        session_id = client.session.session_id
        self.server.put(broker_ids_path())
        self.write(
            Create(BrokerRegistration.path(broker), BrokerRegistration("k", 9092, 1, 0).encode(), True),
            session_id=session_id,
        )
        self.kafka_controller_elected(broker, session_id, epoch=epoch)
        return session_id

    def kafka_controller_elected(self, broker: int, session_id: int, *, epoch: int | None = None) -> None:
        self.write(
            Create(CONTROLLER, ControllerRegistration(broker, 0).encode(), True), session_id=session_id
        )
        if self.server.find(EPOCH) is None:
            self.write(Create(EPOCH, ControllerEpoch(epoch or 1).encode()))
        else:
            self.bump()


def alone(broker: int = 1, *, controller_only: bool = False) -> tuple[SteppedElectors, ElectorNode]:
    """A world with one elector that has nothing left to do."""
    world = SteppedElectors()
    node = world.node(broker, controller_only=controller_only)
    world.run()
    return world, node


def elected(node: ElectorNode) -> Elected:
    """The node's last election."""
    return [effect for effect in node.effects if isinstance(effect, Elected)][-1]


def resigned(node: ElectorNode) -> list[str]:
    """The reasons of the node's resignations, in order."""
    return [effect.reason for effect in node.effects if isinstance(effect, Resigned)]
