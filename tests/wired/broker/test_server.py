"""A broker's port over TCP: the requests that it reads, the clients that it disconnects, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket

import pytest

from tests.waiting import PATIENCE_S
from tests.worlds import golden_data
from tests.worlds.broker_requests import brokers, state, update_metadata
from tests.worlds.serving import ALL, Client, closed, connected, on_a_loop, opened, served, until
from tests.worlds.wire_requests import REQUESTS
from zkgroup.broker.server.connection import AHEAD_BYTES_MAX, ITEMS_AT_ONCE
from zkgroup.broker.server.handlers import NO_ANSWER, Answer, RequestContext
from zkgroup.broker.server.port import CHUNK_BYTES
from zkgroup.broker.server.server import BrokerServer
from zkgroup.errors import ConfigError, ConflictError
from zkgroup.security.listeners import Listener
from zkgroup.wire.control import UpdateMetadataResponse
from zkgroup.wire.messages import Request, decode_response, encode_request
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse, TopicMetadata
from zkgroup.wire.records import FetchedPartition, FetchedTopic, FetchRequest, FetchResponse


@on_a_loop
async def test_a_request_is_answered_however_it_is_cut() -> None:
    """Byte by byte, and several in one piece, in the order asked."""
    async with served() as broker:
        client = await broker.client()
        frame = encode_request(ALL, 7, "test")
        for byte in frame:
            client.writer.write(bytes([byte]))
            await client.writer.drain()
        assert await client.receive(MetadataResponse, 7) == MetadataResponse((), ())

        client.writer.write(frame + encode_request(MetadataRequest.of("a"), 8, None) + frame)
        assert await client.receive(MetadataResponse, 7) == MetadataResponse((), ())
        assert await client.receive(MetadataResponse, 8) == MetadataResponse((), (TopicMetadata(3, "a", ()),))
        assert await client.receive(MetadataResponse, 7) == MetadataResponse((), ())
        await client.close()


@on_a_loop
async def test_metadata_is_what_the_controller_sent_last() -> None:
    """To whichever client, at once."""
    async with served() as broker:
        controller, client = await connected(broker, 2)

        assert await controller.ask(update_metadata(state()), UpdateMetadataResponse) == (
            UpdateMetadataResponse(0)
        )

        answer = await client.ask(ALL, MetadataResponse)
        assert (answer.brokers, [topic.topic for topic in answer.topics]) == (brokers(1, 2, 3), ["orders"])
        assert broker.cache.age_ms(broker.clock.now_ms()) == 0
        await closed(controller, client)


@on_a_loop
@pytest.mark.parametrize(
    "sent",
    [
        (-1).to_bytes(4, "big", signed=True),
        (100 * 1024 * 1024 + 1).to_bytes(4, "big"),
        encode_request(ALL, 1, "test")[:-1] + b"\xff",
        (2).to_bytes(4, "big") + b"\0\0",
        (0).to_bytes(4, "big"),
        encode_request(ALL, 1, "test").replace(b"\0\x03\0\0", b"\0\x63\0\0", 1),
        encode_request(ALL, 1, "test").replace(b"\0\x03\0\0", b"\0\x03\0\x09", 1),
    ],
    ids=["size below 0", "size above the limit", "count", "short", "empty", "unknown API", "version"],
)
async def test_what_cannot_be_read_closes_the_connection_and_no_other(sent: bytes) -> None:
    """Not a byte is answered."""
    async with served() as broker:
        bad, good = await connected(broker, 2)

        bad.writer.write(sent)

        assert await bad.is_closed()
        await until(lambda: broker.server.connections == 1)
        assert await good.ask(ALL, MetadataResponse) == MetadataResponse((), ())
        await closed(bad, good)


@on_a_loop
async def test_the_delete_flag_that_closed_a_kafka_connection_closes_a_zkgroup_one() -> None:
    """StopReplica with flag 2, as it was recorded."""
    (frame,) = (
        frame
        for frame in golden_data.frames("kafka-0.8.2.2/wire")
        if frame.number == 618 and "23-" in frame.file
    )
    async with served() as broker:
        client = await broker.client()
        client.writer.write(frame.data)

        assert await client.is_closed()
        assert broker.receiver.controller_epoch is None
        await client.close()


@on_a_loop
async def test_an_end_within_a_frame_is_the_end() -> None:
    """The client has gone away in the middle of it."""
    async with served() as broker:
        (client,) = await connected(broker)
        client.writer.write(encode_request(ALL, 1, "test")[:-1])
        client.writer.write_eof()

        assert await client.is_closed()
        await until(lambda: broker.server.connections == 0)
        await client.close()


@on_a_loop
async def test_a_handler_knows_the_header_and_the_client() -> None:
    """API key, version, correlation id, client id and address; the response has the request's version."""
    seen: list[tuple[RequestContext, Request]] = []

    async def respond(context: RequestContext, request: Request) -> Answer:
        seen.append((context, request))
        return MetadataResponse((), (), cluster_id="c", controller_id=2)

    server = BrokerServer(respond, REQUESTS)
    client = Client(*await asyncio.open_connection(*await opened(server)))
    address = client.writer.get_extra_info("sockname")
    for version in (0, 8, 11):
        client.writer.write(encode_request(ALL, 70 + version, "reader", version=version))
        correlation_id, response = decode_response(MetadataResponse, await client.frame(), version=version)

        ((context, request),) = seen
        assert (context.api_key, context.version, context.client_id) == (3, version, "reader")
        assert correlation_id == context.correlation_id == 70 + version
        assert str(context.peer) == f"127.0.0.1:{address[1]}"
        assert request == ALL
        assert response.cluster_id == (None if version == 0 else "c")
        seen.clear()
    await server.close()
    await closed(client)


