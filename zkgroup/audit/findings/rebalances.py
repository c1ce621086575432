"""Findings about the members of groups: rebalances, handovers, shares, and members that come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from zkgroup.audit.answers.partitions import member_of_thread
from zkgroup.audit.findings import rules
from zkgroup.audit.findings.group_rebalances import QUIET_MS, Rebalance, group_rebalances, replayed_group
from zkgroup.audit.findings.membership import ExpectedOwners
from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Occurrence, Rule, Severity, TimeRange
from zkgroup.audit.inputs.events import BY_GROUP, BY_MEMBERSHIP, Event, Key
from zkgroup.audit.inputs.facts import Facts, Life, client
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, duration_text, named
from zkgroup.znodes.consumers import ids_path, owners_path
from zkgroup.znodes.paths import path_kind

_HOUR_MS: Final = 3_600_000
_TRIGGERS_NAMED: Final = 4
_NO_CAUSE: Final = "no cause in the log"


@Rule(
    severity="info",
    question="When did the group rebalance, why, for how long, and what moved?",
    act="Nothing, for a few. Expiries and crashes among the causes call for a check of pauses and session"
    " timeouts; where the moves exceed the least possible, the strategy `sticky` avoids them.",
    keys=BY_MEMBERSHIP,
    bounds={"quiet_ms": QUIET_MS},
)
def rebalance(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Each rebalance of a group: its causes, its length, the partitions that moved, and the cost.

    It begins with a change of the membership or of an owner, and is over after `quiet_ms` without any;
    earlier where every member owned what it is assigned and the next cause comes. A crash is the expiry
    of a session whose member never came back. Moves beyond the least possible are reported beside the
    actual ones.
    """
    for each in rows.once(group_rebalances, key, facts, bounds["quiet_ms"]):
        yield _of_rebalance("rebalance", "info", each, _rebalance_text(each))


def _of_rebalance(name: str, severity: Severity, about: Rebalance, detail: str) -> Finding:
    return Finding.during(name, severity, about, detail, (about.group, None, None))


def _rebalance_text(about: Rebalance) -> str:
    causes = [f"{trigger.cause} ({trigger.what})" for trigger in about.triggers]
    parts = [
        named(causes, _TRIGGERS_NAMED) if causes else _NO_CAUSE,
        duration_text(about.to_ms - about.from_ms),
        f"{counted(about.members, 'member')} then",
        f"{counted(len(about.changes), 'partition')} touched, {_moves_text(about)}",
    ]
    if any(change.down_ms for change in about.changes):
        parts.append(f"without owner up to {duration_text(about.down_ms_max)}")
    if about.unowned:
        parts.append(f"{about.unowned} without owner at its end")
    return "; ".join(parts)


def _moves_text(about: Rebalance) -> str:
    if about.least is None or about.least == about.moved:
        return f"{about.moved} moved"
    return f"{about.moved} moved where {about.least} would have done"


