"""A follower's fetches: each connection to a leader takes the partitions given to it in turns.

A leader holds a fetch back while it has nothing new, so an idle partition costs two requests a second. The
host decides what to ask and what an answer means (`ReplicaManager.next_fetch`, `take`); an answer for a role
that is over changes nothing there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from zkgroup.broker.quota import ReplicationQuota
from zkgroup.broker.replicas.executor import ExecutorClosedError, ReplicaExecutor
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import WireError
from zkgroup.model import TopicPartition
from zkgroup.wire.client import BrokerClient
from zkgroup.wire.control import Broker
from zkgroup.wire.replica_host import FetchLinesResponse

log = logging.getLogger("zkgroup.broker")

WAIT_MIN_MS = 20
"""A fetch waits at least so long at an idle leader, however many partitions take turns."""

REOPEN_S = 30.0
"""Between two tries to go on with a replica whose files failed: each reads them from end to end."""


class ReplicaFetcherManager:
    """All fetches of one broker. Made and used on one event loop."""

    def __init__(
        self,
        host: ReplicaExecutor,
        settings: BrokerSettings,
        *,
        client_id: str,
        quota: ReplicationQuota,
        broker_epoch: Callable[[], int],
    ) -> None:
        """`broker_epoch`: the present incarnation of this broker, sent to leaders."""
        self._host = host
        self._settings = settings
        self._client_id = client_id
        self._quota = quota
        self._broker_epoch = broker_epoch
        self._fetchers: dict[Broker, list[_ReplicaFetcher]] = {}
        self._assigned: dict[TopicPartition, tuple[Broker, _ReplicaFetcher]] = {}
        self._paused: set[TopicPartition] = set()
        """Followed, and not to be fetched for now."""
        self._ending: set[asyncio.Task[None]] = set()
        self._is_over = False

    @property
    def following(self) -> frozenset[TopicPartition]:
        """What is fetched now."""
        return frozenset(self._assigned.keys() - self._paused)

    def follow(self, tp: TopicPartition, leader: Broker) -> None:
        """Fetches this partition from there, and from nowhere else; at once. Not after `end`."""
        if self._is_over:
            return
        self._paused.discard(tp)
        self._take(tp, leader)

    def _take(self, tp: TopicPartition, leader: Broker) -> None:
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
        """Fetches it no more."""
        self._paused.discard(tp)
        self._drop(tp)

    def pause(self) -> frozenset[TopicPartition]:
        """Fetches nothing until `resume`, or a later `follow`; returns what was not paused before.

        A fetch that has begun is given up, whether it was sent or not.
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
        """Fetches these again."""
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

    def located(self, brokers: Mapping[int, Broker]) -> None:
        """Where brokers are now: a leader that was started again elsewhere may lead on in its old term."""
        for leader in tuple(self._fetchers):
            now = brokers.get(leader.broker, leader)
            if now != leader:
                for tp in [tp for tp, home in self._assigned.items() if home[0] == leader]:
                    self._take(tp, now)

    def wake(self) -> None:
        """What is due has changed: waiting fetchers check again."""
        for fetchers in self._fetchers.values():
            for fetcher in fetchers:
                fetcher.wake()

    def end(self) -> None:
        """Nothing is fetched from here on, whatever a controller says."""
        self._is_over = True
        for tp in tuple(self._assigned):
            self.leave(tp)

    async def close(self) -> None:
        """Ends all of them."""
        self.end()
        if self._ending:
            await asyncio.wait(set(self._ending))


class _ReplicaFetcher:
    """One connection to a leader."""

    def __init__(self, all_fetchers: ReplicaFetcherManager, leader: Broker) -> None:
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
        """With the time from when each may be fetched, on the loop's clock."""
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
        """For the time, or for another partition."""
        try:
            async with asyncio.timeout_at(until):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _fetch(self, tp: TopicPartition) -> None:
        """One fetch. After an error the partition backs off."""
        go_on = False
        try:
            go_on = await self._fetched(tp)
            self._is_failing = False
        except (OSError, EOFError, WireError) as error:
            level = logging.DEBUG if self._is_failing else logging.INFO
            self._is_failing = True
            log.log(
                level, "%s: nothing could be fetched: %s", self._where, str(error) or type(error).__name__
            )
        except ExecutorClosedError:
            raise
        except Exception:
            log.exception("%s: %s could not be fetched", self._where, tp)
        if tp in self.partitions:
            now = asyncio.get_running_loop().time()
            backoff_s = self._all._settings.replica_fetch_backoff_ms / 1000
            self.partitions[tp] = now if go_on else now + backoff_s

    async def _fetched(self, tp: TopicPartition) -> bool:
        """One fetch. What is throttled is fetched by one connection at a time."""
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
            wait_ms = 0  # others wait for the end of it
        request = await host.call(
            lambda one: one.next_fetch(
                tp, broker_epoch=self._all._broker_epoch(), max_bytes=max_bytes, max_wait_ms=wait_ms
            )
        )
        if request is None:
            await self._reopen(tp)
            return False
        self._reopens_at.pop(tp, None)
        response = await self._client.ask(request, FetchLinesResponse)
        size = len(response.records)
        quota.took(tp, size, asyncio.get_running_loop().time())
        quota.catches_up(tp, response.error == 0 and request.offset >= response.log_end_offset)
        return await host.call(lambda one: one.take(request, response))

    async def _reopen(self, tp: TopicPartition) -> None:
        """The replica does not follow: perhaps its disk was full, and has room again by now."""
        now = asyncio.get_running_loop().time()
        if now >= self._reopens_at.setdefault(tp, now + REOPEN_S):
            del self._reopens_at[tp]
            if await self._all._host.call(lambda one: one.reopen(tp)):
                log.info("%s: its files can be used again", tp)
