"""The topics that a broker may continue to follow after its session has ended.

Meanwhile a topic can have been deleted without this broker, and created again (ADR 0024). Its leader epochs
and offsets start anew, so a follower with records of the deleted topic would report more of them than its
leader ever had, or append after them. So the czxid of each followed topic is read in the session in which the
controller sent LeaderAndIsr. After the end of a session nothing is fetched before the topic was found with
that czxid. Another topic waits for a LeaderAndIsr, which comes, since for the controller the broker has
failed; zkgroup's controllers first make it delete its records of a former topic.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from zkgroup.broker.machine.events import BrokerContext, FetchesPaused, PauseFetches, ResumeFetches
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Code, Sync
from zkgroup.runtime.procedures import Procedure, Query, Work, ask, read_allowed
from zkgroup.znodes.brokers import Topic, topics_path

READ_AT_ONCE: Final = 100


class FollowedTopics:
    """Compares the topics that this broker followed before its session ended with those that exist now."""

    def __init__(self, core: BrokerContext) -> None:
        self._core = core
        self._born: dict[str, int] = {}
        """czxid of each followed topic, in the session of its LeaderAndIsr."""
        self._unread: set[str] = set()
        """Topics followed since the start of the present session whose czxid is not read yet."""
        self._held: dict[TopicPartition, int | None] = {}
        """Paused partitions that are not checked yet, with the former czxid of the topic; None: unknown."""
        self._unheld = 0
        """Number of `PauseFetches` without a result. Until then `_unread` may be of an ended session."""

    def ordered(self, topics: Collection[str]) -> None:
        """Notes topics whose partitions a controller has made this broker follow."""
        for topic in topics:
            self._born.pop(topic, None)
        self._unread.update(topics)

    def session_over(self) -> None:
        self._unheld += 1
        self._core.emit(PauseFetches())

    def held(self, event: FetchesPaused) -> None:
        """Takes the paused partitions.

        Those found to be of another topic stay paused and are not among them.
        """
        self._unheld -= 1
        self._unread.clear()
        for tp in event.partitions:
            self._held[tp] = self._born.get(tp.topic)

    def next(self) -> Work | None:
        if self._unheld:
            return None
        if self._held:
            return "check topics followed", self._check
        return ("read topics followed", self._read) if self._unread else None

    def _check(self) -> Procedure[None]:
        """Resumes fetches of topics with the former czxid.

        No sync is needed: in the session of a registration nothing older is read, and a topic that is deleted
        after it is deleted here, too.
        """
        topics = sorted({tp.topic for tp in self._held})[:READ_AT_ONCE]
        found = dict(zip(topics, (yield from self._stored(topics)), strict=True))
        looked_at = [tp for tp in self._held if tp.topic in found]
        known = {tp for tp in looked_at if self._held[tp] is not None and self._held[tp] == found[tp.topic]}
        for topic in sorted({tp.topic for tp in looked_at if tp not in known}):
            self._core.note("topic.not_followed", path=Topic.path(topic))
        for tp in looked_at:
            del self._held[tp]
        self._core.emit(ResumeFetches(frozenset(known)))

    def _read(self) -> Procedure[None]:
        topics = sorted(self._unread)[:READ_AT_ONCE]
        yield from ask(Query(Sync(topics_path())))
        found = yield from self._stored(topics)
        self._unread.difference_update(topics)
        self._born.update((topic, czxid) for topic, czxid in zip(topics, found, strict=True) if czxid)

    @staticmethod
    def _stored(topics: list[str]) -> Procedure[list[int | None]]:
        """The czxid of each topic; None if it does not exist or is hidden."""
        found: tuple[Znode | Code | None, ...] = yield from read_allowed([Topic.path(one) for one in topics])
        return [one.stat.czxid if isinstance(one, Znode) else None for one in found]