@Rule(
    question="Did a group rebalance again and again?",
    act="Each one stops a JVM group for seconds. The causes show which members come and go (member_flapping),"
    " and whether sessions expire: a longer `zookeeper.session.timeout.ms` bridges pauses.",
    keys=BY_MEMBERSHIP,
    bounds={"per_hour": 20, "quiet_ms": QUIET_MS},
)
def rebalance_storm(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Many rebalances of one group in an hour: one row over the whole time in which it was so.

    More than `per_hour` of them within sixty minutes; what a rebalance is stands with `rebalance`.
    """
    most = int(bounds["per_hour"])
    causes: Counter[str] = Counter()

    def begins() -> Iterator[Occurrence]:
        for each in rows.once(group_rebalances, key, facts, bounds["quiet_ms"]):
            yield Occurrence(each.from_zxid, each.from_ms)
            causes.update({trigger.cause for trigger in each.triggers} or (_NO_CAUSE,))

    for first, last, times in rules.full_windows(begins(), most + 1, _HOUR_MS):
        often = sorted(causes.items(), key=lambda item: (-item[1], item[0]))
        most_often = ", ".join(f"{cause} {count} times" for cause, count in often[:3])
        detail = f"{times} rebalances, more than {most} an hour; among their causes: {most_often}"
        yield Finding.between("rebalance_storm", "warning", first, last, detail, (key[0], None, None))
        causes.clear()


@Rule(
    question="Which rebalances took partitions from threads for nothing?",
    act="Info: that is how JVM members rebalance, and what range and round robin cost; zkgroup members with"
    " the strategy `sticky` keep what they can. Warning: a zkgroup member released what it was to keep;"
    " check its log for what it read in between.",
    keys=BY_MEMBERSHIP,
    bounds={"quiet_ms": QUIET_MS},
)
def needless_move(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Partitions that a rebalance took from a thread for nothing.

    Released and claimed again by the same thread, or moved beyond the fewest known. Info where JVM
    members did it, which always release everything, and where range or round robin cost it; a warning
    where a zkgroup member took back what it had released, or the strategy is `sticky`.
    """
    for each in rows.once(group_rebalances, key, facts, bounds["quiet_ms"]):
        beyond = each.least is not None and each.moved > each.least
        parts = []
        if each.retaken:
            parts.append(f"{len(each.retaken)} released and claimed again by the same thread")
        if beyond:
            parts.append(_moves_text(each))
        if parts:
            is_avoidable = each.retaken_by_zkgroup or (beyond and each.is_sticky)
            severity: Severity = "warning" if is_avoidable else "info"
            yield _of_rebalance("needless_move", severity, each, "; ".join(parts))


@Rule(
    question="Do members own what they are assigned, and is that even?",
    needs=("tree",),
    act="Warning: `group verify` names the members that disagree; a JVM member that gave up needs a restart."
    " Info: with many small topics `roundrobin` or `sticky` share more evenly than `range`.",
    keys=BY_MEMBERSHIP,
    bounds={"grace_ms": 10_000},
)
def skew(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Members of a group with very different shares, at the end of the history.

    A warning where the plan means something else, after expanding wildcards and threads, and nothing has
    changed for `grace_ms`; info where the plan itself is uneven among members that want the same.
    """
    (replay,) = rows.once(replayed_group, key, facts)
    zxid, time_ms = max(
        (
            (event.zxid, event.time_ms)
            for event in rows
            if event.op in ("create", "delete") and path_kind(event.path).kind in ("member", "owner")
        ),
        default=(0, 0),
    )
    is_known = facts.knows(ids_path(key[0]), owners_path(key[0]))
    plan = replay.expected_owners(facts.end_zxid) if is_known else None
    if plan is None or facts.end_ms - time_ms <= bounds["grace_ms"]:
        return
    found = _uneven_shares(plan, _shares(plan, replay.threads()), _shares(plan, plan.owners))
    if found is not None:
        severity, detail = found
        yield Finding("skew", severity, key[0], from_zxid=zxid, from_ms=time_ms, detail=detail)


def _uneven_shares(
    plan: ExpectedOwners, owned: Mapping[str, int], meant: Mapping[str, int]
) -> tuple[Severity, str] | None:
    """A warning for shares that differ from the plan, info for a plan that is uneven by itself."""
    idle = [member for member, count in owned.items() if not count and meant[member]]
    if idle:
        return "warning", f"idle, though the plan has partitions for them: {named(idle, 3)}"
    if _spread(owned) > max(_spread(meant), 1):
        return "warning", f"{_extremes(owned)}; by the plan they would differ by {_spread(meant)}"
    same = len({tuple(sorted(member.threads.items())) for member in plan.members}) == 1
    if same and _spread(meant) > 1 and owned == meant:
        why = f"which is the plan of {plan.strategy}: it cuts each topic by itself"
        return "info", f"{_extremes(owned)}, {why}"
    return None


def _shares(plan: ExpectedOwners, owners: Mapping[TopicPartition, str]) -> dict[str, int]:
    counts = {member.member: 0 for member in plan.members if member.threads}
    for thread in owners.values():
        member = member_of_thread(thread)
        if member in counts:
            counts[member] += 1
    return counts


def _spread(counts: Mapping[str, int]) -> int:
    return max(counts.values(), default=0) - min(counts.values(), default=0)


def _extremes(counts: Mapping[str, int]) -> str:
    most, least = max(counts, key=lambda name: counts[name]), min(counts, key=lambda name: counts[name])
    return f"{most} owns {counts[most]}, {least} owns {counts[least]}"


@dataclass(slots=True)
class _Handover:
    """A session that ended as an owner; its partitions wait for their first next claim."""

    zxid: int
    time_ms: int
    session: int
    expired: bool
    silence_ms: int | None
    heirs_to: tuple[int | None, int]
    """Zxid and time up to which members were registered to take over; None for the end of the history."""
    partitions: int = 0
    waiting: set[TopicPartition] = field(default_factory=set)
    last_claim: Event | None = None


@Rule(
    severity="info",
    question="When a member's session ended, how long did its partitions stand before others had all of"
    " them?",
    act="Before the end lies the session timeout, if it expired; behind it the rebalance of the others. A"
    " long rebalance: check failed_claims and JVM members that wait between their attempts.",
    keys=BY_GROUP,
    bounds={"patience_ms": 10_000},
    screen=lambda tables, bounds: tables.takeovers(),
)
def handover_time(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """The time from the end of a session until all its partitions are owned again."""
    wrote_ms: dict[int, int] = {}
    """The time of the last write of each session in the group."""
    open_: dict[int, _Handover] = {}
    """The handovers that are not over, by the session that ended."""
    waits: dict[TopicPartition, _Handover] = {}
    for event in rows:
        place, life = path_kind(event.path), facts.sessions.get(event.session)
        is_end = life is not None and life.to_zxid == event.zxid
        if event.seed:
            continue
        if not is_end:
            wrote_ms[event.session] = event.time_ms
        if place.kind != "owner":
            continue
        tp = TopicPartition(place.topic, place.partition)
        if is_end and event.op == "delete":
            ended = open_.get(event.session) or _handover(event, wrote_ms, key[0], facts)
            if ended is not None:
                open_[event.session] = waits[tp] = ended
                ended.partitions += 1
                ended.waiting.add(tp)
        elif event.op == "create" and (ended := waits.pop(tp, None)) is not None:
            ended.waiting.discard(tp)
            ended.last_claim = event
            if not ended.waiting:
                yield _handover_finding(open_.pop(ended.session), key[0], facts)
    for each in open_.values():
        if each.last_claim is not None or each.heirs_to[1] - each.time_ms > bounds["patience_ms"]:
            yield _handover_finding(each, key[0], facts)


def _handover(event: Event, wrote_ms: dict[int, int], group: str, facts: Facts) -> _Handover | None:
    """The handover of a session that ends; None where no member outlived it."""
    ends = [
        (life.to_zxid, facts.end_ms if life.to_ms is None else life.to_ms)
        for life in facts.members.get(group, ())
        if life.from_zxid < event.zxid and (life.to_zxid is None or life.to_zxid > event.zxid)
    ]
    if not ends:
        return None
    heirs_to = max(ends, key=lambda end: (end[0] is None, end[0] or 0))
    last_ms = wrote_ms.pop(event.session, None)
    silence_ms = None if last_ms is None else event.time_ms - last_ms
    return _Handover(event.zxid, event.time_ms, event.session, event.cxid == 0, silence_ms, heirs_to)


def _handover_finding(ended: _Handover, group: str, facts: Facts) -> Finding:
    claim = ended.last_claim
    silence = "" if ended.silence_ms is None else f" after {duration_text(ended.silence_ms)} of silence"
    how = "expired" if ended.expired else "closed"
    to_zxid, to_ms = ended.heirs_to
    if claim is None:
        then = f"none of them was claimed again in {duration_text(to_ms - ended.time_ms)}"
    else:
        then = f"the last was claimed again {duration_text(claim.time_ms - ended.time_ms)} later"
        if ended.waiting:
            then += f", {len(ended.waiting)} never"
        else:
            to_zxid, to_ms = claim.zxid, claim.time_ms
    detail = (
        f"{client(facts, ended.session, group)} {how}{silence} with"
        f" {counted(ended.partitions, 'partition')}; {then}"
    )
    time = TimeRange(ended.zxid, ended.time_ms, to_zxid, None if to_zxid is None else to_ms)
    return Finding.during("handover_time", "info", time, detail, (group, None, None), ended.session)


@Rule(
    question="Which members registered again and again?",
    act="Each registration makes the whole group rebalance. See session_end: sessions that expire need a"
    " longer timeout or a process that pauses less; sessions that close are a process that is restarted.",
    keys=BY_MEMBERSHIP,
    bounds={"lives": 3, "window_ms": 3_600_000},
)
def member_flapping(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Members that come and go."""
    most = int(bounds["lives"])
    by_member: dict[str, list[Life]] = {}
    for life in facts.members.get(key[0], ()):
        by_member.setdefault(path_kind(life.path).member, []).append(life)
    for member, lives in by_member.items():
        begins = (Occurrence(life.from_zxid, life.from_ms) for life in lives)
        for first, last, times in rules.full_windows(begins, most + 1, bounds["window_ms"]):
            within = [life for life in lives if first.zxid <= life.from_zxid <= last.zxid]
            lasted = median(TimeRange.of(life).ms(facts) for life in within)
            detail = (
                f"member {member} registered {times} times within"
                f" {duration_text(last.time_ms - first.time_ms)}, for"
                f" {duration_text(int(lasted))} each (median)"
            )
            place, session = (key[0], None, None), within[-1].session
            yield Finding.between("member_flapping", "warning", first, last, detail, place, session)
