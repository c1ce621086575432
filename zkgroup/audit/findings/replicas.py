"""Findings about replicas, their leaders, and the brokers that have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

from zkgroup.audit.findings.controller_lookup import absences, is_requested, life_at
from zkgroup.audit.findings.partition_views import (
    ChangeStamp,
    FaultInterval,
    PartitionView,
    ViewChange,
    brokers_text,
    change_finding,
    fault_intervals,
    history_end,
    history_start,
    interval_finding,
    partition_changes,
)
from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Rule, Severity
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.keys import BY_TOPIC, REPLICATION, Key
from zkgroup.audit.inputs.texts import count_text, duration_text
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import NO_LEADER, PartitionState
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC


@partial(
    Rule,
    severity="error",
    question="Which partitions were led by a broker that is not in their ISR?",
    needs=("snapshot",),
    act="No controller or leader of Kafka writes such a state: find the session that did. Restart the broker"
    " that leads, or have the leader elected again (`zkgroup elect preferred`), so that the state is written"
    " anew.",
    keys=BY_TOPIC,
)
def leader_not_in_isr(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A partition led by a broker that its state does not count as in sync.

    From the transaction that left it so to the one that mended it.
    """
    for partition, changes in rows.once(partition_changes, key, facts):
        for interval in fault_intervals(changes, _leader_outside):
            detail = f"{interval.detail} for {duration_text(interval.ms(history_end(facts)))}"
            yield interval_finding("leader_not_in_isr", "error", key[0], partition, interval, detail)


def _leader_outside(view: PartitionView) -> str | None:
    state = view.state
    if state is None or state.leader == NO_LEADER or state.leader in state.isr:
        return None
    return f"leader {state.leader} is not in the ISR {brokers_text(state.isr)}"


