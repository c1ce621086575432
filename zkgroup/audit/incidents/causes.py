"""The causes of findings about groups, brokers and replicas; docs/incidents.md has the rule as a table."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from zkgroup.audit.findings.membership import member_of, registration_of
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.incidents.incident import CONTROLLER, Cause, CauseKind
from zkgroup.audit.inputs.facts import Facts, Life, SessionLife


class FindingsByZxid:
    """Findings in order, for lookups by zxid. Those of one list overlap seldom."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self._findings = sorted(findings, key=lambda one: one.from_zxid or 0)
        self._starts = [one.from_zxid or 0 for one in self._findings]
        self._longest_until: list[int | None] = []
        """Of the findings up to here: the last zxid that one of them holds at; None for to the end."""
        longest: int | None = -1
        for one in self._findings:
            longest = None if longest is None or one.to_zxid is None else max(longest, one.to_zxid)
            self._longest_until.append(longest)

    def at(self, zxid: int) -> Finding | None:
        """The latest that holds at a zxid."""
        return self.overlapping(zxid, zxid)

    def overlapping(self, from_zxid: int, to_zxid: int | None) -> Finding | None:
        """The latest that has a zxid in common with a range of them; None for `to_zxid` is the end."""
        place = len(self._starts) if to_zxid is None else bisect_right(self._starts, to_zxid)
        for at in range(place - 1, -1, -1):
            until = self._findings[at].to_zxid
            if until is None or until >= from_zxid:
                return self._findings[at]
            longest = self._longest_until[at]
            if longest is not None and longest < from_zxid:
                return None
        return None

    def before(self, zxid: int) -> Finding | None:
        """The latest that begins at or before a zxid."""
        place = bisect_right(self._starts, zxid)
        return self._findings[place - 1] if place else None


TOGETHER_MS = 15_000
"""Brokers that left within such a time of each other left together."""
BEFORE_MS, AFTER_MS = 60_000, 30_000
"""A finding that begins so long before ZooKeeper noticed that brokers left, or after, is caused by that."""
STORM = "a storm of "
_CONTROLLERS = frozenset(("controller_election", "controller_epoch_gap", "deposed_controller_write"))
_OF_DEPARTURES = frozenset(
    (
        *("under_replicated", "offline_partition", "unclean_election", "isr_flapping", "broker_flapping"),
        *("leader_not_in_isr", "preferred_leader_imbalance", "stuck_reassignment", "stuck_topic_deletion"),
    )
)
_SLOW = frozenset(("under_replicated", "isr_flapping"))
CAUSING = frozenset(("controller_election", "stuck_reassignment"))
"""The findings that show causes of others; beside these `ClusterCauses` reads only facts."""


class _Departure(NamedTuple):
    """Brokers that left together."""

    brokers: tuple[str, ...]
    from_zxid: int
    from_ms: int
    to_ms: int
    expired: bool

    @property
    def cause(self) -> Cause:
        kind: CauseKind = "lost broker" if self.expired else "broker shutdown"
        return Cause(kind, None, ", ".join(self.brokers), None, self.from_zxid, self.from_ms)


