"""Members of groups over bare connections: Kafka's group requests without a client library.

A library takes more time than a broker, and one process must hold thousands of members. Each member has a
connection of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TypeVar

from zkgroup.wire import groups as wire
from zkgroup.wire.messages import FrameSplitter, Request, Response, decode_response, encode_request
from zkgroup.wire.metadata import FindCoordinatorRequest, FindCoordinatorResponse

CLIENT_ID: Final = "raw"
METADATA: Final = b"\0\0\0\0\0\1\0\1t\0\0\0\0"
"""A subscription to the topic `t`."""
JOIN, SYNC, HEARTBEAT, COMMIT, FETCH, LEAVE, FIND = 5, 3, 3, 7, 5, 3, 1
"""Versions of the requests, which every release since 2.3 serves."""
OK, UNKNOWN_MEMBER, REBALANCING, ID_REQUIRED = 0, 25, 27, 79
FIND_S: Final = 0.05
"""From one question for the coordinator to the next, while there is none."""
AGAIN_S: Final = 0.002
"""From one heartbeat to the next, of a member that waits for a rebalance."""
PATIENCE_S: Final = 120.0
Address = tuple[str, int]
ResponseT = TypeVar("ResponseT", bound=Response)


class RawConnection(asyncio.Protocol):
    """A connection on which one request is sent at a time."""

    def __init__(self) -> None:
        self._splitter = FrameSplitter()
        self._waiting: asyncio.Future[bytes] | None = None
        self._lost: Exception | None = None
        self._transport: asyncio.Transport
        self._repeated: tuple[bytes, bytes] | None = None
        """A frame that is sent again whenever this answer comes."""
        self.answers = 0
        """To the repeated frame."""
        self.wrong: bytes | None = None
        """An answer to the repeated frame that was another than the first."""

    @classmethod
    async def open(cls, address: Address) -> RawConnection:
        _, made = await asyncio.get_running_loop().create_connection(cls, *address)
        return made

    async def ask(self, request: Request, kind: type[ResponseT], version: int) -> ResponseT:
        """The answer to a request. Raises ConnectionError where the connection is lost."""
        frame = await self.send(encode_request(request, 0, CLIENT_ID, version=version))
        return decode_response(kind, frame, version=version)[1]

    def send(self, frame: bytes) -> asyncio.Future[bytes]:
        """The frame that answers this one, without its size."""
        if self._lost is not None:
            raise self._lost
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        return self._waiting

    def repeat(self, frame: bytes, answer: bytes) -> None:
        """Sends a frame, and again whenever this answer has come, until `stop`."""
        self._repeated = frame, answer
        self._transport.write(frame)

    def stop(self) -> None:
        """Sends the repeated frame no more."""
        self._repeated = None

    def close(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._repeated is not None:
            frame, answer = self._repeated
            if data[4:] == answer:
                self.answers += 1
                self._transport.write(frame)
            else:
                self.wrong = data
            return
        self._splitter.feed(data)
        frame_read = self._splitter.next_frame()
        if frame_read is not None and self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(frame_read)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = ConnectionError(str(exc or "the connection was closed"))
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(self._lost)


async def find_coordinator(brokers: Sequence[Address], group: str) -> Address:
    """The address of a group's coordinator, as soon as one of the brokers serves the group."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        for broker in brokers:
            with suppress(OSError):
                found = await ask_coordinator(broker, group)
                if found is not None and await _is_served(found, group):
                    return found
        assert time.monotonic() < until_s, f"no coordinator of {group}"
        await asyncio.sleep(FIND_S)


async def ask_coordinator(broker: Address, group: str) -> Address | None:
    """The coordinator, as this broker knows it."""
    connection = await RawConnection.open(broker)
    try:
        found = await connection.ask(FindCoordinatorRequest(group), FindCoordinatorResponse, FIND)
    finally:
        connection.close()
    return (found.host, found.port) if found.error == OK else None


async def _is_served(coordinator: Address, group: str) -> bool:
    """Whether the coordinator has loaded the group."""
    connection = await RawConnection.open(coordinator)
    try:
        stranger = RawMember(connection, group)
        stranger.member_id = "stranger"
        return await stranger.beat() == UNKNOWN_MEMBER
    finally:
        connection.close()


class RawMember:
    """A member of a group. Its leader assigns every member the number of members."""

    def __init__(self, connection: RawConnection, group: str, *, session_ms: int = 60_000) -> None:
        self.connection = connection
        self.group = group
        self.session_ms = session_ms
        self.member_id = ""
        self.generation = -1
        self.members = 0
        """Members of its generation, as the leader has told."""
        self.joins = 0
        """Join requests that were answered with a generation."""

    async def enter(self, members: int = 1) -> None:
        """Joins until it is in a generation of at least so many members, and has its assignment."""
        await self.join()
        while self.members < members:
            while await self.beat() == OK:
                await asyncio.sleep(AGAIN_S)
            await self.join()

    async def join(self) -> None:
        """Joins and syncs until it has an assignment."""
        while True:
            joined = await self._join_once()
            self.generation = joined.generation
            self.joins += 1
            is_leader = joined.leader == self.member_id
            count = len(joined.members).to_bytes(4, "big") if is_leader else b""
            assignments = tuple(
                wire.MemberAssignment(member_id=each.member_id, assignment=count) for each in joined.members
            )
            request = wire.SyncGroupRequest(
                group=self.group,
                generation=self.generation,
                member_id=self.member_id,
                assignments=assignments,
            )
            synced = await self.connection.ask(request, wire.SyncGroupResponse, SYNC)
            if synced.error == OK:
                self.members = int.from_bytes(synced.assignment, "big")
                return
            self._expect(synced.error, "sync")

    async def _join_once(self) -> wire.JoinGroupResponse:
        while True:
            request = wire.JoinGroupRequest(
                group=self.group,
                session_timeout_ms=self.session_ms,
                rebalance_timeout_ms=60_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=(wire.JoinProtocol(name="range", metadata=METADATA),),
            )
            joined = await self.connection.ask(request, wire.JoinGroupResponse, JOIN)
            if joined.error == ID_REQUIRED:
                self.member_id = joined.member_id
            elif joined.error == OK:
                self.member_id = joined.member_id
                return joined
            else:
                self._expect(joined.error, "join")

    def _expect(self, error: int, what: str) -> None:
        """A member that is unknown now joins as a new one. Raises AssertionError for other errors."""
        if error == UNKNOWN_MEMBER:
            self.member_id = ""
        else:
            assert error == REBALANCING, f"{what} of {self.group}: error {error}"

    async def beat(self) -> int:
        """The error of a heartbeat."""
        answer = await self.connection.ask(self.heartbeat(), wire.HeartbeatResponse, HEARTBEAT)
        return answer.error

    def heartbeat(self) -> wire.HeartbeatRequest:
        return wire.HeartbeatRequest(group=self.group, generation=self.generation, member_id=self.member_id)

    def commit(self, topic: str, partition: int, offset: int) -> wire.OffsetCommitRequest:
        """A commit of one partition."""
        committed = wire.OffsetToCommit(partition=partition, offset=offset, metadata="")
        return wire.OffsetCommitRequest(
            group=self.group,
            generation=self.generation,
            member_id=self.member_id,
            topics=(wire.TopicToCommit(topic=topic, partitions=(committed,)),),
        )
