"""Writes a report and the files beside it, and the findings of a job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from zkgroup import pages
from zkgroup.audit.findings.engine import ALL_RULES, Found, audit, series_of
from zkgroup.audit.incidents import incident
from zkgroup.audit.incidents.attribution import numbered
from zkgroup.audit.incidents.incident import FoundIncidents, findings_document
from zkgroup.audit.inputs.converted import parquet_of
from zkgroup.audit.inputs.found_files import health_of
from zkgroup.audit.inputs.manifest import Folder
from zkgroup.audit.inputs.source import PointInTime, Progress, Source, quiet
from zkgroup.audit.report.keeping import ReportLimits
from zkgroup.audit.report.sections import ColumnsDrawing
from zkgroup.audit.report.tables import ENSEMBLE, TABLES, Give, finding_table, incident_table, nowhere
from zkgroup.errors import ConfigError, RefusedError
from zkgroup.zkfiles.arrow import schema
from zkgroup.zkfiles.logs import FileHealth

SCRIPTS: Final = (
    *("base.js", "timeline.js", "spans.js", "chart.js", "incidents.js"),
    *("findings.js", "groups.js", "cluster.js", "main.js"),
)
"""The scripts in the order in which they stand in the page."""
_HARMLESS: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""JSON has these characters in strings only; as escapes they mean the same, and no data ends the script."""
_ROWS_PER_GROUP: Final = 50_000
JSON, PARQUET = "findings.json", "findings.parquet"
"""The files of the findings."""


class ReportPlace(NamedTuple):
    """The paths to which a report is written."""

    page: Path
    folder: Path
    """The folder of findings.json and the Parquet files, whose names are the same for every report."""


def require_free(place: ReportPlace, *, overwrite: bool) -> None:
    """Raises RefusedError where a file of the report exists, ConfigError where there is no folder."""
    for folder in (place.page.parent, place.folder):
        if not folder.is_dir():
            raise ConfigError(f"{folder}: expected a folder to write the report into, found none")
    names = (JSON, PARQUET, *(f"{name}.parquet" for name in TABLES))
    for path in (place.page, *(place.folder / name for name in names)):
        if path.exists() and not overwrite:
            raise RefusedError(
                f"{path}: there is such a file already; name another page, another --data-dir"
                " for the files beside it, or give --overwrite"
            )


def write_report(
    place: ReportPlace, report: AuditReport, rows: Drafts | None = None, *, overwrite: bool = False
) -> list[Path]:
    """Writes the page, `findings.json` and Parquet; returns their paths.

    Each file gets its name when it is complete. `rows` are the tables of the report. Raises
    RefusedError where a file exists already, ConfigError where it cannot be written.
    """
    require_free(place, overwrite=overwrite)
    html, json_file, table = place.page, place.folder / JSON, place.folder / PARQUET
    _write(html, lambda draft: draft.write_text(page(report.data), encoding="utf-8"))
    text = json_text(findings_document(report.found, report.incidents))
    _write(json_file, lambda draft: draft.write_text(text, encoding="utf-8"))
    findings = finding_table(report.incidents.findings)
    _write(table, lambda draft: pq.write_table(findings, draft))
    return [html, json_file, table, *(() if rows is None else rows.finish())]


def json_text(document: dict[str, Any], indent: str = "  ") -> str:
    """A document as JSON, with a line for each key, and for each item of its lists."""
    keys = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            items = f",\n{2 * indent}".join(map(json.dumps, value))
            text = f"[\n{2 * indent}{items}\n{indent}]"
        else:
            text = json.dumps(value)
        keys.append(f"{indent}{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(keys) + "\n}\n"


class AuditReport(NamedTuple):
    """The content of a report, and the texts that the command prints beside it."""

    data: dict[str, Any]
    """The report as the page reads it."""
    found: Found
    incidents: FoundIncidents
    damages: Sequence[str]
    notes: Sequence[str]