@partial(
    Rule,
    severity="error",
    question="Which partitions had brokers in their ISR that their replica list does not name?",
    needs=("snapshot",),
    act="A warning came with a reassignment and ends with it. An error stays: a replica in no replica list"
    " can be elected. Find the session that wrote the state or the replica list, then reassign the partition"
    " to the replicas that it shall have.",
    keys=BY_TOPIC,
)
def isr_outside_assignment(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A broker in the ISR of a partition whose replica list does not name it.

    A warning where that began during a move and ended, or the move still stands; an error otherwise. What
    cannot be read is not known, and contradicts nothing.
    """
    end = history_end(facts)
    for partition, changes in rows.once(partition_changes, key, facts):
        is_moving = partial(_is_moving, TopicPartition(key[0], partition), facts)
        for interval in fault_intervals(changes, _isr_outside):
            with_move = is_moving(interval.views[0][1], interval.since.zxid) and (
                interval.to is not None or is_moving(interval.views[-1][1], end.zxid)
            )
            detail = f"{interval.detail} for {duration_text(interval.ms(end))}"
            detail += "; it is being moved" if with_move else ""
            severity: Severity = "warning" if with_move else "error"
            yield interval_finding("isr_outside_assignment", severity, key[0], partition, interval, detail)


def _isr_outside(view: PartitionView) -> str | None:
    if view.state is None or view.replicas is None or view.is_deleting:
        return None
    outside = [broker for broker in view.state.isr if broker not in view.replicas]
    if not outside:
        return None
    return f"{brokers_text(outside)} in the ISR, not in the replica list {brokers_text(view.replicas)}"


def _is_moving(topic_partition: TopicPartition, facts: Facts, view: PartitionView, zxid: int) -> bool:
    return view.is_moving or is_requested(facts, topic_partition, zxid)


class _Away(NamedTuple):
    """The time that a broker was missing in one interval of a partition."""

    since: ChangeStamp
    until: ChangeStamp
    ms: int
    pieces: tuple[tuple[int, int], ...]
    """From when to when, by the clock."""


@dataclass(slots=True)
class _Sum:
    """The same of all that was reported."""

    since: ChangeStamp
    until: ChangeStamp | None
    """None where it lasts in one of them."""
    pieces: list[tuple[int, int]] = field(default_factory=list)
    partitions: set[TopicPartition] = field(default_factory=set)

    def add(self, topic_partition: TopicPartition, away: _Away, *, lasts: bool) -> None:
        self.since = min(self.since, away.since)
        self.until = None if lasts or self.until is None else max(self.until, away.until)
        self.pieces += away.pieces
        self.partitions.add(topic_partition)

    @property
    def ms(self) -> int:
        """Returns how long it was missing somewhere: times of several partitions count once."""
        total, counted_to = 0, min((since for since, _ in self.pieces), default=0)
        for since, until in sorted(self.pieces):
            total += max(until - max(since, counted_to), 0)
            counted_to = max(counted_to, until)
        return total


@partial(
    Rule,
    question="Which partitions had fewer replicas in sync than they should, without whom, and how long; and"
    " how much of it was whose?",
    act="Look at the brokers named: were they down, or too slow to follow? The row of a broker has"
    " the time in which it was missing anywhere: begin with the largest. A partition that stays so after a"
    " reassignment waits for a replica that no broker creates; reassign it again.",
    keys=REPLICATION,
    bounds={"least_ms": 10_000},
)
def under_replicated(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A partition whose ISR lacks some of its replicas, and for how long; and how much of it each broker is.

    Reported where it lasts `least_ms` or more, with the time that each broker was missing; and once for each
    broker, with the time in which it was missing in any of these. Replicas that a move adds are missing until
    they follow. A topic that is being deleted counts no further than to the request.
    """
    end = history_end(facts)
    sums: dict[int, _Sum] = {}
    for topic, partition, interval in _missing_intervals(rows, facts):
        if interval.ms(end) < bounds["least_ms"]:
            continue
        away = _away_times(interval, end)
        missing = _missing(interval.views[-1][1]) if interval.to is None else ()
        for broker, each in away.items():
            known = sums.setdefault(broker, _Sum(each.since, each.until))
            known.add(TopicPartition(topic, partition), each, lasts=broker in missing)
        brokers = ", ".join(f"{broker} for {duration_text(each.ms)}" for broker, each in sorted(away.items()))
        detail = f"replicas {brokers_text(interval.views[0][1].replicas or ())}, not in sync: {brokers}"
        yield interval_finding("under_replicated", "warning", topic, partition, interval, detail)
    for broker, total in sorted(sums.items()):
        topics = {topic_partition.topic for topic_partition in total.partitions}
        detail = (
            f"broker {broker} was not in sync in {count_text(len(total.partitions), 'partition')}"
            f" of {count_text(len(topics), 'topic')}, for {duration_text(total.ms)}"
        )
        yield Finding.between("under_replicated", "warning", total.since, total.until, detail)


def _missing_intervals(rows: KeyRows, facts: Facts) -> Iterator[tuple[str, int, FaultInterval]]:
    """Of all topics, the times in which a partition lacked replicas."""
    by_topic: dict[Key, list[Event]] = {}
    for event in rows:
        key = BY_TOPIC.key(event)
        if key is not None:
            by_topic.setdefault(key, []).append(event)
    for key, of_topic in by_topic.items():
        for partition, changes in partition_changes(of_topic, key, facts):
            for interval in fault_intervals(changes, lambda view: "missing" if _missing(view) else None):
                yield key[0], partition, interval


def _away_times(interval: FaultInterval, end: ChangeStamp) -> dict[int, _Away]:
    """By broker: the time that it was missing."""
    away: dict[int, _Away] = {}
    for (since, view), following in zip_longest(interval.views, interval.views[1:]):
        until = following[0] if following is not None else interval.to or end
        for broker in _missing(view):
            known = away.get(broker) or _Away(since, until, 0, ())
            ms = max(until.time_ms - since.time_ms, 0)
            away[broker] = _Away(
                known.since, until, known.ms + ms, (*known.pieces, (since.time_ms, until.time_ms))
            )
    return away


def _missing(view: PartitionView) -> list[int]:
    if view.state is None or view.replicas is None or view.is_deleting:
        return []
    return [broker for broker in view.replicas if broker not in view.state.isr]


@partial(
    Rule,
    severity="error",
    question="Which partitions had no leader, or one whose broker was gone, and how long?",
    act="A warning is over and was short. An error lasts, or lasted for long: start a broker of the replica"
    " list, the last one in sync first. Only if that one is lost for good, and its records with it,"
    " `zkgroup elect unclean` makes another lead. Topics that are being deleted are left out.",
    keys=BY_TOPIC,
    bounds={"election_ms": 1_000, "error_ms": 10_000},
)
def offline_partition(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A partition without a leader: its state names none, or one that was not registered.

    A leader whose registration ended counts from that end on, and not at all where another is elected, or
    it is back, before `election_ms`. An error where it lasts to the end of the history, or lasted longer
    than `error_ms`; a warning otherwise. A topic that is being deleted counts no further than to the
    request.
    """
    end = history_end(facts)
    for partition, changes in rows.once(partition_changes, key, facts):
        for interval in _offline_intervals(changes, facts):
            ms = interval.ms(end)
            # Some state in that time named no leader: it was not only that a registration had ended.
            was_leaderless = any(
                view.state is not None and view.state.leader == NO_LEADER for _, view in interval.views
            )
            if ms < bounds["election_ms"] and not was_leaderless and facts.has_log:
                continue
            severity: Severity = "error" if interval.to is None or ms > bounds["error_ms"] else "warning"
            lasted = f", offline for {duration_text(ms)}" if facts.has_log or was_leaderless else ""
            detail = f"{interval.detail}{lasted}"
            yield interval_finding("offline_partition", severity, key[0], partition, interval, detail)


def _offline_intervals(changes: Sequence[ViewChange], facts: Facts) -> Iterator[FaultInterval]:
    """The times without a leader; those that follow each other at once are one."""
    current: FaultInterval | None = None
    for change, following in zip_longest(changes, changes[1:]):
        until = None if following is None else following.at
        for interval in () if change.after is None else _offline_in(change.after, change.at, until, facts):
            if current is not None and current.to == interval.since:
                current = current._replace(to=interval.to, views=(*current.views, *interval.views))
            else:
                if current is not None:
                    yield current
                current = interval
        if current is not None and following is not None and following.after is None:
            yield current
            current = None
    if current is not None:
        yield current


def _offline_in(
    view: PartitionView, since: ChangeStamp, until: ChangeStamp | None, facts: Facts
) -> Iterator[FaultInterval]:
    """The times without a leader while a view stood; None for the end of the history."""
    if view.state is None or view.is_deleting:
        return
    if view.state.leader == NO_LEADER:
        detail = f"no leader, replicas {brokers_text(view.replicas or ())}"
        yield FaultInterval(since, until, ((since, view),), detail)
        return
    # A snapshot says since when a state stands, and nothing of when its leader went.
    start = history_start(facts)
    since = since if since.zxid > start.zxid else start
    for gone in absences(facts, view.state.leader, since, until):
        yield FaultInterval(
            gone.since, gone.to, ((gone.since, view),), f"leader {view.state.leader} was not registered"
        )


@partial(
    Rule,
    severity="error",
    question="Which leaders were elected although they were not in sync?",
    act="Records that only the in-sync replicas had are lost, and offsets may mean other records than before:"
    " check the consumers of the topic. Set `unclean.leader.election.enable=false` for topics that must not"
    " lose records (`zkgroup config alter --topic T --set ... --execute`); at 0.8.2.2 the default is true.",
    keys=BY_TOPIC,
)
def unclean_election(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A leader that was not in sync when it was elected: what only the others had is lost.

    Compared with the last ISR that was not empty, in the same life of the partition: a controller of 0.8.2.2
    writes an empty one, and the last replica of it may come back. Slots of zkgroup's group coordinators have
    empty logs: any replica of them may lead (recipes 20).
    """
    slots_zxid = facts.slots_zxid if key[0] == OFFSETS_TOPIC else None
    for partition, changes in rows.once(partition_changes, key, facts):
        life, in_sync = 0, tuple[int, ...]()  # of the last state with an ISR that was not empty
        for _, before, after, at in changes:
            if after is None or after.state is None or (slots_zxid is not None and at.zxid >= slots_zxid):
                continue
            leader = after.state.leader
            led_before = before is not None and before.state is not None and before.state.leader == leader
            if life == after.life and leader not in (NO_LEADER, *in_sync) and not led_before:
                detail = f"broker {leader} leads, in sync were {brokers_text(in_sync)}"
                yield change_finding("unclean_election", "error", key[0], partition, at, detail)
            if after.state.isr:
                life, in_sync = after.life, after.state.isr


@partial(
    Rule,
    severity="error",
    question="Which partitions changed their leader without a new leader epoch, or went back in it?",
    act="Brokers obey only a higher leader epoch, so this state is not what they do: find the session that"
    " wrote it, and let the controller elect again (`zkgroup elect preferred`, or a restart of the leader).",
    keys=BY_TOPIC,
)
def leader_epoch_not_rising(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A leader epoch that fell, or stayed while the leader changed, in one life of a partition."""
    for partition, changes in rows.once(partition_changes, key, facts):
        for was, now, at in _state_changes(changes):
            if now.leader_epoch < was.leader_epoch:
                detail = f"leader epoch fell from {was.leader_epoch} to {now.leader_epoch}"
            elif now.leader != was.leader and now.leader_epoch == was.leader_epoch:
                detail = f"leader {was.leader} became {now.leader} within leader epoch {now.leader_epoch}"
            else:
                continue
            yield change_finding("leader_epoch_not_rising", "error", key[0], partition, at, detail)


def _state_changes(
    changes: Sequence[ViewChange],
) -> Iterator[tuple[PartitionState, PartitionState, ChangeStamp]]:
    """States that followed each other in one life of a partition."""
    for _, before, after, at in changes:
        if before is None or after is None or before.life != after.life:
            continue
        if before.state is not None and after.state is not None:
            yield before.state, after.state, at


class _Flaps(NamedTuple):
    """Pairs of a shrink and an expansion that follow each other closely."""

    first: ChangeStamp
    last: ChangeStamp
    pairs: int
    away_ms: int


@partial(
    Rule,
    question="Which replicas left the ISR and were back within a minute, though their broker stayed up?",
    act="The broker named follows too slowly now and then: check its pauses, its disks, its network and"
    " `replica.lag.time.max.ms`. Each pair costs two writes of the state and, with acks=all, a wait.",
    keys=BY_TOPIC,
    bounds={"within_ms": 60_000, "pairs": 1},
)
def isr_flapping(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Replicas that leave the ISR and are back within a minute, though their broker stayed.

    A broker that was registered anew in between is `broker_flapping`. Pairs of a shrink and an expansion no
    more than `within_ms` apart are one row, which is reported if it has at least `pairs` of them.
    """
    for partition, changes in rows.once(partition_changes, key, facts):
        for broker, flaps in _isr_flaps(changes, facts, bounds["within_ms"]):
            if flaps.pairs >= bounds["pairs"]:
                times = "once" if flaps.pairs == 1 else f"{flaps.pairs} times"
                detail = (
                    f"broker {broker} left the ISR and came back {times}, away for"
                    f" {duration_text(flaps.away_ms)}"
                )
                place, session = (None, key[0], partition), flaps.first.session or None
                yield Finding.between(
                    "isr_flapping", "warning", flaps.first, flaps.last, detail, place, session
                )


def _isr_flaps(changes: Sequence[ViewChange], facts: Facts, within_ms: float) -> Iterator[tuple[int, _Flaps]]:
    left: dict[int, ChangeStamp] = {}  # by broker: when it left the ISR
    runs: dict[int, _Flaps] = {}
    for _, before, after, at in changes:
        if before is None or after is None or before.life != after.life:
            continue
        if after.replicas is not None:  # who is taken off the replica list, as a move does, was not too slow
            left = {broker: since for broker, since in left.items() if broker in after.replicas}
        if before.state is None or after.state is None:
            continue
        for broker in set(before.state.isr) - set(after.state.isr):
            left[broker] = at
            if broker in runs and at.time_ms - runs[broker].last.time_ms > within_ms:
                yield broker, runs.pop(broker)
        for broker in set(after.state.isr) - set(before.state.isr):
            since = left.pop(broker, None)
            if (
                since is not None
                and at.time_ms - since.time_ms <= within_ms
                and _stayed(broker, since, at, facts)
            ):
                run = runs.get(broker, _Flaps(since, at, 0, 0))
                away_ms = run.away_ms + max(at.time_ms - since.time_ms, 0)
                runs[broker] = _Flaps(run.first, at, run.pairs + 1, away_ms)
    yield from runs.items()


def _stayed(broker: int, since: ChangeStamp, until: ChangeStamp, facts: Facts) -> bool:
    """Returns whether a broker was not started again in between."""
    life = life_at(facts.brokers.get(str(broker), ()), until.zxid)
    return life is None or life.from_zxid <= since.zxid
