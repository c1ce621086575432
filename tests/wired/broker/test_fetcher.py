"""A follower's fetches where something is wrong: with the host, the leader, or the broker's own end."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.waiting import PATIENCE_S
from tests.worlds.batches import records_of
from tests.worlds.replica_managers import in_memory, log_end_offset
from tests.worlds.serving import on_a_loop, opened, until
from tests.worlds.wire_requests import REQUESTS
from zkgroup.broker import fetcher
from zkgroup.broker.fetcher import ReplicaFetcherManager
from zkgroup.broker.log.data_dir import DataDir
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.quotas.replication import ReplicationQuota
from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.server import BrokerServer
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.wire.control import BrokerEndPoint
from zkgroup.wire.messages import Request
from zkgroup.wire.records import (
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.config_settings import FOLLOWER_RATE, FOLLOWER_REPLICAS

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
NOBODY = BrokerEndPoint(9, "127.0.0.1", 1)
ELSEWHERE = BrokerEndPoint(9, "127.0.0.1", 2)
SETTINGS = BrokerSettings(replica_fetch_backoff_ms=1, num_replica_fetchers=1)


class Broken(ReplicaManager):
    """Raises for one partition, which no replica manager may do, and counts its calls."""

    def __init__(self) -> None:
        super().__init__(1, DataDir.in_memory(LogConfig(), lambda: 1_000))
        self.asked: list[TopicPartition] = []

    def next_fetch(self, topic_partition: TopicPartition, max_bytes: int) -> FetchPartition | None:
        self.asked.append(topic_partition)
        if topic_partition == T0:
            raise ValueError("a mistake of the host")
        return None


def answered(partition: int, error: int = 0, end: int = 0, records: bytes = b"") -> FetchedPartition:
    """A leader's answer for one partition."""
    return FetchedPartition(
        partition, error, 0, last_stable_offset=0, log_start_offset=0, log_end_offset=end, records=records
    )


def _fetchers(host: ReplicaExecutor, broker_epoch: Callable[[], int] = lambda: 1) -> ReplicaFetcherManager:
    throttle = ReplicationQuota(1)
    return ReplicaFetcherManager(
        host, SETTINGS, broker=1, client_id="b", quota=throttle, broker_epoch=broker_epoch
    )


@on_a_loop
async def test_a_mistake_with_one_partition_does_not_end_the_others() -> None:
    """They share the connection; both are tried again and again."""
    broken = Broken()
    host = ReplicaExecutor(broken)
    fetchers = _fetchers(host)
    fetchers.follow(T0, NOBODY)
    fetchers.follow(T1, NOBODY)
    await until(lambda: broken.asked.count(T0) > 2 and broken.asked.count(T1) > 2)
    await fetchers.close()

    assert fetchers.following == frozenset()
    assert await host.close()


@on_a_loop
async def test_a_leader_that_is_not_there_is_tried_again() -> None:
    """Until the controller names another, or none."""
    memory = in_memory(1)
    memory.become_follower(T1, 0)
    host = ReplicaExecutor(memory)
    tries: list[int] = []
    fetchers = _fetchers(host, lambda: tries.append(1) or 1)
    fetchers.follow(T1, NOBODY)
    await until(lambda: len(tries) > 2)
    fetchers.leave(T1)
    fetchers.leave(T1)
    await fetchers.close()

    assert await host.close()


