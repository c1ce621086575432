"""What a job found in one ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from zkgroup.audit.engine import Skipped
from zkgroup.audit.facts import Facts
from zkgroup.audit.rules import AnyRule, Finding, Severity
from zkgroup.audit.spark.found_rows import findings_of
from zkgroup.audit.spark.merging import MergedRows


@dataclass(frozen=True, slots=True)
class Audited:
    """What was found in one ensemble."""

    ensemble: str
    rows: MergedRows
    skipped: tuple[Skipped, ...]
    facts: Facts
    damages: tuple[str, ...]
    """Files that rules about whole histories met, and where they could not be read."""

    def only(self, rules: Sequence[AnyRule]) -> Audited:
        """The findings of some rules, and the incidents that have one, whole."""
        names = [rule.name for rule in rules]
        skipped = tuple(one for one in self.skipped if one.rule.name in names)
        return replace(self, rows=self.rows.only(names), skipped=skipped)

    def count(self, severity: Severity) -> int:
        """How many findings are so severe."""
        return int(pc.sum(pc.equal(self.rows.findings["severity"], severity)).as_py() or 0)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings by zxid, as objects that are made anew."""
        return tuple(findings_of(self.rows.findings))
