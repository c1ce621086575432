"""What an audit found, brought together into incidents that have numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from zkgroup.audit.engine import Skipped
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
