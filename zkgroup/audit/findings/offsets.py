"""Findings about offsets: wrong commits, missing commits, and groups that ended."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from zkgroup.audit.answers.partitions import OffsetWrite, OwnerLife, PartitionStep, partition_steps
from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Rule, Severity, TimeRange, partitions_with
from zkgroup.audit.inputs import events
from zkgroup.audit.inputs.facts import Facts, client, decoded, members_of
from zkgroup.model.text import counted, duration_text
from zkgroup.zkfiles.records import is_below
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import ids_path, offset_path, offsets_path, resets_path
from zkgroup.znodes.group_records import Reset
from zkgroup.znodes.paths import path_kind

if TYPE_CHECKING:
    from zkgroup.audit.findings.tables import ScreenTables, Selection

_MINUTE_MS: Final = 60_000


@Rule(
    severity="error",
    question="Which commit set an offset back? What lies between is consumed twice.",
    act="See who wrote it and whether it owned the partition (zombie_commit, `audit owners`). If it was"
    " meant, set offsets with `zkgroup offsets`, which leaves a marker; if not, raise the offset again or"
    " accept the repetition.",
    keys=events.BY_GROUP_PARTITION,
    screen=partitions_with(lambda p: p.is_commit & p.falls),
)
def offset_regression(rows: KeyRows, key: events.Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A commit lower than the one before."""
    group = key[0]
    last_writer: int | None = None
    for step in rows.once(partition_steps, key, facts):
        write, event = step.write, step.event
        if write is None or not write.is_commit:
            continue
        if write.falls:
            severity, why = _rate_regression(write, group, facts)
            before = ""
            if last_writer not in (None, event.session):
                before = f"; before it wrote {client(facts, last_writer or 0, group)}"
            detail = f"{_moved(write)} by {client(facts, event.session, group)}{before}{why}"
            yield Finding.at("offset_regression", severity, event, detail, events.partition_of(key))
        last_writer = event.session


def _rate_regression(write: OffsetWrite, group: str, facts: Facts) -> tuple[Severity, str]:
    if write.event.zxid in facts.operator_acts.get(group, ()):
        return "info", "; an operator's reset, by its marker"
    if write.holder is None and not members_of(facts, write.event.session, group):
        return "warning", "; no member owned it, and the writer is no member: probably a tool"
    return "error", ""


def _resets_screen(tables: ScreenTables, bounds: Bounds) -> Selection:
    import numpy as np

    acts = [zxid for zxids in tables.facts.operator_acts.values() for zxid in zxids]
    return tables.partitions.keys_with(tables.partitions.is_write & np.isin(tables.partitions.zxid, acts))


