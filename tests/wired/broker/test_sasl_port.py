"""A port with SASL: nothing is served before a login, whatever is sent; refused clients hold up nobody."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.waiting import PATIENCE_S
from tests.worlds.running_brokers import ask
from tests.worlds.sasl_ports import PASSWORD, client_login, log_in, sasl_listener, sasl_port
from tests.worlds.serving import ALL, Client, client_of, closed, jump, on_a_loop, until
from tests.worlds.wire_requests import REQUESTS
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.logins import FRAME_BYTES_MAX
from zkgroup.broker.server.port import ConnectionLimits
from zkgroup.broker.server.server import BrokerServer
from zkgroup.security.listeners import Listener
from zkgroup.testing import KafkaCluster
from zkgroup.wire.messages import Api, Request, encode_request, framed
from zkgroup.wire.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataResponse
from zkgroup.wire.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

USERS = {"olga": PASSWORD}
WRONG = b"\0alice\0wrong"


@pytest.mark.parametrize("is_slow", [False, True])
@on_a_loop
async def test_requests_are_served_after_the_login_as_those_of_its_user(is_slow: bool) -> None:
    """By each mechanism, where tokens are taken on the loop and where on a thread; once more in between."""
    for mechanism, user, password in (
        ("PLAIN", "alice", "alice-secret"),
        ("SCRAM-SHA-256", "olga", PASSWORD),
        ("SCRAM-SHA-512", "olga", PASSWORD),
    ):
        async with sasl_port(sasl_listener(USERS, is_slow=is_slow)) as port:
            client = await port.client()
            await client.ask(ApiVersionsRequest("c", "1"), ApiVersionsResponse, version=3)
            for _ in range(2):
                assert (await log_in(client, mechanism, user, password)).session_lifetime_ms == 600_000
                await client.ask(ALL, MetadataResponse)

            principals = [principal for _, principal in port.served]
            assert principals == ["User:ANONYMOUS", *[f"User:{user}"] * 2]
            await closed(client)


@on_a_loop
async def test_bare_tokens_log_in_too() -> None:
    """As clients of 0.10 send them, each a frame; a refused one gets no answer."""
    async with sasl_port(sasl_listener(USERS)) as port:
        for password, is_right in ((PASSWORD, True), ("wrong", False)):
            client = await port.client()
            await client.ask(SaslHandshakeRequest("SCRAM-SHA-256"), SaslHandshakeResponse)
            tokens = client_login("SCRAM-SHA-256", "olga", password)
            client.writer.write(framed(next(tokens)))
            client.writer.write(framed(tokens.send(await client.frame())))
            if is_right:
                assert (await client.frame()).startswith(b"v=")
                await client.ask(ALL, MetadataResponse)
            else:
                assert await client.is_closed()
            await closed(client)
        assert [kind for kind, _ in port.served] == ["MetadataRequest"]


@on_a_loop
async def test_no_request_is_served_before_the_login(caplog: pytest.LogCaptureFixture) -> None:
    """Every API at every moment before it: the connection ends, and no handler is called."""
    caplog.set_level(logging.CRITICAL, "zkgroup.broker")
    async with sasl_port(sasl_listener(USERS)) as port:
        for key, kind in REQUESTS.items():
            if key in (Api.API_VERSIONS, Api.SASL_HANDSHAKE):
                continue
            header = key.to_bytes(2, "big") + kind.VERSIONS[0].to_bytes(2, "big") + bytes(40)
            for shaken in (False, True):
                if shaken and key == Api.SASL_AUTHENTICATE:
                    continue
                client = await port.client()
                if shaken:
                    await client.ask(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse, version=1)
                client.writer.write(framed(header))
                assert await client.is_closed(), kind
                await closed(client)
        assert port.served == []


@on_a_loop
async def test_requests_behind_a_refused_token_are_dropped() -> None:
    """A client that does not wait for the answer is not served what it has sent with the wrong password."""
    async with sasl_port(sasl_listener(USERS)) as port:
        client = await port.client()
        frames = (
            encode_request(SaslHandshakeRequest("PLAIN"), 1, "c", version=1),
            encode_request(SaslAuthenticateRequest(WRONG), 2, "c", version=1),
            encode_request(ALL, 3, "c"),
        )
        client.writer.write(b"".join(frames))
        client.sent = 2

        await client.receive(SaslHandshakeResponse, 1, version=1)
        refused = await client.receive(SaslAuthenticateResponse, 2, version=1)
        assert (refused.error, refused.auth_bytes) == (58, b"")
        assert await client.is_closed()
        assert port.served == []
        await closed(client)


@on_a_loop
async def test_a_refusal_waits_and_others_are_served(caplog: pytest.LogCaptureFixture) -> None:
    """With a delay of ten minutes: the refused client has no answer yet, another logs in; the port closes."""
    async with sasl_port(sasl_listener(USERS, failure_delay_ms=600_000)) as port:
        refused, other = await port.client(), await port.client()
        await refused.ask(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse, version=1)
        refused.send(SaslAuthenticateRequest(WRONG), 1)
        await until(lambda: caplog.messages)

        assert (await log_in(other, "SCRAM-SHA-256", "olga", PASSWORD)).error == 0
        await other.ask(ALL, MetadataResponse)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await refused.reader.read(1)

    assert await refused.is_closed()
    await closed(refused, other)
    (line,) = caplog.messages
    assert line.startswith("listener PLAINTEXT: login of 127.0.0.1:")
    assert "Invalid username or password" in line
    assert "wrong" not in line


@on_a_loop
async def test_a_frame_before_the_login_is_short() -> None:
    """As at Kafka: who is not known does not fill the memory; afterwards requests may be large."""
    async with sasl_port(sasl_listener(USERS)) as port:
        client, other = await port.client(), await port.client()
        for each in (client, other):
            await each.ask(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse, version=1)
        client.writer.write((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
        assert await client.is_closed()

        other.send(SaslAuthenticateRequest(b"\0alice\0alice-secret"), 1)
        await other.receive(SaslAuthenticateResponse, version=1)
        large = encode_request(ALL, 9, "c")[4:] + bytes(FRAME_BYTES_MAX)  # bytes behind it are ignored
        other.writer.write(framed(large))
        await other.receive(MetadataResponse, 9)
        await closed(client, other)


@on_a_loop
async def test_half_a_login_ends_after_a_time() -> None:
    """Also where nothing was sent. Who has logged in may be silent for longer."""
    async with sasl_port(sasl_listener(USERS), ConnectionLimits(login_ms=300_000)) as port:
        silent, half = await port.client(), await port.client()
        await half.ask(SaslHandshakeRequest("SCRAM-SHA-256"), SaslHandshakeResponse, version=1)
        jump(300)
        assert await half.is_closed()
        assert await silent.is_closed()
        await closed(silent, half)


@on_a_loop
async def test_half_logins_keep_no_client_out() -> None:
    """Ten times as many as there are places; one that is served stays, another comes and is served."""
    async with sasl_port(sasl_listener(USERS), ConnectionLimits(connections_max=10)) as port:
        known = await port.client()
        await log_in(known, "SCRAM-SHA-256", "olga", PASSWORD)
        half: list[Client] = []
        for _ in range(100):
            half.append(await port.client())
            half[-1].send(SaslHandshakeRequest("SCRAM-SHA-512"), 1)

        honest = await port.client()
        assert (await log_in(honest, "SCRAM-SHA-512", "olga", PASSWORD)).error == 0
        for client in (honest, known):
            await client.ask(ALL, MetadataResponse)
        assert port.server.connections <= 20
        await closed(known, honest, *half)


@on_a_loop
async def test_half_logins_at_the_inter_broker_listener_count() -> None:
    """Its connections count for no limit once a broker has logged in, and not before."""

    async def respond(context: RequestContext, request: Request) -> MetadataResponse:
        return MetadataResponse((), ())

    logins = {"IN": sasl_listener(USERS)}
    limits = ConnectionLimits(connections_max=2)
    server = BrokerServer(respond, REQUESTS, limits, inter_broker="IN", logins=logins)
    names = {"OUT": "PLAINTEXT", "IN": "SASL_PLAINTEXT"}
    opened = await server.start(
        Listener(name, "127.0.0.1", 0, protocol, "127.0.0.1", 0) for name, protocol in names.items()
    )
    out, inside = ((one.host, one.port) for one in opened)
    brokers = []
    for _ in range(4):
        brokers.append(await client_of(inside))
        assert (await log_in(brokers[-1], "SCRAM-SHA-256", "olga", PASSWORD)).error == 0
    half = [await client_of(inside) for _ in range(30)]
    for each in half:
        each.send(SaslHandshakeRequest("PLAIN"), 1)
    client = await client_of(out)

    for each in (client, *brokers):
        await each.ask(ALL, MetadataResponse)
    assert server.connections <= 2 * 2 + len(brokers)
    await server.close()
    await closed(client, *brokers, *half)


def test_a_listener_without_sasl_refuses_logins(kafka_cluster: KafkaCluster) -> None:
    """It lists the requests, as Kafka does, and answers both with 34; the connection goes on."""
    port = int(kafka_cluster.address(1).rpartition(":")[2])

    shaken = ask(port, SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse, version=1)
    token = ask(port, SaslAuthenticateRequest(b"x"), SaslAuthenticateResponse, version=2)

    assert (shaken.error, shaken.mechanisms, token.error) == (34, (), 34)


async def _sent(frames: list[bytes]) -> list[tuple[str, str]]:
    """What was served of these bytes; then nothing is left of the connection."""
    async with sasl_port(sasl_listener(USERS)) as port:
        client = await port.client()
        with suppress(ConnectionError):
            client.writer.write(b"".join(frames))
            client.writer.write_eof()
            async with asyncio.timeout(PATIENCE_S):
                while await client.reader.read(65_536):
                    pass
        await closed(client)
        await until(lambda: port.server.connections == 0)
        assert port.server.held == 0
        return port.served


RIGHT = [
    encode_request(SaslHandshakeRequest("PLAIN"), 1, "c", version=1),
    encode_request(SaslAuthenticateRequest(b"\0alice\0alice-secret"), 2, "c", version=1),
]
_TOKENS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [WRONG, b"n,,n=olga,r=abc", b"n,,n=x,r=a,m=1", b"c=biws,r=a,p=YQ==", b"y,a=b,n=,r=", b"\0\0\0"]
    ),
)
_FRAMES = st.one_of(
    st.binary(max_size=60),
    st.binary(max_size=40).map(framed),
    st.builds(
        lambda key, version, rest: framed(key.to_bytes(2, "big") + version.to_bytes(2, "big") + rest),
        st.sampled_from(sorted(REQUESTS)),
        st.integers(0, 12),
        st.binary(max_size=40),
    ),
    st.builds(
        lambda name, version: encode_request(SaslHandshakeRequest(name), 1, "c", version=version),
        st.sampled_from(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", ""]),
        st.integers(0, 1),
    ),
    st.builds(
        lambda token, version: encode_request(SaslAuthenticateRequest(token), 1, "c", version=version),
        _TOKENS,
        st.integers(0, 2),
    ),
    _TOKENS.map(framed),
)


@settings(
    max_examples=5 * settings.default.max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(before=st.lists(_FRAMES, max_size=4), within=st.lists(_FRAMES, max_size=2), after=st.lists(_FRAMES))
def test_whatever_is_sent_only_the_login_lets_in(
    caplog: pytest.LogCaptureFixture, before: list[bytes], within: list[bytes], after: list[bytes]
) -> None:
    """Frames of any bytes before, during and after it; no bug is in the log, and nothing is left."""
    caplog.clear()

    without = asyncio.run(_sent([*before, *within, *after]))
    with_login = asyncio.run(_sent([*before, RIGHT[0], *within, RIGHT[1], *after]))

    assert without in ([], [("ApiVersionsRequest", "User:ANONYMOUS")])
    unknown = [kind for kind, who in with_login if who == "User:ANONYMOUS"]
    assert unknown in ([], ["ApiVersionsRequest"])
    assert {who for _, who in with_login} <= {"User:ANONYMOUS", "User:alice"}
    assert not [record for record in caplog.records if record.exc_info is not None]
