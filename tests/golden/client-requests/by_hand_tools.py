"""Requests of tools in every version, and records without keys, as client `by-hand`: HOST PORT."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

from tests.worlds.batches import build_batch
from zkgroup.wire.admin_apis import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    AddedReplicas,
    AlterConfigsRequest,
    AlteredResource,
    AlterPartitionReassignmentsRequest,
    ChangedResource,
    ConfigOperation,
    ConfigResource,
    ConfigValue,
    CreatableTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    ElectLeadersRequest,
    GrownTopic,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    NewConfig,
    ReassignedPartition,
    ReassignedTopic,
    TopicPartitions,
)
from zkgroup.wire.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeletePartition,
    OffsetDeleteRequest,
    OffsetDeleteTopic,
    OffsetFetchRequest,
    OffsetFetchTopic,
    OffsetToCommit,
    TopicToCommit,
)
from zkgroup.wire.log_dirs import (
    AlteredLogDir,
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    LogDirTopic,
)
from zkgroup.wire.messages import Request, encode_request
from zkgroup.wire.metadata import DescribeClusterRequest
from zkgroup.wire.record_batch import Record
from zkgroup.wire.records import (
    ACKS_LEADER,
    DeletedPartition,
    DeletedTopicRecords,
    DeleteRecordsRequest,
    InitProducerIdRequest,
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
)

TOPIC, COMPACTED, ABSENT, GROUP = "tools", "compacted", "absent", "by-hand"
BROKER, NO_BROKER = 1, 99
TIME_MS, TIMEOUT_MS = 1_600_000_000_000, 10_000
SET, DELETE, APPEND, SUBTRACT = range(4)


def main() -> None:
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
        stream = connection.makefile("rb")
        for number, (request, version) in enumerate(requests()):
            connection.sendall(encode_request(request, number, "by-hand", version=version))
            stream.read(int.from_bytes(stream.read(4), "big"))


def requests() -> Iterator[tuple[Request, int]]:
    """Each with its version."""
    yield created(TOPIC), 5
    yield created(COMPACTED, NewConfig(name="cleanup.policy", value="compact")), 5
    yield from records()
    yield from log_dirs()
    yield from partitions()
    yield from configs()
    yield from offsets()
    for version in DescribeClusterRequest.VERSIONS:
        yield DescribeClusterRequest(), version
    for version in InitProducerIdRequest.VERSIONS:
        yield InitProducerIdRequest(None, TIMEOUT_MS), version
    yield DeleteTopicsRequest(topic_names=(TOPIC, COMPACTED), timeout_ms=TIMEOUT_MS), 5


def records() -> Iterator[tuple[Request, int]]:
    """A record of a compacted topic has a key, which may be empty."""
    for version in range(3, 10):
        for is_packed in (False, True):
            yield produced(TOPIC, None, b"k", is_packed=is_packed), version
            yield produced(COMPACTED, b"k", None, b"", None, is_packed=is_packed), version
            yield produced(COMPACTED, b"k", b"", is_packed=is_packed), version
    for version in DeleteRecordsRequest.VERSIONS:
        for offset in (version + 1, -1, 1_000):
            topics = tuple(
                DeletedTopicRecords(topic, (DeletedPartition(0, offset),))
                for topic in (TOPIC, COMPACTED, ABSENT)
            )
            yield DeleteRecordsRequest(topics, TIMEOUT_MS), version


def log_dirs() -> Iterator[tuple[Request, int]]:
    topics = tuple(LogDirTopic(topic, (0, 1)) for topic in (TOPIC, ABSENT))
    for version in DescribeLogDirsRequest.VERSIONS:
        yield DescribeLogDirsRequest(topics), version
    for version in AlterReplicaLogDirsRequest.VERSIONS:
        yield AlterReplicaLogDirsRequest((AlteredLogDir("/absent", topics),)), version


def partitions() -> Iterator[tuple[Request, int]]:
    for version in CreatePartitionsRequest.VERSIONS:
        count = version + 2
        for grown in (
            GrownTopic(topic=TOPIC, count=count),
            GrownTopic(topic=TOPIC, count=count),
            GrownTopic(topic=TOPIC, count=1),
            GrownTopic(topic=TOPIC, count=count + 1, replicas=(AddedReplicas(brokers=(NO_BROKER,)),)),
            GrownTopic(topic=TOPIC, count=count + 1, replicas=(AddedReplicas(brokers=(1, 1)),)),
            GrownTopic(topic=TOPIC, count=count + 2, replicas=(AddedReplicas(brokers=(BROKER,)),)),
            GrownTopic(topic=ABSENT, count=2),
        ):
            yield CreatePartitionsRequest(topics=(grown,), timeout_ms=TIMEOUT_MS), version
        grown = GrownTopic(topic=TOPIC, count=count + 1, replicas=(AddedReplicas(brokers=(BROKER,)),))
        yield CreatePartitionsRequest(topics=(grown,), timeout_ms=TIMEOUT_MS, validate_only=True), version
    named = (TopicPartitions(topic=TOPIC, partitions=(0, 9)), TopicPartitions(topic=ABSENT, partitions=(0,)))
    for version in ElectLeadersRequest.VERSIONS:
        for topics in (named, None):
            for kind in (0, 1) if version else (0,):
                asked = ElectLeadersRequest(election_type=kind, topics=topics, timeout_ms=TIMEOUT_MS)
                yield asked, version
    for replicas in ((BROKER,), (NO_BROKER,), (BROKER, BROKER), (), None):
        moved = tuple(
            ReassignedTopic(topic=topic, partitions=(ReassignedPartition(partition=0, replicas=replicas),))
            for topic in (TOPIC, ABSENT)
        )
        yield AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=moved), 0
    for asked in (None, named):
        yield ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=asked), 0


def configs() -> Iterator[tuple[Request, int]]:
    broker = str(BROKER)
    values: tuple[tuple[int, str, dict[str, str | None]], ...] = (
        (TOPIC_RESOURCE, TOPIC, {"retention.ms": "5000", "cleanup.policy": ""}),
        (TOPIC_RESOURCE, TOPIC, {"retention.ms": "soon"}),
        (TOPIC_RESOURCE, TOPIC, {"no.such": "1"}),
        (TOPIC_RESOURCE, TOPIC, {"retention.ms": None}),
        (TOPIC_RESOURCE, TOPIC, {}),
        (TOPIC_RESOURCE, ABSENT, {"retention.ms": "5000"}),
        (BROKER_RESOURCE, broker, {"follower.replication.throttled.rate": "9000"}),
        (BROKER_RESOURCE, broker, {"no.such": "1"}),
        (BROKER_RESOURCE, broker, {"num.partitions": "2"}),
        (BROKER_RESOURCE, broker, {"log.dirs": "/absent"}),
        (BROKER_RESOURCE, broker, {"message.max.bytes": "many"}),
        (BROKER_RESOURCE, broker, {}),
        (BROKER_RESOURCE, "", {"listeners": "PLAINTEXT://127.0.0.1:1"}),
        (BROKER_RESOURCE, "", {"follower.replication.throttled.rate": "9000"}),
        (BROKER_RESOURCE, "", {}),
        (BROKER_RESOURCE, "one", {"follower.replication.throttled.rate": "9000"}),
        (8, broker, {"no.such": "1"}),
    )
    for version in AlterConfigsRequest.VERSIONS:
        for validate_only in (True, False):
            for kind, name, given in values:
                set_to = tuple(ConfigValue(name=each, value=value) for each, value in given.items())
                resource = AlteredResource(kind=kind, name=name, configs=set_to)
                yield AlterConfigsRequest(resources=(resource,), validate_only=validate_only), version
        repeated = tuple(ConfigValue(name="retention.ms", value=value) for value in ("5000", "6000"))
        resource = AlteredResource(kind=TOPIC_RESOURCE, name=TOPIC, configs=repeated)
        yield AlterConfigsRequest(resources=(resource,)), version
        shown = ConfigResource(kind=TOPIC_RESOURCE, name=TOPIC, keys=("retention.ms",))
        yield DescribeConfigsRequest(resources=(shown,)), version
    operations: tuple[tuple[int, str, str, int, str | None], ...] = (
        *((kind, name, each, SET, value) for kind, name, given in values for each, value in given.items()),
        (TOPIC_RESOURCE, TOPIC, "cleanup.policy", DELETE, None),
        (TOPIC_RESOURCE, TOPIC, "cleanup.policy", APPEND, "compact"),
        (TOPIC_RESOURCE, TOPIC, "cleanup.policy", SUBTRACT, "compact"),
        (TOPIC_RESOURCE, TOPIC, "retention.ms", APPEND, "5"),
        (TOPIC_RESOURCE, TOPIC, "retention.ms", DELETE, None),
        (TOPIC_RESOURCE, TOPIC, "no.such", DELETE, None),
        (BROKER_RESOURCE, broker, "follower.replication.throttled.rate", DELETE, None),
        (BROKER_RESOURCE, broker, "no.such", DELETE, None),
        (BROKER_RESOURCE, "", "follower.replication.throttled.rate", DELETE, None),
    )
    for version in IncrementalAlterConfigsRequest.VERSIONS:
        for kind, name, setting, operation, value in operations:
            changed = (ConfigOperation(name=setting, operation=operation, value=value),)
            resource = ChangedResource(kind=kind, name=name, configs=changed)
            yield IncrementalAlterConfigsRequest(resources=(resource,)), version


def offsets() -> Iterator[tuple[Request, int]]:
    for version in range(2, 9):
        committed = tuple(
            TopicToCommit(
                topic=topic, partitions=(OffsetToCommit(partition=0, offset=version, metadata="m"),)
            )
            for topic in (TOPIC, ABSENT)
        )
        yield OffsetCommitRequest(group=GROUP, topics=committed), version
        yield OffsetCommitRequest(group=GROUP, generation=3, member_id="gone", topics=committed), version
    asked = tuple(OffsetFetchTopic(topic=topic, partitions=(0,)) for topic in (TOPIC, ABSENT))
    for version in OffsetFetchRequest.VERSIONS[1:]:
        for topics in (asked, None) if version > 1 else (asked,):
            yield OffsetFetchRequest(group=GROUP, topics=topics), version
    for version in DescribeGroupsRequest.VERSIONS:
        yield DescribeGroupsRequest(groups=(GROUP, ABSENT)), version
    for version in ListGroupsRequest.VERSIONS:
        yield ListGroupsRequest(), version
    for group in (GROUP, GROUP, ABSENT):
        deleted = tuple(
            OffsetDeleteTopic(topic=topic, partitions=(OffsetDeletePartition(partition=0),))
            for topic in (TOPIC, ABSENT)
        )
        yield OffsetDeleteRequest(group=group, topics=deleted), 0
    for version in DeleteGroupsRequest.VERSIONS:
        yield DeleteGroupsRequest(groups=(GROUP, ABSENT)), version


def created(topic: str, *configs: NewConfig) -> CreateTopicsRequest:
    one = CreatableTopic(topic=topic, partitions=1, replication_factor=1, configs=configs)
    return CreateTopicsRequest(topics=(one,), timeout_ms=TIMEOUT_MS)


def produced(topic: str, *keys: bytes | None, is_packed: bool) -> ProduceRequest:
    """A record for each key."""
    records = [Record(number, TIME_MS, key, b"v") for number, key in enumerate(keys)]
    parts = (ProducedPartition(0, build_batch(records, gzip=is_packed)),)
    return ProduceRequest(ACKS_LEADER, TIMEOUT_MS, (ProducedTopic(topic, parts),))


if __name__ == "__main__":
    main()
