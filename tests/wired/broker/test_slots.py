"""The slots of group coordinators: `__consumer_offsets` as clients of brokers in this process see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from tests.waiting import PATIENCE_S
from zkgroup.testing import KafkaCluster
from zkgroup.testing.kafka_cluster.cluster import FAST
from zkgroup.wire.client import BrokerClient
from zkgroup.wire.messages import Request, Response
from zkgroup.wire.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotConfig

Make = Callable[..., KafkaCluster]
PATIENCE_MS = round(PATIENCE_S * 1000)
FOUR = replace(FAST, offsets_topic_num_partitions=4)


async def asked(
    cluster: KafkaCluster, request: Request, version: int, is_over: Callable[..., bool]
) -> Response:
    """The first answer of broker 1 that is the one waited for."""
    host, _, port = cluster.address(1).partition(":")
    client = BrokerClient(host, int(port), client_id="test", timeout_ms=PATIENCE_MS)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = await client.ask(request, request.RESPONSE, version=version)
                if is_over(answer):
                    return answer
                await asyncio.sleep(0.01)
    finally:
        await client.close()


def coordinator(cluster: KafkaCluster, group: str) -> int:
    answer = asyncio.run(asked(cluster, FindCoordinatorRequest(group), 3, lambda found: found.error != 15))
    assert isinstance(answer, FindCoordinatorResponse)
    assert answer.error == 0
    return answer.broker


def test_the_first_group_creates_the_topic(kafka_cluster_factory: Make) -> None:
    """With as many partitions as there are slots, and as many replicas as there are brokers."""
    cluster = kafka_cluster_factory(2, settings=FOUR)

    led = {coordinator(cluster, f"group-{number}") for number in range(20)}

    assert led == {1, 2}
    config = cluster.zookeeper.find(SlotConfig.path())
    assert config is not None
    assert SlotConfig.decode(config.path, config.data).slots == 4
    partitions = cluster.partitions(OFFSETS_TOPIC)
    assert len(partitions) == 4


def test_metadata_creates_the_topic_of_the_slots_too(kafka_cluster_factory: Make) -> None:
    """With the number of slots, whatever `num.partitions` is; it is internal."""
    cluster = kafka_cluster_factory(1, settings=FOUR)

    answer = asyncio.run(
        asked(cluster, MetadataRequest.of(OFFSETS_TOPIC), 4, lambda found: found.topics[0].error == 0)
    )

    assert isinstance(answer, MetadataResponse)
    assert (answer.topics[0].is_internal, len(answer.topics[0].partitions)) == (True, 4)
    assert cluster.zookeeper.find(SlotConfig.path()) is not None