class ClusterCauses:
    """The findings that are about no group, and what caused each."""

    def __init__(self, findings: Iterable[Finding], facts: Facts) -> None:
        mine = list(findings)
        self._facts = facts
        self._departures = _departures(facts)
        self._departed_ms = [each.to_ms for each in self._departures]
        elections = [one for one in mine if one.finding == "controller_election"]
        self._storms = FindingsByZxid(one for one in elections if one.detail.startswith(STORM))
        self._requests = {
            one.to_zxid: one
            for one in mine
            if one.finding == "stuck_reassignment" and one.to_zxid is not None
        }
        self._broker_sessions = {life.session for lives in facts.brokers.values() for life in lives}
        self._controllers = self._controller_causes()

    def of(self, one: Finding) -> Cause:
        """The cause of a finding; every one has one."""
        cause = None
        if one.finding in _CONTROLLERS:
            cause = self._of_controller(one)
        elif one.finding in _OF_DEPARTURES:
            cause = self._of_replica(one)
        elif one.finding == "session_end" and one.session is not None:
            cause = self._of_session_end(one, one.session)
        if cause is not None:
            return cause
        return Cause("note", what=one.finding) if one.severity == "info" else Cause("state", what=one.finding)

    def _of_replica(self, one: Finding) -> Cause | None:
        storm = self._storms.at(one.from_zxid or 0)
        if storm is not None:
            return _storm(storm)
        departure = self._departure(one)
        if departure is not None:
            return departure.cause
        if one.finding in _SLOW:
            return Cause("slow follower")
        if one.finding in ("stuck_reassignment", "stuck_topic_deletion"):
            where = one.topic or ""
            return Cause("reassignment", None, where, one.session, one.from_zxid, one.from_ms)
        return None

    def _departure(self, one: Finding) -> _Departure | None:
        """The brokers whose leaving it is of: the first near its beginning."""
        if one.from_ms is None:
            return None
        if one.finding in ("broker_flapping", "session_end"):
            return next((d for d in self._departures if d.from_ms <= one.from_ms <= d.to_ms), None)
        at = bisect_left(self._departed_ms, one.from_ms - BEFORE_MS)
        near = [each for each in self._departures[at:] if each.from_ms <= one.from_ms + AFTER_MS]
        within = [each for each in near if one.to_zxid is None or each.from_zxid <= one.to_zxid]
        return within[-1] if within else None

    def _of_session_end(self, one: Finding, session: int) -> Cause | None:
        if session in self._broker_sessions:
            departure = self._departure(one)
            if departure is not None:
                return departure.cause
        return next((cause for cause in self._controllers.values() if cause.session == session), None)

    def _of_controller(self, one: Finding) -> Cause | None:
        zxid = one.from_zxid or 0
        storm = self._storms.at(zxid)
        if storm is not None:
            return _storm(storm)
        if one.finding == "controller_election":
            return self._controllers.get(zxid)
        if one.finding == "deposed_controller_write" and zxid in self._requests:
            return self.of(self._requests[zxid])
        for life in reversed(self._facts.controllers):
            if life.from_zxid <= zxid and (life.to_zxid is None or zxid <= life.to_zxid):
                return self._controllers.get(life.from_zxid)
        return None

    def _controller_causes(self) -> dict[int, Cause]:
        """By zxid at which a controller was elected: what made that election."""
        found: dict[int, Cause] = {}
        before: Life | None = None
        last: Cause | None = None
        for life in self._facts.controllers:
            cause = self._of_election(life, before, last)
            if cause is not None:
                found[life.from_zxid] = cause
            before, last = life, cause
        return found

    def _of_election(self, life: Life, before: Life | None, last: Cause | None) -> Cause | None:
        storm = self._storms.at(life.from_zxid)
        if storm is not None:
            return _storm(storm)
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
        """Returns whether no broker has this session; where none is known that says nothing."""
        return bool(self._broker_sessions) and life.session not in self._broker_sessions


def _foreign(session: int, zxid: int, time_ms: int, last: Cause | None) -> Cause:
    """Of the same session as the election before: the same."""
    if last is not None and last.kind == "foreign write" and last.session == session:
        return last
    return Cause("foreign write", None, CONTROLLER, session, zxid, time_ms)


def _storm(one: Finding) -> Cause:
    return Cause("controller storm", None, "", None, one.from_zxid, one.from_ms)


def _departures(facts: Facts) -> list[_Departure]:
    """Brokers whose registration ended with their session, those together that left together."""
    found: list[_Departure] = []
    gone = []
    for broker, lives in facts.brokers.items():
        for life in lives:
            session = facts.sessions.get(life.session)
            if life.to_zxid is not None and session is not None and session.to_zxid == life.to_zxid:
                gone.append((life.to_zxid, life.to_ms or 0, broker, bool(session.expired)))
    for zxid, ms, broker, expired in sorted(gone):
        last = found[-1] if found else None
        if last is not None and ms - last.to_ms <= TOGETHER_MS:
            brokers = last.brokers if broker in last.brokers else (*last.brokers, broker)
            found[-1] = _Departure(brokers, last.from_zxid, last.from_ms, ms, last.expired or expired)
        else:
            found.append(_Departure((broker,), zxid, ms, ms, expired))
    return found


NEAR_MS = 600_000
"""A deletion of a claim explains commits on its partition for so long."""
_OFFSETS = frozenset(("zombie_commit", "offset_regression", "double_ownership"))
_OF_REBALANCES = frozenset(("rebalance", "needless_move", "handover_time"))
_NOTHING = FindingsByZxid(())


