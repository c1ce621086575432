"""An audit on one screen: a row for each group, and one for what is about no group."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from zkgroup.audit.findings.membership import member_of
from zkgroup.audit.findings.rules import SEVERITIES
from zkgroup.audit.incidents.incident import Incident
from zkgroup.audit.inputs.facts import Facts


class SummaryRow(NamedTuple):
    """A group, or with None everything that is about no group."""

    group: str | None
    members: int
    """Registered at the end; brokers where the group is None."""
    rebalances: int
    """Controller elections where the group is None."""
    expiries: int
    """Sessions of its members, or of brokers, that expired."""
    errors: int
    warnings: int
    notes: int
    worst: str | None
    """The title of the first of the worst incidents; None where there is none but notes."""


def summaries(incidents: Iterable[Incident], facts: Facts) -> list[SummaryRow]:
    """Groups with errors first, then with warnings, then by name; what is about no group comes last."""
    of_group: dict[str | None, list[Incident]] = defaultdict(list)
    for one in incidents:
        of_group[one.group].append(one)
    names = sorted({*facts.members, *(name for name in of_group if name is not None)})
    rows = [_group(name, of_group[name], facts) for name in names]
    rows.sort(key=lambda row: (-row.errors, -row.warnings, row.group))
    return [*rows, _cluster(of_group[None], facts)]


def _group(name: str, incidents: list[Incident], facts: Facts) -> SummaryRow:
    lives = facts.members.get(name, ())
    members = len({member_of(life) for life in lives if life.to_zxid is None})
    sessions = {life.session for life in lives}
    return _row(name, members, _expired(facts, sessions), incidents, "rebalance")


def _cluster(incidents: list[Incident], facts: Facts) -> SummaryRow:
    lives = [life for each in facts.brokers.values() for life in each]
    brokers = sum(life.to_zxid is None for life in lives)
    expired = _expired(facts, {life.session for life in lives})
    return _row(None, brokers, expired, incidents, "controller_election")


def _row(name: str | None, there: int, expired: int, incidents: list[Incident], kind: str) -> SummaryRow:
    counts = Counter(one.severity for one in incidents)
    times = sum(one.finding == kind for each in incidents for one in each.findings)
    bad = [one for one in incidents if one.severity != "info"]
    worst = min(bad, key=lambda one: SEVERITIES.index(one.severity), default=None)
    return SummaryRow(
        *(name, there, times, expired, counts["error"], counts["warning"], counts["info"]),
        None if worst is None else worst.title,
    )


def _expired(facts: Facts, sessions: set[int]) -> int:
    return sum(session in facts.sessions and facts.sessions[session].expired is True for session in sessions)
