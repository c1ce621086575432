"""The replica fetchers of a broker: each connection to a leader fetches its partitions in turn.

A leader delays the response to a fetch while it has no new lines, so an idle partition costs two requests a
second. `ReplicaManager.next_fetch` makes the request and `ReplicaManager.take` handles the response; a
response for an earlier role changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from zkgroup.broker.quota import ReplicationQuota
from zkgroup.broker.replicas.executor import ExecutorClosedError, ReplicaExecutor
from zkgroup.broker.replicas.line_fetches import as_fetched
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import WireError
from zkgroup.model import TopicPartition
from zkgroup.wire.client import BrokerClient
from zkgroup.wire.control import BrokerEndPoint
from zkgroup.wire.replica_host import FetchLinesRequest, FetchLinesResponse

log = logging.getLogger("zkgroup.broker")

WAIT_MIN_MS = 20
"""Least `max_wait_ms` of a fetch, however many partitions share the connection."""

REOPEN_S = 30.0
"""Interval between two attempts to open failed files again: each attempt reads them from end to end."""


class ReplicaFetcherManager:
    """All fetches of one broker. Made and used on one event loop."""

    def __init__(
        self,
        host: ReplicaExecutor,
        settings: BrokerSettings,
        *,
        broker: int,
        client_id: str,
        quota: ReplicationQuota,
        broker_epoch: Callable[[], int],
    ) -> None:
        """`broker_epoch` returns the present epoch of this broker, which each fetch carries."""
        self._host = host
        self._settings = settings
        self._broker = broker
        self._client_id = client_id
        self._quota = quota
        self._broker_epoch = broker_epoch
        self._fetchers: dict[BrokerEndPoint, list[_ReplicaFetcher]] = {}
        self._assigned: dict[TopicPartition, tuple[BrokerEndPoint, _ReplicaFetcher]] = {}
        self._paused: set[TopicPartition] = set()
        """Followed partitions whose fetches are paused."""
        self._ending: set[asyncio.Task[None]] = set()
        self._is_over = False

    @property
    def following(self) -> frozenset[TopicPartition]:
        """The partitions that are fetched now."""
        return frozenset(self._assigned.keys() - self._paused)

    def follow(self, tp: TopicPartition, leader: BrokerEndPoint) -> None:
        """Fetches a partition from this leader only, from now on. Without effect after `end`."""
        if self._is_over:
            return
        self._paused.discard(tp)
        self._take(tp, leader)

    def _take(self, tp: TopicPartition, leader: BrokerEndPoint) -> None:
        home = self._assigned.get(tp)
        if home is not None and home[0] == leader:
            home[1].add(tp)
            return
        self._drop(tp)
        fetchers = self._fetchers.setdefault(leader, [])
        fetcher = min(fetchers, key=lambda one: len(one.partitions), default=None)
        if fetcher is None or (fetcher.partitions and len(fetchers) < self._settings.num_replica_fetchers):
            fetcher = _ReplicaFetcher(self, leader)
            fetchers.append(fetcher)
        fetcher.add(tp)
        self._assigned[tp] = leader, fetcher

    def leave(self, tp: TopicPartition) -> None:
        """Stops fetching a partition."""
        self._paused.discard(tp)
        self._drop(tp)

    def pause(self) -> frozenset[TopicPartition]:
        """Pauses all fetches until `resume` or `follow`; returns the partitions that were not paused before.

        A fetch in progress is cancelled, whether it was sent or not.
        """
        homes = {tp: leader for tp, (leader, _) in self._assigned.items()}
        for tp in homes:
            self._drop(tp)
        new = frozenset(homes.keys() - self._paused)
        self._paused.update(homes)
        for tp, leader in homes.items():
            self._take(tp, leader)
        return new

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Resumes the paused fetches of these partitions."""
        if not self._paused.isdisjoint(partitions):
            self._paused.difference_update(partitions)
            self.wake()

    def _drop(self, tp: TopicPartition) -> None:
        home = self._assigned.pop(tp, None)
        if home is None:
            return
        leader, fetcher = home
        fetcher.remove(tp)
        self._quota.catches_up(tp, False)
        if not fetcher.partitions:
            fetchers = self._fetchers[leader]
            fetchers.remove(fetcher)
            if not fetchers:
                del self._fetchers[leader]
            task = fetcher.end()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def located(self, brokers: Mapping[int, BrokerEndPoint]) -> None:
        """Takes the present addresses of brokers; fetches go to a leader's new address.

        A leader that restarted at another address may still lead in the same leader epoch.
        """
        for leader in tuple(self._fetchers):
            now = brokers.get(leader.broker, leader)
            if now != leader:
                for tp in [tp for tp, home in self._assigned.items() if home[0] == leader]:
                    self._take(tp, now)

    def wake(self) -> None:
        """Makes waiting fetchers compute again when their next fetch is due."""
        for fetchers in self._fetchers.values():
            for fetcher in fetchers:
                fetcher.wake()

    def end(self) -> None:
        """Ends all fetches; `follow` has no effect from then on."""
        self._is_over = True
        for tp in tuple(self._assigned):
            self.leave(tp)

    async def close(self) -> None:
        """Ends all fetches and waits until their connections are closed."""
        self.end()
        if self._ending:
            await asyncio.wait(set(self._ending))