def report_of(
    source: Source,
    inputs: Sequence[Path | str],
    *,
    start: PointInTime | None = None,
    end: PointInTime | None = None,
    group: str | None = None,
    give: Give = nowhere,
    progress: Progress = quiet,
    found: Found | None = None,
    files: Callable[[], Iterable[FileHealth]] | None = None,
) -> AuditReport:
    """The findings and the page of a source, whose rows are read once; every file is checked, too.

    Args:
        inputs: the paths that the source was opened with; none for a live ensemble.
        give: gets the rows of `tables.TABLES`.
        found: the findings, where Spark has them; else the rules run here.
        files: the health of each file, where Spark reads them; else they are read here.

    Raises what `engine.audit` raises.
    """
    series = [*series_of(source, start, end)]
    rows = source.rows(start, end)
    with closing(ColumnsDrawing(rows, group, ReportLimits(), give, series=series)) as drawing:
        if found is None:
            found = audit(source, ALL_RULES, start=start, end=end, audited=drawing.audited)
        progress("shaping the report")
        drawing.finish()
        # This comes behind the rows, since damage shows when they are read.
        health = list(health_of(map(Path, inputs)) if files is None else files())
        damages, notes = source.damages(), source.notes()
    incidents, read = numbered(found), [str(path) for path in inputs] or ["the live ensemble"]
    data = drawing.data(found, incidents, read, health, damages, notes)
    return AuditReport(data, found, incidents, damages, notes)


def page(data: dict[str, Any]) -> str:
    """The HTML of a report, which lets nothing be fetched."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_HARMLESS)
    return pages.page(__package__, "report.html", style="report.css", scripts=SCRIPTS, data=text)


class Drafts:
    """The files of tables that are being written, in the folder that they are for."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._writers = folder, dict[str, pq.ParquetWriter]()
        for name, columns in TABLES.items():
            draft = _draft(folder, name)
            with _with_place(draft):
                self._writers[name] = stack.enter_context(pq.ParquetWriter(draft, schema(columns)))

    def add(self, name: str, table: Any) -> None:
        """Adds rows of a table. Raises ConfigError where they cannot be written."""
        with _with_place(_draft(self._folder, name)):
            self._writers[name].write_table(table, _ROWS_PER_GROUP)

    def finish(self) -> list[Path]:
        """Gives each complete file its name, and returns the names. Raises ConfigError where that fails."""
        paths = []
        for name, writer in self._writers.items():
            draft, path = _draft(self._folder, name), self._folder / f"{name}.parquet"
            with _with_place(path):
                writer.close()
                paths.append(draft.replace(path))
        return paths


@contextmanager
def drafts(folder: Path) -> Iterator[Drafts]:
    """The tables of a report in a folder; files that are not finished are deleted when the block ends."""
    try:
        with ExitStack() as stack:
            yield Drafts(folder, stack)
    finally:
        for name in TABLES:
            _draft(folder, name).unlink(missing_ok=True)


def _draft(folder: Path, name: str) -> Path:
    return folder / f".{name}.parquet.part"


@contextmanager
def _with_place(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error


def _write(path: Path, write: Callable[[Path], object]) -> None:
    """Writes a file beside this one, which then takes its name."""
    draft = path.with_name(f".{path.name}.part")
    try:
        with _with_place(path):
            write(draft)
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


class Audited(NamedTuple):
    """The findings of one ensemble."""

    ensemble: str
    found: Found
    incidents: FoundIncidents
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
    """Writes the findings of all ensembles of a job.

    OUTPUT/findings.json, OUTPUT/findings/findings.parquet, OUTPUT/incidents/incidents.parquet
    """
    tables: dict[str, Callable[..., Any]] = {"findings": finding_table, "incidents": incident_table}
    for name, table_of in tables.items():
        rows = [(each.ensemble, one) for each in audited for one in getattr(each.incidents, name)]
        ensembles = pa.array([ensemble for ensemble, _ in rows], pa.string())
        whole = table_of([one for _, one in rows]).add_column(0, schema((ENSEMBLE,)).field(0), ensembles)
        folder.write(f"{name}/{name}.parquet", parquet_of(whole))
    folder.write(JSON, json_text(document(audited), " ").encode())
