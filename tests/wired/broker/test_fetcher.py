"""A follower's fetches where something is wrong: with the host, the leader, or the broker's own end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.worlds.replica_managers import in_memory
from tests.worlds.serving import on_a_loop, until
from zkgroup.broker import fetcher
from zkgroup.broker.fetcher import ReplicaFetcherManager
from zkgroup.broker.log.data_dir import DataDir
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.quota import ReplicationQuota
from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.server import BrokerServer
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.wire.control import BrokerEndPoint
from zkgroup.wire.messages import Request
from zkgroup.wire.records import FetchPartition
from zkgroup.wire.replica_host import FetchLinesRequest, FetchLinesResponse
from zkgroup.wire.requests import READABLE
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

    async def answer(context: RequestContext, request: Request) -> FetchLinesResponse:
        asked.append(request)
        return FetchLinesResponse(0, 0, 0)

    server = BrokerServer(answer, READABLE)
    leader = BrokerEndPoint(9, *await server.start("127.0.0.1"))
    fetchers = _fetchers(host)
    busy = asyncio.create_task(host.call(lambda one: gate.wait(60)))
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

    async def answer(context: RequestContext, request: Request) -> FetchLinesResponse:
        """Nothing new; where it is throttled once the other partition was asked for again and again."""
        assert isinstance(request, FetchLinesRequest)
        asked.append(request.partition)
        if request.partition != T2.partition:
            polls = asked.count(T2.partition) + 3
            await until(lambda: asked.count(T2.partition) >= polls)
            at_release.append(len(asked) - asked.count(T2.partition))
        return FetchLinesResponse(0, 0, 0)

    server = BrokerServer(answer, READABLE)
    leader = BrokerEndPoint(9, *await server.start("127.0.0.1"))
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
