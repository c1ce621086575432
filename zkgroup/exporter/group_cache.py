"""The groups of an ensemble, as the exporter reads them once an interval.

What is judged once is judged again only where a znode has changed by which the group is known
(`GroupSnapshot.marks`): of a group at rest, only its offsets and these marks are read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zkgroup.errors import AccessDeniedError
from zkgroup.groups.coordinated import CoordinatedView
from zkgroup.groups.descriptions import GroupDescription, GroupState, GroupSummary, Problem
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.membership import LiveGroup, LiveReader
from zkgroup.groups.reader import read_permitted_snapshots
from zkgroup.groups.reads import (
    LogEnds,
    coordinated_views,
    describe_coordinated,
    describe_group,
    summarise_coordinated,
    summarise_group,
    unowned,
)
from zkgroup.groups.slots import read_slot_count
from zkgroup.groups.snapshot import DecodedZnode, GroupSnapshot, decode_or_error, mark_of
from zkgroup.groups.verify import ExpectedOwnership, expected_ownership, find_problems, group_state
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Code
from zkgroup.znodes.consumers import Offset

_AT_REST = (GroupState.EMPTY, GroupState.STABLE)
"""States that no time changes: a freeze of a group without members ends though its marker stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReading:
    """A group at one moment, judged."""

    snapshot: GroupSnapshot
    """Its znodes."""
    state: GroupState
    """Its state."""
    problems: tuple[Problem, ...]
    """Everything that is wrong, as `group verify` has it."""
    unowned: int
    """Number of partitions of subscribed topics that have no owner, and wait for no member that is away."""
    judged: ExpectedOwnership | CoordinatedView
    """The owners that it should have, or the view of a group of Kafka's protocol."""

    @property
    def members(self) -> int:
        """The number of its members."""
        own = len(self.judged.membership.members) if isinstance(self.judged, CoordinatedView) else 0
        return own + len(self.snapshot.registrations)

    def summary(self, now_ms: int, log_ends: LogEnds) -> GroupSummary:
        """Its row in `group list`."""
        if isinstance(self.judged, CoordinatedView):
            return summarise_coordinated(self.judged, now_ms, log_ends)
        return summarise_group(self.snapshot, self.judged, self.state, log_ends)

    def description(self, now_ms: int, log_ends: LogEnds) -> GroupDescription:
        """All of it, as `group describe` shows it."""
        if isinstance(self.judged, CoordinatedView):
            return describe_coordinated(self.judged, now_ms, log_ends)
        return describe_group(self.snapshot, self.judged, self.state, log_ends)


@dataclass(slots=True)
class GroupCache:
    """Reads groups; keeps each as it was read and judged."""

    _known: dict[str, GroupReading] = field(default_factory=dict)
    _slots: int | None = None

    def read(
        self, ensemble: Ensemble, names: Sequence[str], live: LiveReader | None
    ) -> tuple[dict[str, GroupReading], Mapping[str, AccessDeniedError]]:
        """These groups now, but for those that have just gone; and the error of each that an ACL hides.

        `live` asks the coordinators of groups of Kafka's protocol. Raises what reads raise.
        """
        ensemble.zk.sync("/")
        slots = read_slot_count(ensemble)
        if slots != self._slots:
            self._known, self._slots = {}, slots
        same = self._unchanged(ensemble, names)
        offsets = self._read_offsets(ensemble, same)
        as_of = ensemble.as_of()
        snapshots = {
            name: replace(_with_offsets(self._known[name].snapshot, offsets), as_of=as_of) for name in same
        }
        read, denied = read_permitted_snapshots(ensemble, [name for name in names if name not in same])
        snapshots |= {name: snapshot for name, snapshot in read.items() if snapshot is not None}
        views = coordinated_views(ensemble, snapshots.values(), live)
        now_ms = ensemble.clock.wall_ms()
        self._known = {
            name: _judge_view(views[name], self._known.get(name), now_ms, is_same=name in same)
            if name in views
            else _judge(snapshots[name], self._known.get(name), now_ms, is_same=name in same)
            for name in names
            if name in snapshots
        }
        return self._known, denied

    def _unchanged(self, ensemble: Ensemble, names: Sequence[str]) -> set[str]:
        """The groups whose znodes are as they were, but for offsets."""
        stood = [name for name in names if name in self._known and self._known[name].snapshot.stood_still]
        found = ensemble.zk.read_each(
            list({path: None for name in stood for path in self._known[name].snapshot.marks})
        )
        now = {path: mark_of(znode) for path, znode in found.items()}
        return {
            name
            for name in stood
            if all(now[path] == mark for path, mark in self._known[name].snapshot.marks.items())
        }

    def _read_offsets(self, ensemble: Ensemble, names: Collection[str]) -> Mapping[str, Znode | Code | None]:
        paths = [entry.znode.path for name in names for entry in self._known[name].snapshot.offsets.values()]
        return ensemble.zk.read_each(paths)


