"""A broker's TLS: three brokers that talk it among themselves, and who is refused."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer

from tests.waiting import PATIENCE_S, eventually
from tests.worlds.certificates import Authority
from tests.worlds.listening_brokers import ListeningBrokers
from tests.worlds.serving import Client, client_of, closed, jump, on_a_loop
from tests.worlds.wire_requests import REQUESTS
from zkgroup.broker.controller_only import ControllerOnly
from zkgroup.broker.security_settings import SecuritySettings
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.handshakes import TlsListener
from zkgroup.broker.server.port import ConnectionLimits
from zkgroup.broker.server.server import BrokerServer
from zkgroup.model import TopicPartition
from zkgroup.runtime.logs import LINES_MAX
from zkgroup.security.listeners import Listener
from zkgroup.security.scram import ScramCredential
from zkgroup.security.tls import TlsSettings, server_context
from zkgroup.wire.messages import Request
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState
from zkgroup.znodes.config import UserConfig

LISTENERS = {
    "listeners": "IN://127.0.0.1:0,OUT://127.0.0.1:0",
    "listener.security.protocol.map": "IN:SSL,OUT:SSL",
    "inter.broker.listener.name": "IN",
    "ssl.client.auth": "required",
    "listener.name.out.ssl.client.auth": "none",
    "ssl.key.password": "canary",
}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def files(authority: Authority, key_store: Path) -> dict[str, str]:
    """The settings of a broker."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key_store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.trust_store),
    }


def options(authority: Authority, key_store: Path | None = None) -> dict[str, Any]:
    """Those of kafka-python."""
    own = {} if key_store is None else {"ssl_certfile": str(key_store), "ssl_keyfile": str(key_store)}
    return {"security_protocol": "SSL", "ssl_cafile": str(authority.trust_store), **own}


def produce(bootstrap: str, more: Mapping[str, Any], value: bytes) -> None:
    """Sends a record with acks=all."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", retries=5, **more)
    try:
        producer.send("t", value, partition=0).get(PATIENCE_S)
    finally:
        producer.close()


def consumed(bootstrap: str, more: Mapping[str, Any], count: int) -> list[bytes]:
    """So many values of the topic, from its beginning."""
    consumer = KafkaConsumer(
        "t",
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=round(PATIENCE_S * 1000),
        **more,
    )
    try:
        return [next(consumer).value for _ in range(count)]
    finally:
        consumer.close()


def roundtrip(bootstrap: str, more: Mapping[str, Any]) -> list[bytes]:
    """Sends a record with acks=all, and reads the topic."""
    produce(bootstrap, more, b"a")
    return consumed(bootstrap, more, 1)


def in_sync(cluster: ListeningBrokers) -> int:
    """The size of the ISR, if the partition has a leader."""
    path = PartitionState.path(TopicPartition("t", 0))
    found = cluster.zookeeper.find(path)
    assert found is not None
    state = PartitionState.decode(path, found.data)
    return len(state.isr) if state.leader >= 0 else 0


def test_three_brokers_talk_tls_among_themselves_and_with_clients(authority: Authority) -> None:
    """By an encrypted key each. Of two listeners one demands certificates, also of the brokers."""

    def properties(broker: int) -> dict[str, str]:
        return LISTENERS | files(authority, authority.key_store(f"broker-{broker}", password="canary"))

    with ListeningBrokers(properties) as cluster:
        inside, outside = (",".join(cluster.addresses(name).values()) for name in ("IN", "OUT"))
        client = authority.key_store("client", common_name="alice")
        assert roundtrip(inside, options(authority, client)) == [b"a"]
        assert roundtrip(outside, options(authority)) == [b"a"]
        registration = cluster.zookeeper.find(BrokerRegistration.path(1))
        assert registration is not None
        found = BrokerRegistration.decode("", registration.data)
        assert (found.host, found.port, {*found.protocols.values()}) == (None, -1, {"SSL"})
        assert "canary" not in repr(cluster.brokers[1].security)


async def _principals(context: RequestContext, request: Request) -> MetadataResponse:
    """Answers with the principal as the cluster id."""
    return MetadataResponse((), (), cluster_id=context.principal)


@asynccontextmanager
async def served(
    authority: Authority, limits: ConnectionLimits | None = None, **more: Any
) -> AsyncIterator[tuple[str, int]]:
    """The address of a server with one TLS listener."""
    key_store = more.pop("key_store", None) or authority.key_store("server")
    settings = TlsSettings(key_store=str(key_store), trust_store=str(authority.trust_store), **more)
    tls = {"SSL": TlsListener(settings)}
    server = BrokerServer(_principals, REQUESTS, limits, inter_broker="SSL", tls=tls)
    (opened,) = await server.start([Listener("SSL", "127.0.0.1", 0, "SSL", "127.0.0.1", 0)])
    try:
        yield opened.host, opened.port
    finally:
        async with asyncio.timeout(PATIENCE_S):
            await server.close()
        assert server.held == server.connections == 0


def trusting(authority: Authority, key_store: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.trust_store)
    if key_store is not None:
        context.load_cert_chain(key_store)
    return context


async def principal(address: tuple[str, int], context: ssl.SSLContext) -> str | None:
    """The principal of a client; None if it is refused."""
    try:
        client = Client(*await asyncio.open_connection(*address, ssl=context))
        try:
            answer = await client.ask(MetadataRequest.of(), MetadataResponse, 2)
        finally:
            await client.close()
    except (OSError, EOFError):
        return None
    return answer.cluster_id


def shake_hands(address: tuple[str, int], context: ssl.SSLContext) -> None:
    """As a client that says why it leaves, which asyncio's do not."""
    with socket.create_connection(address, timeout=PATIENCE_S) as plain:
        context.wrap_socket(plain, server_hostname=address[0]).close()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if " is refused: " in record.getMessage()]


