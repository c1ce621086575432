"""What the exporter remembers beside its last reading: lags, changes of owners, unknown since when.

All of it comes from readings, each compared with the one before; nothing is kept on a disk.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from zkgroup.exporter.group_cache import GroupReading
from zkgroup.exporter.reading import EnsembleReading
from zkgroup.groups.coordinated import CoordinatedView
from zkgroup.groups.membership import ClientMembership
from zkgroup.groups.snapshot import GroupSnapshot
from zkgroup.model import TopicPartition

STEP_MS: Final = 60_000
"""A curve has one value for so long: the highest of its reads."""
STEPS: Final = 60
"""Values of a curve."""
CHANGES_MAX: Final = 100
"""Changes of groups that are kept, of all groups together."""
NAMED_MAX: Final = 100
"""Partitions and members that a change names; it counts all."""
_UNKNOWN: Final = -1
_LAG_MAX: Final = 2**63 - 1
"""Offsets are anything that a broker or a client says, and lags are kept in 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerChange:
    """A partition that has another owner than at the read before; None for none."""

    topic_partition: TopicPartition
    before: str | None
    """The thread that owned it, or the member of Kafka's protocol."""
    after: str | None
    """The one that owns it now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipChange:
    """What one read of a group found to be other than at the read before."""

    time_ms: int
    """The read that found it, in epoch milliseconds."""
    since_ms: int
    """The read before: it happened between the two."""
    group: str
    """The group."""
    moved: int
    """Partitions that have another owner than before."""
    assigned: int
    """Partitions that had no owner."""
    released: int
    """Partitions that have no owner any more."""
    joined: tuple[str, ...]
    """New members, the first ones."""
    left: tuple[str, ...]
    """Members that are gone, the first ones."""
    partitions: tuple[OwnerChange, ...]
    """The partitions of all three kinds, the first ones."""


class Unknown(NamedTuple):
    """Something that is not known."""

    reason: str
    """For people."""
    since_ms: int
    """The first of the reads in a row that did not know it, in epoch milliseconds."""


class _Seen(NamedTuple):
    """The parts of a group's reading that show members and owners: the same objects while it rests."""

    time_ms: int
    snapshot: GroupSnapshot
    membership: ClientMembership | None

    def is_same(self, other: _Seen) -> bool:
        ours, theirs = self.snapshot, other.snapshot
        is_same_tree = ours.owners is theirs.owners and ours.registrations is theirs.registrations
        return is_same_tree and self.membership is other.membership

    @property
    def owners(self) -> dict[TopicPartition, str]:
        found = {tp: entry.text for tp, entry in self.snapshot.owners.items()}
        return found | dict(self.membership.owners) if self.membership else found

    @property
    def members(self) -> set[str]:
        clients = self.membership.members if self.membership else ()
        return {*self.snapshot.registrations, *(one.member_id for one in clients)}


class ReadingHistory:
    """Grows by one reading after the other; may be asked from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._step = 0
        self._lags: dict[str, array[int]] = {}
        self._seen: dict[str, _Seen] = {}
        self._changes: deque[MembershipChange] = deque(maxlen=CHANGES_MAX)
        self._unknown: dict[str, int] = {}
        self._reached_ms: int | None = None
        self._moving: dict[TopicPartition, int] = {}
        self._moved = 0

    def add(self, reading: EnsembleReading) -> None:
        """Adds a reading, which is later than the last one."""
        with self._lock:
            now_ms = reading.time_ms
            self._unknown = {reason: self._unknown.get(reason, now_ms) for reason in reading.unknown}
            self._add_lags(reading)
            for name, group in reading.groups.items():
                self._compare(name, _seen(group, now_ms))
            if reading.as_of is not None:
                self._reached_ms = now_ms
            if reading.cluster is not None:
                moving = {tp: self._moving.get(tp, now_ms) for tp in reading.cluster.moving}
                self._moved = self._moved + len(self._moving.keys() - moving.keys()) if moving else 0
                self._moving = moving

    @property
    def unknown(self) -> tuple[Unknown, ...]:
        """What the last reading did not know."""
        with self._lock:
            return tuple(Unknown(*item) for item in self._unknown.items())

    @property
    def reached_ms(self) -> int | None:
        """The last reading for which ZooKeeper answered; None for none yet."""
        return self._reached_ms

    @property
    def moved(self) -> int:
        """Partitions whose move has ended since the first of those that are under way began."""
        return self._moved

    def moving_since_ms(self, tp: TopicPartition) -> int | None:
        """The first reading of a move that is under way."""
        return self._moving.get(tp)

    def lags(self) -> dict[str, list[int | None]]:
        """The lag of each group over the last hour, a value a step, the newest last; None for unknown.

        Groups without any are left out, and so are the steps before the first known one.
        """
        with self._lock:
            known = {name: values.tolist() for name, values in self._lags.items() if max(values) >= 0}
        return {
            name: [value if value >= 0 else None for value in values[_first(values) :]]
            for name, values in known.items()
        }

    def changes(self, group: str | None = None) -> list[MembershipChange]:
        """The last changes, of one group or of all, the newest first."""
        with self._lock:
            return [one for one in reversed(self._changes) if group in (None, one.group)]

    def _add_lags(self, reading: EnsembleReading) -> None:
        step = max(reading.time_ms // STEP_MS, self._step)
        passed = min(step - self._step, STEPS)
        self._step = step
        for name, values in list(self._lags.items()):
            values.extend([_UNKNOWN] * passed)
            del values[:-STEPS]
            if name not in reading.groups and max(values) < 0:
                del self._lags[name]
                self._seen.pop(name, None)
        for name in reading.groups:
            known = [lag for row in reading.partitions.get(name, ()) if (lag := row.lag) is not None]
            values = self._lags.setdefault(name, array("q", [_UNKNOWN]))
            values[-1] = max(values[-1], min(sum(known), _LAG_MAX) if known else _UNKNOWN)

    def _compare(self, name: str, seen: _Seen) -> None:
        before, self._seen[name] = self._seen.get(name), seen
        since_ms = before.time_ms if before else self._reached_ms
        if since_ms is None or (before is not None and before.is_same(seen)):
            return  # the first reading is compared with nothing
        owners, now = (before.owners if before else {}), seen.owners
        members, present = (before.members if before else set()), seen.members
        changes = [
            OwnerChange(topic_partition=tp, before=owners.get(tp), after=now.get(tp))
            for tp in sorted(owners.keys() | now.keys())
            if owners.get(tp) != now.get(tp)
        ]
        joined, left = sorted(present - members), sorted(members - present)
        if changes or joined or left:
            assigned = sum(one.before is None for one in changes)
            released = sum(one.after is None for one in changes)
            self._changes.append(
                MembershipChange(
                    time_ms=seen.time_ms,
                    since_ms=since_ms,
                    group=name,
                    moved=len(changes) - assigned - released,
                    assigned=assigned,
                    released=released,
                    joined=tuple(islice(joined, NAMED_MAX)),
                    left=tuple(islice(left, NAMED_MAX)),
                    partitions=tuple(islice(changes, NAMED_MAX)),
                )
            )


def _seen(group: GroupReading, time_ms: int) -> _Seen:
    view = group.judged if isinstance(group.judged, CoordinatedView) else None
    return _Seen(time_ms, group.snapshot, view.membership if view else None)


def _first(values: list[int]) -> int:
    return next(at for at, value in enumerate(values) if value >= 0)
