"""Leaders that have started again before their controller came: their leader epochs are over."""

from __future__ import annotations

import pytest

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers, loaded_cluster
from zkgroup.model.requests import SetData
from zkgroup.testing.memory_zookeeper import Fault, ServerStep
from zkgroup.wire.control import LeaderAndIsrRequest
from zkgroup.znodes.brokers import PartitionState, Topic


def bounce(world: SteppedControllers, broker: int, *, is_zkgroup: bool = True) -> None:
    """It starts again, at once; what its controller makes of it has not happened yet."""
    world.stop_broker(broker, run=False)
    world.start_broker(broker, is_zkgroup=is_zkgroup, run=False)


def left_leaderless(world: SteppedControllers) -> SteppedControllers:
    """Three topics' worth of leaders, and a controller that is gone."""
    world.make_topic("t", {0: (1, 2, 3), 1: (2, 1), 2: (1,), 3: (3, 1)})
    world.crash(world.new_controller())
    for host in world.hosts.values():
        host.requests.clear()
    return world


def led(world: SteppedControllers, broker: int) -> list[dict[str, tuple[int, int]]]:
    """Leader and leader epoch of each partition, in each LeaderAndIsr that the broker got."""
    return [
        {str(info.topic_partition): (info.leader, info.leader_epoch) for info in request.partitions}
        for request in world.hosts[broker].requests
        if isinstance(request, LeaderAndIsrRequest)
    ]


def epochs(world: SteppedControllers) -> list[int]:
    return [world.state(tp(number)).leader_epoch for number in range(4)]


def ended(controller: ControllerNode) -> list[object]:
    return [fields["written"] for fields in controller.notes("leader_epochs.started")]


def test_a_leader_that_started_again_unseen_leads_in_a_new_leader_epoch() -> None:
    """replica-host.md rule 1: in its old leader epoch it could append other records at offsets that followers
    have."""
    world = left_leaderless(SteppedControllers())
    bounce(world, 1)
    controller = world.new_controller()

    assert world.state(tp(0)) == PartitionState(1, 1, (1, 2, 3), 2)
    assert world.state(tp(2)) == PartitionState(1, 1, (1,), 2)
    assert epochs(world) == [1, 0, 1, 0]
    roles = {"t-0": (1, 1), "t-1": (2, 0), "t-2": (1, 1), "t-3": (3, 0)}
    assert led(world, 1) == [roles]
    assert led(world, 2) == [{"t-0": (1, 1), "t-1": (2, 0)}]
    assert ended(controller) == [2]


def test_a_leader_epoch_is_ended_once() -> None:
    """The state is younger than the registration then: no controller after it writes again."""
    world = left_leaderless(SteppedControllers())
    bounce(world, 1)
    world.crash(world.new_controller())
    controller = world.new_controller()

    assert epochs(world) == [1, 0, 1, 0]
    assert ended(controller) == []


def test_leaders_of_kafka_are_not_touched() -> None:
    """Whose registration has no zkgroup key: its log is not zkgroup's to judge, its version not to be
    changed."""
    world = left_leaderless(SteppedControllers())
    bounce(world, 1, is_zkgroup=False)
    controller = world.new_controller()

    assert epochs(world) == [0, 0, 0, 0]
    assert ended(controller) == []


def test_a_restart_of_the_whole_cluster_ends_all_leader_epochs_in_few_writes() -> None:
    """One packet for all that fits into one; no broker gets the old leader epochs."""
    world = left_leaderless(SteppedControllers())
    for broker in (1, 2, 3):
        bounce(world, broker)
    controller = world.new_controller()

    assert epochs(world) == [1, 1, 1, 1]
    assert ended(controller) == [4]
    writes = {world.find(PartitionState.path(tp(number))).stat.mzxid for number in range(4)}
    assert len(writes) == 1
    assert all(epoch == 1 for request in led(world, 1) for _, epoch in request.values())


def test_a_state_that_the_leader_writes_meanwhile_is_decided_again() -> None:
    """Its packet is refused: an ISR keeps the leader epoch, whichever client wrote it after the start."""
    world = left_leaderless(SteppedControllers())
    bounce(world, 1)
    controller = world.new_elector()
    world.until_asked(controller, PartitionState.path(tp(0)))
    world.set_state(tp(0), isr=(1, 3))
    world.run()

    assert world.state(tp(0)) == PartitionState(1, 1, (1, 3), 2)
    assert epochs(world) == [1, 0, 1, 0]
    assert led(world, 3) == [{"t-0": (1, 1), "t-3": (3, 0)}]


@pytest.mark.parametrize("fault", ["lost_reply", "lost_request"])
def test_a_write_without_an_answer_ends_the_leader_epoch_once(fault: Fault) -> None:
    """Everything is read again, and what is younger than the registration is left alone."""
    world = left_leaderless(SteppedControllers())
    bounce(world, 1)
    controller = world.new_elector()
    world.until_asked(controller, PartitionState.path(tp(0)))
    world.deliver(ServerStep("request", controller.name), fault)
    world.run()
    world.server.resume(controller.name)
    world.advance(10_000)

    assert epochs(world) == [1, 0, 1, 0]
    assert led(world, 1)[-1]["t-0"] == (1, 1)


def test_a_topic_repaired_after_a_restart_gets_new_leader_epochs_too() -> None:
    """Its states were not read by the take-over."""
    world = left_leaderless(SteppedControllers())
    good = world.find(Topic.path("t"))
    assert good.data is not None
    world.write(SetData(Topic.path("t"), b"{", good.stat.version))
    bounce(world, 1)
    controller = world.new_controller()
    world.write(SetData(Topic.path("t"), good.data, good.stat.version + 1))
    world.run()

    assert epochs(world) == [1, 0, 1, 0]
    assert ended(controller) == [2]


def test_a_bounce_seen_on_a_new_connection_ends_the_leader_epoch_as_any_other() -> None:
    """It leaves the ISR: what it led alone is led by it again, the rest by others."""
    world, controller = loaded_cluster({0: (1, 2, 3), 1: (2, 1), 2: (1,), 3: (3, 1)})
    world.server.suspend(controller.name)
    world.run()
    bounce(world, 1)
    world.server.resume(controller.name)
    world.run()

    assert world.state(tp(0)) == PartitionState(2, 1, (2, 3), 1)
    assert world.state(tp(2)) == PartitionState(1, 2, (1,), 1)
    assert ended(controller) == []
