"""Requests that are answered in the turn of the loop that reads them, and those whose handlers wait."""

from __future__ import annotations

import asyncio

import pytest

from tests.waiting import PATIENCE_S
from tests.worlds.serving import ALL, Client, closed, on_a_loop, opened, until
from tests.worlds.wire_requests import REQUESTS
from zkgroup.broker.server.connection import ITEMS_AT_ONCE, REQUESTS_AT_ONCE, SEND_BYTES
from zkgroup.broker.server.handlers import Answer, Later, RequestContext, Respond, given
from zkgroup.broker.server.server import BrokerServer
from zkgroup.wire.groups import (
    DescribedGroup,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)
from zkgroup.wire.messages import Request, encode_request
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse

ANSWER = MetadataResponse((), ())
BEAT = HeartbeatRequest(group="g", generation=1, member_id="m")
HEARTBEAT = HeartbeatResponse(error=0)


async def _clients(respond: Respond, count: int = 1) -> tuple[BrokerServer, list[Client]]:
    server = BrokerServer(respond, REQUESTS)
    address = await opened(server)
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
@pytest.mark.parametrize("name", ["at once", "waits"])
@pytest.mark.parametrize("topics", [1, ITEMS_AT_ONCE + 1], ids=["small", "large"])
async def test_a_request_that_is_read_in_the_turn_of_a_close_does_not_keep_its_connection(
    name: str, topics: int
) -> None:
    """Past bug: where its handler did not wait, the connection went on, and the close waited for its client.

    A large request is decoded on another thread before it reaches its handler.
    """

    async def respond(context: RequestContext, request: Request) -> Answer:
        if context.client_id == "waits":
            await asyncio.Event().wait()
        return ANSWER

    server, (client,) = await _clients(respond)
    (connection,) = server._connections
    frame = encode_request(MetadataRequest.of(*(f"t{number}" for number in range(topics))), 1, name)
    connection._chunk[: len(frame)] = frame
    connection.buffer_updated(len(frame))

    async with asyncio.timeout(PATIENCE_S):
        await server.close()

    assert server.held == server.connections == 0
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


class _Laters:
    """Answers every request later: `open` has those without an answer, by client id."""

    def __init__(self) -> None:
        self.open: dict[str | None, Later[Answer]] = {}
        self.begun: list[int] = []

    def respond(self, context: RequestContext, request: Request) -> Later[Answer]:
        self.begun.append(context.correlation_id)
        if context.client_id == "at once":
            return given(HEARTBEAT)
        later = self.open[context.client_id] = Later[Answer]()
        return later


@on_a_loop
async def test_an_answer_given_later_is_sent_before_those_to_requests_behind_it() -> None:
    """Requests that came meanwhile begin when it is given, and one that came in part when it is whole."""
    laters = _Laters()
    server, (client,) = await _clients(laters.respond)
    frames = [encode_request(BEAT, number, name) for number, name in enumerate(("a", "at once", "b", "a"))]
    client.writer.write(frames[0] + frames[1] + frames[2][:9])
    await until(lambda: server.held == len(frames[0] + frames[1]) + 9)
    assert laters.begun == [0]

    laters.open["a"].give(HEARTBEAT)
    for number in (0, 1):
        assert await client.receive(HeartbeatResponse, number) == HEARTBEAT
    client.writer.write(frames[2][9:] + frames[3])
    await until(lambda: laters.begun == [0, 1, 2])
    await until(lambda: server.held == len(frames[2] + frames[3]))
    laters.open["b"].give(HEARTBEAT)
    assert await client.receive(HeartbeatResponse, 2) == HEARTBEAT
    await until(lambda: laters.begun == [0, 1, 2, 3])
    laters.open["a"].give(HEARTBEAT)
    assert await client.receive(HeartbeatResponse, 3) == HEARTBEAT

    assert server.held == 0
    await server.close()
    await closed(client)


@on_a_loop
async def test_an_answer_can_be_given_within_a_request_of_another_connection() -> None:
    """As the last join of a group answers the others."""
    laters = _Laters()

    def respond(context: RequestContext, request: Request) -> Later[Answer]:
        if context.client_id == "gives":
            laters.open["waits"].give(HEARTBEAT)
            return given(HEARTBEAT)
        return laters.respond(context, request)

    server, (first, second) = await _clients(respond, 2)
    first.writer.write(encode_request(BEAT, 1, "waits") + encode_request(BEAT, 2, "at once"))
    await until(lambda: "waits" in laters.open)
    second.writer.write(encode_request(BEAT, 3, "gives"))

    for client, number in ((first, 1), (first, 2), (second, 3)):
        assert await client.receive(HeartbeatResponse, number) == HEARTBEAT
    await server.close()
    await closed(first, second)


