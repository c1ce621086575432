"""Requests that are answered in the turn of the loop that reads them, and those whose handlers wait."""

from __future__ import annotations

import asyncio

from tests.worlds.serving import ALL, Client, closed, on_a_loop, until
from zkgroup.broker.server.handlers import Answer, RequestContext, Respond
from zkgroup.broker.server.server import REQUESTS_AT_ONCE, BrokerServer
from zkgroup.wire.messages import Request, encode_request
from zkgroup.wire.metadata import MetadataResponse
from zkgroup.wire.requests import READABLE

ANSWER = MetadataResponse((), ())


async def _clients(respond: Respond, count: int = 1) -> tuple[BrokerServer, list[Client]]:
    server = BrokerServer(respond, READABLE)
    address = await server.start("127.0.0.1")
    clients = [Client(*await asyncio.open_connection(*address)) for _ in range(count)]
    await until(lambda: server.connections == count)
    return server, clients


@on_a_loop
async def test_all_handlers_of_a_connection_have_one_current_task() -> None:
    """That of the connection: also where a handler begins in the turn that reads its request."""
    tasks: list[asyncio.Task[object] | None] = []

    async def respond(context: RequestContext, request: Request) -> Answer:
        tasks.append(asyncio.current_task())
        if context.client_id == "waits":
            await asyncio.sleep(0)
            tasks.append(asyncio.current_task())
        return ANSWER

    server, (client,) = await _clients(respond)
    for number, name in enumerate(("at once", "waits", "at once")):
        client.writer.write(encode_request(ALL, number, name))
        assert await client.receive(MetadataResponse, number) == ANSWER

    assert len(tasks) == 4
    assert len(set(tasks)) == 1
    assert tasks[0] not in (None, asyncio.current_task())
    await server.close()
    await closed(client)


@on_a_loop
async def test_a_handler_that_is_cancelled_in_its_first_turn_gets_it_where_it_waits() -> None:
    """As a timeout that is over at once does: the handler goes on, and the connection too."""

    async def respond(context: RequestContext, request: Request) -> Answer:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return ANSWER
        return None

    server, (client,) = await _clients(respond)
    for number in range(3):
        client.writer.write(encode_request(ALL, number, "x") * 2)
        for _ in range(2):
            assert await client.receive(MetadataResponse, number) == ANSWER
    await server.close()
    await closed(client)


@on_a_loop
async def test_what_comes_while_a_handler_goes_on_after_its_timeout_is_answered_next() -> None:
    """Past bug: such bytes were dropped, and a client got the answer to a later request."""
    timed_out, go_on = asyncio.Event(), asyncio.Event()

    async def respond(context: RequestContext, request: Request) -> Answer:
        if context.client_id == "times out":
            try:
                async with asyncio.timeout(0):
                    await asyncio.Event().wait()
            except TimeoutError:
                timed_out.set()
                await go_on.wait()
        return ANSWER

    server, (client,) = await _clients(respond)
    first, second = encode_request(ALL, 1, "times out"), encode_request(ALL, 2, "x")
    client.writer.write(first)
    await timed_out.wait()
    client.writer.write(second)
    await until(lambda: server.held == len(first) + len(second))
    go_on.set()

    assert await client.receive(MetadataResponse, 1) == ANSWER
    assert await client.receive(MetadataResponse, 2) == ANSWER
    await server.close()
    await closed(client)


@on_a_loop
async def test_what_comes_in_the_turn_of_a_timeout_is_answered_next() -> None:
    """`asyncio.timeout` cancels the task, which has not run yet when more is read."""
    waiting = asyncio.Event()

    async def respond(context: RequestContext, request: Request) -> Answer:
        if context.client_id == "times out":
            try:
                waiting.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                task = asyncio.current_task()
                assert task is not None
                task.uncancel()
        return ANSWER

    server, (client,) = await _clients(respond)
    client.writer.write(encode_request(ALL, 1, "times out"))
    await waiting.wait()
    (connection,) = server._connections
    frame = encode_request(ALL, 2, "x")
    connection._chunk[: len(frame)] = frame
    assert connection._task is not None
    connection._task.cancel()
    connection.buffer_updated(len(frame))

    assert await client.receive(MetadataResponse, 1) == ANSWER
    assert await client.receive(MetadataResponse, 2) == ANSWER
    await server.close()
    await closed(client)


@on_a_loop
async def test_a_handler_that_has_begun_is_ended_with_the_server() -> None:
    """Also if the task of the connection has not continued it yet."""
    ended: list[str] = []
    server: BrokerServer
    closing: list[asyncio.Task[None]] = []

    async def respond(context: RequestContext, request: Request) -> Answer:
        closing.append(asyncio.create_task(server.close()))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return ANSWER

    server, (client,) = await _clients(respond)
    client.writer.write(encode_request(ALL, 1, "x"))

    assert await client.is_closed()
    await asyncio.gather(*closing)
    assert ended == ["cancelled"]
    await closed(client)


@on_a_loop
async def test_a_client_with_many_requests_lets_others_in_between() -> None:
    """However many have come at once, only some are answered in one turn of the loop."""
    order: list[str | None] = []

    async def respond(context: RequestContext, request: Request) -> Answer:
        order.append(context.client_id)
        if len(order) == 1:
            other.writer.write(encode_request(ALL, 1, "other"))
        return ANSWER

    server, (many, other) = await _clients(respond, 2)
    many.writer.write(encode_request(ALL, 1, "many") * 20 * REQUESTS_AT_ONCE)
    for _ in range(20 * REQUESTS_AT_ONCE):
        await many.receive(MetadataResponse, 1)

    assert await other.receive(MetadataResponse, 1) == ANSWER
    assert order.index("other") <= 5 * REQUESTS_AT_ONCE
    await server.close()
    await closed(many, other)
