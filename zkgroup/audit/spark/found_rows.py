"""Findings as rows of a table with the incidents that they make, as a task gives them to the driver.

A task brings the findings of its bucket together, and writes them as JSON. What groups of other buckets have
to do with an incident is known only to the driver (`merging`).
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from zkgroup.audit.columns.rows import Numbers
from zkgroup.audit.documents import finding_fields, incident_fields
from zkgroup.audit.engine import order
from zkgroup.audit.facts import Facts
from zkgroup.audit.incidents.attribution import Causes, incident_order, incidents_by_cause
from zkgroup.audit.incidents.found import NumberedFinding, NumberedIncident
from zkgroup.audit.incidents.incident import Cause, Incident
from zkgroup.audit.report.parquet import table_of
from zkgroup.audit.report.tables import FINDINGS, finding_columns, incident_columns
from zkgroup.audit.rules import Finding

_EXACTLY: Final = {"partition": "digits", "session": "number", "from_ms": "from_ms", "to_ms": "to_ms"}
"""The fields of a Finding that FINDINGS has in another way, by the names of their own columns."""
_COLUMNS: Final = tuple(_EXACTLY.get(each.name, each.name) for each in fields(Finding))


class IncidentRow(NamedTuple):
    """An incident as it is written, but for its number."""

    cause: Cause
    """By which its findings were brought together."""
    order: tuple[int, int, str]
    """Its place among others, as `incident_order` gives it."""
    values: dict[str, Any]
    """Its row of INCIDENTS, but for the number."""
    text: str
    """Its JSON behind the number."""


class FoundRows(NamedTuple):
    """Findings in the order of the audit."""

    findings: Any
    """A pyarrow.Table of FINDINGS, but `incident` is its place among the incidents of these rows. Beside them
    are `text`, the JSON up to the number of the incident, and fields exactly: `digits` of the partition, the
    `number` of the session, `from_ms` and `to_ms`."""
    incidents: list[IncidentRow]
    """Those of one cause follow each other in time."""
    foreign_writes: dict[int, tuple[tuple[object, ...], Cause]]
    """Of `Causes`, each behind the place of the first finding of its group."""


def brought_together(
    ensemble: str,
    findings: Iterable[Finding],
    facts: Facts,
    foreign_writes: Mapping[int, Cause] | None = None,
    causing: Sequence[Finding] = (),
) -> FoundRows:
    """Brings findings together; of a group that has any all have to be there.

    Args:
        foreign_writes: as of `Causes`.
        causing: findings of others that show causes of these, `cluster_causes.CAUSING`.
    """
    ordered = sorted(findings, key=order)
    causes = Causes(sorted((*ordered, *causing), key=order) if causing else ordered, facts, foreign_writes)
    places = {id(one): place for place, one in enumerate(ordered)}
    of_rows: Numbers = np.zeros(len(ordered), np.int32)
    incidents: list[IncidentRow] = []
    for cause, incident in incidents_by_cause(((one, causes.of(one)) for one in ordered), facts):
        of_rows[[places[id(one)] for one in incident.findings]] = len(incidents)
        incidents.append(incident_row(cause, incident))
    numbered = list(map(NumberedFinding, ordered, of_rows.tolist()))
    table = table_of(FINDINGS, finding_columns(numbered))
    for name, values, type_ in (
        ("digits", [None if one.partition is None else str(one.partition) for one in ordered], pa.string()),
        ("number", [one.session for one in ordered], pa.int64()),
        ("from_ms", [one.from_ms for one in ordered], pa.int64()),
        ("to_ms", [one.to_ms for one in ordered], pa.int64()),
        ("text", [_text(ensemble, one) for one in ordered], pa.large_string()),
    ):
        table = table.append_column(name, pa.array(values, type_))
    return FoundRows(table, incidents, _foreign_writes(ordered, causes.foreign_writes))


def _text(ensemble: str, one: Finding) -> str:
    return json.dumps({"ensemble": ensemble, **finding_fields(one)})[:-1]


def _foreign_writes(
    ordered: Sequence[Finding], causes: Mapping[int, Cause]
) -> dict[int, tuple[tuple[object, ...], Cause]]:
    """Those to groups of these findings, with the places of the groups' first findings."""
    first: dict[str | None, tuple[object, ...]] = {}
    if causes:
        first = {one.group: order(one) for one in reversed(ordered)}
    return {session: (first[one.group], one) for session, one in causes.items() if one.group in first}


def incident_row(cause: Cause, one: Incident) -> IncidentRow:
    """An incident of findings that came with a cause."""
    described = incident_fields(NumberedIncident(0, one))
    del described["number"]
    values = {name: value for name, (value,) in incident_columns([NumberedIncident(0, one)]).items()}
    return IncidentRow(cause, incident_order(one), values, json.dumps(described)[1:])


def findings_of(table: Any) -> list[Finding]:
    """The findings of rows, as objects."""
    values = {name: table[name].to_pylist() for name in _COLUMNS}
    values["digits"] = [None if digits is None else int(digits) for digits in values["digits"]]
    return list(map(Finding, *values.values()))


def packed(rows: FoundRows) -> tuple[int, bytes]:
    """Rows as a task sends them: the texts are most of it, and much alike."""
    content = pickle.dumps(rows, pickle.HIGHEST_PROTOCOL)
    return len(content), pa.compress(content, "lz4_raw", asbytes=True)


def unpacked(size: int, content: bytes) -> FoundRows:
    """The rows that a task sent."""
    rows: FoundRows = pickle.loads(pa.decompress(content, size, "lz4_raw", asbytes=True))  # noqa: S301
    return rows
