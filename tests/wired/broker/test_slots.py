"""The slots of group coordinators: `__consumer_offsets` as clients of brokers in this process see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from tests.waiting import PATIENCE_S
from tests.worlds.batches import records_of
from tests.worlds.unhurried import unhurried
from zkgroup import Admin
from zkgroup.testing import KafkaCluster
from zkgroup.wire.admin_apis import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    GrownTopic,
)
from zkgroup.wire.client import BrokerClient
from zkgroup.wire.groups import OffsetCommitRequest, OffsetCommitResponse, OffsetToCommit, TopicToCommit
from zkgroup.wire.messages import ErrorCode, Request, Response
from zkgroup.wire.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from zkgroup.wire.records import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
    ProduceResponse,
)
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotConfig

Make = Callable[..., KafkaCluster]
PATIENCE_MS = round(PATIENCE_S * 1000)
FOUR = replace(unhurried(), offsets_topic_num_partitions=4)


class WithoutSlots(KafkaCluster):
    """A cluster as a real one starts: without the topic."""

    def _create_slots(self, timeout_s: float) -> None:
        pass


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


def test_the_first_group_creates_the_topic() -> None:
    """With as many partitions as there are slots, and as many replicas as there are brokers."""
    with WithoutSlots(2, settings=FOUR) as cluster:
        led = {coordinator(cluster, f"group-{number}") for number in range(20)}

        assert led == {1, 2}
        config = cluster.zookeeper.find(SlotConfig.path())
        assert config is not None
        assert SlotConfig.decode(config.path, config.data).slots == 4
        partitions = cluster.partitions(OFFSETS_TOPIC)
        assert len(partitions) == 4


def test_metadata_creates_the_topic_of_the_slots_too() -> None:
    """With the number of slots, whatever `num.partitions` is; it is internal."""
    with WithoutSlots(1, settings=FOUR) as cluster:
        answer = asyncio.run(
            asked(cluster, MetadataRequest.of(OFFSETS_TOPIC), 4, lambda found: found.topics[0].error == 0)
        )

        assert isinstance(answer, MetadataResponse)
        assert (answer.topics[0].is_internal, len(answer.topics[0].partitions)) == (True, 4)
        assert cluster.zookeeper.find(SlotConfig.path()) is not None


def test_the_topic_is_neither_deleted_nor_grown(kafka_cluster_factory: Make) -> None:
    """Error 17 to Kafka's tools; the groups keep their coordinators."""
    cluster = kafka_cluster_factory(1, settings=FOUR)
    coordinator(cluster, "g")
    grown = GrownTopic(topic=OFFSETS_TOPIC, count=5)

    deleted = asyncio.run(
        asked(cluster, DeleteTopicsRequest(topic_names=(OFFSETS_TOPIC,), timeout_ms=1000), 3, lambda _: True)
    )
    added = asyncio.run(
        asked(cluster, CreatePartitionsRequest(topics=(grown,), timeout_ms=1000), 1, lambda _: True)
    )

    assert isinstance(deleted, DeleteTopicsResponse)
    assert isinstance(added, CreatePartitionsResponse)
    assert [each.error for each in deleted.topics] == [ErrorCode.INVALID_TOPIC]
    assert [each.error for each in added.topics] == [ErrorCode.INVALID_TOPIC]
    assert len(cluster.partitions(OFFSETS_TOPIC)) == 4


def test_the_log_of_a_slot_is_empty(kafka_cluster_factory: Make) -> None:
    """Producers get error 17, consumers an offset of 0 and no record."""
    cluster = kafka_cluster_factory(1, settings=FOUR)
    coordinator(cluster, "g")
    records = ProducedPartition(0, records_of([b"value"], timestamp_ms=1))
    produce = ProduceRequest(1, 1000, (ProducedTopic(OFFSETS_TOPIC, (records,)),))
    end = ListOffsetsRequest(-1, (ListOffsetsTopic(OFFSETS_TOPIC, (ListOffsetsPartition(0, -1),)),))

    produced = asyncio.run(asked(cluster, produce, 8, lambda _: True))
    listed = asyncio.run(asked(cluster, end, 5, lambda found: found.topics[0].partitions[0].error == 0))

    assert isinstance(produced, ProduceResponse)
    assert isinstance(listed, ListOffsetsResponse)
    (result,) = produced.topics[0].partitions
    assert (result.error, result.error_message) == (17, f"Cannot append to internal topic {OFFSETS_TOPIC}")
    assert listed.topics[0].partitions[0].offset == 0


def test_a_full_slot_refuses_offsets_with_an_error_that_clients_know(kafka_cluster_factory: Make) -> None:
    """Error 28 for a made-up group; `describe_coordinator` shows how full the slot is."""
    settings = replace(unhurried(), offsets_topic_num_partitions=1, slot_max_offsets=1)
    cluster = kafka_cluster_factory(1, settings=settings)
    cluster.create_topic("orders", 2)
    coordinator(cluster, "g")

    def commit(group: str, partition: int) -> int:
        offset = OffsetToCommit(partition=partition, offset=5, metadata="mm")
        request = OffsetCommitRequest(
            group=group, topics=(TopicToCommit(topic="orders", partitions=(offset,)),)
        )
        answer = asyncio.run(
            asked(cluster, request, 7, lambda found: found.topics[0].partitions[0].error not in (14, 16))
        )
        assert isinstance(answer, OffsetCommitResponse)
        return answer.topics[0].partitions[0].error

    assert commit("g", 0) == ErrorCode.NONE
    assert commit("made-up", 0) == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert commit("g", 1) == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert commit("g", 0) == ErrorCode.NONE

    with closing(cluster.zookeeper.client()) as client, Admin(client=client) as admin:
        (slot,) = admin.describe_coordinator().slots
    assert (slot.offsets, slot.offsets_max, slot.metadata_bytes, slot.groups_max) == (1, 1, 2, 500)
