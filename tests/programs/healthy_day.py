"""What the audit says of a healthy day: `python -m tests.programs.healthy_day [OPERATIONS]`.

By default a million.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.programs.benchmarks.group_days import GROUPS, write_logs
from zkgroup.audit.findings.engine import ALL_RULES, audit
from zkgroup.audit.incidents.attribution import incidents_of
from zkgroup.audit.inputs.opening import open_source


class Day(NamedTuple):
    """How much was reported, by severity."""

    operations: int
    findings: Mapping[str, int]
    incidents: Mapping[str, int]
    restarts: int
    seconds: float
    """Of CPU, to bring the findings together."""

    def text(self) -> str:
        """The figures in three lines."""
        findings, incidents = (
            ", ".join(
                f"{counts.get(severity, 0):,} {noun}"
                for severity, noun in (("error", "errors"), ("warning", "warnings"), ("info", "notes"))
            )
            for counts in (self.findings, self.incidents)
        )
        return (
            f"{self.operations:,} operations, {self.restarts} restarts of members\n"
            f"findings: {findings}\n"
            f"incidents: {incidents}; brought together in {self.seconds:.1f} s of CPU"
        )


def healthy_day(folder: Path, operations: int, groups: int = GROUPS) -> Day:
    """Writes the logs of a day and audits them."""
    write_logs(folder, operations, 2, groups, with_digests=False)
    found = audit(open_source([folder]), ALL_RULES)
    began = time.process_time()
    incidents = incidents_of(found.findings, found.facts)
    seconds = time.process_time() - began
    return Day(
        operations,
        Counter(one.severity for one in found.findings),
        Counter(one.severity for one in incidents),
        sum(any(each.finding == "unowned_interval" for each in one.findings) for one in incidents),
        seconds,
    )


def main() -> None:
    """Prints the figures."""
    operations = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(healthy_day(Path(folder) / "logs", operations).text() + "\n")


if __name__ == "__main__":
    main()