@on_a_loop
async def test_a_large_answer_given_later_is_taken_in_parts() -> None:
    """The request behind it is answered after its last part."""
    laters = _Laters()
    server, (client,) = await _clients(laters.respond)
    client.writer.write(encode_request(BEAT, 1, "large") + encode_request(BEAT, 2, "at once"))
    await until(lambda: "large" in laters.open)
    large = DescribeGroupsResponse(
        groups=(DescribedGroup(error=0, group="g" * 30_000, state="", protocol_type="", protocol=""),)
        * (20 * SEND_BYTES // 30_000)
    )
    laters.open["large"].give(large)

    assert await client.receive(DescribeGroupsResponse, 1) == large
    assert await client.receive(HeartbeatResponse, 2) == HEARTBEAT
    assert server.held == 0
    await server.close()
    await closed(client)


@on_a_loop
async def test_what_is_given_after_its_client_has_left_is_dropped() -> None:
    """Also in the turns of the loop that end the connection; who gives it, and other connections, go on."""
    laters, dropped, told = _Laters(), list[str | None](), list[str]()

    class Noted(Later[Answer]):
        __slots__ = ()

        def drop(self) -> None:
            dropped.append("dropped")
            super().drop()

    def respond(context: RequestContext, request: Request) -> Later[Answer]:
        if context.client_id == "at once":
            return laters.respond(context, request)
        later = laters.open[context.client_id] = Noted()
        return later

    def give(name: str) -> None:
        laters.open[name].give(HEARTBEAT)
        told.append(name)

    server, (first, second, third) = await _clients(respond, 3)
    first.writer.write(encode_request(BEAT, 1, "waits"))
    await until(lambda: "waits" in laters.open)
    await first.close()
    await until(lambda: server.connections == 2)
    assert dropped == ["dropped"]
    give("waits")

    second.writer.write(encode_request(BEAT, 2, "ends"))
    third.writer.write(encode_request(BEAT, 3, "is ending"))
    await until(lambda: {"ends", "is ending"} <= laters.open.keys())
    for connection in server._connections:
        connection.cut_off("the test")
    give("ends")
    asyncio.get_running_loop().call_soon(give, "is ending")  # behind the calls that end the tasks
    assert await second.is_closed()
    assert await third.is_closed()
    await until(lambda: server.connections == 0)
    assert told == ["waits", "ends", "is ending"]
    assert server.held == 0
    await server.close()
    await closed(second, third)


@on_a_loop
async def test_an_answer_that_cannot_be_made_ends_its_connection_alone() -> None:
    """The error is not raised where the answer is given."""

    class Wrong(Later[Answer]):
        __slots__ = ()

        @property
        def value(self) -> Answer:
            raise RuntimeError("no answer")

    laters, wrong = _Laters(), list[Wrong]()

    def respond(context: RequestContext, request: Request) -> Later[Answer]:
        if context.client_id != "wrong":
            return laters.respond(context, request)
        wrong.append(Wrong())
        return wrong[-1]

    server, (first, second) = await _clients(respond, 2)
    first.writer.write(encode_request(BEAT, 1, "wrong"))
    await until(lambda: wrong)
    wrong[0].give(HEARTBEAT)

    assert await first.is_closed()
    second.writer.write(encode_request(BEAT, 2, "at once"))
    assert await second.receive(HeartbeatResponse, 2) == HEARTBEAT
    await server.close()
    await closed(first, second)


@on_a_loop
async def test_none_given_later_closes_the_connection() -> None:
    """As for a join that another one of the same member has replaced."""
    laters = _Laters()
    server, (client,) = await _clients(laters.respond)
    client.writer.write(encode_request(BEAT, 1, "x"))
    await until(lambda: laters.open)
    laters.open["x"].give(None)

    assert await client.is_closed()
    await server.close()
    await closed(client)


@on_a_loop
async def test_a_later_value_can_be_awaited() -> None:
    """Before it is given and after; a task that is cancelled drops it."""
    later = Later[int]()

    async def wait(value: Later[int]) -> int:
        return await value

    task = asyncio.create_task(wait(later))
    await asyncio.sleep(0)
    later.give(3)
    assert await task == 3
    assert await later == 3
    dropped = Later[int]()
    task = asyncio.create_task(wait(dropped))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    dropped.give(4)
    assert task.cancelled()
