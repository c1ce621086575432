"""The JSON documents of `topic describe --replicas` and `broker describe`, which ask brokers.

A module of its own: the classes of the answers import the client of brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zkgroup.admin.cluster.brokers import BrokerDescription
from zkgroup.admin.topics.listing import TopicDescription, TopicPartitionDescription
from zkgroup.clients.log_ends import FailedReplicaReport, LogEnd, LogEnds
from zkgroup.groups.ensemble import AsOf
from zkgroup.model import TopicPartition

from .cluster import BROKER, TOPIC, TOPIC_PARTITION
from .schema import INTEGER, Document, Inline, Json, KeyColumn, NamedKeys, Shape, given

LOG_END = Shape(LogEnd, "broker", "log_end_offset", "high_watermark", "reason")
FAILED_REPLICA = Shape(FailedReplicaReport)


class PartitionLogs(NamedTuple):
    """A partition, and the log end of each of its replicas."""

    partition: TopicPartitionDescription
    logs: Sequence[LogEnd]


class TopicLogs(NamedTuple):
    """A topic, and the log ends of the replicas of its partitions."""

    topic: TopicDescription
    partitions: Sequence[PartitionLogs]


class HostedLog(NamedTuple):
    """The log end of a replica on the described broker."""

    topic_partition: TopicPartition
    end: LogEnd


class DescribedBroker(NamedTuple):
    """`broker describe`; `logs` is null for a controller, `failed` also where a broker does not report it."""

    broker: BrokerDescription
    logs: Sequence[HostedLog] | None
    failed: Sequence[FailedReplicaReport] | None


PARTITION_LOGS = Shape(PartitionLogs, Inline("partition", TOPIC_PARTITION), "logs")
TOPIC_LOGS = Shape(TopicLogs, Inline("topic", TOPIC), "partitions")
TOPIC_REPLICAS = Document("topic_replicas", NamedKeys(topics=Sequence[TopicLogs]))
HOSTED_LOG = Shape(
    HostedLog,
    *("topic_partition", "end.log_end_offset", "end.high_watermark", "end.reason"),
    columns=(
        *(KeyColumn("topic", shorten="middle", least=12), "partition"),
        *(KeyColumn("log_end_offset", "LEO"), KeyColumn("high_watermark", "HW")),
        KeyColumn("reason", "NOTE", shorten="end", rank=1),
    ),
)
BROKER_DOCUMENT = Document(
    "broker",
    Shape(
        DescribedBroker,
        Inline("broker.summary", BROKER),
        *("broker.session", "broker.rack", given("jmx_port", INTEGER, "broker.jmx_port")),
        *("broker.endpoints", "broker.replicas", "broker.leaders", "broker.preferred"),
        *("broker.out_of_sync", "logs", "failed"),
    ),
)


def topic_replicas(as_of: AsOf, described: Iterable[TopicDescription], ends: LogEnds) -> Json:
    """`topic describe --replicas`; `ends` has the log end of every replica."""

    def logs(topic: str, row: TopicPartitionDescription) -> PartitionLogs:
        tp = TopicPartition(topic, row.partition)
        return PartitionLogs(row, [ends[tp, broker] for broker in row.replicas])

    topics = [TopicLogs(one, [logs(one.topic, row) for row in one.partitions]) for one in described]
    return TOPIC_REPLICAS.json(as_of, topics=topics)
