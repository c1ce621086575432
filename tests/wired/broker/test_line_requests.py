"""AppendLines and FetchLines at a broker's port: the answers that are sent at once, and those that wait."""

from __future__ import annotations

import asyncio

import pytest

from tests.worlds.broker_requests import (
    ORDERS,
    append,
    fetch,
)
from tests.worlds.serving import ScriptedHost, on_a_loop, served, until
from zkgroup.broker.replica_view import ReplicaView, Role
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.wire.replica_host import (
    ACKS_LEADER,
    AppendLinesResponse,
    FetchLinesResponse,
    records_of,
)

LED = ReplicaView(Role.LEADER, 3, log_end_offset=10, high_watermark=10, leader_epoch_start=0)


def fetched(high_watermark: int = 10, records: bytes = b"") -> FetchLinesResponse:
    return FetchLinesResponse(0, high_watermark, 10, None, records)


@on_a_loop
async def test_lines_for_the_leader_alone_are_answered_at_once() -> None:
    """The high watermark is still below them."""
    host = ScriptedHost(views={ORDERS: LED})
    async with served(host) as one:
        client = await one.client()

        response = await client.ask(append(ACKS_LEADER), AppendLinesResponse)

        assert response == AppendLinesResponse(0, 10, 10)
        await client.close()


@on_a_loop
async def test_lines_for_all_are_answered_when_the_high_watermark_has_passed_them() -> None:
    """With the watermark of then; a change that is not enough is not an answer."""
    host = ScriptedHost(views={ORDERS: LED})
    async with served(host) as one:
        assert one.thread is not None
        client, other = await one.client(), await one.client()
        client.send(append())
        answer = asyncio.create_task(client.receive(AppendLinesResponse))
        await until(lambda: host.views[ORDERS].log_end_offset == 12)
        await one.thread.call(lambda _: host.show(ORDERS, high_watermark=11))
        for _ in range(3):
            await other.ask(append(ACKS_LEADER), AppendLinesResponse)
        assert not answer.done()
        await one.thread.call(lambda _: host.show(ORDERS, high_watermark=12))

        assert await answer == AppendLinesResponse(0, 10, 12)
        await client.close()
        await other.close()


def two_of(stored: tuple[int, ...]) -> MinInsync:
    """Two replicas have to be in sync; these are."""
    settings = MinInsync(1, default=2)
    settings.led(ORDERS, 3, stored)
    return settings


@on_a_loop
async def test_with_too_few_in_sync_no_line_for_all_is_taken() -> None:
    """Error 19, and nothing is appended; lines for the leader alone are taken."""
    host = ScriptedHost(views={ORDERS: LED})
    async with served(host, min_insync=two_of((1,))) as one:
        client = await one.client()

        assert await client.ask(append(), AppendLinesResponse) == AppendLinesResponse(19, -1, -1)
        assert host.views[ORDERS].log_end_offset == 10
        assert (await client.ask(append(ACKS_LEADER), AppendLinesResponse)).error == 0
        await client.close()


@on_a_loop
async def test_lines_that_too_few_have_in_the_end_are_answered_with_20() -> None:
    """The follower has left the ISR, and the high watermark has passed the lines without it."""
    host, settings = ScriptedHost(views={ORDERS: LED}), two_of((1, 2))
    async with served(host, min_insync=settings) as one:
        assert one.thread is not None
        client = await one.client()
        client.send(append())
        await until(lambda: host.views[ORDERS].log_end_offset == 12)
        host.in_sync = 1  # before the news that it is stored
        await one.thread.call(lambda _: host.show(ORDERS, high_watermark=12))

        assert await client.receive(AppendLinesResponse) == AppendLinesResponse(20, 10, -1)
        await client.close()


@on_a_loop
async def test_a_broker_that_does_not_lead_says_so_however_few_are_in_sync() -> None:
    """The producer then finds the leader, and does not wait for replicas."""
    host = ScriptedHost()
    async with served(host, min_insync=two_of((1,))) as one:
        client = await one.client()

        assert (await client.ask(append(), AppendLinesResponse)).error == 3
        await client.close()


@on_a_loop
async def test_a_new_term_of_the_same_leader_does_not_end_the_wait() -> None:
    """A controller that takes a broker out of the ISR raises the epoch; the lines stay where they are."""
    host = ScriptedHost(views={ORDERS: LED})
    async with served(host) as one:
        assert one.thread is not None
        client = await one.client()
        client.send(append())
        await until(lambda: host.views[ORDERS].log_end_offset == 12)
        await one.thread.call(lambda _: host.show(ORDERS, leader_epoch=4, high_watermark=11))
        await one.thread.call(lambda _: host.show(ORDERS, high_watermark=12))

        assert await client.receive(AppendLinesResponse) == AppendLinesResponse(0, 10, 12)
        await client.close()


