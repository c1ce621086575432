"""What a move leaves behind where a broker cannot delete it."""

from __future__ import annotations

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers, loaded_cluster
from zkgroup.controller.machine.deletion.stray_replicas import AGAIN_MS
from zkgroup.wire.control import LeaderAndIsrRequest, StopReplicaRequest
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.admin_requests import Move, Reassignment, UncleanElection
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.config import TopicConfig


def moved() -> tuple[SteppedControllers, ControllerNode]:
    """`t-0` has moved from 1, 2 to 2, 3; broker 1 has answered that it cannot delete."""
    world, controller = loaded_cluster({0: (1, 2)}, auto_rebalance=False)
    world.hosts[1].refusals[tp(0)] = ErrorCode.KAFKA_STORAGE_ERROR
    move(world, (2, 3), (1, 2, 3))
    return world, controller


def move(world: SteppedControllers, target: tuple[int, ...], isr: tuple[int, ...]) -> None:
    """From the request to its end, with replicas that catch up at once."""
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0), target),)).encode())
    world.run()
    world.set_state(tp(0), isr=isr)
    world.run()
    assert world.server.find(Reassignment.path()) is None


def asked(world: SteppedControllers) -> int:
    """How often broker 1 was sent StopReplica with deletion."""
    received = world.hosts[1].received(StopReplicaRequest)
    return sum(isinstance(each, StopReplicaRequest) and each.delete for each in received)


def test_a_replica_that_could_not_be_deleted_is_deleted_later() -> None:
    """The move ends, its list is right; the broker is asked again until it has done it (K16)."""
    world, controller = moved()
    active = controller.active
    assert Topic.decode("", world.find(Topic.path("t")).data).partitions == {0: (2, 3)}
    assert "error 56" in active.parts.events.blocked["removal of t-0 on broker 1"]
    assert asked(world) == 1
    world.advance(AGAIN_MS + 1_000, 5_000)
    assert asked(world) == 2
    assert tp(0) in world.hosts[1].logs
    world.hosts[1].refusals.clear()
    world.advance(AGAIN_MS + 1_000, 5_000)
    assert asked(world) == 3
    assert tp(0) not in world.hosts[1].logs
    assert active.parts.events.blocked == {}
    world.advance(3 * AGAIN_MS, 5_000)

    assert asked(world) == 3


def test_a_replica_that_is_wanted_again_is_left_alone() -> None:
    """It has moved back to broker 1 meanwhile, whose replica is no stray replica any more (K16)."""
    world, controller = moved()
    world.hosts[1].refusals.clear()
    move(world, (1, 2), (2, 3, 1))
    before = asked(world)
    world.advance(2 * AGAIN_MS, 5_000)

    assert asked(world) == before
    assert tp(0) in world.hosts[1].logs
    active = controller.active
    assert active.parts.events.blocked == {}


def test_a_broker_that_is_down_is_asked_when_it_is_back() -> None:
    """Its incarnation does not matter, the log outlives it (K16)."""
    world, _ = moved()
    world.stop_broker(1)
    world.hosts[1].refusals.clear()
    world.advance(AGAIN_MS + 1_000, 5_000)
    world.start_broker(1)
    world.advance(AGAIN_MS + 1_000, 5_000)

    assert tp(0) not in world.hosts[1].logs


def test_what_a_broker_kept_that_was_down_at_the_end_of_a_move_goes_when_it_is_back() -> None:
    """The move does not wait for who leaves, and no one answers for it; its return is the occasion."""
    world, controller = loaded_cluster({0: (1, 2)}, auto_rebalance=False)
    world.stop_broker(1)
    move(world, (2, 3), (2, 3))
    active = controller.active
    assert asked(world) == 0
    assert tp(0) in world.hosts[1].logs
    world.start_broker(1)

    assert asked(world) == 1
    assert tp(0) not in world.hosts[1].logs
    assert (active.features.stray_replicas._strays, active.parts.events.blocked) == ({}, {})


def test_what_a_broker_had_not_answered_when_it_died_is_asked_again() -> None:
    """The request went to a connection that is gone with it."""
    world = SteppedControllers(auto_rebalance=False)
    world.make_topic("t", {0: (1, 2)})
    world.new_controller()
    world.hosts[1].silent = True
    move(world, (2, 3), (1, 2, 3))
    world.stop_broker(1)
    world.hosts[1].silent = False
    world.start_broker(1)

    assert tp(0) not in world.hosts[1].logs


