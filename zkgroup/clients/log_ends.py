"""The starts and ends of logs, and their offsets at a time, as brokers of zkgroup and Kafka report them.

Of each replica, or of partitions by their leaders.

Any replica answers a request with replica id -2 (kafka/api/FetchRequest.scala@0.8.2.2): ListOffsets
with its log end, Fetch with its high watermark. For a replica that has failed a zkgroup broker adds since
when, and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from zkgroup.clients.addresses import Addresses
from zkgroup.clients.broker_queries import TIMEOUT_MS, AnswerT, QueryClient, Question, ask_each, refusal
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import (
    CONSUMER_REPLICA,
    EARLIEST,
    LATEST,
    NO_OFFSET,
    OBSERVER_REPLICA,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ListedPartition,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

Replica = tuple[TopicPartition, int]
"""A partition on a broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The position of one replica. Offsets are None where they are not known."""

    broker: int
    log_end_offset: int | None = None
    """Of its next record."""
    high_watermark: int | None = None
    """The offset below which it knows records to be committed; a follower learns it after its leader."""
    reason: str | None = None
    """The reason why they are not known."""
    answered: bool = True
    failed_since_ms: int | None = None
    """Epoch milliseconds by the broker's clock, of a replica that has failed; `reason` says why."""


LogEnds = Mapping[Replica, LogEnd]


@dataclass(frozen=True, slots=True)
class FailedReplicaReport:
    """A replica that its broker can neither lead nor follow with now."""

    topic: str
    partition: int
    since_ms: int
    reason: str
    """For people, with the file where there is one."""


def failed_replicas(ends: LogEnds) -> tuple[FailedReplicaReport, ...] | None:
    """Those that have failed, by topic and partition; None if there are replicas and no broker answered."""
    if ends and not any(end.answered for end in ends.values()):
        return None
    return tuple(
        FailedReplicaReport(*tp, end.failed_since_ms, end.reason or "")
        for (tp, _), end in sorted(ends.items(), key=lambda item: item[0])
        if end.failed_since_ms is not None
    )


def read_log_ends(
    addresses: Addresses, replicas: Iterable[Replica], timeout_ms: int = TIMEOUT_MS
) -> dict[Replica, LogEnd]:
    """Asks the brokers of these replicas, all at the same time; raises what `ask_each` raises.

    `timeout_ms`: for each answer of a broker; after the first that is late it is not asked again.
    """
    found = ask_each(addresses, ((replica, replica[1]) for replica in replicas), timeout_ms, _replica_ends)
    return {
        replica: LogEnd(broker=replica[1], reason=end, answered=False) if isinstance(end, str) else end
        for replica, end in found.items()
    }


def read_start_offsets(
    addresses: Addresses,
    leaders: Mapping[TopicPartition, int | str],
    timeout_ms: int = TIMEOUT_MS,
) -> dict[TopicPartition, int | str]:
    """Reads the starts of logs from their leaders, or the reason why one is not known. Raises what
    `ask_each` raises.

    `leaders`: partition to the broker that leads it, or why none is known. `timeout_ms`: see `read_log_ends`.
    """
    return _by_leader(addresses, leaders, timeout_ms, _bound(EARLIEST))


def read_end_offsets(
    addresses: Addresses,
    leaders: Mapping[TopicPartition, int | str],
    timeout_ms: int = TIMEOUT_MS,
    certificates: MutableMapping[int, float] | None = None,
) -> dict[TopicPartition, int | str]:
    """High watermarks by the leaders of partitions; see `read_start_offsets`.

    `certificates`: see `ask_each`.
    """
    return _by_leader(addresses, leaders, timeout_ms, _bound(LATEST), certificates)


@dataclass(frozen=True, slots=True)
class TimeOffset:
    """The offset of a log at a time."""

    offset: int
    """Of the first record at or after the time; the log end where all are older."""
    by_segment: bool = False
    """Instead the first of the last segment that was last modified at or before the time, or the log's start
    where there is none: no later record is before it, but up to two segments of earlier ones are after it.
    """


def read_time_offsets(
    addresses: Addresses,
    leaders: Mapping[TopicPartition, int | str],
    time_ms: int,
    timeout_ms: int = TIMEOUT_MS,
) -> dict[TopicPartition, TimeOffset | str]:
    """The offsets of a time (epoch milliseconds), or why one is not known; see `read_start_offsets`.

    Brokers know the times of records from Kafka 0.10.1 on, in logs of message format 0.10 on. Of others they
    know when the file of a segment was last modified: at the append of its last record, or later, where the
    file was copied or truncated since (`fetchOffsetsBefore` in kafka/server/KafkaApis.scala@0.8.2.2).
    """
    return _by_leader(
        addresses, leaders, timeout_ms, lambda client, asked: _time_offsets(client, asked, time_ms)
    )


def _by_leader(
    addresses: Addresses,
    leaders: Mapping[TopicPartition, int | str],
    timeout_ms: int,
    question: Question[TopicPartition, AnswerT],
    certificates: MutableMapping[int, float] | None = None,
) -> dict[TopicPartition, AnswerT | str]:
    return ask_each(addresses, leaders.items(), timeout_ms, question, "its leader, broker {},", certificates)


