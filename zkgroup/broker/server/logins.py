"""The login of a connection at a SASL listener: which frames are served, and the answers to the others.

Before the client is authenticated only one ApiVersions, SaslHandshake and SaslAuthenticate are answered, or
the bare tokens behind SaslHandshake 0. After it a login may be repeated; else the requests of a login are
served as others are, which refuses them.

The order of states, errors and texts are those of Kafka 2.8.2 (SaslServerAuthenticator.java in
org/apache/kafka/common/security/authenticator, KIP-43, 152 and 368), except that another request before the
end of a login closes the connection without an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from zkgroup.broker.server.handlers import ANONYMOUS, RequestContext
from zkgroup.errors import CorruptFrameError, WireError
from zkgroup.security.sasl import Exchange, LoginFailedError, ServerToken
from zkgroup.wire.messages import (
    Api,
    ErrorCode,
    Request,
    RequestHeader,
    Response,
    decode_request,
    framed,
    response_buffers,
)
from zkgroup.wire.metadata import ApiVersionsRequest
from zkgroup.wire.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from zkgroup.wire.schema import Buffer

FRAME_BYTES_MAX: Final = 512 * 1024
"""Of a frame before the client is authenticated, as in Kafka."""
AGAIN_S: Final = 1.0
"""Shortest time between two logins of a connection, as in Kafka."""

_REQUESTS: Final[Mapping[int, type[Request]]] = {
    Api.SASL_HANDSHAKE: SaslHandshakeRequest,
    Api.SASL_AUTHENTICATE: SaslAuthenticateRequest,
}


class _LoginState(Enum):
    NEW = "ApiVersions or SaslHandshake"
    VERSIONS = "SaslHandshake"
    TOKENS = "SaslAuthenticate"
    BARE_TOKENS = "a token"
    DONE = "any request"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslListener:
    """The logins that a listener offers, shared by its connections."""

    exchanges: Mapping[str, Callable[[], Exchange]]
    """What begins a login, by mechanism, in the order in which they are offered."""
    max_reauth_ms: Mapping[str, int]
    """By mechanism: a client has to log in again within this time; 0 for never."""
    failure_delay_ms: int
    hashing: asyncio.Semaphore | None = None
    """Held while `Login.take` is called on another thread, where a token may take a password's hash: many
    logins leave threads for others. None: it is called on the loop."""


@dataclass(frozen=True, slots=True)
class LoginAnswer:
    """The result of a frame that is no request to serve."""

    answer: tuple[Buffer, ...] = ()
    refusal: str | None = None
    """The reason why the connection ends, after the answer."""
    is_delayed: bool = False
    """True if the answer waits for the delay of failures."""


class Login:
    """The login of one connection."""

    def __init__(self, listener: SaslListener) -> None:
        self.listener = listener
        self.principal = ANONYMOUS
        """The principal once the client is authenticated: `User:alice`."""
        self._state = _LoginState.NEW
        self._exchange: Exchange | None = None
        self._mechanism = ""
        self._former: tuple[str, str] | None = None
        """Mechanism and principal of the login before this one."""
        self._began_s: float | None = None
        """The time at which it last began to log in again."""
        self._until_s: float | None = None
        """The time from which on it has to have logged in again; None for never."""

    @property
    def is_done(self) -> bool:
        """True while the client is authenticated."""
        return self._state is _LoginState.DONE

    def admits(self, frame: bytes, now_s: float) -> bool:
        """Returns whether a frame is a request to serve; any other is for `take`. Raises EOFError where the
        client has not logged in again in time."""
        key = int.from_bytes(frame[:2], "big")
        if self._state is _LoginState.DONE:
            if key == Api.SASL_HANDSHAKE and self._may_begin_again(now_s):
                return False
            if self._until_s is not None and now_s > self._until_s:
                raise EOFError("the client has not logged in again in time")
            return True
        if self._state is _LoginState.NEW and key == Api.API_VERSIONS:
            if int.from_bytes(frame[2:4], "big") in ApiVersionsRequest.VERSIONS:
                self._state = _LoginState.VERSIONS
            return True
        return False

    def take(self, frame: bytes, now_s: float) -> LoginAnswer:
        """Takes a frame of a login. Raises WireError where it is none, which ends the connection."""
        if self._state is _LoginState.BARE_TOKENS:
            try:
                return LoginAnswer((framed(self._reply(frame, now_s).token),))
            except LoginFailedError as error:
                return LoginAnswer(refusal=str(error), is_delayed=True)
        header, request = _decoded(frame)
        answer, refusal, is_delayed = self._answer(request, header.version, now_s)
        buffers = response_buffers(answer, header.correlation_id, version=header.version)
        return LoginAnswer(tuple(buffers), refusal, is_delayed)

    def _answer(self, request: Request, version: int, now_s: float) -> tuple[Response, str | None, bool]:
        if isinstance(request, SaslHandshakeRequest):
            if self._state is _LoginState.TOKENS:
                refused = SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, ())
                return refused, "SaslHandshake came within a login", False
            return self._handshake(request.mechanism, version, now_s)
        assert isinstance(request, SaslAuthenticateRequest)
        if self._state is not _LoginState.TOKENS:
            raise _unexpected(Api.SASL_AUTHENTICATE)
        try:
            reply = self._reply(request.auth_bytes, now_s)
        except LoginFailedError as error:
            failed = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error), b"")
            return failed, str(error), True
        lifetime_ms = self._lifetime_ms(reply) if reply.user is not None else 0
        taken = SaslAuthenticateResponse(ErrorCode.NONE, "", reply.token, session_lifetime_ms=lifetime_ms)
        return taken, None, False

    def _handshake(
        self, mechanism: str, version: int, now_s: float
    ) -> tuple[SaslHandshakeResponse, str | None, bool]:
        offered = tuple(self.listener.exchanges)
        if mechanism not in offered:
            refused = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, offered)
            return refused, f"the client wants mechanism {mechanism[:40]!r}", True
        if self._state is _LoginState.DONE:
            self._former, self._began_s = (self._mechanism, self.principal), now_s
        self._mechanism, self._exchange = mechanism, self.listener.exchanges[mechanism]()
        self._state = _LoginState.TOKENS if version else _LoginState.BARE_TOKENS
        return SaslHandshakeResponse(ErrorCode.NONE, offered), None, False

    def _may_begin_again(self, now_s: float) -> bool:
        """Kafka refuses it where sessions have no end, and more often than once a second."""
        return self._until_s is not None and (self._began_s is None or now_s - self._began_s >= AGAIN_S)

    def _reply(self, token: bytes, now_s: float) -> ServerToken:
        """Raises LoginFailedError."""
        assert self._exchange is not None
        if self._former is not None and self._former[0] != self._mechanism:
            raise LoginFailedError(
                f"SASL mechanism '{self._mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{self._former[0]}'"
            )
        reply = self._exchange.take(token)
        if reply.user is None:
            return reply
        principal = f"User:{reply.user}"
        if self._former is not None and self._former[1] != principal:
            raise LoginFailedError("Cannot change principals during re-authentication")
        self.principal, self._state, self._exchange = principal, _LoginState.DONE, None
        lifetime_ms = self._lifetime_ms(reply)
        self._until_s = now_s + lifetime_ms / 1000 if lifetime_ms else None
        return reply

    def _lifetime_ms(self, reply: ServerToken) -> int:
        """The time within which the client has to log in again; 0 for never."""
        limits = reply.lifetime_ms, self.listener.max_reauth_ms.get(self._mechanism, 0)
        return min(filter(None, limits), default=0)


def _decoded(frame: bytes) -> tuple[RequestHeader, Request]:
    """Raises CorruptFrameError, which names the API alone: the bytes may be a token with a password."""
    try:
        return decode_request(frame, _REQUESTS)
    except WireError:
        raise _unexpected(int.from_bytes(frame[:2], "big")) from None


def _unexpected(key: int) -> CorruptFrameError:
    found = f"API {key}" if key in set(Api) else "other bytes"
    return CorruptFrameError("login", 0, "SaslHandshake, then its tokens", found)


async def refuse_handshake(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Answers SaslHandshake at a listener without SASL, and where a login may not be repeated now."""
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, ())


async def refuse_token(context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Answers SaslAuthenticate outside of a login."""
    text = "SaslAuthenticate request received after successful authentication"
    return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, text, b"")
