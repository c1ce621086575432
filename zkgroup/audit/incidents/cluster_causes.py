"""The cause of each finding about controllers, brokers and replicas; docs/incidents.md has the rule."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from zkgroup.audit.facts import Facts, Life
from zkgroup.audit.incidents.incident import CONTROLLER, Cause, CauseKind
from zkgroup.audit.incidents.timeline import FindingsByZxid
from zkgroup.audit.rules import Finding

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

    # --- brokers and replicas ---------------------------------------------------------------------

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

    # --- controllers ------------------------------------------------------------------------------

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
        """Whether no broker has this session; where none is known that says nothing."""
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
