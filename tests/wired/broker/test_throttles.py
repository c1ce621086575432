"""Clients beyond their quotas at a broker's port: who waits, how long, and who does not."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from time import thread_time
from typing import Any

import pytest

from tests.worlds.batches import records_of
from tests.worlds.broker_requests import ORDERS, consume_request, produce_request, update_metadata
from tests.worlds.replica_managers import TP, in_memory
from tests.worlds.serving import ALL, Client, client_of, closed, context_of, jump, on_a_loop, opened, until
from tests.worlds.wire_requests import REQUESTS
from zkgroup.broker.quotas.connections import ConnectionQuotas
from zkgroup.broker.quotas.levels import QuotaType
from zkgroup.broker.quotas.managers import QuotaManagers
from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.server import connection as connection_module
from zkgroup.broker.server.connection_choice import PeerKind
from zkgroup.broker.server.fetch_handler import FetchHandler
from zkgroup.broker.server.fetch_requests import bytes_of
from zkgroup.broker.server.handlers import NO_ANSWER, Answer, RequestContext, given
from zkgroup.broker.server.port import ConnectionLimits
from zkgroup.broker.server.server import BrokerServer
from zkgroup.broker.server.throttles import Throttles
from zkgroup.broker.telemetry import BrokerTelemetry
from zkgroup.wire.control import UpdateMetadataResponse
from zkgroup.wire.groups import HeartbeatRequest, HeartbeatResponse, OffsetCommitResponse
from zkgroup.wire.messages import EncodedResponse, Request, decode_request, encode_request, response_buffers
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse
from zkgroup.wire.records import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from zkgroup.znodes.config import ConfigEntity

CLIENT = ConfigEntity.of_client("test")
BEAT = HeartbeatRequest(group="g", generation=1, member_id="m")
LARGE, SMALL = produce_request(ORDERS, 1, b"x" * 3_000), produce_request(ORDERS, 1, b"x")


class ThrottledPort:
    """A port whose clients have these quotas, and the requests that it has handled."""

    def __init__(self, **quotas: str) -> None:
        self.quotas = QuotaManagers(1)
        self.quotas.configured(CLIENT, quotas)
        self.handled: list[Request] = []
        self.waits: list[tuple[str, float]] = []
        self.confirms: PeerKind | None = None
        """What every client turns out to be."""
        throttles = Throttles(self.quotas, lambda by, wait_s: self.waits.append((by.value, wait_s)))
        self.server = BrokerServer(
            throttles.throttled(self._respond), REQUESTS, first_time=throttles.first_time
        )

    def _respond(self, context: RequestContext, request: Request) -> Awaitable[Answer]:
        self.handled.append(request)
        if self.confirms is not None:
            context.peer.confirm(self.confirms)
        match request:
            case HeartbeatRequest():
                return given(HeartbeatResponse(error=0))
            case ProduceRequest(acks=0):
                return given(NO_ANSWER)
            case ProduceRequest(acks=1):
                return given(ProduceResponse(()))
            case ProduceRequest():
                return asyncio.get_running_loop().create_future()  # nobody is in sync
            case FetchRequest():
                return given(FetchResponse(()))
            case MetadataRequest():
                return given(MetadataResponse((), ()))
            case _:
                return given(UpdateMetadataResponse(0))


@asynccontextmanager
async def throttled(**quotas: str) -> AsyncIterator[tuple[ThrottledPort, Client, Client]]:
    """A port, a client that has these quotas, and another one that has none."""
    port = ThrottledPort(**quotas)
    address = await opened(port.server)
    clients = [await client_of(address) for _ in range(2)]
    try:
        yield port, clients[0], clients[1]
    finally:
        await port.server.close()
        await closed(*clients)


async def _round_trip(other: Client) -> None:
    """A request of a client without a quota: the loop has had its turns."""
    other.writer.write(encode_request(ALL, 7, "other"))
    await other.frame()


def _slow(work: Any) -> Any:
    """The same, which takes 20 ms of CPU time."""

    def slow(*arguments: Any, **named: Any) -> Any:
        until_s = thread_time() + 0.02
        while thread_time() < until_s:
            pass
        return work(*arguments, **named)

    return slow


def _usage(port: ThrottledPort) -> float:
    """The only present usage of a quota; 0 without any."""
    return sum(each.value for each in port.quotas.usage(int(asyncio.get_running_loop().time() * 1000)))


@on_a_loop
async def test_the_answer_comes_at_once_and_nothing_more_is_read_for_its_wait() -> None:
    """Of this connection; others go on. The first request may use up ten windows."""
    async with throttled(producer_byte_rate="100") as (port, client, other):
        for request in (SMALL, LARGE, SMALL):
            client.send(request, 5)
        assert (await client.receive(ProduceResponse, 1, 5)).throttle_ms == 0
        wait_ms = (await client.receive(ProduceResponse, 2, 5)).throttle_ms
        assert 10_000 < wait_ms < 40_000
        for _ in range(3):
            await _round_trip(other)
        assert port.handled.count(SMALL) == 1

        jump(wait_ms / 1000 - 5)
        await _round_trip(other)
        assert port.handled.count(SMALL) == 1
        jump(5)
        await client.receive(ProduceResponse, 3, 5)
        assert port.waits[0] == ("producer_byte_rate", wait_ms / 1000)


@on_a_loop
async def test_a_request_without_an_answer_is_counted_too() -> None:
    """Of acks=0: no client of such records would wait otherwise."""
    async with throttled(producer_byte_rate="100") as (port, client, other):
        client.send(produce_request(ORDERS, 0, b"x" * 3_000), 5)
        client.send(SMALL, 5)
        await until(lambda: port.handled)
        await _round_trip(other)
        assert port.handled.count(SMALL) == 0

        jump(40)
        await client.receive(ProduceResponse, 2, 5)


@on_a_loop
async def test_the_time_of_every_request_is_counted() -> None:
    """Also of one that is answered in the turn that reads it; the wait is a second at most."""
    async with throttled(request_percentage="0.0000001") as (port, client, other):
        answer = await client.ask(BEAT, HeartbeatResponse, 1)
        assert answer.throttle_ms == 1_000
        client.send(BEAT, 1)
        await _round_trip(other)
        assert port.handled.count(BEAT) == 1

        jump(1)
        assert await client.receive(HeartbeatResponse, version=1)
        assert {by for by, _ in port.waits} == {"request_percentage"}


@on_a_loop
async def test_the_time_of_decoding_and_encoding_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an answer with the next request; large ones take most of their time there."""

    monkeypatch.setattr(connection_module, "response_buffers", _slow(response_buffers))
    async with throttled(request_percentage="1000") as (port, client, _):
        for _ in range(2):
            await client.ask(BEAT, HeartbeatResponse, 1)

        assert _usage(port) > 0.15  # of the first answer 0.2, over ten seconds


