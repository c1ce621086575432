"""Waiting for leaders of partitions, and for the end of a topic's deletion."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.topics.creation import wait_for_leaders
from zkgroup.admin.topics.deletion import (
    TopicDeletionPlan,
    delete_topic,
    plan_topic_deletion,
    wait_until_gone,
)
from zkgroup.admin.topics.listing import NOT_REPORTED
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.controller import ControllerStatus


@pytest.fixture
def cluster(world: MemoryGroups) -> MemoryCluster:
    """Brokers 1 to 3 of Kafka, and `orders` on 1, 2 and a broker that is not there."""
    found = MemoryCluster(world)
    found.topic("orders", (1, 2), (2, 4))
    return found


def _tp(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def _after(world: MemoryGroups, *acts: Callable[[], object]) -> Ensemble:
    """An operator who sees one of these happen in each pause, then nothing more."""
    left = list(acts)

    def pause(seconds: float) -> None:
        world.pass_time(seconds)
        if left:
            left.pop(0)()

    return world.operator(world.server.client(), pause)


def _gone(world: MemoryGroups, *paths: str) -> None:
    world.write(*(Delete(path, -1) for path in paths))


def test_waiting_ends_once_every_partition_is_led(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """By a registered broker with replicas; each check is reported."""
    looks: list[tuple[int, int]] = []
    cluster.state("orders", 0, -1, (1,))
    _gone(world, PartitionState.path(_tp(1)))
    operator = _after(
        world, lambda: cluster.state("orders", 0, 1, (1,)), lambda: cluster.state("orders", 1, 2, (2,))
    )

    seen = wait_for_leaders(operator, {_tp(0): (1, 2), _tp(1): (2, 4)}, 60, lambda *look: looks.append(look))

    assert (seen.leaderless, looks) == ({}, [(0, 2), (1, 2), (2, 2)])


def test_the_reason_for_a_missing_leader_is_reported(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """The znode that cannot be read, brokers that are gone, the controller's own word, or that it is slow."""
    cluster.topic("orders", *[(1, 2)] * 3, (8, 9), (1, 2))
    cluster.broker(9, zkgroup={"role": "controller"})
    world.server.put(PartitionState.path(_tp(0)), b"{")
    for number, leader in ((1, -1), (2, 4), (4, -1)):
        cluster.state("orders", number, leader, (2, 4))
    _gone(world, PartitionState.path(_tp(3)))
    cluster.ours()
    waiting = {"leader of orders-1": "broker 2 does not answer"}
    world.hold(ControllerStatus.path(), ControllerStatus(1, 7, 1, 5, waiting=waiting).encode())
    replicas = {_tp(number): (1, 2) for number in (0, 1, 2, 4)} | {_tp(3): (8, 9)}

    seen = wait_for_leaders(world.ensemble, replicas, 0, lambda *_: None)
    cluster.no_controller()
    unruled = wait_for_leaders(world.ensemble, {_tp(3): (8, 9), _tp(4): (1, 2)}, 0, lambda *_: None)

    told = [why for _, why in sorted(seen.leaderless.items())]
    assert told[0].startswith(f"{PartitionState.path(_tp(0))}: expected a partition state")
    assert told[1:] == [
        "broker 2 does not answer",
        "its leader 4 is not registered",
        "brokers 8, 9 are not registered, or hosting nothing",
        "the controller has not elected a leader yet",
    ]
    assert list(unruled.leaderless.values()) == [
        "there is no active controller; brokers 8, 9 are not registered, or hosting nothing",
        "there is no active controller",
    ]


