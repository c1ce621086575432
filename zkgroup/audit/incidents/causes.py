"""The causes of findings about groups, brokers and replicas; docs/incidents.md has the rule as a table."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple

from zkgroup.audit.findings.rules import Finding, runs
from zkgroup.audit.incidents.incident import CONTROLLER, Cause
from zkgroup.audit.inputs.facts import Facts, Life, SessionLife, member_of, members_of, registration_of

TOGETHER_MS = 15_000
"""Brokers that left no further apart than this left together."""
BEFORE_MS, AFTER_MS = 60_000, 30_000
"""Departures of brokers cause the findings that begin so long before ZooKeeper noticed them, or after."""
NEAR_MS = 600_000
"""A deletion of a claim is the cause of commits on its partition for so long."""
STORM = "a storm of "
_CONTROLLERS = frozenset(("controller_election", "controller_epoch_gap", "deposed_controller_write"))
_OF_DEPARTURES = frozenset(
    (
        *("under_replicated", "offline_partition", "unclean_election", "isr_flapping", "broker_flapping"),
        *("leader_not_in_isr", "preferred_leader_imbalance", "stuck_reassignment", "stuck_topic_deletion"),
    )
)

_OF_TREES = frozenset(("orphan_owner", "owner_session_mismatch", "stuck_topic_deletion"))
"""Findings of which snapshots show the cause, too."""


class _ByZxid:
    """Findings in order, for lookups by zxid. Those of one list seldom overlap."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self._findings = sorted(findings, key=_start)
        self._starts = list(map(_start, self._findings))
        self._longest_until = list(accumulate(map(_until, self._findings), max))
        """The last zxid at which each finding or one before it holds."""

    def overlapping(self, from_zxid: int, to_zxid: int | None) -> Finding | None:
        """The latest finding that has a zxid in common with a range; None for `to_zxid` is the end."""
        place = bisect_right(self._starts, inf if to_zxid is None else to_zxid)
        while place and self._longest_until[place - 1] >= from_zxid:
            place -= 1
            if _until(self._findings[place]) >= from_zxid:
                return self._findings[place]
        return None

    def at(self, zxid: int) -> Finding | None:
        """The latest finding that holds at a zxid."""
        return self.overlapping(zxid, zxid)

    def before(self, zxid: int) -> Finding | None:
        """The latest finding that begins at or before a zxid."""
        place = bisect_right(self._starts, zxid)
        return self._findings[place - 1] if place else None


def _start(one: Finding) -> int:
    return one.from_zxid or 0


def _until(one: Finding) -> float:
    return inf if one.to_zxid is None else one.to_zxid


def _written(one: Finding) -> tuple[object, ...]:
    """The write at the end of a finding about an offset."""
    return one.group, one.topic, one.partition, one.to_zxid, one.basis


def _unexplained(one: Finding) -> Cause:
    if one.severity == "info":
        return Cause("note", what=one.finding)
    return Cause("state", one.group, one.finding)


class _Departure(NamedTuple):
    """Brokers that left together, with the time of the cause."""

    cause: Cause
    from_zxid: int
    from_ms: int
    to_ms: int


def _departures(facts: Facts) -> list[_Departure]:
    """The brokers whose registration ended with their session, grouped where they left together."""
    gone = []
    for broker, lives in facts.brokers.items():
        for life in lives:
            session = facts.sessions.get(life.session)
            if life.to_zxid is not None and session is not None and session.to_zxid == life.to_zxid:
                gone.append((life.to_zxid, life.to_ms or 0, broker, bool(session.expired)))
    found = []
    for run in runs(sorted(gone), lambda one, following: following[1] - one[1] <= TOGETHER_MS):
        (zxid, from_ms, *_), (_, to_ms, *_) = run[0], run[-1]
        brokers = ", ".join(dict.fromkeys(broker for _, _, broker, _ in run))
        is_lost = any(expired for *_, expired in run)
        cause = Cause("lost broker" if is_lost else "broker shutdown", None, brokers, None, zxid, from_ms)
        found.append(_Departure(cause, zxid, from_ms, to_ms))
    return found


