"""The scenario of `zkgroup demo audit`: the group's demo, two planted writes, and the audit."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zkgroup.audit.findings import ALL_RULES
from zkgroup.audit.inspection import health_of
from zkgroup.audit.report.writing import report_of, rows_beside, write_report
from zkgroup.audit.run import Found, audit
from zkgroup.audit.sources import Source, open_source
from zkgroup.audit.views.group_rows import rows_by_partition
from zkgroup.audit.views.owners import OwnerLife, owners_of
from zkgroup.demo.audit.planting import Planted, PlantedGroup
from zkgroup.demo.audit.proof import Evidence, judge
from zkgroup.demo.group import scenario as group
from zkgroup.demo.group.view import GroupView
from zkgroup.demo.progress import Check, Screen
from zkgroup.groups.ensemble import AsOf

REPORT = "report.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """How the demo runs. It always starts a server of its own: the audit reads its files."""

    keep: bool = False
    """Leave all files for looking around, not only the report."""
    group: group.DemoOptions = field(default_factory=group.DemoOptions)
    """How the group's demo runs in it."""


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What came out."""

    checks: tuple[Check, ...]
    """Those of the audit, and behind them those of the group."""
    planted: tuple[Planted, ...]
    severities: Mapping[str, int]
    """How many findings there are of each."""
    partition: int
    """The one whose offset was set back."""
    owners: tuple[OwnerLife, ...]
    """Who owned it, in order."""
    report: tuple[Path, ...]
    """The page first, then what was written beside it."""
    took_s: float
    as_of: AsOf
    """The last transaction of the log."""
    group: str
    zookeeper: str
    folder: Path | None
    """Where everything is, when it was kept."""

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)


def run(options: DemoOptions, screen: Screen[GroupView]) -> DemoReport:
    """The whole demo. Leaves no process behind, whatever happens.

    The report stays: with everything else where that is kept, else in a folder of its own. Raises what the
    group's demo raises.
    """
    with group.folder_of(keep=options.keep) as folder:
        with group.prepared(PlantedGroup, options.group, screen, folder) as stage:
            stage.play()
            shared = stage.report()
            stage.headline = "the server stops"
            stage.show()
        return _audit(stage, shared, options)


def _audit(stage: PlantedGroup, shared: group.DemoReport, options: DemoOptions) -> DemoReport:
    """Reads the files of the server, which has stopped."""
    inputs = [stage.folder / "zookeeper" / "server-0"]
    stage.headline = "auditing the server's files"
    stage.tell("the server has stopped; auditing the files that it leaves")
    stage.show()
    source = open_source(inputs)
    assert source.history is not None, "folders of servers have a history"
    found = audit(source, ALL_RULES)
    lives = _owners(source, found, stage.group)
    files = list(health_of(inputs))
    evidence = Evidence(
        group=stage.group,
        planted=stage.planted,
        findings=found.findings,
        outputs=stage.outputs(),
        lives=lives,
        files=len(files),
        damages=[*source.damages(), *(f"{one.path}: {one.detail}" for one in files if not one.is_healthy)],
        replayed=source.history.verify(),
    )
    checks = judge(evidence)
    stage.tell("writing the report")
    kept = stage.folder if options.keep else Path(tempfile.mkdtemp(prefix="zkgroup-audit-"))
    with rows_beside(kept / REPORT) as rows:
        written = write_report(kept / REPORT, report_of(source, found, inputs, rows=rows), found, rows)
    partition = next((one.partition for one in stage.planted if one.after < one.before), 0)
    return DemoReport(
        checks=(*checks, *shared.checks),
        planted=tuple(stage.planted),
        severities=Counter(one.severity for one in found.findings),
        partition=partition,
        owners=tuple(lives.get(partition, ())),
        report=tuple(written),
        took_s=stage.elapsed_s,
        as_of=AsOf(found.facts.end_zxid, found.facts.end_ms),
        group=stage.group,
        zookeeper=stage.zookeeper,
        folder=stage.folder if options.keep else None,
    )


def _owners(source: Source, found: Found, group_id: str) -> dict[int, list[OwnerLife]]:
    """Every ownership of each partition, by the files."""
    rows = rows_by_partition(source.rows().events(), group_id)
    return {
        where.topic_partition.partition: owners_of(mine, found.facts, *where) for where, mine in rows.items()
    }