@Rule(
    question="Which offsets did an operator set, and somebody else set otherwise after that?",
    act="A member of Kafka's own consumer never hears of a reset, and goes on from its own position: stop the"
    " group, reset the offsets again, and start it.",
    keys=events.BY_GROUP_PARTITION,
    screen=_resets_screen,
)
def reset_overwritten(rows: KeyRows, key: events.Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """An offset that an operator set, and that was overwritten by somebody who did not obey.

    A commit lower than what was set; or, of an offset that was set back, the first other one if that is as
    high again as before. A row for each reset, at that commit.
    """
    acts = facts.operator_acts.get(key[0], ())
    reset: OffsetWrite | None = None
    for step in rows.once(partition_steps, key, facts):
        write, event = step.write, step.event
        if not step.exists or (write is not None and event.zxid in acts):
            reset = write
        elif reset is not None and write is not None and write.is_commit and write.offset != reset.offset:
            how = overwritten_text(reset.offset, reset.previous, write.offset)
            if how is not None:
                by, at = client(facts, event.session, key[0]), reset.event.zxid
                detail = f"{how}, by {by}; the reset was at {at:#x}"
                yield Finding.at("reset_overwritten", "warning", event, detail, events.partition_of(key))
            reset = None if how is not None else reset._replace(previous=None)


def overwritten_text(reset: int | None, before: int | None, now: int | None) -> str | None:
    """That an offset which was reset is not what comes of that; None where it may be, or is not known."""
    if reset is None or now is None or min(reset, now) < 0:
        return None
    what = f"reset to {reset}, and then written: {now}"
    if now < reset:
        return what
    return f"{what}, where it was {before} before" if before is not None and reset < before <= now else None


def marked_offset(path: str) -> str | None:
    """The path of the offset of which a znode is the reset marker; None for another znode."""
    group, name = path_kind(path).name, path.rpartition("/")[2]
    partition = Reset.partition_of(name) if path == f"{resets_path(group)}/{name}" else None
    return None if partition is None else offset_path(group, partition)


@Rule(
    severity="error",
    question="Which commits came from a session that did not own the partition at that moment?",
    act="An error: another member owned it, or the offset fell. Find the process behind the session"
    " (`zkgroup session`) and stop it; members of zkgroup cannot do this, JVM members and other clients can."
    " A warning: no member owned it, as when a JVM member commits just after its own release.",
    keys=events.BY_GROUP_PARTITION,
    screen=partitions_with(lambda p: p.is_commit & p.holder_known & ~p.by_holder),
)
def zombie_commit(rows: KeyRows, key: events.Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A commit by a session that did not own the partition."""
    group = key[0]
    for step in rows.once(partition_steps, key, facts):
        write, event = step.write, step.event
        if write is None or not write.is_commit or not write.holder_known:
            continue
        if write.holder is not None and write.holder.session == event.session:
            continue
        severity, why = _rate_zombie(write, group, facts)
        detail = f"{_moved(write)} by {client(facts, event.session, group)}, but {why}"
        yield Finding.at("zombie_commit", severity, event, detail, events.partition_of(key))


def _rate_zombie(write: OffsetWrite, group: str, facts: Facts) -> tuple[Severity, str]:
    holder = write.holder
    owned = "no member owned it"
    if holder is not None:
        owned = f"{holder.thread!r} of {client(facts, holder.session, group)} owned it"
        if any(holder.is_of(name) for _, name in members_of(facts, write.event.session, group)):
            owned += ": the same member, but another session"
    if write.event.zxid in facts.operator_acts.get(group, ()):
        return "info", f"{owned}; an operator's reset, by its marker"
    return ("error" if holder is not None or write.falls else "warning"), owned


def _moved(write: OffsetWrite) -> str:
    """The text of the offsets of a write; bytes that are no number stand as they are."""
    after = str(write.offset) if write.offset is not None else repr(write.event.data)
    return after if write.previous is None else f"{write.previous} -> {after}"


def _no_commit_at_handover_screen(tables: ScreenTables, bounds: Bounds) -> Selection:
    """Keeps the times in which an owner held a partition for long without a commit."""
    p, facts = tables.partitions, tables.facts
    commits = (p.is_commit & p.by_holder).cumsum()
    came = p.change_before
    is_over = p.is_change & (p.op == events.DELETE) & (came >= 0) & (p.op[came] == events.CREATE)
    since_ms = p.time_ms[came]
    since_ms[p.zxid[came] < facts.start_zxid] = facts.start_ms
    is_over &= (commits == commits[came]) & (p.time_ms - since_ms > bounds["owned_ms"])
    return p.between(came[is_over], is_over.nonzero()[0])


@Rule(
    severity="info",
    question="Which owner gave a partition up after a long time without one commit? Its successor starts"
    " where it started.",
    act="Compare with the log end of the partition, which ZooKeeper does not know: an idle partition and a"
    " group that keeps its offsets in Kafka have none either. If there was work, the member consumes without"
    " committing.",
    keys=events.BY_GROUP_PARTITION,
    bounds={"owned_ms": 60_000},
    screen=_no_commit_at_handover_screen,
)
def no_commit_at_handover(rows: KeyRows, key: events.Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
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
    step: PartitionStep, life: OwnerLife, key: events.Key, facts: Facts, owned_ms: float
) -> Iterator[Finding]:
    to = step.event
    time = TimeRange(life.from_zxid, life.from_ms, to.zxid, to.time_ms)
    if life.from_zxid < facts.start_zxid:
        # The commits before the log are not known.
        time = time._replace(from_zxid=facts.start_zxid, from_ms=facts.start_ms)
    if time.ms(facts) > owned_ms:
        found = (
            "there was no offset" if step.value is None or step.value < 0 else f"the offset was {step.value}"
        )
        detail = (
            f"owned for {duration_text(time.ms(facts))} by {client(facts, life.session, key[0])}"
            f" without a commit; {found} at the end"
        )
        yield Finding.during(
            "no_commit_at_handover", "info", time, detail, events.partition_of(key), life.session
        )


def _stalled_offset_screen(tables: ScreenTables, bounds: Bounds) -> Selection:
    """Keeps owned partitions whose offset and owner last changed long before the end."""
    from zkgroup.audit.findings.tables import last_with

    p = tables.partitions
    changed = last_with(p.is_write & ~p.is_claim & ~p.repeats, p.start)
    changed_ms = tables.set_ms(p.selection.rows)[changed] * (changed >= 0)
    still_ms = tables.facts.end_ms - bounds["still_ms"]
    is_still = (changed_ms < still_ms) & (p.time_ms[p.holder] < still_ms)
    return p.keys_with(p.is_last & (p.holder >= 0) & p.exists & is_still)


@Rule(
    severity="info",
    question="Which owned partitions had no change of offset for long, up to the end of the history?",
    act="Compare with the log end of the partition, which ZooKeeper does not know: at the end it is idle,"
    " behind it the owner hangs. `zkgroup offsets show GROUP --source SPEC` shows the lag.",
    keys=events.BY_GROUP_PARTITION,
    bounds={"still_ms": 600_000},
    screen=_stalled_offset_screen,
)
def stalled_offset(rows: KeyRows, key: events.Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """An owned partition whose offset has stood still up to the end."""
    changed = (0, 0)  # the zxid and time of the last change of the value
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
    detail = (
        f"at {step.value} for {duration_text(still_ms)}, owned by {client(facts, holder.session, key[0])}"
    )
    time = TimeRange(since_zxid, since_ms)
    yield Finding.during("stalled_offset", "info", time, detail, events.partition_of(key), holder.session)


@Rule(
    severity="info",
    question="How many offsets does a group write, and how many of them say nothing new?",
    act="Where a group loads the ensemble, commit less often (`auto.commit.interval.ms`); where it mostly"
    " repeats, its client writes unchanged offsets.",
    keys=events.BY_GROUP,
    is_counted=True,
)
def commit_rate(tables: ScreenTables, bounds: Bounds) -> Iterator[Finding]:
    """The rate at which a group commits: the main write load on most ensembles."""
    from zkgroup.audit.findings.tables import equal_runs, rows_by_key

    columns, p = tables.columns, tables.partitions
    is_commit, is_repeat = tables.placed(p.is_commit), tables.placed(p.repeats)
    groups = tables.of(events.BY_GROUP)
    for (group,), rows in rows_by_key(groups.where(is_commit[groups.rows])):
        first, last = tables.moment(rows[0]), tables.moment(rows[-1])
        seconds = max((last.time_ms - first.time_ms) / 1_000, 1.0)
        repeats = 100 * int(is_repeat[rows].sum()) / len(rows)
        writers = len(set(columns.session[rows].tolist()))
        busiest = equal_runs(columns.time_ms[rows] // _MINUTE_MS)[1].max()
        detail = (
            f"{counted(len(rows), 'commit')} by {counted(writers, 'session')},"
            f" {len(rows) / seconds:.2f}/s, {repeats:.0f} % of them repeat the offset;"
            f" at most {busiest} in one minute"
        )
        yield Finding.between("commit_rate", "info", first, last, detail, (group, None, None))


def _dead_group_screen(tables: ScreenTables, bounds: Bounds) -> Selection:
    groups = tables.of_some(events.BY_GROUP, lambda key: not _has_member(tables.facts, key[0]))
    is_write = tables.columns.op[groups.rows] != events.CHECK
    recent = tables.written_ms(groups.rows) >= tables.facts.end_ms - bounds["idle_ms"]
    return groups.of_keys(~groups.keys_with(is_write & recent))


def _has_member(facts: Facts, group: str) -> bool:
    return any(life.to_zxid is None for life in facts.members.get(group, ()))


@Rule(
    severity="info",
    question="Which groups have offsets, but no member and no write for days?",
    needs=("tree",),
    act="If no member will come back, save the offsets by `zkgroup offsets export`, and delete the group by"
    " `zkgroup group delete`.",
    keys=events.BY_GROUP,
    bounds={"idle_ms": 7 * 86_400_000},
    screen=_dead_group_screen,
)
def dead_group(rows: KeyRows, key: events.Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A group that has offsets, but has had no member for long."""
    if _has_member(facts, key[0]) or not facts.knows(ids_path(key[0])):
        return
    znodes: set[str] = set()
    zxid, last_ms = 0, 0  # those of the last write
    for event in rows:
        if event.op == "check":
            continue
        if event.op == "delete":
            znodes.discard(event.path)
        else:
            znodes.add(event.path)
        written_ms = max(event.time_ms, event.mtime_ms or 0)
        last_ms, zxid = max((last_ms, zxid), (written_ms, event.zxid))
    below = f"{offsets_path(key[0])}/"
    offsets = sum(path.startswith(below) and path.count("/") == 5 for path in znodes)
    if not offsets or facts.end_ms - last_ms <= bounds["idle_ms"]:
        return
    lives = facts.members.get(key[0], ())
    seen = counted(len(lives), "registration") if lives else "none"
    detail = (
        f"no member ({seen} in this history) and no write for"
        f" {duration_text(facts.end_ms - last_ms)}; {counted(len(znodes), 'znode')}, {offsets}"
        " of them offsets"
    )
    yield Finding("dead_group", "info", key[0], from_zxid=zxid, from_ms=last_ms, detail=detail)


@Rule(
    question="Which offsets are of partitions that do not exist?",
    needs=("tree",),
    act="A topic of that name, made again, starts at 0: consumers with this offset are out of range and do"
    " what their reset policy says. Reset the offset once the topic is there, or prune the group.",
    keys=events.BY_GROUP_PARTITION,
    screen=lambda tables, bounds: tables.of_some(
        events.BY_GROUP_PARTITION, lambda key: _why_missing(key, tables.facts) is not None
    ),
)
def offset_of_missing_partition(
    rows: KeyRows, key: events.Key, facts: Facts, bounds: Bounds
) -> Iterator[Finding]:
    """An offset for a partition that does not exist."""
    group, topic, _ = key
    created: events.Event | None = None
    data: bytes | None = None
    for event in rows:
        if event.path.startswith(f"{offsets_path(group)}/"):
            if event.op in ("create", "delete"):
                created = event if event.op == "create" else None
            data = event.data
    why = _why_missing(key, facts)
    if created is None or why is None:
        return
    # It is missing since the offset was created, or since the topic last changed.
    moments = [(created.zxid, created.time_ms)]
    moments += [(change.zxid, change.time_ms) for change in facts.topics.get(topic, ())[-1:]]
    detail = f"{why}; the offset is {(data or b'').decode('utf-8', 'replace')}"
    since = TimeRange(*max(moments))
    yield Finding.during("offset_of_missing_partition", "warning", since, detail, events.partition_of(key))


def _why_missing(key: events.Key, facts: Facts) -> str | None:
    _, topic, partition = events.partition_of(key)
    changes = facts.topics.get(topic, ())
    if is_below(Topic.path(topic), facts.unknown):
        return None
    if not changes:
        return "no such topic" if facts.is_whole else None
    data = changes[-1].data
    if data is None:
        return "the topic is gone"
    partitions = _partitions(data)
    if partitions is None or partition in partitions:
        return None
    return f"the topic has {counted(len(partitions), 'partition')}"


@lru_cache(maxsize=1 << 10)
def _partitions(data: bytes) -> frozenset[int] | None:
    topic = decoded(Topic.decode, "topic", data)
    return None if topic is None else frozenset(topic.partitions)
