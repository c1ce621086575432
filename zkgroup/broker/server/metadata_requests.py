"""Metadata and FindCoordinator: the live brokers, and where partitions and coordinators are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.metadata_cache import OFFSETS_TOPIC, MetadataCache
from zkgroup.wire.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

MetadataSource = Callable[[Sequence[str]], Awaitable[MetadataCache | None]]
"""Returns a cache with the present metadata of these topics, or of all; None if it cannot know them now."""


def cached(cache: MetadataCache) -> MetadataSource:
    """The source of a broker whose controller updates this cache."""

    async def read(topics: Sequence[str]) -> MetadataCache | None:
        return cache

    return read


class MetadataHandlers:
    """The handlers of Metadata and FindCoordinator. Used on one event loop."""

    def __init__(self, source: MetadataSource) -> None:
        self._source = source

    async def metadata(self, context: RequestContext, request: MetadataRequest) -> MetadataResponse | None:
        """The metadata of the requested topics, or of all; None if it is not known now.

        It yields to the event loop between batches of partitions.
        """
        topics = request.names
        cache = await self._source(topics)
        if cache is None:
            return None
        for _ in cache.prepare(topics):
            await asyncio.sleep(0)
        return cache.metadata(topics)

    async def find_coordinator(
        self, context: RequestContext, request: FindCoordinatorRequest
    ) -> FindCoordinatorResponse:
        """The coordinator of a group."""
        cache = await self._source((OFFSETS_TOPIC,))
        return (cache or MetadataCache()).coordinator(request.key)
