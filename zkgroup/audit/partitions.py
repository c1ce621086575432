"""The partitions of a topic as they stood between two transactions, for findings about replication.

A multi is looked at as a whole: between its operations a replica list and a state may contradict each other.
What cannot be read is not known, and nothing is found in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import Key
from zkgroup.audit.rules import Bounds, Finding, Severity
from zkgroup.errors import CorruptZnodeError
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.paths import path_kind

_CHANGES: Final = frozenset(("create", "set", "delete"))
_Value = TypeVar("_Value")


class ChangeStamp(NamedTuple):
    """When a transaction changed something. Of what the history began with: where its log begins."""

    zxid: int
    ms: int
    session: int = 0
    """Who did it; 0 for what the history began with."""


class View(NamedTuple):
    """What is known of a partition."""

    replicas: tuple[int, ...] | None
    """None where the topic does not name it, or cannot be read."""
    state: PartitionState | None
    """None before a controller has made it, and where it cannot be read."""
    life: int
    """The czxid of its state; 0 where there is none."""
    is_moving: bool
    """Whether the topic itself says so, which Kafka does from 2.4 on."""
    is_deleting: bool
    """Whether the deletion of its topic is asked for: a controller then takes leaders and replicas away."""


def decoded(decode: Callable[[str, bytes | None], _Value], path: str, data: bytes | None) -> _Value | None:
    """The value of a znode, or None where it cannot be read."""
    try:
        return decode(path, data)
    except CorruptZnodeError:
        return None


@lru_cache(maxsize=16)
def topic_of(path: str, data: bytes | None) -> Topic | None:
    """A topic, or None where it cannot be read. Several folds see each row: it is read once for all."""
    return decoded(Topic.decode, path, data)


@lru_cache(maxsize=4096)
def state_of(path: str, data: bytes | None) -> PartitionState | None:
    """The same of a partition's state."""
    return decoded(PartitionState.decode, path, data)


def brokers_text(brokers: Iterable[int]) -> str:
    """Brokers as findings print them: `[1, 2]`."""
    return "[" + ", ".join(map(str, brokers)) + "]"


class TopicFold:
    """A fold over the rows of one topic. A finding says what it makes of each change in `changed`."""

    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self.topic = key[0]
        self.facts = facts
        self.bounds = bounds
        self.last = ChangeStamp(facts.end_zxid, facts.end_ms)
        """The end of the history."""
        self.first = ChangeStamp(facts.start_zxid, facts.start_ms) if facts.has_log else self.last
        """Where the log begins; the end, where there is none: then all that is known is of that moment."""
        self._path = Topic.path(self.topic)
        self._deletion = TopicDeletion.path(self.topic)
        self._value: Topic | None = None
        self._is_deleting = False
        self._states: dict[int, tuple[int, PartitionState | None]] = {}
        """By partition its czxid and state."""
        self.views: dict[int, View] = {}
        """By partition, as they were after the last whole transaction."""
        self._moment: ChangeStamp | None = None
        self._touched: dict[int, ChangeStamp] = {}

    def changed(
        self, partition: int, before: View | None, after: View | None, at: ChangeStamp
    ) -> Iterable[Finding]:
        """A partition is not what it was; None for one that is not there."""
        raise NotImplementedError

    def over(self) -> Iterable[Finding]:
        """The history ends, with everything in it told."""
        return ()

    def see(self, event: Event) -> Iterable[Finding]:
        if event.op not in _CHANGES:
            return ()
        moment = self.first if event.seed else ChangeStamp(event.zxid, event.time_ms, event.session)
        found = self._tell() if self._touched and moment != self._moment else ()
        self._moment = moment
        self._take(event, moment)
        return found

    def end(self) -> Iterator[Finding]:
        yield from self._tell()
        yield from self.over()

    def _take(self, event: Event, moment: ChangeStamp) -> None:
        gone = event.op == "delete"
        if event.path == self._path:
            before, self._value = self._value, None if gone else topic_of(event.path, event.data)
            self._touch(event, moment, self._listed_otherwise(before, self._value))
        elif event.path == self._deletion:
            self._is_deleting = not gone
            self._touch(event, moment, (*self.views, *self._states, *self._touched))
        else:
            place = path_kind(event.path)
            if place.kind == "partition_state":
                self._take_state(event, place.partition)
                self._touch(event, moment, (place.partition,))

    def _listed_otherwise(self, before: Topic | None, after: Topic | None) -> set[int]:
        """The partitions that a write of the topic says something else of."""
        if before is None or after is None:
            return {*(after or before or Topic({})).partitions, *self.views, *self._states}
        old, new = before.partitions, after.partitions
        changed = {number for number in {*old, *new} if old.get(number) != new.get(number)}
        return changed | set(before.moving) ^ set(after.moving)

    def _take_state(self, event: Event, partition: int) -> None:
        if event.op == "delete":
            self._states.pop(partition, None)
            return
        known = self._states.get(partition)
        life = event.zxid if event.op == "create" or known is None else known[0]
        self._states[partition] = life, state_of(event.path, event.data)

    def _touch(self, event: Event, moment: ChangeStamp, partitions: Iterable[int]) -> None:
        """Of a seed only the time of its last write is known: what it says has been so since then."""
        for partition in partitions:
            if event.seed:
                known = self._touched.get(partition)
                since = max(event.mtime_ms or event.time_ms, known.ms if known else 0)
                self._touched[partition] = moment._replace(ms=since)
            else:
                self._touched[partition] = moment

    def _tell(self) -> list[Finding]:
        found: list[Finding] = []
        touched, self._touched = self._touched, {}
        for partition, at in sorted(touched.items()):
            before, after = self.views.get(partition), self._view(partition)
            if after is None:
                self.views.pop(partition, None)
            else:
                self.views[partition] = after
            if before != after:
                found += self.changed(partition, before, after, at)
        return found

    def _view(self, partition: int) -> View | None:
        replicas = None if self._value is None else self._value.partitions.get(partition)
        if replicas is None and partition not in self._states:
            return None
        life, state = self._states.get(partition, (0, None))
        topic = self._value
        moving = topic is not None and (partition in topic.adding or partition in topic.removing)
        return View(replicas, state, life, moving, self._is_deleting)


