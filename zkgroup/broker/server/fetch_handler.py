"""The handler of Fetch: reads on the thread of the replicas, and waits on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from zkgroup.broker.machine.events import FollowerFetched
from zkgroup.broker.quotas.managers import ClientQuotaManager
from zkgroup.broker.quotas.replication import ReplicationQuota
from zkgroup.broker.replica_view import FollowerId
from zkgroup.broker.replicas.executor import PartitionWatch, ReplicaExecutor
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.replica import no_fetch
from zkgroup.broker.server.control_queue import RequestObserver
from zkgroup.broker.server.fetch_requests import (
    FOLLOWER_VERSION,
    RECORD_BATCH_VERSION,
    DelayedFetch,
    bytes_of,
    follower_of,
    forgotten_by,
    partitions_of,
    refused,
    size_of,
    topics_of,
    without_zstd,
)
from zkgroup.broker.server.fetch_sessions import FetchSession, FetchSessions
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.peer_claim_checker import PeerClaimChecker
from zkgroup.broker.server.peer_claims import ClaimVerdict
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import FetchedPartition, FetchRequest, FetchResponse

FETCH_WAIT_MAX_MS: Final = 30_000
"""Longest delay of a fetch, whatever its `max_wait_ms`: the client may be gone without closing its socket."""
SWEEP_S: Final = 2.0


class FetchHandler:
    """The handler of Fetch. Used on one event loop."""

    def __init__(
        self,
        replicas: ReplicaExecutor,
        *,
        is_live: Callable[[int], bool] = lambda broker: True,
        is_known: Callable[[TopicPartition], bool] = lambda tp: False,
        observer: RequestObserver | None = None,
        leader_quota: ReplicationQuota | None = None,
        client_quota: ClientQuotaManager | None = None,
        sweep_s: float = SWEEP_S,
        claims: PeerClaimChecker | None = None,
    ) -> None:
        """Arguments: see `BrokerApis`.

        `sweep_s`: interval at which the observer gets a fetch of each partition of a session, also of those
        where nothing changes: the machine measures the lag of a follower by its fetches.
        """
        self._claims = claims
        self._replicas = replicas
        self._is_live = is_live
        self._is_known = is_known
        self._observer = observer
        self._quota = leader_quota
        self._client_quota = client_quota
        self._sweep_s = sweep_s
        self._sessions = FetchSessions(self._session_ended)
        self._watches: dict[int, PartitionWatch] = {}
        """By session id."""
        self._swept_at: dict[int, float] = {}
        """By session id: when all partitions of the session were reported last, on the loop's clock."""

    async def fetch(self, context: RequestContext, request: FetchRequest) -> FetchResponse:
        """Answers a fetch; it waits up to `max_wait_ms` until there is enough (`DelayedFetch`).

        Before version 4 a client reads no record batches, and gets 43 for each partition.
        """
        follower = follower_of(request)
        if follower is not None and context.version < FOLLOWER_VERSION:
            return refused(request, ErrorCode.UNSUPPORTED_VERSION)
        if follower is not None and not self._is_live(follower.broker):
            self._sessions.end_all(follower.broker)
            return refused(request, ErrorCode.STALE_BROKER_EPOCH)
        if follower is not None and not await self._is_registered(follower, context):
            return refused(request, ErrorCode.STALE_BROKER_EPOCH)
        if context.version < RECORD_BATCH_VERSION:
            return refused(request, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        session = self._sessions.find(request)
        if isinstance(session, ErrorCode):
            return FetchResponse((), error=session)
        if session is None:
            return await self._without_session(request, context)
        return await self._in_session(request, session)

    async def _is_registered(self, follower: FollowerId, context: RequestContext) -> bool:
        """Returns ZooKeeper's answer; False also while it cannot be read: the follower fetches again."""
        if self._claims is None:
            return True
        return await self._claims.verdict(follower, context.peer) is ClaimVerdict.CONFIRMED

    async def _without_session(self, request: FetchRequest, context: RequestContext) -> FetchResponse:
        """Answers a fetch without more records than the client's quota allows now, or none if it has to wait.

        Kafka reads as if nothing had been used of late, and then refuses the whole answer: a client of large
        answers gets half of its quota.
        """
        quota = self._client_quota
        if quota is None or request.replica_id >= 0 or not quota.is_limited:
            return await self._fetch(request, context.version)
        loop, client = asyncio.get_running_loop(), (context.user, context.client_id or "")
        if (room := quota.room(*client, int(loop.time() * 1000))) is None:
            return await self._fetch(request, context.version)
        most = max(1, min(request.max_bytes, int(room[0])))
        request = replace(request, max_bytes=most, min_bytes=min(request.min_bytes, most))
        response = await self._fetch(request, context.version)
        size, now_ms = size_of(response, context.version), int(loop.time() * 1000)
        room = quota.room(*client, now_ms) or room
        wait_ms = quota.record(*client, size, now_ms)
        if wait_ms and bytes_of(response) > room[0] and size <= room[1]:
            quota.take_back(*client, size, now_ms)
            return FetchResponse((), throttle_ms=wait_ms)
        return replace(response, throttle_ms=wait_ms)  # a batch beyond ten windows would never be sent

    async def _fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        wanted = dict(partitions_of(request))
        delayed = DelayedFetch(wanted, request)
        watch = PartitionWatch(self._replicas)

        def due() -> list[TopicPartition]:
            for tp in wanted:
                watch.add(tp)
            return list(wanted)

        try:
            await self._complete(delayed, watch, request, due, closes=True)
        finally:
            if watch.is_open:
                self._replicas.post(lambda replicas: watch.close())
        results = {
            tp: without_zstd(self._with_known_error(tp, result), version)
            for tp, result in delayed.results.items()
        }
        return FetchResponse(topics_of(results, request.isolation_level))

    def _with_known_error(self, tp: TopicPartition, result: FetchedPartition) -> FetchedPartition:
        if result.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._is_known(tp):
            return no_fetch(tp.partition, ErrorCode.NOT_LEADER_FOR_PARTITION)
        return result

    async def _in_session(self, request: FetchRequest, session: FetchSession) -> FetchResponse:
        number = session.session_id
        if number not in self._watches:
            self._watches[number] = PartitionWatch(self._replicas)
        watch = self._watches[number]
        delayed = session.begin(request)
        now = asyncio.get_running_loop().time()
        if sweeps := now >= self._swept_at.get(number, 0.0) + self._sweep_s:
            self._swept_at[number] = now

        def due() -> list[TopicPartition]:
            for tp, _ in partitions_of(request):
                watch.add(tp)
            for tp in forgotten_by(request):
                watch.discard(tp)
            partitions, resting = session.due(watch.take(), all_partitions=sweeps)
            self._report(resting)
            return partitions

        await self._complete(delayed, watch, request, due, session=session)
        session.answered(delayed)
        return FetchResponse(topics_of(delayed.news), session_id=number)

    def _session_ended(self, session: FetchSession) -> None:
        self._swept_at.pop(session.session_id, None)
        if (watch := self._watches.pop(session.session_id, None)) is not None:
            self._replicas.post(lambda replicas: watch.close())

    async def _complete(
        self,
        delayed: DelayedFetch,
        watch: PartitionWatch,
        request: FetchRequest,
        due: Callable[[], list[TopicPartition]],
        *,
        session: FetchSession | None = None,
        closes: bool = False,
    ) -> None:
        """Reads the partitions, and again what changes, until the fetch is complete or its time is over.

        `due` is called on the thread of the replicas, and returns the partitions to read first. `session`
        notes what was read. `closes`: closes the watch with the fetch.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + min(max(0, request.max_wait_ms), FETCH_WAIT_MAX_MS) / 1000
        first: Callable[[], list[TopicPartition]] | None = due
        held = False
        withheld: set[TopicPartition] = set()

        def attempt(replicas: ReplicaManager) -> bool:
            nonlocal first, held
            some, first = (watch.take() if first is None else first()), None
            fetched = self._read(replicas, delayed, some, held=held)
            if session is not None:
                session.was_read(some, fetched, held=held)
            held = True
            if closes and delayed.is_complete:
                watch.close()
            return delayed.is_complete or delayed.withheld != withheld

        while True:
            free_at = {tp: self._quota.free_at(tp) for tp in withheld} if self._quota else {}
            await self._replicas.complete(watch, attempt, min(until, *free_at.values()) if free_at else until)
            now = loop.time()
            if delayed.is_complete or now >= until:
                break
            withheld = set(delayed.withheld)
            first = partial(_and_changed, [tp for tp, at in free_at.items() if at <= now], watch)
        if self._quota is not None:
            for tp, size in delayed.sizes():
                self._quota.took(tp, size, loop.time())

    def _read(
        self, replicas: ReplicaManager, delayed: DelayedFetch, due: list[TopicPartition], *, held: bool
    ) -> list[FollowerFetched]:
        """Reads partitions on the thread of the replicas, and notifies the observer."""
        if not due:
            return []
        throttled = self._throttled(due) if delayed.is_of_follower else ()
        fetched = delayed.read(replicas, due, held=held, throttled=throttled)
        self._report(fetched)
        return fetched

    def _report(self, fetched: list[FollowerFetched]) -> None:
        """Notifies the observer, from the thread of the replicas."""
        if fetched and self._observer is not None:
            self._replicas.call_back(self._observer.on_fetches, fetched)

    def _throttled(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """The partitions of which a follower that lags gets nothing now.

        Of several that are free only one is sent at a time, so that an answer does not pass the rate by the
        number of its partitions.
        """
        if self._quota is None:
            return set()
        held = [tp for tp in partitions if self._quota.holds(tp)]
        if held and self._quota.free_at(held[0]) <= self._replicas.now():
            del held[0]
        return set(held)


def _and_changed(partitions: list[TopicPartition], watch: PartitionWatch) -> list[TopicPartition]:
    return [*partitions, *watch.take()]
