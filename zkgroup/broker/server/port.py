"""What all connections of a broker share: their limits, the handler of their requests, and what they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from zkgroup.broker.request_time import RequestTime
from zkgroup.broker.server.connection_choice import Peer
from zkgroup.broker.server.handlers import Respond
from zkgroup.broker.server.logins import Login
from zkgroup.model.values import PLAINTEXT
from zkgroup.wire.messages import REQUEST_BYTES_MAX, Request

CHUNK_BYTES: Final = 64 * 1024
"""Most bytes of one read."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of connections to a broker. Kafka's setting is named where there is one."""

    connections_max: int = 1_000
    """`max.connections`: of clients; for a further one another is closed (`to_make_room`)."""
    request_bytes_max: int = REQUEST_BYTES_MAX
    """`socket.request.max.bytes`."""
    buffered_bytes_max: int = 4 * REQUEST_BYTES_MAX
    """`queued.max.request.bytes`: of all connections; above it the slowest one is closed."""
    idle_ms: int = 600_000
    """`connections.max.idle.ms`: longest time without a request."""
    request_ms: int = 60_000
    """`socket_request_timeout_ms`: longest time from the first byte of a request to its last."""
    answer_ms: int = 60_000
    """`socket_response_timeout_ms`: longest time for a client to receive an answer."""
    handshake_ms: int = 10_000
    """`ssl_handshake_timeout_ms`: longest time for a TLS handshake."""
    login_ms: int = 30_000
    """Longest wait for each frame of a login."""


@dataclass(slots=True)
class Port:
    """The parts that all connections of a server share."""

    limits: ConnectionLimits
    respond: Respond
    """Answers one request."""
    served: Mapping[int, type[Request]]
    """The requests that are served, by API key."""
    on_full: Callable[[], None]
    """Called where `held` is above its limit."""
    on_confirmed: Callable[[Peer], None]
    """See `Peer`."""
    first_time: Callable[[], RequestTime | None] = lambda: None
    """Where the time of decoding the first request of a connection is counted."""
    chunk: memoryview = field(default_factory=lambda: memoryview(bytearray(CHUNK_BYTES)))
    """The buffer that a read of any connection fills; its bytes are copied at once."""
    held: int = 0
    """Buffered bytes of all connections: requests without an answer, and answers not yet received."""
    moves: int = 0
    """Of all connections so far; see `Connection.moved`."""


def nothing(_: Peer) -> None:
    """What a peer has shown to be is of no interest."""


@dataclass(frozen=True, slots=True)
class CameBy:
    """How a client came: what a connection knows of its listener."""

    listener: str = PLAINTEXT
    """The name of the listener."""
    is_inter_broker: bool = True
    """True if it is the one of brokers and controllers: only there a peer can be one."""
    is_tls: bool = False
    """True if the listener speaks TLS."""
    login: Login | None = None
    """The login of this connection, at a listener with SASL: nothing else is served before it is done."""
    on_logged_in: Callable[[Peer], object] = nothing
    """Called each time that it is done."""
