"""Fetch at a broker's port, in each version: waits, sessions, and who gets what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.worlds.batches import batches_in, build_batch, records_of
from tests.worlds.broker_requests import state, update_metadata
from tests.worlds.replica_managers import TP, in_memory
from tests.worlds.serving import Client, Served, on_a_loop, served, until
from zkgroup.broker.quotas.replication import ReplicationQuota
from zkgroup.broker.replica_view import FollowerId
from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.server.connection_choice import Peer
from zkgroup.broker.server.fetch_handler import FetchHandler
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.model import TopicPartition
from zkgroup.wire.control import UpdateMetadataResponse
from zkgroup.wire.messages import Api, RequestHeader
from zkgroup.wire.record_batch import Record, check_records
from zkgroup.wire.records import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.config_settings import LEADER_RATE, LEADER_REPLICAS

OTHER = TopicPartition("orders", 1)
BATCH = records_of([b"x"], timestamp_ms=1)
ZSTD = build_batch([Record(0, 1, None, b"not unpacked here")], attributes=4)
LONG_MS = 20_000
FOLLOWER = 2


def leader(*, records: int = 1, isr: tuple[int, ...] = (1,)) -> ReplicaManager:
    host = in_memory(1)
    for tp in (TP, OTHER):
        host.become_leader(tp, 0, (1, FOLLOWER), set(isr))
        for _ in range(records):
            host.append(tp, BATCH)
    return host


def request(
    *offsets: tuple[TopicPartition, int],
    replica: int = -1,
    wait_ms: int = 0,
    min_bytes: int = 1,
    session: tuple[int, int] = (0, -1),
    broker_epoch: int = 5,
    isolation_level: int = 0,
) -> FetchRequest:
    partitions = tuple(
        FetchPartition(
            tp.partition,
            offset,
            1 << 20,
            current_leader_epoch=0 if replica >= 0 else -1,
            last_fetched_epoch=0 if replica >= 0 and offset else -1,
        )
        for tp, offset in offsets
    )
    return FetchRequest(
        replica,
        wait_ms,
        min_bytes,
        (FetchTopic("orders", partitions),) if partitions else (),
        broker_epoch=broker_epoch if replica >= 0 else -1,
        session_id=session[0],
        session_epoch=session[1],
        isolation_level=isolation_level,
    )


def found(response: FetchResponse) -> dict[int, FetchedPartition]:
    return {one.partition: one for topic in response.topics for one in topic.partitions}


def counts(response: FetchResponse) -> dict[int, int]:
    return {number: len(list(batches_in(one.records or b""))) for number, one in found(response).items()}


async def append(one: Served, tp: TopicPartition) -> None:
    assert one.thread is not None
    assert (await one.thread.call(lambda host: host.append(tp, BATCH))).error == 0


@on_a_loop
@pytest.mark.parametrize("version", range(4, 13))
async def test_a_consumer_fetches_several_partitions_in_every_version(version: int) -> None:
    """With what Kafka's clients read: last stable offset, log start offset, no session."""
    async with served(leader()) as one:
        client = await one.client()
        response = await client.ask(
            request((TP, 0), (OTHER, 1), isolation_level=1), FetchResponse, version=version
        )

        assert (response.error, response.session_id, counts(response)) == (0, 0, {0: 1, 1: 0})
        first = found(response)[0]
        assert (first.high_watermark, first.last_stable_offset, first.aborted_transactions) == (1, 1, ())
        assert first.log_start_offset == (0 if version >= 5 else -1)
        await client.close()


@on_a_loop
@pytest.mark.parametrize("version", range(4))
async def test_a_consumer_that_reads_no_record_batches_is_told(version: int) -> None:
    """Error 43 for each partition: without an answer it would ask again and again."""
    async with served(leader()) as one:
        client = await one.client()

        response = await client.ask(request((TP, 0), (OTHER, 1)), FetchResponse, version=version)

        assert [(each.error, each.records) for each in found(response).values()] == [(43, b"")] * 2
        await client.close()


@on_a_loop
@pytest.mark.parametrize("version", [4, 9, 10, 12])
async def test_a_consumer_before_version_10_gets_no_zstd(version: int) -> None:
    """The batches before it are sent; from it on the error is 76, which its clients name."""
    host = leader()
    for tp in (TP, OTHER):
        host.append(tp, ZSTD)
        host.append(tp, BATCH)
    async with served(host) as one:
        client = await one.client()
        response = await client.ask(request((TP, 0), (OTHER, 1)), FetchResponse, version=version)
        first, second = found(response).values()
        await client.close()

    batches = {number: len(check_records(one.records or b"")) for number, one in found(response).items()}
    assert batches == ({0: 1, 1: 0} if version < 10 else {0: 3, 1: 2})
    assert (first.error, second.error) == (0, 76 if version < 10 else 0)
    assert second.high_watermark == (-1 if version < 10 else 3)


