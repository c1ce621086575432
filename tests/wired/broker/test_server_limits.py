"""The limits of a broker's port: connections, items, times and bytes, and who is disconnected at each."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.waiting import PATIENCE_S, happened
from tests.worlds.broker_requests import state, update_metadata
from tests.worlds.serving import (
    ALL,
    ScriptedHost,
    client_of,
    closed,
    connected,
    on_a_loop,
    opened,
    port_with,
    served,
    until,
)
from tests.worlds.wire_requests import REQUESTS
from zkgroup.broker.hosted_controller import connection_limits, shared
from zkgroup.broker.replicas.replica import no_fetch
from zkgroup.broker.server import connection as connection_module
from zkgroup.broker.server.connection import ITEMS_AT_ONCE
from zkgroup.broker.server.connection_choice import PeerKind
from zkgroup.broker.server.handlers import Answer, Later, RequestContext, given
from zkgroup.broker.server.port import ConnectionLimits
from zkgroup.broker.server.server import BrokerServer
from zkgroup.broker.settings import BrokerSettings
from zkgroup.wire.control import UpdateMetadataRequest, UpdateMetadataResponse
from zkgroup.wire.groups import HeartbeatRequest, HeartbeatResponse
from zkgroup.wire.messages import ITEMS_MAX, ErrorCode, Request, encode_request
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse, RequestedTopic, TopicMetadata
from zkgroup.wire.records import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)


def test_each_limit_of_connections_is_a_setting() -> None:
    """Under Kafka's names, where Kafka has one."""
    settings = BrokerSettings(
        max_connections=1,
        socket_request_max_bytes=2,
        queued_max_request_bytes=3,
        connections_max_idle_ms=4,
        socket_request_timeout_ms=5,
        socket_response_timeout_ms=6,
    )

    assert connection_limits(settings, shared(None, 1, 0)) == ConnectionLimits(
        connections_max=1, request_bytes_max=2, buffered_bytes_max=3, idle_ms=4, request_ms=5, answer_ms=6
    )
    unlimited = shared(None, BrokerSettings().max_connections, 0)
    assert connection_limits(BrokerSettings(), unlimited) == ConnectionLimits()


@on_a_loop
async def test_a_client_at_a_full_port_displaces_the_idle_one_that_was_opened_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One with a request that waits stays, and one that was opened before."""
    waits = UpdateMetadataRequest(1, 1, (), ())

    async def respond(context: RequestContext, request: Request) -> Answer:
        if request == waits:
            await may_end.wait()
        return MetadataResponse((), ())

    may_end = asyncio.Event()
    server = BrokerServer(respond, REQUESTS, ConnectionLimits(connections_max=3))
    async with port_with(server, 3) as (address, (first, second, third)):
        third.send(waits)
        await until(lambda: server.held > 0)
        fourth = await client_of(address)

        assert await second.is_closed()
        assert await fourth.ask(ALL, MetadataResponse)
        assert await first.ask(ALL, MetadataResponse)
        may_end.set()
        assert await third.receive(MetadataResponse)
        assert server.connections == 3
        assert "the broker has 3 connections of clients, and one more came" in caplog.text
        await closed(fourth)


@on_a_loop
async def test_the_controller_and_followers_find_a_place_at_a_full_port() -> None:
    """And keep it, without a request too: they count for no limit. Past bug: a thousand idle connections kept
    a new controller out, so nobody was elected."""

    async def respond(context: RequestContext, request: Request) -> Answer:
        if isinstance(request, UpdateMetadataRequest):
            context.peer.confirm(PeerKind.CONTROLLER)
            return UpdateMetadataResponse(0)
        return MetadataResponse((), ())

    server = BrokerServer(respond, REQUESTS, ConnectionLimits(connections_max=2))
    async with port_with(server, 2) as (address, clients):
        controller = await client_of(address)
        assert await controller.ask(UpdateMetadataRequest(1, 1, (), ()), UpdateMetadataResponse)
        assert await clients[1].is_closed()
        for _ in range(5):
            clients.append(await client_of(address))
            assert await clients[-1].ask(ALL, MetadataResponse)

        assert await clients[0].ask(ALL, MetadataResponse)
        assert await controller.ask(UpdateMetadataRequest(1, 1, (), ()), UpdateMetadataResponse)
        await until(lambda: server.connections == 3)
        await closed(controller)


@on_a_loop
async def test_a_request_takes_one_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is answered where it is read, if its handler needs no task, as those of groups."""
    turns: list[int] = []
    turn = asyncio.base_events.BaseEventLoop._run_once  # type: ignore[attr-defined]

    def counted(loop: asyncio.AbstractEventLoop) -> None:
        turns.append(1)
        turn(loop)

    def respond(context: RequestContext, request: Request) -> Later[Answer]:
        return given(HeartbeatResponse(error=0))

    def ask(address: tuple[str, int], count: int) -> None:
        with socket.create_connection(address, PATIENCE_S) as client:
            for _ in range(count):
                client.sendall(frame)
                assert client.recv(4096)

    frame, count = encode_request(HeartbeatRequest(group="g", generation=1, member_id="m"), 1, "test"), 50
    server = BrokerServer(respond, REQUESTS)
    address = await opened(server)
    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "_run_once", counted)

    await asyncio.to_thread(ask, address, count)

    assert len(turns) <= count + 20  # some to connect
    await server.close()


