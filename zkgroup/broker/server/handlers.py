"""The table of the requests that a broker serves, the arguments of its handlers, and answers given later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar

from zkgroup.broker.server.connection_choice import Peer
from zkgroup.model.values import PLAINTEXT
from zkgroup.wire.messages import Request, RequestHeader, Response

T = TypeVar("T")


class Later(Generic[T]):
    """A value that is given once, perhaps before anybody asks for it. Used on one event loop.

    A handler that returns one answers its request at a tenth of the cost of a coroutine and a future; one
    that is a coroutine can await it.
    """

    __slots__ = ("_first", "_given", "_then", "is_given")

    def __init__(self) -> None:
        self.is_given = False
        self._given: Any
        self._first: Callable[[], None] | None = None
        self._then: Callable[[Later[T]], None] | None = None

    @property
    def value(self) -> T:
        """The given value."""
        value: T = self._given
        return value

    def give(self, value: Any) -> None:
        """Gives the value: what waits for it goes on at once. Raises nothing of its own."""
        self._given = value
        self.is_given = True
        if self._first is not None:
            self._first()
        if self._then is not None:
            self._then(self)

    def first(self, callback: Callable[[], None]) -> None:
        """Calls back when the value is given, before what waits for it goes on. As `then`, one callback."""
        self._first = callback

    def then(self, callback: Callable[[Later[T]], None]) -> None:
        """Calls back when the value is given, which it is not yet. One callback, which must not raise."""
        self._then = callback

    def drop(self) -> None:
        """Nothing waits any more: the value is dropped when it comes."""
        self._first = self._then = None

    def __await__(self) -> Generator[Any, None, T]:
        if not self.is_given:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.then(lambda later: None if future.done() else future.set_result(None))
            try:
                yield from future
            except BaseException:
                self.drop()
                raise
        return self.value


def given(value: T) -> Later[T]:
    """A value that is there already."""
    later = Later[T]()
    later.give(value)
    return later


ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that has not shown who it is."""


class RequestContext(NamedTuple):
    """The header and the sender of a request, and how it came."""

    header: RequestHeader
    peer: Peer
    listener: str = PLAINTEXT
    """The name of the listener that the client came by."""
    principal: str = ANONYMOUS
    """Who the sender is, by its login (`User:alice`) or its certificate (`User:CN=alice`)."""
    size: int = 0
    """Bytes of the request, with those of its size."""

    @property
    def user(self) -> str:
        """The name of the principal, for quotas."""
        return self.principal.partition(":")[2]

    @property
    def api_key(self) -> int:
        return self.header.api_key

    @property
    def version(self) -> int:
        """The version of the request; its response has the same one."""
        return self.header.version

    @property
    def correlation_id(self) -> int:
        return self.header.correlation_id

    @property
    def client_id(self) -> str | None:
        return self.header.client_id


class NoAnswer(Enum):
    """The type of `NO_ANSWER`."""

    NO_ANSWER = "no answer"


NO_ANSWER: Final = NoAnswer.NO_ANSWER
"""A handler returns it for a request without a response (Produce with acks=0): the connection goes on."""

Answer = Response | NoAnswer | None
"""The result of a handler; None closes the connection without a response."""
Respond = Callable[[RequestContext, Request], Awaitable[Answer]]

RequestT = TypeVar("RequestT", bound=Request)


@dataclass(frozen=True, slots=True)
class ServedApi(Generic[RequestT]):
    """A row of the table: one API and its handler.

    All its `VERSIONS` are listed in the answer to ApiVersions; any other closes the connection. Cancellation
    of the handler ends its wait: the connection is closed.
    """

    kind: type[RequestT]
    handle: Callable[[RequestContext, RequestT], Awaitable[Answer]]


class ApiTable:
    """The served APIs: the requests, and the handler of each."""

    def __init__(self, rows: Iterable[ServedApi[Any]]) -> None:
        self._rows: dict[int, ServedApi[Any]] = {}
        for row in rows:
            key = row.kind.API.value
            assert key not in self._rows, f"two handlers of {row.kind.__name__}"
            self._rows[key] = row
        self.requests: Mapping[int, type[Request]] = {
            key: row.kind for key, row in sorted(self._rows.items())
        }
        """The served requests by API key, in ascending order."""

    def changed(self, change: Callable[[ServedApi[Any]], ServedApi[Any]]) -> ApiTable:
        """A table with each row changed."""
        return ApiTable(map(change, self._rows.values()))

    def respond(self, context: RequestContext, request: Request) -> Awaitable[Answer]:
        """The answer of the request's handler; None for an API that is not served."""
        row = self._rows.get(request.API)
        return _no_answer() if row is None else row.handle(context, request)


async def _no_answer() -> None:
    """Closes the connection."""
