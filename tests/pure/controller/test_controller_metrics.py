"""What a controller counts of the cluster."""

from __future__ import annotations

from tests.worlds.stepped_controllers import SteppedControllers
from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.status import ControllerMetrics
from zkgroup.model.ports import Instant


def test_a_cluster_is_counted_by_the_active_controller() -> None:
    """A broker goes: of three partitions one has no leader then, another a second best."""
    world = SteppedControllers(auto_rebalance=False)
    world.make_topic("t", {0: (1, 2), 1: (2, 3)})
    world.make_topic("u", {0: (1,)})
    idle = world.new_elector()
    assert idle.machine.figures() is None
    world.run()
    controller = world.new_controller() if not idle.is_active else idle
    assert controller.machine.figures() == ControllerMetrics(2, 3, 0, 0, 0, 0)

    world.stop_broker(1)
    assert controller.machine.figures() == ControllerMetrics(2, 3, 1, 2, 0, 0)
    world.mark("u")
    assert controller.machine.figures() == ControllerMetrics(2, 3, 0, 1, 0, 0)  # it waits to be deleted
    world.start_broker(1)
    assert controller.machine.figures() == ControllerMetrics(1, 2, 0, 1, 0, 0)


def test_what_waits_is_counted_with_its_age() -> None:
    """While a request to ZooKeeper is not answered."""
    world = SteppedControllers(auto_rebalance=False)
    controller = world.new_controller()
    active = controller.machine.active
    assert active is not None
    active.parts.events.enqueue(event_manager.TOPICS)
    world.clock.advance(700)
    active.parts.core.begin(Instant(world.clock.now_ms(), world.clock.wall_ms()))
    active.parts.events.enqueue(event_manager.PLANS)

    figures = controller.machine.figures()
    assert figures is not None
    assert (figures.queue_size, figures.queue_oldest_ms) == (2, 700)


def test_each_election_is_reported_with_the_time_it_took() -> None:
    """Leaders that one handler elects count as one election; a handler that elects none is no election."""
    world = SteppedControllers(auto_rebalance=False)
    controller = world.new_controller()
    world.make_topic("t", {0: (1, 2), 1: (1, 3)})
    world.run()
    world.stop_broker(1)
    world.stop_broker(3)

    received = [(each["leaders"], each["reason"], each["ms"]) for each in controller.notes("election.done")]
    assert received[:2] == [(2, "new topic", 0), (2, "change of brokers", 0)]
