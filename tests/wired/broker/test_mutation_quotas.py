"""Quotas of brokers that run: what their clients may create and delete, and the metrics of it."""

from __future__ import annotations

from typing import Any

from tests.worlds.running_brokers import ask
from zkgroup.testing import KafkaCluster
from zkgroup.wire.admin_apis import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
    GrownTopic,
)
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse
from zkgroup.znodes.config import ConfigEntity, EntityConfig

TIMEOUT_MS = 30_000


def _created(port: int, topic: str, partitions: int, version: int, *, only_checked: bool = False) -> Any:
    new = CreatableTopic(topic=topic, partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=(new,), timeout_ms=TIMEOUT_MS, validate_only=only_checked)
    return ask(port, request, CreateTopicsResponse, version=version)


def test_a_client_creates_and_deletes_partitions_at_its_rate() -> None:
    """One request may take more than there is; then error 89 until the wait is over. Older versions, which do
    not know it, are carried out, and their clients wait as long."""
    cluster = KafkaCluster(1)
    entity = ConfigEntity.user("ANONYMOUS")
    cluster.zookeeper.put(entity.config_path, EntityConfig({"controller_mutation_rate": "0.5"}).encode())
    with cluster:
        port = int(cluster.address(1).rpartition(":")[2])
        made = _created(port, "made", 10, 6)
        assert (made.topics[0].error, made.throttle_ms) == (0, 0)

        refused = _created(port, "refused", 1, 6)
        assert refused.topics[0].error == 89
        assert refused.topics[0].error_message == "The throttling quota has been exceeded."
        assert 0 < refused.throttle_ms <= 9_000  # 5.5 tokens less 10, at half a token a second
        assert _created(port, "refused", 1, 6, only_checked=True).topics[0].error == 0
        grown = CreatePartitionsRequest(topics=(GrownTopic(topic="made", count=11),), timeout_ms=TIMEOUT_MS)
        deleted = DeleteTopicsRequest(topics=(DeleteTopicState(topic="made"),), timeout_ms=TIMEOUT_MS)
        for answer in (
            ask(port, grown, CreatePartitionsResponse, version=3),
            ask(port, deleted, DeleteTopicsResponse, version=6),
        ):
            assert answer.topics[0].error == 89
            assert answer.throttle_ms > 0

        asked = MetadataRequest.of("asked-for")
        metadata = ask(port, asked, MetadataResponse, version=4)
        assert (metadata.topics[0].error, metadata.throttle_ms) == (5, 0)
        again = _created(port, "refused", 1, 6)
        assert again.throttle_ms > refused.throttle_ms

        old = _created(port, "old", 1, 5)
        assert old.topics[0].error == 0
        assert old.throttle_ms > 0
