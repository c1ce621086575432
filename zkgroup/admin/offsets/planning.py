"""Plans changes of a group's offsets: the targets of an operator, and the change of each partition. Pure."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from zkgroup.admin.change import ChangePlan
from zkgroup.errors import AuthorizationError, ConfigError, NotFoundError
from zkgroup.groups.reads import offset_of
from zkgroup.groups.snapshot import GroupSnapshot
from zkgroup.model import TopicPartition
from zkgroup.model.text import named, typed
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import (
    OFFSET_MAX,
    PARTITION_MAX,
    Offset,
    SubscriptionKind,
    offsets_topic_path,
    subscription_kind,
)

NONE = -1
"""An offset znode holds it where nothing was committed; members and tools of Kafka take it so."""


UNKNOWN = "the source does not know it"


@dataclass(frozen=True, slots=True)
class SegmentOffset:
    """An offset for a time by brokers that know times of segments only: Kafka's before 0.10.1."""

    offset: int
    """The first of the last segment that was last modified at or before the time, or the log's start."""


class LogPositions(Protocol):
    """Holds what a record source knows about its partitions.

    An answer has an offset for each partition, or a text that says why it is not known, or neither.
    """

    def earliest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | str]:
        """Offset of the first record of each partition."""
        ...

    def latest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | str]:
        """The offset that the next record of each partition will get."""
        ...

    def at_time(
        self, partitions: Sequence[TopicPartition], time_ms: int
    ) -> Mapping[TopicPartition, int | SegmentOffset | str]:
        """Offset of the first record with that timestamp or a later one."""
        ...


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first record of the log."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of the log: the next record to be written."""


@dataclass(frozen=True, slots=True)
class Absolute:
    """An offset, whatever is committed now."""

    offset: int
    """The next offset to read."""


@dataclass(frozen=True, slots=True)
class Shift:
    """So many records from the committed offset."""

    by: int
    """Back where it is negative."""


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after a time."""

    time_ms: int
    """Milliseconds since 1970, UTC."""


Target = Earliest | Latest | Absolute | Shift | AtTime
"""The target of a reset of offsets."""


def needs_log(target: Target) -> bool:
    """Returns whether only the log of a partition knows the offset of this target."""
    return isinstance(target, Earliest | Latest | AtTime)


def parse_target(text: str) -> Target | None:
    """`earliest`, `latest`, `N`, `+N` or `-N`; None for anything else (a time, perhaps)."""
    if text in ("earliest", "latest"):
        return Earliest() if text == "earliest" else Latest()
    if re.fullmatch(r"[+-]\d+", text):
        return Shift(int(text))
    return Absolute(int(text)) if text.isascii() and text.isdigit() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """One partition's offset before and after. `version` None: there is no znode yet."""

    topic_partition: TopicPartition
    """The partition."""
    before: int | None
    """The committed offset as read; None if there is none, or it cannot be read."""
    version: int | None
    """Data version of the offset znode as read; None if there is no such znode."""
    after: int
    """The offset to commit; -1 for none."""
    found: bytes = b""
    """The znode holds it now; none where there is no znode or no data."""
    exactly: bytes | None = None
    """It is to be written where that is not `after` in plain digits: an undo gives back what was there."""
    removes: bool = False
    """The znode is deleted, at `version`; `after` is then `NONE`."""

    @property
    def data(self) -> bytes:
        """Returns what the znode is to hold."""
        return Offset(self.after).encode() if self.exactly is None else self.exactly

    @property
    def original(self) -> bytes | None:
        """Returns what an undo writes if not `before` in plain digits: unreadable bytes, `007`, `-5`."""
        plain = Offset(NONE if self.before is None else self.before).encode()
        return self.found if self.version is not None and self.found != plain else None

    @property
    def changes(self) -> bool:
        """Returns whether anything would be written for this partition."""
        if self.removes:
            return self.version is not None
        if self.exactly is None and self.before is not None:
            return self.after != self.before
        return self.version is None or self.data != self.found


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedMember:
    """A registered member, and what a change of offsets means to it."""

    member: str
    """The member id."""
    kind: SubscriptionKind
    """As in `MemberDescription`."""
    partitions: int
    """The number of partitions that change and that it owns."""

    @property
    def obeys(self) -> bool:
        """Returns whether it seeks to a new offset of a partition that it owns (commits, recipes 6).

        Other clients go on from the position in their memory, and their next commit overwrites what was
        written; they read an offset only when they claim the partition.
        """
        return self.kind == "zkgroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPlan(ChangePlan):
    """The plan of a change: nothing has been written yet."""

    group: str
    """The group."""
    members: tuple[AffectedMember, ...]
    """Registered members at that moment, by id: with any, it takes force."""
    persistent: tuple[str, ...] = ()
    """Paths of registrations and owners among these that no session holds."""
    clients: tuple[str, ...] | None = None
    """Members of Kafka's group protocol at that moment, as stored: with them, or with none but the marker of
    that protocol, it is refused. None without."""
    changes: tuple[OffsetChange, ...]
    """One row for each partition that was named, by topic and number."""
    sweep: tuple[str, ...] = ()
    """Persistent znodes, parents first, that go with the offsets where nothing is left below them."""
    topics: frozenset[str] = frozenset()
    """Those that have to be there still when the offsets are written."""

    @property
    def effective(self) -> tuple[OffsetChange, ...]:
        """The changes that are no no-ops."""
        return tuple(change for change in self.changes if change.changes)


