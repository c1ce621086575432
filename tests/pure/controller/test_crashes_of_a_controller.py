"""Crashes and lost answers between any two steps of a rule: whoever rules next, brokers and states agree."""

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


def assert_told(realm: SteppedControllers) -> None:
    """Every live replica knows leader, ISR, leader epoch and version as they stand in ZooKeeper (K9)."""
    for path, znode in realm.server.tree().items():
        if not path.endswith("/state"):
            continue
        _, _, _, topic, _, number, _ = path.split("/")
        topic_partition = TopicPartition(topic, int(number))
        state = PartitionState.decode(path, znode.data)
        lists = Topic.decode("t", realm.find(Topic.path(topic)).data).partitions
        for broker in lists[topic_partition.partition]:
            host = realm.hosts[broker]
            if not host.incarnation:
                continue
            told = [
                (info.leader, info.leader_epoch, info.isr, info.zk_version)
                for request in host.requests
                if isinstance(request, LeaderAndIsrRequest)
                for info in request.partitions
                if info.topic_partition == topic_partition
            ]
            expected = (state.leader, state.leader_epoch, state.isr, znode.stat.version)
            assert told[-1:] == [expected], f"{topic_partition} on broker {broker}"


def changes(realm: SteppedControllers) -> None:
    """A broker goes, one bounces, a topic comes, one grows."""
    realm.stop_broker(1, run=False)
    realm.make_topic("new", {0: (1, 2), 1: (3, 2)})
    realm.grow("t", {0: (1, 2), 1: (2, 3), 2: (3, 1), 3: (2, 1)})
    realm.stop_broker(3, run=False)
    realm.start_broker(3, run=False)


def prepared() -> tuple[SteppedControllers, ControllerNode]:
    realm = SteppedControllers()
    realm.make_topic("t", {0: (1, 2), 1: (2, 3), 2: (3, 1)})
    return realm, realm.rule()


@pytest.mark.parametrize("writes", range(1, 9))
def test_a_crash_after_any_write_leaves_nothing_untold(writes: int) -> None:
    """controller.md 2.3, recipes 13: the successor elects what is left and tells everybody everything."""
    realm, ruler = prepared()
    changes(realm)
    realm.run_until_written(ruler, writes)
    realm.crash(ruler)
    second = realm.rule()
    realm.advance(5000)

    assert second.rules
    assert_told(realm)
    assert {realm.state(tp(number)).leader for number in range(4)} <= {2, 3}
    assert realm.state(tp(0, "new")).leader == 2


@pytest.mark.parametrize("seed", range(25))
def test_under_any_order_of_answers_brokers_and_states_agree_in_the_end(seed: int) -> None:
    """recipes 16: requests and replies are lost or late, connections break, the controller stays."""
    rng = random.Random(seed)
    realm, ruler = prepared()
    changes(realm)
    for _ in range(rng.randrange(400)):
        steps = realm.server.pending()
        if not steps:
            if not sum(node.loop.run_pending() for node in realm.nodes):
                break
            continue
        step = rng.choice(steps)
        fault = rng.choice(FAULTS) if step.kind == "request" and rng.random() < 0.05 else None
        realm.deliver(step, fault)
        if rng.random() < 0.02:
            realm.server.suspend(ruler.name)
        if rng.random() < 0.1:
            realm.server.resume(ruler.name)
    realm.server.resume(ruler.name)
    realm.run()
    realm.advance(20_000)

    assert [node for node in realm.nodes if node.rules]
    assert_told(realm)
    assert realm.state(tp(0, "new")).leader == 2
    assert realm.state(tp(3)).leader == 2
