"""`zkgroup audit summary`: a history on one screen."""

from __future__ import annotations

from collections.abc import Sequence

from zkgroup.audit.findings.engine import ALL_RULES, audit, series_of
from zkgroup.audit.incidents.attribution import incidents_of
from zkgroup.audit.incidents.incident import SummaryRow, summaries
from zkgroup.audit.inputs.found_files import SkippedFile
from zkgroup.audit.inputs.source import PointInTime
from zkgroup.model.text import counted, iso_time

from ...app import fail_check, output
from ...audit_rows import LastTransaction, document
from ...render import Cell, echo_err
from ...schema import KeyColumn, NamedKeys, Shape
from .findings import echo_skipped
from .inputs import Inputs, between_options, command, input_options, opened

SCREEN = 24
"""Lines of a terminal that all must fit into."""
GROUPS = 15
"""As many groups are shown."""
_AROUND = 5
"""Lines of a screen that are no rows: the time, the heads, two lines below the table, the next prompt."""


def _bad(count: int, style: str) -> Cell:
    return Cell(str(count), style if count else "dim")


def _lines(rows: Sequence[SummaryRow]) -> int:
    """Titles have two lines, or one where the table would not fit on a screen otherwise."""
    lines = sum(1 if row.worst is None else 2 for row in rows)
    return 2 if lines + _AROUND < SCREEN else 1


GROUP_SUMMARY = Shape(
    SummaryRow,
    columns=(
        KeyColumn(
            "group",
            cell=lambda row: "(cluster)" if row.group is None else row.group,
            shorten="middle",
            least=12,
        ),
        KeyColumn("members", cell=lambda row: None if row.group is None else row.members, rank=1),
        *(KeyColumn("rebalances", rank=3), KeyColumn("expiries", rank=2)),
        KeyColumn("errors", cell=lambda row: _bad(row.errors, "bad")),
        KeyColumn("warnings", cell=lambda row: _bad(row.warnings, "warn")),
        KeyColumn("notes", rank=4),
        KeyColumn("worst", shorten="wrap", least=44, lines=_lines),
    ),
)
SUMMARY = document(
    "summary",
    NamedKeys(start_ms=int | None, groups=Sequence[SummaryRow], skipped=Sequence[SkippedFile]),
    rows="groups",
)


@command()
@input_options(more=True)
@between_options
def summary(inputs: Inputs, start: PointInTime | None, end: PointInTime | None) -> None:
    """Show a history on one screen: each group and its worst incident.

    Groups with errors come first, with the title of their worst incident, which is cut where it is long;
    `audit findings --group GROUP` has the whole. The last row is what is about no group: brokers,
    controllers, the ensemble. There REBALANCES are elections of controllers, and EXPIRIES are of brokers'
    sessions. JSON has all groups. Exit code 3 where there is an error, or a file is damaged.

    \b
    Example:
      zkgroup audit summary --input copy/version-2
    """
    out = output()
    with opened(inputs) as (source, _report):
        found = audit(source, ALL_RULES, start=start, end=end)
    facts = found.facts
    rows = summaries(incidents_of(found.findings, facts), facts)
    series = [each.snapshots for each in series_of(source, start, end) if len(each.snapshots) > 1]
    starts = [*([facts.start_ms] if facts.has_log else []), *(one.time_ms for each in series for one in each)]
    start_ms = min(filter(None, starts), default=None)  # an empty tree has no time
    last = LastTransaction.of(facts.end_zxid, facts.end_ms)
    if not SUMMARY.print(out, last, start_ms=start_ms, groups=rows, skipped=source.skipped):
        *groups, cluster = rows
        if start_ms is not None:
            out.line(f"{iso_time(start_ms)} to {iso_time(facts.end_ms)}")
        shown = [*groups[:GROUPS], cluster]
        GROUP_SUMMARY.table(out, shown)
        if len(groups) > GROUPS:
            echo_err(f"{counted(len(groups) - GROUPS, 'group')} more, with fewer errors and warnings")
        echo_skipped(found)
    if any(row.errors for row in rows) or source.damages():
        fail_check()
