"""Building blocks of cluster scenarios: their beginning, their end, and writes of others."""

from __future__ import annotations

from collections.abc import Callable

from tests.pure.simulation.cluster_actions import T0
from tests.simulation.cluster import ClusterSetup, ClusterSimulation
from tests.simulation.cluster.controller import ControllerProcess
from tests.simulation.cluster.kafka_0_8_controller import Kafka08Controller
from tests.simulation.cluster.network import LateRequest, SimulatedConnection
from tests.simulation.cluster.operations import Operations
from tests.simulation.cluster.world import Controller as AnyController
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.wire.control import StopReplicaRequest
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.controller import ControllerRegistration

LONG_MS = 600_000
BESIDE_KAFKA = ClusterSetup(
    kind="kafka",
    brokers=(1, 2, 3, 4),
    electors=(1,),
    alone=(101, 102),
    topics={"t": ((2, 3), (3, 2))},
)


def begun(setup: ClusterSetup) -> ClusterSimulation:
    """A converged cluster."""
    simulation = ClusterSimulation(1, setup=setup)
    simulation.begin()
    simulation.convergence.pass_time(2_000)
    return simulation


def ended(simulation: ClusterSimulation) -> None:
    """Checks that the cluster converges and stays, and that the history checker finds nothing."""
    simulation.converge()
    simulation.check_history()


def state_of(simulation: ClusterSimulation) -> PartitionState:
    """The state of `t-0`."""
    state = simulation.world.audit.catch_up().state(T0)
    assert state is not None
    return state


def zkgroup_controller(simulation: ClusterSimulation) -> ControllerProcess:
    """The active zkgroup controller."""
    (found,) = (one for one in simulation.world.active_controllers if isinstance(one, ControllerProcess))
    return found


def real_rules(simulation: ClusterSimulation) -> Kafka08Controller:
    """Kafka's controller takes over, while zkgroup's are paused for a moment."""
    world = simulation.world
    real = world.controllers[1]
    assert isinstance(real, Kafka08Controller)
    for broker in (101, 102):
        world.pause(f"{world.controllers[broker].name}", 1_000)
    if not real.is_active:
        world.write(Delete(ControllerRegistration.path(), -1))
        simulation.convergence.pass_time(900)
    assert real.is_active
    simulation.convergence.pass_time(1_000)
    return real


def stepwise(simulation: ClusterSimulation, real: Kafka08Controller, until: Callable[[], object]) -> None:
    """Lets only Kafka's controller run, step by step."""
    server = simulation.world.server
    for _ in range(500):
        for step in [step for step in server.pending() if step.client == real.client.name]:
            if until():
                return
            server.deliver(step)
        if until():
            return
        real.step()
    raise AssertionError("it never came to that")


def asleep_over_a_write(simulation: ClusterSimulation) -> Kafka08Controller:
    """A Kafka controller has seen 2 die, is about to write that 3 leads `t-0`, and is paused; 2 comes back.

    Whoever takes over now has no reason to touch `t-0`.
    """
    world = simulation.world
    real = real_rules(simulation)
    world.kill(2)
    world.server.expire_session(world.sessions[2][-1])
    stepwise(simulation, real, lambda: real.is_writing(PartitionState.path(T0)))
    world.pause(real.name, LONG_MS)
    world.restart(2)
    simulation.convergence.pass_time(500)
    return real


def ask_for(simulation: ClusterSimulation, replicas: tuple[int, ...]) -> None:
    """The operator requests these replicas of `t-0`, over any earlier request.

    Also while a controller sleeps that holds a former request: it has expired, and writes nothing for it.
    """
    world = simulation.world
    found = world.server.find(Reassignment.path())
    data = Reassignment((Move(T0, replicas),)).encode()
    if found is None:
        assert world.write(Create(Reassignment.path(), data))
    else:
        assert world.write(SetData(Reassignment.path(), data, found.stat.version))


def moved_up_to_deletion(simulation: ClusterSimulation) -> ControllerProcess:
    """`t-0` moves from 1, 2 to 3, 4; stops where the controller is about to send 1 and 2 the deletion."""
    world = simulation.world
    controller = zkgroup_controller(simulation)
    assert Operations(world, simulation.rng).move({T0: (3, 4)})

    def is_shrunk() -> bool:
        state = world.audit.catch_up().state(T0)
        return state is not None and set(state.isr) == {3, 4}

    for _ in range(2_000):
        simulation.convergence.drain_some(1)
        for fetch in list(world.fetches()):
            fetch()
        if is_shrunk():
            return controller
        world.advance(5)
    raise AssertionError("the ISR was never shrunk")


def part(simulation: ClusterSimulation, controller: AnyController, broker: int) -> None:
    """Cuts the network between these two; requests in flight between them are lost."""
    network = simulation.world.network
    network.cut_off.add((controller.name, broker))
    before = list(network.late_requests)
    network.cut_of(controller, broker)
    network.late_requests[:] = before


class LateDeletion:
    """The first StopReplica with deletion to a broker: its connection breaks, and a copy is in flight.

    again: the connection breaks once more, over the first request of a later epoch.
    """

    def __init__(self, simulation: ClusterSimulation, broker: int, *, again: bool = False) -> None:
        self.has_to_part_again = again
        self._copies: list[LateRequest] = []
        self._simulation = simulation
        self._broker = broker
        self._network = simulation.world.network
        self._network.point = self._point

    @property
    def epoch(self) -> int:
        """The epoch of the controller that sent it."""
        return self._copies[0].request.controller_epoch

    def wait(self) -> None:
        """Runs until the request is in flight."""
        for _ in range(2_000):
            if self._copies:
                return
            self._simulation.convergence.drain_some(1)
        raise AssertionError("nobody was told to delete anything")

    def arrives(self) -> None:
        """Delivers the copy. Raises ClusterAuditError where a replica in sync deletes its records for it."""
        (copy,) = self._copies
        self._network.late_requests.append(copy)
        self._network.arrive(copy)

    def _point(self, kind: str, connection: SimulatedConnection) -> None:
        request = connection.request
        if kind != "sent" or connection.broker != self._broker or request is None:
            return
        if not self._copies and isinstance(request, StopReplicaRequest) and request.delete:
            assert connection.process is not None
            self._copies.append(LateRequest(connection.process, request, str(connection)))
        elif self._copies and self.has_to_part_again and request.controller_epoch > self.epoch:
            self.has_to_part_again = False
        else:
            return
        assert isinstance(connection.owner, AnyController)
        part(self._simulation, connection.owner, self._broker)