@on_a_loop
@pytest.mark.parametrize(
    ("end", "cut"),
    [
        ({"role": Role.FOLLOWER}, False),
        ({"leader_epoch": 5, "high_watermark": 99}, True),
        ({"role": Role.NONE}, False),
    ],
)
async def test_lines_that_another_may_have_cut_off_are_answered_with_6(
    end: dict[str, object], cut: bool
) -> None:
    """Also where this broker leads again, and where they were: perhaps they still are."""
    host = ScriptedHost(views={ORDERS: LED})
    async with served(host) as one:
        assert one.thread is not None
        client = await one.client()
        client.send(append())
        await until(lambda: host.views[ORDERS].log_end_offset == 12)
        host.cut = cut
        await one.thread.call(lambda _: host.show(ORDERS, **end))

        assert await client.receive(AppendLinesResponse) == AppendLinesResponse(6, 10, -1)
        await client.close()


@on_a_loop
async def test_followers_do_not_fetch_lines() -> None:
    """They use Fetch (35); the replica manager is not called."""
    host = ScriptedHost(fetches=[fetched()])
    async with served(host) as one:
        client = await one.client()

        assert await client.ask(fetch(2), FetchLinesResponse) == FetchLinesResponse(35, -1, -1)
        assert host.asked == []
        await client.close()


@on_a_loop
async def test_what_the_host_refuses_or_nobody_can_mean_is_answered_at_once() -> None:
    """3 by the replica manager; 87 for acks other than 1 and all, without a call of the replica manager."""
    host = ScriptedHost()
    async with served(host) as one:
        client = await one.client()

        assert await client.ask(append(), AppendLinesResponse) == AppendLinesResponse(3, -1, -1)
        assert await client.ask(append(2), AppendLinesResponse) == AppendLinesResponse(87, -1, -1)
        assert len(host.asked) == 1
        await client.close()


@on_a_loop
async def test_a_producer_that_leaves_is_not_waited_for() -> None:
    """Its connection is given free."""
    host = ScriptedHost(views={ORDERS: LED})
    async with served(host) as one:
        client = await one.client()
        client.send(append())
        await until(lambda: host.views[ORDERS].log_end_offset == 12)
        await client.close()

        await until(lambda: one.server.connections == 0)


@on_a_loop
async def test_a_fetch_waits_for_lines() -> None:
    """No longer than `max_wait_ms`; a change without lines or a new high watermark does not end the wait."""
    records = records_of([b"x"], timestamp_ms=1, base_offset=10, leader_epoch=3)
    host = ScriptedHost(views={ORDERS: LED}, fetches=[fetched(), fetched(), fetched(10, records)])
    async with served(host) as one:
        assert one.thread is not None
        client = await one.client()
        client.send(fetch(wait_ms=20_000))
        for asked in (1, 2):
            await until(lambda so_far=asked: len(host.asked) == so_far)
            await one.thread.call(lambda _: host.show(ORDERS, log_end_offset=11))

        assert await client.receive(FetchLinesResponse) == fetched(10, records)
        host.fetches = [fetched()]
        assert await client.ask(fetch(wait_ms=1), FetchLinesResponse) == fetched()
        assert await client.ask(fetch(wait_ms=-5), FetchLinesResponse) == fetched()
        await client.close()


@on_a_loop
async def test_a_fetch_is_answered_when_the_high_watermark_moves() -> None:
    """A consumer learns it so, without a line to carry it."""
    host = ScriptedHost(views={ORDERS: LED}, fetches=[fetched(9), fetched(10)])
    async with served(host) as one:
        assert one.thread is not None
        client = await one.client()
        client.send(fetch(wait_ms=20_000))
        await until(lambda: len(host.asked) == 1)
        await one.thread.call(lambda _: host.show(ORDERS, high_watermark=10))

        assert await client.receive(FetchLinesResponse) == fetched(10)
        assert [what for what, _ in host.asked] == ["fetch", "fetch, held"]
        await client.close()


@on_a_loop
async def test_an_error_is_not_waited_on() -> None:
    """It is the answer."""
    wrong = FetchLinesResponse(74, -1, -1)
    host = ScriptedHost(fetches=[wrong])
    async with served(host) as one:
        client = await one.client()

        assert await client.ask(fetch(wait_ms=20_000), FetchLinesResponse) == wrong
        await client.close()
