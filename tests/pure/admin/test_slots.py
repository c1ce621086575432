"""The number of slots of group coordinators: written once, before their topic (recipes 20)."""

from __future__ import annotations

import pytest

from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stores import MeddledStore, before_nth
from zkgroup.admin.topics import creation
from zkgroup.admin.topics.creation import claim_slots, create_topic_change, plan_topic, read_slots
from zkgroup.admin.topics.deletion import plan_topic_deletion
from zkgroup.errors import ConfigError, CorruptZnodeError, RefusedError
from zkgroup.model.requests import Multi
from zkgroup.znodes.brokers import ZKGROUP_KEY, BrokerRegistration, Endpoint, Topic
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotConfig

PATH = SlotConfig.path()


def _brokers(world: MemoryGroups, *numbers: int) -> None:
    for number in numbers:
        plain = [Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT")]
        one = BrokerRegistration.of(plain, timestamp_ms=1, version=4, extensions={ZKGROUP_KEY: {}})
        world.hold(BrokerRegistration.path(number), one.encode())


def test_the_first_number_is_the_number_for_ever(world: MemoryGroups) -> None:
    """Another broker's setting changes nothing."""
    assert read_slots(world.ensemble) is None
    assert [claim_slots(world.ensemble, number) for number in (7, 50)] == [7, 7]
    assert read_slots(world.ensemble) == 7


def test_of_two_brokers_at_once_one_number_wins(world: MemoryGroups) -> None:
    """The create of the slower one is refused, and it takes the number of the other."""

    def faster() -> None:
        world.server.put(PATH, SlotConfig(7).encode())

    client = world.server.client("slower")
    slower = world.operator(MeddledStore(client, before_nth(Multi, 1, faster)))

    assert claim_slots(slower, 50) == 7


def test_the_partitions_of_a_topic_that_exists_are_the_slots(world: MemoryGroups) -> None:
    """A cluster that was Kafka's has it. The topic is written too, so that a controller reads both again."""
    world.server.put(Topic.path(OFFSETS_TOPIC), Topic({0: (1,), 1: (1,), 2: (1,)}).encode())

    assert claim_slots(world.ensemble, 50) == 3
    topic = world.server.find(Topic.path(OFFSETS_TOPIC))
    assert topic is not None
    assert (topic.stat.version, len(Topic.decode(topic.path, topic.data).partitions)) == (1, 3)


def test_a_number_that_cannot_be_read_is_never_written_over(world: MemoryGroups) -> None:
    """Groups would be divided anew."""
    world.server.put(PATH, b"{}")

    with pytest.raises(CorruptZnodeError, match=PATH):
        claim_slots(world.ensemble, 50)


def test_a_topic_made_by_hand_has_as_many_partitions_as_there_are_slots(world: MemoryGroups) -> None:
    """The first one decides the number; a later one must have it."""
    _brokers(world, 1, 2)
    new = creation.plan_topic(world.ensemble, OFFSETS_TOPIC, partitions=4)
    creation.create_topic(world.ensemble, new)

    assert read_slots(world.ensemble) == 4
    with pytest.raises(ConfigError, match="expected 4 partitions"):
        creation.plan_topic(world.ensemble, OFFSETS_TOPIC, partitions=5)


def test_a_number_that_is_written_after_the_preview_refuses_the_creation(world: MemoryGroups) -> None:
    """Nothing is created then."""
    _brokers(world, 1)
    new = creation.plan_topic(world.ensemble, OFFSETS_TOPIC, partitions=4)
    world.server.put(PATH, SlotConfig(50).encode())

    with pytest.raises(ConfigError, match="expected 50 partitions"):
        creation.create_topic(world.ensemble, new)
    assert world.server.find(Topic.path(OFFSETS_TOPIC)) is None


def test_the_topic_is_not_deleted(world: MemoryGroups) -> None:
    """Nothing is requested; without slots it is a topic like any other."""
    cluster = MemoryCluster(world)
    cluster.topic(OFFSETS_TOPIC, (1,))
    _brokers(world, 1, 2, 3)
    assert plan_topic_deletion(world.ensemble, OFFSETS_TOPIC).topic == OFFSETS_TOPIC
    world.server.put(PATH, SlotConfig(1).encode())

    with pytest.raises(RefusedError, match="slots of group coordinators"):
        plan_topic_deletion(world.ensemble, OFFSETS_TOPIC)


def test_its_creation_cannot_be_undone(world: MemoryGroups) -> None:
    """The preview says so."""
    _brokers(world, 1)

    change = create_topic_change(world.ensemble, plan_topic(world.ensemble, OFFSETS_TOPIC, partitions=4))

    assert change.no_undo == "the slots of group coordinators are not deleted"
