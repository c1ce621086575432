"""The client's end of a connection by TLS and SASL, to a scripted broker of Kafka's protocol."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path

import pytest
import scramp

from tests.waiting import PATIENCE_S
from tests.worlds.certificates import Authority
from tests.worlds.wire_requests import decode_request, encode_response
from zkgroup.errors import BrokerAuthenticationError, ConfigError
from zkgroup.model.error_codes import ErrorCode
from zkgroup.security.client import ClientSecurity
from zkgroup.security.secret import Secret
from zkgroup.security.tls import TlsSettings
from zkgroup.wire.client import BrokerClient
from zkgroup.wire.messages import REQUEST_BYTES_MAX, Request, Response
from zkgroup.wire.metadata import ApiVersionsRequest, ApiVersionsResponse
from zkgroup.wire.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

PATIENCE_MS = round(PATIENCE_S * 1000)
PASSWORD = "canary"
Tokens = Generator[bytes | None, bytes, None]
"""A broker's side of an exchange: gets the client's tokens, yields its own, or None to refuse."""


def plain(password: str = PASSWORD) -> Tokens:
    token = yield b""
    yield b"" if token == f"\0alice\0{password}".encode() else None


def scram(mechanism: str, password: str = PASSWORD) -> Tokens:
    one = scramp.ScramMechanism(mechanism)
    server = one.make_server(lambda _: one.make_auth_info(password, iteration_count=4096))
    server.set_client_first((yield b"").decode())
    try:
        server.set_client_final((yield server.get_server_first().encode()).decode())
    except scramp.ScramException:
        yield None
    yield server.get_server_final().encode()


def forged() -> Tokens:
    """Any password is right, and the proof is wrong."""
    first = (yield b"").decode()
    nonce = first.rpartition("r=")[2]
    yield f"r={nonce}x,s=c2FsdHNhbHRzYWx0,i=4096".encode()
    yield b"v=Zm9yZ2Vk"


class ScriptedBroker:
    """Answers ApiVersions once the client has logged in."""

    def __init__(
        self, exchange: Callable[[], Tokens] | None = None, *mechanisms: str, lifetime_ms: int = 0
    ) -> None:
        self.exchange = exchange
        self.mechanisms = mechanisms
        self.lifetime_ms = lifetime_ms
        self.logins = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange = None
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                if size > REQUEST_BYTES_MAX:  # TLS at a plain port
                    break
                header, request = decode_request(await reader.readexactly(size))
                if isinstance(request, SaslAuthenticateRequest) and exchange is None:
                    assert self.exchange is not None
                    exchange = self.exchange()
                    next(exchange)
                answer = self.answer(request, exchange)
                writer.write(encode_response(answer, header.correlation_id, version=header.version))
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    def answer(self, request: Request, exchange: Tokens | None) -> Response:
        if isinstance(request, SaslHandshakeRequest):
            is_served = request.mechanism in self.mechanisms
            error = ErrorCode.NONE if is_served else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return SaslHandshakeResponse(
                ErrorCode.ILLEGAL_SASL_STATE if not self.mechanisms else error, self.mechanisms
            )
        if isinstance(request, SaslAuthenticateRequest):
            assert exchange is not None
            token = exchange.send(request.auth_bytes)
            if token is None:
                return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "no", b"")
            self.logins += 1
            return SaslAuthenticateResponse(ErrorCode.NONE, None, token, session_lifetime_ms=self.lifetime_ms)
        return ApiVersionsResponse(ErrorCode.NONE, ())


def asked(
    broker: ScriptedBroker,
    security: ClientSecurity | None,
    context: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
) -> Response:
    """The answer of the broker to a request on a connection of its own."""

    async def ask() -> Response:
        async with await asyncio.start_server(broker.serve, "127.0.0.1", 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            client = BrokerClient(host, port, client_id="me", timeout_ms=PATIENCE_MS, security=security)
            try:
                return await client.ask(ApiVersionsRequest(), ApiVersionsResponse)
            finally:
                await client.close()

    return asyncio.run(ask())


def user(mechanism: str, password: str = PASSWORD, tls: TlsSettings | None = None) -> ClientSecurity:
    return ClientSecurity(
        protocol="SASL_SSL" if tls else "SASL_PLAINTEXT",
        tls=tls,
        mechanism=mechanism,
        username="alice",
        password=Secret(password),
    )


def server_context(authority: Authority, *hosts: str, wants_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.trust_store))
    context.load_cert_chain(authority.key_store("broker", *hosts))
    if wants_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def tls_of(authority: Authority, key_store: Path | None = None, **more: object) -> TlsSettings:
    store = str(key_store) if key_store else None
    return TlsSettings(trust_store=str(authority.trust_store), key_store=store, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("with_tls", [False, True])
def test_a_client_logs_in(mechanism: str, with_tls: bool, tmp_path: Path) -> None:
    """Each mechanism, in plain text and by TLS."""
    authority = Authority(tmp_path)
    broker = ScriptedBroker(plain if mechanism == "PLAIN" else lambda: scram(mechanism), mechanism)
    tls = tls_of(authority) if with_tls else None
    context = server_context(authority) if with_tls else None
    assert asked(broker, user(mechanism, tls=tls), context) == ApiVersionsResponse(ErrorCode.NONE, ())


def test_a_login_that_ends_is_renewed_on_a_new_connection() -> None:
    """Before the broker cuts the connection, between two requests; one that lasts is kept."""
    asking = ApiVersionsRequest()

    async def logins(broker: ScriptedBroker, again_at: float) -> int:
        async with await asyncio.start_server(broker.serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            client = BrokerClient(
                "127.0.0.1", port, client_id="me", timeout_ms=PATIENCE_MS, security=user("PLAIN")
            )
            await client.ask(asking, ApiVersionsResponse)
            loop = asyncio.get_running_loop()
            now = loop.time
            loop.time = lambda: now() + again_at  # type: ignore[method-assign]
            await client.ask(asking, ApiVersionsResponse)
            await client.close()
        return broker.logins

    for lifetime_ms, again_s, expected in ((0, 36_000, 1), (6_000_000, 4_500, 1), (6_000_000, 5_100, 2)):
        broker = ScriptedBroker(plain, "PLAIN", lifetime_ms=lifetime_ms)
        assert asyncio.run(logins(broker, again_s)) == expected


def test_a_client_shows_its_certificate(tmp_path: Path) -> None:
    """The key is encrypted; the broker demands a certificate."""
    authority = Authority(tmp_path)
    store = authority.key_store("client", password="of the key")
    security = ClientSecurity(protocol="SSL", tls=tls_of(authority, store, key_password=Secret("of the key")))
    context = server_context(authority, wants_certificate=True)
    assert asked(ScriptedBroker(), security, context) == ApiVersionsResponse(ErrorCode.NONE, ())


def test_a_certificate_for_another_host_is_taken_where_names_are_not_checked(tmp_path: Path) -> None:
    """`ssl.endpoint.identification.algorithm=` in Kafka."""
    authority = Authority(tmp_path)
    security = ClientSecurity(protocol="SSL", tls=tls_of(authority, check_host_names=False))
    assert asked(ScriptedBroker(), security, server_context(authority, "elsewhere.example"))


@pytest.mark.parametrize(
    ("broker", "security", "expected"),
    [
        (ScriptedBroker(plain, "PLAIN"), user("PLAIN", "wrong"), r"\(PLAIN\): user alice: .* 58 "),
        (
            ScriptedBroker(lambda: scram("SCRAM-SHA-256"), "SCRAM-SHA-256"),
            user("SCRAM-SHA-256", "wrong"),
            r"\(SCRAM-SHA-256\): user alice: .* 58 ",
        ),
        (ScriptedBroker(forged, "SCRAM-SHA-256"), user("SCRAM-SHA-256"), "does not prove that it knows"),
        (ScriptedBroker(plain, "PLAIN"), user("SCRAM-SHA-512"), "other mechanisms: 'PLAIN'"),
        (ScriptedBroker(), user("PLAIN"), "is the port one of SASL"),
    ],
    ids=["plain", "scram", "forged", "mechanism", "no sasl"],
)
def test_a_refused_login_is_one_error_without_the_password(
    broker: ScriptedBroker, security: ClientSecurity, expected: str
) -> None:
    """Broker, mechanism and user are named; the broker's proof is checked as well."""
    with pytest.raises(BrokerAuthenticationError, match=expected) as refused:
        asked(broker, security)
    text = str(refused.value)
    assert text.startswith("broker 127.0.0.1:")
    assert "authentication failed" in text
    assert PASSWORD not in repr((text, refused.value.args, security))
    assert "wrong" not in text


