"""One topic through kafka-python 2 or 3: BOOTSTRAP TOPIC PINNED-VERSION. The client id is the topic."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata

IS_3 = kafka.__version__.startswith("3")


def attempt(act: Callable[[], Any]) -> None:
    """What a version cannot do is left out."""
    with contextlib.suppress(Exception):
        act()


def administer(admin: Any, topic: str) -> None:
    one = {topic: {"num_partitions": 1, "replication_factor": 1}} if IS_3 else [NewTopic(topic, 1, 1)]
    admin.create_topics(one)
    admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])


def end(admin: Any, topic: str) -> None:
    kind = "groups" if IS_3 else "consumer_groups"
    attempt(getattr(admin, f"list_{kind}"))
    attempt(lambda: getattr(admin, f"describe_{kind}")([topic]))
    attempt(lambda: getattr(admin, f"delete_{kind}")([topic]))
    admin.delete_topics([topic])


def main() -> None:
    bootstrap, topic, version = sys.argv[1:]
    pinned = tuple(map(int, version.split(".")))
    common: dict[str, Any] = {"bootstrap_servers": bootstrap, "api_version": pinned, "client_id": topic}
    admin, tp = KafkaAdminClient(**common), TopicPartition(topic, 0)
    administer(admin, topic)
    producer = KafkaProducer(**common, **({"enable_idempotence": False} if IS_3 else {}))
    producer.send(topic, b"v", b"k", timestamp_ms=1_600_000_000_000).get(10)
    producer.close()
    consumer = KafkaConsumer(**common, group_id=topic, enable_auto_commit=False)
    consumer.assign([tp])
    consumer.seek_to_beginning(tp)
    while not consumer.poll(1000):
        pass
    consumer.offsets_for_times({tp: 1_500_000_000_000})
    consumer.commit({tp: OffsetAndMetadata(1, "m", *((-1,) if IS_3 else ()))})
    consumer.committed(tp)
    end(admin, topic)
    consumer.close()
    admin.close()


if __name__ == "__main__":
    main()