def test_the_wait_for_leaders_runs_out(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """After the time given, not later."""
    cluster.state("orders", 0, -1, (1,))
    began = world.clock.now_ms()

    seen = wait_for_leaders(world.ensemble, {_tp(0): (1, 2)}, 1.2, lambda *_: None)

    assert list(seen.leaderless) == [_tp(0)]
    assert world.clock.now_ms() - began == 1200


@pytest.fixture
def asked(world: MemoryGroups, cluster: MemoryCluster) -> TopicDeletionPlan:
    """The deletion of `orders`, asked for."""
    plan = plan_topic_deletion(world.ensemble, "orders")
    delete_topic(world.ensemble, plan)
    return plan


def test_waiting_ends_once_nothing_is_left(
    world: MemoryGroups, cluster: MemoryCluster, asked: TopicDeletionPlan
) -> None:
    """Topic, configuration and request, one after the other; a change of what it waits for is reported."""
    told: list[str] = []
    tree = [znode.path for znode in asked.znodes if znode.path.startswith(Topic.path("orders"))]
    operator = _after(
        world,
        lambda: None,
        lambda: cluster.broker(4),
        lambda: _gone(world, *reversed(tree)),
        lambda: _gone(world, TopicConfig.path("orders")),
        lambda: _gone(world, TopicDeletion.path("orders")),
    )
    began = world.clock.now_ms()

    seen = wait_until_gone(operator, asked, 60, told.append)

    assert (seen.gone, seen.detail, told) == (True, None, ["waits for broker 4 to be back"])
    assert world.clock.now_ms() - began == 5 * 500


def test_a_wait_that_ends_before_the_controller_reports_says_so(
    world: MemoryGroups, cluster: MemoryCluster, asked: TopicDeletionPlan
) -> None:
    """Past bug: "nothing is known to block it" beside a lost broker. It is no progress to report."""
    cluster.ours()
    reported: list[str] = []

    early = wait_until_gone(world.ensemble, asked, 1, reported.append)
    waiting = {"deletion of orders": "waits for broker 4 to be back"}
    world.hold(ControllerStatus.path(), ControllerStatus(1, 7, 1, 5, waiting=waiting).encode())
    late = wait_until_gone(world.ensemble, asked, 1, reported.append)

    assert (early.gone, early.detail) == (False, NOT_REPORTED)
    assert (late.gone, late.detail) == (False, "waits for broker 4 to be back")
    assert reported == ["waits for broker 4 to be back"]


def test_the_wait_for_a_deletion_runs_out(world: MemoryGroups, asked: TopicDeletionPlan) -> None:
    """With the reasons that `topic describe` prints."""
    seen = wait_until_gone(world.ensemble, asked, 1, lambda _: None)

    assert (seen.gone, seen.detail) == (False, "waits for broker 4 to be back")


def test_a_request_that_is_dropped_is_not_waited_for(world: MemoryGroups, asked: TopicDeletionPlan) -> None:
    """Kafka 1.0 and later take it away and keep the topic where delete.topic.enable is off."""
    _gone(world, TopicDeletion.path("orders"))
    told: list[str] = []

    seen = wait_until_gone(world.ensemble, asked, 60, told.append)

    assert (seen.gone, told) == (False, [])
    assert "dropped the request and kept the topic" in (seen.detail or "")


def test_a_topic_made_again_is_another_one(
    world: MemoryGroups, cluster: MemoryCluster, asked: TopicDeletionPlan
) -> None:
    """The deleted topic is gone, also if one of the same name was created since."""
    tree = [znode.path for znode in asked.znodes if znode.path.startswith(Topic.path("orders"))]
    _gone(world, *reversed(tree), TopicConfig.path("orders"), TopicDeletion.path("orders"))
    cluster.topic("orders", (1, 2))

    assert wait_until_gone(world.ensemble, asked, 0, lambda _: None).gone


def test_a_configuration_that_is_left_is_reported(world: MemoryGroups, asked: TopicDeletionPlan) -> None:
    """It is not deleted by itself: a new topic of that name is refused until then."""
    tree = [znode.path for znode in asked.znodes if znode.path.startswith(Topic.path("orders"))]
    _gone(world, *reversed(tree), TopicDeletion.path("orders"))

    seen = wait_until_gone(world.ensemble, asked, 60, lambda _: None)

    assert (seen.gone, (seen.detail or "").partition(";")[0]) == (False, "/config/topics/orders is left")
