"""Topics that were deleted without a broker that is lost, and what is seen of them."""

from __future__ import annotations

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers, left_of, two_topic_cluster
from zkgroup.model import TopicPartition
from zkgroup.wire.control import LeaderAndIsrRequest, StopReplicaRequest
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.stray_replicas import AbandonedReplicas, StrayReplicas, StrayTopic, stray_replicas_path


def kept(world: SteppedControllers) -> list[tuple[int, StrayTopic]]:
    """What is recorded of what brokers may still have: broker, and of which topic."""
    paths = sorted(world.below(stray_replicas_path()) - {stray_replicas_path()})
    found = []
    for path in paths:
        place = StrayReplicas.place_of(path.rpartition("/")[2])
        assert place is not None, path
        topics = StrayReplicas.decode(path, world.find(path).data).topics
        found += [(place[0], each) for each in topics]
    return found


def records(world: SteppedControllers) -> list[AbandonedReplicas]:
    """What is recorded of topics that are gone."""
    found = []
    for broker, (topic, czxid, partitions, epoch) in kept(world):
        znode = world.server.find(Topic.path(topic))
        if znode is None or znode.stat.czxid != czxid:
            found.append(AbandonedReplicas(topic, broker, partitions, epoch))
    return found


def forced() -> tuple[SteppedControllers, ControllerNode]:
    """Broker 3 is lost, and `t` was deleted without it."""
    world, controller = two_topic_cluster(auto_rebalance=False)
    world.stop_broker(3)
    world.mark("t", 3)
    assert left_of(world, "t") == set()
    assert tp(1) in world.hosts[3].logs
    return world, controller


def received(world: SteppedControllers, broker: int) -> list[str]:
    """The requests for `t-1`, which a broker had, in order."""
    return received_of(world, broker, tp(1))


def received_of(world: SteppedControllers, broker: int, topic_partition: TopicPartition) -> list[str]:
    """The requests for a partition that a broker got, in order."""
    heard = []
    for each in world.hosts[broker].requests:
        if isinstance(each, StopReplicaRequest) and topic_partition in each.partitions:
            heard.append("delete" if each.delete else "stop")
        if isinstance(each, LeaderAndIsrRequest) and any(
            one.topic_partition == topic_partition for one in each.partitions
        ):
            heard.append("replica")
    return heard