class Causes:
    """The causes of findings that are given in the order of the audit."""

    def __init__(self, ordered: Sequence[Finding], facts: Facts) -> None:
        mine, of_group = list[Finding](), defaultdict[str, list[Finding]](list)
        for one in ordered:
            (mine if one.group is None else of_group[one.group]).append(one)
        ends = {life.to_zxid: life for life in facts.sessions.values() if life.to_zxid is not None}
        self._groups = {name: _GroupCauses(name, each, facts, ends) for name, each in of_group.items()}
        self.foreign_writes: dict[int, Cause] = {}
        """The causes by session that wrote owners without right, from the group whose findings come first."""
        for group in self._groups.values():
            self.foreign_writes = {**group.foreign_writes, **self.foreign_writes}
        self._facts = facts
        self._regressions = {_written(one): one for one in ordered if one.finding == "offset_regression"}
        self._departures = _departures(facts)
        elections = [one for one in mine if one.finding == "controller_election"]
        self._storms = _ByZxid(one for one in elections if one.detail.startswith(STORM))
        moves = [one for one in mine if one.finding == "stuck_reassignment"]
        self._requests = {one.to_zxid: one for one in moves if one.to_zxid is not None}
        self._broker_sessions = {life.session for lives in facts.brokers.values() for life in lives}
        self._controllers: dict[int, Cause] = {}
        """The causes of elections, by the zxid at which a controller was elected."""
        before: Life | None = None
        last: Cause | None = None
        for life in facts.controllers:
            last = self._storm(life.from_zxid) or self._of_life(life, before, last)
            if last is not None:
                self._controllers[life.from_zxid] = last
            before = life

    def of(self, one: Finding) -> Cause:
        """The cause of one of the findings; each has one."""
        if one.finding == "reset_overwritten" and _written(one) in self._regressions:
            return self.of(self._regressions[_written(one)])
        if one.basis == "snapshots" and one.finding not in _OF_TREES:
            return _unexplained(one)
        if one.group is not None:
            return self._groups[one.group].of(one)
        cause = None
        if one.finding in _CONTROLLERS:
            cause = self._storm(_start(one)) or self._of_controller(one)
        elif one.finding in _OF_DEPARTURES:
            cause = self._storm(_start(one)) or self._departure(one) or self._of_replica(one)
        elif one.finding == "session_end" and one.session is not None:
            cause = self.foreign_writes.get(one.session) or self._of_session_end(one, one.session)
        return cause or _unexplained(one)

    def _storm(self, zxid: int) -> Cause | None:
        storm = self._storms.at(zxid)
        return Cause("controller storm", None, "", None, storm.from_zxid, storm.from_ms) if storm else None

    def _departure(self, one: Finding) -> Cause | None:
        """The cause in a departure of brokers: the first departure near the beginning of the finding."""
        if one.from_ms is None:
            return None
        if one.finding in ("broker_flapping", "session_end"):
            within = [each for each in self._departures if each.from_ms <= one.from_ms <= each.to_ms][:1]
        else:
            at = bisect_left(self._departures, one.from_ms - BEFORE_MS, key=lambda each: each.to_ms)
            near = [each for each in self._departures[at:] if each.from_ms <= one.from_ms + AFTER_MS]
            within = [each for each in near if each.from_zxid <= _until(one)]
        return within[-1].cause if within else None

    def _of_replica(self, one: Finding) -> Cause | None:
        if one.finding in ("under_replicated", "isr_flapping"):
            return Cause("slow follower")
        if one.finding in ("stuck_reassignment", "stuck_topic_deletion"):
            return Cause("reassignment", None, one.topic or "", one.session, one.from_zxid, one.from_ms)
        return None

    def _of_session_end(self, one: Finding, session: int) -> Cause | None:
        departure = self._departure(one) if session in self._broker_sessions else None
        elections = (cause for cause in self._controllers.values() if cause.session == session)
        return departure or next(elections, None)

    def _of_controller(self, one: Finding) -> Cause | None:
        zxid = _start(one)
        if one.finding == "controller_election":
            return self._controllers.get(zxid)
        if one.finding == "deposed_controller_write" and zxid in self._requests:
            return self.of(self._requests[zxid])
        life = self._facts.controller_at(zxid)
        return life and self._controllers.get(life.from_zxid)

    def _of_life(self, life: Life, before: Life | None, last: Cause | None) -> Cause | None:
        """The cause of an election; `last` is that of the election before."""
        if self._is_foreign(life):
            return _foreign(life.session, life.from_zxid, life.from_ms, last)
        if before is None or before.to_zxid is None:
            return None
        if self._is_foreign(before):
            return last
        for departure in self._departures:
            if departure.from_ms <= (before.to_ms or 0) <= departure.to_ms:
                return departure.cause
        session = before.ended_by or 0
        if session != before.session:
            return _foreign(session, before.to_zxid, before.to_ms or 0, last)
        return Cause("controller change", None, "", before.session, before.to_zxid, before.to_ms)

    def _is_foreign(self, life: Life) -> bool:
        """True if sessions of brokers are known and this is none of them."""
        return bool(self._broker_sessions) and life.session not in self._broker_sessions


def _foreign(session: int, zxid: int, time_ms: int, last: Cause | None) -> Cause:
    """The foreign write of a session; the cause of the election before, if that is of the same session."""
    if last is not None and last.kind == "foreign write" and last.session == session:
        return last
    return Cause("foreign write", None, CONTROLLER, session, zxid, time_ms)


