"""A broker's port over TCP: the requests that it reads, the clients that it disconnects, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.waiting import PATIENCE_S, happened
from tests.worlds import golden_data
from tests.worlds.broker_requests import brokers, state, update_metadata
from tests.worlds.serving import Client, ScriptedHost, Served, on_a_loop, served, until
from zkgroup.broker.hosted_controller import connection_limits
from zkgroup.broker.replicas.replica import no_fetch
from zkgroup.broker.server import server as server_module
from zkgroup.broker.server.handlers import NO_ANSWER, Answer, RequestContext
from zkgroup.broker.server.server import (
    AHEAD_BYTES_MAX,
    CHUNK_BYTES,
    ITEMS_AT_ONCE,
    BrokerServer,
    ConnectionLimits,
)
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ConfigError, ConflictError
from zkgroup.wire.control import UpdateMetadataResponse
from zkgroup.wire.messages import ErrorCode, Request, decode_response, encode_request
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse, RequestedTopic, TopicMetadata
from zkgroup.wire.records import (
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from zkgroup.wire.requests import ITEMS_MAX, READABLE

ALL = MetadataRequest.of()


async def connected(broker: Served, count: int = 1) -> list[Client]:
    """So many clients; each has received one answer."""
    clients = [await broker.client() for _ in range(count)]
    for client in clients:
        await client.ask(ALL, MetadataResponse)
    return clients


async def closed(*clients: Client) -> None:
    for client in clients:
        await client.close()


# --- frames ---------------------------------------------------------------------------------------


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

    server = BrokerServer(respond, READABLE)
    client = Client(*await asyncio.open_connection(*await server.start("127.0.0.1")))
    address = client.writer.get_extra_info("sockname")
    for version in (0, 8, 11):
        client.writer.write(encode_request(ALL, 70 + version, "reader", version=version))
        correlation_id, response = decode_response(MetadataResponse, await client.frame(), version=version)

        ((context, request),) = seen
        assert (context.api_key, context.version, context.client_id) == (3, version, "reader")
        assert correlation_id == context.correlation_id == 70 + version
        assert (context.peer, str(context.peer)) == (address, f"127.0.0.1:{address[1]}")
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

    server = BrokerServer(respond, READABLE)
    client = Client(*await asyncio.open_connection(*await server.start("127.0.0.1")))
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

    server = BrokerServer(respond, READABLE)
    reader, writer = await asyncio.open_connection(*await server.start("127.0.0.1"), limit=1024)
    client = Client(reader, writer)
    client.writer.write(encode_request(FetchRequest(-1, 0, 1, ()), 1, None) * 2)
    await until(lambda: server.held > len(records))

    for _ in range(2):
        assert await client.receive(FetchResponse, 1) == fetched
    await until(lambda: server.held == 0)
    await server.close()
    await closed(client)


# --- limits ---------------------------------------------------------------------------------------


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

    assert connection_limits(settings) == ConnectionLimits(
        connections_max=1, request_bytes_max=2, buffered_bytes_max=3, idle_ms=4, request_ms=5, answer_ms=6
    )
    assert connection_limits(BrokerSettings()) == ConnectionLimits()


@on_a_loop
async def test_connections_beyond_the_limit_are_closed_at_once() -> None:
    """And are taken again once others have left."""
    async with served(limits=ConnectionLimits(connections_max=2)) as broker:
        one, two = await connected(broker, 2)
        third = await broker.client()
        assert await third.is_closed()

        await one.close()
        await until(lambda: broker.server.connections == 1)
        (fourth,) = await connected(broker)
        await closed(two, third, fourth)


@on_a_loop
async def test_a_request_takes_two_turns_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """One reads it, the next one answers it; nothing is set up for a request and taken down again."""
    turns: list[int] = []
    turn = asyncio.base_events.BaseEventLoop._run_once  # type: ignore[attr-defined]

    def counted(loop: asyncio.AbstractEventLoop) -> None:
        turns.append(1)
        turn(loop)

    async def respond(context: RequestContext, request: Request) -> Answer:
        return MetadataResponse((), ())

    def ask(address: tuple[str, int], count: int) -> None:
        with socket.create_connection(address, PATIENCE_S) as client:
            for _ in range(count):
                client.sendall(frame)
                assert client.recv(4096)

    frame, count = encode_request(ALL, 1, "test"), 50
    server = BrokerServer(respond, READABLE)
    address = await server.start("127.0.0.1")
    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "_run_once", counted)

    await asyncio.to_thread(ask, address, count)

    assert len(turns) <= 2 * count + 20  # some to connect
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
    real = getattr(server_module, part)

    def held_up(*arguments: object, **named: object) -> object:
        if threading.current_thread() is not loop_thread:
            works.set()
            happened(may_end)
        return real(*arguments, **named)

    monkeypatch.setattr(server_module, part, held_up)
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
        monkeypatch.setattr(server_module, part, noting(getattr(server_module, part)))
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
async def test_who_holds_most_is_cut_off_when_all_together_hold_too_much() -> None:
    """The others go on where they were."""
    async with served(limits=ConnectionLimits(buffered_bytes_max=500_000)) as broker:
        one, most = await connected(broker, 2)
        request = encode_request(MetadataRequest.of(*["a" * 200] * 1000), 9, "test")
        one.writer.write(request[:150_000])
        await until(lambda: broker.server.held == 150_000)
        most.writer.write((2_000_000).to_bytes(4, "big") + bytes(600_000))

        assert await most.is_closed()
        await until(lambda: broker.server.connections == 1)
        assert broker.server.held == 150_000
        one.writer.write(request[150_000:])
        assert (await one.receive(MetadataResponse, 9)).topics == (TopicMetadata(3, "a" * 200, ()),)
        await closed(one, most)


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
    server = BrokerServer(gate.respond, READABLE)
    reader, writer = await asyncio.open_connection(*await server.start("127.0.0.1"))
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

    server = BrokerServer(respond, READABLE)
    reader, writer = await asyncio.open_connection(*await server.start("127.0.0.1"))
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
async def test_an_answer_that_is_being_sent_is_sent_to_its_end() -> None:
    """Also if the client sends nothing more; then the connection is closed."""
    records = bytes(range(256)) * 100_000  # more than the system takes
    fetched = FetchResponse((FetchedTopic("t", (FetchedPartition(0, 0, 7, records),)),))

    async def respond(context: RequestContext, request: Request) -> Answer:
        return fetched

    server = BrokerServer(respond, READABLE)
    reader, writer = await asyncio.open_connection(*await server.start("127.0.0.1"), limit=1024)
    client = Client(reader, writer)
    client.writer.write(encode_request(FetchRequest(-1, 0, 1, ()), 1, None))
    await until(lambda: server.held > len(records))

    client.writer.write_eof()

    assert await client.receive(FetchResponse, 1) == fetched
    assert await client.is_closed()
    await server.close()
    await client.close()


@on_a_loop
async def test_what_a_client_waited_for_is_dropped_when_it_leaves() -> None:
    """Also behind requests that it sent ahead."""
    gate = Gate()
    server = BrokerServer(gate.respond, READABLE)
    address = await server.start("127.0.0.1")
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

    server = BrokerServer(respond, READABLE)
    address = await server.start("127.0.0.1")
    bad, good = [Client(*await asyncio.open_connection(*address)) for _ in range(2)]
    bad.send(ALL)

    assert await bad.is_closed()
    assert "IndexError" in caplog.text
    good.send(MetadataRequest.of("a"))
    assert (await good.receive(MetadataResponse)).topics[0].topic == "a"
    await server.close()
    await closed(bad, good)


# --- start and end --------------------------------------------------------------------------------


@on_a_loop
@pytest.mark.parametrize("turns", range(8))
async def test_a_connection_that_is_being_accepted_is_closed_too(turns: int) -> None:
    """At each turn of the loop between the system's accept and the first read."""
    server = BrokerServer(Gate().respond, READABLE)
    address = await server.start("127.0.0.1")
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
    server = BrokerServer(gate.respond, READABLE)
    address = await server.start("127.0.0.1")
    idle, within, waiting = [Client(*await asyncio.open_connection(*address)) for _ in range(3)]
    within.writer.write(b"\0\0\1\0abc")
    waiting.send(ALL)
    await until(lambda: gate.waiting and server.connections == 3 and server.held > 7)

    await server.close()
    await server.close()

    for client in (idle, within, waiting):
        assert await client.is_closed()
    assert (gate.waiting, server.connections) == (0, 0)
    again = BrokerServer(gate.respond, READABLE)
    assert await again.start(*address) == address
    await again.close()
    await closed(idle, within, waiting)


@on_a_loop
async def test_an_address_that_is_taken_or_nowhere_is_named() -> None:
    """A conflict with another process, or an error in the setting."""
    async with served() as broker:
        host, port = broker.address
        other = BrokerServer(broker.service.respond, READABLE)

        with pytest.raises(ConflictError, match=f"cannot listen on {host}:{port}"):
            await other.start(host, port)
        with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0"):
            await other.start("192.0.2.1", 0)
        await other.close()


@on_a_loop
async def test_a_server_that_never_started_can_be_closed() -> None:
    """The parts of a failed start are closed as those of a successful one."""
    await BrokerServer(Gate().respond, READABLE).close()
