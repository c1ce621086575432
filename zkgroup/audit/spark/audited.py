"""What a job found in one ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from zkgroup.audit.engine import Found, Skipped
from zkgroup.audit.facts import Facts
from zkgroup.audit.incidents.found import FoundIncidents
from zkgroup.audit.incidents.numbered import only_of
from zkgroup.audit.rules import AnyRule, Finding


@dataclass(frozen=True, slots=True)
class Audited:
    """What was found in one ensemble."""

    ensemble: str
    findings: tuple[Finding, ...]
    """By zxid."""
    skipped: tuple[Skipped, ...]
    facts: Facts
    damages: tuple[str, ...]
    """Files that rules about whole histories met, and where they could not be read."""
    incidents: FoundIncidents
    """The findings brought together."""

    def only(self, rules: Sequence[AnyRule]) -> Audited:
        """The findings of some rules, and the incidents that have one, whole."""
        found, told = only_of(rules, self.found, self.incidents)
        return replace(self, findings=tuple(found.findings), skipped=tuple(found.skipped), incidents=told)

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def found(self) -> Found:
        """The same as the engine of a laptop gives it."""
        return Found(list(self.findings), list(self.skipped), self.facts)