def _with_offsets(snapshot: GroupSnapshot, found: Mapping[str, Znode | Code | None]) -> GroupSnapshot:
    offsets: dict[TopicPartition, DecodedZnode[Offset]] = {}
    for tp, entry in snapshot.offsets.items():
        znode = found[entry.znode.path]
        if not isinstance(znode, Znode):
            continue
        is_same = znode.stat.mzxid == entry.znode.stat.mzxid
        offsets[tp] = entry if is_same else decode_or_error(znode, Offset.decode)
    return replace(snapshot, offsets=offsets)


def _judge(
    snapshot: GroupSnapshot, before: GroupReading | None, now_ms: int, *, is_same: bool
) -> GroupReading:
    """Judges a group of ZooKeeper consumers; `before` is the last read of it, `is_same` but for offsets."""
    is_at_rest = before is not None and is_same and before.state in _AT_REST
    if is_at_rest and before is not None and _faults(before.snapshot) == _faults(snapshot):
        return replace(before, snapshot=snapshot)
    expected = expected_ownership(snapshot)
    later = before.snapshot if before else None
    return GroupReading(
        snapshot=snapshot,
        state=group_state(snapshot, expected, now_ms=now_ms, later=later),
        problems=find_problems(snapshot, expected),
        unowned=unowned(snapshot, expected),
        judged=expected,
    )


def _faults(snapshot: GroupSnapshot) -> list[TopicPartition]:
    return [tp for tp, entry in snapshot.offsets.items() if entry.error]


def _judge_view(
    view: CoordinatedView, before: GroupReading | None, now_ms: int, *, is_same: bool
) -> GroupReading:
    """Judges a group of Kafka's protocol; see `_judge`."""
    if before is not None and is_same and before.state in _AT_REST:
        judged = before.judged
        if isinstance(judged, CoordinatedView) and _says_the_same(view, judged):
            return replace(before, snapshot=view.snapshot, judged=judged.with_offsets(view.snapshot))
    return GroupReading(
        snapshot=view.snapshot,
        state=view.state(now_ms),
        problems=view.problems,
        unowned=len(view.wanted - view.membership.owners.keys()),
        judged=view,
    )


def _says_the_same(view: CoordinatedView, before: CoordinatedView) -> bool:
    """Returns whether slot and coordinator say the same, but for timers, and as many offsets are readable."""
    is_same_slot = (view.slot, view.was_asked) == (before.slot, before.was_asked)
    is_same_answer = _answer(view.live) == _answer(before.live)
    return is_same_slot and is_same_answer and _faults(view.snapshot) == _faults(before.snapshot)


def _answer(live: LiveGroup | None) -> tuple[object, ...] | None:
    """Everything in the answer of a coordinator but how long its timers still run."""
    if live is None:
        return None
    members = [
        (one.member_id, one.instance_id, one.client_id, one.host, one.metadata, one.assignment)
        for one in live.members
    ]
    return live.state, live.protocol_type, live.protocol, live.phase, live.generation, live.leader, members
