"""Administrators' requests and answers, from records: deletions (S30, S31), removed members (S33). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from zkgroup.history.records import HistoryRecord
from zkgroup.history.report import Violation
from zkgroup.model import TopicPartition


@dataclass(slots=True)
class Moments:
    """The moments at which something was so: the times of its changes, the first before all others."""

    changes: list[tuple[float, bool]]

    @classmethod
    def since_ever(cls, is_so: bool) -> Moments:
        """Nothing has changed yet."""
        return cls([(float("-inf"), is_so)])

    def change(self, at_ms: float, is_so: bool) -> None:
        """From this time on it is so, or not."""
        if self.changes[-1][1] != is_so:
            self.changes.append((at_ms, is_so))

    def was_so(self, since_ms: float, until_ms: float) -> bool:
        """Returns whether it was so at any moment of this time."""
        ends = [*self.changes, (float("inf"), False)]
        return any(
            is_so and begins_ms <= until_ms and ends_ms >= since_ms
            for (begins_ms, is_so), (ends_ms, _) in pairwise(ends)
        )


@dataclass(slots=True)
class Absences:
    """The times at which groups, and offsets of groups, were not in ZooKeeper."""

    groups: dict[str, Moments] = field(default_factory=dict)
    offsets: dict[tuple[str, TopicPartition], Moments] = field(default_factory=dict)

    def group(self, name: str) -> Moments:
        """Returns the times at which nothing of a group was there: no offset, no marker, no members."""
        return self.groups.setdefault(name, Moments.since_ever(True))

    def offset(self, name: str, tp: TopicPartition) -> Moments:
        """Returns the times at which a group had no offset of a partition."""
        return self.offsets.setdefault((name, tp), Moments.since_ever(True))


@dataclass(frozen=True, slots=True)
class RemovedMember:
    """A static member that an administrator has removed, under one of its ids."""

    asked_ms: float
    answered_ms: float


def removed_members(records: Iterable[HistoryRecord]) -> Mapping[tuple[str, str], RemovedMember]:
    """The members that were removed, by group and member id: the ids that were known when it was asked."""
    ids: dict[tuple[str, str], set[str]] = {}
    asked: dict[str, tuple[float, frozenset[str]]] = {}
    found: dict[tuple[str, str], RemovedMember] = {}
    for record in records:
        group = record.fields.get("group", "")
        if record.kind == "join.ok" and "member_id" in record.fields:
            ids.setdefault((group, record.fields["owner"]), set()).add(record.fields["member_id"])
        elif record.kind == "static.removing":
            known = frozenset(ids.get((group, record.fields["owner"]), ()))
            asked[record.fields["request"]] = record.ms, known
        elif record.kind == "static.removed":
            asked_ms, known = asked[record.fields["request"]]
            found |= {(group, member_id): RemovedMember(asked_ms, record.ms) for member_id in known}
    return found


def check_deletions(records: Sequence[HistoryRecord], absences: Absences) -> Iterator[Violation]:
    """A deleted group or offset was gone at some moment while its deletion was asked for (S30, S31)."""
    for record in records:
        if record.kind == "group.deleted":
            name, since_ms = record.fields["group"], record.fields["since_ms"]
            if not absences.group(name).was_so(since_ms, record.ms):
                yield Violation("S30", f"the deletion of {name} was acknowledged, and it was always there")
        elif record.kind == "offsets.deleted":
            name, since_ms = record.fields["group"], record.fields["since_ms"]
            for topic, number in record.fields["partitions"]:
                tp = TopicPartition(topic, number)
                if not absences.offset(name, tp).was_so(since_ms, record.ms):
                    detail = f"the deletion of an offset of {name} was acknowledged, and it was always there"
                    yield Violation("S31", detail, tp)