def plan_values(
    snapshot: GroupSnapshot,
    values: Mapping[TopicPartition, int],
    exactly: Mapping[TopicPartition, bytes] | None = None,
    *,
    allow_missing: bool = False,
) -> OffsetPlan:
    """A plan that gives these partitions these offsets (`NONE`: as if never committed).

    `exactly` holds the bytes of those that are not to be written in plain digits. Raises ConfigError for
    a partition or an offset that no JVM could hold; without `allow_missing` also NotFoundError for a topic
    or partition that does not exist, and CorruptZnodeError for a topic that cannot be read.
    """
    for tp, value in values.items():
        if tp.partition > PARTITION_MAX or value > OFFSET_MAX:
            raise ConfigError(
                f"{tp}: expected a partition up to {PARTITION_MAX} and an offset up to {OFFSET_MAX}, "
                f"found offset {value}"
            )
    if not allow_missing:
        _refuse_missing(snapshot, sorted(values))
    notes = [] if snapshot.exists else [f"there is no group {snapshot.group!r} yet: this creates it"]
    for topic in sorted({tp.topic for tp in values}):
        numbers = snapshot.partitions(topic)
        beyond = [tp for tp in sorted(values) if tp.topic == topic and tp.partition not in numbers]
        if beyond:
            notes.append(f"{_missing_text(snapshot, topic, beyond)}: the offsets are written in advance")
    changes = tuple(
        _change(snapshot, tp, value, (exactly or {}).get(tp)) for tp, value in sorted(values.items())
    )
    notes += [
        f"{change.topic_partition} holds {change.original!r}, which is no offset: an undo puts it back"
        for change in changes
        if change.changes and change.before is None and change.original is not None
    ]
    topics = frozenset() if allow_missing else frozenset(tp.topic for tp in values)
    return replace(_plan(snapshot, changes), notes=tuple(notes), topics=topics)


def _plan(snapshot: GroupSnapshot, changes: tuple[OffsetChange, ...]) -> OffsetPlan:
    owned = Counter(snapshot.registered_owner(change.topic_partition) for change in changes if change.changes)
    members = (
        AffectedMember(member=member, kind=subscription_kind(entry.znode.data), partitions=owned[member])
        for member, entry in sorted(snapshot.registrations.items())
    )
    coordinated = snapshot.coordinated
    return OffsetPlan(
        group=snapshot.group,
        as_of=snapshot.as_of,
        members=tuple(members),
        persistent=snapshot.persistent_paths,
        clients=coordinated.names if coordinated is not None and coordinated.has_members else None,
        changes=changes,
    )


def _refuse_missing(snapshot: GroupSnapshot, partitions: Sequence[TopicPartition]) -> None:
    missing = [tp for tp in partitions if tp.partition not in snapshot.partitions(tp.topic)]
    for topic in dict.fromkeys(tp.topic for tp in missing):
        entry = snapshot.topics.get(topic)
        if entry is not None and entry.error is not None:
            raise entry.error
    if missing:
        message = "; ".join(
            _missing_text(snapshot, topic, missing) for topic in sorted({tp.topic for tp in missing})
        )
        raise NotFoundError(
            f"{Topic.path(missing[0].topic)}: {message}; nothing was changed. `zkgroup topic list` shows "
            "what there is; --allow-missing writes the offsets in advance"
        )