@on_a_loop
async def test_a_consumer_waits_until_one_of_its_partitions_has_records() -> None:
    """Together `min_bytes` of them; no longer than `max_wait_ms`."""
    async with served(leader(records=0)) as one:
        client = await one.client()
        client.send(request((TP, 0), (OTHER, 0), wait_ms=LONG_MS, min_bytes=2 * len(BATCH)), 12)
        answer = asyncio.create_task(client.receive(FetchResponse, version=12))
        await append(one, OTHER)
        other = await one.client()
        assert counts(await other.ask(request((OTHER, 0), wait_ms=LONG_MS), FetchResponse, 12)) == {1: 1}
        assert not answer.done()
        await append(one, TP)

        assert counts(await answer) == {0: 1, 1: 1}
        ended = await client.ask(request((TP, 1), wait_ms=1), FetchResponse, 12)
        assert (counts(ended), found(ended)[0].error) == ({0: 0}, 0)
        await client.close()
        await other.close()


@on_a_loop
async def test_a_consumer_keeps_no_session_and_learns_who_leads_not_here() -> None:
    """An epoch above 0 is of no session (70). A partition without a replica is known (6) or not (3)."""
    async with served(leader()) as one:
        client = await one.client()
        elsewhere = TopicPartition("orders", 7)
        assert isinstance(
            await client.ask(update_metadata(state(elsewhere, leader=2)), UpdateMetadataResponse),
            UpdateMetadataResponse,
        )
        full = await client.ask(
            request((TP, 0), (elsewhere, 0), (TopicPartition("orders", 8), 0), session=(0, 0)),
            FetchResponse,
            12,
        )
        assert full.session_id == 0
        assert {number: one.error for number, one in found(full).items()} == {0: 0, 7: 6, 8: 3}
        later = await client.ask(request(session=(3, 1)), FetchResponse, 12)
        assert (later.error, later.topics) == (70, ())
        await client.close()


@on_a_loop
async def test_a_follower_in_a_session_waits_for_any_of_its_partitions() -> None:
    """Its first request is answered at once, with all; a change of any partition ends the wait."""
    async with served(leader(records=0, isr=(1, FOLLOWER))) as one:
        client = await one.client()
        first = await client.ask(
            request((TP, 0), (OTHER, 0), replica=FOLLOWER, wait_ms=LONG_MS, session=(0, 0)), FetchResponse, 12
        )
        assert (first.session_id, set(found(first))) == (1, {0, 1})
        assert [each.log_end_offset for each in found(first).values()] == [0, 0]
        client.send(request(replica=FOLLOWER, wait_ms=LONG_MS, session=(1, 1)), 12)
        answer = asyncio.create_task(client.receive(FetchResponse, version=12))
        await append(one, OTHER)
        assert counts(await answer) == {1: 1}

        moved = await client.ask(
            request((OTHER, 1), replica=FOLLOWER, wait_ms=LONG_MS, session=(1, 2)), FetchResponse, 12
        )
        assert counts(moved) == {1: 0}, "the high watermark, which this fetch has moved"
        assert found(moved)[1].high_watermark == 1
        again = await client.ask(request(replica=FOLLOWER, session=(1, 2)), FetchResponse, 12)
        assert again.error == 71
        assert {(each.topic_partition, each.offset) for each in one.noted.fetches} >= {(TP, 0), (OTHER, 1)}
        await client.close()


@on_a_loop
async def test_a_broker_that_no_controller_calls_alive_gets_no_records() -> None:
    """K20: 77, without a call of the replica manager; it can follow a former topic of that name.

    Its session ends. Consumers and observers are answered.
    """
    live = {FOLLOWER}
    async with served(leader(), is_live=live.__contains__) as one:
        client = await one.client()
        opened = await client.ask(request((TP, 0), replica=FOLLOWER, session=(0, 0)), FetchResponse, 12)
        assert counts(opened) == {0: 1}
        live.clear()
        one.noted.fetches.clear()
        refused = [
            await client.ask(request((TP, 0), replica=FOLLOWER, session=each), FetchResponse, 12)
            for each in ((1, 1), (0, 0), (0, -1))
        ]
        assert [(found(each)[0].error, counts(each)) for each in refused] == [(77, {0: 0})] * 3
        assert one.noted.fetches == []
        live.add(FOLLOWER)
        late = await client.ask(request(replica=FOLLOWER, session=(1, 1)), FetchResponse, 12)
        assert late.error == 70

        assert counts(await client.ask(request((TP, 0)), FetchResponse, 12)) == {0: 1}
        observed = await client.ask(request((TP, 0), replica=-2), FetchResponse, 12)
        assert (counts(observed), found(observed)[0].log_end_offset) == ({0: 0}, 1)
        await client.close()


