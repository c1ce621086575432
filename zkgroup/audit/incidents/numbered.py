"""An audit's findings with the numbers of their incidents: what commands and files show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from zkgroup.audit.engine import Found, Skipped
from zkgroup.audit.incidents.attribution import incidents_of
from zkgroup.audit.incidents.incident import Incident
from zkgroup.audit.rules import Finding


class NumberedIncident(NamedTuple):
    """An incident and its number, from 1."""

    number: int
    incident: Incident


class NumberedFinding(NamedTuple):
    """A finding and the number of its incident."""

    finding: Finding
    incident: int


@dataclass(frozen=True, slots=True)
class FoundIncidents:
    """What an audit found, brought together. Findings are in the order of the audit."""

    incidents: Sequence[NumberedIncident]
    findings: Sequence[NumberedFinding]
    skipped: Sequence[Skipped]


def numbered(found: Found) -> FoundIncidents:
    """The incidents of an audit, errors first, and each finding with the number of its incident."""
    incidents = list(map(NumberedIncident._make, enumerate(incidents_of(found.findings, found.facts), 1)))
    numbers = {id(one): number for number, incident in incidents for one in incident.findings}
    findings = [NumberedFinding(one, numbers[id(one)]) for one in found.findings]
    return FoundIncidents(incidents, findings, found.skipped)