@on_a_loop
async def test_the_time_of_the_first_request_and_of_large_ones_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or new connections, and requests with many items, which another thread decodes and encodes, would be
    free. So would be metadata, which are encoded in parts."""
    in_pieces = connection_module.body_in_pieces
    monkeypatch.setattr(connection_module, "decode_request", _slow(decode_request))
    monkeypatch.setattr(connection_module, "body_in_pieces", lambda *of: map(_slow(bytes), in_pieces(*of)))

    async with throttled(request_percentage="1000") as (port, client, _):
        await client.ask(BEAT, HeartbeatResponse, 1)
        first = _usage(port)
        assert first >= 0.2  # percent, over ten seconds
        monkeypatch.setattr(connection_module, "ITEMS_AT_ONCE", 0)
        await client.ask(produce_request(ORDERS, 1, b"x"), ProduceResponse, 5)
        large = _usage(port)
        assert large >= first + 0.35  # its decoding is begun on the loop
        await client.ask(ALL, MetadataResponse)
        await client.ask(BEAT, HeartbeatResponse, 1)
        assert _usage(port) >= large + 0.5


@on_a_loop
async def test_time_before_a_quota_is_not_counted_when_it_comes_again() -> None:
    """A connection whose client has no quota any more is not measured."""
    async with throttled(request_percentage="1000") as (port, client, _):
        await client.ask(BEAT, HeartbeatResponse, 1)
        port.quotas.configured(CLIENT, {})
        await client.ask(BEAT, HeartbeatResponse, 1)
        await client.ask(produce_request(ORDERS, 1, b"x" * 500_000), ProduceResponse, 5)
        port.quotas.configured(CLIENT, {"request_percentage": "1000"})
        assert _usage(port) == 0


@on_a_loop
async def test_what_a_client_sends_and_does_not_wait_for_is_counted() -> None:
    """Else it sends with acks=all, closes and comes again, as much as it likes. Of Kafka, too."""
    async with throttled(producer_byte_rate="100") as (port, client, _):
        client.send(produce_request(ORDERS, -1, b"x" * 3_000), 5)
        await until(lambda: port.handled)
        await client.close()
        await until(lambda: port.server.connections == 1)
        assert _usage(port) > 300


@on_a_loop
async def test_a_client_that_leaves_while_it_waits_takes_its_place_for_the_idle_time_at_most() -> None:
    """Nothing of it is read, so its end is not seen before; as at Kafka."""
    async with throttled(producer_byte_rate="1") as (port, client, other):
        await client.ask(LARGE, ProduceResponse, 5)
        await client.close()
        await _round_trip(other)
        assert port.server.connections == 2
        jump(ConnectionLimits().idle_ms / 1000)
        await until(lambda: port.server.connections == 0)
    assert port.server.held == 0


@on_a_loop
async def test_a_wait_ends_as_it_was_told_when_its_quota_is_removed() -> None:
    """As at Kafka: the client has been told how long. Then it never waits again."""
    async with throttled(producer_byte_rate="100") as (port, client, other):
        wait_ms = (await client.ask(LARGE, ProduceResponse, 5)).throttle_ms
        port.quotas.configured(CLIENT, {})
        client.send(LARGE, 5)
        jump(wait_ms / 1000 - 5)
        await _round_trip(other)
        assert port.handled.count(LARGE) == 1
        jump(5)
        assert (await client.receive(ProduceResponse, 2, 5)).throttle_ms == 0


@on_a_loop
async def test_a_producer_keeps_its_rate_and_another_one_does_not_wait() -> None:
    """Over 33 s, from between two bursts; records are larger than a window."""
    async with throttled(producer_byte_rate="1000") as (port, client, other):
        loop, sent = asyncio.get_running_loop(), 0
        begun_s = loop.time() + 12
        while loop.time() < begun_s + 33:
            answer = await client.ask(LARGE, ProduceResponse, 5)
            if loop.time() > begun_s:
                sent += 3_000
            await _round_trip(other)
            jump(max(0.05, answer.throttle_ms / 1000))
        assert 0.85 <= sent / 33_000 <= 1.1
        assert {by for by, _ in port.waits} == {"producer_byte_rate"}


@on_a_loop
async def test_controllers_and_followers_have_no_quota() -> None:
    """Else a quota for all clients would stop the replication. From the first request on, which shows who it
    is."""
    async with throttled(request_percentage="0.0000001", consumer_byte_rate="1") as (port, client, _):
        port.confirms = PeerKind.FOLLOWER
        for _ in range(3):
            await client.ask(update_metadata(), UpdateMetadataResponse)
            await client.ask(FetchRequest(2, 0, 0, ()), FetchResponse, 4)

        assert port.waits == []


@on_a_loop
async def test_a_client_that_only_claims_to_be_one_has_its_quota() -> None:
    """Such requests are refused, but take as much time: one may have 250,000 items."""
    for request in (update_metadata(), FetchRequest(2, 0, 0, ())):
        async with throttled(request_percentage="0.0000001") as (port, client, _):
            await client.ask(request, request.RESPONSE, 0)

            assert port.waits == [("request_percentage", 1.0)]


@on_a_loop
async def test_a_client_that_waits_ends_with_the_server() -> None:
    """Nothing waits for a connection that is mute."""
    async with throttled(producer_byte_rate="1") as (port, client, other):
        client.send(LARGE, 5)
        client.send(SMALL, 5)
        await client.receive(ProduceResponse, 1, 5)

        await _round_trip(other)

        assert port.server.connections == 2
    assert port.server.connections == 0
    assert port.server.held == 0


class Metrics:
    """The last value of each metric, by its name and labels other than the broker."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, ...], float] = {}

    def count(self, name: str, labels: Mapping[str, str], amount: float = 1.0) -> None:
        self.values[name.removeprefix("zkgroup_broker_"), *list(labels.values())[1:]] = amount

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        self.count(name, labels, value)

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        self.count(name, labels, value)


