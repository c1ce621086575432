"""`KafkaSource` on a real 0.8.2.2 broker, alone and below a `Consumer`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.long.interop.conftest import Scene
from tests.long.interop.servers import Producer, RealZooKeeper
from zkgroup import Consumer, GroupSettings, TopicPartition
from zkgroup.errors import ConfigError, OffsetOutOfRangeError, SourceUnavailableError
from zkgroup.sources import Bounds, KafkaSource
from zkgroup.znodes.brokers import BrokerRegistration


class Registered:
    """A cluster of the brokers given."""

    def __init__(self, *brokers: BrokerRegistration) -> None:
        self._brokers = dict(enumerate(brokers))

    def brokers(self) -> Mapping[int, BrokerRegistration]:
        return self._brokers

    def partitions(self, topic: str) -> tuple[int, ...]:
        return ()


def test_an_old_broker_is_found_and_spoken_to_by_its_registration(
    make_scene: Callable[..., Scene], producer: Producer
) -> None:
    """Address and protocol come from ZooKeeper; bounds, positions and seeks are those requested."""
    scene = make_scene(partitions=2)
    producer.fill(scene.topic, 2, 5)
    first, second = TopicPartition(scene.topic, 0), TopicPartition(scene.topic, 1)
    source = KafkaSource()
    source.configure(GroupSettings(), "group")
    source.open(Registered(BrokerRegistration(host="127.0.0.1", port=scene.broker.port, version=1)))
    try:
        assert source.bounds(first) == Bounds(0, 5)
        assert source.log_ends([first, second]) == {first: 5, second: 5}
        both = _read(source, {first: 0, second: 3}, 7)
        assert both == {first: [0, 1, 2, 3, 4], second: [3, 4]}
        assert _read(source, {second: 1}, 4) == {second: [1, 2, 3, 4]}
        assert source.poll({first: 5}, 10, 0.2) == []
        with pytest.raises(OffsetOutOfRangeError, match="99 is out of range"):
            _read(source, {first: 99}, 1)
        assert _read(source, {first: 4}, 1) == {first: [4]}
        assert source.offsets_at([first, second], 0) == {first: 0, second: 0}
    finally:
        source.close()


def test_without_a_registered_broker_it_says_so_and_can_be_asked_again() -> None:
    """It raises a temporary error, after which the consumer's fetcher tries again."""
    source = KafkaSource()
    source.open(Registered())
    with pytest.raises(SourceUnavailableError, match="no broker that hosts partitions is registered"):
        source.bounds(TopicPartition("orders", 0))
    source.close()


def test_options_that_would_join_a_kafka_group_are_refused() -> None:
    """The group is kept in ZooKeeper; kafka-python must not commit or be assigned anything."""
    with pytest.raises(ConfigError, match="enable_auto_commit, group_id"):
        KafkaSource("localhost:9092", options={"group_id": "g", "enable_auto_commit": True})


def test_a_consumer_reads_kafka_records_and_continues_where_it_stopped(
    make_scene: Callable[..., Scene], producer: Producer, real_zookeeper: RealZooKeeper
) -> None:
    """Two runs of one group deliver every record once; the second starts at what the first committed."""
    scene = make_scene(partitions=3)
    producer.fill(scene.topic, 3, 4)
    settings = GroupSettings(auto_offset_reset="earliest", consumer_timeout_ms=90_000)
    runs = []
    for _ in range(2):
        came: list[tuple[int, int]] = []
        with Consumer(
            real_zookeeper.address,
            group=f"kafka-source-{scene.topic}",
            topics=[scene.topic],
            source=KafkaSource(),
            settings=settings,
        ) as consumer:
            for record in consumer:
                came.append((record.partition, record.offset))
                consumer.ack(record)
                if len(came) == 12:
                    break
        runs.append(sorted(came))
        producer.fill(scene.topic, 3, 4)

    assert runs[0] == [(p, offset) for p in range(3) for offset in range(4)]
    assert runs[1][:4] == [(0, 4), (0, 5), (0, 6), (0, 7)]


def _read(
    source: KafkaSource, positions: dict[TopicPartition, int], count: int
) -> dict[TopicPartition, list[int]]:
    """Polls until this many records have come."""
    came: dict[TopicPartition, list[int]] = {}
    wanted = dict(positions)
    for _ in range(60):
        for record in source.poll(wanted, 100, 2.0):
            topic_partition = TopicPartition(record.topic, record.partition)
            came.setdefault(topic_partition, []).append(record.offset)
            wanted[topic_partition] = record.offset + 1
        if sum(map(len, came.values())) >= count:
            break
    return came
