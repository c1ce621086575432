"""The output for an operator, on every recorded tree of Kafka clusters of 0.8.2.2 to 3.9.1."""

from __future__ import annotations

import pytest

from tests.worlds import golden_data
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stores import RecordedStore
from zkgroup.admin import ConfigEntity, EntityKind, Move
from zkgroup.admin.cluster.brokers import describe_broker, list_brokers
from zkgroup.admin.cluster.controller import describe_controller, read_controller_info
from zkgroup.admin.configs import describe_configs, plan_config
from zkgroup.admin.elections import plan_preferred
from zkgroup.admin.reassign.progress import list_reassignments, verify_reassignments
from zkgroup.admin.reassign.proposals import PlanRequest, make_plan, planner_decommission
from zkgroup.admin.topics.alteration import AddedPartitions, plan_alteration
from zkgroup.admin.topics.creation import plan_topic
from zkgroup.admin.topics.deletion import plan_topic_deletion
from zkgroup.admin.topics.listing import describe_topics, list_topics
from zkgroup.errors import NotFoundError, RefusedError
from zkgroup.znodes.admin_requests import Reassignment

FOLDERS = ("kafka-0.8.2.2", "kafka-1.1.1", "kafka-2.8.2", "kafka-3.9.1")
TREES = sorted({one.file for folder in FOLDERS for one in golden_data.trees(folder)})
KINDS: tuple[EntityKind, ...] = ("topics", "brokers", "clients", "users", "ips")


@pytest.mark.parametrize("name", TREES)
def test_nothing_that_kafka_left_is_unreadable(world: MemoryGroups, name: str) -> None:
    """Brokers, controller, topics, configurations, moves; a tree below a chroot has none at its root."""
    operator = world.operator(RecordedStore(name))

    _, brokers, broken = list_brokers(operator)
    _, topics, unreadable = describe_topics(operator)
    _, moves, unknown = list_reassignments(operator)

    assert (broken, unknown) == ((), ())
    assert all("partitions" in str(error) for error in unreadable)  # a topic that was just being made
    for row in brokers:
        _, one = describe_broker(operator, row.broker)
        assert one.summary == row
        assert (row.kind, row.role) == ("kafka", "data")
    for kind in KINDS:
        assert describe_configs(operator, [], kind)[2] == ()
    try:
        _, ruler = describe_controller(operator)
    except NotFoundError:
        assert read_controller_info(operator).kind is None
    else:
        assert ruler.kind == "kafka"
        assert read_controller_info(operator).is_zkgroup is False
    _, again = verify_reassignments(operator, [Move(row.topic_partition, row.target) for row in moves])
    assert [row.status for row in again] == ["in_progress"] * len(moves)
    assert {row.topic_partition.topic for row in moves} <= {topic.topic for topic in topics}


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("kafka-0.8.2.2/06-reassignment-in-progress.jsonl", True),
        ("kafka-2.8.2/13-reassign-legacy-running.jsonl", True),
        ("kafka-2.8.2/10-reassign-running.jsonl", False),
        ("kafka-3.9.1/10-reassign-running.jsonl", False),
    ],
)
def test_running_moves_are_seen_with_and_without_a_request(
    world: MemoryGroups, name: str, asked: bool
) -> None:
    """On trees of each way to ask."""
    store = RecordedStore(name)
    operator = world.operator(store)

    _, moves, _ = list_reassignments(operator)

    assert moves
    assert (operator.zk.exists(Reassignment.path()) is not None) is asked


def test_a_cluster_that_has_migrated_is_asked_for_nothing(world: MemoryGroups) -> None:
    """On a tree of 3.9.1 whose brokers follow KRaft: refused before anything is written."""
    operator = world.operator(RecordedStore("kafka-3.9.1/m3-migration-topic-created.jsonl"))
    _, topics, _ = describe_topics(operator)
    name = topics[0].topic

    with pytest.raises(RefusedError, match="KRaft"):
        plan_config(operator, ConfigEntity.topic(name), {"retention.ms": "1"})
    with pytest.raises(RefusedError, match="KRaft"):
        plan_alteration(operator, name, AddedPartitions(partitions=99))
    with pytest.raises(RefusedError, match="KRaft"):
        plan_preferred(operator, None)
    with pytest.raises(RefusedError, match="KRaft"):
        make_plan(operator, planner_decommission([1]), PlanRequest())


DELETIONS = [
    ("kafka-0.8.2.2/03-topics-created.jsonl", ["delete.topic.enable"]),
    ("kafka-0.8.2.2/10-broker-killed.jsonl", ["delete.topic.enable", "is not registered"]),
    ("kafka-1.1.1/10-reassign-running.jsonl", ["delete.topic.enable", "are being moved"]),
    ("kafka-1.1.1/21-leaderless.jsonl", ["delete.topic.enable", "is not registered"]),
    ("kafka-2.8.2/10-reassign-running.jsonl", ["are being moved"]),
    ("kafka-2.8.2/24-leaderless.jsonl", ["is not registered"]),
    ("kafka-3.9.1/10-reassign-running.jsonl", ["are being moved"]),
    ("kafka-3.9.1/24-leaderless.jsonl", ["is not registered"]),
]


@pytest.mark.parametrize(("name", "told"), DELETIONS)
def test_what_a_controller_makes_of_a_deletion_is_said_before(
    world: MemoryGroups, name: str, told: list[str]
) -> None:
    """Of every topic of the tree together: what the release ignores, and what it waits for."""
    operator = world.operator(RecordedStore(name))
    _, topics = list_topics(operator)
    own = [topic.topic for topic in topics if not topic.internal]

    notes = {note for topic in own for note in plan_topic_deletion(operator, topic).notes}

    kinds = ("delete.topic.enable", "are being moved", "is not registered")
    assert [kind for kind in kinds if any(kind in note for note in notes)] == told


@pytest.mark.parametrize("name", [one for one in TREES if "m3-" not in one])
def test_topics_of_the_brokers_themselves_are_not_deleted(world: MemoryGroups, name: str) -> None:
    """As Kafka's tools refuse it; every other topic of every tree can be planned."""
    operator = world.operator(RecordedStore(name))
    _, topics = list_topics(operator)
    brokers = list_brokers(operator)[1]

    for topic in topics:
        if topic.internal and brokers:
            with pytest.raises(RefusedError, match="keep"):
                plan_topic_deletion(operator, topic.topic)
        else:
            assert plan_topic_deletion(operator, topic.topic).topic == topic.topic


def test_a_cluster_that_has_migrated_gets_no_topic_and_loses_none(world: MemoryGroups) -> None:
    """On a tree of 3.9.1 whose brokers follow KRaft."""
    operator = world.operator(RecordedStore("kafka-3.9.1/m3-migration-topic-created.jsonl"))
    _, topics, _ = describe_topics(operator)

    with pytest.raises(RefusedError, match="KRaft"):
        plan_topic(operator, "new", partitions=1)
    with pytest.raises(RefusedError, match="KRaft"):
        plan_topic_deletion(operator, topics[0].topic)
