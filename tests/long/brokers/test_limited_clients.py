"""Kafka's clients for Python at limits other than those of bytes: they are held, and get through."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient as ConfluentAdmin
from confluent_kafka.admin import NewTopic as ConfluentTopic
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaError, ThrottlingQuotaExceededError

from tests.waiting import PATIENCE_S, eventually, joined
from zkgroup.testing import FAST, KafkaCluster
from zkgroup.znodes.config import ConfigEntity, EntityConfig

ME = "127.0.0.1"


def limit(cluster: KafkaCluster, entity: ConfigEntity, setting: str, value: float) -> None:
    """Sets a quota before the cluster starts."""
    cluster.zookeeper.put(entity.config_path, EntityConfig({setting: str(value)}).encode())


def test_who_creates_too_much_is_told_and_gets_it_by_asking_again() -> None:
    """kafka-python by error 89, an error of its own. librdkafka asks by an older version, which is done,
    and waits afterwards."""
    cluster = KafkaCluster(1)
    limit(cluster, ConfigEntity.user("ANONYMOUS"), "controller_mutation_rate", 1)
    with cluster, closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as python:
        librdkafka = ConfluentAdmin({"bootstrap.servers": cluster.bootstrap_servers})

        def by_python(topic: str, partitions: int) -> bool:
            python.create_topics([NewTopic(topic, partitions, 1)])
            return True

        def by_librdkafka(topic: str, partitions: int) -> bool:
            new = ConfluentTopic(topic, partitions, 1)
            librdkafka.create_topics([new])[topic].result(PATIENCE_S)
            return True

        assert by_python("first", 21)
        with pytest.raises(ThrottlingQuotaExceededError):
            by_python("second", 4)
        assert by_librdkafka("third", 4)
        # for as long as it was told it sends nothing
        assert eventually(lambda: by_python("second", 4), ignoring=(KafkaError,))


def test_who_takes_too_much_time_is_held_and_another_one_is_not() -> None:
    """By the CPU time of requests; both ask for the same as fast as they can."""
    cluster = KafkaCluster(1)
    limit(cluster, ConfigEntity.of_client("held"), "request_percentage", 0.2)
    calls, stop = {"held": 0, "free": 0}, threading.Event()
    with cluster:
        cluster.create_topic("t", partitions=10)
        bootstrap = cluster.bootstrap_servers

        def ask(client_id: str) -> None:
            client = ConfluentAdmin({"bootstrap.servers": bootstrap, "client.id": client_id})
            while not stop.is_set():
                client.list_topics(timeout=PATIENCE_S)
                calls[client_id] += 1

        threads = [threading.Thread(target=ask, args=(name,)) for name in calls]
        for each in threads:
            each.start()
        eventually(lambda: calls["held"] and calls["free"] >= 1_500, what=lambda: str(calls))
        stop.set()
        joined(*threads)

    assert 2 * calls["held"] < calls["free"], calls


@pytest.mark.parametrize("by", ["rate", "number"])
def test_clients_of_an_address_with_too_many_connections_come_in_later(
    by: str, caplog: pytest.LogCaptureFixture
) -> None:
    """By both libraries: with a rate once it allows it, with a number once others have left."""
    caplog.set_level("INFO", "zkgroup.broker")
    places = 30
    cluster = KafkaCluster(1, settings=replace(FAST, max_connections_per_ip=places))
    if by == "rate":
        limit(cluster, ConfigEntity.ip(ME), "connection_creation_rate", 2)
    with cluster, ExitStack() as stack:
        cluster.create_topic("t", partitions=1)
        host, _, port = cluster.address(1).rpartition(":")
        others = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(places)]
        done: list[str] = []

        def by_python() -> None:
            producer = eventually(
                lambda: KafkaProducer(bootstrap_servers=cluster.bootstrap_servers), ignoring=(KafkaError,)
            )
            producer.send("t", b"x").get(PATIENCE_S)
            producer.close()
            done.append("kafka-python")

        def by_librdkafka() -> None:
            producer = ConfluentProducer({"bootstrap.servers": cluster.bootstrap_servers})
            producer.produce("t", b"x", callback=lambda error, _: error or done.append("librdkafka"))
            producer.flush(PATIENCE_S)

        threads = [threading.Thread(target=each) for each in (by_python, by_librdkafka)]
        for each in threads:
            each.start()
        if by == "number":
            eventually(lambda: f"{ME} has as many connections as it may" in caplog.text)
            assert not done
            for one in others:
                one.close()
        joined(*threads)

    assert sorted(done) == ["kafka-python", "librdkafka"]
