"""A connection that has ended, and a request that is answered, leave nothing behind for Python's garbage
collector, which runs rarely in a broker (`rare_collections`)."""

from __future__ import annotations

import asyncio
import gc
import struct
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import pytest

from tests.worlds.serving import (
    ALL,
    Client,
    ScriptedHost,
    Served,
    connected,
    on_a_loop,
    opened,
    served,
    until,
)
from tests.worlds.wire_requests import REQUESTS
from zkgroup.broker.replicas.replica import no_fetch
from zkgroup.broker.server.connection import Connection
from zkgroup.broker.server.fetch_requests import DelayedFetch
from zkgroup.broker.server.handlers import Answer, RequestContext
from zkgroup.broker.server.port import ConnectionLimits
from zkgroup.broker.server.server import BrokerServer
from zkgroup.errors import WireError
from zkgroup.wire.client import BrokerConnection
from zkgroup.wire.messages import ErrorCode, Request, encode_request
from zkgroup.wire.records import FetchPartition, FetchRequest, FetchResponse, FetchTopic

HALF = struct.pack(">i", 1_000_000) + bytes(50_000)


@pytest.fixture(autouse=True)
def uncollected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level("CRITICAL", "zkgroup.broker")  # pytest keeps each record, with the error in it
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def leaves(broker: Served, client: Client) -> None:
    await client.close()


async def leaves_within_a_request(broker: Served, client: Client) -> None:
    client.writer.write(HALF)
    await until(lambda: broker.server.held == len(HALF))
    await client.close()


async def sends_no_frame(broker: Served, client: Client) -> None:
    client.writer.write(struct.pack(">i", -5))
    assert await client.is_closed()


async def sends_no_request(broker: Served, client: Client) -> None:
    client.writer.write(encode_request(ALL, 1, "x")[:-1] + b"\x7f" * 5)
    assert await client.is_closed()


async def is_too_slow(broker: Served, client: Client) -> None:
    client.writer.write(HALF)
    assert await client.is_closed()


async def is_cut_off(broker: Served, client: Client) -> None:
    client.writer.write(struct.pack(">i", 10_000_000) + bytes(300_000))
    assert await client.is_closed()


@on_a_loop
@pytest.mark.parametrize(
    "ends", [leaves, leaves_within_a_request, sends_no_frame, sends_no_request, is_too_slow, is_cut_off]
)
async def test_a_connection_and_its_bytes_are_gone(ends: Callable[[Served, Client], Awaitable[None]]) -> None:
    """However it ends. Past bug: 22 times 400 MiB of half requests took 3 GB of memory."""
    limits = ConnectionLimits(request_ms=200 if ends is is_too_slow else 60_000, buffered_bytes_max=200_000)
    async with served(limits=limits) as broker:
        (client,) = await connected(broker)
        (connection,) = map(weakref.ref, broker.server._connections)
        await ends(broker, client)
        await until(lambda: connection() is None)
        await client.close()


@on_a_loop
async def test_a_connection_with_a_request_that_waits_is_gone() -> None:
    """Also where the port closes it."""
    waiting: list[asyncio.Future[Answer]] = []

    async def respond(context: RequestContext, request: Request) -> Answer:
        waiting.append(asyncio.get_running_loop().create_future())
        return await waiting[-1]

    connections: list[weakref.ref[Connection]] = []
    server = BrokerServer(respond, REQUESTS)
    address = await opened(server)
    for _ in range(2):
        reader, writer = await asyncio.open_connection(*address)
        client = Client(reader, writer)
        client.send(ALL)
        await until(lambda: waiting)
        connections.append(weakref.ref(next(iter(server._connections))))
        if len(connections) == 2:
            await server.close()
        await client.close()
        await until(lambda: not server.connections)
        waiting.clear()
    await until(lambda: [each() for each in connections] == [None, None])


@on_a_loop
async def test_what_a_fetch_has_read_is_gone() -> None:
    """Once it is answered. Past bug: a consumer that read a log from its start left all of it in memory."""
    asked = FetchRequest(-1, 20, 1, (FetchTopic("t", (FetchPartition(0, 0, 1),)),))
    async with served(ScriptedHost(fetches=[no_fetch(0, ErrorCode.NONE)])) as broker:
        (client,) = await connected(broker)
        assert await client.ask(asked, FetchResponse, version=11)
        await client.close()
        await until(lambda: not broker.server.connections)

    assert [each for each in gc.get_objects() if isinstance(each, DelayedFetch)] == []


@on_a_loop
@pytest.mark.parametrize("sent", [b"", HALF, struct.pack(">i", -5)])
async def test_a_connection_to_a_broker_is_gone(sent: bytes) -> None:
    """The client's end, as brokers and controllers have it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.write(sent)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        one = await BrokerConnection.open(*server.sockets[0].getsockname(), timeout_ms=30_000)
        kept = weakref.ref(one)
        with suppress(OSError, EOFError, WireError):  # not `pytest.raises`, which would keep the error
            await one.ask(ALL, "x")
        await one.close()
        del one
        await until(lambda: kept() is None)