@on_a_loop
async def test_a_request_of_too_many_items_closes_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    """However few bytes they have; others are served."""
    async with served() as broker:
        client, other = await connected(broker, 2)
        client.writer.write(encode_request(MetadataRequest((RequestedTopic(""),) * (ITEMS_MAX + 1)), 1, "x"))

        assert await client.is_closed()
        assert await other.ask(ALL, MetadataResponse)
        assert "more items in one request" in caplog.text
        await closed(client, other)


@on_a_loop
@pytest.mark.parametrize("part", ["decode_request", "response_buffers"])
async def test_others_are_served_while_a_request_of_many_items_is_read_and_answered(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another thread than the loop's, which here goes on once another client has its answer."""
    loop_thread = threading.current_thread()
    works, may_end = threading.Event(), threading.Event()
    real = getattr(connection_module, part)

    def held_up(*arguments: object, **named: object) -> object:
        if threading.current_thread() is not loop_thread:
            works.set()
            happened(may_end)
        return real(*arguments, **named)

    monkeypatch.setattr(connection_module, part, held_up)
    partitions = tuple(FetchPartition(number, 0, 1) for number in range(ITEMS_AT_ONCE + 1))
    large = encode_request(FetchRequest(-1, 0, 1, (FetchTopic("t", partitions),)), 9, "x", version=11)
    async with served(ScriptedHost(fetches=[no_fetch(0, ErrorCode.NONE)])) as broker:
        client, other = await connected(broker, 2)
        client.writer.write(large)
        await until(works.is_set)
        assert await other.ask(ALL, MetadataResponse)
        may_end.set()
        (topic,) = (await client.receive(FetchResponse, 9, version=11)).topics

        assert len(topic.partitions) == len(partitions)
        await closed(client, other)


@on_a_loop
async def test_requests_of_few_items_are_answered_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many bytes they have: a change of the thread costs more than they do."""
    threads: list[threading.Thread] = []

    def noting(real: Callable[..., object]) -> Callable[..., object]:
        def noted(*arguments: object, **named: object) -> object:
            threads.append(threading.current_thread())
            return real(*arguments, **named)

        return noted

    for part in ("decode_request", "response_buffers"):
        monkeypatch.setattr(connection_module, part, noting(getattr(connection_module, part)))
    name = "t" * 30_000
    partitions = tuple(FetchPartition(number, 0, 1) for number in range(ITEMS_AT_ONCE - 1))
    async with served(ScriptedHost(fetches=[no_fetch(0, ErrorCode.NONE)])) as broker:
        (client,) = await connected(broker)
        asked = FetchRequest(-1, 0, 1, (FetchTopic(name, partitions),))
        assert await client.ask(asked, FetchResponse, version=11)
        await closed(client)

    assert {*threads} == {threading.current_thread()}


@on_a_loop
async def test_who_sends_nothing_for_too_long_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    """Also a client that has never sent a byte. There is no warning, because an idle connection is normal."""
    caplog.set_level("DEBUG", "zkgroup.broker")
    async with served(limits=ConnectionLimits(idle_ms=20)) as broker:
        client = await broker.client()

        assert await client.is_closed()
        await client.close()

    (told,) = [one for one in caplog.records if "no request came in time" in one.message]
    assert told.levelname == "DEBUG"


@on_a_loop
async def test_who_sends_a_request_too_slowly_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    """The time runs from its first byte; more bytes do not extend it."""
    async with served(limits=ConnectionLimits(request_ms=300)) as broker:
        (slow,) = await connected(broker)
        over = asyncio.create_task(slow.is_closed())
        slow.writer.write((1000).to_bytes(4, "big"))
        sent = 0
        while not over.done() and sent < 1000:
            slow.writer.write(b"x")
            sent += 1
            await asyncio.wait([over], timeout=0.02)

        assert await over
        assert sent < 1000
        await slow.close()

    (told,) = [one for one in caplog.records if "a request did not end in time" in one.message]
    assert told.levelname == "WARNING"


@on_a_loop
async def test_who_begins_a_request_behind_another_and_does_not_end_it_is_cut_off() -> None:
    """The time runs from the answer to the one before."""
    async with served(limits=ConnectionLimits(request_ms=50)) as broker:
        (slow,) = await connected(broker)
        frame = encode_request(ALL, 7, "x")
        slow.writer.write(frame + frame[:-1])

        assert await slow.receive(MetadataResponse, 7)
        assert await slow.is_closed()
        await slow.close()


@on_a_loop
async def test_who_does_not_take_an_answer_is_cut_off() -> None:
    """All other clients are served meanwhile."""
    async with served(limits=ConnectionLimits(answer_ms=200)) as broker:
        controller, good = await connected(broker, 2)
        wide = update_metadata(*(state()._replace(topic="t" * 200, partition=n) for n in range(1000)))
        await controller.ask(wide, UpdateMetadataResponse)
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(slow, broker.address)
        await until(lambda: broker.server.connections == 3)
        await asyncio.get_running_loop().sock_sendall(slow, encode_request(ALL, 1, "slow") * 2000)

        assert (await good.ask(MetadataRequest.of("x"), MetadataResponse)).topics[0].error == 3
        await until(lambda: broker.server.connections == 2)
        slow.close()
        await closed(controller, good)


@on_a_loop
async def test_the_slowest_is_cut_off_when_all_together_hold_too_much() -> None:
    """Not the one with the most bytes, and nobody with a few. Past bug: half requests that never ended cut
    off each producer whose request was larger."""
    async with served(limits=ConnectionLimits(buffered_bytes_max=500_000)) as broker:
        small, slow, large = await connected(broker, 3)
        request = encode_request(MetadataRequest.of(*["a" * 200] * 2000), 9, "test")
        for client, size in ((small, 1_000), (slow, 150_000)):
            before = broker.server.held
            client.writer.write(request[:size])
            await until(lambda before=before, size=size: broker.server.held == before + size)
        large.writer.write(request)

        assert (await large.receive(MetadataResponse, 9)).topics == (TopicMetadata(3, "a" * 200, ()),)
        assert await slow.is_closed()
        await until(lambda: broker.server.held == 1_000)
        small.writer.write(request[1_000:])
        assert (await small.receive(MetadataResponse, 9)).topics == (TopicMetadata(3, "a" * 200, ()),)
        await closed(small, slow, large)


@on_a_loop
async def test_a_request_costs_the_same_however_many_are_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other connection is touched for it, nor when it opens and closes."""

    class Kept(dict[object, object]):
        def __iter__(self) -> Iterator[object]:
            raise AssertionError("all connections are gone through")

        items = values = keys = __iter__  # type: ignore[assignment]

    async with served() as broker:
        monkeypatch.setattr(broker.server, "_connections", Kept())
        clients = await connected(broker, 3)

        assert (await clients[1].ask(ALL, MetadataResponse)).topics == ()
        await until(lambda: broker.server.held == 0)
        await closed(*clients)


@on_a_loop
async def test_answers_that_no_client_takes_count_too() -> None:
    """A client that requests much and receives nothing is disconnected, long before its timeout."""
    async with served(limits=ConnectionLimits(buffered_bytes_max=500_000, answer_ms=600_000)) as broker:
        (good,) = await connected(broker, 1)
        wide = update_metadata(*(state()._replace(partition=number) for number in range(40_000)))
        broker.cache.update(wide, 0)
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(slow, broker.address)
        await until(lambda: broker.server.connections == 2)
        await asyncio.get_running_loop().sock_sendall(slow, encode_request(ALL, 1, "slow"))

        await until(lambda: broker.server.connections == 1)
        assert broker.server.held == 0
        assert (await good.ask(MetadataRequest.of("x"), MetadataResponse)).topics[0].error == 3
        slow.close()
        await closed(good)