@on_a_loop
async def test_a_request_without_an_answer_is_followed_by_the_next_one() -> None:
    """Produce with acks=0: nothing is sent, and the connection goes on."""

    async def respond(context: RequestContext, request: Request) -> Answer:
        return NO_ANSWER if context.client_id == "silent" else MetadataResponse((), ())

    server = BrokerServer(respond, REQUESTS)
    client = Client(*await asyncio.open_connection(*await opened(server)))
    client.writer.write(encode_request(ALL, 1, "silent") * 3 + encode_request(ALL, 2, "asks"))

    assert await client.receive(MetadataResponse, 2) == MetadataResponse((), ())
    await until(lambda: server.held == 0)
    await server.close()
    await closed(client)


@on_a_loop
async def test_a_large_answer_is_sent_whole_to_a_slow_client() -> None:
    """Records of many writes, behind and before small fields."""
    records = bytes(range(256)) * 12_000
    fetched = FetchResponse(
        (
            FetchedTopic(
                "t", (FetchedPartition(0, 0, 7, records), FetchedPartition(1, 0, 7, records[:70_000]))
            ),
        )
    )

    async def respond(context: RequestContext, request: Request) -> Answer:
        return fetched

    server = BrokerServer(respond, REQUESTS)
    reader, writer = await asyncio.open_connection(*await opened(server), limit=1024)
    client = Client(reader, writer)
    client.writer.write(encode_request(FetchRequest(-1, 0, 1, ()), 1, None) * 2)
    await until(lambda: server.held > len(records))

    for _ in range(2):
        assert await client.receive(FetchResponse, 1) == fetched
    await until(lambda: server.held == 0)
    await server.close()
    await closed(client)


