"""The fixtures `kafka_cluster_session` and `kafka_topic`, in a run of pytest of their own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

SEEN = {}


def read(cluster, topic):
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=topic) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        record = next(consumer)
        consumer.commit()
        return record.offset, record.value


@pytest.mark.parametrize("number", [1, 2])
def test_a_topic_is_fresh(kafka_cluster_session, kafka_topic, number):
    SEEN[kafka_topic] = kafka_cluster_session
    with KafkaProducer(bootstrap_servers=kafka_cluster_session.bootstrap_servers) as producer:
        producer.send(kafka_topic, b"%d" % number).get()
    assert read(kafka_cluster_session, kafka_topic) == (0, b"%d" % number)


@pytest.mark.parametrize("kafka_topic", [3], indirect=True)
def test_it_has_partitions(kafka_cluster_session, kafka_topic):
    assert len(kafka_cluster_session.partitions(kafka_topic)) == 3


def test_brokers_may_fail(kafka_cluster_session, kafka_topic):
    kafka_cluster_session.kill(1)
    kafka_cluster_session.pause(2)
    kafka_cluster_session.isolate(3)


def test_the_next_test_has_them_again(kafka_cluster_session, kafka_topic):
    cluster = kafka_cluster_session
    assert cluster.running == cluster.brokers
    assert len(SEEN) == 2 and set(SEEN.values()) == {cluster}
    for topic in SEEN:
        assert cluster.zookeeper.find(f"/brokers/topics/{topic}") is None
        assert cluster.zookeeper.find(f"/consumers/{topic}/offsets/{topic}") is None
"""


def test_each_test_has_a_topic_of_its_own_on_one_cluster(pytester: pytest.Pytester) -> None:
    """Records, partitions and committed offsets are gone after a test, and failed brokers are back."""
    pytester.makepyfile(TESTS)

    pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:xdist").assert_outcomes(passed=5)
