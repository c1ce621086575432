"""The cluster's side at a zxid: its controller and brokers, and its partitions from one change to the next.

A multi counts as a whole: between its operations a replica list and a state may contradict each other.
A value that cannot be read is not known, and nothing is found in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple

from zkgroup.audit.findings.rules import Finding, Moment, Severity
from zkgroup.audit.inputs.events import BY_TOPIC, Event, Key
from zkgroup.audit.inputs.facts import Facts, Life, change_at, decoded
from zkgroup.model import TopicPartition
from zkgroup.model.text import hex_session
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.paths import path_kind

CHANGES: Final = frozenset(("create", "set", "delete"))


class ChangeStamp(NamedTuple):
    """The moment of a change; for a znode that the history began with, the beginning of its log."""

    zxid: int
    time_ms: int
    session: int = 0
    """The session that made it; 0 for a znode that the history began with."""


class PartitionView(NamedTuple):
    """A partition as far as it is known."""

    replicas: tuple[int, ...] | None
    """The replica list; None where the topic does not name the partition, or cannot be read."""
    state: PartitionState | None
    """The state; None before a controller has created it, and where it cannot be read."""
    life: int
    """The czxid of its state; 0 where there is none."""
    is_moving: bool
    """True if the topic itself says so, which Kafka does from 2.4 on."""
    is_deleting: bool
    """True if its topic is to be deleted: a controller then takes leaders and replicas away."""


_ABSENT: Final = PartitionView(None, None, 0, is_moving=False, is_deleting=False)


class ViewStretch(NamedTuple):
    """A partition from one change to the next. One that is not there has neither replicas nor a state."""

    since: ChangeStamp
    to: ChangeStamp | None
    """The change that ended it; None where it lasts to the end of the history."""
    view: PartitionView


@lru_cache(maxsize=16)
def topic_of(path: str, data: bytes | None) -> Topic | None:
    """A topic, or None where it cannot be read. Several rules see each row: it is read once for all."""
    return decoded(Topic.decode, path, data)


@lru_cache(maxsize=4096)
def state_of(path: str, data: bytes | None) -> PartitionState | None:
    """The state of a partition, or None where it cannot be read."""
    return decoded(PartitionState.decode, path, data)


def brokers_text(brokers: Iterable[int]) -> str:
    """Brokers as findings print them: `[1, 2]`."""
    return "[" + ", ".join(map(str, brokers)) + "]"


def history_start(facts: Facts) -> ChangeStamp:
    """The beginning of the log; without a log the end, for then only the tree at that moment is known."""
    start, end = (facts.start_zxid, facts.start_ms), (facts.end_zxid, facts.end_ms)
    return ChangeStamp(*(start if facts.has_log else end))


class _TopicRows:
    def __init__(self, topic: str) -> None:
        self._path, self._deletion = Topic.path(topic), TopicDeletion.path(topic)
        self._topic = Topic({})
        self._is_deleting = False
        self._states: dict[int, tuple[int, PartitionState | None]] = {}

    def take(self, event: Event) -> Iterable[int]:
        """Takes a row; returns the partitions that it may have changed."""
        gone, place = event.op == "delete", path_kind(event.path)
        if place.kind == "partition_state":
            known = self._states.pop(place.partition, None)
            if not gone:
                life = event.zxid if event.op == "create" or known is None else known[0]
                self._states[place.partition] = life, state_of(event.path, event.data)
            return (place.partition,)
        listed = self._topic.partitions
        if event.path == self._path:
            self._topic = (None if gone else topic_of(event.path, event.data)) or Topic({})
        elif event.path == self._deletion:
            self._is_deleting = not gone
        else:
            return ()
        return {*listed, *self._topic.partitions, *self._states}

    def view(self, partition: int) -> PartitionView:
        """A partition behind the last row."""
        replicas = self._topic.partitions.get(partition)
        if replicas is None and partition not in self._states:
            return _ABSENT
        life, state = self._states.get(partition, (0, None))
        is_moving = partition in self._topic.adding or partition in self._topic.removing
        return PartitionView(replicas, state, life, is_moving, self._is_deleting)


def partition_stretches(
    rows: Iterable[Event], key: Key, facts: Facts
) -> Iterator[tuple[int, Sequence[ViewStretch]]]:
    """The partitions of a topic, each from change to change, from the topic's rows. Rules share it."""
    topic, start = _TopicRows(key[0]), history_start(facts)
    found: dict[int, list[ViewStretch]] = {}

    def stamp_of(event: Event) -> ChangeStamp:
        return start if event.seed else ChangeStamp(event.zxid, event.time_ms, event.session)

    for stamp, events in groupby((event for event in rows if event.op in CHANGES), stamp_of):
        touched: dict[int, ChangeStamp] = {}
        for event in events:
            for partition in topic.take(event):
                at = stamp
                if event.seed:  # only its last write is known, and its state has stood since then
                    earlier_ms = touched[partition].time_ms if partition in touched else 0
                    at = stamp._replace(time_ms=max(event.mtime_ms or event.time_ms, earlier_ms))
                touched[partition] = at
        for partition, at in touched.items():
            view, stretches = topic.view(partition), found.get(partition)
            if stretches is None:
                if view != _ABSENT:
                    found[partition] = [ViewStretch(at, None, view)]
            elif view != stretches[-1].view:
                stretches[-1] = stretches[-1]._replace(to=at)
                stretches.append(ViewStretch(at, None, view))
    yield from sorted(found.items())


