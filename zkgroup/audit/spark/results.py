"""The findings of a job as JSON and Parquet.

OUTPUT/findings.json, OUTPUT/findings/findings.parquet, OUTPUT/incidents/incidents.parquet    all ensembles
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from zkgroup.audit.findings.engine import Found
from zkgroup.audit.incidents import incident
from zkgroup.audit.inputs.manifest import Folder
from zkgroup.audit.inputs.stored_files import parquet_of
from zkgroup.audit.report.tables import ENSEMBLE, finding_table, incident_table
from zkgroup.audit.report.writing import JSON, json_text
from zkgroup.zkfiles.arrow import schema


class Audited(NamedTuple):
    """The findings of one ensemble."""

    ensemble: str
    found: Found
    incidents: incident.FoundIncidents
    damages: tuple[str, ...]
    """The places at which rules about whole histories could not read files."""


def document(audited: Sequence[Audited]) -> dict[str, Any]:
    """The document of findings.json: the schema `zkgroup.audit_run/1`."""
    return {
        "schema": "zkgroup.audit_run/1",
        "ensembles": [
            {
                "ensemble": each.ensemble,
                "as_of": incident.as_of(each.found.facts),
                "skipped": incident.skipped_fields(each.found),
                "damage": list(each.damages),
            }
            for each in audited
        ],
        "incidents": [
            {"ensemble": each.ensemble, **incident.incident_fields(one)}
            for each in audited
            for one in each.incidents.incidents
        ],
        "findings": [
            {"ensemble": each.ensemble, **incident.finding_fields(one.finding), "incident": one.incident}
            for each in audited
            for one in each.incidents.findings
        ],
    }


def write_results(folder: Folder, audited: Sequence[Audited]) -> None:
    """Writes the JSON and the two tables."""
    findings = [(each.ensemble, one) for each in audited for one in each.incidents.findings]
    incidents = [(each.ensemble, one) for each in audited for one in each.incidents.incidents]
    for name, rows, table in (
        ("findings", findings, finding_table([one for _, one in findings])),
        ("incidents", incidents, incident_table([one for _, one in incidents])),
    ):
        ensembles = pa.array([ensemble for ensemble, _ in rows], pa.string())
        whole = table.add_column(0, schema((ENSEMBLE,)).field(0), ensembles)
        folder.write(f"{name}/{name}.parquet", parquet_of(whole))
    folder.write(JSON, json_text(document(audited), " ").encode())
