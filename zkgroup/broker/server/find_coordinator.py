"""FindCoordinator: the leader of the slot of a group.

Source: `handleFindCoordinatorRequest` in kafka/server/KafkaApis.scala@2.8.2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.broker.server.metadata_requests import MetadataSource
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.metadata import (
    GROUP_KEY,
    TRANSACTION_KEY,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

SlotSource = Callable[[], Awaitable[int | None]]
"""Returns the number of slots; None if no broker has written it yet, or it cannot be read now."""

_MESSAGES: Final = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
}
"""Kafka's own words."""


class CoordinatorHandler:
    """The handler of FindCoordinator. Used on one event loop."""

    def __init__(
        self,
        source: MetadataSource,
        slots: SlotSource | None = None,
        create_offsets_topic: Callable[[], None] | None = None,
    ) -> None:
        """
        Args:
            slots: the number of slots; None: no coordinator is named.
            create_offsets_topic: begins to create the topic of the slots and returns at once; None: it is not
                created.
        """
        self._source = source
        self._slots = slots
        self._create_offsets_topic = create_offsets_topic

    async def find_coordinator(
        self, context: RequestContext, request: FindCoordinatorRequest
    ) -> FindCoordinatorResponse:
        """The coordinator of a group, whatever its id.

        The first such request of a cluster creates the topic, as in Kafka; until its partitions have leaders
        the answer is error 15, after which clients ask again.

        Transactions are not served: error 53, at which all clients fail at once; at 35 librdkafka asks again.
        """
        if context.version > 0 and request.key_type == TRANSACTION_KEY:
            message = "This broker does not support transactions."
            return FindCoordinatorResponse(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, "", -1, error_message=message
            )
        if context.version > 0 and request.key_type != GROUP_KEY:
            message = f"Unknown kind of coordinator: {request.key_type}."
            return FindCoordinatorResponse(ErrorCode.INVALID_REQUEST, -1, "", -1, error_message=message)
        answer = await self._coordinator(request.key)
        return replace(answer, error_message=_MESSAGES[ErrorCode(answer.error)])

    async def _coordinator(self, group: str) -> FindCoordinatorResponse:
        cache = await self._source((OFFSETS_TOPIC,)) or MetadataCache()
        slots = None if self._slots is None else await self._slots()
        is_missing = slots is None or cache.leaders(OFFSETS_TOPIC) is None
        if is_missing and self._create_offsets_topic is not None:
            self._create_offsets_topic()
        return cache.coordinator(group, slots or 0)
