"""The sizes of replicas in bytes, as brokers describe their folders (DescribeLogDirs, Kafka 1.0, KIP-113)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zkgroup.clients.addresses import Addresses
from zkgroup.clients.broker_queries import QueryClient, ask_each, refusal
from zkgroup.clients.log_ends import Replica
from zkgroup.model import TopicPartition
from zkgroup.wire.log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse, LogDirTopic
from zkgroup.wire.messages import ErrorCode, by_topic

NOT_SERVED = "its broker does not say its sizes: Kafka does from 1.0 on"


def read_replica_sizes(
    addresses: Addresses, replicas: Iterable[Replica], timeout_ms: int
) -> dict[Replica, int | str]:
    """The bytes of the segments of each replica, or why they are not known; all brokers are asked at once.

    0 for a replica that its broker does not have.
    """
    of_brokers = ((replica, replica[1]) for replica in replicas)
    return ask_each(addresses, of_brokers, timeout_ms, _sizes, certificates={})


async def _sizes(client: QueryClient, replicas: Sequence[Replica]) -> Mapping[Replica, int | str]:
    if not await client.serves(DescribeLogDirsRequest):
        return dict.fromkeys(replicas, NOT_SERVED)
    topics = by_topic(((tp, tp.partition) for tp, _ in replicas), LogDirTopic)
    answer = await client.ask(DescribeLogDirsRequest(topics), DescribeLogDirsResponse)
    failed = [one.error for one in answer.log_dirs if one.error != ErrorCode.NONE]
    if failed or not answer.log_dirs:
        # A user without the right to describe the cluster is told of no folder.
        return dict.fromkeys(replicas, refusal(failed[0]) if failed else "its broker names no folder")
    found = {
        TopicPartition(topic.topic, one.partition): one.size
        for folder in answer.log_dirs
        for topic in folder.topics
        for one in topic.partitions
        if not one.is_future
    }
    return {(tp, broker): found.get(tp, 0) for tp, broker in replicas}
