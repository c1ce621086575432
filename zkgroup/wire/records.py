"""Requests to the leader of a partition: Produce, Fetch, offsets, and producer ids.

Records are opaque here: batches as they lie in the log (`record_batch`). Sources: the messages of these names
in clients/src/main/resources/common/message/*.json@2.8.2, for Produce below version 3 and for version 0
kafka/api/ProducerRequest.scala, FetchRequest.scala, OffsetRequest.scala and responses @0.8.2.2.

Names of fields follow zkgroup: `error` is Kafka's ErrorCode, `partition` its PartitionIndex. A field with a
default is left out in the versions before its first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final

from zkgroup.wire.messages import Api, Request, Response
from zkgroup.wire.schema import (
    ErrorText,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableString,
    Records,
    String,
    Tag,
    Versions,
)

READ_UNCOMMITTED: Final = 0
"""Isolation level: up to the high watermark."""
READ_COMMITTED: Final = 1
"""Isolation level: up to the last stable offset."""
EARLIEST: Final = -2
"""Time of ListOffsets: the first offset of the log."""
LATEST: Final = -1
"""Time of ListOffsets: the end of what the isolation level lets through."""
ACKS_LEADER: Final = 1
"""The leader answers when it has the records."""
ACKS_ALL: Final = -1
"""The leader answers when the high watermark has passed the records."""
NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
CONSUMER_REPLICA: Final = -1
"""`replica_id` of who is no replica."""
OBSERVER_REPLICA: Final = -2
"""`replica_id` of a client that may ask a replica in any role: Kafka's `DEBUGGING_REPLICA_ID`."""
FINAL_SESSION_EPOCH: Final = -1
"""Epoch of a fetch that wants no session (and closes the one it names)."""
INITIAL_SESSION_EPOCH: Final = 0
"""Epoch of a request that names all its partitions, and asks for a fetch session."""
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class ProducedPartition:
    """Records for one partition."""

    partition: Int32
    records: Records
    """One batch (from version 3 on), not looked into."""


@dataclass(frozen=True, slots=True)
class ProducedTopic:
    """Records for partitions of a topic."""

    topic: String
    partitions: tuple[ProducedPartition, ...]


@dataclass(frozen=True, slots=True)
class RecordError:
    """A record for which its batch was refused."""

    index: Int32
    """Of the record in the batch."""
    message: ErrorText = None


@dataclass(frozen=True, slots=True)
class ProduceResult:
    """The result for one partition."""

    partition: Int32
    error: Int16
    offset: Int64
    """Of the first; -1 where there is none."""
    log_append_time_ms: Annotated[Int64, Versions(2)] = NO_TIME
    """Epoch milliseconds by the leader's clock where the topic has LogAppendTime, else -1."""
    log_start_offset: Annotated[Int64, Versions(5)] = NO_OFFSET
    record_errors: Annotated[tuple[RecordError, ...], Versions(8)] = ()
    error_message: Annotated[ErrorText, Versions(8)] = None


@dataclass(frozen=True, slots=True)
class ProduceTopicResult:
    """The results for the partitions of one topic."""

    topic: String
    partitions: tuple[ProduceResult, ...]


@dataclass(frozen=True, slots=True)
class ProduceResponse(Response):
    """The result for each partition."""

    VERSIONS: ClassVar[range] = range(10)
    FLEXIBLE_FROM: ClassVar[int | None] = 9

    topics: tuple[ProduceTopicResult, ...]
    throttle_ms: Annotated[Int32, Versions(1)] = 0


@dataclass(frozen=True, slots=True)
class ProduceRequest(Request):
    """Appends records."""

    API: ClassVar[Api] = Api.PRODUCE
    RESPONSE: ClassVar[type[Response]] = ProduceResponse
    VERSIONS: ClassVar[range] = range(10)
    FLEXIBLE_FROM: ClassVar[int | None] = 9

    transactional_id: Annotated[NullableString, Versions(3)] = field(default=None, kw_only=True)
    acks: Int16
    """-1: all in sync; 1: the leader; 0: no response is awaited, and none may be sent."""
    timeout_ms: Int32
    topics: tuple[ProducedTopic, ...]


