"""Scenarios that exhaustive search found for two controllers: reassignments and first leader epochs.

The rule marked [M] in recipes 17 is a schedule for each of its parts, which goes wrong without it:
`RARE_BUGS` of `tests/long/simulation/cluster_bugs.py` has the rule, the scenario, and the mistake that it
shows. What concerns taking over is in `test_takeover_scenarios`.
"""

from __future__ import annotations

import pytest

from tests.pure.simulation.cluster_actions import ALONE, NODES, T0
from tests.pure.simulation.cluster_scenes import (
    LateDeletion,
    ask_for,
    begun,
    ended,
    moved_up_to_deletion,
    part,
    state_of,
    zkgroup_controller,
)
from tests.simulation.cluster import ClusterSetup, ClusterSimulation
from tests.simulation.cluster.operations import Operations
from tests.simulation.cluster.simulation import ControllerAction, play
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, SetData
from zkgroup.znodes.admin_requests import UncleanElection
from zkgroup.znodes.brokers import NO_LEADER, Topic

KAFKAS_FOLLOWERS = ClusterSetup(
    kind="kafka",
    brokers=(1, 2, 3),
    electors=(),
    alone=(101, 102, 103),
    topics={"t": ((1, 2, 3),)},
    fetches_without_terms=True,
)
"""A follower without requests is in sync as soon as its leader knows that it is a replica."""


def test_a_replica_with_an_unanswered_deletion_is_held() -> None:
    """Recipes 17: the connection breaks over StopReplica(delete), a copy is in flight, and the operator
    asks for the replica back. It breaks once more over the first request of the new epoch. The replica comes
    back when its broker has answered that one, and so refuses the copy."""
    simulation = begun(ALONE)
    world = simulation.world
    late = LateDeletion(simulation, 1, again=True)
    controller = moved_up_to_deletion(simulation)
    late.wait()
    ask_for(simulation, (1, 2))
    simulation.convergence.pass_time(3_000)
    assert world.active_controllers == [controller]
    assert world.audit.catch_up().epoch == late.epoch
    world.network.cut_off.clear()
    simulation.convergence.pass_time(3_000)
    if 1 in state_of(simulation).isr:
        late.arrives()
    world.network.cut_off.clear()
    simulation.convergence.pass_time(3_000)
    assert 1 in state_of(simulation).isr, "it never came back"
    assert not late.has_to_part_again
    assert world.audit.catch_up().epoch == late.epoch + 1
    refused = world.figures["requests refused"]
    late.arrives()

    assert world.figures["requests refused"] == refused + 1
    ended(simulation)


def test_a_replica_is_held_until_its_broker_has_answered_the_successor() -> None:
    """Recipes 17: a controller dies with a deletion in flight, and the replica is requested again. Its
    broker still follows the leader, has no request of the successor, and would accept the copy."""
    simulation = begun(KAFKAS_FOLLOWERS)
    world = simulation.world
    late = _left_behind(simulation)
    ask_for(simulation, (1, 2, 3))
    simulation.convergence.pass_time(5_000)
    late.arrives()
    assert world.audit.catch_up().replicas(T0) == (1, 2)
    world.network.cut_off.clear()
    simulation.convergence.pass_time(5_000)

    assert set(state_of(simulation).isr) == {1, 2, 3}
    ended(simulation)


def test_a_held_replica_is_not_named_to_its_leader() -> None:
    """Recipes 17: the same, and Kafka's tool has written it into the replica list (recipes 15). Elections
    do not wait for it: the leader gets another ISR, and a list without the replica."""
    simulation = begun(KAFKAS_FOLLOWERS)
    world = simulation.world
    old_read = world.audit.catch_up().topics["t"]
    assert old_read is not None
    late = _left_behind(simulation)
    ask_for(simulation, (1, 2, 3))
    grown = Topic({**old_read.partitions, 1: (2, 1)})
    assert world.write(SetData(Topic.path("t"), grown.encode(), -1))
    simulation.convergence.pass_time(3_000)
    assert world.audit.catch_up().replicas(T0) == (1, 2, 3)
    before = state_of(simulation)
    world.close(2)
    simulation.convergence.pass_time(3_000)
    assert state_of(simulation).leader_epoch > before.leader_epoch, "nobody was elected"
    late.arrives()
    assert state_of(simulation).isr == (1,)
    world.network.cut_off.clear()
    simulation.convergence.pass_time(5_000)

    assert set(state_of(simulation).isr) == {1, 3}
    ended(simulation)


