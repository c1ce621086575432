"""What a job writes beside its tables: findings and incidents of all ensembles, as JSON and Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from zkgroup.audit.documents import as_of
from zkgroup.audit.report.parquet import table_of
from zkgroup.audit.report.tables import ENSEMBLE, FINDINGS, INCIDENTS
from zkgroup.audit.spark.audited import Audited
from zkgroup.audit.spark.storage import FolderStorage
from zkgroup.audit.stored_files import write_rows
from zkgroup.zkfiles.arrow import schema

_SCHEMA: Final = "zkgroup.audit_run/1"
FINDINGS_FILE: Final = "findings.json"
FINDINGS_TABLE: Final = "findings/findings.parquet"
INCIDENTS_TABLE: Final = "incidents/incidents.parquet"

_ROWS_AT_A_TIME: Final = 1 << 16


def document(audited: Sequence[Audited]) -> dict[str, Any]:
    """What is written as findings.json: the schema `zkgroup.audit_run/1`."""
    written: dict[str, Any] = json.loads(_content(audited))
    return written


def write_results(storage: FolderStorage, audited: Sequence[Audited]) -> None:
    """Writes the JSON and the two tables."""
    findings = pa.concat_tables([schema((ENSEMBLE, *FINDINGS)).empty_table(), *map(_findings, audited)])
    for file, table in ((FINDINGS_TABLE, findings), (INCIDENTS_TABLE, _incidents(audited))):
        stream = pa.BufferOutputStream()
        write_rows(table, stream)
        storage.write(file, stream.getvalue().to_pybytes())
    storage.write(FINDINGS_FILE, _content(audited))


def _content(audited: Sequence[Audited]) -> bytes:
    """The JSON document with a line for each element of its lists."""
    lists = {
        "ensembles": map(json.dumps, map(_ensemble, audited)),
        "incidents": (text for each in audited for text in _incident_lines(each)),
        "findings": (text for each in audited for text in _finding_lines(each)),
    }
    fields = [f' "schema": {json.dumps(_SCHEMA)}'.encode()]
    for name, texts in lists.items():
        lines = ",\n  ".join(texts).encode()
        fields.append(b' "%s": ' % name.encode() + (b"[\n  %s\n ]" % lines if lines else b"[]"))
    return b"{\n" + b",\n".join(fields) + b"\n}\n"


def _ensemble(each: Audited) -> dict[str, Any]:
    return {
        "ensemble": each.ensemble,
        "as_of": as_of(each.facts),
        "skipped": [{"finding": one.rule.name, "reason": one.reason} for one in each.skipped],
        "damage": list(each.damages),
    }


def _incident_lines(each: Audited) -> Iterator[str]:
    name = json.dumps(each.ensemble)
    return (f'{{"ensemble": {name}, "number": {number}, {row.text}' for number, row in each.rows.incidents)


def _finding_lines(each: Audited) -> Iterator[str]:
    rows = each.rows.findings.select(["text", "incident"])
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        some = rows.slice(start, _ROWS_AT_A_TIME)
        for text, incident in zip(*(column.to_pylist() for column in some.columns), strict=True):
            yield f'{text}, "incident": {incident}}}'


def _findings(each: Audited) -> Any:
    """Its findings as a pyarrow.Table of FINDINGS behind ENSEMBLE."""
    rows = each.rows.findings
    names = pa.repeat(pa.scalar(each.ensemble), len(rows))
    columns = [names, *(rows[column.name] for column in FINDINGS)]
    return pa.table(columns, schema((ENSEMBLE, *FINDINGS)))


def _incidents(audited: Sequence[Audited]) -> Any:
    """All incidents as a pyarrow.Table of INCIDENTS behind ENSEMBLE."""
    columns = (ENSEMBLE, *INCIDENTS)
    rows = [
        {**row.values, "ensemble": each.ensemble, "number": number}
        for each in audited
        for number, row in each.rows.incidents
    ]
    return table_of(columns, {column.name: [row[column.name] for row in rows] for column in columns})
