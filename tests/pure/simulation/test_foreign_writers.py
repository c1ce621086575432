"""Foreign writes to a cluster's znodes, and their effects."""

from __future__ import annotations

import pytest

from tests.pure.simulation.cluster_actions import ALONE, T0
from tests.pure.simulation.cluster_scenes import begun, ended
from tests.simulation.cluster import ClusterSimulation
from tests.simulation.cluster.foreign_writers import BROKEN, ForeignWriters
from tests.simulation.cluster.operations import Operations
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import Topic


def foreign_writers_of(simulation: ClusterSimulation) -> ForeignWriters:
    return ForeignWriters(simulation.world, simulation.rng)


@pytest.mark.parametrize("data", BROKEN)
def test_an_unreadable_znode_stops_nothing_else(data: bytes) -> None:
    """At each path that a controller reads: topics are still created, reassigned and deleted.

    So they are by the next controller.
    """
    simulation = begun(ALONE)
    world, strangers = simulation.world, foreign_writers_of(simulation)
    for path in strangers.lasting():
        assert strangers.break_at(path, data)
    for name in ("n", "m"):
        assert world.write(Create(Topic.path(name), Topic({0: (1, 2)}).encode()))
        assert Operations(world, simulation.rng).move({T0: (3, 4) if name == "n" else (2, 1)})
        simulation.convergence.pass_time(5_000)
        (controller,) = world.active_controllers
        world.kill(controller.broker)
        world.restart(controller.broker)
        simulation.convergence.pass_time(9_000)
        assert world.audit.catch_up().state(TopicPartition(name, 0)) is not None
    assert world.write(Create(TopicDeletion.path("m"), b""))
    ended(simulation)

    cluster = world.audit.catch_up()
    assert cluster.replicas(T0) == (2, 1)
    assert sorted(name for name, topic in cluster.topics.items() if topic is not None) == ["n", "t"]


@pytest.mark.parametrize("data", BROKEN)
def test_repaired_znodes_are_loaded_again(data: bytes) -> None:
    """Each needed znode is corrupted under one controller and found corrupt by the next."""
    simulation = begun(ALONE)
    world, strangers = simulation.world, foreign_writers_of(simulation)
    needed = strangers.needed()
    for path in reversed(needed):
        assert strangers.break_at(path, data)
    simulation.convergence.pass_time(2_000)
    (controller,) = world.active_controllers
    world.kill(controller.broker)
    simulation.convergence.pass_time(9_000)
    assert sorted(world.corrupt.unreadable) == sorted(needed)
    world.corrupt.repair()
    ended(simulation)

    assert world.corrupt.unreadable == {}
    assert world.audit.catch_up().state(T0) is not None
