"""The fetches between simulated brokers: the follower's requests, and what their leader holds."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Final, Protocol

from tests.simulation.cluster.environment import ClusterEnvironment
from tests.simulation.cluster.shell import MachineShell
from zkgroup.broker.fetch_session import FetchSessionHandler
from zkgroup.broker.machine.events import FollowerFetches
from zkgroup.broker.replica_view import ReplicaView
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.server.fetch_requests import DelayedFetch, follower_of, refused, topics_of
from zkgroup.broker.server.fetch_sessions import FetchSession, FetchSessions
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import FetchPartition, FetchRequest, FetchResponse

FETCH_WAIT_MS: Final = 500
"""Longest time for which a leader holds a fetch."""
SWEEP_MS: Final = 1_000
"""Interval at which a leader reads all partitions of a session."""
PARTITION_BYTES: Final = 1_000
"""Most bytes of one partition in an answer."""


class FetchingBroker(Protocol):
    """A broker, as leader or follower."""

    broker: int
    epoch: int
    world: ClusterEnvironment
    host: ReplicaManager
    shell: MachineShell
    fetches: SimulatedFetches
    """Fetches of other brokers from it."""

    def leads(self, tp: TopicPartition) -> ReplicaView | None: ...

    def knows(self, broker: int) -> bool: ...


@dataclass(eq=False)
class SimulatedFetcher:
    """A follower's connection to one leader, with at most one request in flight."""

    follower: FetchingBroker
    leader: FetchingBroker
    session: FetchSessionHandler = field(default_factory=FetchSessionHandler)
    moved: set[TopicPartition] = field(default_factory=set)
    """Partitions whose position may differ from the one that was named last."""
    sent: dict[TopicPartition, FetchPartition] = field(default_factory=dict)
    """The partitions of the request in flight."""
    in_flight: FetchRequest | None = None
    """The request that the leader holds or has answered."""
    response: FetchResponse | None = None
    """The answer, which has not arrived yet."""

    def drop(self, tp: TopicPartition) -> None:
        """Fetches a partition no more; an answer in flight does not count for it."""
        self.session.forget(tp)
        self.moved.discard(tp)
        self.sent.pop(tp, None)

    def cut_off(self) -> None:
        """The connection breaks: what is in flight is lost, and the next request begins a new session."""
        self.in_flight = self.response = None
        self.sent = {}
        self.session.reset()
        self.moved.update(self.session.partitions)

    def ask(self, wanted: set[TopicPartition]) -> bool:
        """Sends a request for these partitions; returns whether there was one to send."""
        replicas, session = self.follower.host, self.session
        for tp in session.partitions.keys() - wanted:
            self.drop(tp)
        for tp in sorted(wanted):
            if tp in session.partitions and tp not in self.moved:
                continue
            if (partition := replicas.next_fetch(tp, PARTITION_BYTES)) is None:
                self.drop(tp)
            else:
                session.fetch(tp, partition)
        self.moved.clear()
        if not session.partitions:
            return False
        world = self.follower.world
        self.sent = dict(session.partitions)
        self.in_flight = session.request(
            replica_id=self.follower.broker,
            broker_epoch=self.follower.epoch,
            max_wait_ms=FETCH_WAIT_MS if world.setup.holds_fetches else 0,
            min_bytes=1,
            max_bytes=world.setup.fetch_bytes,
        )
        self.leader.fetches.receive(self, self.in_flight)
        return True

    def take(self) -> None:
        """The answer arrives."""
        response, self.in_flight, self.response = self.response, None, None
        assert response is not None
        if not self.session.answered(response):
            self.moved.update(self.session.partitions)
            return
        for topic in response.topics:
            for fetched in topic.partitions:
                tp = TopicPartition(topic.topic, fetched.partition)
                if (request := self.sent.get(tp)) is None:
                    continue
                self.moved.add(tp)
                if not self.follower.host.take(tp, request, fetched):
                    self.session.forget(tp)