@on_a_loop
async def test_a_follower_of_an_earlier_version_is_refused() -> None:
    """35: it does not name the epoch of its last record, so a diverging log would not be noticed."""
    async with served(leader()) as one:
        client = await one.client()
        response = await client.ask(request((TP, 1), replica=FOLLOWER), FetchResponse, 11)

        assert found(response)[0].error == 35
        await client.close()


@on_a_loop
async def test_all_partitions_of_a_session_are_read_at_intervals() -> None:
    """The machine measures the lag of a follower by its fetches, also where nothing changes."""
    async with _handler(leader(records=0), sweep_s=0.0) as (handler, fetched, _):
        await handler.fetch(CONTEXT, request((TP, 0), (OTHER, 0), replica=FOLLOWER, session=(0, 0)))
        await handler.fetch(CONTEXT, request(replica=FOLLOWER, session=(1, 1)))
        fetched.clear()
        await handler.fetch(CONTEXT, request(replica=FOLLOWER, session=(1, 2)))

        assert fetched == [(TP, 0), (OTHER, 0)]


CONTEXT = RequestContext(RequestHeader(Api.FETCH, 12, 1, "test"), Peer("127.0.0.1", 1))


class _Noting:
    """An observer that notes partitions and offsets."""

    def __init__(self, fetched: list[tuple[TopicPartition, int]]) -> None:
        self._fetched = fetched

    def on_fetches(self, fetched: object) -> None:
        self._fetched += [(one.topic_partition, one.offset) for one in fetched]  # type: ignore[attr-defined]


@asynccontextmanager
async def _handler(
    host: ReplicaManager, *, sweep_s: float = 1_000.0, quota: ReplicationQuota | None = None
) -> AsyncIterator[tuple[FetchHandler, list[tuple[TopicPartition, int]], ReplicaExecutor]]:
    replicas = ReplicaExecutor(host)
    fetched: list[tuple[TopicPartition, int]] = []
    yield (
        FetchHandler(replicas, observer=_Noting(fetched), leader_quota=quota, sweep_s=sweep_s),
        fetched,
        replicas,
    )
    assert await replicas.close()


def throttle(rate: int) -> ReplicationQuota:
    quota = ReplicationQuota(1, LEADER_RATE, LEADER_REPLICAS)
    quota.configured(ConfigEntity.broker(1), {LEADER_RATE: str(rate)})
    quota.configured(ConfigEntity.topic("orders"), {LEADER_REPLICAS: "*"})
    return quota


@on_a_loop
async def test_throttled_partitions_are_sent_one_at_a_time_at_the_rate() -> None:
    """The others come at their time, or the fetch ends without them; consumers are not throttled."""
    async with _handler(leader(), quota=throttle(1)) as (handler, fetched, _):
        first = await handler.fetch(
            CONTEXT, request((TP, 0), (OTHER, 0), replica=FOLLOWER, session=(0, 0), wait_ms=LONG_MS)
        )
        assert counts(first) == {0: 1, 1: 0}
        assert fetched == [(TP, 0), (OTHER, 0)], "the progress counts nevertheless"
        held = await handler.fetch(CONTEXT, request((TP, 1), replica=FOLLOWER, session=(1, 1), wait_ms=1))
        assert sum(counts(held).values()) == 0
        assert counts(await handler.fetch(CONTEXT, request((TP, 0), (OTHER, 0)))) == {0: 1, 1: 1}

    async with _handler(leader(), quota=throttle(100 * len(BATCH))) as (handler, _, _):
        await handler.fetch(CONTEXT, request((TP, 0), (OTHER, 0), replica=FOLLOWER, session=(0, 0)))
        later = await handler.fetch(
            CONTEXT, request((TP, 1), replica=FOLLOWER, session=(1, 1), wait_ms=LONG_MS)
        )
        assert counts(later)[1] == 1


@on_a_loop
async def test_a_follower_in_sync_is_not_throttled() -> None:
    """KIP-73: it is at the high watermark, and acks=all waits for it."""
    host = leader(isr=(1, FOLLOWER))
    host.fetch(TP, request((TP, 1), replica=FOLLOWER).topics[0].partitions[0], FollowerId(FOLLOWER, 5))
    async with _handler(host, quota=throttle(1)) as (handler, _, replicas):
        for number in range(1, 4):
            await replicas.call(lambda one: one.append(TP, BATCH))
            response = await handler.fetch(CONTEXT, request((TP, number), replica=FOLLOWER, session=(0, 0)))
            assert counts(response) == {0: 1}


@on_a_loop
async def test_a_client_that_leaves_is_not_waited_for() -> None:
    """Nothing is watched for it any more."""
    async with served(leader()) as one:
        client: Client = await one.client()
        client.send(request((TP, 1), wait_ms=LONG_MS), 12)
        assert one.thread is not None
        await until(lambda: TP in one.thread._watches)
        await client.close()

        await until(lambda: one.server.connections == 0)
        await until(lambda: one.thread is not None and not one.thread._watches)
