"""The replica fetchers of a broker: each connection to a leader fetches its partitions together.

A leader delays the answer to a Fetch while it has nothing new. Requests are in a fetch session
(`FetchSessionHandler`), so that each names only the partitions whose position has changed: idle partitions
cost nothing while others are fetched. `ReplicaManager.next_fetch` gives the position of a partition, and
`ReplicaManager.take` handles the answer; an answer for an earlier role changes nothing.

A partition with an error leaves the session for `replica_fetch_backoff_ms`, and a throttled one until its
time. A new partition cuts off the request that the leader holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from zkgroup.broker.fetch_session import FetchSessionHandler
from zkgroup.broker.quotas.replication import ReplicationQuota
from zkgroup.broker.replicas.executor import ExecutorClosedError, ReplicaExecutor
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import BrokerAuthenticationError, ConfigError, WireError
from zkgroup.model import TopicPartition
from zkgroup.runtime.logs import get_logger
from zkgroup.security.client import ClientSecurity
from zkgroup.wire.client import BrokerClient
from zkgroup.wire.control import BrokerEndPoint
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import FetchedPartition, FetchPartition, FetchResponse

log = get_logger("zkgroup.broker")

FETCH_VERSION = 12
SESSION_ERRORS = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)

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
        security: ClientSecurity | None = None,
    ) -> None:
        """
        Args:
            broker_epoch: returns the present epoch of this broker, which each fetch carries.
            security: how leaders are reached.
        """
        self._security = security
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
            self.wake(is_urgent=True)

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

    def wake(self, *, is_urgent: bool = False) -> None:
        """Makes waiting fetchers compute again when their next fetch is due."""
        for fetchers in self._fetchers.values():
            for fetcher in fetchers:
                fetcher.wake(is_urgent=is_urgent)

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
            security=all_fetchers._security,
        )
        self._where = f"broker {leader.broker} at {leader.host}:{leader.port}"
        self.partitions: set[TopicPartition] = set()
        self._session = FetchSessionHandler()
        self._outside: dict[TopicPartition, float] = {}
        """Partitions that the next request does not fetch yet, to the earliest time at which one does, on the
        loop's clock in seconds."""
        self._moved: set[TopicPartition] = set()
        """Partitions of the session whose position may differ from the one that was named last."""
        self._throttled: tuple[TopicPartition, float] | None = None
        """The throttled partition of the next request, and the time that it has reserved."""
        self._reopens_at: dict[TopicPartition, float] = {}
        self._changed = asyncio.Event()
        self._is_urgent = False
        self._cut_off: asyncio.Timeout | None = None
        """Ends the request in progress; None without one."""
        self._is_failing = False
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"fetches from {self._where}")

    def add(self, tp: TopicPartition) -> None:
        """Fetches a partition, or fetches it from its present position and leader epoch on."""
        self.partitions.add(tp)
        if tp in self._session.partitions:
            self._moved.add(tp)
        else:
            self._outside[tp] = 0.0
            self.wake(is_urgent=True)

    def remove(self, tp: TopicPartition) -> None:
        self.partitions.discard(tp)
        self._leave_session(tp)
        self._outside.pop(tp, None)
        self._reopens_at.pop(tp, None)

    def wake(self, *, is_urgent: bool = False) -> None:
        """Checks again which partitions are due; if it is urgent, the request in progress is cut off."""
        self._is_urgent = self._is_urgent or is_urgent
        self._changed.set()
        if is_urgent and self._cut_off is not None and not self._cut_off.expired():
            self._cut_off.reschedule(0)

    def end(self) -> asyncio.Task[None]:
        self._task.cancel()
        return self._task

    def _leave_session(self, tp: TopicPartition) -> None:
        self._session.forget(tp)
        self._moved.discard(tp)

    def _put_off(self, tp: TopicPartition, until: float) -> None:
        """Leaves a partition out of requests until a time."""
        self._leave_session(tp)
        if tp in self.partitions:
            self._outside[tp] = until

    def _due(self, tp: TopicPartition) -> float:
        if tp in self._all._paused:
            return float("inf")
        return max(self._outside[tp], self._all._quota.free_at(tp))

    def _collect(self, now: float) -> None:
        """Takes the partitions that are due into the next request; of the throttled ones at most one."""
        quota = self._all._quota
        if quota.rate is not None:
            for tp in [tp for tp in self._session.partitions if quota.holds(tp)]:
                self._put_off(tp, now)
        for tp in [tp for tp in self._outside if self._due(tp) <= now]:
            if quota.holds(tp):
                if self._throttled is not None:
                    continue
                self._throttled = tp, quota.begins(tp, self._max_bytes(tp), now)
            del self._outside[tp]
            self._moved.add(tp)

    def _max_bytes(self, tp: TopicPartition) -> int:
        quota, max_bytes = self._all._quota, self._all._settings.replica_fetch_max_bytes
        return min(max_bytes, quota.rate or max_bytes) if quota.holds(tp) else max_bytes

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._changed.clear()
                self._is_urgent = False
                self._collect(loop.time())
                if self._moved or self._session.partitions:
                    await self._fetch()
                else:
                    await self._wait(min(map(self._due, self._outside), default=None))
        except ExecutorClosedError as error:
            log.debug("%s: nothing is fetched any more: %s", self._where, error)
        finally:
            self._end_throttled()
            await self._client.close()

    async def _wait(self, until: float | None) -> None:
        """Waits until that time, or until `wake` or `add` is called."""
        try:
            async with asyncio.timeout_at(until):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _fetch(self) -> None:
        """Fetches once; after a failure of the connection it waits for `replica_fetch_backoff_ms`."""
        loop = asyncio.get_running_loop()
        backoff_s = self._all._settings.replica_fetch_backoff_ms / 1000
        try:
            await self._position()
            if self._session.partitions and not self._is_urgent:
                await self._round()
            self._is_failing = False
        except (OSError, EOFError, WireError, BrokerAuthenticationError, ConfigError) as error:
            is_refused = isinstance(error, BrokerAuthenticationError | ConfigError)
            level = logging.WARNING if is_refused else logging.INFO
            level = logging.DEBUG if self._is_failing else level
            self._is_failing = True
            log.log(level, "%s: a fetch failed: %s", self._where, str(error) or type(error).__name__)
            self._session.reset()
            self._moved.update(self._session.partitions)
            await asyncio.sleep(backoff_s)
        finally:
            self._end_throttled()
            if self._all._quota.rate is not None:
                for tp in [tp for tp in self._session.partitions if self._all._quota.holds(tp)]:
                    self._put_off(tp, loop.time())

    def _end_throttled(self) -> None:
        if self._throttled is not None:
            (_, kept_free), self._throttled = self._throttled, None
            self._all._quota.ended(kept_free)
            self._all.wake()

    async def _position(self) -> None:
        """Names the positions of the partitions that may have moved."""
        if not self._moved:
            return
        moved = {tp: self._max_bytes(tp) for tp in self._moved}
        self._moved.clear()
        found = await self._all._host.call(
            lambda host: {tp: _next_fetch(host, tp, size) for tp, size in moved.items()}
        )
        for tp, partition in found.items():
            await self._moved_to(tp, partition)

    async def _moved_to(self, tp: TopicPartition, partition: FetchPartition | None) -> None:
        """Fetches from there on; None: the replica does not follow, and its files may have failed."""
        if tp not in self.partitions:
            return
        if partition is not None:
            self._reopens_at.pop(tp, None)
            self._session.fetch(tp, partition)
            return
        self._back_off(tp)
        await self._reopen(tp)

    def _back_off(self, tp: TopicPartition) -> None:
        now = asyncio.get_running_loop().time()
        self._put_off(tp, now + self._all._settings.replica_fetch_backoff_ms / 1000)

    async def _round(self) -> None:
        """Sends a request and handles the answer."""
        response = await self._ask()
        if response is None:
            return
        if not self._session.answered(response):
            log.info("%s: error %d: a new fetch session begins", self._where, response.error)
            self._moved.update(self._session.partitions)
            if response.error not in SESSION_ERRORS:
                raise OSError(f"error {response.error} in the answer to a fetch")
            return
        await self._handle(response)

    async def _ask(self) -> FetchResponse | None:
        """The answer of the leader; None if the request was cut off, for partitions that it does not name."""
        settings, now = self._all._settings, asyncio.get_running_loop().time()
        due_s = min(map(self._due, self._outside), default=float("inf")) - now
        wait_ms = int(min(settings.replica_fetch_wait_max_ms, max(0.0, due_s * 1000) + 1))
        request = self._session.request(
            replica_id=self._all._broker,
            broker_epoch=self._all._broker_epoch(),
            max_wait_ms=0 if self._throttled is not None else wait_ms,
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
        )
        try:
            async with asyncio.timeout(None) as self._cut_off:
                return await self._client.ask(request, FetchResponse, version=FETCH_VERSION)
        except TimeoutError:
            if not self._is_urgent:
                raise
        finally:
            self._cut_off = None
        self._session.reset()
        self._moved.update(self._session.partitions)
        return None

    async def _handle(self, response: FetchResponse) -> None:
        """Passes an answer to the replicas, and learns their next positions in the same call.

        A partition that was removed since the request is not in the session, also if it was added again: its
        answer may be of a deleted topic of that name.
        """
        quota, now = self._all._quota, asyncio.get_running_loop().time()
        answers: list[_Answer] = []
        for topic in response.topics:
            for fetched in topic.partitions:
                tp = TopicPartition(topic.topic, fetched.partition)
                if (request := self._session.partitions.get(tp)) is None:
                    continue
                quota.took(tp, len(fetched.records or b""), now)
                quota.catches_up(tp, fetched.error == 0 and request.offset >= fetched.log_end_offset)
                answers.append(_Answer(tp, request, fetched, self._max_bytes(tp)))
        for tp, go_on, partition in await self._all._host.call(lambda host: _take_all(host, answers)):
            if go_on:
                await self._moved_to(tp, partition)
            elif tp in self.partitions:
                self._back_off(tp)

    async def _reopen(self, tp: TopicPartition) -> None:
        """Opens the failed files of a follower again after `REOPEN_S`: the disk may have been full."""
        now = asyncio.get_running_loop().time()
        if now >= self._reopens_at.setdefault(tp, now + REOPEN_S):
            del self._reopens_at[tp]
            if await self._all._host.call(lambda one: one.reopen(tp)):
                log.info("%s: its files can be used again", tp)


class _Answer(NamedTuple):
    """A leader's answer for one partition."""

    topic_partition: TopicPartition
    request: FetchPartition
    fetched: FetchedPartition
    max_bytes: int
    """Of the next fetch."""


def _take_all(
    host: ReplicaManager, answers: list[_Answer]
) -> list[tuple[TopicPartition, bool, FetchPartition | None]]:
    """Takes the answers; for each partition whether to go on at once, and from where."""
    done: list[tuple[TopicPartition, bool, FetchPartition | None]] = []
    for tp, request, fetched, max_bytes in answers:
        try:
            go_on = host.take(tp, request, fetched)
        except Exception:
            log.exception("the answer for %s failed", tp)
            go_on = False
        done.append((tp, go_on, _next_fetch(host, tp, max_bytes) if go_on else None))
    return done


def _next_fetch(host: ReplicaManager, tp: TopicPartition, max_bytes: int) -> FetchPartition | None:
    """The position of a replica; None also for a bug of the replica manager, which is logged."""
    try:
        return host.next_fetch(tp, max_bytes)
    except Exception:
        log.exception("the fetch of %s failed", tp)
        return None
