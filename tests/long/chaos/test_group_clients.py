"""The members of the chaos of groups, where a coordinator plays what a fault does to their requests."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from typing import Any

import pytest

from tests.programs.chaos.groups import clients
from tests.programs.chaos.groups.clients import ChaosMember
from tests.waiting import PATIENCE_S
from zkgroup.wire import groups as wire
from zkgroup.wire.messages import Request


class LosesTheFirstSync:
    """Coordinates a group of one member; the answer to its first SyncGroup is lost with the connection."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.commits: asyncio.Queue[wire.OffsetCommitRequest] = asyncio.Queue()

    async def open(self, _: object) -> LosesTheFirstSync:
        return self

    def close(self) -> None:
        pass

    async def ask(self, request: Request, *_: object) -> Any:
        name = type(request).__name__.removesuffix("Request")
        self.requests.append(name)
        if name == "SyncGroup" and self.requests.count(name) == 1:
            raise ConnectionError
        if isinstance(request, wire.OffsetCommitRequest):
            self.commits.put_nowait(request)
        return {
            "JoinGroup": wire.JoinGroupResponse(
                error=0, generation=7, protocol="range", leader="other", member_id="id"
            ),
            "SyncGroup": wire.SyncGroupResponse(error=0, assignment=bytes((1, 4))),
            "OffsetFetch": wire.OffsetFetchResponse(topics=(_stored((1, 4)),)),
            "Heartbeat": wire.HeartbeatResponse(error=0),
            "OffsetCommit": wire.OffsetCommitResponse(topics=()),
        }[name]


def _stored(partitions: Sequence[int]) -> wire.StoredTopic:
    stored = tuple(wire.StoredOffset(partition=each, offset=10, metadata="", error=0) for each in partitions)
    return wire.StoredTopic(topic=clients.TOPIC, partitions=stored)


def test_a_member_whose_sync_was_not_answered_joins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would commit the partitions of its former generation otherwise, and for ever in a calm group."""

    async def live() -> tuple[list[str], wire.OffsetCommitRequest]:
        broker = LosesTheFirstSync()

        async def found(*_: object) -> tuple[str, int]:
            return "127.0.0.1", 1

        monkeypatch.setattr(clients, "ask_coordinator", found)
        monkeypatch.setattr(clients, "RawConnection", broker)
        life = asyncio.create_task(ChaosMember([("", 1)], "g", "c", io.StringIO(), "seed").live())
        try:
            async with asyncio.timeout(PATIENCE_S):
                commit = await broker.commits.get()
        finally:
            life.cancel()
        return broker.requests[:4], commit

    requests, commit = asyncio.run(live())

    assert requests == ["JoinGroup", "SyncGroup", "JoinGroup", "SyncGroup"]
    assert [(each.partition, each.offset) for each in commit.topics[0].partitions] == [(1, 11), (4, 11)]
