"""The rule by which findings become incidents, as docs/incidents.md has it as a table, and their titles."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from zkgroup.audit.findings.engine import CALLED, KNOWN_RULES, Found, order
from zkgroup.audit.findings.rules import SEVERITIES, AnyRule, Finding, Rule, Severity, runs
from zkgroup.audit.incidents import incident
from zkgroup.audit.incidents.causes import Causes
from zkgroup.audit.incidents.incident import CONTROLLER, Cause, PartitionDamage, length_ms, rewind_of
from zkgroup.audit.inputs.facts import Facts, members_of
from zkgroup.model.text import counted, duration_text, hex_session, named, session_digits
from zkgroup.znodes.consumers import Owner

APART_MS = 600_000
"""Findings with one cause that are further apart than this are two incidents."""
REBALANCE_MS = 30_000
"""A restart or change of the membership is a note if no partition is longer without an owner."""
_ACTS: dict[incident.CauseKind, str] = {
    "foreign write": "Find the client behind the session (`zkgroup session`) and stop it. Then restart the"
    " members that went on without their partitions, and set offsets with `zkgroup offsets`, which leaves a"
    " marker.",
    "session end": "Members of the JVM do not notice that an owner is gone: restart them, or change the"
    " group's membership, so that they rebalance.",
    "expiry": "The process was killed, paused (garbage collection, a stopped machine) or cut off for as"
    " long as its session timeout. Check its logs; a longer `zookeeper.session.timeout.ms` bridges pauses.",
    "unreadable registration": "Delete the registration, or stop the client that wrote it: until then no"
    " JVM member can rebalance.",
    "restart": "Nothing, if the member was restarted then. If partitions waited for long, see how long the"
    " process took to come back.",
    "membership change": "Nothing, if members were started or stopped then. If partitions waited for long,"
    " see who could not claim them, and why.",
    "lost broker": "Start the brokers again, or find out why ZooKeeper lost them: their own logs and"
    " pauses at that time.",
    "broker shutdown": "Nothing, if brokers were stopped then; start them again.",
    "controller change": "Nothing, for one election. Read the broker's log if it resigned by itself.",
    "slow follower": "Check the followers that are named most: disk, network, pauses, or a"
    " `replica.lag.time.max.ms` that is too short for their load.",
    "operator reset": "Nothing: an operator set offsets, with a marker.",
}
_CONTROLLER_ACT = (
    "Find the client behind the session (`zkgroup session`). A controller that is deleted by hand is elected"
    " again at once; one that another session replaced does not notice: stop that session, and delete"
    " /controller."
)
_MEMBER_ACT = (
    "The writer is a member of the group: it committed what it did not own. Restart it, and set offsets with"
    " `zkgroup offsets`, which leaves a marker."
)
_WRITES: frozenset[incident.CauseKind] = frozenset(("foreign write", "operator reset", "orphaned claim"))
"""Causes that begin at their first finding, where nothing before shows their beginning."""


def incidents_of(findings: Iterable[Finding], facts: Facts) -> list[incident.Incident]:
    """The incidents, errors first, then by time. Each finding is in exactly one of them."""
    ordered = sorted(findings, key=order)
    causes = Causes(ordered, facts)
    by_cause: dict[incident.Cause, list[Finding]] = defaultdict(list)
    for one in ordered:
        by_cause[causes.of(one)].append(one)
    found = [_incident(cause, run, facts) for cause, each in by_cause.items() for run in _runs(cause, each)]
    return sorted(found, key=lambda one: (SEVERITIES.index(one.severity), one.from_zxid or 0, one.title))


def _runs(cause: incident.Cause, findings: Sequence[Finding]) -> Iterator[list[Finding]]:
    """Yields the findings with one cause, apart where there was none for long. Notes stay together."""
    if cause.kind == "note":
        yield list(findings)
        return
    run: list[Finding] = []
    until_ms: float | None = None
    for one in findings:
        if run and until_ms is not None and (one.from_ms or until_ms) - until_ms > APART_MS:
            yield run
            run, until_ms = [], None
        run.append(one)
        end_ms = float("inf") if one.to_zxid is None else one.to_ms
        if end_ms is not None:
            until_ms = end_ms if until_ms is None else max(until_ms, end_ms)
    yield run


def _incident(cause: incident.Cause, findings: Sequence[Finding], facts: Facts) -> incident.Incident:
    if cause.zxid is None and cause.kind in _WRITES:
        first = next((one for one in findings if one.from_zxid is not None), None)
        if first is not None:
            cause = cause._replace(zxid=first.from_zxid, time_ms=first.from_ms)
    span = _span(cause, findings)
    damage = incident.damage_of(findings, facts)
    groups = {one.group for one in findings} if cause.group is None else {cause.group}
    return incident.Incident(
        title_of(cause, findings, damage, span[2], facts),
        _severity(cause, findings, facts),
        cause,
        groups.pop() if len(groups) == 1 else None,
        *span,
        damage,
        _act(cause, findings, facts),
        tuple(findings),
    )


def _span(
    cause: incident.Cause, findings: Sequence[Finding]
) -> tuple[int | None, int | None, int | None, int | None]:
    """The zxids and times from the first finding, or the cause if that is not long before, to the last."""
    starts, ends = [(one.from_zxid, one.from_ms) for one in findings], list(map(_end, findings))
    lasts = any(zxid is None for zxid, _ in ends)
    zxid, ms, first_ms = cause.zxid, cause.time_ms, min(_known(ms for _, ms in starts), default=None)
    if zxid is not None and ms is not None and first_ms is not None and first_ms - ms <= APART_MS:
        starts.append((zxid, ms))
        ends.append((zxid, ms))
    from_zxid, from_ms = (min(_known(each), default=None) for each in zip(*starts, strict=True))
    to_zxid, to_ms = (None if lasts else max(_known(each), default=None) for each in zip(*ends, strict=True))
    return from_zxid, to_zxid, from_ms, to_ms


def _known(numbers: Iterable[int | None]) -> list[int]:
    return [number for number in numbers if number is not None]


def _end(one: Finding) -> tuple[int | None, int | None]:
    """The end of a finding; for an election its moment, however long that controller stayed."""
    is_storm = one.severity != "info" and one.to_zxid is not None
    if one.finding == "controller_election" and not is_storm:
        return one.from_zxid, one.from_ms
    return one.to_zxid, one.to_ms


def _severity(cause: incident.Cause, findings: Sequence[Finding], facts: Facts) -> Severity:
    worst = min((one.severity for one in findings), key=SEVERITIES.index)
    if cause.kind in ("restart", "membership change") and worst == "warning":
        is_short = all(
            one.finding == "unowned_interval"
            and one.to_zxid is not None
            and incident.length_ms(one, facts) <= REBALANCE_MS
            for one in findings
            if one.severity != "info"
        )
        return "info" if is_short else worst
    if cause.kind == "foreign write" and cause.what == incident.CONTROLLER and worst == "info":
        return "warning"
    return worst


def _act(cause: incident.Cause, findings: Sequence[Finding], facts: Facts) -> str:
    if cause.what == incident.CONTROLLER:
        return _CONTROLLER_ACT
    if cause.what == "offsets" and members_of(facts, cause.session or 0, cause.group or ""):
        return _MEMBER_ACT
    if cause.kind in _ACTS:
        return _ACTS[cause.kind]
    first = min(findings, key=lambda one: SEVERITIES.index(one.severity))
    return next((rule.act for rule in KNOWN_RULES if rule.name == first.finding), "")


def with_causes(only: Sequence[AnyRule]) -> list[AnyRule]:
    """The rules to run where only the findings of some are wanted: others show the causes of those.

    Rules about whole files show no causes, so of them only those in `only` run.
    """
    return [rule for rule in KNOWN_RULES if rule in only or isinstance(rule, Rule)]


def only_of(
    only: Sequence[AnyRule], found: Found, audited: incident.FoundIncidents
) -> tuple[Found, incident.FoundIncidents]:
    """The findings of some rules, and each incident that has one, whole, with its number."""
    names = {rule.name for rule in only}
    rows = [one for one in audited.findings if one.finding.finding in names]
    numbers = {one.incident for one in rows}
    skipped = [one for one in found.skipped if one.rule.name in names]
    incidents = [one for one in audited.incidents if one.number in numbers]
    return (
        Found([one.finding for one in rows], skipped, found.facts, found.files),
        incident.FoundIncidents(incidents, rows, skipped),
    )


def numbered(found: Found) -> incident.FoundIncidents:
    """The incidents of an audit, errors first, and each finding with the number of its incident."""
    incidents = [
        replace(one, number=number) for number, one in enumerate(incidents_of(found.findings, found.facts), 1)
    ]
    numbers = {id(one): each.number for each in incidents for one in each.findings}
    findings = [incident.NumberedFinding(one, numbers[id(one)]) for one in found.findings]
    return incident.FoundIncidents(incidents, findings, found.skipped)


def called(name: str, count: int) -> str:
    """The word for this many findings of a name, without the number."""
    one, _, many = CALLED[name].partition("|")
    return one.replace("(s)", "") if count == 1 else (many or one).replace("(s)", "s")


_DAY_MS = 86_400_000
_NAMED_MAX = 3
_THREAD = re.compile(r"the claim of (?P<quote>['\"])(?P<thread>.*?)(?P=quote), ")
_COMMITS = frozenset(("zombie_commit", "double_ownership", "offset_regression"))


def title_of(
    cause: Cause,
    findings: Sequence[Finding],
    damage: Sequence[PartitionDamage],
    from_ms: int | None,
    facts: Facts,
) -> str:
    """The title: one sentence without a full stop, behind the time at which the incident begins."""
    sentence = _Sentence(cause, findings, damage, facts).sentence()
    if cause.kind == "note" or from_ms is None:
        return sentence
    try:
        moment = datetime.fromtimestamp(from_ms // 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return f"at an unknown time {sentence}"
    is_one_day = facts.end_ms - facts.start_ms < _DAY_MS
    return f"{moment:%H:%M:%S} {sentence}" if is_one_day else f"{moment:%Y-%m-%d %H:%M:%S} {sentence}"


class _Sentence:
    def __init__(
        self, cause: Cause, findings: Sequence[Finding], damage: Sequence[PartitionDamage], facts: Facts
    ) -> None:
        self._cause, self._findings, self._damage, self._facts = cause, findings, damage, facts
        self._worst = [one for one in findings if one.severity != "info"] or findings
        self._client, self._where = self._session(cause.session), _of(cause.group, _partitions(findings))
        self._waited, self._rewinds = _waited(damage), _rewinds(findings)

    def sentence(self) -> str:
        group, what, waited = self._cause.group, self._cause.what, self._waited
        rebalances = self._named("rebalance")
        times = f" ({len(rebalances)} rebalances)" if len(rebalances) > 1 else ""
        match self._cause.kind:
            case "foreign write":
                return self._foreign_write()
            case "session end":
                commits = self._committers(self._named("zombie_commit"))
                more = f", while {commits} kept committing" if commits else ""
                return f"{self._client} ended and with it the owners of {self._where}{waited}{more}"
            case "expiry":
                return f"{self._expired()}{waited}{self._went_on('and')}{self._rewinds}"
            case "unreadable registration":
                return f"{what} registered in {group} with data that no JVM member can read{waited}"
            case "restart":
                return f"{what} restarted and {group} rebalanced{times}{waited}"
            case "membership change":
                why = f": {rebalances[0].detail.split('; ')[0]}" if rebalances else ""
                return f"{group} rebalanced{times}{why}{waited}"
            case "rebalance storm":
                storm = self._named("rebalance_storm") or self._findings
                return f"{group} rebalanced again and again: {storm[0].detail}{waited}"
            case "orphaned claim":
                kept = f"{self._where} kept the owner of {self._client}"
                return f"{kept} after the registration of its member was gone"
            case "operator reset":
                return f"an operator set the offsets of {self._where}"
        return self._of_cluster()

    def _of_cluster(self) -> str:
        match self._cause.kind:
            case "lost broker":
                return self._departed("lost")
            case "broker shutdown":
                return self._departed("shut down")
            case "controller change":
                return f"the controller changed: {self._findings[0].detail}"
            case "controller storm":
                detail = self._worst[0].detail.removeprefix("a storm of ")
                return detail.replace("elections", "controller elections", 1)
            case "slow follower":
                return self._slow()
            case "reassignment":
                return self._unfinished()
            case "state":
                return self._state()
        if len(self._findings) > 1:
            return _counted(self._cause.what, self._findings)
        one = self._findings[0]
        if one.basis == "snapshots":
            place = _of(one.group, _partitions(self._findings)) or one.topic
            return f"{place}: {one.detail}" if place and place not in one.detail else one.detail
        detail = one.detail.removeprefix("not_applicable")
        return detail.removeprefix(" to all").removeprefix(": ")

    def _foreign_write(self) -> str:
        cause = self._cause
        if cause.what == CONTROLLER:
            return self._foreign_controller()
        if cause.what == "offsets":
            return self._foreign_offsets()
        taken = [one for one in self._named("claim_stolen") if one.session == cause.session]
        if taken:
            victims = _few(sorted({name for one in taken if (name := _victim(one))})) or "a client"
            did = f" took {_of(cause.group, _partitions(taken))} from {victims}{self._went_on('which')}"
        else:
            claimed = _of(cause.group, _partitions(self._named("owner_session_mismatch")))
            did = f", which is no member, claimed {claimed}{self._went_on()}"
        return f"{self._client}{did}{self._rewinds}{self._waited}"

    def _foreign_offsets(self) -> str:
        """The text about partitions that were set back, and partitions that were written otherwise."""
        names = self._members(self._cause.group, self._cause.session)
        client = f"member {names}" if names else self._client
        everywhere = _partitions(self._findings)
        back = _partitions(one for one in self._findings if rewind_of(one) is not None)
        did = "set back" if back == everywhere else "committed"
        also = f" and set back {back}" if back and back != everywhere else ""
        it = "them" if any(each in everywhere for each in ("..", ",", "partitions")) else "it"
        return f"{client} {did} {self._where} without owning {it}{also}{self._rewinds}"

    def _foreign_controller(self) -> str:
        elections, writes = self._named("controller_election"), self._named("deposed_controller_write")
        own = [one for one in elections if one.session == self._cause.session]
        more = f", while the former controller went on ({counted(len(writes), 'write')})" if writes else ""
        if own:
            held = duration_text(sum(length_ms(one, self._facts) for one in own))
            return f"{self._client}, which is no broker's, held /controller for {held}{more}"
        times = f" {len(elections)} times" if len(elections) > 1 else ""
        elected = f": {counted(len(elections), 'election')}" if elections else ""
        return f"{self._client}, which is not the controller's, deleted /controller{times}{elected}{more}"

    def _went_on(self, pronoun: str = "") -> str:
        """The text about members that committed all the same; a pronoun stands for those named before."""
        commits = [one for one in self._findings if one.finding in _COMMITS and one.severity != "info"]
        if commits:
            return f", {pronoun or f'while {self._committers(commits)}'} kept committing"
        sessions = {one.session for one in self._named("claim_stolen")}
        return ", until the owner deleted that claim" if pronoun and len(sessions) > 1 else ""

    def _expired(self) -> str:
        what, group = self._cause.what, self._cause.group
        noun, was, its = ("members", "were", "their") if ", " in what else ("member", "was", "its")
        member = f"{noun} {what} of {group}" if what else f"a client of {group}"
        ends = self._named("session_end")
        timeout = re.search(r"\(timeout ([^)]*)\)", ends[0].detail) if ends else None
        if any(one.severity != "info" for one in ends):
            length = f" of {timeout[1]}" if timeout else ""
            return f"{member} {was} paused for longer than {its} session timeout{length}"
        return f"{member} lost {its} session" + (f" (timeout {timeout[1]})" if timeout else "")

    def _departed(self, did: str) -> str:
        brokers, effects = self._cause.what.split(", "), []
        noun = "broker {} was" if len(brokers) == 1 else "brokers {} were"
        offline = [one for one in self._damage if one.leaderless_ms]
        if offline:
            longest = duration_text(max(one.leaderless_ms for one in offline))
            where = _places((one.topic, one.partition) for one in offline)
            effects.append(f"{where} had no leader for {longest}")
        if where := _partitions(self._named("stuck_reassignment")):
            effects.append(f"the reassignment of {where} stopped")
        if where := _partitions(self._named("under_replicated")):
            effects.append(f"{where} lacked replicas")
        if self._named("controller_election"):
            effects.append("another controller was elected")
        return f"{noun.format(' and '.join(brokers))} {did}{': ' if effects else ''}{'; '.join(effects)}"

    def _slow(self) -> str:
        places = {(one.topic, one.partition) for one in self._findings if one.topic is not None}
        partitions = counted(len(places), "partition")
        topics = counted(len({topic for topic, _ in places}), "topic")
        flaps = len(self._named("isr_flapping"))
        times = f", {flaps} times for less than a minute" if flaps else ""
        return f"followers fell behind in {partitions} of {topics}{times}"

    def _unfinished(self) -> str:
        by_hand = self._named("deposed_controller_write")
        more = f", until {self._session(by_hand[0].session)} deleted it by hand" if by_hand else ""
        stuck = [one for one in self._findings if one.finding.startswith("stuck_")] or self._findings
        if stuck[0].finding == "stuck_topic_deletion":
            return f"topic {self._cause.what}: {stuck[0].detail}{more}"
        where = _partitions(self._findings)
        what = f"the reassignment of {where}" if where else "a reassignment"
        return f"{what} did not finish: {stuck[0].detail}{more}"

    def _state(self) -> str:
        what = self._cause.what
        worst = [one for one in self._worst if one.finding == what] or self._worst
        if len(worst) == 1:
            detail, place = worst[0].detail, _of(worst[0].group, _partitions(worst))
            return f"{place}: {detail}" if place and place not in detail else detail
        if what == "persistent_znode":
            return f"{_counted(what, worst)}: {_few([one.detail.partition(' is ')[0] for one in worst])}"
        return _counted(what, worst)

    def _session(self, session: int | None) -> str:
        """The text of a session, with as few digits as distinguish all sessions of the history."""
        digits = self._facts.derived.get(("digits",))
        if digits is None:
            digits = self._facts.derived["digits",] = session_digits(self._facts.sessions)
        return f"session …{hex_session(session)[2:][-digits:]}" if session else "a session"

    def _members(self, group: str | None, session: int | None) -> str:
        return _few(sorted(member for _, member in members_of(self._facts, session or 0, group or "")))

    def _committers(self, commits: Iterable[Finding]) -> str:
        names = {self._members(one.group, one.session) or self._session(one.session) for one in commits}
        return _few(sorted(names))

    def _named(self, name: str) -> Sequence[Finding]:
        return [one for one in self._findings if one.finding == name]


def _counted(name: str, findings: Sequence[Finding]) -> str:
    groups = {one.group for one in findings if one.group is not None}
    among = f"{len(groups)} groups" if len(groups) > 1 else "".join(groups)
    return f"{len(findings)} {called(name, len(findings))}{f' in {among}' if among else ''}"


def _partitions(findings: Iterable[Finding]) -> str:
    """The partitions of findings: `t-0..3, u-1`; empty where there are none."""
    return _places(
        (one.topic, one.partition) for one in findings if one.topic is not None and one.partition is not None
    )


def _places(places: Iterable[tuple[str, int]]) -> str:
    numbers: dict[str, set[int]] = defaultdict(set)
    for topic, partition in places:
        numbers[topic].add(partition)
    texts = [
        f"{topic}-{run[0]}" if len(run) == 1 else f"{topic}-{run[0]}..{run[-1]}"
        for topic, of_topic in sorted(numbers.items())
        for run in runs(sorted(of_topic), lambda one, following: following == one + 1)
    ]
    if len(texts) > _NAMED_MAX:
        count = sum(map(len, numbers.values()))
        return f"{counted(count, 'partition')} of {counted(len(numbers), 'topic')}"
    return ", ".join(texts)


def _of(group: str | None, where: str) -> str:
    return f"{group}'s {where}" if group and where else where or group or ""


def _victim(one: Finding) -> str | None:
    """The member whose claim was deleted, by its thread in the detail of `claim_stolen`."""
    thread = _THREAD.match(one.detail)
    return None if thread is None else Owner(thread["thread"]).member or thread["thread"]


def _rewinds(findings: Iterable[Finding]) -> str:
    """`: offsets 1000 → 21`, of the largest rewind; and how many there were."""
    moved = [rewind for one in findings if (rewind := rewind_of(one)) is not None]
    if not moved:
        return ""
    most = max(moved, key=lambda each: each[0] - each[1])
    noun = "offset" if len(moved) == 1 else "offsets"
    more = "" if len(set(moved)) == 1 else f" at most, {len(moved)} times"
    return f": {noun} {most[0]} → {most[1]}{more}"


def _waited(damage: Sequence[PartitionDamage]) -> str:
    """`; t-0..3 had no owner for up to 4.1 s`."""
    unowned = [one for one in damage if one.unowned_ms]
    if not unowned:
        return ""
    longest = max(one.unowned_ms for one in unowned)
    how = "for" if all(one.unowned_ms == longest for one in unowned) else "for up to"
    where = _places((one.topic, one.partition) for one in unowned)
    return f"; {where} had no owner {how} {duration_text(longest)}"


def _few(names: Sequence[str]) -> str:
    return named(names, _NAMED_MAX)
