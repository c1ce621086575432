"""Every change of a leader is logged once, with its reason."""

from __future__ import annotations

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers
from zkgroup.znodes.admin_requests import PreferredElection


def changes(controller: ControllerNode) -> list[tuple[object, ...]]:
    """Partition, who led, who leads, leader epoch and reason, of those logged since the last call."""
    received = [
        (each["partition"], each["was"], each["leader"], each["leader_epoch"], each["reason"])
        for each in controller.notes("leader.changed")
    ]
    controller.effects.clear()
    return received


def test_each_change_of_a_leader_is_reported_with_its_reason() -> None:
    """A topic, a broker that goes and comes back, a preferred election, a controlled shutdown, a deletion."""
    world = SteppedControllers(auto_rebalance=False)
    controller = world.new_controller()
    world.make_topic("t", {0: (1, 2)})
    world.run()
    assert changes(controller) == [("t-0", None, 1, 0, "new topic")]

    world.stop_broker(1)
    assert changes(controller) == [("t-0", 1, 2, 1, "change of brokers")]

    world.start_broker(1)
    world.set_state(tp(0), isr=(2, 1))
    world.run()
    assert changes(controller) == []

    world.server.put(PreferredElection.path(), PreferredElection((tp(0),)).encode())
    world.run()
    assert changes(controller) == [("t-0", 2, 1, 2, "preferred election")]

    controller.ask_shutdown(1, 1)
    world.run()
    assert changes(controller)[0] == ("t-0", 1, 2, 3, "controlled shutdown")


def test_a_take_over_sends_only_what_it_changes() -> None:
    """States that it only reads are no changes, however many; nor is the same again on a new connection."""
    world = SteppedControllers(auto_rebalance=False)
    former = world.new_controller()
    world.make_topic("t", {0: (1, 2), 1: (3, 2)})
    world.run()
    world.crash(former)
    world.stop_broker(3)
    controller = world.new_controller()

    assert changes(controller) == [("t-1", 3, 2, 1, "take-over")]
    world.server.disconnect(controller.client, "cut")
    world.advance(1_000)
    assert changes(controller) == []