def test_a_certificate_that_proves_nothing_is_refused(tmp_path: Path) -> None:
    """Of another authority, or for another host; and a port without TLS."""
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    trusting = ClientSecurity(protocol="SSL", tls=tls_of(ours))
    cases = {
        "certificate is refused: self-signed certificate": (trusting, server_context(other)),
        "IP address mismatch": (trusting, server_context(ours, "elsewhere.example")),
    }
    for expected, (security, context) in cases.items():
        with pytest.raises(BrokerAuthenticationError, match=rf"authentication failed \(TLS\): .*{expected}"):
            asked(ScriptedBroker(), security, context)
    with pytest.raises(ConnectionResetError, match="is it a port of TLS"):
        asked(ScriptedBroker(), trusting)


def test_a_certificate_that_the_broker_refuses(tmp_path: Path) -> None:
    """By TLS 1.3 the broker says so after the client's handshake; one of asyncio only closes."""
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    context = server_context(ours, wants_certificate=True)
    stranger = tls_of(ours, other.key_store("stranger"))
    for expected, tls in (("certificate required", tls_of(ours)), ("unknown ca", stranger)):
        security = ClientSecurity(protocol="SSL", tls=tls)
        with pytest.raises(BrokerAuthenticationError, match=rf"authentication failed \(TLS\): .*{expected}"):
            asyncio.run(refused_with_an_alert(context, security))
    with pytest.raises(
        (EOFError, ConnectionResetError),  # the latter where its end came before the request
        match="before an answer: it is stopping, or refuses the client's certificate",
    ):
        asked(ScriptedBroker(), security, context)


