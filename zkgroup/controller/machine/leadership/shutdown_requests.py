"""Requests of brokers for a controlled shutdown that are not answered yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zkgroup.controller.machine.events import ShutdownAnswered
from zkgroup.controller.machine.settings import ElectorContext
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode


class ShutdownRequest(NamedTuple):
    """The request of a broker for a controlled shutdown, and which incarnation sent it."""

    request_id: int
    broker: int
    incarnation: int


class ShutdownRequests:
    """In the order in which they came; each is answered once, by `answer` or when the controller resigns."""

    def __init__(self, core: ElectorContext) -> None:
        self._core = core
        self._waiting: list[ShutdownRequest] = []

    def __iter__(self) -> Iterator[ShutdownRequest]:
        """Of a copy: requests may be answered meanwhile."""
        return iter(list(self._waiting))

    def add(self, request: ShutdownRequest) -> None:
        """One more."""
        self._waiting.append(request)

    def answer(
        self, request: ShutdownRequest, error: int, remaining: tuple[TopicPartition, ...] = ()
    ) -> None:
        """Answers it, with the partitions that the broker still leads."""
        self._waiting.remove(request)
        self._core.emit(ShutdownAnswered(request.request_id, error, remaining))

    def refuse(self, request_id: int, error: int) -> None:
        """Answers a request that does not wait."""
        self._core.emit(ShutdownAnswered(request_id, error))

    def refuse_all(self) -> None:
        """The controller resigns."""
        for request in self._waiting:
            self.refuse(request.request_id, ErrorCode.STALE_CONTROLLER_EPOCH)
        self._waiting.clear()
