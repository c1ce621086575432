"""Produce and InitProducerId.

Versions 0 to 2 carry message sets of magic 0 and 1, which the log does not keep: their records are refused
with error 43. They are listed nevertheless, because librdkafka compresses nothing for a broker without them.

Ids for idempotent producers are of blocks that the broker claims in ZooKeeper.

Sources: KIP-98, KIP-360; kafka/server/KafkaApis.scala (`handleProduceRequest`,
`handleInitProducerIdRequest`), ProduceRequest.java (`validateRecords`), ProducerIdManager.scala,
TransactionCoordinator.scala (`handleInitProducerId`) @2.8.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from zkgroup.broker.machine.events import ProducerIdsClaimed
from zkgroup.broker.replica_view import AppendResult
from zkgroup.broker.replicas.delayed_operations import DelayedProduce, append_records
from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.broker.server.handlers import NO_ANSWER, Answer, RequestContext
from zkgroup.broker.server.metadata_cache import INTERNAL_TOPICS
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.record_batch import HEADER_BYTES, MAGIC, MAGIC_AT, SIZED, ZSTD, read_header
from zkgroup.wire.records import (
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    ProduceTopicResult,
)
from zkgroup.wire.schema import Buffer

FIRST_VERSION: Final = 3
"""The first version whose records are batches of magic 2."""
ZSTD_VERSION: Final = 7
"""The first version whose batches may be compressed with zstd."""
LEGACY_LENGTH_MIN: Final = 14
"""Of a message of magic 0, the shortest (LegacyRecord.RECORD_OVERHEAD_V0)."""
_NO_TRANSACTIONS: Final = "this broker has no transactions: configure the producer without a transactional id"
ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1
_IN_LOG: Final = (
    ErrorCode.NONE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
"""Errors with which the records are in the log of the leader: the answer has their offset."""

Results = Mapping[TopicPartition, AppendResult]


class ProduceHandler:
    """The handler of Produce. Used on one event loop."""

    def __init__(
        self,
        replicas: ReplicaExecutor,
        min_insync: MinInsync | None = None,
        is_known: Callable[[TopicPartition], bool] = lambda tp: False,
    ) -> None:
        """Arguments: see `BrokerApis`."""
        self._replicas = replicas
        self._min_insync = min_insync
        self._is_known = is_known

    async def produce(self, context: RequestContext, request: ProduceRequest) -> Answer:
        """Appends the records of all partitions; with acks=all it waits until they are replicated.

        The end of the connection ends the wait. Acks=0 has no answer; after an error the connection is
        closed, as it is by Kafka, so that the client asks for metadata again.
        """
        results, accepted = check_request(request, context.version)
        if accepted:
            results |= await self._append(accepted, request)
        results = {tp: self._with_known(tp, result) for tp, result in results.items()}
        if request.acks == ACKS_NONE:
            failed = any(result.error is not ErrorCode.NONE for result in results.values())
            return None if failed else NO_ANSWER
        return produce_response(request, results)

    async def _append(self, records: Mapping[TopicPartition, Buffer], request: ProduceRequest) -> Results:
        """Appends on the thread of the replicas, all partitions in one call."""
        acks, min_insync = request.acks, self._min_insync
        if acks != ACKS_ALL:
            return await self._replicas.call(lambda host: append_records(host, records, acks, min_insync))
        delayed, is_complete = await self._replicas.complete_operation(
            lambda host: DelayedProduce(append_records(host, records, acks, min_insync), min_insync),
            asyncio.get_running_loop().time() + max(0, request.timeout_ms) / 1000,
        )
        if not is_complete:
            delayed.time_out()
        return delayed.results

    def _with_known(self, tp: TopicPartition, result: AppendResult) -> AppendResult:
        if result.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._is_known(tp):
            return result._replace(error=ErrorCode.NOT_LEADER_FOR_PARTITION)
        return result


def check_request(
    request: ProduceRequest, version: int
) -> tuple[dict[TopicPartition, AppendResult], dict[TopicPartition, Buffer]]:
    """The results of refused partitions, and the records of the others.

    Errors: 43 for a version below 3; 53 for a transactional id, as there are no transactions; 21 for acks
    that are neither 0, 1 nor -1; 17 for an internal topic; and those of `check_records`.
    """
    refused: dict[TopicPartition, AppendResult] = {}
    accepted: dict[TopicPartition, Buffer] = {}
    of_all = _refusal_of_all(request, version)
    for topic in request.topics:
        of_topic = of_all or _refusal_of_topic(topic.topic)
        for each in topic.partitions:
            tp = TopicPartition(topic.topic, each.partition)
            refusal = of_topic or check_records(each.records, version)
            if refusal is not None:
                refused[tp] = refusal
            elif each.records is not None:
                accepted[tp] = each.records
    return refused, accepted


def _refusal_of_all(request: ProduceRequest, version: int) -> AppendResult | None:
    """The error of every partition, whatever its records are."""
    if version < FIRST_VERSION:
        message = (
            f"Produce {version} has message sets; this broker keeps record batches (Produce 3 and later)"
        )
        return AppendResult(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, message=message)
    if request.transactional_id is not None:
        return AppendResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, message=_NO_TRANSACTIONS)
    if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
        message = f"acks: expected 0, 1 or -1, found {request.acks}"
        return AppendResult(ErrorCode.INVALID_REQUIRED_ACKS, message=message)
    return None


def _refusal_of_topic(topic: str) -> AppendResult | None:
    """Refuses the topics that brokers keep for themselves, in Kafka's words."""
    if topic not in INTERNAL_TOPICS:
        return None
    return AppendResult(ErrorCode.INVALID_TOPIC, message=f"Cannot append to internal topic {topic}")