@dataclass(eq=False)
class HeldFetch:
    """A follower's fetch that the leader holds until there is something new."""

    fetcher: SimulatedFetcher
    request: FetchRequest
    session: FetchSession
    delayed: DelayedFetch
    until_ms: int
    changed: dict[TopicPartition, None] = field(default_factory=dict)

    @property
    def is_lost(self) -> bool:
        """Whether the follower's connection has broken since."""
        return self.fetcher.in_flight is not self.request


class SimulatedFetches:
    """The fetches of other brokers from this leader."""

    def __init__(self, world: ClusterEnvironment, leader: FetchingBroker) -> None:
        self._world, self._leader = world, leader
        self._changes: dict[int, dict[TopicPartition, None]] = {}
        """Partitions that have changed, by session, since the session has read them."""
        self._swept_ms: dict[int, int] = {}
        self._sessions = FetchSessions(lambda session: self._forget(session.session_id))
        self.held: list[HeldFetch] = []
        leader.host.listen(self._changed)

    def _changed(self, tp: TopicPartition) -> None:
        for changes in self._changes.values():
            changes[tp] = None

    def _forget(self, session_id: int) -> None:
        self._changes.pop(session_id, None)
        self._swept_ms.pop(session_id, None)

    def receive(self, fetcher: SimulatedFetcher, asked: FetchRequest) -> None:
        """Answers a request, or holds it."""
        request = self._as_asked(asked)
        follower, now_ms = follower_of(request), self._world.clock.now_ms()
        assert follower is not None
        if not self._leader.knows(follower.broker):
            self._sessions.end_all(follower.broker)
            fetcher.response = refused(request, ErrorCode.STALE_BROKER_EPOCH)
            return
        session = self._sessions.find(request)
        if isinstance(session, ErrorCode):
            fetcher.response = FetchResponse((), error=session)
            return
        assert session is not None
        delayed = session.begin(request)
        changes = self._changes.pop(session.session_id, {})
        self._changes[session.session_id] = {}
        sweeps = now_ms >= self._swept_ms.get(session.session_id, 0) + SWEEP_MS
        if sweeps:
            self._swept_ms[session.session_id] = now_ms
        due, resting = session.due(changes, all_partitions=sweeps)
        if resting:
            self._leader.shell.enqueue(FollowerFetches(tuple(resting)))
        held = HeldFetch(fetcher, asked, session, delayed, now_ms + request.max_wait_ms)
        self._read(held, due, held=False)

    def _as_asked(self, request: FetchRequest) -> FetchRequest:
        """The request as the leader handles it."""
        if not self._world.setup.fetches_without_terms:
            return request
        topics = []
        for topic in request.topics:
            partitions = []
            for one in topic.partitions:
                view = self._leader.leads(TopicPartition(topic.topic, one.partition))
                epoch = one.current_leader_epoch if view is None else view.leader_epoch
                partitions.append(dataclasses.replace(one, current_leader_epoch=epoch))
            topics.append(dataclasses.replace(topic, partitions=tuple(partitions)))
        return dataclasses.replace(request, topics=tuple(topics))

    def answer_held(self) -> None:
        """Reads what has changed, and answers the held fetches that are complete or whose time is over."""
        waiting, self.held = self.held, []
        for held in waiting:
            if not held.is_lost:
                changes = self._changes.get(held.session.session_id, {})
                self._changes[held.session.session_id] = {}
                self._read(held, list(changes), held=True)

    def _read(self, fetch: HeldFetch, due: list[TopicPartition], *, held: bool) -> None:
        fetched = fetch.delayed.read(self._leader.host, due, held=held)
        fetch.session.was_read(due, fetched, held=held)
        if fetched:
            self._leader.shell.enqueue(FollowerFetches(tuple(fetched)))
        if not fetch.delayed.is_complete and self._world.clock.now_ms() < fetch.until_ms:
            self.held.append(fetch)
            return
        fetch.session.answered(fetch.delayed)
        topics = topics_of(fetch.delayed.news)
        fetch.fetcher.response = FetchResponse(topics, session_id=fetch.session.session_id)

    def stop(self) -> None:
        """The leader's process ends: the connections break."""
        for held in self.held:
            if not held.is_lost:
                held.fetcher.cut_off()
        self.held.clear()
