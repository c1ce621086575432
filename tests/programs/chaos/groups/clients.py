"""Members of groups in one process: they commit all the time, and write down what they are answered.

    python -m tests.programs.chaos.groups.clients BROKERS FILE SEED GROUP=CLIENT,CLIENT...

A line on its input ends the acts of members (leaving, vanishing); the end of its input ends the process.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO, TypeVar

from tests.programs.chaos.groups.history import Seen
from tests.programs.raw_groups import (
    COMMIT,
    FETCH,
    HEARTBEAT,
    ID_REQUIRED,
    JOIN,
    LEAVE,
    METADATA,
    OK,
    REBALANCING,
    SYNC,
    Address,
    RawConnection,
    ask_coordinator,
)
from zkgroup.wire import groups as wire
from zkgroup.wire.messages import Request, Response

TOPIC = "work"
PARTITIONS = 10
SESSION_MS = 15_000
REBALANCE_MS = 6_000
ANSWER_S = 3.0
"""Longest wait for an answer; a join may take as long as the rebalance timeout, and more."""
TURN_S = 0.3
"""From one heartbeat with a commit to the next."""
FENCED = (22, 25, 82)
"""The member is not in this generation, or not in the group."""
ACTS = 0.02
"""How often a member leaves or vanishes, of its turns."""
HESITATES = 0.3
"""How often a leader takes its time before it assigns: coordinators are killed then, too."""
ResponseT = TypeVar("ResponseT", bound=Response)


class CoordinatorLostError(Exception):
    """The coordinator does not answer, or is another broker now."""


class MemberLostError(Exception):
    """The member has to join again, or as a new one."""


class ChaosMember:
    """One client of a group, from one member id to the next."""

    def __init__(self, brokers: Sequence[Address], group: str, client: str, out: TextIO, seed: str) -> None:
        self._brokers, self._group, self._client, self._out = brokers, group, client, out
        self._random = random.Random(seed)
        self._connection: RawConnection | None = None
        self._member_id = ""
        self._generation = -1
        self._is_assigned = False
        """Whether it has the assignment of its generation. Without one it joins, also where the answer to its
        sync was lost with the coordinator, as Kafka's clients do."""
        self._positions: dict[int, int] = {}
        self._fetched = False
        self.is_calm = False
        """Whether it stays in its group from now on."""

    async def live(self) -> None:
        """Joins, commits, and finds its coordinator again, for ever."""
        while True:
            try:
                if self._connection is None:
                    await self._connect()
                if not self._is_assigned:
                    await self._join()
                await self._turn()
            except (CoordinatorLostError, OSError):
                self._disconnect()
                await asyncio.sleep(0.1)
            except MemberLostError:
                self._is_assigned = False

    async def _connect(self) -> None:
        for broker in self._random.sample(list(self._brokers), len(self._brokers)):
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(ANSWER_S):
                    found = await ask_coordinator(broker, self._group)
                    if found is not None:
                        self._connection = await RawConnection.open(found)
                        return
        raise CoordinatorLostError

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _ask(
        self, kind: str, request: Request, response: type[ResponseT], version: int, seconds: float = ANSWER_S
    ) -> tuple[ResponseT, int]:
        """The answer, and when the request was sent; without an answer the request is noted."""
        assert self._connection is not None
        sent = time.monotonic_ns()
        try:
            async with asyncio.timeout(seconds):
                return await self._connection.ask(request, response, version), sent
        except (OSError, TimeoutError) as error:
            offsets = tuple(self._positions.items()) if kind == "committed" else ()
            self._note(kind, sent, error=None, offsets=offsets)
            raise CoordinatorLostError from error

    def _note(self, kind: str, sent: int, **fields: object) -> None:
        seen = Seen(
            kind,
            self._group,
            self._client,
            self._member_id,
            self._generation,
            sent,
            time.monotonic_ns(),
            **fields,  # type: ignore[arg-type]
        )
        self._out.write(seen.line() + "\n")

    def _expect(self, error: int) -> None:
        """Raises what an error means for the member."""
        if error == OK:
            return
        if error in FENCED:
            self._member_id = ""
            raise MemberLostError
        if error == REBALANCING:
            raise MemberLostError
        raise CoordinatorLostError

    async def _join(self) -> None:
        self._generation = -1
        while True:
            request = wire.JoinGroupRequest(
                group=self._group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=(wire.JoinProtocol(name="range", metadata=METADATA),),
            )
            joined, sent = await self._ask(
                "joined", request, wire.JoinGroupResponse, JOIN, ANSWER_S + 2 * REBALANCE_MS / 1000
            )
            if joined.error == ID_REQUIRED:
                self._member_id = joined.member_id
                continue
            self._note_join(joined, sent)
            self._expect(joined.error)
            break
        await self._sync(joined)

    def _note_join(self, joined: wire.JoinGroupResponse, sent: int) -> None:
        if joined.error == OK:
            self._member_id, self._generation = joined.member_id, joined.generation
        self._note(
            "joined",
            sent,
            error=joined.error,
            leader=joined.leader,
            members=tuple(each.member_id for each in joined.members),
        )

    async def _sync(self, joined: wire.JoinGroupResponse) -> None:
        if joined.members and self._random.random() < HESITATES:
            await asyncio.sleep(self._random.random())
        names = sorted(each.member_id for each in joined.members)
        assignments = tuple(
            wire.MemberAssignment(member_id=name, assignment=bytes(range(at, PARTITIONS, len(names))))
            for at, name in enumerate(names)
        )
        request = wire.SyncGroupRequest(
            group=self._group,
            generation=self._generation,
            member_id=self._member_id,
            assignments=assignments,
        )
        synced, sent = await self._ask(
            "synced", request, wire.SyncGroupResponse, SYNC, ANSWER_S + 2 * REBALANCE_MS / 1000
        )
        partitions = tuple(synced.assignment)
        self._note("synced", sent, error=synced.error, partitions=partitions)
        self._expect(synced.error)
        self._positions, self._fetched = dict.fromkeys(partitions, -1), False
        self._is_assigned = True

    async def _fetch(self) -> None:
        topics = (wire.OffsetFetchTopic(topic=TOPIC, partitions=tuple(self._positions)),)
        request = wire.OffsetFetchRequest(group=self._group, topics=topics)
        fetched, sent = await self._ask("fetched", request, wire.OffsetFetchResponse, FETCH)
        stored = [each for topic in fetched.topics for each in topic.partitions]
        error = fetched.error or next((each.error for each in stored if each.error), OK)
        offsets = tuple((each.partition, each.offset) for each in stored)
        self._note("fetched", sent, error=error, offsets=offsets)
        if error:
            raise CoordinatorLostError
        self._positions, self._fetched = dict(offsets), True

    async def _turn(self) -> None:
        """A heartbeat and a commit of all partitions, each one further."""
        if not self._fetched and self._positions:
            await self._fetch()
        await self._beat()
        if self._positions:
            await self._commit()
        await asyncio.sleep(TURN_S * (0.5 + self._random.random()))
        if not self.is_calm and self._random.random() < ACTS:
            await self._act()

    async def _beat(self) -> None:
        request = wire.HeartbeatRequest(
            group=self._group, generation=self._generation, member_id=self._member_id
        )
        answer, sent = await self._ask("beat", request, wire.HeartbeatResponse, HEARTBEAT)
        self._note("beat", sent, error=answer.error)
        self._expect(answer.error)

    async def _commit(self) -> None:
        self._positions = {partition: offset + 1 for partition, offset in self._positions.items()}
        offsets = tuple(
            wire.OffsetToCommit(partition=partition, offset=offset, metadata="")
            for partition, offset in self._positions.items()
        )
        request = wire.OffsetCommitRequest(
            group=self._group,
            generation=self._generation,
            member_id=self._member_id,
            topics=(wire.TopicToCommit(topic=TOPIC, partitions=offsets),),
        )
        answer, sent = await self._ask("committed", request, wire.OffsetCommitResponse, COMMIT)
        every = [each for topic in answer.topics for each in topic.partitions]
        for error in sorted({each.error for each in every}):
            of_it = {each.partition for each in every if each.error == error}
            committed = tuple((p, offset) for p, offset in self._positions.items() if p in of_it)
            self._note("committed", sent, error=error, offsets=committed)
        for error in {each.error for each in every}:
            self._expect(error)

    async def _act(self) -> None:
        """Leaves the group, vanishes without a word, or sleeps and commits with what it knew before."""
        chance = self._random.random()
        if chance < 0.4:
            await asyncio.sleep((REBALANCE_MS + SESSION_MS * self._random.random()) / 1000)
            await self._commit()
            return
        if chance < 0.8:
            member = wire.LeavingMember(member_id=self._member_id)
            request = wire.LeaveGroupRequest(group=self._group, members=(member,))
            answer, sent = await self._ask("left", request, wire.LeaveGroupResponse, LEAVE)
            self._note("left", sent, error=answer.error)
            self._expect(answer.error)
        else:
            self._disconnect()
        self._member_id = ""
        raise MemberLostError


async def run(brokers: Sequence[Address], file: str, seed: str, named: Sequence[str]) -> None:
    loop, lines = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    with Path(file).open("a", buffering=1, encoding="utf-8") as out:
        members = [
            ChaosMember(brokers, group, client, out, f"{seed} {client}")
            for words in named
            for group, _, clients in [words.partition("=")]
            for client in clients.split(",")
        ]
        tasks = [asyncio.create_task(member.live()) for member in members]
        ending = asyncio.create_task(lines.readline())
        await asyncio.wait([*tasks, ending], return_when=asyncio.FIRST_COMPLETED)
        for member in members:
            member.is_calm = True
        until_end = asyncio.create_task(lines.read())
        done, _ = await asyncio.wait([*tasks, until_end], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task in done:
                task.result()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    addresses, file, seed, *named = sys.argv[1:]
    brokers = [(host, int(port)) for host, port in (each.split(":") for each in addresses.split(","))]
    asyncio.run(run(brokers, file, seed, named))


if __name__ == "__main__":
    main()
