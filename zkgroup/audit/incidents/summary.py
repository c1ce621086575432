"""An audit on one screen: a row for each group, and one for what is about no group."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zkgroup.audit.findings.rules import SEVERITIES
from zkgroup.audit.incidents.incident import Incident
from zkgroup.audit.inputs.facts import Facts, Life


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
    rows = [_row(name, facts.members.get(name, ()), of_group[name], facts) for name in names]
    rows.sort(key=lambda row: (-row.errors, -row.warnings, row.group))
    brokers = [life for lives in facts.brokers.values() for life in lives]
    return [*rows, _row(None, brokers, of_group[None], facts)]


def _row(name: str | None, lives: Sequence[Life], incidents: Sequence[Incident], facts: Facts) -> SummaryRow:
    there = {life.path for life in lives if life.to_zxid is None}
    sessions = [facts.sessions[session] for session in {life.session for life in lives} & set(facts.sessions)]
    counted = "controller_election" if name is None else "rebalance"
    times = sum(one.finding == counted for each in incidents for one in each.findings)
    counts = Counter(one.severity for one in incidents)
    bad = [one for one in incidents if one.severity != "info"]
    worst = min(bad, key=lambda one: SEVERITIES.index(one.severity), default=None)
    return SummaryRow(
        *(name, len(there), times, sum(life.expired is True for life in sessions)),
        *(counts["error"], counts["warning"], counts["info"]),
        None if worst is None else worst.title,
    )
