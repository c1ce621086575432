"""The port of a controller that hosts nothing: what clients and brokers may ask of it. Source: recipes.md 14.

Metadata and coordinators come from the controller's own picture, which belongs to its thread: it is asked for
a bounded part at a time, and never waits. While it does not rule there is no picture; a client that asks for
metadata then is cut off, as a list without brokers would be believed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

from zkgroup.broker.connection import Limits
from zkgroup.broker.metadata_cache import OFFSETS_TOPIC, MetadataCache
from zkgroup.broker.receiver import Receiver
from zkgroup.broker.server import BrokerServer
from zkgroup.broker.service import BrokerService, answered
from zkgroup.controller.controller import Controller
from zkgroup.controller.machine.picture import Picture
from zkgroup.model.ports import Clock
from zkgroup.wire.control import (
    Broker,
    ControlledShutdownResponse,
    PartitionStateInfo,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import Request, Response
from zkgroup.wire.metadata import PIECE, FindCoordinatorRequest, MetadataRequest

T = TypeVar("T")


def told_of(picture: Picture, topics: Collection[str]) -> UpdateMetadataRequest:
    """The live brokers and these topics, as a broker would be told of them.

    Unknown topics, those that are being deleted, and partitions without a state are left out.
    """
    brokers = []
    for broker in sorted(picture.reachable):
        registration = picture.brokers[broker].registration
        assert registration.host is not None
        brokers.append(Broker(broker, registration.host, registration.port))
    partitions = [
        PartitionStateInfo(
            *tp,
            standing.controller_epoch,
            standing.leader,
            standing.leader_epoch,
            standing.isr,
            standing.version,
            picture.replicas(tp),
        )
        for topic in topics
        if topic not in picture.deletions
        for tp in picture.partitions(topic)
        if (standing := picture.standing(tp)) is not None
    ]
    return UpdateMetadataRequest(-1, -1, tuple(partitions), tuple(brokers))


def pieces_of(picture: Picture, topics: Sequence[str]) -> list[list[str]]:
    """These topics, or all, in parts of some `PIECE` partitions and at least one topic; one part at least."""
    pieces: list[list[str]] = [[]]
    partitions = 0
    for topic in topics or sorted(picture.topics):
        if partitions >= PIECE:
            pieces.append([])
            partitions = 0
        pieces[-1].append(topic)
        seen = picture.topic(topic)
        partitions += 1 if seen is None else max(1, len(seen.topic.partitions))
    return pieces


class ControllerPort:
    """Listens, and answers. Made and used on one event loop."""

    def __init__(self, broker: int, clock: Clock, limits: Limits | None = None) -> None:
        """`rule` must be called before the first question is answered."""
        self._broker = broker
        self._controller: Controller | None = None
        cache = MetadataCache()
        self._service = BrokerService(
            broker=broker,
            receiver=Receiver(broker, cache),
            answers=cache,
            clock=clock,
            controlled_shutdown=self._shut_down,
        )
        self._server = BrokerServer(self._respond, limits)

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listens; returns where. Raises ConflictError or ConfigError."""
        return await self._server.start(host, port)

    def rule(self, controller: Controller) -> None:
        """Whose picture it is, and who is asked for controlled shutdowns."""
        self._controller = controller

    async def close(self) -> None:
        """Stops listening and cuts every client off."""
        await self._server.close()
        await self._service.close()

    # --- answers --------------------------------------------------------------------------------

    async def _respond(self, request: Request) -> Response | None:
        match request:
            case MetadataRequest(topics):
                cache = await self._seen(topics)
                return None if cache is None else await answered(cache, topics)
            case FindCoordinatorRequest(group):
                cache = await self._seen((OFFSETS_TOPIC,))
                return (cache or MetadataCache()).coordinator(group)
            case _:
                return await self._service.respond(request)

    async def _shut_down(self, broker: int) -> ControlledShutdownResponse:
        assert self._controller is not None
        return await asyncio.wrap_future(self._controller.shut_down(broker))

    async def _seen(self, topics: Sequence[str]) -> MetadataCache | None:
        """These topics, or all, as the controller sees them; None: it does not rule."""
        pieces = await self._of_picture(partial(pieces_of, topics=topics))
        if pieces is None:
            return None
        cache = MetadataCache()
        for some in pieces:
            told = await self._of_picture(partial(told_of, topics=some))
            if told is None:
                return None
            cache.update(told, 0)
        return cache

    async def _of_picture(self, look: Callable[[Picture], T]) -> T | None:
        if self._controller is None:
            return None
        asked = self._controller.of_picture(lambda picture: None if picture is None else look(picture))
        return await asyncio.wrap_future(asked)