def test_metrics_tell_who_uses_how_much_and_who_waits() -> None:
    """By quota; what is not used any more is no number."""
    metrics = Metrics()
    telemetry = BrokerTelemetry(metrics)
    telemetry.is_broker(1)
    quotas = QuotaManagers(1)
    quotas.configured(CLIENT, {"producer_byte_rate": "100"})
    wait_ms = quotas.produce.record("alice", "test", 2_000, 0)
    telemetry.throttled(QuotaType.PRODUCE, wait_ms / 1000)
    telemetry.refused("max.connections.per.ip")
    telemetry.used(quotas.usage(0))
    assert metrics.values == {
        ("throttle_seconds_total", "producer_byte_rate"): 10.0,
        ("connections_refused_total", "max.connections.per.ip"): 1.0,
        ("quota_usage", "producer_byte_rate", "", "test"): 200.0,
    }

    telemetry.used(quotas.usage(20_000))
    assert math.isnan(metrics.values["quota_usage", "producer_byte_rate", "", "test"])


def test_a_commit_that_is_encoded_beforehand_tells_its_wait() -> None:
    """Answers to commits are kept encoded, because they are the same again and again."""

    async def respond(context: RequestContext, request: Request) -> Answer:
        return EncodedResponse(OffsetCommitResponse(topics=()), 7)

    async def asked() -> Answer:
        quotas = QuotaManagers(1)
        quotas.configured(CLIENT, {"request_percentage": "0.0000001"})
        return await Throttles(quotas).throttled(respond)(context_of(BEAT, 7), BEAT)

    assert asyncio.run(asked()) == OffsetCommitResponse(topics=(), throttle_ms=1_000)