@on_a_loop
async def test_a_connection_that_breaks_as_its_fetcher_ends_is_not_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Past bug: asyncio logged the error of the request, which was never retrieved."""
    memory, reported, loop = in_memory(1), list[object](), asyncio.get_running_loop()
    memory.become_follower(T1, 0)
    host = ReplicaExecutor(memory)
    fetchers = _fetchers(host)
    asked = asyncio.Event()

    async def break_off(*_: object, **__: object) -> None:
        loop.call_soon(fetchers.end)
        asked.set()
        raise EOFError("the broker has closed the connection")

    monkeypatch.setattr(fetcher.BrokerClient, "ask", break_off)
    loop.set_exception_handler(lambda _, context: reported.append(context))
    fetchers.follow(T1, NOBODY)
    await asked.wait()
    await fetchers.close()
    gc.collect()

    assert reported == []
    assert await host.close()


@on_a_loop
async def test_what_is_held_is_not_fetched_until_it_is_released_or_ordered_anew() -> None:
    """A leader that was started again elsewhere changes nothing about that."""
    broken = Broken()
    host = ReplicaExecutor(broken)
    fetchers = _fetchers(host)
    for tp in (T0, T1, T2):
        fetchers.follow(tp, NOBODY)
    assert fetchers.pause() == {T0, T1, T2}
    fetchers.located({9: ELSEWHERE})
    fetchers.leave(T2)
    fetchers.follow(T1, ELSEWHERE)
    await until(lambda: broken.asked.count(T1) > 2)
    asked = set(broken.asked)
    assert fetchers.following == {T1}
    assert fetchers.pause() == {T1}, "what was held already is not named again"
    fetchers.resume({T1})
    fetchers.resume({T0, T1})
    await until(lambda: broken.asked.count(T0) > 2)
    await fetchers.close()

    assert asked == {T1}
    assert T2 not in broken.asked
    assert await host.close()


@on_a_loop
async def test_a_fetch_that_has_begun_is_not_sent_once_it_is_held() -> None:
    """Whatever it waits for: here the thread of the replicas, which has other things to do."""
    memory, gate, asked = in_memory(1), threading.Event(), []
    memory.become_follower(T1, 0)
    host = ReplicaExecutor(memory)

    async def answer(context: RequestContext, request: Request) -> FetchResponse:
        asked.append(request)
        return FetchResponse(())

    server = BrokerServer(answer, REQUESTS)
    leader = BrokerEndPoint(9, *await opened(server))
    fetchers = _fetchers(host)
    busy = asyncio.create_task(host.call(lambda one: gate.wait(PATIENCE_S)))
    fetchers.follow(T1, leader)
    for _ in range(3):
        await asyncio.sleep(0)  # the fetch has begun: it is behind what keeps the thread
    fetchers.pause()
    gate.set()
    await busy
    await host.call(lambda one: None)
    assert asked == []
    fetchers.resume({T1})
    await until(lambda: asked)
    await fetchers.close()
    await server.close()

    assert await host.close()


@on_a_loop
async def test_a_closed_host_ends_the_fetches() -> None:
    """In whichever order things are closed, nothing is left."""
    host = ReplicaExecutor(in_memory(1))
    fetchers = _fetchers(host)
    fetchers.follow(T1, NOBODY)
    assert await host.close()
    await fetchers.close()


class Stranded(Broken):
    """Has a replica whose files can be used again at the second try."""

    tries = 0

    def reopen(self, topic_partition: TopicPartition) -> bool:
        self.tries += 1
        return self.tries == 2


@on_a_loop
async def test_a_replica_whose_files_failed_is_taken_up_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not at each fetch, because each attempt reads the files from end to end."""
    monkeypatch.setattr(fetcher, "REOPEN_S", 0.2)
    caplog.set_level("INFO", "zkgroup.broker")
    stranded = Stranded()
    host = ReplicaExecutor(stranded)
    fetchers = _fetchers(host)
    fetchers.follow(T1, NOBODY)
    await until(lambda: stranded.tries > 2)
    await fetchers.close()

    assert len(stranded.asked) > stranded.tries
    assert [one.getMessage() for one in caplog.records] == ["t-1: its files can be used again"]
    assert await host.close()


