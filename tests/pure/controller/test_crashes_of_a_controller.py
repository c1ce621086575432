"""Crashes and lost answers between any two steps of a controller: the next controller, brokers and states
agree."""

from __future__ import annotations

import random

import pytest

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers
from zkgroup.model import TopicPartition
from zkgroup.testing.memory_zookeeper import Fault
from zkgroup.wire.control import LeaderAndIsrRequest
from zkgroup.znodes.brokers import PartitionState, Topic

FAULTS: tuple[Fault | None, ...] = (None, "lost_reply", "lost_request", "late")


def assert_received(world: SteppedControllers) -> None:
    """Every live replica knows leader, ISR, leader epoch and version as they stand in ZooKeeper (K9)."""
    for path, znode in world.server.tree().items():
        if not path.endswith("/state"):
            continue
        _, _, _, topic, _, number, _ = path.split("/")
        topic_partition = TopicPartition(topic, int(number))
        state = PartitionState.decode(path, znode.data)
        lists = Topic.decode("t", world.find(Topic.path(topic)).data).partitions
        for broker in lists[topic_partition.partition]:
            host = world.hosts[broker]
            if not host.incarnation:
                continue
            received = [
                (info.leader, info.leader_epoch, info.isr, info.zk_version)
                for request in host.requests
                if isinstance(request, LeaderAndIsrRequest)
                for info in request.partitions
                if info.topic_partition == topic_partition
            ]
            expected = (state.leader, state.leader_epoch, state.isr, znode.stat.version)
            assert received[-1:] == [expected], f"{topic_partition} on broker {broker}"


def changes(world: SteppedControllers) -> None:
    """A broker goes, one bounces, a topic comes, one grows."""
    world.stop_broker(1, run=False)
    world.make_topic("new", {0: (1, 2), 1: (3, 2)})
    world.grow("t", {0: (1, 2), 1: (2, 3), 2: (3, 1), 3: (2, 1)})
    world.stop_broker(3, run=False)
    world.start_broker(3, run=False)


def prepared() -> tuple[SteppedControllers, ControllerNode]:
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2), 1: (2, 3), 2: (3, 1)})
    return world, world.new_controller()


@pytest.mark.parametrize("writes", range(1, 9))
def test_a_crash_after_any_write_leaves_nothing_unsent(writes: int) -> None:
    """controller.md 2.3, recipes 13: the successor elects what is left and sends everything to every
    broker."""
    world, controller = prepared()
    changes(world)
    world.run_until_written(controller, writes)
    world.crash(controller)
    second = world.new_controller()
    world.advance(5000)

    assert second.is_active
    assert_received(world)
    assert {world.state(tp(number)).leader for number in range(4)} <= {2, 3}
    assert world.state(tp(0, "new")).leader == 2


@pytest.mark.parametrize("seed", range(25))
def test_under_any_order_of_answers_brokers_and_states_agree_in_the_end(seed: int) -> None:
    """Requests and replies are lost or late, connections break, the controller stays (recipes 16)."""
    rng = random.Random(seed)
    world, controller = prepared()
    changes(world)
    for _ in range(rng.randrange(400)):
        steps = world.server.pending()
        if not steps:
            if not sum(node.loop.run_pending() for node in world.nodes):
                break
            continue
        step = rng.choice(steps)
        fault = rng.choice(FAULTS) if step.kind == "request" and rng.random() < 0.05 else None
        world.deliver(step, fault)
        if rng.random() < 0.02:
            world.server.suspend(controller.name)
        if rng.random() < 0.1:
            world.server.resume(controller.name)
    world.server.resume(controller.name)
    world.run()
    world.advance(20_000)

    assert [node for node in world.nodes if node.is_active]
    assert_received(world)
    assert world.state(tp(0, "new")).leader == 2
    assert world.state(tp(3)).leader == 2
