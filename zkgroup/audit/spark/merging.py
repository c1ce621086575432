"""Brings together what tasks found: one order of all findings, and the numbers of their incidents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zkgroup.audit.columns.rows import Numbers
from zkgroup.audit.facts import Facts
from zkgroup.audit.incidents.attribution import incidents_by_cause
from zkgroup.audit.incidents.cluster_causes import CAUSING
from zkgroup.audit.incidents.incident import Cause
from zkgroup.audit.rules import Finding
from zkgroup.audit.spark.found_rows import (
    FoundRows,
    IncidentRow,
    brought_together,
    findings_of,
    incident_row,
)


class NumberedRow(NamedTuple):
    """An incident as it is written, and its number, from 1."""

    number: int
    row: IncidentRow


class MergedRows(NamedTuple):
    """All that was found in an ensemble."""

    findings: Any
    """As those of `FoundRows`, but `incident` is the number."""
    incidents: list[NumberedRow]

    def only(self, names: Sequence[str]) -> MergedRows:
        """The findings of these names, and the incidents that have one, whole; numbers stay."""
        findings = self.findings.filter(pc.is_in(self.findings["finding"], pa.array(names, pa.string())))
        numbers = set(findings["incident"].to_pylist())
        return MergedRows(findings, [one for one in self.incidents if one.number in numbers])


def rows_beside(
    ensemble: str, findings: Sequence[Finding], facts: Facts, tasks: Sequence[FoundRows]
) -> FoundRows:
    """Brings together what was found beside tasks: findings about no group, whose causes tasks may know."""
    known: dict[int, tuple[tuple[object, ...], Cause]] = {}
    for rows in tasks:
        for session, found in rows.foreign_writes.items():
            known[session] = min(known.get(session, found), found)
    foreign_writes = {session: cause for session, (_, cause) in known.items()}
    causing = [
        one
        for rows in tasks
        for one in findings_of(
            rows.findings.filter(pc.is_in(rows.findings["finding"], pa.array(sorted(CAUSING))))
        )
    ]
    return brought_together(ensemble, findings, facts, foreign_writes, causing)


def merged(parts: Sequence[FoundRows], facts: Facts) -> MergedRows:
    """All findings in the order of the audit, with the numbers of their incidents.

    Where several parts have findings with one cause, its incidents are made anew.
    """
    starts = np.cumsum([0, *(len(part.incidents) for part in parts)])
    incidents = [one for part in parts for one in part.incidents]
    table = pa.concat_tables([part.findings.drop_columns("incident") for part in parts])
    of_rows: Numbers = np.concatenate(
        [part.findings["incident"].to_numpy() + start for part, start in zip(parts, starts, strict=False)]
    )
    places = _in_order(table)
    table, of_rows = table.take(pa.array(places)), of_rows[places]
    counts = Counter(cause for part in parts for cause in {one.cause for one in part.incidents})
    divided = {cause for cause, count in counts.items() if count > 1}
    if divided:
        _make_anew(divided, table, of_rows, incidents, facts)
    there, first_rows = (each.tolist() for each in np.unique(of_rows, return_index=True))
    first: dict[Cause, int] = {}
    for place, row in zip(there, first_rows, strict=True):
        cause = incidents[place].cause
        first[cause] = min(first.get(cause, row), row)
    there.sort(key=lambda place: (incidents[place].order, first[incidents[place].cause]))
    numbers: Numbers = np.zeros(len(incidents), np.int32)
    numbers[there] = np.arange(1, len(there) + 1)
    return MergedRows(
        table.append_column("incident", pa.array(numbers[of_rows])),
        [NumberedRow(number, incidents[place]) for number, place in enumerate(there, 1)],
    )


def _in_order(table: Any) -> Numbers:
    """The rows in the order of the audit, `engine.order`. Partitions may have any number of digits."""
    digits = pc.fill_null(table["digits"], "")
    keys = {
        "from_zxid": pc.fill_null(table["from_zxid"], 0),
        "finding": table["finding"],
        "group": pc.fill_null(table["group"], ""),
        "topic": pc.fill_null(table["topic"], ""),
        "length": pc.utf8_length(digits),
        "digits": digits,
        "number": pc.fill_null(table["number"], 0),
        "to_zxid": pc.fill_null(table["to_zxid"], 0),
        "severity": table["severity"],
        "detail": table["detail"],
    }
    order = [(name, "ascending") for name in keys]
    places: Numbers = pc.sort_indices(pa.table(keys).combine_chunks(), order).to_numpy()
    return places


def _make_anew(
    causes: set[Cause],
    table: Any,
    of_rows: Numbers,
    incidents: list[IncidentRow],
    facts: Facts,
) -> None:
    """Adds the incidents of these causes; their rows, which are in order, become rows of those."""
    old = [place for place, one in enumerate(incidents) if one.cause in causes]
    rows = np.flatnonzero(np.isin(of_rows, old))
    findings = findings_of(table.take(pa.array(rows)))
    places = {id(one): place for one, place in zip(findings, rows.tolist(), strict=True)}
    with_causes = [
        (one, incidents[place].cause) for one, place in zip(findings, of_rows[rows].tolist(), strict=True)
    ]
    for cause, incident in incidents_by_cause(with_causes, facts):
        of_rows[[places[id(one)] for one in incident.findings]] = len(incidents)
        incidents.append(incident_row(cause, incident))
