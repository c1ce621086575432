"""Writes a report and what goes beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from zkgroup.audit.answers.inspection import health_of
from zkgroup.audit.documents import findings_document
from zkgroup.audit.findings.all_rules import ALL_RULES
from zkgroup.audit.findings.engine import Found, audit_rows
from zkgroup.audit.incidents.attribution import numbered
from zkgroup.audit.incidents.incident import FoundIncidents
from zkgroup.audit.inputs.source import PointInTime, Progress, Source, quiet
from zkgroup.audit.report.data import About, report_data
from zkgroup.audit.report.in_columns import ColumnsDrawing
from zkgroup.audit.report.keeping import ReportLimits
from zkgroup.audit.report.page import page
from zkgroup.audit.report.parquet import Drafts, table_of
from zkgroup.audit.report.tables import FINDINGS, TABLES, Give, finding_columns, nowhere
from zkgroup.errors import ConfigError, RefusedError
from zkgroup.zkfiles.health import FileHealth

JSON, PARQUET = "findings.json", "findings.parquet"
"""The files of the findings."""


class ReportPlace(NamedTuple):
    """The places to which a report is written."""

    page: Path
    folder: Path
    """Of findings.json and the Parquet files. Their names are the same for every report."""

    @classmethod
    def of(cls, page: Path, folder: Path | None = None) -> ReportPlace:
        """Without a folder the files are beside the page."""
        return cls(page, page.parent if folder is None else folder)

    def files(self) -> list[Path]:
        """All that may be written."""
        tables = (f"{name}.parquet" for name in TABLES)
        return [self.page, *(self.folder / name for name in (JSON, PARQUET, *tables))]


def require_free(place: ReportPlace, *, overwrite: bool) -> None:
    """Raises RefusedError where a file of the report is there, ConfigError where there is no folder."""
    for folder in (place.page.parent, place.folder):
        if not folder.is_dir():
            raise ConfigError(f"{folder}: expected a folder to write the report into, found none")
    for path in place.files():
        if path.exists() and not overwrite:
            raise RefusedError(
                f"{path}: there is such a file already; name another page, another --data-dir"
                " for the files beside it, or give --overwrite"
            )


def write_report(
    place: ReportPlace, report: AuditReport, rows: Drafts | None = None, *, overwrite: bool = False
) -> list[Path]:
    """Writes the page, `findings.json` and Parquet; gives their paths.

    Each file gets its name when it is complete. `rows` are those that the report was made of. Raises
    RefusedError where a file is there already, ConfigError where it cannot be written.
    """
    require_free(place, overwrite=overwrite)
    html, json_file, table = place.page, place.folder / JSON, place.folder / PARQUET
    _write(html, lambda draft: draft.write_text(page(report.data), encoding="utf-8"))
    text = json_text(findings_document(report.found, report.incidents))
    _write(json_file, lambda draft: draft.write_text(text, encoding="utf-8"))
    findings = table_of(FINDINGS, finding_columns(report.incidents.findings))
    _write(table, lambda draft: pq.write_table(findings, draft))
    return [html, json_file, table, *(() if rows is None else rows.finish())]


def json_text(document: dict[str, Any], indent: str = "  ") -> str:
    """A document with a line for each key, and for each item of its lists."""
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
    """What is written, and what is said beside it."""

    data: dict[str, Any]
    """As the page reads it."""
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
    limits: ReportLimits | None = None,
    give: Give = nowhere,
    progress: Progress = quiet,
    found: Found | None = None,
    files: Callable[[], Iterable[FileHealth]] | None = None,
) -> AuditReport:
    """Findings and page of a source, of rows that are read once; every file is checked, too.

    Args:
        inputs: what the source was opened with; none for a live ensemble.
        give: takes what is shown as rows of `tables.TABLES`.
        found: the findings, where Spark has them; else they are searched for.
        files: how good each file is, where Spark reads them; else they are read here.

    Raises what `engine.audit` raises.
    """
    limits = limits or ReportLimits()
    with closing(ColumnsDrawing(source.rows(start, end), group, limits, give)) as drawing:
        found = audit_rows(source, drawing.audited, ALL_RULES) if found is None else found
        progress("shaping the report")
        seen, drawn = drawing.audited.rows.seen, drawing.drawn()
        about = About(  # behind the rows: reading them shows what is damaged
            inputs=[str(path) for path in inputs] or ["the live ensemble"],
            files=list(health_of(map(Path, inputs), source.history) if files is None else files()),
            group=group,
            seen_zxid=seen.zxid,
            is_exact=seen.is_exact,
            detail=seen.detail,
            damage=source.damages(),
            notes=source.notes(),
        )
    incidents = numbered(found)
    data = report_data(drawn, found, incidents, about, limits)
    return AuditReport(data, found, incidents, about.damage, about.notes)


def _write(path: Path, write: Callable[[Path], object]) -> None:
    """Into a file beside it, which then takes its name."""
    draft = path.with_name(f".{path.name}.part")
    try:
        write(draft)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