def next_session_epoch(epoch: int) -> int:
    """The epoch of the next request in a fetch session."""
    return epoch % (2**31 - 1) + 1


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """The place to read at in one partition."""

    partition: Int32
    current_leader_epoch: Annotated[Int32, Versions(9)] = field(default=NO_EPOCH, kw_only=True)
    """Of the leader that the sender means; -1 where it knows none."""
    offset: Int64
    last_fetched_epoch: Annotated[Int32, Versions(12)] = field(default=NO_EPOCH, kw_only=True)
    """Leader epoch of the last record before `offset`; -1 where there is none, or a consumer asks."""
    log_start_offset: Annotated[Int64, Versions(5)] = field(default=NO_OFFSET, kw_only=True)
    """Of the follower; -1 for a consumer."""
    max_bytes: Int32


@dataclass(frozen=True, slots=True)
class FetchTopic:
    """The places to read at in partitions of a topic."""

    topic: String
    partitions: tuple[FetchPartition, ...]


@dataclass(frozen=True, slots=True)
class ForgottenTopic:
    """Partitions that a fetch session is to leave out from now on."""

    topic: String
    partitions: tuple[Int32, ...]


@dataclass(frozen=True, slots=True)
class LeaderIdAndEpoch:
    """The leader of a partition and its epoch."""

    leader: Int32 = -1
    """Broker id; -1 for unknown."""
    leader_epoch: Int32 = NO_EPOCH


@dataclass(frozen=True, slots=True)
class SnapshotId:
    """A snapshot of a KRaft metadata log; zkgroup brokers have none."""

    end_offset: Int64 = NO_OFFSET
    epoch: Int32 = NO_EPOCH


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """The beginning of a transaction that was aborted."""

    producer_id: Int64
    first_offset: Int64


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The end of a leader epoch's records."""

    leader_epoch: Int32
    end_offset: Int64
    """The first offset behind it."""


NO_EPOCH_END: Final = EpochEnd(NO_EPOCH, NO_OFFSET)


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """The records read from one partition."""

    partition: Int32
    error: Int16
    high_watermark: Int64
    """-1 with an error."""
    last_stable_offset: Annotated[Int64, Versions(4)] = field(default=NO_OFFSET, kw_only=True)
    """Without transactions the high watermark; -1 with an error."""
    log_start_offset: Annotated[Int64, Versions(5)] = field(default=NO_OFFSET, kw_only=True)
    diverging: Annotated[EpochEnd, Tag(0), Versions(12)] = field(default=NO_EPOCH_END, kw_only=True)
    """End of the leader's log for the epoch that was fetched last: the follower's is not the same
    from there on (KIP-595). Epoch -1 where it is."""
    current_leader: Annotated[LeaderIdAndEpoch, Tag(1), Versions(12)] = field(
        default=LeaderIdAndEpoch(), kw_only=True
    )
    snapshot_id: Annotated[SnapshotId, Tag(2), Versions(12)] = field(default=SnapshotId(), kw_only=True)
    log_end_offset: Annotated[Int64, Tag(10_000), Versions(12)] = field(default=NO_OFFSET, kw_only=True)
    """zkgroup's own: the end of the leader's log, for followers; -1 where it is not said."""
    failed_since_ms: Annotated[Int64, Tag(10_001), Versions(12)] = field(default=NO_TIME, kw_only=True)
    """zkgroup's own, for replica id -2 with error 56: epoch milliseconds by the broker's clock since when the
    replica has failed; -1 where it has not."""
    failure: Annotated[String, Tag(10_002), Versions(12)] = field(default="", kw_only=True)
    """zkgroup's own, with `failed_since_ms`: why, for people, with the file where there is one."""
    aborted_transactions: Annotated[tuple[AbortedTransaction, ...] | None, Versions(4)] = field(
        default=None, kw_only=True
    )
    """Null for read_uncommitted."""
    preferred_read_replica: Annotated[Int32, Versions(11)] = field(default=-1, kw_only=True)
    """Broker id; -1 for the leader itself."""
    records: Records


@dataclass(frozen=True, slots=True)
class FetchedTopic:
    """The records read from partitions of a topic."""

    topic: String
    partitions: tuple[FetchedPartition, ...]


@dataclass(frozen=True, slots=True)
class FetchResponse(Response):
    """The records of all topics that were read."""

    VERSIONS: ClassVar[range] = range(13)
    FLEXIBLE_FROM: ClassVar[int | None] = 12

    throttle_ms: Annotated[Int32, Versions(1)] = field(default=0, kw_only=True)
    error: Annotated[Int16, Versions(7)] = field(default=0, kw_only=True)
    """Of the request as a whole."""
    session_id: Annotated[Int32, Versions(7)] = field(default=0, kw_only=True)
    """0: none was made."""
    topics: tuple[FetchedTopic, ...]