class _ReplicaFetcher:
    """One connection to a leader, and the partitions that are fetched over it."""

    def __init__(self, all_fetchers: ReplicaFetcherManager, leader: BrokerEndPoint) -> None:
        self._all = all_fetchers
        settings = all_fetchers._settings
        self._client = BrokerClient(
            leader.host,
            leader.port,
            client_id=all_fetchers._client_id,
            timeout_ms=settings.replica_socket_timeout_ms + settings.replica_fetch_wait_max_ms,
        )
        self._where = f"broker {leader.broker} at {leader.host}:{leader.port}"
        self.partitions: dict[TopicPartition, float] = {}
        """Partition to the earliest time of its next fetch, on the loop's clock in seconds."""
        self._reopens_at: dict[TopicPartition, float] = {}
        self._changed = asyncio.Event()
        self._is_failing = False
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"fetches from {self._where}")

    def add(self, tp: TopicPartition) -> None:
        self.partitions[tp] = 0.0
        self._changed.set()

    def remove(self, tp: TopicPartition) -> None:
        del self.partitions[tp]
        self._reopens_at.pop(tp, None)

    def wake(self) -> None:
        self._changed.set()

    def end(self) -> asyncio.Task[None]:
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._changed.clear()
                for tp in tuple(self.partitions):
                    if self._due(tp) <= loop.time():
                        await self._fetch(tp)
                await self._wait(min(map(self._due, self.partitions), default=None))
        except ExecutorClosedError as error:
            log.debug("%s: nothing is fetched any more: %s", self._where, error)
        finally:
            await self._client.close()

    def _due(self, tp: TopicPartition) -> float:
        if tp in self._all._paused:
            return float("inf")
        return max(self.partitions.get(tp, float("inf")), self._all._quota.free_at(tp))

    async def _wait(self, until: float | None) -> None:
        """Waits until that time, or until `wake` or `add` is called."""
        try:
            async with asyncio.timeout_at(until):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _fetch(self, tp: TopicPartition) -> None:
        """Fetches a partition once; after an error it waits for `replica_fetch_backoff_ms`."""
        go_on = False
        try:
            go_on = await self._fetched(tp)
            self._is_failing = False
        except (OSError, EOFError, WireError) as error:
            level = logging.DEBUG if self._is_failing else logging.INFO
            self._is_failing = True
            log.log(level, "%s: a fetch failed: %s", self._where, str(error) or type(error).__name__)
        except ExecutorClosedError:
            raise
        except Exception:
            log.exception("%s: the fetch of %s failed", self._where, tp)
        if tp in self.partitions:
            now = asyncio.get_running_loop().time()
            backoff_s = self._all._settings.replica_fetch_backoff_ms / 1000
            self.partitions[tp] = now if go_on else now + backoff_s

    async def _fetched(self, tp: TopicPartition) -> bool:
        """Fetches a partition within the quota; one connection at a time fetches throttled partitions."""
        quota, max_bytes = self._all._quota, self._all._settings.replica_fetch_max_bytes
        if quota.holds(tp):
            max_bytes = min(max_bytes, quota.rate or max_bytes)
        kept_free = quota.begins(tp, max_bytes, asyncio.get_running_loop().time())
        try:
            return await self._asked(tp, max_bytes)
        finally:
            if kept_free:
                quota.ended(kept_free)
                self._all.wake()

    async def _asked(self, tp: TopicPartition, max_bytes: int) -> bool:
        settings, quota, host = self._all._settings, self._all._quota, self._all._host
        wait_ms = max(WAIT_MIN_MS, settings.replica_fetch_wait_max_ms // len(self.partitions))
        if quota.holds(tp):
            wait_ms = 0  # other connections wait until this fetch ends
        partition = await host.call(lambda one: one.next_fetch(tp, max_bytes))
        if partition is None:
            await self._reopen(tp)
            return False
        self._reopens_at.pop(tp, None)
        request = FetchLinesRequest(
            self._all._broker,
            self._all._broker_epoch(),
            *tp,
            partition.current_leader_epoch,
            partition.last_fetched_epoch,
            partition.offset,
            max_bytes,
            wait_ms,
        )
        response = await self._client.ask(request, FetchLinesResponse)
        size = len(response.records)
        quota.took(tp, size, asyncio.get_running_loop().time())
        quota.catches_up(tp, response.error == 0 and request.offset >= response.log_end_offset)
        fetched = as_fetched(tp.partition, response)
        return await host.call(lambda one: one.take(tp, partition, fetched))

    async def _reopen(self, tp: TopicPartition) -> None:
        """Opens the failed files of a follower again after `REOPEN_S`: the disk may have been full."""
        now = asyncio.get_running_loop().time()
        if now >= self._reopens_at.setdefault(tp, now + REOPEN_S):
            del self._reopens_at[tp]
            if await self._all._host.call(lambda one: one.reopen(tp)):
                log.info("%s: its files can be used again", tp)
