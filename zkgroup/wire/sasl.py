"""Requests with which a connection logs in, and their responses: SaslHandshake, SaslAuthenticate.

Sources: SaslHandshake and SaslAuthenticate in clients/src/main/resources/common/message/*.json@2.8.2, KIP-43,
KIP-152 and KIP-368.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from zkgroup.wire.messages import Api, Request, Response
from zkgroup.wire.schema import Bytes, ErrorText, Int16, Int64, String, Versions


@dataclass(frozen=True, slots=True)
class SaslHandshakeResponse(Response):
    """Whether the broker has the mechanism."""

    VERSIONS: ClassVar[range] = range(2)

    error: Int16
    """33: not this mechanism; 34: the listener is without SASL, or the connection is logged in."""
    mechanisms: tuple[String, ...]
    """Those that the broker has."""


@dataclass(frozen=True, slots=True)
class SaslHandshakeRequest(Request):
    """Chooses the mechanism. After version 0 the tokens are bare frames, after version 1 SaslAuthenticate."""

    API: ClassVar[Api] = Api.SASL_HANDSHAKE
    RESPONSE: ClassVar[type[Response]] = SaslHandshakeResponse
    VERSIONS: ClassVar[range] = range(2)

    mechanism: String


@dataclass(frozen=True, slots=True)
class SaslAuthenticateResponse(Response):
    """The broker's token."""

    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    error: Int16
    """58: the client is not who it says."""
    error_message: ErrorText
    auth_bytes: Bytes
    session_lifetime_ms: Annotated[Int64, Versions(1)] = field(default=0, kw_only=True)
    """The time after which the broker closes a connection that has not logged in again; 0 for never."""


@dataclass(frozen=True, slots=True)
class SaslAuthenticateRequest(Request):
    """A token of the client."""

    API: ClassVar[Api] = Api.SASL_AUTHENTICATE
    RESPONSE: ClassVar[type[Response]] = SaslAuthenticateResponse
    VERSIONS: ClassVar[range] = range(3)
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    auth_bytes: Bytes = field(repr=False)
    """The token; it may have the password in it."""