def _missing_text(snapshot: GroupSnapshot, topic: str, missing: Sequence[TopicPartition]) -> str:
    """The part of a topic that does not exist: all of it, or some partitions."""
    numbers = snapshot.partitions(topic)
    if not numbers:
        return f"there is no topic {topic}"
    beyond = ", ".join(str(tp.partition) for tp in missing if tp.topic == topic)
    return f"{topic} has no partition {beyond}"


def plan_reset(
    snapshot: GroupSnapshot,
    target: Target,
    partitions: Sequence[TopicPartition],
    log: LogPositions | None = None,
    *,
    allow_missing: bool = False,
) -> OffsetPlan:
    """A plan that moves these partitions to the target.

    With a source the result is limited to what the log holds, without one to 0 or above; where that is
    not what was asked for, a note says so. Raises ConfigError where the target
    needs a source and there is none, NotFoundError where the source does not know a partition, and what
    `plan_values` raises for one that does not exist.
    """
    if not allow_missing:
        _refuse_missing(snapshot, partitions)
    notes: tuple[str, ...] = ()
    if isinstance(target, Shift):
        skipped = [tp for tp in partitions if offset_of(snapshot, tp) is None]
        partitions = [tp for tp in partitions if tp not in set(skipped)]
        if skipped:
            notes = (f"{named(skipped)}: nothing was committed, so there is nothing to shift",)
    values, by_segment = _target_values(snapshot, target, partitions, log)
    notes += by_segment
    if log is None:
        notes += tuple(f"{tp}: {value} is below 0: 0 is used" for tp, value in values.items() if value < 0)
        values = {tp: max(0, value) for tp, value in values.items()}
    else:
        values, outside = _within(values, log)
        notes += outside
    plan = plan_values(snapshot, values, allow_missing=allow_missing)
    return replace(plan, notes=notes + plan.notes)


def plan_removal(
    snapshot: GroupSnapshot,
    wanted: Sequence[tuple[str, Sequence[int]]],
    *,
    written_before_ms: int | None = None,
) -> OffsetPlan:
    """A plan that deletes the offsets of these topics (no partition named: of all that have one).

    Whether they exist does not matter: what is left of a deleted topic goes as well. With a time only those
    that were last written before it, by ZooKeeper's clock; without topics then of all. Raises NotFoundError
    where the group has no offset of one that is named.
    """
    chosen: set[TopicPartition] = set() if wanted else set(snapshot.offsets)
    for topic, numbers in wanted:
        asked = {TopicPartition(topic, p) for p in numbers}
        asked = asked or {tp for tp in snapshot.offsets if tp.topic == topic}
        missing = sorted(asked - set(snapshot.offsets))
        if missing or not asked:
            what = f"partition {missing[0].partition} of {topic}" if missing else f"topic {topic}"
            raise NotFoundError(
                f"{offsets_topic_path(snapshot.group, topic)}: {snapshot.group} has no offset of {what}; "
                f"`{typed('offsets show', snapshot.group)}` shows those there are"
            )
        chosen |= asked
    if written_before_ms is not None:
        chosen = {tp for tp in chosen if snapshot.offsets[tp].stat.mtime < written_before_ms}
    changes = tuple(replace(_change(snapshot, tp, NONE, None), removes=True) for tp in sorted(chosen))
    topics = sorted({tp.topic for tp in chosen})
    sweep = tuple(offsets_topic_path(snapshot.group, topic) for topic in topics)
    return replace(_plan(snapshot, changes), sweep=sweep)


def partitions_to_reset(
    snapshot: GroupSnapshot, wanted: Sequence[tuple[str, Sequence[int]]] = ()
) -> tuple[TopicPartition, ...]:
    """The partitions that `--topic T[:P,P]` names; without any, all that the group has offsets of.

    A topic alone means its partitions; of a topic that does not exist, those with an offset. Raises
    NotFoundError where there are none.
    """
    if not wanted:
        if not snapshot.offsets:
            raise NotFoundError(f"group {snapshot.group} has no offsets; name the topics with --topic")
        return tuple(sorted(snapshot.offsets))
    chosen: set[TopicPartition] = set()
    for topic, numbers in wanted:
        asked = {TopicPartition(topic, p) for p in numbers or snapshot.partitions(topic)}
        asked = asked or {tp for tp in snapshot.offsets if tp.topic == topic}
        if not asked:
            entry = snapshot.topics.get(topic)
            raise (entry.error if entry else None) or NotFoundError(
                f"{Topic.path(topic)}: there is no topic {topic}, and {snapshot.group} has no offset of it"
            )
        chosen |= asked
    return tuple(sorted(chosen))