@on_a_loop
async def test_a_fetch_beyond_its_quota_has_no_records_until_the_wait_is_over() -> None:
    """Those that it did not get are not counted."""
    replicas = ReplicaExecutor(_with_records())
    quotas = QuotaManagers(1)
    fetches = FetchHandler(replicas, client_quota=quotas.fetch)
    quotas.configured(CLIENT, {"consumer_byte_rate": "100"})
    request = consume_request(TP, 0)

    async def fetched() -> tuple[int, int]:
        response = await fetches.fetch(context_of(request, 4), request)
        records = [each.records or b"" for topic in response.topics for each in topic.partitions]
        return sum(map(len, records)), response.throttle_ms

    size, wait_ms = await fetched()
    assert 700 < size <= 1_000
    assert wait_ms == 0
    waits_ms: list[int] = []
    while (got := await fetched())[0] == 0:
        waits_ms.append(got[1])
        jump(got[1] / 1000)
    assert 0 < sum(waits_ms) < 12_000, waits_ms  # the records that it did not get are not counted
    await replicas.close()


def _with_records() -> ReplicaManager:
    host = in_memory(1)
    host.become_leader(TP, 0, (1,), {1})
    for _ in range(20):
        host.append(TP, records_of([b"x" * 100], timestamp_ms=1))
    return host


