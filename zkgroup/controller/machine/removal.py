"""The znodes of topics that are deleted: read in bulk, deleted in few transactions. Source: recipes.md 17.

Nothing is left below a topic, whoever has made it; what others write meanwhile is read again. A topic that
needs more than one transaction is deleted from its partitions up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from zkgroup.controller.machine import deleting, stray_records
from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.fence import Write
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.states import BUSY, commit, write_all
from zkgroup.controller.machine.transitions import Replica
from zkgroup.machinery.procedures import Procedure, Query, ask
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import ListMany, ListManyDone
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.topics import TopicConfig, TopicDeletion
from zkgroup.znodes.unhosted_topics import UnhostedTopic

AGAIN = "its znodes have changed"


class Removed(NamedTuple):
    """What became of topics; those that are not named were written by somebody else meanwhile."""

    gone: Collection[str]
    refused: Mapping[str, str]
    """Why topics cannot be deleted now, whoever writes them."""


def remove(reign: Reign, ends: Mapping[str, Collection[Replica]]) -> Procedure[Removed]:
    """Deletes these topics with their configurations, markers and marks.

    `ends` are the replicas that stay: they are recorded before anything of their topic is deleted. Raises as
    `states.carry_out`.
    """
    removal = _Removal(reign, ends)
    yield from removal.read(ends)
    for topic in ends:
        yield from removal.all_but_last(topic)
    whys = yield from write_all(reign, ends, removal.last, removal.read)
    gone = [topic for topic in ends if topic not in whys or topic in removal.made_again]
    refused = {topic: why for topic, why in whys.items() if topic not in gone and why not in (AGAIN, BUSY)}
    return Removed(gone, refused)


class _Removal:
    """What is left of each topic, as it was read last."""

    def __init__(self, reign: Reign, ends: Mapping[str, Collection[Replica]]) -> None:
        self._reign = reign
        self._ends = ends
        self._znodes: dict[str, dict[str, Znode]] = {}
        self._refused: dict[str, str] = {}
        """Why a write before the last one cannot be made."""
        self._unrecorded: str | None = None
        """Why what stays cannot be recorded."""
        self.made_again: set[str] = set()
        """The last write got no answer, and was executed: these are other topics of the same names (K21)."""

    def read(self, topics: Collection[str]) -> Procedure[None]:
        """All that there is of these topics, whoever has made it; they may have grown, too."""
        is_again = not self._znodes.keys().isdisjoint(topics)
        if is_again:
            yield from stray_records.read(self._reign)
        ends = {topic: self._ends[topic] for topic in topics}
        self._unrecorded = yield from stray_records.record_deletion(self._reign, ends)
        self._znodes.update((yield from _znodes(self._reign, topics)))
        for topic in topics if is_again else ():
            self._reign.look(Look.TOPIC, topic)

    def all_but_last(self, topic: str) -> Procedure[None]:
        """Of a topic that is too big for one transaction."""
        if self._unrecorded is not None:
            return
        for write in self._writes(topic)[:-1]:
            if (refusal := (yield from commit(self._reign, write))) is not None:
                if not refusal.is_conflict:
                    self._refused[topic] = str(refusal)
                return
            for operation in write.operations:
                self._znodes[topic].pop(operation.path, None)

    def last(self, topic: str) -> Write | str:
        """The write after which nothing is left, or why it is not this one yet."""
        if self._unrecorded is not None:
            return self._unrecorded
        writes = self._writes(topic)
        return writes[0] if len(writes) == 1 else self._refused.get(topic, AGAIN)

    def _writes(self, topic: str) -> Sequence[Write]:
        reign = self._reign
        there = self._znodes[topic].get(Topic.path(topic))
        if there is not None and there.stat.czxid > reign.markers.get(topic, there.stat.czxid):
            self.made_again.add(topic)
            reign.look(Look.TOPICS)
            return ()
        numbers = [each.partition for each in reign.picture.partitions(topic)]
        found = {path: znode.stat.version for path, znode in self._znodes[topic].items()}
        bytes_max = reign.core.config.request_bytes_max // 2
        return deleting.remove_topic(topic, numbers, found, bytes_max)


def _znodes(reign: Reign, topics: Iterable[str]) -> Procedure[Mapping[str, dict[str, Znode]]]:
    """All that there is of these topics, by path, whoever has made it."""
    paths = {
        topic: [
            TopicConfig.path(topic),
            TopicDeletion.path(topic),
            UnhostedTopic.path(topic),
            Topic.path(topic),
        ]
        for topic in topics
    }
    level = [(topic, Topic.path(topic)) for topic in paths]
    while level:
        (outcome,) = yield from ask(Query(ListMany(tuple(path for _, path in level))))
        assert isinstance(outcome, ListManyDone), outcome
        level = [
            (topic, f"{parent}/{name}")
            for (topic, parent), names in zip(level, outcome.children, strict=True)
            for name in (names if isinstance(names, tuple) else ())
        ]
        for topic, path in level:
            paths[topic].append(path)
        leaves = _leaves(path for _, path in level)
        level = [(topic, path) for topic, path in level if path not in leaves]
    found = yield from reign.read_many(path for mine in paths.values() for path in mine)
    return {topic: {path: found[path] for path in mine if path in found} for topic, mine in paths.items()}


def _leaves(paths: Iterable[str]) -> frozenset[str]:
    """Those that are states of partitions, below which nobody makes anything."""
    example = PartitionState.path(TopicPartition("t", 0))
    state, depth = example.rpartition("/")[2], example.count("/")
    return frozenset(path for path in paths if path.count("/") == depth and path.rpartition("/")[2] == state)