@on_a_loop
async def test_a_client_is_its_certificate_or_nobody(tmp_path: Path) -> None:
    """By the rules, the first that matches; a client that no rule knows is refused."""
    authority = Authority(tmp_path)
    rules = "RULE:^CN=([a-z]+),.*$/$1/U, RULE:^O=trustme.*$/other/"
    alice = trusting(authority, authority.key_store("alice", common_name="alice"))
    other = trusting(authority, authority.key_store("other"))

    async with served(authority, client_auth="requested") as address:
        assert await principal(address, trusting(authority)) == "User:ANONYMOUS"
        assert str(await principal(address, alice)).startswith("User:CN=alice,OU=")
    async with served(authority, client_auth="required", principal_rules=rules) as address:
        assert await principal(address, alice) == "User:ALICE"
        assert await principal(address, other) is None


@on_a_loop
async def test_who_is_refused_costs_one_line_and_keeps_nobody_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A plain client, one of HTTP, none, another's and an expired certificate: each line says which."""
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    good = trusting(authority, authority.key_store("good"))
    expired = trusting(authority, authority.key_store("old", not_after=datetime(2020, 1, 1, tzinfo=UTC)))
    foreign = trusting(authority, stranger.key_store("foreign"))
    distrusting = trusting(stranger, authority.key_store("distrusting"))

    async with served(authority, client_auth="required") as address:
        for first in (b"\0\0\0\x14\0\x12\0\0\0\0\0\1", b"GET / HTTP/1.1\r\n\r\n"):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(first)
            assert await Client(reader, writer).is_closed()
            writer.close()
        for context in (trusting(authority), expired, foreign):
            assert await principal(address, context) is None
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(shake_hands, address, distrusting)
        assert await principal(address, good) is not None

    expected = (
        "it does not speak TLS", "it speaks HTTP, not TLS", "it shows no certificate, and ssl.client.auth",
        "certificate has expired", "unable to get local issuer certificate",
        "it refuses the certificate of this broker",
    )  # fmt: skip
    found = lines(caplog)
    assert len(found) == len(expected)
    for line, reason in zip(found, expected, strict=True):
        assert reason in line, found


