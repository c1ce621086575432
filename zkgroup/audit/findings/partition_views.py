"""The partitions of a topic as they stood between two transactions, for findings about replication.

A multi is looked at as a whole: between its operations a replica list and a state may contradict each other.
What cannot be read is not known, and nothing is found in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from zkgroup.audit.findings.rules import Finding, Severity
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.keys import Key
from zkgroup.errors import CorruptZnodeError
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.paths import path_kind

_CHANGES: Final = frozenset(("create", "set", "delete"))
_Value = TypeVar("_Value")


class ChangeStamp(NamedTuple):
    """The moment of a change. For what the history began with it is the beginning of its log."""

    zxid: int
    time_ms: int
    session: int = 0
    """Names who did it; 0 for what the history began with."""


class PartitionView(NamedTuple):
    """Holds what is known of a partition."""

    replicas: tuple[int, ...] | None
    """None where the topic does not name it, or cannot be read."""
    state: PartitionState | None
    """None before a controller has made it, and where it cannot be read."""
    life: int
    """The czxid of its state; 0 where there is none."""
    is_moving: bool
    """True if the topic itself says so, which Kafka does from 2.4 on."""
    is_deleting: bool
    """True if the deletion of its topic is asked for: a controller then takes leaders and replicas away."""


def decoded(decode: Callable[[str, bytes | None], _Value], path: str, data: bytes | None) -> _Value | None:
    """The value of a znode, or None where it cannot be read."""
    try:
        return decode(path, data)
    except CorruptZnodeError:
        return None


@lru_cache(maxsize=16)
def topic_of(path: str, data: bytes | None) -> Topic | None:
    """A topic, or None where it cannot be read. Several rules see each row: it is read once for all."""
    return decoded(Topic.decode, path, data)


@lru_cache(maxsize=4096)
def state_of(path: str, data: bytes | None) -> PartitionState | None:
    """The same of a partition's state."""
    return decoded(PartitionState.decode, path, data)


def brokers_text(brokers: Iterable[int]) -> str:
    """Brokers as findings print them: `[1, 2]`."""
    return "[" + ", ".join(map(str, brokers)) + "]"


class ViewChange(NamedTuple):
    """A partition is not what it was; None for one that is not there."""

    partition: int
    before: PartitionView | None
    after: PartitionView | None
    at: ChangeStamp


def history_end(facts: Facts) -> ChangeStamp:
    """The end of a history."""
    return ChangeStamp(facts.end_zxid, facts.end_ms)


def history_start(facts: Facts) -> ChangeStamp:
    """Returns where the log begins; the end, where there is none: then all that is known is of that
    moment."""
    return ChangeStamp(facts.start_zxid, facts.start_ms) if facts.has_log else history_end(facts)


