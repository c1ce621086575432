"""What a job writes beside its tables: findings and incidents of all ensembles, as JSON and Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Final

import pyarrow as pa

from zkgroup.audit.documents import as_of, finding_fields, incident_fields
from zkgroup.audit.incidents.found import FoundIncidents, NumberedIncident
from zkgroup.audit.rules import Finding
from zkgroup.audit.spark.audited import Audited
from zkgroup.audit.spark.storage import Storage
from zkgroup.audit.stored_files import write_rows

_SCHEMA: Final = "zkgroup.audit_run/1"
FINDINGS_FILE: Final = "findings.json"
FINDINGS_TABLE: Final = "findings/findings.parquet"
INCIDENTS_TABLE: Final = "incidents/incidents.parquet"

_TYPES: Final = {"partition": pa.int32()} | dict.fromkeys(
    ("session", "from_zxid", "to_zxid", "from_ms", "to_ms"), pa.int64()
)
_FIELDS: Final = tuple(each.name for each in fields(Finding))
_FINDINGS: Final = pa.schema(
    [
        pa.field("ensemble", pa.string()),
        *(pa.field(name, _TYPES.get(name, pa.string())) for name in _FIELDS),
        pa.field("incident", pa.int32()),
    ]
)
"""The fields of a Finding, between the name of the ensemble and the number of the incident."""
_INCIDENTS: Final = pa.schema(
    [
        *(
            ("ensemble", pa.string()),
            ("number", pa.int32()),
            ("title", pa.string()),
            ("severity", pa.string()),
        ),
        *(("group", pa.string()), ("from_zxid", pa.int64()), ("to_zxid", pa.int64())),
        *(("from_ms", pa.int64()), ("to_ms", pa.int64()), ("cause", pa.string()), ("session", pa.int64())),
        *(("act", pa.string()), ("findings", pa.int32())),
    ]
)


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


def write_results(storage: Storage, audited: Sequence[Audited]) -> None:
    """Writes the JSON and the two tables."""
    told = [(each.ensemble, each.incidents) for each in audited]
    incidents = [_incident(name, one) for name, each in told for one in each.incidents]
    for file, table in (
        (FINDINGS_TABLE, _findings(told)),
        (INCIDENTS_TABLE, pa.Table.from_pylist(incidents, _INCIDENTS)),
    ):
        stream = pa.BufferOutputStream()
        write_rows(table, stream)
        storage.write(file, stream.getvalue().to_pybytes())
    storage.write(FINDINGS_FILE, _lines(audited).encode())


def _lines(audited: Sequence[Audited]) -> str:
    """The JSON document with a line for each element of its lists; their objects do not live all at once."""
    lists = {name: ",\n  ".join(map(json.dumps, elements)) for name, elements in _lists(audited).items()}
    fields = [f' "schema": {json.dumps(_SCHEMA)}']
    fields += [f' "{name}": ' + (f"[\n  {lines}\n ]" if lines else "[]") for name, lines in lists.items()]
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _findings(told: Sequence[tuple[str, FoundIncidents]]) -> Any:
    """All findings as a pyarrow.Table."""
    rows = [(name, one) for name, each in told for one in each.findings]
    values = {
        "ensemble": [name for name, _ in rows],
        "incident": [one.incident for _, one in rows],
        **{name: [getattr(one.finding, name) for _, one in rows] for name in _FIELDS},
    }
    return pa.Table.from_pydict(values, _FINDINGS)


def _incident(ensemble: str, numbered: NumberedIncident) -> dict[str, Any]:
    number, one = numbered
    names = ("title", "severity", "group", "from_zxid", "to_zxid", "from_ms", "to_ms", "act")
    return {
        "ensemble": ensemble,
        "number": number,
        **{name: getattr(one, name) for name in names},
        "cause": one.cause.kind,
        "session": one.cause.session,
        "findings": len(one.findings),
    }