class GroupCauses:
    """The findings of one group, and what caused each."""

    def __init__(
        self, group: str, findings: Iterable[Finding], facts: Facts, ends: Mapping[int, SessionLife]
    ) -> None:
        """`ends` are the sessions that ended, by zxid: the same for all groups."""
        self._group, self._facts, self._ends = group, facts, ends
        by_name: dict[str, list[Finding]] = defaultdict(list)
        for one in findings:
            by_name[one.finding].append(one)
        self._claims = by_name["owner_session_mismatch"]
        self._foreign_claims = FindingsByZxid(self._claims)
        self._claims_of = _by_partition(self._claims)
        self._thefts_of = _by_partition(by_name["claim_stolen"])
        self._unowned_of = _by_partition(by_name["unowned_interval"])
        self._rebalances = FindingsByZxid(by_name["rebalance"])
        self._storms = FindingsByZxid(by_name["rebalance_storm"])
        self._of_begun: dict[int, Cause] = {}
        """By zxid of the first row of a rebalance."""
        self._members = facts.members.get(group, ())
        self._member_sessions = {life.session for life in self._members}
        self._restarts = list(_restarts(self._members, facts))
        self._claimants = {one.session for one in self._claims}
        self._foreign: dict[int, Finding] = {}
        """By session that wrote owners it may not: the first finding about it."""
        for one in sorted([*by_name["claim_stolen"], *self._claims], key=lambda each: each.from_zxid or 0):
            if one.session is not None:
                self._foreign.setdefault(self._writer(one), one)
        self._thieves = {self._writer(one) for one in by_name["claim_stolen"]}
        self._unreadable = [
            life for life in self._members if life.data is not None and registration_of(life.data) is None
        ]

    def of(self, one: Finding) -> Cause:
        """The cause of a finding; every finding of the group has one."""
        name = one.finding
        if name in _OFFSETS:
            return self._of_offset(one)
        if name in ("owner_session_mismatch", "claim_stolen"):
            return self.foreign_write(self._writer(one))
        if name == "unowned_interval":
            return self._of_unowned(one)
        if name in _OF_REBALANCES:
            return self._of_rebalance(one)
        if name == "session_end" and one.session is not None:
            return self._of_session_end(one, one.session)
        if name in ("orphan_owner", "orphan_owner_interval"):
            return Cause("orphaned claim", self._group, session=one.session)
        if name == "rebalance_storm":
            return self._of_storm(one)
        if name == "failed_claims":
            claim = self._foreign_claims.overlapping(one.from_zxid or 0, one.to_zxid)
            if claim is not None and claim.session is not None:
                return self.foreign_write(claim.session)
        return Cause("note", what=name) if one.severity == "info" else Cause("state", self._group, name)

    @property
    def foreign_writes(self) -> dict[int, Cause]:
        """By session that wrote owners of this group that it may not: the cause."""
        return {session: self.foreign_write(session) for session in self._foreign}

    def foreign_write(self, session: int) -> Cause:
        first = self._foreign.get(session)
        zxid, ms = (first.from_zxid, first.from_ms) if first else (None, None)
        return Cause("foreign write", self._group, "owners", session, zxid, ms)

    def _writer(self, one: Finding) -> int:
        """Returns who wrote it: the claimant, or who deleted a claim. Of a member that deleted one, its
        claimant."""
        zxid, session = one.from_zxid or 0, one.session or 0
        if one.finding != "claim_stolen":
            return session
        victim = self._claims_of.get((one.topic, one.partition), _NOTHING).at(zxid)
        is_member = session in self._member_sessions and session not in self._claimants
        return victim.session if is_member and victim is not None and victim.session else session

    def _of_offset(self, one: Finding) -> Cause:
        zxid, session = one.from_zxid or 0, one.session or 0
        if one.severity == "info":
            return Cause("operator reset", self._group, session=session)
        where = (one.topic, one.partition)
        claim = self._claims_of.get(where, _NOTHING).overlapping(zxid, one.to_zxid)
        if claim is not None and claim.session is not None:
            return self.foreign_write(claim.session)
        unowned = self._unowned_of.get(where, _NOTHING).at(zxid)
        if unowned is not None and session in self._member_sessions:
            return self._of_unowned(unowned)
        theft = self._thefts_of.get(where, _NOTHING).before(zxid)
        if theft is not None and (one.from_ms or 0) - (theft.from_ms or 0) <= NEAR_MS:
            return self.foreign_write(self._writer(theft))
        if session in self._member_sessions:
            expired = self._expired_before(session, zxid)
            if expired is not None:
                return self._expiry(expired)
        return Cause("foreign write", self._group, "offsets", session)

    def _of_unowned(self, one: Finding) -> Cause:
        zxid = one.from_zxid or 0
        ended = self._ends.get(zxid)
        if ended is not None and ended.expired:
            return self._expiry(ended)
        if ended is not None and ended.session not in self._member_sessions:
            if ended.session in self._foreign and ended.session not in self._thieves:
                return self.foreign_write(ended.session)
            return Cause("session end", self._group, "", ended.session, ended.to_zxid, ended.to_ms)
        for life in self._unreadable:
            if life.from_zxid <= (one.to_zxid or self._facts.end_zxid) and (life.to_zxid or zxid) >= zxid:
                return self._unreadable_registration(life)
        claim = self._foreign_claims.overlapping(zxid, one.to_zxid)
        if claim is not None and claim.session is not None:
            return self.foreign_write(claim.session)
        rebalance = self._rebalances.at(zxid)
        return Cause("membership change", self._group) if rebalance is None else self._of_rebalance(rebalance)

    def _of_rebalance(self, one: Finding) -> Cause:
        """Returns what began it: a foreign write, a registration or an expiry in it, else the membership
        itself."""
        rebalance = self._rebalances.at(one.from_zxid or 0) or one
        start = rebalance.from_zxid or 0
        if start not in self._of_begun:
            self._of_begun[start] = self._begun(rebalance, start, rebalance.to_zxid)
        return self._of_begun[start]

    def _begun(self, rebalance: Finding, start: int, end: int | None) -> Cause:
        found = [
            *(self.foreign_write(session) for session in self._foreign),
            *(self._expiry(life) for life in self._expired_members(start, end)),
        ]
        found += map(self._unreadable_registration, self._unreadable)
        within = [cause for cause in found if cause.zxid is not None and _is_in(cause.zxid, start, end)]
        if within:
            return min(within, key=lambda cause: cause.zxid or 0)
        returned = self._returned(start, end)
        if returned is not None:
            return returned
        storm = self._storms.at(start)
        if storm is not None:
            return self._of_storm(storm)
        for left, returned_zxid in self._restarts:
            if _is_in(left.to_zxid or 0, start, end) or _is_in(returned_zxid, start, end):
                what = member_of(left)
                return Cause("restart", self._group, what, left.session, left.to_zxid, left.to_ms)
        return Cause("membership change", self._group, "", None, rebalance.from_zxid, rebalance.from_ms)

    def _of_session_end(self, one: Finding, session: int) -> Cause:
        ended = self._facts.sessions.get(session)
        if ended is not None and ended.expired:
            return self._expiry(ended)
        if session in self._foreign:
            return self.foreign_write(session)
        rebalance = self._rebalances.at(one.from_zxid or 0)
        return Cause("note", what=one.finding) if rebalance is None else self._of_rebalance(rebalance)

    def _of_storm(self, one: Finding) -> Cause:
        return Cause("rebalance storm", self._group, "", None, one.from_zxid, one.from_ms)

    def _expiry(self, life: SessionLife) -> Cause:
        names = sorted({member_of(one) for one in self._members if one.session == life.session})
        what = ", ".join(names)
        return Cause("expiry", self._group, what, life.session, life.to_zxid, life.to_ms)

    def _expired_before(self, session: int, zxid: int) -> SessionLife | None:
        """The last session of the same member that expired before a zxid."""
        names = {member_of(life) for life in self._members if life.session == session}
        for life in reversed(self._members):
            if member_of(life) in names and (life.to_zxid or zxid + 1) <= zxid:
                ended = self._facts.sessions.get(life.session)
                if ended is not None and ended.expired:
                    return ended
        return None

    def _expired_members(self, start: int, end: int | None) -> Iterable[SessionLife]:
        for session in dict.fromkeys(life.session for life in self._members if life.to_zxid is not None):
            life = self._facts.sessions.get(session)
            if life is not None and life.expired and _is_in(life.to_zxid or 0, start, end):
                yield life

    def _returned(self, start: int, end: int | None) -> Cause | None:
        """The expiry of a member that came back in a rebalance, where it was not long before."""
        for life in self._members:
            if not _is_in(life.from_zxid, start, end):
                continue
            expired = self._expired_before(life.session, life.from_zxid)
            if expired is not None and life.from_ms - (expired.to_ms or 0) <= NEAR_MS:
                return self._expiry(expired)
        return None

    def _unreadable_registration(self, life: Life) -> Cause:
        what = member_of(life)
        return Cause("unreadable registration", self._group, what, life.session, life.from_zxid, life.from_ms)


def _restarts(members: Iterable[Life], facts: Facts) -> Iterator[tuple[Life, int]]:
    """Registrations whose session was closed, each with the zxid of the member's next one, which came within
    that session's timeout and is of another session."""
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


def _by_partition(findings: Iterable[Finding]) -> Mapping[tuple[str | None, int | None], FindingsByZxid]:
    lists: dict[tuple[str | None, int | None], list[Finding]] = defaultdict(list)
    for one in findings:
        lists[one.topic, one.partition].append(one)
    return {where: FindingsByZxid(each) for where, each in lists.items()}


def _is_in(zxid: int, start: int, end: int | None) -> bool:
    return start <= zxid and (end is None or zxid <= end)