@dataclass(frozen=True, slots=True)
class FetchRequest(Request):
    """Reads records, as a consumer or as a follower."""

    API: ClassVar[Api] = Api.FETCH
    RESPONSE: ClassVar[type[Response]] = FetchResponse
    VERSIONS: ClassVar[range] = range(13)
    FLEXIBLE_FROM: ClassVar[int | None] = 12

    cluster_id: Annotated[NullableString, Tag(0), Versions(12)] = field(default=None, kw_only=True)
    broker_epoch: Annotated[Int64, Tag(10_000), Versions(12)] = field(default=-1, kw_only=True)
    """zkgroup's own: czxid of the follower's registration; -1 for a consumer."""
    replica_id: Int32
    """The follower; -1 for a consumer."""
    max_wait_ms: Int32
    """Longest time that the leader may wait for `min_bytes`."""
    min_bytes: Int32
    max_bytes: Annotated[Int32, Versions(3)] = field(default=2**31 - 1, kw_only=True)
    """Of all records in the answer; the first batch comes however large it is."""
    isolation_level: Annotated[Int8, Versions(4)] = field(default=READ_UNCOMMITTED, kw_only=True)
    session_id: Annotated[Int32, Versions(7)] = field(default=0, kw_only=True)
    """0: none yet."""
    session_epoch: Annotated[Int32, Versions(7)] = field(default=FINAL_SESSION_EPOCH, kw_only=True)
    """0 asks for a session, -1 for none."""
    topics: tuple[FetchTopic, ...]
    forgotten: Annotated[tuple[ForgottenTopic, ...], Versions(7)] = field(default=(), kw_only=True)
    rack: Annotated[String, Versions(11)] = field(default="", kw_only=True)
    """Of the consumer."""


@dataclass(frozen=True, slots=True)
class ListOffsetsPartition:
    """A request for offsets of one partition."""

    partition: Int32
    current_leader_epoch: Annotated[Int32, Versions(4)] = field(default=NO_EPOCH, kw_only=True)
    """Of the leader that the sender means; -1 where it knows none."""
    time_ms: Int64
    """Epoch milliseconds; -1 the end, -2 the start."""
    max_offsets: Annotated[Int32, Versions(0, 0)] = 1


@dataclass(frozen=True, slots=True)
class ListOffsetsTopic:
    """A request for offsets of partitions of a topic."""

    topic: String
    partitions: tuple[ListOffsetsPartition, ...]


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """Offsets of one partition."""

    partition: Int32
    error: Int16
    offsets: Annotated[tuple[Int64, ...], Versions(0, 0)] = ()
    """Version 0: the latest first."""
    time_ms: Annotated[Int64, Versions(1)] = NO_TIME
    """Of the record at `offset`; -1 for the end and the start, and where there is none."""
    offset: Annotated[Int64, Versions(1)] = NO_OFFSET
    """Of the first record that is not older than the time asked for; -1 where there is none."""
    leader_epoch: Annotated[Int32, Versions(4)] = NO_EPOCH
    """Of that record."""


@dataclass(frozen=True, slots=True)
class ListedTopic:
    """Offsets of partitions of a topic."""

    topic: String
    partitions: tuple[ListedPartition, ...]


@dataclass(frozen=True, slots=True)
class ListOffsetsResponse(Response):
    """Offsets."""

    VERSIONS: ClassVar[range] = range(7)
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    throttle_ms: Annotated[Int32, Versions(2)] = field(default=0, kw_only=True)
    topics: tuple[ListedTopic, ...]


@dataclass(frozen=True, slots=True)
class ListOffsetsRequest(Request):
    """Asks for offsets by time."""

    API: ClassVar[Api] = Api.LIST_OFFSETS
    RESPONSE: ClassVar[type[Response]] = ListOffsetsResponse
    VERSIONS: ClassVar[range] = range(7)
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    replica_id: Int32
    isolation_level: Annotated[Int8, Versions(2)] = field(default=READ_UNCOMMITTED, kw_only=True)
    topics: tuple[ListOffsetsTopic, ...]


