"""What a broker may go on following after its session has ended.

Meanwhile a topic can have been deleted without this broker, and made again (ADR 0024). Its terms and offsets
begin anew, so a follower with old lines would report to its leader more than that has ever had, or go on
behind them. So of each topic that is followed the czxid is read, in the session in which the controller
ordered it. From the end of a session nothing is fetched before the topic was found with that czxid. Any other
waits for a controller's word on it, which comes, as to the controller the broker has failed; a controller of
ours has it delete first what it has of a former topic.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from zkgroup.broker.machine.events import BrokerContext, FetchesPaused, PauseFetches, ResumeFetches
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Code, Sync
from zkgroup.runtime.machine import Work
from zkgroup.runtime.procedures import Procedure, Query, ask, read_allowed
from zkgroup.znodes.brokers import Topic, topics_path

READ_AT_ONCE: Final = 100


class FollowedTopics:
    """Which topics are those that this broker followed before its session ended."""

    def __init__(self, core: BrokerContext) -> None:
        self._core = core
        self._born: dict[str, int] = {}
        """czxid of each topic that is followed, as it was in the session of the order."""
        self._unread: set[str] = set()
        """Ordered in the present session, and not read yet."""
        self._held: dict[TopicPartition, int | None] = {}
        """Not looked at yet, with what its topic's czxid was; None: unknown."""
        self._unheld = 0
        """Orders to hold that are not answered yet. Until then `_unread` may be of an ended session."""

    def ordered(self, topics: Collection[str]) -> None:
        """A controller has had partitions of these followed."""
        for topic in topics:
            self._born.pop(topic, None)
        self._unread.update(topics)

    def session_over(self) -> None:
        self._unheld += 1
        self._core.emit(PauseFetches())

    def held(self, event: FetchesPaused) -> None:
        """What was found to be of another topic before stays held, and is not among these."""
        self._unheld -= 1
        self._unread.clear()
        for tp in event.partitions:
            self._held[tp] = self._born.get(tp.topic)

    def next(self) -> Work | None:
        if self._unheld:
            return None
        if self._held:
            return "look at topics followed", self._look
        return ("read topics followed", self._read) if self._unread else None

    def _look(self) -> Procedure[None]:
        """Needs no sync: in the session of a registration nothing older than that is read, and a topic that
        is deleted from then on is deleted here, too."""
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
        """The czxid of each; None where it is gone or hidden."""
        found: tuple[Znode | Code | None, ...] = yield from read_allowed([Topic.path(one) for one in topics])
        return [one.stat.czxid if isinstance(one, Znode) else None for one in found]
