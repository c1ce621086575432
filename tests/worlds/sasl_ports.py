"""A port with SASL whose every request is answered alike, and clients that log in frame by frame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.worlds.serving import Client, client_of, opened
from tests.worlds.wire_requests import REQUESTS
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.logins import SaslListener
from zkgroup.broker.server.port import ConnectionLimits
from zkgroup.broker.server.server import BrokerServer
from zkgroup.security.client import ClientSecurity
from zkgroup.security.sasl import ScramUsers
from zkgroup.security.sasl_settings import SaslSettings
from zkgroup.security.scram import HASHES, ScramCredential
from zkgroup.security.secret import Secret
from zkgroup.wire.messages import Request, Response
from zkgroup.wire.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataResponse
from zkgroup.wire.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

MECHANISMS = ("PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256")
"""In the order of the recorded broker."""
PASSWORD = "geheim €"


def sasl_listener(
    users: Mapping[str, str] | None = None,
    *,
    max_reauth_ms: int = 600_000,
    failure_delay_ms: int = 0,
    is_slow: bool = False,
) -> SaslListener:
    """`alice` of PLAIN, as at the recorded broker; `users` of both SCRAMs, with their passwords."""
    settings = SaslSettings(
        mechanisms=MECHANISMS,
        plain_users={"alice": Secret("alice-secret")},
        max_reauth_ms=dict.fromkeys(MECHANISMS, max_reauth_ms),
    )
    known = ScramUsers()
    for user, password in (users or {}).items():
        made = {one: ScramCredential.of_password(one, password, 4096, b"salt" * 4) for one in HASHES}
        known.changed(user, made)
    return SaslListener(
        exchanges=settings.exchanges(known, lambda _: None),
        max_reauth_ms=settings.max_reauth_ms,
        failure_delay_ms=failure_delay_ms,
        hashing=asyncio.Semaphore(1) if is_slow else None,
    )


def client_login(mechanism: str, user: str, password: str) -> Any:
    """The tokens of zkgroup's client."""
    secret = Secret(password)
    security = ClientSecurity(protocol="SASL_PLAINTEXT", mechanism=mechanism, username=user, password=secret)
    return security.login()


class SaslPort:
    """Who sent each request that was served, and the port."""

    def __init__(self, listener: SaslListener, limits: ConnectionLimits | None = None) -> None:
        self.served: list[tuple[str, str]] = []
        """Kind and principal of each request that reached its handler."""
        self.server = BrokerServer(
            self._respond, REQUESTS, limits or ConnectionLimits(), logins={"PLAINTEXT": listener}
        )
        self.address: tuple[str, int] = ("", 0)

    async def _respond(self, context: RequestContext, request: Request) -> Response:
        self.served.append((type(request).__name__, context.principal))
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse(0, ())
        return MetadataResponse((), ())

    async def client(self) -> Client:
        return await client_of(self.address)


@asynccontextmanager
async def sasl_port(
    listener: SaslListener, limits: ConnectionLimits | None = None
) -> AsyncIterator[SaslPort]:
    """An open port."""
    port = SaslPort(listener, limits)
    port.address = await opened(port.server)
    try:
        yield port
    finally:
        await port.server.close()


async def log_in(client: Client, mechanism: str, user: str, password: str) -> SaslAuthenticateResponse:
    """The last answer: of the refusal, or of the last token."""
    shaken = await client.ask(SaslHandshakeRequest(mechanism), SaslHandshakeResponse, version=1)
    assert shaken.error == 0
    tokens = client_login(mechanism, user, password)
    token = next(tokens)
    while True:
        answer = await client.ask(SaslAuthenticateRequest(token), SaslAuthenticateResponse, version=2)
        if answer.error != 0:
            return answer
        try:
            token = tokens.send(answer.auth_bytes)
        except StopIteration:
            return answer