def test_a_held_replica_is_not_elected() -> None:
    """Recipes 17: a controller dies with a deletion in flight, and all replicas in sync die too. An
    operator requests an unclean election."""
    simulation = begun(ALONE)
    world = simulation.world
    late = LateDeletion(simulation, 1)
    first = moved_up_to_deletion(simulation)
    late.wait()
    for one in world.controllers.values():
        part(simulation, one, 1)
    ask_for(simulation, (1, 2))
    world.kill(first.broker)
    world.server.expire(first.client.name)
    simulation.convergence.pass_time(1_000)
    assert zkgroup_controller(simulation) is not first
    for broker in (2, 3, 4):
        world.close(broker)
    simulation.convergence.pass_time(1_000)
    assert state_of(simulation).leader == NO_LEADER
    world.may_lose.add(T0.topic)
    request = UncleanElection((T0,), world.clock.wall_ms(), "somebody")
    assert world.write(Create(UncleanElection.path(), request.encode()))
    simulation.convergence.pass_time(1_000)
    assert world.server.find(UncleanElection.path()) is None
    late.arrives()

    assert state_of(simulation).leader == NO_LEADER
    ended(simulation)


def _left_behind(simulation: ClusterSimulation) -> LateDeletion:
    """`t-0` has moved from 1, 2, 3 to 1, 2, of which 3 has no request. The controller dies; the next sends
    3 the deletion, and dies with that in flight. The third does not reach 3."""
    world = simulation.world
    first = zkgroup_controller(simulation)
    part(simulation, first, 3)
    ask_for(simulation, (1, 2))
    simulation.convergence.pass_time(3_000)
    assert world.audit.catch_up().replicas(T0) == (1, 2)
    assert not world.audit.catch_up().moves
    late = LateDeletion(simulation, 3)
    world.kill(first.broker)
    world.server.expire(first.client.name)
    late.wait()
    second = zkgroup_controller(simulation)
    for one in world.controllers.values():
        part(simulation, one, 3)
    world.kill(second.broker)
    world.server.expire(second.client.name)
    return late


def test_a_tool_that_grows_a_topic_from_an_old_read_takes_nothing_back() -> None:
    """Recipes 15: Kafka's tool writes the whole map as it read it before the move. The controller's lists
    replace it for known partitions, the new partition is kept, and the reassignment ends as requested."""
    simulation = begun(ALONE)
    world = simulation.world
    old = Topic({0: (1, 2), 1: (2, 3)})
    assert Operations(world, simulation.rng).move({T0: (3, 4)})
    for _ in range(500):
        simulation.convergence.drain_some(1)
        if world.audit.catch_up().replicas(T0) == (3, 4, 1, 2):
            break
    assert world.write(SetData(Topic.path("t"), Topic({**old.partitions, 2: (4, 1)}).encode(), -1))
    ended(simulation)

    cluster = world.audit.catch_up()
    assert cluster.replicas(T0) == (3, 4)
    grown = cluster.state(TopicPartition("t", 2))
    assert grown is not None
    assert grown.leader == 4


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_partition_is_led_although_its_leader_died_with_the_controller(comes_back: bool) -> None:
    """ADR 0018: at any point of a topic's creation; the others get the first leader epoch first."""

    def begin(simulation: ClusterSimulation, operations: Operations) -> None:
        world = simulation.world
        controller = world.active_controllers[0].broker
        one, two = (broker for broker in (1, 2, 3) if broker != controller)
        if not comes_back:
            world.lost.add(controller)
        topic = Topic({0: (controller, one, two), 1: (controller, one)})
        assert world.write(Create(Topic.path("n"), topic.encode()))

    action = ControllerAction(NODES, begin)
    for at in range(comes_back, len(play(action).passed), 2):  # the other points in the other case
        world = play(action, [at]).simulation.world
        for tp in (TopicPartition("n", 0), TopicPartition("n", 1)):
            state = world.audit.catch_up().state(tp)
            assert state is not None
            assert world.brokers[state.leader].leads(tp) is not None
