"""What a job writes beside its tables: findings and incidents of all ensembles, as JSON and Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from zkgroup.audit.documents import as_of, finding_fields, incident_fields
from zkgroup.audit.report.parquet import table_of
from zkgroup.audit.report.tables import ENSEMBLE, FINDINGS, INCIDENTS, finding_columns, incident_columns
from zkgroup.audit.spark.audited import Audited
from zkgroup.audit.spark.storage import FolderStorage
from zkgroup.audit.stored_files import write_rows

_SCHEMA: Final = "zkgroup.audit_run/1"
FINDINGS_FILE: Final = "findings.json"
FINDINGS_TABLE: Final = "findings/findings.parquet"
INCIDENTS_TABLE: Final = "incidents/incidents.parquet"


def document(audited: Sequence[Audited]) -> dict[str, Any]:
    """What is written as findings.json: the schema `zkgroup.audit_run/1`."""
    return {"schema": _SCHEMA, **{name: list(elements) for name, elements in _lists(audited).items()}}


def _lists(audited: Sequence[Audited]) -> dict[str, Iterator[dict[str, Any]]]:
    """The lists of the document; an element is made when it is asked for."""
    told = [(each.ensemble, each.incidents) for each in audited]
    return {
        "ensembles": (
            {
                "ensemble": each.ensemble,
                "as_of": as_of(each.facts),
                "skipped": [{"finding": one.rule.name, "reason": one.reason} for one in each.skipped],
                "damage": list(each.damages),
            }
            for each in audited
        ),
        "incidents": (
            {"ensemble": name, **incident_fields(one)} for name, each in told for one in each.incidents
        ),
        "findings": (
            {"ensemble": name, **finding_fields(one.finding), "incident": one.incident}
            for name, each in told
            for one in each.findings
        ),
    }


def write_results(storage: FolderStorage, audited: Sequence[Audited]) -> None:
    """Writes the JSON and the two tables."""
    told = [(each.ensemble, each.incidents) for each in audited]
    incidents = [one for _, each in told for one in each.incidents]
    findings = [one for _, each in told for one in each.findings]
    of_incidents = [name for name, each in told for _ in each.incidents]
    of_findings = [name for name, each in told for _ in each.findings]
    for file, columns, lists in (
        (FINDINGS_TABLE, FINDINGS, {ENSEMBLE.name: of_findings, **finding_columns(findings)}),
        (INCIDENTS_TABLE, INCIDENTS, {ENSEMBLE.name: of_incidents, **incident_columns(incidents)}),
    ):
        stream = pa.BufferOutputStream()
        write_rows(table_of((ENSEMBLE, *columns), lists), stream)
        storage.write(file, stream.getvalue().to_pybytes())
    storage.write(FINDINGS_FILE, _lines(audited).encode())


def _lines(audited: Sequence[Audited]) -> str:
    """The JSON document with a line for each element of its lists; their objects do not live all at once."""
    lists = {name: ",\n  ".join(map(json.dumps, elements)) for name, elements in _lists(audited).items()}
    fields = [f' "schema": {json.dumps(_SCHEMA)}']
    fields += [f' "{name}": ' + (f"[\n  {lines}\n ]" if lines else "[]") for name, lines in lists.items()]
    return "{\n" + ",\n".join(fields) + "\n}\n"
