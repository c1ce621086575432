"""Actions that take a controller many steps; each is crashed at every point."""

from __future__ import annotations

from tests.simulation.cluster import ClusterSetup, ClusterSimulation
from tests.simulation.cluster.controller import ControllerProcess
from tests.simulation.cluster.operations import Operations
from tests.simulation.cluster.simulation import ControllerAction
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, SetData
from zkgroup.znodes.admin_requests import Move, Reassignment, TopicDeletion
from zkgroup.znodes.brokers import Topic

T0 = TopicPartition("t", 0)
ALONE = ClusterSetup(
    kind="zkgroup",
    brokers=(1, 2, 3, 4),
    electors=(),
    alone=(101, 102),
    topics={"t": ((1, 2), (2, 3))},
)
"""A cluster with two controllers that host nothing: a crash ends the controller alone."""
NODES = ClusterSetup(kind="zkgroup", brokers=(1, 2, 3, 4), electors=(1, 2, 3), topics={"t": ((1, 2), (2, 3))})
"""A cluster with hosted controllers: a crash ends the broker, too."""
KAFKA = ClusterSetup(
    kind="kafka", brokers=(1, 2, 3, 4), electors=(), alone=(101, 102), topics={"t": ((1, 2), (2, 3))}
)


def _create(simulation: ClusterSimulation, operations: Operations) -> None:
    assert simulation.world.write(Create(Topic.path("n"), Topic({0: (1, 2, 3), 1: (3, 4)}).encode()))


def _grow(simulation: ClusterSimulation, operations: Operations) -> None:
    topic = Topic({0: (1, 2), 1: (2, 3), 2: (3, 4), 3: (4, 1)})
    assert simulation.world.write(SetData(Topic.path("t"), topic.encode(), 0))


def _delete(simulation: ClusterSimulation, operations: Operations) -> None:
    assert simulation.world.write(Create(TopicDeletion.path("t"), b""))


def _force(simulation: ClusterSimulation, operations: Operations) -> None:
    """Broker 2 is lost, and the topic is deleted without it (K20)."""
    simulation.world.close(2)
    simulation.convergence.pass_time(1_000)
    assert operations.delete_without("t", (2,))


def _force_and_make_again(simulation: ClusterSimulation, operations: Operations) -> None:
    """The name is taken when the lost broker comes back, with its old records (K20)."""
    _force(simulation, operations)
    simulation.convergence.pass_time(2_000)
    assert "t" not in simulation.world.audit.catch_up().topics
    assert simulation.world.write(Create(Topic.path("t"), Topic({0: (1, 2), 1: (2, 3)}).encode()))
    simulation.convergence.pass_time(1_000)
    simulation.world.restart(2)


def _move(simulation: ClusterSimulation, operations: Operations) -> None:
    assert operations.move({T0: (3, 4)})


def _change(simulation: ClusterSimulation, operations: Operations) -> None:
    """Another target while the first reassignment is open."""
    _move(simulation, operations)
    simulation.convergence.drain_some(60)
    changed = Reassignment((Move(T0, (4, 2)),))
    found = simulation.world.server.find(Reassignment.path())
    if found is not None:
        assert simulation.world.write(SetData(Reassignment.path(), changed.encode(), found.stat.version))


def _prefer(simulation: ClusterSimulation, operations: Operations) -> None:
    """Changes the order of the replicas, so that another is the preferred leader."""
    assert operations.move({T0: (2, 1)})
    simulation.convergence.pass_time(2_000)
    assert operations.prefer()


def _lose_leader(simulation: ClusterSimulation, operations: Operations) -> None:
    simulation.world.kill(4 if simulation.setup is not ALONE else 1)
    simulation.world.kill(2)


def _return(simulation: ClusterSimulation, operations: Operations) -> None:
    simulation.world.close(4)
    simulation.world.close(2)
    simulation.convergence.pass_time(1_000)
    simulation.world.restart(2)
    simulation.world.restart(4)


def _bounce(simulation: ClusterSimulation, operations: Operations) -> None:
    """A restart that is faster than any watch (K7)."""
    simulation.world.close(2)
    simulation.world.restart(2)


def _resign(simulation: ClusterSimulation, operations: Operations) -> None:
    assert operations.resign()


def _take_over(simulation: ClusterSimulation, operations: Operations) -> None:
    """With a lost broker, a new topic, and a requested reassignment."""
    world = simulation.world
    world.kill(world.active_controllers[0].broker)
    world.kill(4)
    _create(simulation, operations)
    _move(simulation, operations)


def _shut_down(simulation: ClusterSimulation, operations: Operations) -> None:
    (controller,) = simulation.world.active_controllers
    assert isinstance(controller, ControllerProcess)
    controller.shut_down(2)
    simulation.world.stopping.add(2)


ACTIONS = {
    "create": ControllerAction(ALONE, _create),
    "grow": ControllerAction(ALONE, _grow),
    "delete": ControllerAction(ALONE, _delete),
    "forced-deletion": ControllerAction(ALONE, _force),
    "return-after-a-forced-deletion": ControllerAction(ALONE, _force_and_make_again),
    "return-after-a-forced-deletion-in-kafka": ControllerAction(KAFKA, _force_and_make_again),
    "move": ControllerAction(ALONE, _move),
    "move-in-kafka": ControllerAction(KAFKA, _move),
    "move-and-crash-of-a-node": ControllerAction(NODES, _move),
    "change-target": ControllerAction(ALONE, _change),
    "preferred": ControllerAction(ALONE, _prefer),
    "leader-lost": ControllerAction(ALONE, _lose_leader),
    "brokers-return": ControllerAction(ALONE, _return),
    "bounce": ControllerAction(ALONE, _bounce),
    "resignation": ControllerAction(ALONE, _resign),
    "take-over": ControllerAction(ALONE, _take_over),
    "shutdown": ControllerAction(ALONE, _shut_down),
}