def all_stretches(
    rows: Iterable[Event], key: Key, facts: Facts
) -> Iterator[tuple[TopicPartition, Sequence[ViewStretch]]]:
    """The partitions of all topics, each from change to change, from the rows of REPLICATION."""
    by_topic: dict[Key, list[Event]] = {}
    for event in rows:
        topic = BY_TOPIC.key(event)
        if topic is not None:
            by_topic.setdefault(topic, []).append(event)
    for topic, of_topic in by_topic.items():
        for partition, stretches in partition_stretches(of_topic, topic, facts):
            yield TopicPartition(topic[0], partition), stretches


def change_finding(
    name: str,
    severity: Severity,
    since: ChangeStamp | Event,
    to: Moment | None,
    detail: str,
    topic: str | None = None,
    partition: int | None = None,
) -> Finding:
    """A finding from one change, of its session, to another one; None where it lasts."""
    place, session = (None, topic, partition), since.session or None
    return Finding.between(name, severity, since, to, detail, place, session)


def lasted_ms(since: Moment, to: Moment | None, facts: Facts) -> int:
    """The time from one moment to another, by the leader's clock; None for the end. Never below 0."""
    return max((facts.end_ms if to is None else to.time_ms) - since.time_ms, 0)


def begin_of(life: Life) -> ChangeStamp:
    """The moment at which a znode was made."""
    return ChangeStamp(life.from_zxid, life.from_ms, life.session)


def end_of(life: Life) -> ChangeStamp | None:
    """The moment at which a znode was deleted; None where it still exists."""
    return None if life.to_zxid is None else ChangeStamp(life.to_zxid, life.to_ms or 0, life.ended_by or 0)


def epoch_at(facts: Facts, zxid: int) -> int | None:
    """The controller epoch; None where there is none, or it cannot be read."""
    change = change_at(facts.controller_epochs, zxid)
    epoch = change and decoded(ControllerEpoch.decode, ControllerEpoch.path(), change.data)
    return epoch.epoch if epoch else None


def replicas_at(facts: Facts, topic_partition: TopicPartition, zxid: int) -> tuple[int, ...] | None:
    """The replica list; None where the topic does not name the partition, is gone, or cannot be read."""
    change = change_at(facts.topics.get(topic_partition.topic, ()), zxid)
    if change is None or change.data is None:
        return None
    topic = topic_of(Topic.path(topic_partition.topic), change.data)
    return None if topic is None else topic.partitions.get(topic_partition.partition)


def is_requested(facts: Facts, topic_partition: TopicPartition, zxid: int) -> bool:
    """True if a move of the partition was requested and not done after this zxid."""
    return any(
        move.partition == topic_partition.partition
        and move.from_zxid <= zxid
        and (move.to_zxid is None or zxid < move.to_zxid)
        for move in facts.moves.get(topic_partition.topic, ())
    )


def controller_name(life: Life) -> str:
    """The broker that a `/controller` names, and its session."""
    value = decoded(ControllerRegistration.decode, life.path, life.data)
    broker = "a controller that cannot be read" if value is None else f"broker {value.broker}"
    return f"{broker} (session {hex_session(life.session)})"


def absences(
    facts: Facts, broker: int, since: ChangeStamp, to: ChangeStamp | None
) -> Iterator[tuple[ChangeStamp, ChangeStamp | None]]:
    """The times in which a broker was not registered, between two moments; None for the end of the history.

    Where a history does not begin with a whole tree, the time before a registration is not known.
    """
    cursor = since
    is_known = facts.is_whole
    for life in facts.brokers.get(str(broker), ()):
        gone = end_of(life)
        if gone is not None and gone.zxid <= since.zxid:
            is_known = True
            continue
        if to is not None and life.from_zxid >= to.zxid:
            break
        if life.from_zxid > cursor.zxid and is_known:
            yield cursor, begin_of(life)
        is_known = True
        if gone is None:
            return
        cursor = gone
    if is_known and (to is None or cursor.zxid < to.zxid):
        yield cursor, to


def ending_text(facts: Facts, life: Life) -> str:
    """The text about the end of an ephemeral: it went with its session, or was deleted."""
    session = facts.sessions.get(life.session)
    if session is not None and session.to_zxid == life.to_zxid:
        return "its session expired" if session.expired else "it closed its session"
    ended_by = life.ended_by or 0
    return "deleted by itself" if ended_by == life.session else f"deleted by session {hex_session(ended_by)}"