def _target_values(
    snapshot: GroupSnapshot, target: Target, partitions: Sequence[TopicPartition], log: LogPositions | None
) -> tuple[dict[TopicPartition, int], tuple[str, ...]]:
    """The offset of the target for each partition, and how exact they are where that is to be said."""
    if isinstance(target, Absolute):
        return dict.fromkeys(partitions, target.offset), ()
    if isinstance(target, Shift):
        return {tp: (offset_of(snapshot, tp) or 0) + target.by for tp in partitions}, ()
    if log is None:
        raise ConfigError(
            "earliest, latest and times are known to the record source only, and no broker was asked: "
            "name the source with --source"
        )
    found: Mapping[TopicPartition, int | SegmentOffset | str]
    if isinstance(target, Earliest):
        found = log.earliest(partitions)
    elif isinstance(target, Latest):
        found = log.latest(partitions)
    else:
        found = log.at_time(partitions, target.time_ms)
    values: dict[TopicPartition, int] = {}
    segments, unknown = [], {}
    for tp in partitions:
        offset = found.get(tp, UNKNOWN)
        if isinstance(offset, str):
            unknown[tp] = offset
        elif isinstance(offset, SegmentOffset):
            segments.append(tp)
            values[tp] = offset.offset
        else:
            values[tp] = offset
    if unknown:
        text = _unknown_text(unknown, list(values))
        is_refused = any(AuthorizationError.WORDS in why for why in unknown.values())
        raise AuthorizationError(text) if is_refused else NotFoundError(text)
    return values, (_segments_text(segments),) if segments else ()


def _unknown_text(unknown: Mapping[TopicPartition, str], known: Sequence[TopicPartition]) -> str:
    """The message that names the offsets that are not known, the reason, and how the others are reset."""
    (first, why), *_ = unknown.items()
    text = f"the offset of {named(unknown, 1)} is not known, so nothing was changed: {why}"
    if len(unknown) > 1:
        text = f"{text} (said of {first})"
    if not known:
        return f"{text}. If the records are elsewhere, name their source with --source"
    topics: dict[str, list[str]] = {}
    for tp in known:
        topics.setdefault(tp.topic, []).append(str(tp.partition))
    options = " ".join(f"--topic {shlex.quote(topic)}:{','.join(some)}" for topic, some in topics.items())
    return f"{text}. The others can be reset by name: {options}"


def _segments_text(partitions: Sequence[TopicPartition]) -> str:
    return (
        f"{named(partitions, 1)}: Kafka before 0.10.1, or with messages in an older format, knows when "
        "segments were last written, not records; the offset is the first of the last segment written at or "
        "before the time, as GetOffsetShell prints it, else the log's start. No later record is left out, "
        "and up to two segments of earlier ones come again"
    )


def _within(
    values: Mapping[TopicPartition, int], log: LogPositions
) -> tuple[dict[TopicPartition, int], tuple[str, ...]]:
    """The offsets, limited to what the log holds as far as that is known, and notes on those that differ."""
    partitions = list(values)
    first, last = log.earliest(partitions), log.latest(partitions)
    within, notes = dict[TopicPartition, int](), []
    for tp, value in values.items():
        start, end = first.get(tp, UNKNOWN), last.get(tp, UNKNOWN)
        if isinstance(start, int) and isinstance(end, int):
            within[tp] = min(max(value, start), end)
            if within[tp] != value:
                notes.append(f"{tp}: {value} is outside the log: {within[tp]} is used")
        else:
            within[tp] = max(0, value)
            why = start if isinstance(start, str) else end
            notes.append(f"{tp}: {within[tp]} may be outside the log, which is not known: {why}")
    return within, tuple(notes)


def _change(snapshot: GroupSnapshot, tp: TopicPartition, after: int, exactly: bytes | None) -> OffsetChange:
    entry = snapshot.offsets.get(tp)
    return OffsetChange(
        topic_partition=tp,
        before=offset_of(snapshot, tp),
        version=entry.stat.version if entry else None,
        after=after,
        found=(entry.znode.data or b"") if entry else b"",
        exactly=exactly,
    )