class Spell(NamedTuple):
    """A time in which something was so; `to` is None while it lasts."""

    since: ChangeStamp
    to: ChangeStamp | None
    view: View
    """As it was when it began."""
    detail: str

    def ms(self, last: ChangeStamp) -> int:
        """How long, by the leader's clock; never below 0."""
        return max((self.to or last).ms - self.since.ms, 0)


class SpellFold(TopicFold):
    """A fold that finds the times in which something is wrong with a partition."""

    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        super().__init__(key, facts, bounds)
        self._open: dict[int, Spell] = {}

    def fault(self, view: View) -> str | None:
        """What is wrong, in words; None where nothing is."""
        raise NotImplementedError

    def found(self, partition: int, spell: Spell) -> Iterable[Finding]:
        """It is over, or lasts to the end."""
        raise NotImplementedError

    def changed(
        self, partition: int, before: View | None, after: View | None, at: ChangeStamp
    ) -> Iterator[Finding]:
        fault = None if after is None else self.fault(after)
        if fault is None:
            if spell := self._open.pop(partition, None):
                yield from self.found(partition, spell._replace(to=at))
        elif partition not in self._open:
            assert after is not None
            self._open[partition] = Spell(at, None, after, fault)

    def over(self) -> Iterator[Finding]:
        for partition, spell in sorted(self._open.items()):
            yield from self.found(partition, spell)


def spell_finding(
    name: str, severity: Severity, topic: str, partition: int, spell: Spell, detail: str
) -> Finding:
    """What a spell is told as."""
    return Finding(
        name,
        severity,
        topic=topic,
        partition=partition,
        session=spell.since.session or None,
        from_zxid=spell.since.zxid,
        to_zxid=spell.to.zxid if spell.to else None,
        from_ms=spell.since.ms,
        to_ms=spell.to.ms if spell.to else None,
        detail=detail,
    )


def moment_finding(
    name: str, severity: Severity, topic: str, partition: int, at: ChangeStamp, detail: str
) -> Finding:
    """What happened in one transaction is told as."""
    return Finding(
        name,
        severity,
        topic=topic,
        partition=partition,
        session=at.session or None,
        from_zxid=at.zxid,
        to_zxid=at.zxid,
        from_ms=at.ms,
        to_ms=at.ms,
        detail=detail,
    )
