"""Input of the group's invariants: the members' records, the server's log, and the caller's options."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from zkgroup.history.records import Record, partition_of
from zkgroup.history.transactions import ServerTransaction
from zkgroup.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What only the caller can know. All times are on the members' clock, in milliseconds."""

    group: str | None = None
    """Needed only where the server's log holds several groups."""
    member_sessions: Collection[int] = ()
    """Sessions of zkgroup's members beyond those that registered or recorded anything."""
    quiet_from_ms: int | None = None
    """When the last fault was healed and the last change was made; without it L1-L4 stay open."""
    recovery_ms: int = 10_000
    """How long after `quiet_from_ms` the group may take to settle."""
    ended_members: Collection[str] = ()
    """Members that were killed, could not record their end, and did not come back."""
    half_claim_ms: int = 30_000
    """Longest time for which an owner znode may stand that its member does not hold (by its own records)."""
    slack_ms: int = 100
    """Time between the check of a lease and the stamp on the record of the delivery."""
    gaps_allowed: bool = False
    """Offsets of records may have gaps (compacted topics): a claim may start above its position."""
    offsets_given: bool = False
    """The application commits offsets of its own choice, processed or not: S5 stays open."""


@dataclass(frozen=True)
class Evidence:
    """Everything there is to decide from."""

    records: tuple[Record, ...]
    """In the order of time."""
    transactions: tuple[ServerTransaction, ...]
    """In the order of their zxid; empty where no server's log is at hand."""
    group: str
    options: CheckOptions = field(default_factory=CheckOptions)

    @cached_property
    def by_member(self) -> Mapping[str, tuple[Record, ...]]:
        """Each member's records, in order."""
        found: dict[str, list[Record]] = {}
        for record in self.records:
            found.setdefault(record.member, []).append(record)
        return {member: tuple(records) for member, records in found.items()}

    @cached_property
    def holdings(self) -> tuple[RecordedOwnership, ...]:
        """Every ownership as its member recorded it, by beginning.

        It ends with the member's own word, or where the member registers again in another session (it was
        killed in between and could not say so).
        """
        open_: dict[str, dict[tuple[TopicPartition, int], RecordedOwnership]] = {}
        found: list[RecordedOwnership] = []
        for record in self.records:
            mine = open_.setdefault(record.member, {})
            if record.kind == "registered":
                for key in [key for key in mine if mine[key].begin.session != record.session]:
                    mine.pop(key).end = record
            elif record.kind == "own.begin":
                key = (record.topic_partition, record.fields["token"])
                mine[key] = RecordedOwnership(record.member, *key, begin=record)
                found.append(mine[key])
            elif record.kind == "own.end":
                ended = mine.pop((record.topic_partition, record.fields["token"]), None)
                if ended is not None:
                    ended.end = record
        return tuple(found)

    @cached_property
    def rewinds(self) -> frozenset[tuple[TopicPartition, int]]:
        """Partition and resulting version of writes that the application asked for by seeking back."""
        return frozenset(
            (partition_of(row), row["fence"] + 1 if record.kind == "commit.invoke" else row["version"])
            for record in self.records
            if record.kind in ("commit.invoke", "release.invoke")
            for row in record.fields["offsets" if record.kind == "commit.invoke" else "partitions"]
            if row.get("rewind")
        )

    @property
    def settled_at_ms(self) -> int | None:
        """From when on the group must be at rest."""
        quiet_from_ms = self.options.quiet_from_ms
        return None if quiet_from_ms is None else quiet_from_ms + self.options.recovery_ms


@dataclass(slots=True)
class RecordedOwnership:
    """One ownership by a member's own account."""

    member: str
    topic_partition: TopicPartition
    token: int
    begin: Record
    end: Record | None = None
