"""Fetch: the answers to consumers and followers, and the wait for records.

Sources: kafka/server/KafkaApis.scala (`handleFetchRequest`), kafka/server/DelayedFetch.scala,
kafka/server/ReplicaManager.scala (`fetchMessages`) @2.8.2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Self

from zkgroup.broker.machine.events import FollowerFetched
from zkgroup.broker.replica_view import FETCH_BYTES_MAX, FollowerId
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.replica import no_fetch
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import SIZE, ErrorCode, by_topic, response_buffers
from zkgroup.wire.record_batch import HEADER_BYTES, ZSTD, read_header
from zkgroup.wire.records import (
    NO_EPOCH,
    NO_EPOCH_END,
    OBSERVER_REPLICA,
    READ_COMMITTED,
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from zkgroup.wire.schema import Buffer

RECORD_BATCH_VERSION: Final = 4
"""The first version whose clients can read batches of magic 2; the log has no others."""
ZSTD_VERSION: Final = 10
"""The first version whose clients can read batches with zstd."""
FOLLOWER_VERSION: Final = 12
"""The first version in which a follower names the epoch of its last record. Without it a diverging log would
not be noticed."""


def follower_of(request: FetchRequest) -> FollowerId | None:
    """The follower that fetches; None for a consumer or an observer."""
    return FollowerId(request.replica_id, request.broker_epoch) if request.replica_id >= 0 else None


def partitions_of(request: FetchRequest) -> Iterator[tuple[TopicPartition, FetchPartition]]:
    """The partitions that a request names, in order."""
    for topic in request.topics:
        for partition in topic.partitions:
            yield TopicPartition(topic.topic, partition.partition), partition


def forgotten_by(request: FetchRequest) -> Iterator[TopicPartition]:
    """The partitions that a request takes out of its session."""
    for topic in request.forgotten:
        for partition in topic.partitions:
            yield TopicPartition(topic.topic, partition)


def refused(request: FetchRequest, error: ErrorCode) -> FetchResponse:
    """The answer that refuses each partition."""
    return FetchResponse(topics_of({tp: no_fetch(tp.partition, error) for tp, _ in partitions_of(request)}))


def without_zstd(result: FetchedPartition, version: int) -> FetchedPartition:
    """The batches before the first one with zstd, which clients before version 10 cannot read; if that is the
    first one, error 76. Kafka refuses a whole topic with `compression.type=zstd`, and sends its batches
    otherwise."""
    records = result.records
    if version >= ZSTD_VERSION or not records:
        return result
    at = 0
    while at + HEADER_BYTES <= len(records):
        header = read_header(records, at)
        if header.compression == ZSTD:
            if at == 0:
                return no_fetch(result.partition, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
            return dataclasses.replace(result, records=memoryview(records)[:at])
        at += max(header.size, HEADER_BYTES)
    return result


def topics_of(
    results: Mapping[TopicPartition, FetchedPartition], isolation_level: int = 0
) -> tuple[FetchedTopic, ...]:
    """The partitions of an answer by topic, in order.

    With isolation level 1 a consumer expects a list of aborted transactions; there are none.
    """
    if isolation_level == READ_COMMITTED:
        results = {tp: dataclasses.replace(one, aborted_transactions=()) for tp, one in results.items()}
    return by_topic(results.items(), FetchedTopic)


def bytes_of(response: FetchResponse) -> int:
    """The bytes of records in an answer."""
    return sum(len(each.records or b"") for topic in response.topics for each in topic.partitions)


def size_of(response: FetchResponse, version: int) -> int:
    """The bytes of an answer as Kafka counts them for quotas: all but its correlation id.

    Source: `FetchResponse.sizeOf` in org/apache/kafka/common/requests/FetchResponse.java@2.8.2.
    """
    header = SIZE.size + response.header_version(version)
    return sum(map(len, response_buffers(response, 0, version=version))) - header


class KnownOffsets(NamedTuple):
    """The offsets of a leader that its follower learns by each answer."""

    high_watermark: int
    log_start_offset: int

    @classmethod
    def of(cls, result: FetchedPartition) -> Self:
        """Those of an answer."""
        return cls(result.high_watermark, result.log_start_offset)


class DelayedFetch:
    """A fetch of several partitions, until there is enough to answer.

    The fetch of a consumer is complete with `min_bytes` of records. That of a follower is complete with
    anything new for one partition: records, or another high watermark or log start offset than the follower
    knows. An error or a diverging log completes both.
    """

    def __init__(
        self,
        wanted: Mapping[TopicPartition, FetchPartition],
        request: FetchRequest,
        known: Mapping[TopicPartition, KnownOffsets] | None = None,
    ) -> None:
        """`known`: the offsets that the follower knows; others are news. None, without a session: those of
        the first read, and all partitions are answered."""
        self._wanted = wanted
        self._follower = follower_of(request)
        self._observes = request.replica_id == OBSERVER_REPLICA
        self._min_bytes = request.min_bytes
        self._max_bytes = min(request.max_bytes, FETCH_BYTES_MAX)
        self._known = known
        self._first: dict[TopicPartition, KnownOffsets] = {}
        """Without a session: the offsets of the first read."""
        self._bytes = 0
        self._is_urgent = self._observes
        self._results: dict[TopicPartition, FetchedPartition] = {}
        """The partitions that were read, each as it was read last."""
        self._chunks: dict[TopicPartition, list[Buffer]] = {}
        """Of a consumer: the records of each partition, in the pieces in which they were read."""
        self._sizes: dict[TopicPartition, int] = {}
        """Bytes of these pieces together."""
        self.news: dict[TopicPartition, FetchedPartition] = {}
        """Those with something new."""
        self.withheld: set[TopicPartition] = set()
        """Throttled partitions: their records are left out."""

    @property
    def results(self) -> dict[TopicPartition, FetchedPartition]:
        """The partitions that were read, each as it was read last, with all its records."""
        found = dict(self._results)
        for tp, chunks in self._chunks.items():
            if chunks and (len(chunks) > 1 or chunks[0] is not found[tp].records):
                found[tp] = dataclasses.replace(found[tp], records=b"".join(chunks))
        return found

    @property
    def is_complete(self) -> bool:
        """True if the answer is sent at once."""
        if self._is_urgent or not self._wanted:
            return True
        return bool(self.news) if self._follower is not None else self._bytes >= self._min_bytes

    @property
    def unfinished(self) -> list[TopicPartition]:
        """The partitions of a follower whose records did not fit, or were left out."""
        return [
            tp
            for tp, result in self._results.items()
            if not result.records and self._wanted[tp].offset < result.log_end_offset
        ]

    def read(
        self,
        replicas: ReplicaManager,
        partitions: Iterable[TopicPartition],
        *,
        held: bool,
        throttled: Collection[TopicPartition] = (),
    ) -> list[FollowerFetched]:
        """Reads partitions, the first ones with precedence; `held` is that of `ReplicaManager.fetch`.

        Partitions that are not wanted are left out. `throttled`: those to which nothing is sent now, unless
        the follower is in sync (KIP-73). Returns the events for the machine.
        """
        fetched = []
        for tp in partitions:
            if (request := self._wanted.get(tp)) is None:
                continue
            result = self._read(replicas, tp, request, held, tp in throttled)
            self._note(tp, result)
            if self._follower is not None and _agrees(result):
                fetched.append(
                    FollowerFetched(
                        tp,
                        self._follower.broker,
                        request.offset,
                        result.log_end_offset,
                        result.high_watermark,
                    )
                )
        return fetched

    def _read(
        self,
        replicas: ReplicaManager,
        tp: TopicPartition,
        request: FetchPartition,
        held: bool,
        throttled: bool,
    ) -> FetchedPartition:
        self.withheld.discard(tp)
        if self._observes:
            return replicas.offsets(tp)
        if self._follower is None:
            return self._read_for_consumer(replicas, tp, request)
        if (before := self._results.get(tp)) is not None:
            self._bytes -= len(before.records or b"")
        if throttled:
            nothing = replicas.fetch(tp, request, self._follower, max_bytes=0, at_least_one=False, held=held)
            if not _agrees(nothing) or request.offset < nothing.high_watermark:
                self.withheld.add(tp)
                return nothing
            held = True
        return self._fetch(replicas, tp, request, held=held)

    def _read_for_consumer(
        self, replicas: ReplicaManager, tp: TopicPartition, request: FetchPartition
    ) -> FetchedPartition:
        """Reads on behind the records that were read before: one that waits for many bytes would else read
        all of them again after each append."""
        chunks = self._chunks.setdefault(tp, [])
        size = self._sizes.get(tp, 0)
        if chunks and (offset := _next_offset(chunks[-1])) is not None:
            further = dataclasses.replace(
                request, offset=offset, max_bytes=request.max_bytes - size, last_fetched_epoch=NO_EPOCH
            )
            result = self._fetch(replicas, tp, further)
            if result.error == ErrorCode.NONE:
                if result.records:
                    chunks.append(result.records)
                    self._sizes[tp] = size + len(result.records)
                return result
        self._bytes -= size
        result = self._fetch(replicas, tp, request)
        chunks[:] = [result.records] if result.records else []
        self._sizes[tp] = len(result.records or b"")
        return result

    def _fetch(
        self, replicas: ReplicaManager, tp: TopicPartition, request: FetchPartition, *, held: bool = False
    ) -> FetchedPartition:
        """Reads as much as there is room for, and counts it."""
        result = replicas.fetch(
            tp,
            request,
            self._follower,
            max_bytes=self._max_bytes - self._bytes,
            at_least_one=not self._bytes,
            held=held,
        )
        self._bytes += len(result.records or b"")
        return result

    def _note(self, tp: TopicPartition, result: FetchedPartition) -> None:
        self._results[tp] = result
        found = KnownOffsets.of(result)
        known = self._first.setdefault(tp, found) if self._known is None else self._known.get(tp)
        is_error = not _agrees(result)
        self._is_urgent = self._is_urgent or is_error
        if is_error or result.records or found != known:
            self.news[tp] = result
        else:
            self.news.pop(tp, None)

    @property
    def is_of_follower(self) -> bool:
        return self._follower is not None

    def sizes(self) -> Iterator[tuple[TopicPartition, int]]:
        """The bytes that are sent to a follower that is not in sync, by partition; none for a consumer."""
        for tp, result in self.news.items() if self.is_of_follower else ():
            if result.records and self._wanted[tp].offset < result.high_watermark:
                yield tp, len(result.records)


def _next_offset(records: Buffer) -> int | None:
    """The offset behind the last of some whole batches; None where they are none."""
    at, offset = 0, None
    while at + HEADER_BYTES <= len(records):
        header = read_header(records, at)
        at, offset = at + max(header.size, HEADER_BYTES), header.last_offset + 1
    return offset


def _agrees(result: FetchedPartition) -> bool:
    return result.error == ErrorCode.NONE and result.diverging == NO_EPOCH_END
