"""The rows of groups, partition by partition: owners and their ends, and every write of an offset."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Literal, NamedTuple

from zkgroup.audit.answers.owner_lives import OwnerLife, owner_lives
from zkgroup.audit.answers.partition_offsets import partition_steps
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.keys import is_of_groups, require_group
from zkgroup.audit.inputs.texts import first_of, members_of
from zkgroup.errors import CorruptZnodeError, NotFoundError
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.paths import path_kind

_NAMED = 8


class GroupPartition(NamedTuple):
    """One partition as one group has it."""

    group: str
    topic_partition: TopicPartition


def rows_by_partition(
    events: Iterable[Event], group: str | None = None
) -> Mapping[GroupPartition, list[Event]]:
    """The rows of owners and offsets of a group, or of all, each partition's in order; partitions in order.

    Memory: the rows that are asked for. Raises NotFoundError where there never was such a group.
    """
    found: dict[GroupPartition, list[Event]] = {}
    groups: set[str] = set()
    for event in events:
        place = path_kind(event.path)
        if not is_of_groups(place):
            continue
        groups.add(place.name)
        if place.kind in ("owner", "offset") and group in (None, place.name):
            where = GroupPartition(place.name, TopicPartition(place.topic, place.partition))
            found.setdefault(where, []).append(event)
    require_group(group, groups)
    return dict(sorted(found.items()))


def require_partition(partition: TopicPartition, shown: Collection[GroupPartition], facts: Facts) -> None:
    """Raises NotFoundError for a partition that neither rows of a group nor its topic show."""
    known = {
        where.topic_partition.partition for where in shown if where.topic_partition.topic == partition.topic
    }
    for change in facts.topics.get(partition.topic, ()):
        if change.data is not None:
            with suppress(CorruptZnodeError):
                known |= set(Topic.decode(Topic.path(partition.topic), change.data).partitions)
    if partition.partition not in known:
        numbers = first_of([*map(str, sorted(known))], _NAMED) or "none"
        raise NotFoundError(f"{partition}: no such partition; those of {partition.topic}: {numbers}")


def owners_of(events: Iterable[Event], facts: Facts) -> list[OwnerLife]:
    """Every ownership of one partition, out of its rows in order; the last one may be open."""
    rows = (event for event in events if event.applied and path_kind(event.path).kind == "owner")
    return list(owner_lives(rows, (), facts))


OffsetKind = Literal["commit", "claim", "reset", "deletion", "snapshot"]


class OffsetRow(NamedTuple):
    """One write."""

    zxid: int
    """Of what a snapshot holds: of its create."""
    time_ms: int
    """Of what a snapshot holds: when it was last written."""
    session: int
    """0 for what a snapshot holds: it does not say who wrote."""
    members: tuple[str, ...]
    """Holds what this session ever was in the group."""
    kind: OffsetKind
    """`claim`: a claim by zkgroup, which writes what was there. `reset`: an operator's, by its marker."""
    offset: int | None
    """None where it is no number, and for a deletion; negative means "none"."""
    previous: int | None
    """Holds what the znode held before, in the same life."""
    owned: bool | None
    """True if the writer owned the partition; None where that is not known."""
    owner: str | None
    """The thread that the owner znode named."""
    is_rewind: bool
    """True if a commit or a reset is lower than what was there."""


def offsets_of(events: Iterable[Event], facts: Facts, group: str) -> Iterator[OffsetRow]:
    """The writes of the offset of one partition, out of its rows in order."""
    members, acts, before = Members(facts, group), facts.operator_acts.get(group, ()), None
    for step in partition_steps((event for event in events if event.applied), (group,), facts):
        event, write, holder = step.event, step.write, step.holder
        previous, before = before, step.value
        kind: OffsetKind = "commit"
        if write is None:
            if step.is_owner or event.op != "delete":
                continue
            kind = "deletion"
        elif event.seed:
            kind = "snapshot"
        elif write.is_claim:
            kind = "claim"
        elif event.zxid in acts:
            kind = "reset"
        is_known = write is None or (write.holder_known and not event.seed)
        yield OffsetRow(
            event.zxid,
            event.time_ms if event.mtime_ms is None else event.mtime_ms,
            event.session,
            members[event.session],
            kind,
            None if write is None else write.offset,
            previous if write is None else write.previous,
            (holder is not None and holder.session == event.session) if is_known else None,
            None if holder is None else holder.thread,
            is_rewind=write is not None and write.falls,
        )


class Members(dict[int, tuple[str, ...]]):
    """Holds what each session was in the group, looked up once."""

    def __init__(self, facts: Facts, group: str) -> None:
        super().__init__()
        self._facts, self._group = facts, group

    def __missing__(self, session: int) -> tuple[str, ...]:
        names = tuple(member for _, member in members_of(self._facts, session, self._group))
        self[session] = names
        return names
