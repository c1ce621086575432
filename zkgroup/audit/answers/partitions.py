"""One partition of one group through time: its owners, its offsets, and the writers of both; and sessions.

Findings, the views of owners and offsets, and the report share it. A claim by zkgroup writes the offset too,
behind the create of the owner in the same transaction: that is no commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import cache, lru_cache
from typing import Final, Literal, NamedTuple

from zkgroup.audit.inputs.events import Event, Key
from zkgroup.audit.inputs.facts import Facts, Life, SessionLife, brokers_of, members_of, server_of
from zkgroup.errors import CorruptZnodeError, NotFoundError
from zkgroup.model import TopicPartition
from zkgroup.model.text import named
from zkgroup.zkfiles.records import StoredZnode
from zkgroup.zkfiles.snapshots import TreeSnapshot
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, Owner, owners_path
from zkgroup.znodes.paths import path_kind

SAFE_DIGITS: Final = 18
"""So many digits are below 2**63, whatever they are; almost every offset has no more."""


class GroupPartition(NamedTuple):
    """A partition of a topic in a group."""

    group: str
    topic_partition: TopicPartition


def require_partition(partition: TopicPartition, shown: Collection[GroupPartition], facts: Facts) -> None:
    """Raises NotFoundError for a partition that neither the rows of a group nor the topic show."""
    known = {
        where.topic_partition.partition for where in shown if where.topic_partition.topic == partition.topic
    }
    for change in facts.topics.get(partition.topic, ()):
        if change.data is not None:
            with suppress(CorruptZnodeError):
                known |= set(Topic.decode(Topic.path(partition.topic), change.data).partitions)
    if partition.partition not in known:
        numbers = named(sorted(known), most=8) or "none"
        raise NotFoundError(f"{partition}: no such partition; those of {partition.topic}: {numbers}")


EndedBy = Literal["release", "session_end", "deleted_by_other", "open"]


class OwnerLife(NamedTuple):
    """One existence of an owner znode."""

    thread: str
    """The text of the znode; bytes that are no UTF-8 are replaced."""
    session: int
    """The session that created it; 0 for an owner of a snapshot that is not ephemeral."""
    from_zxid: int
    from_ms: int
    to_zxid: int | None = None
    to_ms: int | None = None
    ended_by: EndedBy | None = "open"
    """None where only snapshots show the end."""
    ender: int | None = None
    """The session that deleted it, or that ended."""
    is_ephemeral: bool = True
    """False for an owner that no session holds: `persistent_znode` reports it."""

    def is_of(self, member: str) -> bool:
        """True if the text names this member."""
        return member in members_named(self.thread)


@lru_cache(maxsize=1 << 14)
def member_of_thread(thread: str) -> str | None:
    """The member that the text of an owner znode names; None where it is no thread id. Results are cached."""
    return Owner(thread).member


@lru_cache(maxsize=1 << 14)
def members_named(thread: str) -> tuple[str, ...]:
    """`Owner.members` of the text of an owner znode. Results are cached."""
    return Owner(thread).members


def thread_of(znode: Event | StoredZnode | Life) -> str:
    """The text of an owner znode; bytes that are no UTF-8 are replaced."""
    return (znode.data or b"").decode("utf-8", "replace")


def owner_lives(rows: Iterable[Event], key: Key, facts: Facts) -> Iterator[OwnerLife]:
    """Every ownership of a partition, from its owner rows in order; the last may be open."""
    current: OwnerLife | None = None
    for event in rows:
        if event.op in ("create", "delete"):
            if current is not None:
                yield _ended(current, event, facts)
            current = _claimed(event) if event.op == "create" else None
    if current is not None:
        yield current


def owners_of(events: Iterable[Event], facts: Facts) -> list[OwnerLife]:
    """Every ownership of a partition, from all its rows, refused ones too."""
    rows = (event for event in events if event.applied and path_kind(event.path).kind == "owner")
    return list(owner_lives(rows, (), facts))


def _claimed(event: Event) -> OwnerLife:
    is_ephemeral = event.ephemeral == "session"
    return OwnerLife(thread_of(event), event.session, event.zxid, event.time_ms, is_ephemeral=is_ephemeral)


def is_session_end(facts: Facts, event: Event) -> bool:
    """True if a deletion came with the end of a session, and was no request."""
    life = facts.sessions.get(event.session)
    return event.synthetic or (life is not None and life.to_zxid == event.zxid)


def _ended(life: OwnerLife, event: Event, facts: Facts) -> OwnerLife:
    """The life, over. A create ends it only where the log has a hole: its deletion is not known."""
    how: EndedBy = "deleted_by_other"
    if event.op == "create":
        how = "session_end"
    elif event.session == life.session:
        how = "session_end" if is_session_end(facts, event) else "release"
    ender = None if event.op == "create" else event.session
    # Many are made, and `_replace` is slow.
    return OwnerLife(*life[:4], event.zxid, event.time_ms, how, ender, life.is_ephemeral)


class OffsetWrite(NamedTuple):
    """One write of the offset, with the state just before it."""

    event: Event
    offset: int | None
    """The offset; None where it is no number; a negative one means "none"."""
    previous: int | None
    """The offset before in the same life of the znode; None where it had none, or that is not known."""
    holder: OwnerLife | None
    holder_known: bool
    """False before the first row of the owner: there may be an owner from before the history."""
    is_claim: bool

    @property
    def is_commit(self) -> bool:
        return not self.is_claim and not self.event.seed

    @property
    def falls(self) -> bool:
        return self.offset is not None and self.previous is not None and self.offset < self.previous >= 0

    @property
    def repeats(self) -> bool:
        return self.offset is not None and self.offset == self.previous


class PartitionStep(NamedTuple):
    """One row of a partition, with its effect."""

    event: Event
    is_owner: bool
    """True if the row is of the owner znode; it is of the offset otherwise."""
    write: OffsetWrite | None
    ended: OwnerLife | None
    """The ownership that the row ended."""
    holder: OwnerLife | None
    """The ownership behind the row."""
    value: int | None
    """The offset behind the row."""
    exists: bool
    """True if there is an offset znode behind the row."""


def partition_steps(rows: Iterable[Event], key: Key, facts: Facts) -> Iterator[PartitionStep]:
    """Every row of a partition with its effect on owner and offset. Several rules share it."""
    owners = f"{owners_path(key[0])}/"
    holder: OwnerLife | None = None
    value: int | None = None
    holder_known = exists = False
    for event in rows:
        write: OffsetWrite | None = None
        ended: OwnerLife | None = None
        is_owner = event.path.startswith(owners)
        if is_owner:
            holder_known = True
            if event.op in ("create", "delete"):
                ended = None if holder is None else _ended(holder, event, facts)
                holder = _claimed(event) if event.op == "create" else None
        elif event.op == "delete":
            exists, value = False, None
        elif event.op in ("create", "set"):
            offset, previous = offset_of(event.path, event.data), value if event.op == "set" else None
            # A write behind its owner's create, of the offset before or of "none"; one that moves the offset
            # with its claim has committed.
            is_claim = (
                holder is not None
                and holder.from_zxid == event.zxid
                and not event.seed
                and (previous is None or offset == previous)
            )
            write = OffsetWrite(event, offset, previous, holder, holder_known, is_claim)
            exists, value = True, previous if offset is None else offset
        yield PartitionStep(event, is_owner, write, ended, holder, value, exists)


def offset_of(path: str, data: bytes | None) -> int | None:
    """The offset in a znode; None where it is no number, and negative for none."""
    if data is not None and data.isdigit() and len(data) <= SAFE_DIGITS:
        return int(data)
    try:
        return Offset.decode(path, data).value
    except CorruptZnodeError:
        return None


OffsetKind = Literal["commit", "claim", "reset", "deletion", "snapshot", "write"]


class OffsetRow(NamedTuple):
    """One write."""

    zxid: int
    """The zxid of the write; for a znode of a snapshot that of its create."""
    time_ms: int
    """The time of the write; for a znode of a snapshot that of its last write."""
    session: int
    """The session that wrote; 0 for a znode of a snapshot, which does not have it."""
    members: tuple[str, ...]
    """The members of the group in this session."""
    kind: OffsetKind
    """`claim`: a claim by zkgroup, which writes the same offset. `reset`: an operator's, by its marker.
    `write`: all writes between two snapshots; then `reset` is that of the last one."""
    offset: int | None
    """The offset; None where it is no number, and for a deletion; a negative one means "none"."""
    previous: int | None
    """The offset before in the same life of the znode."""
    owned: bool | None
    """True if the writer owned the partition; None where that is not known."""
    owner: str | None
    """The thread that the owner znode named."""
    is_rewind: bool
    """True if a commit or a reset is lower than the offset before."""
    writes: int | None
    """How many writes the row stands for; None for a deletion, and for what existed before."""
    seen: TreeSnapshot | None = None
    """The last snapshot that shows it; None where a log does."""


def offsets_of(events: Iterable[Event], facts: Facts, group: str) -> Iterator[OffsetRow]:
    """The writes of the offset of one partition, from its rows in order."""

    @cache
    def members(session: int) -> tuple[str, ...]:
        return tuple(member for _, member in members_of(facts, session, group))

    acts, before = facts.operator_acts.get(group, ()), None
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
            members(event.session),
            kind,
            None if write is None else write.offset,
            previous if write is None else write.previous,
            (holder is not None and holder.session == event.session) if is_known else None,
            None if holder is None else holder.thread,
            is_rewind=write is not None and write.falls,
            writes=None if write is None or event.seed else 1,
        )


SessionEnd = Literal["closed", "expired", "open"]


class SessionRow(NamedTuple):
    """One session. Fields that are not known are None: a history may begin after a session did."""

    session: int
    server: int
    """The `myid` of the server that issued it, from its top byte, which is only a hint."""
    timeout_ms: int | None
    from_zxid: int | None
    from_ms: int | None
    to_zxid: int | None
    to_ms: int | None
    ended: SessionEnd | None
    """Exact: an expiry is a close that no client asked for. None where only snapshots show the end."""
    writes: int | None
    """The number of its transactions, refused ones too, without its end."""
    silence_ms: int | None
    """The time from its last write, or its beginning, to its end or the end of the history."""
    ephemerals: int
    """The ephemerals that were deleted at its end, or that it has at the end of the history."""
    created: int | None
    """The ephemerals that it created within the history, or had at its beginning."""
    members: tuple[tuple[str, str], ...]
    """The group and member id of its registrations."""
    brokers: tuple[str, ...]
    was_controller: bool


def session_row(
    life: SessionLife, facts: Facts, *, writes: int, last_ms: int | None, created: int, ephemerals: int
) -> SessionRow:
    """The row of a session whose last write was at `last_ms`, from the counts of it."""
    session, end_ms = life.session, facts.end_ms if life.to_ms is None else life.to_ms
    ended: SessionEnd = "open" if life.to_zxid is None else "expired" if life.expired else "closed"
    silence_ms = None if last_ms is None else max(end_ms - last_ms, 0)
    was_controller = any(each.session == session for each in facts.controllers)
    counts, names = (ephemerals, created), (members_of(facts, session), brokers_of(facts, session))
    life_of = session, server_of(session), *life[1:6], ended
    return SessionRow(*life_of, writes, silence_ms, *counts, *names, was_controller)


def by_beginning(rows: Iterable[SessionRow]) -> list[SessionRow]:
    """The sessions by the zxid of their creation; those from before the history come first."""
    return sorted(rows, key=lambda row: (-1 if row.from_zxid is None else row.from_zxid, row.session))