async def refused_with_an_alert(context: ssl.SSLContext, security: ClientSecurity) -> None:
    def serve() -> None:
        taken, _ = listening.accept()
        with context.wrap_socket(taken, server_side=True, do_handshake_on_connect=False) as tls:
            with suppress(ssl.SSLError):
                tls.do_handshake()
            while socket.socket.recv(tls, 1024):  # what the client has sent: a reset would hide the alert
                pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        client = BrokerClient("127.0.0.1", port, client_id="me", timeout_ms=PATIENCE_MS, security=security)
        served = asyncio.get_running_loop().run_in_executor(None, serve)
        try:
            await client.ask(ApiVersionsRequest(), ApiVersionsResponse)
        finally:
            await served


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """The setting and the path, never the password."""
    authority = Authority(tmp_path)
    encrypted = authority.key_store("client", password="of the key")
    absent = tmp_path / "absent.pem"
    cases = {
        rf"ssl\.truststore\.location {absent}: cannot be read": TlsSettings(trust_store=str(absent)),
        r"ssl\.truststore\.location .*: expected cert": TlsSettings(trust_store=str(tmp_path / "no.pem")),
        rf"ssl\.keystore\.location {absent}: cannot be read": tls_of(authority, absent),
        r"ssl\.keystore\.location .* password": tls_of(authority, encrypted, key_password=Secret("canary")),
        r"ssl\.keystore\.location .* key and its": tls_of(authority, authority.trust_store),
    }
    (tmp_path / "no.pem").write_text("no certificate")
    for expected, tls in cases.items():
        with pytest.raises(ConfigError, match=expected) as wrong:
            ClientSecurity(protocol="SSL", tls=tls).tls_context()
        assert "canary" not in str(wrong.value)