@on_a_loop
async def test_a_consumer_gets_what_its_quota_allows_however_large_its_fetches_are() -> None:
    """Over 33 s, from between two bursts. Kafka refuses whole answers, of which few fit."""
    replicas = ReplicaExecutor(_with_records())
    quotas = QuotaManagers(1)
    fetches = FetchHandler(replicas, client_quota=quotas.fetch)
    quotas.configured(CLIENT, {"consumer_byte_rate": "400"})
    request = consume_request(TP, 0)
    loop, got = asyncio.get_running_loop(), 0
    begun_s = loop.time() + 5
    while loop.time() < begun_s + 33:
        response = await fetches.fetch(context_of(request, 4), request)
        if loop.time() > begun_s:
            got += bytes_of(response)
        jump(max(0.005, response.throttle_ms / 1000))
    await replicas.close()

    assert 0.9 <= got / (400 * 33) <= 1.1


@on_a_loop
async def test_a_batch_larger_than_all_windows_is_sent() -> None:
    """Its client waits for it afterwards; Kafka never sends it."""
    replicas = ReplicaExecutor(_with_records())
    quotas = QuotaManagers(1)
    fetches = FetchHandler(replicas, client_quota=quotas.fetch)
    quotas.configured(CLIENT, {"consumer_byte_rate": "1"})
    request = consume_request(TP, 0)
    response = await fetches.fetch(context_of(request, 4), request)

    assert bytes_of(response) > 100
    assert response.throttle_ms > 100_000
    await replicas.close()


@on_a_loop
async def test_an_address_has_so_many_connections_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    """One that ends makes room for another."""
    caplog.set_level("INFO")
    port = BrokerServer(_metadata, REQUESTS, quotas=ConnectionQuotas(1, 5, "127.0.0.1:2"))
    address = await opened(port)
    clients = [await client_of(address) for _ in range(2)]
    for each in clients:
        await each.ask(ALL, MetadataResponse)

    further = await client_of(address)
    assert await further.is_closed()
    assert "127.0.0.1 has as many connections as it may" in caplog.text
    await clients[0].close()
    await until(lambda: port.connections == 1)
    clients[0] = await client_of(address)
    await clients[0].ask(ALL, MetadataResponse)
    await port.close()
    await closed(further, *clients)


@on_a_loop
async def test_connections_beyond_a_rate_are_closed_late_and_displace_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They take no place of others; once the rate allows it, the address connects again. The log says it."""
    caplog.set_level(logging.INFO, "zkgroup.broker")
    quotas = ConnectionQuotas(1, 100, "")
    quotas.configured(ConfigEntity.ip("127.0.0.1"), {"connection_creation_rate": "1"})
    port = BrokerServer(_metadata, REQUESTS, ConnectionLimits(connections_max=11), quotas=quotas)
    address = await opened(port)
    clients = [await client_of(address) for _ in range(10)]
    for each in clients:
        await each.ask(ALL, MetadataResponse)

    further = await client_of(address)
    await until(lambda: port.connections == 11)
    clients.append(Client(*await asyncio.open_connection(*address, local_addr=("127.0.0.2", 0))))
    for each in clients:
        await each.ask(ALL, MetadataResponse)
    jump(1)
    assert await further.is_closed()
    assert "127.0.0.1 opens more connections than connection_creation_rate allows" in caplog.text
    await closed(further, *clients)
    await until(lambda: port.connections == 0)
    jump(12)
    again = await client_of(address)
    await again.ask(ALL, MetadataResponse)
    await port.close()
    await closed(again)


async def _metadata(context: RequestContext, request: Request) -> Answer:
    return MetadataResponse((), ())