class Gate:
    """Answers requests when the test opens it."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.waiting = 0

    async def respond(self, context: RequestContext, request: Request) -> Answer:
        self.waiting += 1
        try:
            await self.open.wait()
        finally:
            self.waiting -= 1
        return MetadataResponse((), ())


@on_a_loop
async def test_one_request_of_a_connection_at_a_time_and_little_is_read_ahead() -> None:
    """The next request is parsed when the one before is answered."""
    gate = Gate()
    server = BrokerServer(gate.respond, REQUESTS)
    reader, writer = await asyncio.open_connection(*await opened(server))
    client = Client(reader, writer)
    frame = encode_request(MetadataRequest.of(*["t" * 249] * 400), 1, "test")
    sending = asyncio.create_task(_all(writer, frame * 100))
    await until(lambda: server.held >= AHEAD_BYTES_MAX)
    await asyncio.wait([sending], timeout=0.3)  # time to read more, for who would

    assert gate.waiting == 1
    assert server.held <= len(frame) + AHEAD_BYTES_MAX + 2 * CHUNK_BYTES
    gate.open.set()
    for _ in range(100):
        await client.receive(MetadataResponse, 1)
    await sending
    await server.close()
    await client.close()


async def _all(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


@on_a_loop
async def test_not_more_is_read_ahead_with_each_answer() -> None:
    """Past bug: each request could have as much behind it as the first one, beside what was there before."""
    open_once = asyncio.Semaphore(0)

    async def respond(context: RequestContext, request: Request) -> Answer:
        await open_once.acquire()
        return MetadataResponse((), ())

    server = BrokerServer(respond, REQUESTS)
    reader, writer = await asyncio.open_connection(*await opened(server))
    client = Client(reader, writer)
    frame = encode_request(MetadataRequest.of(*["t" * 249] * 400), 1, "test")
    sending = asyncio.create_task(_all(writer, frame * 100))
    for _ in range(5):
        await until(lambda: server.held >= AHEAD_BYTES_MAX)
        await asyncio.wait([sending], timeout=0.05)  # time to read more, for who would
        assert server.held <= len(frame) + AHEAD_BYTES_MAX + 2 * CHUNK_BYTES
        open_once.release()
        await client.receive(MetadataResponse, 1)
    await server.close()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await client.close()


@on_a_loop
async def test_an_answer_that_is_being_sent_is_sent_to_its_end(caplog: pytest.LogCaptureFixture) -> None:
    """Also if the client sends nothing more; then the connection is closed, and not by a time limit."""
    caplog.set_level(logging.INFO, "zkgroup.broker")
    records = bytes(range(256)) * 100_000  # more than the system takes
    fetched = FetchResponse((FetchedTopic("t", (FetchedPartition(0, 0, 7, records),)),))

    async def respond(context: RequestContext, request: Request) -> Answer:
        return fetched

    server = BrokerServer(respond, REQUESTS)
    reader, writer = await asyncio.open_connection(*await opened(server), limit=1024)
    client = Client(reader, writer)
    client.writer.write(encode_request(FetchRequest(-1, 0, 1, ()), 1, None))
    await until(lambda: server.held > len(records))

    client.writer.write_eof()

    assert await client.receive(FetchResponse, 1) == fetched
    assert await client.is_closed()
    assert not caplog.records
    await server.close()
    await client.close()


@on_a_loop
async def test_requests_of_a_client_that_has_left_reach_their_handler_in_order() -> None:
    """Also one that is decoded on another thread."""
    seen: list[int] = []

    async def respond(context: RequestContext, request: Request) -> Answer:
        seen.append(context.correlation_id)
        return NO_ANSWER

    server = BrokerServer(respond, REQUESTS)
    _, writer = await asyncio.open_connection(*await opened(server))
    large = MetadataRequest.of(*(f"t{number}" for number in range(2 * ITEMS_AT_ONCE)))
    requests = (ALL, large, ALL, large, ALL)
    writer.write(b"".join(encode_request(each, number, "t") for number, each in enumerate(requests)))
    writer.close()

    await until(lambda: len(seen) == len(requests) and server.connections == 0)
    assert seen == [0, 1, 2, 3, 4]
    await server.close()


@on_a_loop
async def test_what_a_client_waited_for_is_dropped_when_it_leaves() -> None:
    """Also behind requests that it sent ahead."""
    gate = Gate()
    server = BrokerServer(gate.respond, REQUESTS)
    address = await opened(server)
    for ahead in (0, 3):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(encode_request(ALL, 1, "test") * (1 + ahead))
        await until(lambda: gate.waiting)
        await Client(reader, writer).close()
        await until(lambda: not (gate.waiting or server.connections))
    await server.close()


@on_a_loop
async def test_an_exception_in_a_handler_closes_one_connection(caplog: pytest.LogCaptureFixture) -> None:
    """It is in the log, with its traceback."""

    async def respond(context: RequestContext, request: Request) -> Answer:
        assert isinstance(request, MetadataRequest)
        return MetadataResponse((), (TopicMetadata(0, request.names[0], ()),))

    server = BrokerServer(respond, REQUESTS)
    address = await opened(server)
    bad, good = [Client(*await asyncio.open_connection(*address)) for _ in range(2)]
    bad.send(ALL)

    assert await bad.is_closed()
    assert "IndexError" in caplog.text
    good.send(MetadataRequest.of("a"))
    assert (await good.receive(MetadataResponse)).topics[0].topic == "a"
    await server.close()
    await closed(bad, good)


@on_a_loop
@pytest.mark.parametrize("turns", range(8))
async def test_a_connection_that_is_being_accepted_is_closed_too(turns: int) -> None:
    """At each turn of the loop between the system's accept and the first read."""
    server = BrokerServer(Gate().respond, REQUESTS)
    address = await opened(server)
    client = socket.create_connection(address, timeout=PATIENCE_S)
    for _ in range(turns):
        await asyncio.sleep(0)

    await server.close()

    with client, contextlib.suppress(ConnectionResetError):
        assert await asyncio.to_thread(client.recv, 1) == b""


