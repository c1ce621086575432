"""What a broker may go on following after its session has ended.

Meanwhile a topic can have been deleted without this broker, and made again (ADR 0024). Its terms and offsets
begin anew, so a follower with old lines would tell its leader of more than that has ever had. Nothing is
fetched from the end of a session until it is known that the topic is the one that the session knew: its czxid
is no later than what the session has seen. Any other waits for a controller's word on it, which comes, as to
the controller the broker has failed; a controller of ours has it delete first what it has of a former topic.
"""

from __future__ import annotations

from typing import Final

from zkgroup.broker.machine.core import Core
from zkgroup.broker.machine.effects import FollowOn, HoldFetches
from zkgroup.broker.machine.events import FetchesHeld
from zkgroup.machinery.machine import Work
from zkgroup.machinery.procedures import Procedure, read_allowed
from zkgroup.model import Znode
from zkgroup.znodes.brokers import Topic

READ_AT_ONCE: Final = 100


class Following:
    """Which topics are those that this broker followed before its session ended."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._seen: int | None = None
        """Last zxid of the first session that ended since everything was looked at."""
        self._topics: set[str] = set()
        """Held, and not looked at yet."""
        self._unheld = 0
        """Orders to hold that are not answered yet."""

    def session_over(self, zxid: int) -> None:
        """`zxid`: the last that the session has seen."""
        if self._seen is None:
            self._seen = zxid
        self._unheld += 1
        self._core.emit(HoldFetches())

    def held(self, event: FetchesHeld) -> None:
        self._unheld -= 1
        self._topics.update(event.topics)

    def next(self) -> Work | None:
        return ("look at topics followed", self._look) if self._topics and not self._unheld else None

    def _look(self) -> Procedure[None]:
        """Needs no sync: in the session of a registration nothing older than that is read, and a topic that
        is deleted from then on is deleted here, too."""
        assert self._seen is not None
        topics = sorted(self._topics)[:READ_AT_ONCE]
        found = yield from read_allowed([Topic.path(topic) for topic in topics])
        known = []
        for topic, znode in zip(topics, found, strict=True):
            if isinstance(znode, Znode) and znode.stat.czxid <= self._seen:
                known.append(topic)
            else:
                self._core.note("topic.not_followed", path=Topic.path(topic))
        self._topics.difference_update(topics)
        if not self._topics:
            self._seen = None
        self._core.emit(FollowOn(frozenset(known)))
