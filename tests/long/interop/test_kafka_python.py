"""How kafka-python 3.0.12 works with an 0.8.2.2 broker, on which `KafkaSource` depends.

Facts, each shown below: it must be given `api_version=(0, 8, 2)`, which the broker's registration shows
(`"version":1` and no endpoints); with `group_id=None`, `assign` and `seek` it reads without a group;
`beginning_offsets` and `end_offsets` work, `offsets_for_times` does not; with `auto_offset_reset="none"` a
position out of range raises; records have no timestamp and no headers. With the version, the constructor
returns at once, broker or no broker, and `poll` returns nothing while none is there; without it, the
constructor blocks for `bootstrap_timeout_ms`, raises, and leaves its thread and sockets behind.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import IncompatibleBrokerVersion, OffsetOutOfRangeError
from kazoo.client import KazooClient

from tests.long.interop.conftest import Scene
from tests.long.interop.servers import Producer, RealBroker

OLD = (0, 8, 2)


def test_reads_an_old_broker_with_a_configured_version(
    make_scene: Callable[..., Scene], producer: Producer
) -> None:
    """Assigned and sought partitions are read from the middle; a position out of range raises."""
    scene = make_scene(partitions=3)
    producer.fill(scene.topic, 3, 5)
    partitions = [TopicPartition(scene.topic, p) for p in range(3)]
    consumer = KafkaConsumer(
        bootstrap_servers=[scene.broker.address],
        api_version=OLD,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
    )
    try:
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 2)
        came: Counter[int] = Counter()
        for _ in range(60):
            for partition, records in consumer.poll(timeout_ms=1000, max_records=4).items():
                came[partition.partition] += len(records)
                assert all(r.timestamp is None and list(r.headers) == [] for r in records)
            if came.total() == 9:
                break
        assert came == {0: 3, 1: 3, 2: 3}
        assert consumer.beginning_offsets(partitions) == dict.fromkeys(partitions, 0)
        assert consumer.end_offsets(partitions) == dict.fromkeys(partitions, 5)
        with pytest.raises(IncompatibleBrokerVersion):
            consumer.offsets_for_times({partitions[0]: 0})
        consumer.seek(partitions[0], 99)
        with pytest.raises(OffsetOutOfRangeError):
            consumer.poll(timeout_ms=60_000)
    finally:
        consumer.close()


UNTOLD = """
import sys, threading
from kafka import KafkaConsumer
from kafka.errors import KafkaTimeoutError
try:
    KafkaConsumer(bootstrap_servers=sys.argv[1:], group_id=None, bootstrap_timeout_ms=2000)
except KafkaTimeoutError:
    print("gave up,", threading.active_count() - 1, "threads left")
"""


def test_cannot_find_the_version_out_by_itself(broker: RealBroker) -> None:
    """Without the version it sends ApiVersions, on which 0.8.2.2 closes the connection; its thread stays."""
    command = [sys.executable, "-c", UNTOLD, broker.address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("gave up, 1 threads left"), done.stdout + done.stderr


def test_the_registration_gives_the_version_away(broker: RealBroker, tree: KazooClient) -> None:
    """0.8.2.2 registers version 1 with host and port and no endpoints (0.9 writes 2 and endpoints)."""
    registration = json.loads(tree.get("/brokers/ids/1")[0])
    assert registration["version"] == 1
    assert (registration["host"], registration["port"]) == ("127.0.0.1", broker.port)
    assert "endpoints" not in registration
