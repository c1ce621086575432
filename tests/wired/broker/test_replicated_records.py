"""The records of two brokers over a TCP port: the leader, a follower that fetches, and the leader's ISR."""

from __future__ import annotations

import asyncio

from tests.waiting import PATIENCE_S
from tests.worlds.broker_requests import ORDERS, consume_request, leader_and_isr, produce_request, state
from tests.worlds.replica_managers import in_memory, log_end_offset, values_in
from tests.worlds.serving import Client, Served, on_a_loop, served
from zkgroup.broker.machine.isr import Isr, IsrOutcome
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.model import ZnodeStat
from zkgroup.model.requests import MultiDone
from zkgroup.wire.control import LeaderAndIsrResponse
from zkgroup.wire.records import (
    ACKS_ALL,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ProduceResponse,
)

LAG_MS = 10_000
FOLLOWER = 2
DECISION = state(leader=1, epoch=0, isr=(1, FOLLOWER), replicas=(1, FOLLOWER), version=4)


async def fetches_once(follower: ReplicaManager, client: Client) -> None:
    """One round of a follower's fetcher."""
    partition = follower.next_fetch(ORDERS, 10_000)
    assert partition is not None
    topics = (FetchTopic(ORDERS.topic, (partition,)),)
    request = FetchRequest(FOLLOWER, 0, 1, topics, broker_epoch=77)
    response = await client.ask(request, FetchResponse, version=12)
    ((fetched,),) = (topic.partitions for topic in response.topics)
    assert follower.take(ORDERS, partition, fetched)


async def appending(client: Client, *values: bytes) -> asyncio.Task[ProduceResponse]:
    client.send(produce_request(ORDERS, ACKS_ALL, *values), 8)
    return asyncio.create_task(client.receive(ProduceResponse, version=8))


async def acknowledged(answer: asyncio.Task[ProduceResponse]) -> tuple[int, int]:
    """Error and offset of the one partition."""
    ((found,),) = (topic.partitions for topic in (await answer).topics)
    return found.error, found.offset


async def read(client: Client, offset: int) -> FetchedPartition:
    answer = await client.ask(consume_request(ORDERS, offset, 20_000), FetchResponse, version=11)
    ((found,),) = (topic.partitions for topic in answer.topics)
    return found


async def appended(broker: Served, end: int) -> None:
    """Returns when the leader's log ends there."""
    assert broker.thread is not None
    async with asyncio.timeout(PATIENCE_S):
        while await broker.thread.call(lambda host: log_end_offset(host, ORDERS)) != end:
            pass


@on_a_loop
async def test_records_for_all_are_acknowledged_and_readable_once_the_follower_has_them() -> None:
    """And a consumer that waits for them gets them then, not before."""
    follower = in_memory(FOLLOWER)
    follower.become_follower(ORDERS, 0)
    async with served(in_memory(1)) as leader:
        controller, producer, fetcher, consumer = [await leader.client() for _ in range(4)]
        await controller.ask(leader_and_isr(DECISION), LeaderAndIsrResponse)

        answer = await appending(producer, b"a", b"b")
        await appended(leader, 2)
        reading = asyncio.create_task(read(consumer, 0))
        await fetches_once(follower, fetcher)
        assert log_end_offset(follower, ORDERS) == 2
        assert not answer.done()
        assert not reading.done()
        await fetches_once(follower, fetcher)

        assert await acknowledged(answer) == (0, 0)
        found = await reading
        assert (found.high_watermark, values_in(found.records or b"")) == (2, [b"a", b"b"])
        assert follower.high_watermark(ORDERS) == 2
        for client in (controller, producer, fetcher, consumer):
            await client.close()
    follower.close()


@on_a_loop
async def test_a_silent_follower_leaves_the_isr_and_returns_when_it_has_caught_up() -> None:
    """Waiting records are acknowledged once the smaller ISR is stored, not when it is proposed."""
    follower = in_memory(FOLLOWER)
    follower.become_follower(ORDERS, 0)
    async with served(in_memory(1)) as leader:
        assert leader.thread is not None
        controller, producer, fetcher = [await leader.client() for _ in range(3)]
        await controller.ask(leader_and_isr(DECISION), LeaderAndIsrResponse)
        isr = Isr(1, DECISION, leader.clock.now_ms())

        async def in_step(expected: tuple[int, ...] | None, version: int) -> None:
            """One round of the leader's watch over its ISR, with a ZooKeeper that accepts."""
            assert leader.thread is not None
            for one in leader.noted.fetches:
                isr.fetched(one.follower, one.offset, one.log_end_offset, leader.clock.now_ms())
            leader.noted.fetches.clear()
            view = await leader.thread.call(lambda host: host.view(ORDERS))
            assert view is not None
            write = isr.propose(view.followers, leader.clock.now_ms(), LAG_MS)
            assert (None if write is None else write.state.isr) == expected
            await leader.thread.call(counted)
            if write is not None:
                assert not answer.done()
                done = MultiDone((ZnodeStat(1, 1, 0, 0, version, 0, 0, 0, 0, 0, 1),), 1)
                assert isr.written(done) is IsrOutcome.STORED
                await leader.thread.call(counted)

        def counted(host: ReplicaManager) -> None:
            host.set_isr(ORDERS, isr.leader_epoch, isr.maximal_isr)

        answer = await appending(producer, b"a")
        await appended(leader, 1)
        leader.clock.advance(LAG_MS)
        await in_step(None, 4)
        leader.clock.advance(1)
        await in_step((1,), 5)
        assert await acknowledged(answer) == (0, 0)

        answer = asyncio.get_running_loop().create_future()
        await fetches_once(follower, fetcher)
        await in_step(None, 5)
        await fetches_once(follower, fetcher)
        await in_step((1, 2), 6)
        assert (isr.isr, isr.version) == ((1, 2), 6)
        for client in (controller, producer, fetcher):
            await client.close()
    follower.close()