@on_a_loop
async def test_lines_about_the_refused_have_a_bounded_rate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten a minute of a kind."""
    authority = Authority(tmp_path)
    async with served(authority) as address:
        for _ in range(LINES_MAX + 5):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"no TLS at all")
            assert await Client(reader, writer).is_closed()
            writer.close()

    assert len(lines(caplog)) == LINES_MAX


@on_a_loop
async def test_files_that_change_are_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Connections that are there stay. A file that cannot be used changes nothing, and is one line;
    it is used once its mode is mended."""
    former, later = Authority(tmp_path, "former"), Authority(tmp_path, "later")
    used = former.key_store("server")
    async with served(former, key_store=used) as address:
        stays = Client(*await asyncio.open_connection(*address, ssl=trusting(former)))
        await stays.ask(MetadataRequest.of(), MetadataResponse)
        used.write_text("-----BEGIN")
        assert await principal(address, trusting(former)) is not None
        assert await principal(address, trusting(former)) is not None
        store = later.key_store("next")
        store.chmod(0o666)
        store.replace(used)
        assert await principal(address, trusting(former)) is not None
        used.chmod(0o600)  # as the line says
        assert await principal(address, trusting(former)) is None
        assert await principal(address, trusting(later)) is not None
        await stays.ask(MetadataRequest.of(), MetadataResponse)
        await stays.close()

    failed = [each.getMessage() for each in caplog.records if "the former one" in each.getMessage()]
    assert len(failed) == 2


def test_a_key_store_that_is_replaced_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python reads the certificate, then the key: if they are of two files, both are read again."""
    authority = Authority(tmp_path)
    used, later = authority.key_store("server"), authority.key_store("later")

    load = ssl.SSLContext.load_cert_chain

    def replaced(context: ssl.SSLContext, path: str, password: Any) -> None:
        if later.exists():
            later.replace(used)
            raise ssl.SSLError("KEY_VALUES_MISMATCH")
        load(context, path, password=password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", replaced)

    server_context(TlsSettings(key_store=str(used)))
    assert not later.exists()


@on_a_loop
async def test_a_certificate_that_is_not_valid_is_used_and_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, when it replaces a good one; Kafka uses it too."""
    authority = Authority(tmp_path)
    used = authority.key_store("server")
    async with served(authority, key_store=used) as address:
        assert await principal(address, trusting(authority)) is not None
        assert "certificate has expired" not in caplog.text
        authority.key_store("old", not_after=datetime(2020, 1, 1, tzinfo=UTC)).replace(used)
        for _ in range(2):
            assert await principal(address, trusting(authority)) is None

    (warned,) = [
        one for one in caplog.records if "found: certificate has expired; it is used" in one.getMessage()
    ]
    assert (warned.levelname, str(used) in warned.getMessage()) == ("WARNING", True)


@on_a_loop
async def test_half_handshakes_keep_no_honest_client_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A tenth of the places is theirs. Who stays silent is cut off, at the latest by time."""
    authority = Authority(tmp_path)
    async with served(authority, ConnectionLimits(connections_max=50, handshake_ms=600_000)) as address:
        honest = Client(*await asyncio.open_connection(*address, ssl=trusting(authority)))
        silent = [await client_of(address) for _ in range(1_000)]
        await honest.ask(MetadataRequest.of(), MetadataResponse)
        for _ in range(10):
            assert await principal(address, trusting(authority)) == "User:ANONYMOUS"
        jump(600)
        for one in silent:
            assert await one.is_closed()
        await closed(honest, *silent)

    assert "cut off: others came behind it" in caplog.text
    assert "its TLS handshake did not end in time" in caplog.text


@on_a_loop
async def test_the_host_with_most_handshakes_loses_one(tmp_path: Path) -> None:
    """A slow client of another host is not cut off for those that a host begins again and again."""
    authority = Authority(tmp_path)
    async with served(authority, ConnectionLimits(connections_max=50)) as address:
        slow = socket.create_connection(address, PATIENCE_S, source_address=("127.0.0.2", 0))
        silent = [await client_of(address) for _ in range(100)]
        for one in silent[:90]:
            assert await one.is_closed()
        slow.setblocking(False)
        streams = await asyncio.open_connection(
            sock=slow, ssl=trusting(authority), server_hostname=address[0]
        )
        client = Client(*streams)
        await client.ask(MetadataRequest.of(), MetadataResponse)
        await closed(client, *silent)


@on_a_loop
async def test_any_bytes_before_within_and_behind_the_handshake(tmp_path: Path) -> None:
    """They end their own connection only."""
    authority, rng = Authority(tmp_path), random.Random(35)
    async with served(authority, client_auth="requested") as address:
        hello = await _client_hello()
        for _ in range(60):
            cut = bytearray(hello[: rng.randrange(1, len(hello))])
            for _ in range(rng.randrange(4)):
                cut[rng.randrange(len(cut))] = rng.randrange(256)
            for first in (bytes(cut) + rng.randbytes(300), b"\x16\x03\x01" + rng.randbytes(40)):
                reader, writer = await asyncio.open_connection(*address)
                writer.write(first)
                writer.write_eof()
                assert await Client(reader, writer).is_closed() or True
                writer.close()
            client = Client(*await asyncio.open_connection(*address, ssl=trusting(authority)))
            client.writer.write(b"\xff" + rng.randbytes(60))
            assert await client.is_closed()
            await client.close()
        assert await principal(address, trusting(authority)) == "User:ANONYMOUS"


async def _client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    side = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="h")
    with suppress(ssl.SSLWantReadError):
        side.do_handshake()
    return outgoing.read()


def test_three_brokers_log_in_to_each_other_over_tls(authority: Authority) -> None:
    """By SASL_SSL and SCRAM: their user is in ZooKeeper before the first of them runs. So is a client's."""
    entry = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required username=broker password=canary;"
    )

    def properties(broker: int) -> dict[str, str]:
        return {
            "listeners": "SASL_SSL://127.0.0.1:0",
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": entry,
            **files(authority, authority.key_store(f"broker-{broker}")),
        }

    cluster = ListeningBrokers(properties)
    for user in ("broker", "alice"):
        credential = ScramCredential.of_password("SCRAM-SHA-512", "canary", 4096, b"salt" * 4)
        config = UserConfig({"SCRAM-SHA-512": credential.encode()})
        cluster.zookeeper.put(UserConfig.path(user), config.encode())
    alice = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(authority.trust_store),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "canary",
    }
    with cluster:
        assert roundtrip(",".join(cluster.addresses("SASL_SSL").values()), alice) == [b"a"]