@on_a_loop
async def test_throttled_partitions_take_turns_on_all_connections() -> None:
    """Else each connection takes an answer at once, and the bound is passed by as many times as there are."""
    memory = in_memory(1)
    for tp in (T0, T1, T2):
        memory.become_follower(tp, 0)
    host = ReplicaExecutor(memory)
    throttle = ReplicationQuota(1)
    throttle.configured(ConfigEntity.broker(1), {FOLLOWER_RATE: "1000"})
    throttle.configured(ConfigEntity.topic("t"), {FOLLOWER_REPLICAS: "0:1,1:1"})
    asked: list[int] = []
    at_release: list[int] = []

    async def answer(context: RequestContext, request: Request) -> FetchResponse:
        """Nothing new; where it is throttled once the other partition was asked for again and again."""
        assert isinstance(request, FetchRequest)
        numbers = [one.partition for topic in request.topics for one in topic.partitions]
        asked.extend(numbers)
        if numbers and numbers != [T2.partition]:
            polls = asked.count(T2.partition) + 3
            await until(lambda: asked.count(T2.partition) >= polls)
            at_release.append(len(asked) - asked.count(T2.partition))
        return FetchResponse(
            (FetchedTopic("t", tuple(answered(number) for number in numbers)),) if numbers else ()
        )

    server = BrokerServer(answer, REQUESTS)
    leader = BrokerEndPoint(9, *await opened(server))
    settings = replace(SETTINGS, num_replica_fetchers=3)
    fetchers = ReplicaFetcherManager(
        host, settings, broker=1, client_id="b", quota=throttle, broker_epoch=lambda: 1
    )
    for tp in (T0, T1, T2):
        fetchers.follow(tp, leader)
    await until(lambda: not throttle.holds(T0) and not throttle.holds(T1))  # both are level
    await fetchers.close()
    await server.close()

    assert at_release[0] == 1, "the other one was not asked for yet"
    assert await host.close()


def test_a_fetch_keeps_others_waiting_until_it_is_over() -> None:
    """For as long as the largest answer would take; unthrottled fetches continue, and use no quota."""
    throttle = ReplicationQuota(1)
    throttle.configured(ConfigEntity.broker(1), {FOLLOWER_RATE: "100"})
    throttle.configured(ConfigEntity.topic("t"), {FOLLOWER_REPLICAS: "0:1,1:1"})

    kept_free = throttle.begins(T0, 50, now=10.0)
    assert (kept_free, throttle.free_at(T1), throttle.free_at(T2)) == (0.5, 10.5, 0.0)
    throttle.took(T0, 20, now=10.1)
    throttle.ended(kept_free)
    assert throttle.free_at(T1) == pytest.approx(10.2)
    assert throttle.begins(T2, 50, now=11.0) == 0.0


def test_the_own_rate_wins_over_that_of_all_brokers() -> None:
    """And a bound is for the replicas that are named, until they are level."""
    throttle = ReplicationQuota(1)
    throttle.configured(ConfigEntity.broker(None), {FOLLOWER_RATE: "100"})
    throttle.configured(ConfigEntity.topic("t"), {FOLLOWER_REPLICAS: "0:1,1:2"})
    assert (throttle.rate, throttle.holds(T0), throttle.holds(T1)) == (100, True, False)
    throttle.took(T0, 50, now=10.0)
    assert throttle.free_at(T0) == 10.5
    throttle.catches_up(T0, True)
    assert not throttle.holds(T0)
    throttle.configured(ConfigEntity.broker(1), {FOLLOWER_RATE: "7"})
    throttle.configured(ConfigEntity.topic("t"), {FOLLOWER_REPLICAS: "*"})
    assert (throttle.rate, throttle.holds(T1)) == (7, True)
    throttle.configured(ConfigEntity.topic("t"), {})
    assert not throttle.holds(T1)


@pytest.mark.parametrize("rate", ["0", "-1", "fast", "1.5"])
def test_a_rate_that_is_none_is_refused(rate: str) -> None:
    """It names the setting; the throttle is off then."""
    throttle = ReplicationQuota(1)
    with pytest.raises(ConfigError, match="bytes a second"):
        throttle.configured(ConfigEntity.broker(1), {FOLLOWER_RATE: rate})
    assert throttle.rate is None


