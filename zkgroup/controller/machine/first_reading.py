"""All topics and the states of their partitions, read by a controller that has just been elected.

The states of the first topics are on their way while the lists of the next ones are decoded, and those that
have come are taken in while others are awaited: ZooKeeper and this controller work at the same time, and what
was read is dropped by and by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.states import Alike, states_read
from zkgroup.controller.machine.topics import topic_read
from zkgroup.machinery.procedures import Query, Step, read_done
from zkgroup.model.requests import Outcome, Read, ReadMany, ReadManyDone
from zkgroup.znodes.brokers import PartitionState, Topic

STATES_AT_ONCE: Final = 1000
"""In one request: a packet of a client with the usual settings."""


class _Part(NamedTuple):
    """Partitions of one topic."""

    topic: str
    numbers: Sequence[int]


class FirstReading:
    """What is on its way. Whoever carries the steps out has everything in the picture."""

    def __init__(self, reign: Reign, names: Sequence[str]) -> None:
        """`names`: the topics that are listed; others are not in the picture any more."""
        self._reign = reign
        self._names = names
        self._topics_left = len(names)
        self._parts: list[_Part] = []
        """Partitions whose states are yet to be asked for."""
        self._waiting = 0
        """So many."""
        self._alike: Alike = {}

    def steps(self) -> Iterator[Step]:
        """To read all topics, each with a watch. The states follow from them."""
        for name in self._names:
            query = self._reign.watched(Read(Topic.path(name)), Look.TOPIC, name)
            yield Step(query, partial(self._topic, name))

    def _topic(self, name: str, outcome: Outcome) -> Iterable[Step]:
        topic_read(self._reign, name, read_done(outcome))
        seen = self._reign.picture.topic(name)
        numbers = () if seen is None else seen.topic.numbers
        steps = []
        while numbers:
            room = STATES_AT_ONCE - self._waiting
            part, numbers = _Part(name, numbers[:room]), numbers[room:]
            self._parts.append(part)
            self._waiting += len(part.numbers)
            if self._waiting == STATES_AT_ONCE:
                steps.append(self._ask())
        self._topics_left -= 1
        if not self._topics_left and self._waiting:
            steps.append(self._ask())
        return steps

    def _ask(self) -> Step:
        parts, self._parts, self._waiting = self._parts, [], 0
        paths = tuple([path for part in parts for path in PartitionState.paths_of(*part)])
        return Step(Query(ReadMany(paths)), partial(self._states, parts, paths))

    def _states(self, parts: list[_Part], paths: Sequence[str], outcome: Outcome) -> Iterable[Step]:
        assert isinstance(outcome, ReadManyDone), outcome
        found = self._reign.allowed(paths, outcome.znodes)
        at = 0
        for topic, numbers in parts:
            states_read(self._reign, topic, numbers, found[at : at + len(numbers)], self._alike)
            at += len(numbers)
        return ()