@dataclass(frozen=True, slots=True)
class EpochPartition:
    """The end of which epoch of one partition is asked for."""

    partition: Int32
    current_leader_epoch: Annotated[Int32, Versions(2, absent=NO_EPOCH)]
    """Of the leader that the sender means; -1 where it knows none."""
    leader_epoch: Int32


@dataclass(frozen=True, slots=True)
class EpochTopic:
    """The ends of which epochs of partitions of a topic are asked for."""

    topic: String
    partitions: tuple[EpochPartition, ...]


@dataclass(frozen=True, slots=True)
class EpochEndResult:
    """The end of an epoch."""

    error: Int16
    partition: Int32
    leader_epoch: Annotated[Int32, Versions(1)] = NO_EPOCH
    """The largest one up to the epoch asked for that has records; -1 where there is none."""
    end_offset: Int64 = NO_OFFSET
    """The first offset behind it."""


@dataclass(frozen=True, slots=True)
class EpochTopicResult:
    """The ends of epochs in partitions of a topic."""

    topic: String
    partitions: tuple[EpochEndResult, ...]


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpochResponse(Response):
    """The ends of epochs."""

    VERSIONS: ClassVar[range] = range(5)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_ms: Annotated[Int32, Versions(2)] = field(default=0, kw_only=True)
    topics: tuple[EpochTopicResult, ...]


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpochRequest(Request):
    """Asks where epochs end (KIP-101, KIP-279)."""

    API: ClassVar[Api] = Api.OFFSET_FOR_LEADER_EPOCH
    RESPONSE: ClassVar[type[Response]] = OffsetForLeaderEpochResponse
    VERSIONS: ClassVar[range] = range(5)
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    replica_id: Annotated[Int32, Versions(3)] = field(default=-2, kw_only=True)
    """The follower; -1 for a consumer; -2, before version 3, for unknown."""
    topics: tuple[EpochTopic, ...]


HIGH_WATERMARK: Final = -1
"""Offset of DeleteRecords: the partition's high watermark."""


@dataclass(frozen=True, slots=True)
class DeletedPartition:
    """Up to where the records of a partition are deleted."""

    partition: Int32
    offset: Int64
    """The first that stays, the new log start offset; -1 for the high watermark."""


@dataclass(frozen=True, slots=True)
class DeletedTopicRecords:
    """Partitions of a topic."""

    topic: String
    partitions: tuple[DeletedPartition, ...]


@dataclass(frozen=True, slots=True)
class DeleteRecordsResult:
    """The result for one partition."""

    partition: Int32
    low_watermark: Int64
    """The smallest log start offset of the live replicas; -1 where there is none."""
    error: Int16


@dataclass(frozen=True, slots=True)
class DeleteRecordsTopicResult:
    """The results for the partitions of one topic."""

    topic: String
    partitions: tuple[DeleteRecordsResult, ...]


@dataclass(frozen=True, slots=True)
class DeleteRecordsResponse(Response):
    """The result for each partition."""

    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_ms: Int32
    topics: tuple[DeleteRecordsTopicResult, ...]


@dataclass(frozen=True, slots=True)
class DeleteRecordsRequest(Request):
    """Deletes the records below an offset."""

    API: ClassVar[Api] = Api.DELETE_RECORDS
    RESPONSE: ClassVar[type[Response]] = DeleteRecordsResponse
    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    topics: tuple[DeletedTopicRecords, ...]
    timeout_ms: Int32


@dataclass(frozen=True, slots=True)
class InitProducerIdResponse(Response):
    """An id for an idempotent producer."""

    VERSIONS: ClassVar[range] = range(5)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_ms: Int32 = field(default=0, kw_only=True)
    error: Int16
    producer_id: Int64 = NO_PRODUCER_ID
    producer_epoch: Int16 = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class InitProducerIdRequest(Request):
    """Asks for an id for an idempotent or transactional producer (KIP-98, KIP-360)."""

    API: ClassVar[Api] = Api.INIT_PRODUCER_ID
    RESPONSE: ClassVar[type[Response]] = InitProducerIdResponse
    VERSIONS: ClassVar[range] = range(5)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    transactional_id: NullableString
    """Null for a producer that is idempotent only."""
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, Versions(3)] = NO_PRODUCER_ID
    """The id that the producer has; -1 for none."""
    producer_epoch: Annotated[Int16, Versions(3)] = NO_PRODUCER_EPOCH
