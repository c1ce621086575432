"""A deletion whose controller crashes, or gets no answer, at each of its writes in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.pure.controller.forced import records
from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import (
    TWO,
    ControllerNode,
    SteppedControllers,
    is_gone,
    left_of,
    loses_answer,
    rounds,
    two_topic_cluster,
)
from zkgroup.controller.machine.deletion import decision
from zkgroup.controller.machine.fenced_writes import Write
from zkgroup.model.requests import Delete
from zkgroup.testing.memory_zookeeper import Fault, ServerStep
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.config import TopicConfig


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Znodes go in as many transactions as there are partitions, and one more, as those of a big topic."""
    remove = decision.remove_topic

    def small(*args: Any) -> Sequence[Write]:
        topic, partitions, found, _, *records = args
        return remove(topic, partitions, found, 300, *records)

    monkeypatch.setattr(decision, "remove_topic", small)


def crashed_after(writes: int) -> bool:
    """A deletion whose controller is gone after so many of its writes; whether it had that many."""
    world = SteppedControllers()
    world.make_topic("t", TWO, {"retention.ms": "5"})
    world.make_topic("u", {0: (1, 2, 3)}, {"retention.ms": "6"})
    controller = world.new_controller()
    kept = {path: world.find(path).data for path in left_of(world, "u")}
    logs = {id_: {each for each in host.logs if each.topic == "u"} for id_, host in world.hosts.items()}
    world.mark("t", run=False)
    was_there = world.run_until_written(controller, writes)
    world.crash(controller)
    for host in world.hosts.values():
        host.epoch = max(host.epoch, 1)
    successor = world.new_controller()

    assert is_gone(world)
    assert {path: world.find(path).data for path in left_of(world, "u")} == kept
    assert {id_: host.logs for id_, host in world.hosts.items()} == logs
    assert all(host.metadata == {tp(0, "u"): 1} for host in world.hosts.values())
    assert successor.is_active
    assert not successor.notes("transition.refused")
    return was_there


def test_a_crash_after_any_write_of_a_deletion_ends_with_the_topic_gone(in_parts: None) -> None:
    """Each write in turn; the successor finishes, and touches nothing else."""
    assert rounds(crashed_after) > 2


def test_a_forced_deletion_in_parts_ends(in_parts: None) -> None:
    """Records of brokers that are lost fill writes of their own, and each is made once."""
    world, _ = two_topic_cluster(auto_rebalance=False)
    world.stop_broker(2)
    world.stop_broker(3)
    world.mark("t", 2, 3)

    assert left_of(world, "t") == set()
    assert [each.broker for each in records(world)] == [2, 3]


def unanswered(nth: int, fault: Fault) -> bool:
    """A deletion whose nth write gets no answer; whether it had that many."""
    world, controller = two_topic_cluster()
    world.mark("t", run=False)
    if not loses_answer(world, controller, nth, fault):
        return False
    assert is_gone(world), (fault, nth)
    assert world.state(tp(0, "u")).leader == 1
    return True


@pytest.mark.parametrize("fault", ["lost_reply", "lost_request", "late"])
def test_a_write_without_an_answer_is_read_back(in_parts: None, fault: Fault) -> None:
    """Each write of a deletion in turn is executed, or not, or later; the same process finishes."""
    assert rounds(unanswered, fault) > 2


@pytest.mark.parametrize("fault", ["lost_reply", "late", None])
def test_a_topic_made_again_after_a_lost_answer_is_not_deleted_again(fault: Fault | None) -> None:
    """The last write is executed and its answer lost; by the time it is read back the name is taken (K21)."""
    world, controller = two_topic_cluster()
    world.mark("t", run=False)
    world.run(lambda: ends_topic(world, controller))
    assert ends_topic(world, controller)
    if fault is None:
        world.server.cut(controller.name, executed=1)
    else:
        world.deliver(ServerStep("request", controller.name), fault)
    while controller.client.orphans:
        world.deliver(ServerStep("orphan", controller.name))
    assert left_of(world, "t") == set()
    world.make_topic("t", {0: (3, 1), 1: (1, 3), 2: (3,)}, {"retention.ms": "7"})
    made = world.find(Topic.path("t")).stat.czxid
    world.run()
    world.advance(10_000)

    topic = world.find(Topic.path("t"))
    assert topic.stat.czxid == made
    assert Topic.decode("", topic.data).partitions == {0: (3, 1), 1: (1, 3), 2: (3,)}
    config = TopicConfig.decode("", world.find(TopicConfig.path("t")).data)
    assert config.overrides == {"retention.ms": "7"}
    assert [world.state(tp(number)).leader for number in range(3)] == [3, 1, 3]
    assert world.hosts[2].metadata[tp(0)] == 3


def ends_topic(world: SteppedControllers, controller: ControllerNode) -> bool:
    """Whether the controller's next request takes the topic away."""
    asked = world.asked(controller, Topic.path("t"))
    return asked is not None and any(isinstance(each, Delete) for each in asked.operations)