@on_a_loop
async def test_close_closes_all_connections_and_frees_the_port() -> None:
    """Idle, within a request, waiting for an answer, and not taking one."""
    gate = Gate()
    server = BrokerServer(gate.respond, REQUESTS)
    address = await opened(server)
    idle, within, waiting = [Client(*await asyncio.open_connection(*address)) for _ in range(3)]
    within.writer.write(b"\0\0\1\0abc")
    waiting.send(ALL)
    await until(lambda: gate.waiting and server.connections == 3 and server.held > 7)

    await server.close()
    await server.close()

    for client in (idle, within, waiting):
        assert await client.is_closed()
    assert (gate.waiting, server.connections) == (0, 0)
    again = BrokerServer(gate.respond, REQUESTS)
    assert await opened(again, address[1]) == address
    await again.close()
    await closed(idle, within, waiting)


@on_a_loop
async def test_bytes_that_come_in_the_turn_in_which_a_connection_is_closed_are_dropped() -> None:
    """Its task is cancelled and has not run yet; asyncio would log an error of the protocol."""
    async with served() as broker:
        client = await broker.client()
        await client.ask(ALL, MetadataResponse)
        (connection,) = broker.server._connections
        assert connection._task is not None
        frame = encode_request(ALL, 1, "late")
        connection._chunk[: len(frame)] = frame
        connection._task.cancel()

        connection.buffer_updated(len(frame))

        assert await client.is_closed()
        await closed(client)


@on_a_loop
async def test_an_address_that_is_taken_or_nowhere_is_named() -> None:
    """A conflict with another process, or an error in the setting."""
    async with served() as broker:
        host, port = broker.address
        other = BrokerServer(broker.service.respond, REQUESTS)

        with pytest.raises(ConflictError, match=f"cannot listen on {host}:{port}"):
            await opened(other, port)
        with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0"):
            await other.start([Listener("X", "192.0.2.1", 0, "PLAINTEXT", "h", 0)])
        await other.close()


@on_a_loop
async def test_a_server_that_never_started_can_be_closed() -> None:
    """The parts of a failed start are closed as those of a successful one."""
    await BrokerServer(Gate().respond, REQUESTS).close()