def test_an_open_cluster_is_closed_by_restarts_one_after_the_other(authority: Authority) -> None:
    """First each broker gets the other listener, then brokers go over to it, then the open one goes. In
    between some reach each other by one and some by the other; records that were acknowledged stay."""
    keys = {number: authority.key_store(f"broker-{number}") for number in (1, 2, 3)}
    open_, both, over, closed_ = (
        {"listeners": "PLAINTEXT://127.0.0.1:0"},
        {"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"},
        {"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0", "inter.broker.listener.name": "SSL"},
        {"listeners": "SSL://127.0.0.1:0", "inter.broker.listener.name": "SSL"},
    )

    with ListeningBrokers(lambda broker: open_) as cluster:
        sent = [b"%d" % number for number in range(10)]
        produce(cluster.address(1, "PLAINTEXT"), {}, sent[0])
        for step, changed in enumerate((both, over, closed_)):
            # Clients go over before the listener that they use is gone.
            listener, more = ("SSL", options(authority)) if changed is closed_ else ("PLAINTEXT", {})
            for number, key in keys.items():
                cluster.restart(number, changed | files(authority, key))
                eventually(lambda: in_sync(cluster) == 3)
                produce(cluster.address(number, listener), more, sent[3 * step + number])
        assert consumed(cluster.address(1, "SSL"), options(authority), len(sent)) == sent


def test_a_controller_without_partitions_leads_brokers_over_tls(authority: Authority) -> None:
    """It is registered with its listener, and brokers and it show each other certificates."""

    def properties(broker: int) -> dict[str, str]:
        own = {"listeners": "SSL://127.0.0.1:0", "security.inter.broker.protocol": "SSL"}
        return (
            own | files(authority, authority.key_store(f"broker-{broker}")) | {"ssl.client.auth": "required"}
        )

    cluster = ListeningBrokers(properties, count=2)
    alone = ControllerOnly(
        client=cluster.zookeeper.client("alone", 6000), broker=9, security=SecuritySettings.of(properties(9))
    )
    alone.start()
    try:
        path = BrokerRegistration.path(9)
        found = eventually(lambda: cluster.zookeeper.find(path))
        assert found is not None
        assert BrokerRegistration.decode(path, found.data).protocols == {"SSL": "SSL"}
        with cluster:
            assert [one.health().controller for one in cluster.brokers.values()] == [9, 9]
    finally:
        alone.close()