def deaf(world: SteppedControllers) -> ControllerNode:
    """`t-0` has moved from 1, 2 to 2, 3, and the controller dies before broker 1 has got its StopReplica."""
    world.make_topic("t", {0: (1, 2)})
    controller = world.new_controller()
    assert tp(0) in world.hosts[1].logs
    world.hosts[1].silent = True
    move(world, (2, 3), (1, 2, 3))
    assert asked(world) == 0
    world.crash(controller)
    world.hosts[1].silent = False
    return controller


def test_what_a_controller_left_behind_is_deleted_by_the_next() -> None:
    """The record of the end says who had it, the list of today who has it no more (K16)."""
    world = SteppedControllers(auto_rebalance=False)
    deaf(world)
    controller = world.new_controller()
    active = controller.active

    assert asked(world) == 1
    assert tp(0) not in world.hosts[1].logs
    assert tp(0) in world.hosts[3].logs
    assert (active.features.stray_replicas._strays, active.parts.events.blocked) == ({}, {})


def test_what_was_left_on_a_broker_that_is_down_goes_when_it_is_back() -> None:
    """It is not waited for: nothing else depends on it."""
    world = SteppedControllers(auto_rebalance=False)
    deaf(world)
    world.stop_broker(1, run=False)
    world.new_controller()
    world.start_broker(1, run=False)
    world.advance(AGAIN_MS + 1_000, 5_000)

    assert asked(world) == 1
    assert tp(0) not in world.hosts[1].logs


def test_a_replica_that_has_its_place_again_is_not_deleted_by_the_next_controller() -> None:
    """Moved there and back: the records name it, and so does the list of today."""
    world, controller = loaded_cluster({0: (1, 2)}, auto_rebalance=False)
    move(world, (2, 3), (1, 2, 3))
    move(world, (1, 2), (1, 2, 3))
    world.crash(controller)
    before = asked(world)
    world.new_controller()

    assert asked(world) == before
    assert tp(0) in world.hosts[1].logs


def test_what_is_left_of_a_topic_that_others_have_deleted_meets_no_other_of_its_name() -> None:
    """The czxid that is recorded is not that of the next one: the broker deletes before it is a replica, and
    does not lose to a late request what it has then."""
    world = SteppedControllers(auto_rebalance=False)
    deaf(world)
    for path in [TopicConfig.path("t"), *sorted(world.below(Topic.path("t")), reverse=True)]:
        world.delete(path)
    world.make_topic("t", {0: (1,)})
    world.new_controller()
    requests = [
        type(each).__name__
        for each in world.hosts[1].requests
        if isinstance(each, StopReplicaRequest | LeaderAndIsrRequest)
    ]

    assert requests[-2:] == ["StopReplicaRequest", "LeaderAndIsrRequest"]
    assert tp(0) in world.hosts[1].logs
    assert world.state(tp(0)).leader == 1
    world.advance(2 * AGAIN_MS, 5_000)
    assert tp(0) in world.hosts[1].logs


def test_a_replica_that_an_unclean_election_elected_is_not_deleted() -> None:
    """It could not delete late in a move, the target has died since, and it leads now (recipes 15 and 17)."""
    world = SteppedControllers(auto_rebalance=False)
    world.make_topic("t", {0: (1,)})
    world.new_controller()
    world.hosts[1].refusals[tp(0)] = ErrorCode.KAFKA_STORAGE_ERROR
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0), (2, 3)),)).encode())
    world.run()
    world.set_state(tp(0), isr=(1, 2, 3))
    world.run(lambda: asked(world) > 0)
    world.set_state(tp(0), isr=(2,))
    world.run()
    world.stop_broker(2, run=False)
    world.stop_broker(3)
    world.server.put(UncleanElection.path(), UncleanElection((tp(0),), 1, "somebody").encode())
    world.run()
    state = world.state(tp(0))
    assert (state.leader, state.isr) == (1, (1,))
    before = asked(world)
    world.advance(2 * AGAIN_MS, 5_000)

    assert asked(world) == before
