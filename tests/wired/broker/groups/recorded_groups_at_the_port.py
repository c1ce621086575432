"""Recorded conversations with Kafka's group coordinator, replayed against a broker's port.

The recorded frames are sent byte for byte, each connection on one of its own, at their recorded times of the
broker's clock. The answers are compared as in `recorded_groups`. The store is in memory.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.waiting import PATIENCE_S
from tests.worlds.group_services import GroupServer, MemoryGroupStore, group_server
from tests.worlds.recorded_groups import (
    LATE_MS,
    PARTITIONS,
    Before,
    Difference,
    Line,
    empty_group,
    recorded,
)
from tests.worlds.serving import until
from tests.worlds.wire_requests import decode_request
from zkgroup.broker.server.handlers import Answer, RequestContext
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import CorruptFrameError, UnsupportedRequestError
from zkgroup.wire import groups as wire
from zkgroup.wire.messages import Request, decode_response
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata

TURNS = 5
"""Turns of the event loop after which everything is done that waits for no socket."""


class ReplayConnection:
    """One recorded connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.port: int = writer.get_extra_info("sockname")[1]
        self.answers: dict[int, bytes] = {}
        """By correlation id, without their sizes."""
        self.is_closed = False
        self.unanswered = 0
        self._task = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                self.answers[int.from_bytes(frame[:4], "big")] = frame
                self.unanswered -= 1
        self.is_closed = True

    async def close(self) -> None:
        self.writer.close()
        await self._task
        with suppress(ConnectionError):
            await self.writer.wait_closed()


class ServerReplay:
    """One recording and one broker."""

    def __init__(self, file: str, settings: BrokerSettings, before: Mapping[str, Before]) -> None:
        """`before`: the groups that were there when the recording began."""
        self.file = file
        self.settings = settings
        self.differences: list[Difference] = []
        self.compared = 0
        self.closed: list[Line] = []
        """Requests at which the broker closed the connection."""
        self._groups = set(before)
        self._store = MemoryGroupStore()
        for name, group in before.items():
            self._store.groups[name] = empty_group(name, group.generation)
            self._store.offsets[name] = {
                each: OffsetAndMetadata(offset=offset) for each, offset in group.offsets.items()
            }
        self._next_id = ""
        self._begun: Counter[int] = Counter()
        """Requests that have reached their handlers, by the port of the client."""
        self._finished: set[tuple[int, int]] = set()
        """Port and correlation id of the requests whose handlers have returned."""
        self._connections: dict[int, ReplayConnection] = {}
        self._asked: dict[tuple[int, int], tuple[Line, Request]] = {}

    def run(self, lines: list[Line]) -> None:
        """Replays all lines."""
        asyncio.run(self._run(lines))

    def unanswered(self) -> set[tuple[str, str, bool]]:
        """File, client and whether the broker answered, of the requests without a recorded answer."""
        return {
            (self.file, line.client, line.correlation_id in self._connections[line.connection].answers)
            for line, _ in self._asked.values()
        }

    async def _run(self, lines: list[Line]) -> None:
        answers = {
            (line.connection, line.correlation_id): line for line in lines if line.direction == "response"
        }
        async with group_server(
            self.settings,
            store=self._store,
            is_known=lambda tp: tp.partition < PARTITIONS.get(tp.topic, 0),
            unique_id=lambda: self._next_id,
            around=self._around,
        ) as broker:
            start_ms = broker.clock.now_ms()
            for line in lines:
                if line.direction == "request":
                    await self._advance(broker, start_ms + line.at_ms - LATE_MS)
                    await self._request(broker, line, answers.get((line.connection, line.correlation_id)))
                elif line.direction == "response":
                    await self._response(broker, line, start_ms + line.at_ms)
            for connection in self._connections.values():
                await connection.close()

    def _around(self, respond: Any) -> Any:
        """Notes which requests have reached their handlers, and which have an answer."""

        async def noted(context: RequestContext, request: Request) -> Answer:
            self._begun[context.peer.port] += 1
            answer: Answer = await respond(context, request)
            self._finished.add((context.peer.port, context.correlation_id))
            return answer

        return noted

    async def _advance(self, broker: GroupServer, until_ms: int) -> None:
        if until_ms > broker.clock.now_ms():
            broker.advance(until_ms - broker.clock.now_ms())
            await self._turns()

    async def _turns(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def _request(self, broker: GroupServer, line: Line, answer: Line | None) -> None:
        connection = self._connections.get(line.connection)
        if connection is None or connection.is_closed:
            connection = ReplayConnection(*await asyncio.open_connection(*broker.address))
            self._connections[line.connection] = connection
        try:
            _, request = decode_request(line.data[4:], broker.served)
        except (UnsupportedRequestError, CorruptFrameError):
            connection.writer.write(line.data)
            await until(lambda: connection.is_closed)
            self.closed.append(line)
            return
        if isinstance(request, wire.JoinGroupRequest) and answer is not None:
            _, response = decode_response(type(request).RESPONSE, answer.data[4:], version=line.version)
            self._next_id = response.member_id[-36:]  # a UUID behind the client's name
        else:
            self._next_id = f"unrecorded-{line.number}"
        self._asked[line.connection, line.correlation_id] = (line, request)
        self._groups.update(getattr(request, "groups", None) or [getattr(request, "group", "")])
        before, is_behind_another = self._begun[connection.port], connection.unanswered > 0
        connection.unanswered += 1
        connection.writer.write(line.data)
        if not is_behind_another:
            await until(lambda: self._begun[connection.port] > before or connection.is_closed)
        await self._turns()

    async def _response(self, broker: GroupServer, line: Line, at_ms: int) -> None:
        asked = self._asked.pop((line.connection, line.correlation_id), None)
        if asked is None:
            return
        connection, request = self._connections[line.connection], asked[1]
        key = (connection.port, line.correlation_id)
        if key not in self._finished:
            await self._advance(broker, at_ms)
        found = None
        kind = type(request).RESPONSE
        if key in self._finished:
            async with asyncio.timeout(PATIENCE_S):
                await until(lambda: line.correlation_id in connection.answers or connection.is_closed)
            if line.correlation_id in connection.answers:
                payload = connection.answers[line.correlation_id]
                found = recorded(decode_response(kind, payload, version=line.version)[1])
        expected = recorded(decode_response(kind, line.data[4:], version=line.version)[1])
        if "groups" in expected:
            expected["groups"] = frozenset(each for each in expected["groups"] if each[0] in self._groups)
        self.compared += 1
        if found != expected:
            self.differences.append(Difference(self.file, line.number, line.client, request, expected, found))
