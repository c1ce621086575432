"""Findings about offsets: commits that should not be, commits that are missing, and groups that ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from zkgroup.audit.answers.owner_lives import OwnerLife
from zkgroup.audit.answers.partition_offsets import (
    OffsetWrite,
    PartitionOffsets,
    PartitionStep,
    partition_steps,
)
from zkgroup.audit.findings.membership import TimeRange
from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Moment, Rule, Screened, Severity
from zkgroup.audit.inputs.events import CHECK, CREATE, DELETE, Event
from zkgroup.audit.inputs.facts import DataChange, Facts
from zkgroup.audit.inputs.keys import BY_GROUP, BY_GROUP_PARTITION, Key, partition_of
from zkgroup.audit.inputs.texts import count_text, duration_text, is_member, members_of, who
from zkgroup.errors import CorruptZnodeError
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import offsets_path
from zkgroup.znodes.paths import path_kind

if TYPE_CHECKING:
    from zkgroup.audit.findings.tables import ScreenTables

_MINUTE_MS: Final = 60_000


def _offset_regression_screen(tables: ScreenTables, bounds: Bounds) -> Screened:
    """Partitions with a commit below the value before."""
    p = tables.partitions
    return Screened(p.keys_with(p.is_commit & p.falls))


@partial(
    Rule,
    severity="error",
    question="Which commit set an offset back? What lies between is consumed twice.",
    act="See who wrote it and whether it owned the partition (zombie_commit, `audit owners`). If it was"
    " meant, set offsets with `zkgroup offsets`, which leaves a marker; if not, raise the offset again or"
    " accept the repetition.",
    keys=BY_GROUP_PARTITION,
    screen=_offset_regression_screen,
)
def offset_regression(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A commit lower than the one before."""
    group = key[0]
    last_writer: int | None = None
    for step in rows.once(partition_steps, key, facts):
        write, event = step.write, step.event
        if write is None or not write.is_commit:
            continue
        if write.falls:
            severity, why = _judge_regression(write, group, facts)
            before = ""
            if last_writer not in (None, event.session):
                before = f"; before it wrote {who(facts, last_writer or 0, group)}"
            detail = f"{write.previous} -> {write.offset} by {who(facts, event.session, group)}{before}{why}"
            yield Finding.at("offset_regression", severity, event, detail, partition_of(key))
        last_writer = event.session


def _judge_regression(write: OffsetWrite, group: str, facts: Facts) -> tuple[Severity, str]:
    if write.event.zxid in facts.operator_acts.get(group, ()):
        return "info", "; an operator's reset, by its marker"
    if write.holder is None and not is_member(facts, group, write.event.session):
        return "warning", "; no member owned it, and the writer is no member: probably a tool"
    return "error", ""


def _zombie_commit_screen(tables: ScreenTables, bounds: Bounds) -> Screened:
    """Partitions with a commit by another session than the owner's."""
    p = tables.partitions
    return Screened(p.keys_with(p.is_commit & p.holder_known & ~p.by_holder))