class TopicViews:
    """Sees the rows of one topic, in order; gives what each transaction changed, once that is over."""

    def __init__(self, topic: str, facts: Facts) -> None:
        self._start = history_start(facts)
        self._path = Topic.path(topic)
        self._deletion = TopicDeletion.path(topic)
        self._value: Topic | None = None
        self._is_deleting = False
        self._states: dict[int, tuple[int, PartitionState | None]] = {}
        """By partition its czxid and state."""
        self._views: dict[int, PartitionView] = {}
        """By partition, as they were after the last whole transaction."""
        self._stamp: ChangeStamp | None = None
        self._touched: dict[int, ChangeStamp] = {}

    def see(self, event: Event) -> Sequence[ViewChange]:
        """Takes a row in; what the transaction before it changed."""
        if event.op not in _CHANGES:
            return ()
        stamp = self._start if event.seed else ChangeStamp(event.zxid, event.time_ms, event.session)
        changes = self.end() if self._touched and stamp != self._stamp else ()
        self._stamp = stamp
        self._take(event, stamp)
        return changes

    def end(self) -> Sequence[ViewChange]:
        """Returns what the last transaction changed."""
        changes: list[ViewChange] = []
        touched, self._touched = self._touched, {}
        for partition, at in sorted(touched.items()):
            before, after = self._views.get(partition), self._view(partition)
            if after is None:
                self._views.pop(partition, None)
            else:
                self._views[partition] = after
            if before != after:
                changes.append(ViewChange(partition, before, after, at))
        return changes

    def _take(self, event: Event, stamp: ChangeStamp) -> None:
        gone = event.op == "delete"
        if event.path == self._path:
            before, self._value = self._value, None if gone else topic_of(event.path, event.data)
            self._touch(event, stamp, self._listed_otherwise(before, self._value))
        elif event.path == self._deletion:
            self._is_deleting = not gone
            self._touch(event, stamp, (*self._views, *self._states, *self._touched))
        else:
            place = path_kind(event.path)
            if place.kind == "partition_state":
                self._take_state(event, place.partition)
                self._touch(event, stamp, (place.partition,))

    def _listed_otherwise(self, before: Topic | None, after: Topic | None) -> set[int]:
        """The partitions that a write of the topic says something else of."""
        if before is None or after is None:
            return {*(after or before or Topic({})).partitions, *self._views, *self._states}
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

    def _touch(self, event: Event, stamp: ChangeStamp, partitions: Iterable[int]) -> None:
        """Of a seed only the time of its last write is known: what it says has been so since then."""
        for partition in partitions:
            if event.seed:
                known = self._touched.get(partition)
                since = max(event.mtime_ms or event.time_ms, known.time_ms if known else 0)
                self._touched[partition] = stamp._replace(time_ms=since)
            else:
                self._touched[partition] = stamp

    def _view(self, partition: int) -> PartitionView | None:
        replicas = None if self._value is None else self._value.partitions.get(partition)
        if replicas is None and partition not in self._states:
            return None
        life, state = self._states.get(partition, (0, None))
        topic = self._value
        moving = topic is not None and (partition in topic.adding or partition in topic.removing)
        return PartitionView(replicas, state, life, moving, self._is_deleting)


class FaultInterval(NamedTuple):
    """A time in which something was so; `to` is None while it lasts."""

    since: ChangeStamp
    to: ChangeStamp | None
    views: tuple[tuple[ChangeStamp, PartitionView], ...]
    """The partition as it was in that time, each with its beginning; at least one."""
    detail: str

    def ms(self, end: ChangeStamp) -> int:
        """Returns how long, by the leader's clock; never below 0."""
        return max((self.to or end).time_ms - self.since.time_ms, 0)


def partition_changes(
    rows: Iterable[Event], key: Key, facts: Facts
) -> Iterator[tuple[int, Sequence[ViewChange]]]:
    """The partitions of a topic, each with all that changed it, out of the topic's rows. Rules share it."""
    views = TopicViews(key[0], facts)
    by_partition: dict[int, list[ViewChange]] = {}
    for event in rows:
        for change in views.see(event):
            by_partition.setdefault(change.partition, []).append(change)
    for change in views.end():
        by_partition.setdefault(change.partition, []).append(change)
    yield from sorted(by_partition.items())


def fault_intervals(
    changes: Iterable[ViewChange], fault: Callable[[PartitionView], str | None]
) -> Iterator[FaultInterval]:
    """The times in which something was wrong with a partition.

    Args:
        fault: what is wrong, in words; None where nothing is.
    """
    current: FaultInterval | None = None
    for change in changes:
        detail = None if change.after is None else fault(change.after)
        if change.after is None or detail is None:
            if current is not None:
                yield current._replace(to=change.at)
            current = None
        elif current is None:
            current = FaultInterval(change.at, None, ((change.at, change.after),), detail)
        else:
            current = current._replace(views=(*current.views, (change.at, change.after)))
    if current is not None:
        yield current


def interval_finding(
    name: str, severity: Severity, topic: str, partition: int, interval: FaultInterval, detail: str
) -> Finding:
    """A finding about one."""
    place, session = (None, topic, partition), interval.since.session or None
    return Finding.between(name, severity, interval.since, interval.to, detail, place, session)


def change_finding(
    name: str, severity: Severity, topic: str, partition: int, at: ChangeStamp, detail: str
) -> Finding:
    """A finding about what one transaction did."""
    return Finding.between(name, severity, at, at, detail, (None, topic, partition), at.session or None)
