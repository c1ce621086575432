"""InitProducerId: ids for idempotent producers, from blocks that the broker claims in ZooKeeper.

Sources: KIP-98, KIP-360; kafka/coordinator/transaction/ProducerIdManager.scala, TransactionCoordinator.scala
(`handleInitProducerId`), kafka/server/KafkaApis.scala (`handleInitProducerIdRequest`) @2.8.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from zkgroup.broker.machine.events import ProducerIdsClaimed
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    InitProducerIdRequest,
    InitProducerIdResponse,
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
