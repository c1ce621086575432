"""The queue of control requests: LeaderAndIsr, StopReplica and UpdateMetadata are handled one at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from zkgroup.wire.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from zkgroup.wire.messages import Response

_log = logging.getLogger("zkgroup.broker")

CONTROL_QUEUE_MAX: Final = 64
"""Control requests that wait; the sender of a further one waits with them."""

ControlRequest = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
_QueuedRequest = tuple[int, ControlRequest, asyncio.Future[Response | None]]


class ControlQueue:
    """Control requests in order of arrival. Made and used on one event loop; `close` ends its task."""

    def __init__(self, broker: int, handle: Callable[[ControlRequest], Awaitable[Response]]) -> None:
        """`handle` handles one request and returns its response."""
        self._broker = broker
        self._handle = handle
        self.generation = 0
        """Rises with `drop`: a request of a former generation is refused unless its handling has begun."""
        self._waiting: asyncio.Queue[_QueuedRequest] = asyncio.Queue(CONTROL_QUEUE_MAX)
        self._is_busy = False
        self._then: list[Callable[[], None]] = []
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"broker {broker} obeys")

    async def submit(self, request: ControlRequest) -> Response | None:
        """The answer, once it is its turn; None where it is refused, or after `close`."""
        if self._task.done():
            return None
        answer: asyncio.Future[Response | None] = asyncio.get_running_loop().create_future()
        await self._waiting.put((self.generation, request, answer))
        return await answer

    def drop(self, then: Callable[[], None]) -> None:
        """Refuses those that wait; `then` is called when the one under way is over, or now."""
        self.generation += 1
        if self._is_busy:
            self._then.append(then)
        else:
            then()

    async def close(self) -> None:
        """Ends the task. What waits for it is cancelled."""
        self._task.cancel()
        await asyncio.wait([self._task])
        while not self._waiting.empty():
            self._waiting.get_nowait()[2].cancel()

    async def _run(self) -> None:
        """One request of a controller after the other, each to its end.

        One whose connection is gone before its turn is dropped: its sender sends it again, perhaps behind
        others.
        """
        while True:
            generation, request, answer = await self._waiting.get()
            if answer.done():
                continue
            if generation != self.generation:
                answer.set_result(None)
                continue
            self._is_busy = True
            try:
                await self._answer(request, answer)
            finally:
                self._is_busy = False
            self._then, called = [], self._then
            for then in called:
                then()

    async def _answer(self, request: ControlRequest, answer: asyncio.Future[Response | None]) -> None:
        try:
            response = await self._handle(request)
        except asyncio.CancelledError:
            answer.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # a bug in a handler must not end the task
            _log.exception("broker %d could not handle %s", self._broker, type(request).__name__)
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(response)
