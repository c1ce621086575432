"""The table of the requests that a broker serves, and what reaches their handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar

from zkgroup.wire.messages import Request, RequestHeader, Response


class PeerKind(Enum):
    """The kinds of peers, as ZooKeeper shows them to be (`PeerClaimChecker`)."""

    CLIENT = "client"
    FOLLOWER = "follower"
    """A registered broker that fetches."""
    CONTROLLER = "controller"
    """The active controller, or one that was active before it."""


class Peer:
    """The other end of a connection: its address, and what it has been shown to be."""

    __slots__ = ("_on_confirmed", "host", "kind", "port")

    def __init__(
        self, host: str, port: int, on_confirmed: Callable[[Peer], None] = lambda peer: None
    ) -> None:
        """`on_confirmed` is called with each request that has confirmed the peer as one of the cluster."""
        self.host, self.port = host, port
        self.kind = PeerKind.CLIENT
        self._on_confirmed = on_confirmed

    def confirm(self, kind: PeerKind) -> None:
        """ZooKeeper says that it is what it claims to be."""
        self.kind = kind
        self._on_confirmed(self)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class RequestContext(NamedTuple):
    """The header and the sender of a request."""

    header: RequestHeader
    peer: Peer

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
    """The served APIs: their versions, and the handler of each."""

    def __init__(self, rows: Iterable[ServedApi[Any]]) -> None:
        self._rows: dict[int, ServedApi[Any]] = {}
        for row in rows:
            key = row.kind.API.value
            assert key not in self._rows, f"two handlers of {row.kind.__name__}"
            self._rows[key] = row
        self.versions: Mapping[int, range] = {
            key: row.kind.VERSIONS for key, row in sorted(self._rows.items())
        }
        """Served versions by API key in ascending order."""

    def respond(self, context: RequestContext, request: Request) -> Awaitable[Answer]:
        """The answer of the request's handler; None for an API that is not served."""
        row = self._rows.get(request.API)
        return _no_answer() if row is None else row.handle(context, request)


async def _no_answer() -> None:
    """Closes the connection."""