@partial(
    Rule,
    severity="error",
    question="Which commits came from a session that did not own the partition at that moment?",
    act="An error: another member owned it, or the offset fell. Find the process behind the session and stop"
    " it; members of zkgroup cannot do this, JVM members and other clients can. A warning: no member owned"
    " it, as when a JVM member commits just after its own release.",
    keys=BY_GROUP_PARTITION,
    screen=_zombie_commit_screen,
)
def zombie_commit(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A commit by a session that did not own the partition."""
    group = key[0]
    for step in rows.once(partition_steps, key, facts):
        write, event = step.write, step.event
        if write is None or not write.is_commit or not write.holder_known:
            continue
        if write.holder is not None and write.holder.session == event.session:
            continue
        severity, why = _judge_zombie(write, group, facts)
        detail = f"{_moved(write)} by {who(facts, event.session, group)}, but {why}"
        yield Finding.at("zombie_commit", severity, event, detail, partition_of(key))


def _judge_zombie(write: OffsetWrite, group: str, facts: Facts) -> tuple[Severity, str]:
    holder = write.holder
    owned = (
        "no member owned it"
        if holder is None
        else f"{holder.thread!r} of {who(facts, holder.session, group)} owned it"
    )
    writers = members_of(facts, write.event.session, group)
    if holder is not None and any(holder.is_of(name) for _, name in writers):
        owned += ": the same member, but another session"
    if write.event.zxid in facts.operator_acts.get(group, ()):
        return "info", f"{owned}; an operator's reset, by its marker"
    return ("error" if holder is not None or write.falls else "warning"), owned


def _moved(write: OffsetWrite) -> str:
    """The offsets of a write; bytes that are no number as they are."""
    after = str(write.offset) if write.offset is not None else repr(write.event.data)
    return after if write.previous is None else f"{write.previous} -> {after}"


def _no_commit_at_handover_screen(tables: ScreenTables, bounds: Bounds) -> Screened:
    """Partitions that an owner gave up after a long time without a commit."""
    p, facts = tables.partitions, tables.facts
    commits = (p.is_commit & p.by_holder).cumsum()
    came = p.change_before
    is_over = p.is_change & (p.op == DELETE) & (came >= 0) & (p.op[came] == CREATE)
    since_ms = p.time_ms[came]
    since_ms[p.zxid[came] < facts.start_zxid] = facts.start_ms
    is_over &= (commits == commits[came]) & (p.time_ms - since_ms > bounds["owned_ms"])
    return Screened(p.keys_with(is_over | p.odd[p.selection.codes]))


@partial(
    Rule,
    severity="info",
    question="Which owner gave a partition up after a long time without one commit? Its successor starts"
    " where it started.",
    act="Compare with the log end of the partition, which ZooKeeper does not know: an idle partition and a"
    " group that keeps its offsets in Kafka have none either. If there was work, the member consumes without"
    " committing.",
    keys=BY_GROUP_PARTITION,
    bounds={"owned_ms": 60_000},
    screen=_no_commit_at_handover_screen,
)
def no_commit_at_handover(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """An owner that held a partition for long and never committed."""
    has_committed = False
    for step in rows.once(partition_steps, key, facts):
        event, write = step.event, step.write
        if write is not None and write.holder is not None:
            has_committed |= write.is_commit and event.session == write.holder.session
        elif step.is_owner and event.op in ("create", "delete"):
            if event.op == "delete" and step.ended is not None and not has_committed:
                yield from _given_up(step, step.ended, key, facts, bounds["owned_ms"])
            has_committed = False


def _given_up(
    step: PartitionStep, life: OwnerLife, key: Key, facts: Facts, owned_ms: float
) -> Iterator[Finding]:
    to = step.event
    time = TimeRange(life.from_zxid, life.from_ms, to.zxid, to.time_ms)
    if life.from_zxid < facts.start_zxid:
        # What an owner from before the log committed before it is not known.
        time = time._replace(from_zxid=facts.start_zxid, from_ms=facts.start_ms)
    if time.ms(facts) > owned_ms:
        found = (
            "there was no offset" if step.value is None or step.value < 0 else f"the offset was {step.value}"
        )
        detail = (
            f"owned for {duration_text(time.ms(facts))} by {who(facts, life.session, key[0])}"
            f" without a commit; {found} at the end"
        )
        yield Finding.during("no_commit_at_handover", "info", time, detail, partition_of(key), life.session)


def _stalled_offset_screen(tables: ScreenTables, bounds: Bounds) -> Screened:
    """Owned partitions whose offset and owner changed last long before the end."""
    from zkgroup.audit.findings.partition_columns import last_with

    p = tables.partitions
    changed = last_with(p.is_write & ~p.is_claim & ~p.repeats, p.start)
    changed_ms = tables.set_ms(p.selection.rows)[changed] * (changed >= 0)
    still_ms = tables.facts.end_ms - bounds["still_ms"]
    is_still = (changed_ms < still_ms) & (p.time_ms[p.holder] < still_ms)
    return Screened(p.keys_with(p.is_last & (p.holder >= 0) & p.exists & is_still))


@partial(
    Rule,
    severity="info",
    question="Which owned partitions had no change of offset for long, up to the end of the history?",
    act="Compare with the log end of the partition, which ZooKeeper does not know: at the end it is idle,"
    " behind it the owner hangs. `zkgroup offsets show GROUP --source SPEC` shows the lag.",
    keys=BY_GROUP_PARTITION,
    bounds={"still_ms": 600_000},
    screen=_stalled_offset_screen,
)
def stalled_offset(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """An owned partition whose offset has stood still up to the end."""
    changed = (0, 0)  # zxid and time of the last change of the value
    step: PartitionStep | None = None
    for step in rows.once(partition_steps, key, facts):
        write, event = step.write, step.event
        if write is not None and not write.is_claim and not write.repeats:
            is_known = event.seed and event.mtime_ms is not None
            changed = (event.zxid, event.mtime_ms or 0 if is_known else event.time_ms)
    if step is None or step.holder is None or not step.exists:
        return
    holder = step.holder
    since_zxid, since_ms = max(changed, (holder.from_zxid, holder.from_ms), key=lambda moment: moment[::-1])
    still_ms = facts.end_ms - since_ms
    if still_ms <= bounds["still_ms"]:
        return
    detail = f"at {step.value} for {duration_text(still_ms)}, owned by {who(facts, holder.session, key[0])}"
    time = TimeRange(since_zxid, since_ms, None, None)
    yield Finding.during("stalled_offset", "info", time, detail, partition_of(key), holder.session)


class _Counts(NamedTuple):
    """Commits of a group."""

    commits: int
    repeats: int
    writers: int
    busiest: int
    """Commits of the minute that had most."""


def _commit_rate_screen(tables: ScreenTables, bounds: Bounds) -> Screened:
    """Counted in columns, but for groups that have an offset which is no plain number."""
    from zkgroup.audit.findings.commit_columns import commits_by_group

    found = [
        _commit_rate_finding(group, first, last, _Counts(*counts))
        for group, first, last, counts in commits_by_group(tables, _MINUTE_MS)
    ]
    return Screened(tables.groups.of_keys(tables.odd_groups), found)


@partial(
    Rule,
    severity="info",
    question="How many offsets does a group write, and how many of them say nothing new?",
    act="Where a group loads the ensemble, commit less often (`auto.commit.interval.ms`); where it mostly"
    " repeats, its client writes unchanged offsets.",
    keys=BY_GROUP,
    screen=_commit_rate_screen,
)
def commit_rate(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """How often a group commits: the main write load on most ensembles."""
    first: Event | None = None
    last: Event | None = None
    commits = repeats = busiest = minute = in_minute = 0
    writers: set[int] = set()
    for write in _group_commits(rows, key[0], facts):
        last = write.event
        first = first or last
        commits += 1
        repeats += write.repeats
        writers.add(last.session)
        in_minute = in_minute + 1 if last.time_ms // _MINUTE_MS == minute else 1
        minute = last.time_ms // _MINUTE_MS
        busiest = max(busiest, in_minute)
    if first is not None and last is not None:
        yield _commit_rate_finding(key[0], first, last, _Counts(commits, repeats, len(writers), busiest))


def _group_commits(rows: KeyRows, group: str, facts: Facts) -> Iterator[OffsetWrite]:
    """The commits of all partitions of a group, in order."""
    partitions: dict[tuple[str, int], PartitionOffsets] = {}
    for event in rows:
        place = path_kind(event.path)
        if place.kind not in ("owner", "offset"):
            continue
        offsets = partitions.get((place.topic, place.partition))
        if offsets is None:
            offsets = partitions[place.topic, place.partition] = PartitionOffsets(group, facts)
        write = offsets.see(event)
        if write is not None and write.is_commit:
            yield write


def _commit_rate_finding(group: str, first: Moment, last: Moment, counts: _Counts) -> Finding:
    seconds = max((last.time_ms - first.time_ms) / 1_000, 1.0)
    detail = (
        f"{count_text(counts.commits, 'commit')} by {count_text(counts.writers, 'session')},"
        f" {counts.commits / seconds:.2f}/s, {100 * counts.repeats / counts.commits:.0f} % of them repeat"
        f" the offset; at most {counts.busiest} in one minute"
    )
    return Finding.between("commit_rate", "info", first, last, detail, (group, None, None))


def _dead_group_screen(tables: ScreenTables, bounds: Bounds) -> Screened:
    """Groups without a member whose last write is long ago."""
    groups, facts = tables.groups, tables.facts
    is_write = tables.columns.op[groups.rows] != CHECK
    recent = tables.written_ms(groups.rows) >= facts.end_ms - bounds["idle_ms"]
    dead = ~groups.keys_with(is_write & recent)
    for code, (group,) in enumerate(groups.keys):
        dead[code] &= not any(life.to_zxid is None for life in facts.members.get(group, ()))
    return Screened(groups.of_keys(dead))


@partial(
    Rule,
    severity="info",
    question="Which groups have offsets, but no member and no write for days?",
    needs=("snapshot",),
    act="If no member will come back, save the offsets by `zkgroup offsets export`, and delete the group by"
    " `zkgroup group delete`.",
    keys=BY_GROUP,
    bounds={"idle_ms": 7 * 86_400_000},
    screen=_dead_group_screen,
)
def dead_group(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A group that has offsets, but has had no member for long."""
    lives = facts.members.get(key[0], ())
    if any(life.to_zxid is None for life in lives):
        return
    znodes: set[str] = set()
    last = (0, 0)  # zxid and time of the last write
    for event in rows:
        if event.op == "check":
            continue
        if event.op == "delete":
            znodes.discard(event.path)
        else:
            znodes.add(event.path)
        written_ms = max(event.time_ms, event.mtime_ms or 0)
        last = max(last, (event.zxid, written_ms), key=lambda moment: moment[::-1])
    below = f"{offsets_path(key[0])}/"
    offsets = sum(path.startswith(below) and path.count("/") == 5 for path in znodes)
    zxid, last_ms = last
    if not offsets or facts.end_ms - last_ms <= bounds["idle_ms"]:
        return
    seen = count_text(len(lives), "registration") if lives else "none"
    detail = (
        f"no member ({seen} in this history) and no write for"
        f" {duration_text(facts.end_ms - last_ms)}; {count_text(len(znodes), 'znode')}, {offsets}"
        " of them offsets"
    )
    yield Finding("dead_group", "info", key[0], from_zxid=zxid, from_ms=last_ms, detail=detail)


def _offset_of_missing_partition_screen(tables: ScreenTables, bounds: Bounds) -> Screened:
    """Partitions whose offset is there at the end, and that their topic does not name."""
    from zkgroup.audit.findings.partition_columns import last_with

    p = tables.partitions
    is_offset = ~p.is_owner
    made = last_with(is_offset & ((p.op == CREATE) | (p.op == DELETE)), p.start)
    there = p.selection.keys_with(p.is_last & (made >= 0) & (p.op[made] == CREATE))
    topics = tables.facts.topics
    for code in there.nonzero()[0].tolist():
        _, topic, partition = p.selection.keys[code]
        changes = topics.get(topic, ())
        data = changes[-1].data if changes else None
        there[code] = data is None or int(partition) not in (_partitions(data) or ())
    return Screened(p.selection.of_keys(there))


@partial(
    Rule,
    question="Which offsets are of partitions that do not exist?",
    needs=("snapshot",),
    act="A topic of that name, made again, starts at 0: consumers with this offset are out of range and do"
    " what their reset policy says. Reset the offset once the topic is there, or prune the group.",
    keys=BY_GROUP_PARTITION,
    screen=_offset_of_missing_partition_screen,
)
def offset_of_missing_partition(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """An offset for a partition that does not exist."""
    group, topic, partition = key
    created: Event | None = None
    data: bytes | None = None
    for event in rows:
        if event.path.startswith(f"{offsets_path(group)}/"):
            if event.op in ("create", "delete"):
                created = event if event.op == "create" else None
            data = event.data
    changes = facts.topics.get(topic, ())
    why = _why_missing(changes, int(partition), is_whole=facts.is_whole)
    if created is None or why is None:
        return
    # Missing since the offset was made, or since the topic changed for the last time.
    since_zxid, since_ms = max(
        (created.zxid, created.time_ms), *((change.zxid, change.time_ms) for change in changes[-1:]), (0, 0)
    )
    detail = f"{why}; the offset is {(data or b'').decode('utf-8', 'replace')}"
    since = TimeRange(since_zxid, since_ms, None, None)
    yield Finding.during("offset_of_missing_partition", "warning", since, detail, partition_of(key))


def _why_missing(changes: Sequence[DataChange], partition: int, *, is_whole: bool) -> str | None:
    """None where the partition exists, or that is not known."""
    if not changes:
        return "no such topic" if is_whole else None
    data = changes[-1].data
    if data is None:
        return "the topic is gone"
    partitions = _partitions(data)
    if partitions is None or partition in partitions:
        return None
    return f"the topic has {count_text(len(partitions), 'partition')}"


@lru_cache(maxsize=1 << 10)
def _partitions(data: bytes) -> frozenset[int] | None:
    """The partitions that a topic's znode names; None where it cannot be read."""
    try:
        return frozenset(Topic.decode("topic", data).partitions)
    except CorruptZnodeError:
        return None
