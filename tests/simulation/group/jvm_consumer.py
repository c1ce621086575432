"""A member that behaves as the consumer of Kafka 0.8.2.2, in the same group as zkgroup's members.

It releases everything by path at every rebalance, commits without a version, recognises an owner znode by its
text, gives up after four attempts, and continues after an expiry until it is notified of it. One request is
in flight at a time. Its own guarantees are not checked, only those of zkgroup's members beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping

from zkgroup.assignment import assign
from zkgroup.assignment.wildcards import evaluate
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import EvaluatedMember, StaticSubscription, TopicPartition
from zkgroup.model.requests import (
    Connected,
    Create,
    CreateMissing,
    Delete,
    ListChildren,
    ListChildrenDone,
    Lost,
    Multi,
    MultiDone,
    MultiRefused,
    Outcome,
    ReadMany,
    ReadManyDone,
    Request,
    SessionEvent,
    SetData,
)
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper.client import MemoryClient
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import (
    Offset,
    Owner,
    Registration,
    consumers_path,
    group_path,
    ids_path,
    offsets_path,
    offsets_topic_path,
    owners_path,
    owners_topic_path,
)
from zkgroup.znodes.ids import thread_id

ATTEMPTS = 4
BACKOFF_MS = 2000

Life = Generator[Request | int, Outcome | None, None]
"""Yields requests, or a time to sleep in ms."""


class JvmConsumer:
    """One JVM-like member with its own client."""

    def __init__(
        self, group: str, member_id: str, topics: Mapping[str, int], client: MemoryClient, clock: FakeClock
    ) -> None:
        self.member_id = member_id
        self.client = client
        self.commits = 0
        self._group = group
        self._topics = tuple(topics)
        self._clock = clock
        self._incarnation = 0
        self._life: Life | None = None
        self._answers: list[Outcome] = []
        self._wake_ms: int | None = None
        self._is_marked = False
        self._owned: dict[TopicPartition, int] = {}
        client.listen(self._heard)

    def _heard(self, event: SessionEvent) -> None:
        if isinstance(event, Connected) and event.session.incarnation != self._incarnation:
            self._incarnation = event.session.incarnation
            self._owned.clear()
            self._begin()
        elif isinstance(event, Connected):
            self._is_marked = True
        elif isinstance(event, Lost):
            self._life = None

    def choices(self) -> list[Callable[[], object]]:
        found: list[Callable[[], object]] = []
        if self._can_go_on():
            found.append(self.step)
        if self._owned and self.client.session is not None:
            found.append(self._commit)
        return found

    def next_timer_ms(self) -> int | None:
        return self._wake_ms

    def _can_go_on(self) -> bool:
        if self._life is None:
            return False
        return bool(self._answers) or (self._wake_ms is not None and self._wake_ms <= self._clock.now_ms())

    def step(self) -> bool:
        """Performs one step; False where nothing is to be done."""
        if not self._can_go_on():
            return False
        answer = self._answers.pop(0) if self._answers else None
        self._wake_ms = None if answer is None else self._wake_ms
        self._go_on(answer)
        return True

    def _begin(self) -> None:
        self._life, self._answers, self._wake_ms = self._live(), [], None
        self._go_on(None)

    def _go_on(self, answer: Outcome | None) -> None:
        assert self._life is not None
        wanted = self._life.send(answer)
        if isinstance(wanted, int):
            self._wake_ms = self._clock.now_ms() + wanted
        else:
            self._submit(wanted, self._life)

    def _submit(self, request: Request, life: Life) -> None:
        def on_outcome(outcome: Outcome) -> None:
            if self._life is life:
                self._answers.append(outcome)

        watched = getattr(request, "watch", False)
        self.client.submit(
            request,
            incarnation=self._incarnation,
            on_outcome=on_outcome,
            on_watch=self._marked if watched else None,
        )

    def _marked(self, path: str) -> None:
        del path
        self._is_marked = True

    def _live(self) -> Life:
        group = self._group
        yield CreateMissing(
            (consumers_path(), group_path(group), ids_path(group), owners_path(group), offsets_path(group))
        )
        topics = dict.fromkeys(self._topics, 1)
        data = Registration.of(StaticSubscription(topics), self._clock.wall_ms(), {}).encode()
        register = Multi((Create(Registration.path(group, self.member_id), data, ephemeral=True),))
        while not isinstance((yield register), MultiDone):
            yield 1000
        self._is_marked = True
        while True:
            if not self._is_marked:
                yield 200
                continue
            self._is_marked = False
            for _ in range(ATTEMPTS):
                done = yield from self._attempt()
                if done:
                    break
                yield BACKOFF_MS

    def _attempt(self) -> Generator[Request | int, Outcome | None, bool]:
        while self._owned:
            tp, _ = self._owned.popitem()
            yield Multi((Delete(Owner.path(self._group, tp), -1),))
        mine = yield from self._share()
        if mine is None:
            return False
        offsets = yield ReadMany(tuple(Offset.path(self._group, tp) for tp in mine))
        if not isinstance(offsets, ReadManyDone):
            return False
        claimed: dict[TopicPartition, int] = {}
        for tp, znode in zip(mine, offsets.znodes, strict=True):
            if not (yield from self._claim(tp)):
                for other in claimed:
                    yield Multi((Delete(Owner.path(self._group, other), -1),))
                return False
            data = getattr(znode, "data", None)
            claimed[tp] = max(0, int(data)) if data else 0
        self._owned.update(claimed)
        return True

    def _share(self) -> Generator[Request | int, Outcome | None, list[TopicPartition] | None]:
        listing = yield ListChildren(ids_path(self._group), watch=True)
        if not isinstance(listing, ListChildrenDone):
            return None
        names = listing.children
        paths = [Registration.path(self._group, name) for name in names] + [
            Topic.path(t) for t in self._topics
        ]
        found = yield ReadMany(tuple(paths))
        if not isinstance(found, ReadManyDone):
            return None
        members, partitions = [], {}
        try:
            for name, znode in zip(names, found.znodes, strict=False):
                wanted = Registration.decode("", getattr(znode, "data", None)).wanted()
                members.append(EvaluatedMember(name, evaluate(wanted, self._topics, True)))
            for topic, znode in zip(self._topics, found.znodes[len(names) :], strict=True):
                data = getattr(znode, "data", None)
                partitions[topic] = Topic.decode("", data).numbers if data else ()
        except CorruptZnodeError:
            return None
        owners = assign("range", members, partitions).owners
        return sorted(tp for tp, who in owners.items() if who == thread_id(self.member_id, 0))

    def _claim(self, tp: TopicPartition) -> Generator[Request | int, Outcome | None, bool]:
        path, text = Owner.path(self._group, tp), Owner(thread_id(self.member_id, 0)).encode()
        outcome = yield Multi((Create(path, text, ephemeral=True),))
        if isinstance(outcome, MultiDone):
            return True
        if isinstance(outcome, MultiRefused):
            parents = owners_topic_path(self._group, tp.topic), offsets_topic_path(self._group, tp.topic)
            yield CreateMissing(parents)
            found = yield ReadMany((path,))
            if isinstance(found, ReadManyDone):
                return getattr(found.znodes[0], "data", None) == text
        return False

    def _commit(self) -> None:
        """Commits without a version, even if it no longer owns the partition."""
        tp = min(self._owned)
        self._owned[tp] += 1
        self.commits += 1
        data, path = Offset(self._owned[tp]).encode(), Offset.path(self._group, tp)
        for operation in (SetData(path, data, -1), Create(path, data)):
            self.client.submit(
                Multi((operation,)), incarnation=self._incarnation, on_outcome=lambda outcome: None
            )
