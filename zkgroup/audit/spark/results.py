"""The findings of a job, brought together from its tasks, and written as JSON and Parquet.

A task brings the findings of its bucket together, and gives them as rows of a table with their incidents.
Only the driver knows what groups of other buckets have to do with an incident; it orders and numbers all.
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zkgroup.audit.documents import as_of, finding_fields, incident_fields
from zkgroup.audit.findings.engine import Skipped, order
from zkgroup.audit.findings.rules import AnyRule, Finding, Severity
from zkgroup.audit.incidents.attribution import incident_order, incidents_by_cause
from zkgroup.audit.incidents.causes import CAUSING, Causes
from zkgroup.audit.incidents.incident import Cause, Incident, NumberedFinding, NumberedIncident
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.rows import Numbers
from zkgroup.audit.inputs.stored_files import write_rows
from zkgroup.audit.report.parquet import table_of
from zkgroup.audit.report.tables import ENSEMBLE, FINDINGS, INCIDENTS, finding_columns, incident_columns
from zkgroup.audit.spark.storage import FolderStorage
from zkgroup.zkfiles.arrow import schema

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
        causing: findings of others that show causes of these, `causes.CAUSING`.
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


@dataclass(frozen=True, slots=True)
class Audited:
    """Holds what was found in one ensemble."""

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
        """Returns how many findings are so severe."""
        return int(pc.sum(pc.equal(self.rows.findings["severity"], severity)).as_py() or 0)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings by zxid, as objects that are made anew."""
        return tuple(findings_of(self.rows.findings))


_SCHEMA: Final = "zkgroup.audit_run/1"
FINDINGS_FILE: Final = "findings.json"
FINDINGS_TABLE: Final = "findings/findings.parquet"
INCIDENTS_TABLE: Final = "incidents/incidents.parquet"

_ROWS_AT_A_TIME: Final = 1 << 16


def document(audited: Sequence[Audited]) -> dict[str, Any]:
    """Returns what is written as findings.json: the schema `zkgroup.audit_run/1`."""
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