def check_records(records: Buffer | None, version: int) -> AppendResult | None:
    """Refuses what is not one whole batch of magic 2; None for the others.

    Errors: 2 for a batch whose head is damaged, 87 for any other number of whole batches than one and for
    message sets of magic 0 and 1, 53 for a batch of a transaction, 76 for zstd before version 7. Bytes that
    are no whole batch do not count as one; behind a batch they are refused (87), where Kafka drops them. The
    log checks the batch itself.
    """
    count = f"Produce {version} takes one record batch for a partition"
    if records is None or len(records) < SIZED.size:
        return AppendResult(ErrorCode.INVALID_RECORD, message=f"{count}, found none")
    _, length = SIZED.unpack_from(records)
    if length < LEGACY_LENGTH_MIN:
        message = f"a batch of length {length}: expected at least {LEGACY_LENGTH_MIN}"
        return AppendResult(ErrorCode.CORRUPT_RECORD, message=message)
    if len(records) > MAGIC_AT and records[MAGIC_AT] > MAGIC:
        message = f"{count} of magic {MAGIC}, found magic {records[MAGIC_AT]}"
        return AppendResult(ErrorCode.CORRUPT_RECORD, message=message)
    size = SIZED.size + length
    if len(records) < size or len(records) <= MAGIC_AT:
        return AppendResult(ErrorCode.INVALID_RECORD, message=f"{count}, found {len(records)} bytes of one")
    if records[MAGIC_AT] != MAGIC:
        message = f"{count} of magic {MAGIC}, found magic {records[MAGIC_AT]}"
        return AppendResult(ErrorCode.INVALID_RECORD, message=message)
    if length < HEADER_BYTES - SIZED.size:
        message = f"a batch of length {length}: expected at least {HEADER_BYTES - SIZED.size}"
        return AppendResult(ErrorCode.CORRUPT_RECORD, message=message)
    header = read_header(records)
    if header.is_transactional:
        return AppendResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, message=_NO_TRANSACTIONS)
    if version < ZSTD_VERSION and header.compression == ZSTD:
        message = f"Produce {version} has no zstd, {ZSTD_VERSION} has"
        return AppendResult(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message=message)
    if size < len(records):
        message = f"{count}, found {len(records) - size} bytes behind it"
        return AppendResult(ErrorCode.INVALID_RECORD, message=message)
    return None


def produce_response(request: ProduceRequest, results: Results) -> ProduceResponse:
    """The response with these results, in the order of the request."""
    return ProduceResponse(
        tuple(
            ProduceTopicResult(
                topic.topic,
                tuple(
                    _partition_result(each.partition, results[TopicPartition(topic.topic, each.partition)])
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _partition_result(partition: int, result: AppendResult) -> ProduceResult:
    is_in_log = result.error in _IN_LOG
    return ProduceResult(
        partition,
        result.error,
        result.base_offset if is_in_log else NO_OFFSET,
        result.log_append_time,
        result.log_start_offset,
        result.record_errors,
        error_message=result.message or None,
    )


CLAIM_S: Final = 5.0
"""Longest wait of a client for a block; then it gets error 14 and tries again."""


class ProducerIdManager:
    """Gives out producer ids, each once. Made and used on one event loop."""

    def __init__(self, claim: Callable[[], None], claim_s: float = CLAIM_S) -> None:
        """
        Args:
            claim: asks for the next block; its result comes to `claimed`.
            claim_s: longest wait for it, in seconds.
        """
        self._claim = claim
        self._claim_s = claim_s
        self._next, self._last = 0, -1
        self._waiting: list[asyncio.Future[ErrorCode]] = []

    def claimed(self, result: ProducerIdsClaimed) -> None:
        """Takes a block, or the error of a claim. A block that comes late is used as well."""
        if result.block is not None:
            self._next, self._last = result.block.first, result.block.last
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(result.error)

    async def init_producer_id(
        self, context: RequestContext, request: InitProducerIdRequest
    ) -> InitProducerIdResponse:
        """A new id with epoch 0.

        Also for a producer that names its id and epoch (KIP-360): without a transactional id a broker of 2.8
        gives a new id too; such producers raise their epoch themselves. A transactional id gets error 53,
        because there are no transactions; an empty one 42.
        """
        if request.transactional_id == "":
            return InitProducerIdResponse(ErrorCode.INVALID_REQUEST)
        if request.transactional_id is not None:
            return InitProducerIdResponse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        has_id = request.producer_id != NO_PRODUCER_ID
        if has_id != (request.producer_epoch != NO_PRODUCER_EPOCH):
            return InitProducerIdResponse(ErrorCode.INVALID_REQUEST)
        error = await self._ensure_block()
        if error is not ErrorCode.NONE:
            return InitProducerIdResponse(error)
        producer_id, self._next = self._next, self._next + 1
        return InitProducerIdResponse(ErrorCode.NONE, producer_id, 0)

    async def _ensure_block(self) -> ErrorCode:
        """Waits until there is an id to give out; returns the error if there is none in time."""
        try:
            async with asyncio.timeout(self._claim_s):
                while self._next > self._last:
                    claimed: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
                    if not self._waiting:
                        self._claim()
                    self._waiting.append(claimed)
                    if (error := await claimed) is not ErrorCode.NONE:
                        return error
        except TimeoutError:
            self._waiting = [each for each in self._waiting if not each.done()]
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE
