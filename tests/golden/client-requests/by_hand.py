"""Versions that no client of today sends, and refusals, as client `by-hand`: HOST PORT."""

from __future__ import annotations

import socket
import struct
import sys
import zlib
from collections.abc import Iterator

from tests.pure.broker.log.made_batches import batch
from zkgroup.wire.admin_apis import (
    TOPIC_RESOURCE,
    ConfigResource,
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
    DescribeConfigsRequest,
)
from zkgroup.wire.messages import Request, encode_request
from zkgroup.wire.records import (
    ACKS_LEADER,
    CONSUMER_REPLICA,
    EARLIEST,
    LATEST,
    EpochPartition,
    EpochTopic,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
)

TOPIC, OF_MESSAGES, ABSENT = "by-hand-0", "by-hand-1", "absent"
ID = b"i" * 16
TIME_MS, TIMEOUT_MS = 1_600_000_000_000, 10_000


def main() -> None:
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
        stream = connection.makefile("rb")
        for number, (request, version) in enumerate(requests()):
            connection.sendall(encode_request(request, number, "by-hand", version=version))
            if not (isinstance(request, ProduceRequest) and request.acks == 0):
                stream.read(int.from_bytes(stream.read(4), "big"))


def requests() -> Iterator[tuple[Request, int]]:
    """Each with its version."""
    for version in (0, 1, 5, 6):
        yield created(f"by-hand-{version}"), version
    yield created(TOPIC), 7
    for version in range(3):
        yield produced(OF_MESSAGES, message(version // 2)), version
    for version in range(3, 10):
        yield produced(TOPIC, batch(b"v", timestamp=TIME_MS)), version
    yield produced(TOPIC, batch(b"v"), acks=0), 9
    yield produced(ABSENT, batch(b"v")), 9
    for version in FetchRequest.VERSIONS:
        partition = FetchPartition(0, 1, 1 << 20)
        yield FetchRequest(CONSUMER_REPLICA, 100, 1, (FetchTopic(TOPIC, (partition,)),)), version
    for version in ListOffsetsRequest.VERSIONS:
        for time in (EARLIEST, LATEST):
            asked = (ListOffsetsPartition(0, time, max_offsets=3),)
            topics = tuple(ListOffsetsTopic(topic, asked) for topic in (TOPIC, ABSENT))
            yield ListOffsetsRequest(CONSUMER_REPLICA, topics), version
    for version in OffsetForLeaderEpochRequest.VERSIONS:
        ends = tuple(EpochTopic(topic, (EpochPartition(0, -1, 0),)) for topic in (TOPIC, ABSENT))
        yield OffsetForLeaderEpochRequest(ends, replica_id=CONSUMER_REPLICA), version
    for version in DescribeConfigsRequest.VERSIONS:
        known = ConfigResource(kind=TOPIC_RESOURCE, name=TOPIC, keys=("retention.ms", "cleanup.policy"))
        unknown = ConfigResource(kind=TOPIC_RESOURCE, name=ABSENT)
        yield DescribeConfigsRequest(resources=(known, unknown)), version
    yield from deletions()


def deletions() -> Iterator[tuple[Request, int]]:
    for version in range(6):
        names = (f"by-hand-{version}", ABSENT)
        yield DeleteTopicsRequest(topic_names=names, timeout_ms=TIMEOUT_MS), version
    by_id = DeleteTopicState(topic_id=ID)
    for both in (DeleteTopicState(topic="by-hand-6"), DeleteTopicState(topic="by-hand-6", topic_id=ID)):
        yield DeleteTopicsRequest(topics=(both, by_id), timeout_ms=TIMEOUT_MS), 6


def created(topic: str) -> CreateTopicsRequest:
    one = CreatableTopic(topic=topic, partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=(one,), timeout_ms=TIMEOUT_MS)


def produced(topic: str, records: bytes, acks: int = ACKS_LEADER) -> ProduceRequest:
    return ProduceRequest(acks, TIMEOUT_MS, (ProducedTopic(topic, (ProducedPartition(0, records),)),))


def message(magic: int) -> bytes:
    """A message set of one message of magic 0 or 1."""
    time = struct.pack(">q", TIME_MS) if magic else b""
    body = struct.pack(">bb", magic, 0) + time + struct.pack(">ii", -1, 1) + b"v"
    whole = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(whole)) + whole


if __name__ == "__main__":
    main()
