"""Stray replicas on an absent broker, when their topic is deleted and created again (K16 and K20)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.pure.simulation.cluster_actions import ALONE, KAFKA, T0
from tests.pure.simulation.crashing import each_thirtieth
from tests.simulation.cluster import ClusterSetup, ClusterSimulation
from tests.simulation.cluster.operations import Operations
from tests.simulation.cluster.simulation import ControllerAction, play
from tests.simulation.cluster.world import ClusterWorld
from zkgroup.broker.log.data_dir import stored_records
from zkgroup.wire.record_batch import all_records
from zkgroup.znodes.admin_requests import Reassignment

MOVED_MS = 8_000


def records_of(world: ClusterWorld, broker: int) -> tuple[bytes, ...]:
    """The records of `t-0` on a broker."""
    return tuple(record.value or b"" for record in all_records(stored_records(world.storages[broker], T0)))


def _delete(simulation: ClusterSimulation, operations: Operations) -> None:
    """Broker 1 was switched off, with records of `t-0`, before its reassignment to 2 and 3; now the topic is
    deleted.

    When all is well without the broker, the topic is made again with a place for it, and it comes back.
    """
    world = simulation.world
    point, world.network.point = world.network.point, lambda kind, connection: None
    world.switched_off.add(1)
    world.close(1)
    simulation.convergence.pass_time(1_000)
    assert operations.move({T0: (2, 3)})
    simulation.convergence.pass_time(MOVED_MS)
    assert world.server.find(Reassignment.path()) is None
    assert world.audit.catch_up().replicas(T0) == (2, 3)
    assert records_of(world, 1)
    world.network.point = point
    assert operations.delete_without("t", ())


@pytest.mark.parametrize("setup", [ALONE, KAFKA], ids=["zkgroup", "in Kafka"])
def test_what_a_move_has_left_behind_never_meets_the_next_topic(setup: ClusterSetup) -> None:
    """The controller dies at any point of the deletion: the next one finds the stray replicas by the records
    alone."""
    deleted(setup, lambda points: each_thirtieth(points, "deletion"))


def deleted(setup: ClusterSetup, choose: Callable[[int], Iterable[int]]) -> None:
    """The controller dies at the chosen points, by number."""
    action = ControllerAction(setup, _delete)
    points = len(play(action).passed)
    for at in choose(points):
        played = play(action, [at])
        world = played.simulation.world
        assert played.crashed
        assert world.figures["topics recreated"] == 1
        assert world.audit.catch_up().replicas(T0) == (1, 2)
        assert world.audit.undeleted == set()
        assert records_of(world, 1) == records_of(world, 2) != ()

    assert points > 10
