"""What people write by hand into the znodes of a cluster, and what becomes of it."""

from __future__ import annotations

import pytest

from tests.pure.simulation.cluster_actions import ALONE, T0
from tests.pure.simulation.cluster_scenes import begun, ended
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.testing.simulation.cluster import ClusterSimulation
from zkgroup.testing.simulation.cluster.foreign_writers import BROKEN, ForeignWriters
from zkgroup.testing.simulation.cluster.operations import Operations
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import Topic


def strangers_of(simulation: ClusterSimulation) -> ForeignWriters:
    return ForeignWriters(simulation.world, simulation.rng)


@pytest.mark.parametrize("data", BROKEN)
def test_what_nobody_can_read_stops_nothing_else(data: bytes) -> None:
    """At each place that a controller reads: topics are made, moved and deleted all the same.

    So they are by the next controller.
    """
    simulation = begun(ALONE)
    world, strangers = simulation.world, strangers_of(simulation)
    for path in strangers.lasting():
        assert strangers.break_at(path, data)
    for name in ("n", "m"):
        assert world.write(Create(Topic.path(name), Topic({0: (1, 2)}).encode()))
        assert Operations(world, simulation.rng).move({T0: (3, 4) if name == "n" else (2, 1)})
        simulation.convergence.pass_time(5_000)
        (ruler,) = world.rulers
        world.kill(ruler.broker)
        world.restart(ruler.broker)
        simulation.convergence.pass_time(9_000)
        assert world.audit.look().state(TopicPartition(name, 0)) is not None
    assert world.write(Create(TopicDeletion.path("m"), b""))
    ended(simulation)

    picture = world.audit.look()
    assert picture.replicas(T0) == (2, 1)
    assert sorted(name for name, topic in picture.topics.items() if topic is not None) == ["n", "t"]


@pytest.mark.parametrize("data", BROKEN)
def test_what_is_mended_is_taken_up_again(data: bytes) -> None:
    """Of each znode that something hangs on: broken under one controller, found broken by the next."""
    simulation = begun(ALONE)
    world, strangers = simulation.world, strangers_of(simulation)
    needed = strangers.needed()
    for path in reversed(needed):
        assert strangers.break_at(path, data)
    simulation.convergence.pass_time(2_000)
    (ruler,) = world.rulers
    world.kill(ruler.broker)
    simulation.convergence.pass_time(9_000)
    assert sorted(world.garbage.unreadable) == sorted(needed)
    world.garbage.mend()
    ended(simulation)

    assert world.garbage.unreadable == {}
    assert world.audit.look().state(T0) is not None