class ScriptedLeader:
    """A leader that notes each request, and whose answers the test releases."""

    def __init__(self) -> None:
        self.requests: list[FetchRequest] = []
        self._responses: asyncio.Queue[FetchResponse] = asyncio.Queue()
        self._server = BrokerServer(self._answer, REQUESTS)
        self.cut_off = 0

    async def start(self) -> BrokerEndPoint:
        return BrokerEndPoint(9, *await opened(self._server))

    async def _answer(self, context: RequestContext, request: Request) -> FetchResponse:
        assert isinstance(request, FetchRequest)
        self.requests.append(request)
        try:
            return await self._responses.get()
        except asyncio.CancelledError:
            self.cut_off += 1
            raise

    async def asked(self, count: int) -> FetchRequest:
        """The request of this number, from 1."""
        await until(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    def answers(self, *partitions: FetchedPartition, session_id: int = 7, error: int = 0) -> None:
        topics = (FetchedTopic("t", partitions),) if partitions else ()
        self._responses.put_nowait(FetchResponse(topics, session_id=session_id, error=error))

    async def close(self) -> None:
        await self._server.close()


def named(request: FetchRequest) -> dict[int, int]:
    """The partitions that a request names, with their offsets."""
    return {one.partition: one.offset for topic in request.topics for one in topic.partitions}


def session(request: FetchRequest) -> tuple[int, int]:
    return request.session_id, request.session_epoch


@asynccontextmanager
async def follower_of(
    leader: ScriptedLeader, *partitions: TopicPartition, settings: BrokerSettings = SETTINGS
) -> AsyncIterator[tuple[ReplicaFetcherManager, ReplicaManager]]:
    """A broker that follows partitions, of which the test knows the replica manager."""
    memory = in_memory(1)
    for tp in (T0, T1, T2):
        memory.become_follower(tp, 0)
    host = ReplicaExecutor(memory)
    fetchers = ReplicaFetcherManager(
        host, settings, broker=1, client_id="b", quota=ReplicationQuota(1), broker_epoch=lambda: 5
    )
    place = await leader.start()
    for tp in partitions:
        fetchers.follow(tp, place)
    try:
        yield fetchers, memory
    finally:
        await fetchers.close()
        await leader.close()
        assert await host.close()


RECORD = records_of([b"a"], timestamp_ms=1, base_offset=0, leader_epoch=0)


@on_a_loop
async def test_all_partitions_are_fetched_by_one_request_and_then_those_that_have_changed() -> None:
    """The next request names what has moved, the one after it nothing; settings are in each."""
    leader = ScriptedLeader()
    settings = replace(SETTINGS, replica_fetch_response_max_bytes=99, replica_fetch_max_bytes=77)
    async with follower_of(leader, T0, T1, T2, settings=settings) as (_, memory):
        first = await leader.asked(1)
        assert (named(first), session(first), first.broker_epoch) == ({0: 0, 1: 0, 2: 0}, (0, 0), 5)
        assert (first.max_bytes, first.topics[0].partitions[0].max_bytes, first.min_bytes) == (99, 77, 1)
        leader.answers(answered(0), answered(1, end=1, records=RECORD), answered(2))
        second = await leader.asked(2)
        assert (named(second), session(second), second.forgotten) == ({1: 1}, (7, 1), ())
        assert log_end_offset(memory, T1) == 1
        leader.answers()
        third = await leader.asked(3)
        assert (named(third), session(third)) == ({}, (7, 2))
        leader.answers()


class Kept(dict[TopicPartition, FetchPartition]):
    """Partitions that are looked up one by one."""

    def __iter__(self) -> Iterator[TopicPartition]:
        raise AssertionError("all partitions are gone through")

    items = values = keys = copy = __iter__  # type: ignore[assignment]


@on_a_loop
async def test_a_round_goes_through_the_partitions_of_its_answer_alone() -> None:
    """Past bug: all partitions of the session were copied for each request, also the idle ones."""
    leader = ScriptedLeader()
    async with follower_of(leader, T0, T1, T2) as (fetchers, memory):
        await leader.asked(1)
        (fetcher_of_all,) = {one for _, one in fetchers._assigned.values()}
        leader.answers(answered(0), answered(1), answered(2))
        await leader.asked(2)
        fetcher_of_all._session.partitions = Kept(fetcher_of_all._session.partitions)
        looked_at: list[TopicPartition] = []
        next_fetch = memory.next_fetch

        def counted(tp: TopicPartition, max_bytes: int) -> FetchPartition | None:
            looked_at.append(tp)
            return next_fetch(tp, max_bytes)

        memory.next_fetch = counted  # type: ignore[method-assign]
        leader.answers(answered(1, end=1, records=RECORD))
        third = await leader.asked(3)
        leader.answers()
        fourth = await leader.asked(4)

        assert (named(third), named(fourth), looked_at) == ({1: 1}, {}, [T1])
        fetcher_of_all._session.partitions = dict(dict.items(fetcher_of_all._session.partitions))
        leader.answers()


@on_a_loop
async def test_a_partition_with_an_error_is_left_out_for_a_while_and_delays_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is forgotten, named again after the back-off, and the request ends by then."""
    leader, loop = ScriptedLeader(), asyncio.get_running_loop()
    settings = replace(
        SETTINGS,
        replica_fetch_backoff_ms=30_000,
        replica_fetch_wait_max_ms=60_000,
        replica_socket_timeout_ms=600_000,
    )
    async with follower_of(leader, T0, T1, settings=settings):
        await leader.asked(1)
        leader.answers(answered(0, error=6), answered(1))
        second = await leader.asked(2)
        assert (named(second), [one.partitions for one in second.forgotten]) == ({}, [(0,)])
        assert 0 < second.max_wait_ms <= 30_001
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + 30)
        leader.answers()
        assert named(await leader.asked(3)) == {0: 0}
        leader.answers()


@on_a_loop
async def test_a_new_partition_cuts_off_a_request_that_the_leader_holds() -> None:
    """A new session begins, and the leader is asked to end the one before."""
    leader = ScriptedLeader()
    async with follower_of(leader, T0) as (fetchers, _):
        await leader.asked(1)
        leader.answers(answered(0))
        await leader.asked(2)
        fetchers.follow(T1, next(iter(fetchers._fetchers)))
        third = await leader.asked(3)
        assert (named(third), session(third)) == ({0: 0, 1: 0}, (7, 0))
        await until(lambda: leader.cut_off == 1)


@on_a_loop
async def test_a_partition_that_is_left_is_forgotten_and_its_answer_ignored() -> None:
    """Also where it is followed again meanwhile: it may be of another topic of that name."""
    leader = ScriptedLeader()
    async with follower_of(leader, T0, T1) as (fetchers, memory):
        await leader.asked(1)
        fetchers.leave(T0)
        leader.answers(answered(0, end=1, records=RECORD), answered(1))
        second = await leader.asked(2)
        assert (named(second), [one.partitions for one in second.forgotten]) == ({}, [(0,)])
        assert log_end_offset(memory, T0) == 0


@on_a_loop
async def test_a_leader_without_the_session_gets_a_full_request() -> None:
    """At once, for both errors; any other error is one of the connection."""
    leader = ScriptedLeader()
    async with follower_of(leader, T0, T1):
        await leader.asked(1)
        leader.answers(answered(0), answered(1))
        for number, error in enumerate((70, 71, 2), start=2):
            await leader.asked(2 * number - 2)
            leader.answers(error=error, session_id=0)
            full = await leader.asked(2 * number - 1)
            assert (named(full), session(full)) == ({0: 0, 1: 0}, (0, 0))
            leader.answers(answered(0), answered(1))


@on_a_loop
async def test_a_leader_that_keeps_no_session_is_asked_for_everything_each_time() -> None:
    """Its sessions are all taken."""
    leader = ScriptedLeader()
    async with follower_of(leader, T0, T1):
        for number in (1, 2, 3):
            request = await leader.asked(number)
            assert (named(request), session(request)) == ({0: 0, 1: 0}, (0, 0))
            leader.answers(answered(0), answered(1), session_id=0)
