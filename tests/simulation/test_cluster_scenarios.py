"""What exhaustive search found about two controllers, played with the real machines.

Each rule marked [M] in part II of the recipes is a schedule here, which goes wrong without it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.cluster_actions import ALONE, NODES, T0
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.testing.cluster_simulation import ClusterSetup, ClusterSimulation
from zkgroup.testing.cluster_simulation.controller import ControllerProcess
from zkgroup.testing.cluster_simulation.crashes import Action, play
from zkgroup.testing.cluster_simulation.network import Line, Stray
from zkgroup.testing.cluster_simulation.operations import Operations
from zkgroup.testing.cluster_simulation.real_controller import RealController
from zkgroup.wire.control import StopReplicaRequest
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.controller import Controller

LONG_MS = 600_000
BESIDE_KAFKA = ClusterSetup(
    kind="kafka",
    brokers=(1, 2, 3, 4),
    candidates=(1,),
    alone=(101, 102),
    topics={"t": ((2, 3), (3, 2))},
)


def begun(setup: ClusterSetup) -> ClusterSimulation:
    """A cluster at rest."""
    simulation = ClusterSimulation(1, setup=setup)
    simulation.begin()
    simulation.quiet.pass_time(2_000)
    return simulation


def ended(simulation: ClusterSimulation) -> None:
    """It arrives at the goal, stays there, and the checker finds nothing."""
    simulation.settle()
    simulation.judge()


def real_of(simulation: ClusterSimulation) -> RealController:
    real = simulation.world.controllers[1]
    assert isinstance(real, RealController)
    return real


def real_rules(simulation: ClusterSimulation) -> RealController:
    """The candidate of Kafka takes over, as those of ours sleep for a moment."""
    world = simulation.world
    real = real_of(simulation)
    for broker in (101, 102):
        world.pause(f"{world.controllers[broker].name}", 1_000)
    if not real.rules:
        world.write(Delete(Controller.path(), -1))
        simulation.quiet.pass_time(900)
    assert real.rules
    simulation.quiet.pass_time(1_000)
    return real


def stepwise(simulation: ClusterSimulation, real: RealController, until: Callable[[], object]) -> None:
    """The candidate of Kafka alone does something, one step after the other."""
    server = simulation.world.server
    for _ in range(500):
        for step in [step for step in server.pending() if step.client == real.client.name]:
            if until():
                return
            server.deliver(step)
        if until():
            return
        real.act()
    raise AssertionError("it never came to that")


def state_of(simulation: ClusterSimulation) -> PartitionState:
    state = simulation.world.audit.look().state(T0)
    assert state is not None
    return state


def test_a_real_candidate_that_bumps_late_is_given_way_to() -> None:
    """Recipes 13 [M]: it created, expired and came back; ours ruled meanwhile, and resigns for its epoch."""
    simulation = begun(BESIDE_KAFKA)
    world = simulation.world
    real = real_rules(simulation)
    world.pause(real.name, 1)
    world.write(Delete(Controller.path(), -1))
    for broker in (101, 102):
        world.pause(world.controllers[broker].name, 500)
    session = world.registrations()[1]
    epochs = list(real.epochs)
    stepwise(simulation, real, lambda: _holds(simulation, session) and real.epochs == epochs)
    world.pause(real.name, LONG_MS)
    world.server.expire(real.client.name)
    simulation.quiet.pass_time(5_000)
    (ours,) = (one for one in world.rulers if isinstance(one, ControllerProcess))
    won = list(ours.epochs)
    world.wake_up(real.name)
    simulation.quiet.pass_time(6_000)

    assert real.epochs[-1] > won[-1]
    assert ours.epochs != won or not ours.rules
    ended(simulation)


def _holds(simulation: ClusterSimulation, session: int) -> bool:
    found = simulation.world.server.find(Controller.path())
    return found is not None and found.stat.ephemeral_owner == session


def test_a_real_controller_that_goes_on_in_a_new_session_is_repaired() -> None:
    """Recipes 13 [M]: in the middle of a batch it expires, ours takes over, and then it writes on (K3). What
    it has decided at its old epoch is rewritten with ours."""
    simulation = begun(BESIDE_KAFKA)
    world = simulation.world
    real = real_rules(simulation)
    foreign = real.epoch
    world.kill(2)
    world.server.expire_session(world.sessions[2][-1])
    stepwise(simulation, real, lambda: real.is_writing(PartitionState.path(T0)))
    world.pause(real.name, LONG_MS)
    world.server.expire(real.client.name)
    simulation.quiet.pass_time(8_000)
    world.wake_up(real.name)
    simulation.quiet.pass_time(3_000)

    assert state_of(simulation).controller_epoch > foreign
    ended(simulation)
    assert state_of(simulation).leader in world.brokers


def test_a_successor_finishes_the_recovery() -> None:
    """Recipes 13 [M]: the first winner after a real controller dies at any point of what it does; whoever
    follows finds by the records alone which states are not of ours, and rewrites them."""

    def begin(simulation: ClusterSimulation, operations: Operations) -> None:
        real_rules(simulation)
        simulation.world.stop_kafka()

    action = Action(BESIDE_KAFKA, begin)
    for at in range(len(play(action).passed)):
        played = play(action, [at])
        states = played.simulation.world.audit.look().states.values()
        records = played.simulation.world.server.tree()
        for seen in states:
            assert seen.state is not None
            assert f"/zkgroup/controller/history/{seen.state.controller_epoch}" in records


def moved_up_to_deletion(simulation: ClusterSimulation) -> ControllerProcess:
    """`t-0` moves from 1, 2 to 3, 4; stops where the ruler is about to tell 1 and 2 to delete."""
    world = simulation.world
    (ruler,) = world.rulers
    assert isinstance(ruler, ControllerProcess)
    assert Operations(world, simulation.rng).move({T0: (3, 4)})

    def is_shrunk() -> bool:
        state = world.audit.look().state(T0)
        return state is not None and set(state.isr) == {3, 4}

    for _ in range(2_000):
        simulation.quiet.drain_some(1)
        for fetch in list(world.fetches()):
            fetch()
        if is_shrunk():
            return ruler
        world.advance(5)
    raise AssertionError("the ISR was never shrunk")


def ask_back(simulation: ClusterSimulation) -> None:
    """The operator wants the old replicas again.

    Also while a controller sleeps that holds the former request: it has expired, and writes nothing for it.
    """
    world = simulation.world
    found = world.server.find(Reassignment.path())
    data = Reassignment((Move(T0, (1, 2)),)).encode()
    if found is None:
        assert world.write(Create(Reassignment.path(), data))
    else:
        assert world.write(SetData(Reassignment.path(), data, found.stat.version))


def test_no_request_is_sent_after_the_own_lease() -> None:
    """Recipes 13 [M]: an expired controller wakes with a deletion to send. By then the replica is back in
    sync."""
    simulation = begun(ALONE)
    world = simulation.world
    ruler = moved_up_to_deletion(simulation)
    world.pause(ruler.name, LONG_MS)
    simulation.quiet.pass_time(9_000)
    (other,) = (one for one in world.rulers if one is not ruler)
    ask_back(simulation)
    simulation.quiet.pass_time(5_000)
    assert set(state_of(simulation).isr) == {1, 2}
    sent: list[str] = []
    world.network.point = lambda kind, line: sent.append(f"{line} {kind}") if line.owner is ruler else None
    world.wake_up(ruler.name)
    while ruler.shell.inbox:  # before it hears of its session's end
        ruler.shell.take_event()
    assert sent == []
    simulation.quiet.pass_time(2_000)

    assert sent == []
    assert world.rulers == [other]
    world.network.point = lambda kind, line: None
    ended(simulation)


def test_a_replica_with_an_unanswered_deletion_is_held() -> None:
    """Recipes 17 [M]: the connection breaks over StopReplica(delete), a copy is on its way, and the operator
    asks for the replica back. It comes back in a new epoch, in which its broker does not obey that copy."""
    simulation = begun(ALONE)
    world = simulation.world
    deleting: list[tuple[Line, StopReplicaRequest]] = []

    def point(kind: str, line: Line) -> None:
        request = line.request
        if kind == "sent" and isinstance(request, StopReplicaRequest) and request.delete and line.broker == 1:
            deleting.append((line, request))

    world.network.point = point
    moved_up_to_deletion(simulation)
    for _ in range(100):
        if deleting:
            break
        simulation.quiet.drain_some(1)
    ((line, request),) = deleting
    epoch = world.audit.look().epoch
    world.network.cut(line)
    world.network.cut_off.add((line.owner.name, 1))
    world.network.strays.clear()
    ask_back(simulation)
    simulation.quiet.pass_time(3_000)
    assert 1 not in state_of(simulation).isr
    assert world.audit.look().epoch == epoch
    world.network.cut_off.clear()
    simulation.quiet.pass_time(5_000)
    assert 1 in state_of(simulation).isr
    assert world.audit.look().epoch == request.controller_epoch + 1
    refused = world.figures["requests refused"]
    late = Stray(world.brokers[1], request, str(line))
    world.network.strays.append(late)
    world.network.arrive(late)

    assert world.figures["requests refused"] == refused + 1
    ended(simulation)


def test_a_tool_that_grows_a_topic_from_an_old_read_takes_nothing_back() -> None:
    """Recipes 15: Kafka's tool writes the whole map as it read it before the move. The controller's picture
    wins for what it knows, the new partition is kept, and the move ends where it was asked to."""
    simulation = begun(ALONE)
    world = simulation.world
    old = Topic({0: (1, 2), 1: (2, 3)})
    assert Operations(world, simulation.rng).move({T0: (3, 4)})
    for _ in range(500):
        simulation.quiet.drain_some(1)
        if world.audit.look().replicas(T0) == (3, 4, 1, 2):
            break
    assert world.write(SetData(Topic.path("t"), Topic({**old.partitions, 2: (4, 1)}).encode(), -1))
    ended(simulation)

    picture = world.audit.look()
    assert picture.replicas(T0) == (3, 4)
    grown = picture.state(TopicPartition("t", 2))
    assert grown is not None
    assert grown.leader == 4


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_partition_is_led_although_its_leader_died_with_the_controller(comes_back: bool) -> None:
    """ADR 0018: at any point of a topic's creation; the others hear of the first term first."""

    def begin(simulation: ClusterSimulation, operations: Operations) -> None:
        world = simulation.world
        ruler = world.rulers[0].broker
        one, two = (broker for broker in (1, 2, 3) if broker != ruler)
        if not comes_back:
            world.lost.add(ruler)
        topic = Topic({0: (ruler, one, two), 1: (ruler, one)})
        assert world.write(Create(Topic.path("n"), topic.encode()))

    action = Action(NODES, begin)
    for at in range(len(play(action).passed)):
        world = play(action, [at]).simulation.world
        for tp in (TopicPartition("n", 0), TopicPartition("n", 1)):
            state = world.audit.look().state(tp)
            assert state is not None
            assert world.brokers[state.leader].leads(tp) is not None
