"""An audit's findings with the numbers of their incidents: what commands and files show."""

from __future__ import annotations

from collections.abc import Sequence

from zkgroup.audit.engine import Found
from zkgroup.audit.findings import ALL_RULES
from zkgroup.audit.incidents.attribution import incidents_of
from zkgroup.audit.incidents.found import FoundIncidents, NumberedFinding, NumberedIncident
from zkgroup.audit.rules import AnyRule, Rule


def with_causes(only: Sequence[AnyRule]) -> list[AnyRule]:
    """The rules to ask where only the findings of some are wanted: others say what caused those.

    Rules about whole files cause nothing; of them only those in `only`.
    """
    return [rule for rule in ALL_RULES if rule in only or isinstance(rule, Rule)]


def only_of(only: Sequence[AnyRule], found: Found, told: FoundIncidents) -> tuple[Found, FoundIncidents]:
    """The findings of some rules, and the incidents that have one, whole; numbers stay."""
    names = {rule.name for rule in only}
    rows = [one for one in told.findings if one.finding.finding in names]
    numbers = {one.incident for one in rows}
    skipped = [one for one in found.skipped if one.rule.name in names]
    incidents = [one for one in told.incidents if one.number in numbers]
    return (
        Found([one.finding for one in rows], skipped, found.facts),
        FoundIncidents(incidents, rows, skipped),
    )


def numbered(found: Found) -> FoundIncidents:
    """The incidents of an audit, errors first, and each finding with the number of its incident."""
    incidents = list(map(NumberedIncident._make, enumerate(incidents_of(found.findings, found.facts), 1)))
    numbers = {id(one): number for number, incident in incidents for one in incident.findings}
    findings = [NumberedFinding(one, numbers[id(one)]) for one in found.findings]
    return FoundIncidents(incidents, findings, found.skipped)