_Where = tuple[str | None, int | None]


class _GroupCauses:
    def __init__(
        self, group: str, findings: Iterable[Finding], facts: Facts, ends: Mapping[int, SessionLife]
    ) -> None:
        """`ends` are the sessions that ended, by zxid, the same for all groups."""
        self._group, self._facts, self._ends = group, facts, ends
        by_name: dict[str, list[Finding]] = defaultdict(list)
        for one in findings:
            by_name[one.finding].append(one)
        claims, thefts = by_name["owner_session_mismatch"], by_name["claim_stolen"]
        self._claims = _ByZxid(claims)
        self._claims_of, self._thefts_of = _by_partition(claims), _by_partition(thefts)
        self._unowned_of = _by_partition(by_name["unowned_interval"])
        self._rebalances, self._storms = _ByZxid(by_name["rebalance"]), _ByZxid(by_name["rebalance_storm"])
        self._of_begun: dict[int, Cause] = {}
        """The causes of rebalances, by the zxid of the first row."""
        self._members = facts.members.get(group, ())
        self._restarts = list(_restarts(self._members, facts))
        self._claimants = {one.session for one in claims}
        self.foreign_writes: dict[int, Cause] = {}
        """The causes by session that wrote owners of this group without right."""
        for one in sorted([*thefts, *claims], key=_start):
            if one.session is not None:
                session, zxid, ms = self._writer(one), one.at_zxid or one.from_zxid, one.from_ms
                cause = Cause("foreign write", group, "owners", session, zxid, ms)
                self.foreign_writes.setdefault(session, cause)
        self._stealing = {self._writer(one) for one in thefts}
        self._unreadable = [
            life for life in self._members if life.data is not None and registration_of(life.data) is None
        ]
        ended = [facts.sessions.get(life.session) for life in self._members if life.to_zxid is not None]
        begins = [
            *(cause for cause in self.foreign_writes.values() if cause.zxid is not None),
            *(self._expiry(session) for session in ended if session is not None and session.expired),
            *map(self._unreadable_registration, self._unreadable),
        ]
        self._begins = sorted(begins, key=lambda cause: cause.zxid or 0)
        """The causes that lie in rebalances, in order."""

    def of(self, one: Finding) -> Cause:
        """The cause of a finding; each finding of the group has one."""
        match one.finding:
            case "zombie_commit" | "offset_regression" | "double_ownership":
                return self._of_offset(one)
            case "owner_session_mismatch" | "claim_stolen":
                return self._foreign_write(self._writer(one))
            case "unowned_interval":
                return self._of_unowned(one)
            case "rebalance" | "needless_move" | "handover_time":
                return self._of_rebalance(one)
            case "session_end" if one.session is not None:
                return self._of_session_end(one, one.session)
            case "orphan_owner" | "orphan_owner_interval":
                return Cause("orphaned claim", self._group, session=one.session)
            case "rebalance_storm":
                return self._storm(one)
            case "failed_claims":
                return self._by_claim(self._claims, one) or _unexplained(one)
        return _unexplained(one)

    def _foreign_write(self, session: int) -> Cause:
        return self.foreign_writes.get(session) or Cause("foreign write", self._group, "owners", session)

    def _by_claim(self, claims: _ByZxid, one: Finding) -> Cause | None:
        claim = claims.overlapping(_start(one), one.to_zxid)
        return None if claim is None or claim.session is None else self._foreign_write(claim.session)

    def _writer(self, one: Finding) -> int:
        """The session that claimed or deleted a claim; if a member deleted it, the session of the claim."""
        session = one.session or 0
        if one.finding != "claim_stolen":
            return session
        victim = self._claims_of[one.topic, one.partition].at(_start(one))
        is_of_claim = self._names(session) and session not in self._claimants
        return victim.session if is_of_claim and victim is not None and victim.session else session

    def _of_offset(self, one: Finding) -> Cause:
        zxid, session, where = _start(one), one.session or 0, (one.topic, one.partition)
        if one.severity == "info":
            return Cause("operator reset", self._group, session=session)
        cause = self._by_claim(self._claims_of[where], one)
        if cause is not None:
            return cause
        is_member = bool(self._names(session))
        unowned = self._unowned_of[where].at(zxid)
        if unowned is not None and is_member:
            return self._of_unowned(unowned)
        theft = self._thefts_of[where].before(zxid)
        if theft is not None and (one.from_ms or 0) - (theft.from_ms or 0) <= NEAR_MS:
            return self._foreign_write(self._writer(theft))
        expired = self._expired_before(session, zxid) if is_member else None
        return self._expiry(expired) if expired else Cause("foreign write", self._group, "offsets", session)

    def _of_unowned(self, one: Finding) -> Cause:
        zxid = _start(one)
        ended = self._ends.get(zxid)
        if ended is not None and ended.expired:
            return self._expiry(ended)
        if ended is not None and not self._names(ended.session):
            if ended.session in self.foreign_writes and ended.session not in self._stealing:
                return self._foreign_write(ended.session)
            return Cause("session end", self._group, "", ended.session, ended.to_zxid, ended.to_ms)
        for life in self._unreadable:
            if life.from_zxid <= (one.to_zxid or self._facts.end_zxid) and (life.to_zxid or zxid) >= zxid:
                return self._unreadable_registration(life)
        cause = self._by_claim(self._claims, one)
        if cause is not None:
            return cause
        rebalance = self._rebalances.at(zxid)
        return self._of_rebalance(rebalance) if rebalance else Cause("membership change", self._group)

    def _of_rebalance(self, one: Finding) -> Cause:
        """The cause of a rebalance: a foreign write, a registration or an expiry, else the membership."""
        rebalance = self._rebalances.at(_start(one)) or one
        start = _start(rebalance)
        if start not in self._of_begun:
            self._of_begun[start] = self._begun(rebalance, start, _until(rebalance))
        return self._of_begun[start]

    def _begun(self, rebalance: Finding, start: int, end: float) -> Cause:
        first = next((cause for cause in self._begins if start <= (cause.zxid or 0) <= end), None)
        storm = self._storms.at(start)
        cause = first or self._returned(start, end) or (self._storm(storm) if storm else None)
        if cause is not None:
            return cause
        for left, returned_zxid in self._restarts:
            if start <= (left.to_zxid or 0) <= end or start <= returned_zxid <= end:
                what = member_of(left)
                return Cause("restart", self._group, what, left.session, left.to_zxid, left.to_ms)
        return Cause("membership change", self._group, "", None, rebalance.from_zxid, rebalance.from_ms)

    def _of_session_end(self, one: Finding, session: int) -> Cause:
        ended = self._facts.sessions.get(session)
        if ended is not None and ended.expired:
            return self._expiry(ended)
        if session in self.foreign_writes:
            return self._foreign_write(session)
        rebalance = self._rebalances.at(_start(one))
        return self._of_rebalance(rebalance) if rebalance else Cause("note", what=one.finding)

    def _storm(self, one: Finding) -> Cause:
        return Cause("rebalance storm", self._group, "", None, one.from_zxid, one.from_ms)

    def _expiry(self, life: SessionLife) -> Cause:
        what = ", ".join(sorted(self._names(life.session)))
        return Cause("expiry", self._group, what, life.session, life.to_zxid, life.to_ms)

    def _names(self, session: int) -> set[str]:
        """The members that a session ever registered, as text."""
        return {member for _, member in members_of(self._facts, session, self._group)}

    def _expired_before(self, session: int, zxid: int) -> SessionLife | None:
        """The last session of the same member that expired before a zxid."""
        names = self._names(session)
        for life in reversed(self._members):
            if member_of(life) in names and (life.to_zxid or zxid + 1) <= zxid:
                ended = self._facts.sessions.get(life.session)
                if ended is not None and ended.expired:
                    return ended
        return None

    def _returned(self, start: int, end: float) -> Cause | None:
        """The expiry, not long before a rebalance, of a member that came back in it."""
        for life in self._members:
            if start <= life.from_zxid <= end:
                expired = self._expired_before(life.session, life.from_zxid)
                if expired is not None and life.from_ms - (expired.to_ms or 0) <= NEAR_MS:
                    return self._expiry(expired)
        return None

    def _unreadable_registration(self, life: Life) -> Cause:
        what = member_of(life)
        return Cause("unreadable registration", self._group, what, life.session, life.from_zxid, life.from_ms)


def _restarts(members: Iterable[Life], facts: Facts) -> Iterator[tuple[Life, int]]:
    """The registrations whose session was closed, each with the zxid of the member's next one, which came in
    the timeout of that session and is of another session."""
    last: dict[str, Life] = {}
    for life in members:
        left = last.get(member_of(life))
        last[member_of(life)] = life
        if left is None or left.to_ms is None or left.session == life.session:
            continue
        session = facts.sessions.get(left.session)
        if session is None or session.expired is not False or session.timeout_ms is None:
            continue
        if 0 <= life.from_ms - left.to_ms <= session.timeout_ms:
            yield left, life.from_zxid


def _by_partition(findings: Iterable[Finding]) -> defaultdict[_Where, _ByZxid]:
    lists: dict[_Where, list[Finding]] = defaultdict(list)
    for one in findings:
        lists[one.topic, one.partition].append(one)
    return defaultdict(lambda: _NONE, {where: _ByZxid(each) for where, each in lists.items()})


_NONE = _ByZxid(())