def _bound(time_ms: int) -> Question[TopicPartition, int]:
    """The question for `EARLIEST` or `LATEST`."""
    return lambda client, asked: _offsets(client, CONSUMER_REPLICA, asked, time_ms)


async def _offsets(
    client: QueryClient, replica: int, partitions: Sequence[TopicPartition], time_ms: int
) -> dict[TopicPartition, int | str]:
    """By partition the offset of a time that is reported to such a replica id, or why it is not known."""
    listed = await _listed(client, replica, partitions, time_ms)
    return {tp: _offset_of(listed[tp]) for tp in partitions}


async def _time_offsets(
    client: QueryClient, partitions: Sequence[TopicPartition], time_ms: int
) -> dict[TopicPartition, TimeOffset | str]:
    exact = partitions if await client.version(ListOffsetsRequest) > 0 else ()
    listed = await _listed(client, CONSUMER_REPLICA, exact, time_ms)
    old = {tp for tp in partitions if tp not in listed or _has_old_format(listed[tp])}
    listed |= await _listed(client, CONSUMER_REPLICA, sorted(old), time_ms, version=0)
    found = {tp: _offset_of(listed[tp]) for tp in partitions}
    none = {tp for tp, offset in found.items() if offset == NO_OFFSET}
    found |= await _offsets(client, CONSUMER_REPLICA, sorted(none - old), LATEST)
    found |= await _offsets(client, CONSUMER_REPLICA, sorted(none & old), EARLIEST)
    return {
        tp: offset if isinstance(offset, str) else TimeOffset(offset, by_segment=tp in old)
        for tp, offset in found.items()
    }


def _has_old_format(listed: ListedPartition | None) -> bool:
    """Returns whether the records have no times (error of Kafka from 0.10.1 on)."""
    return listed is not None and listed.error == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


async def _listed(
    client: QueryClient,
    replica: int,
    partitions: Sequence[TopicPartition],
    time_ms: int,
    *,
    version: int | None = None,
) -> dict[TopicPartition, ListedPartition | None]:
    """Gives a broker's answer to ListOffsets about each of the partitions; None where it leaves one out."""
    if not partitions:
        return {}
    topics = tuple(
        ListOffsetsTopic(topic, tuple(ListOffsetsPartition(tp.partition, time_ms) for tp in some))
        for topic, some in _by_topic(partitions)
    )
    request = ListOffsetsRequest(replica, topics=topics)
    answer = await client.ask(request, ListOffsetsResponse, version=version)
    found = {TopicPartition(t.topic, one.partition): one for t in answer.topics for one in t.partitions}
    return {tp: found.get(tp) for tp in partitions}


async def _fetched(
    client: QueryClient, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, FetchedPartition]:
    """Fetches no records at an offset of each replica, and returns the answers."""
    topics = tuple(
        FetchTopic(topic, tuple(FetchPartition(tp.partition, offsets[tp], 0) for tp in some))
        for topic, some in _by_topic(offsets)
    )
    request = FetchRequest(replica_id=OBSERVER_REPLICA, max_wait_ms=0, min_bytes=0, topics=topics)
    answer = await client.ask(request, FetchResponse)
    return {TopicPartition(t.topic, one.partition): one for t in answer.topics for one in t.partitions}


async def _replica_ends(client: QueryClient, replicas: Sequence[Replica]) -> dict[Replica, LogEnd | str]:
    offsets = await _offsets(client, OBSERVER_REPLICA, [tp for tp, _ in replicas], LATEST)
    known = {tp: offset if isinstance(offset, int) else 0 for tp, offset in offsets.items()}
    fetched = await _fetched(client, known)
    return {(tp, broker): _log_end(broker, offsets[tp], fetched.get(tp)) for tp, broker in replicas}


def _log_end(broker: int, offset: int | str, fetched: FetchedPartition | None) -> LogEnd:
    end = offset if isinstance(offset, int) else None
    if fetched is None:
        return LogEnd(broker=broker, log_end_offset=end, reason=_refusal(None))
    mark = fetched.high_watermark if fetched.high_watermark >= 0 else None
    if fetched.failed_since_ms >= 0:
        return LogEnd(
            broker=broker,
            log_end_offset=end,
            high_watermark=mark,
            reason=fetched.failure,
            failed_since_ms=fetched.failed_since_ms,
        )
    if isinstance(offset, str):
        return LogEnd(broker=broker, reason=offset)
    reason = None if fetched.error == ErrorCode.NONE else _refusal(fetched.error)
    return LogEnd(broker=broker, log_end_offset=end, high_watermark=mark, reason=reason)


def _offset_of(listed: ListedPartition | None) -> int | str:
    if listed is None or listed.error != ErrorCode.NONE:
        return _refusal(listed.error if listed else None)
    return listed.offsets[0] if listed.offsets else listed.offset


def _refusal(error: int | None) -> str:
    return "its broker does not answer for it" if error is None else refusal(error)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[TopicPartition]]]:
    topics: dict[str, list[TopicPartition]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp)
    return list(topics.items())
