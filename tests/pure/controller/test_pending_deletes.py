"""Replicas that a late request may still delete, under an active controller (recipes 17)."""

from __future__ import annotations

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import SteppedControllers, loaded_cluster
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic


def test_a_move_continues_when_a_new_start_of_a_broker_has_answered() -> None:
    """Recipes 17: until it has answered a request of this epoch it is held; nothing else would check
    again."""
    world, controller = loaded_cluster({0: (1, 2)}, auto_rebalance=False)
    world.stop_broker(3)
    world.hosts[3].silent = True
    world.start_broker(3, run=False)
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0), (3, 1)),)).encode())
    world.run()
    active = controller.active
    assert "broker 3" in active.parts.events.blocked["move of t-0"]
    assert Topic.decode("", world.find(Topic.path("t")).data).partitions == {0: (1, 2)}

    world.hosts[3].silent = False
    controller.answer_all()
    world.run()
    assert Topic.decode("", world.find(Topic.path("t")).data).partitions == {0: (3, 1, 2)}


def test_a_partition_without_a_state_is_begun_when_its_broker_has_answered() -> None:
    """The same of a partition that is moved before it has ever had a leader."""
    world = SteppedControllers(auto_rebalance=False)
    controller = world.new_controller()
    world.stop_broker(3, run=False)
    world.make_topic("t", {0: (3,)})
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0), (3, 1)),)).encode())
    world.run()
    world.hosts[3].silent = True
    world.start_broker(3)
    assert world.server.find(PartitionState.path(tp(0))) is None

    world.hosts[3].silent = False
    controller.answer_all()
    world.run()
    assert world.state(tp(0)).leader == 3
