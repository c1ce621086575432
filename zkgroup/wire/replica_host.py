"""The requests for lines, in Kafka's framing on the broker's port.

A line is a record of Kafka's without key and headers, so that a log holds Kafka's record batches whoever
appends to it. The API keys are far above Kafka's, so that neither side takes one for the other. A leader
makes the batches; whoever is given one checks it. Epochs and offsets mean what they mean in Kafka (KIP-101,
KIP-279, KIP-595).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from zkgroup.wire.messages import REQUEST_BYTES_MAX, Api, Request, Response
from zkgroup.wire.record_batch import HEADER_BYTES, Record, build_batch, check_batch
from zkgroup.wire.record_batch import records_of as read_records
from zkgroup.wire.schema import Buffer, Bytes, Int16, Int32, Int64, String

RECORD_BYTES_MAX: Final = 32
"""What a line takes in a batch beside its own bytes, at most."""
BATCH_BYTES_MAX: Final = REQUEST_BYTES_MAX - 1024
"""Of a batch: whoever reads frames must be able to take the response that carries it."""


class LineBatch(NamedTuple):
    """Lines that were appended together."""

    base_offset: int
    leader_epoch: int
    """Of the leader that appended them."""
    lines: tuple[bytes, ...]
    """Each without its newline."""

    @property
    def end_offset(self) -> int:
        """The first offset behind the batch."""
        return self.base_offset + len(self.lines)


def are_lines(lines: Sequence[bytes]) -> bool:
    """Whether they can be one batch: one or more, none with a newline in it, together not too large."""
    size = HEADER_BYTES + len(lines) * RECORD_BYTES_MAX + sum(map(len, lines))
    return bool(lines) and size <= BATCH_BYTES_MAX and not any(b"\n" in line for line in lines)


def records_of(
    lines: Sequence[bytes], *, timestamp_ms: int, base_offset: int = 0, leader_epoch: int = -1
) -> bytes:
    """One record batch with a record for each line. A leader stamps base offset and leader epoch anew."""
    records = [Record(base_offset + number, timestamp_ms, None, line) for number, line in enumerate(lines)]
    return build_batch(records, leader_epoch=leader_epoch)


def batches_in(records: Buffer) -> Iterator[LineBatch]:
    """The batches of a response, one after the other. Raises CorruptRecordError at one that is damaged."""
    at = 0
    while at < len(records):
        header = check_batch(records, at)
        batch = memoryview(records)[at : at + header.size]
        lines = tuple(record.value or b"" for record in read_records(batch))
        yield LineBatch(header.base_offset, header.leader_epoch, lines)
        at += header.size


ACKS_LEADER = 1
"""The leader answers when it has the lines."""
ACKS_ALL = -1
"""The leader answers when the high watermark has passed the lines."""
CONSUMER = -1
"""Replica id of who is no replica."""
OBSERVER = -2
"""Replica id of who asks any replica how far it is, leader or not, and gets no line. Kafka's number for a
consumer that may ask any replica (kafka/api/FetchRequest.scala@0.8.2.2, `DebuggingConsumerId`)."""
NO_BROKER_EPOCH = -1
"""Broker epoch of who is no broker."""
NO_EPOCH = -1
"""Leader epoch of who knows none, and last fetched epoch of who has no line."""


@dataclass(frozen=True, slots=True)
class AppendLinesResponse(Response):
    """Where the lines are."""

    error: Int16
    """0, 3, 6, 74, 75 or 87; see `ErrorCode`."""
    base_offset: Int64
    """Of the first line. With error 6: where the lines may be, or -1 where they were not appended; with
    another -1."""
    high_watermark: Int64
    """-1 with an error."""


@dataclass(frozen=True, slots=True)
class AppendLinesRequest(Request):
    """Appends lines to a partition (`Append`)."""

    API: ClassVar[Api] = Api.APPEND_LINES
    RESPONSE: ClassVar[type[Response]] = AppendLinesResponse

    topic: String
    partition: Int32
    leader_epoch: Int32
    """Of the leader that the sender means."""
    acks: Int16
    """1 (leader) or -1 (all)."""
    lines: tuple[Bytes, ...]
    """Each without its newline."""


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """Where the records of a leader epoch end."""

    leader_epoch: Int32
    end_offset: Int64
    """The first offset behind it."""


@dataclass(frozen=True, slots=True)
class FetchLinesResponse(Response):
    """What the leader has from there on."""

    error: Int16
    """0, 1, 3, 6, 74, 75 or 77; see `ErrorCode`."""
    high_watermark: Int64
    """-1 with an error."""
    log_end_offset: Int64
    """-1 with an error."""
    diverging: EpochEnd | None = None
    """The follower's log is not the leader's from here on: it cuts back and asks again."""
    records: Bytes = b""
    """Whole record batches; the first may begin before the offset."""


@dataclass(frozen=True, slots=True)
class FetchLinesRequest(Request):
    """Reads lines of a partition, as a follower or as a consumer (`Fetch`)."""

    API: ClassVar[Api] = Api.FETCH_LINES
    RESPONSE: ClassVar[type[Response]] = FetchLinesResponse

    replica_id: Int32
    """The follower; -1 for a consumer; -2 for who only asks how far a replica is, whichever it is."""
    broker_epoch: Int64
    """czxid of the follower's registration; -1 for a consumer."""
    topic: String
    partition: Int32
    leader_epoch: Int32
    """Of the leader that the sender means; -1 where it knows none."""
    last_fetched_epoch: Int32
    """Leader epoch of the last line before `offset`; -1 where there is none."""
    offset: Int64
    """The first that is wanted."""
    max_bytes: Int32
    """Of batches; one comes however large it is."""
    max_wait_ms: Int32
    """How long the leader may wait for a line to come."""


@dataclass(frozen=True, slots=True)
class FailedReplicaRow:
    """A replica that its broker can neither lead nor follow with now."""

    topic: String
    partition: Int32
    since_ms: Int64
    """Epoch milliseconds by the broker's clock; through attempts to go on that were in vain."""
    reason: String
    """For people, with the file where there is one."""


@dataclass(frozen=True, slots=True)
class FailedReplicasResponse(Response):
    """By topic and partition."""

    replicas: tuple[FailedReplicaRow, ...] = ()


@dataclass(frozen=True, slots=True)
class FailedReplicasRequest(Request):
    """Asks a broker which of its replicas have failed, and why (`broker describe`)."""

    API: ClassVar[Api] = Api.FAILED_REPLICAS
    RESPONSE: ClassVar[type[Response]] = FailedReplicasResponse
