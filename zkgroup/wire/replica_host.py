"""The requests for lines, in Kafka's framing on the broker's port, and the batches that they carry.

Lines of a file take the place of Kafka's records; the API keys are far above Kafka's, so that neither side
takes one for the other. A leader makes batches; whoever is given one checks it. Epochs and offsets mean what
they mean in Kafka (KIP-101, KIP-279, KIP-595).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from zkgroup.wire.crc32c import crc32c
from zkgroup.wire.messages import REQUEST_BYTES_MAX, Api, Request, Response
from zkgroup.wire.schema import Bytes, Int16, Int32, Int64, String, Uint32

HEAD_BYTES: Final = 24
"""What a batch takes in an answer beside its lines."""
BATCH_BYTES_MAX: Final = REQUEST_BYTES_MAX - 1024
"""Of its lines with their newlines: whoever reads frames must be able to take the answer that carries it."""


def are_lines(lines: Sequence[bytes]) -> bool:
    """Whether they can be one batch: one or more, none with a newline in it, together not too large."""
    size = len(lines) + sum(map(len, lines))
    return bool(lines) and size <= BATCH_BYTES_MAX and not any(b"\n" in line for line in lines)


def batch_of(lines: Sequence[bytes], base_offset: int, leader_epoch: int) -> LineBatch:
    """One batch of lines that are given without their newlines."""
    text = b"\n".join((*lines, b""))
    return LineBatch(base_offset, leader_epoch, len(lines), crc32c(text), text)


def is_whole(batch: LineBatch) -> bool:
    """Whether the batch is what its leader made: complete lines, as many as it says, with its checksum."""
    return (
        batch.count > 0
        and batch.lines.endswith(b"\n")
        and batch.lines.count(b"\n") == batch.count
        and crc32c(batch.lines) == batch.crc32c
    )


def end_of(batch: LineBatch) -> int:
    """The first offset behind the batch."""
    return batch.base_offset + batch.count


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
class LineBatch:
    """Lines that were appended together."""

    base_offset: Int64
    leader_epoch: Int32
    """Of the leader that took them in."""
    count: Int32
    """Of lines."""
    crc32c: Uint32
    """Of `lines`."""
    lines: Bytes
    """As they lie in the file: each line with its newline."""


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
    batches: tuple[LineBatch, ...] = ()


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
    """Of batches, with their heads; one comes however large it is."""
    max_wait_ms: Int32
    """How long the leader may wait for a line to come."""


@dataclass(frozen=True, slots=True)
class FailedReplica:
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

    replicas: tuple[FailedReplica, ...] = ()


@dataclass(frozen=True, slots=True)
class FailedReplicasRequest(Request):
    """Asks a broker which of its replicas have failed, and why (`broker describe`)."""

    API: ClassVar[Api] = Api.FAILED_REPLICAS
    RESPONSE: ClassVar[type[Response]] = FailedReplicasResponse
