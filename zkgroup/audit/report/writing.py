"""Writes a report and what goes beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, NamedTuple

from zkgroup.audit.answers.inspection import health_of
from zkgroup.audit.documents import findings_document
from zkgroup.audit.findings.all_rules import ALL_RULES
from zkgroup.audit.findings.engine import Found, audit_rows
from zkgroup.audit.incidents.attribution import numbered
from zkgroup.audit.incidents.incident import FoundIncidents
from zkgroup.audit.inputs.points_in_time import PointInTime
from zkgroup.audit.inputs.progress import Progress, quiet
from zkgroup.audit.inputs.source import Source
from zkgroup.audit.report import parquet
from zkgroup.audit.report.data import About, report_data
from zkgroup.audit.report.in_columns import ColumnsDrawing
from zkgroup.audit.report.keeping import ReportLimits
from zkgroup.audit.report.page import page
from zkgroup.audit.report.parquet import Drafts
from zkgroup.audit.report.tables import TABLES, Nowhere, RowSink
from zkgroup.errors import ConfigError, RefusedError

FINDINGS = "findings.json"


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
        return [self.page, *(self.folder / name for name in (FINDINGS, parquet.FINDINGS, *tables))]


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


def rows_beside(place: ReportPlace) -> AbstractContextManager[Drafts]:
    """Takes the rows of `tables.TABLES` for `write_report`, into drafts that are gone when the block ends.

    Raises ConfigError where they cannot be written.
    """
    return parquet.drafts(place.folder)


def write_report(
    place: ReportPlace, report: AuditReport, rows: Drafts | None = None, *, overwrite: bool = False
) -> list[Path]:
    """Writes the page, `findings.json` and Parquet; gives their paths.

    Each file gets its name when it is complete. `rows` are those that the report was made of. Raises
    RefusedError where a file is there already, ConfigError where it cannot be written.
    """
    require_free(place, overwrite=overwrite)
    html, json_file = place.page, place.folder / FINDINGS
    _write(html, lambda draft: draft.write_text(page(report.data), encoding="utf-8"))
    text = json_text(findings_document(report.found, report.incidents))
    _write(json_file, lambda draft: draft.write_text(text, encoding="utf-8"))
    table = place.folder / parquet.FINDINGS
    _write(table, lambda draft: parquet.write_findings(draft, report.incidents.findings))
    return [html, json_file, table, *(() if rows is None else rows.finish())]


def json_text(document: dict[str, Any]) -> str:
    """A document with a line for each key, and for each item of its lists."""
    keys = []
    for key, value in document.items():
        text = json.dumps(value)
        if isinstance(value, list) and value:
            text = "[\n    " + ",\n    ".join(map(json.dumps, value)) + "\n  ]"
        keys.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(keys) + "\n}\n"


class AuditReport(NamedTuple):
    """Holds what is written."""

    data: dict[str, Any]
    """As the page reads it."""
    found: Found
    incidents: FoundIncidents


def report_of(
    source: Source,
    inputs: Sequence[Path],
    *,
    start: PointInTime | None = None,
    end: PointInTime | None = None,
    group: str | None = None,
    limits: ReportLimits | None = None,
    rows: RowSink | None = None,
    progress: Progress = quiet,
) -> AuditReport:
    """Findings and page of a source, of rows that are read once; every file is checked, too.

    Args:
        inputs: what the source was opened with; none for a live ensemble.
        rows: takes what is shown as rows of `tables.TABLES`.

    Raises what `engine.audit` raises.
    """
    limits = limits or ReportLimits()
    with closing(ColumnsDrawing(source.rows(start, end), group, limits, rows or Nowhere())) as drawing:
        found = audit_rows(source, drawing, ALL_RULES)
        progress("shaping the report")
        seen = drawing.rows.seen
        about = About(
            inputs=[str(path) for path in inputs] or ["the live ensemble"],
            files=list(health_of(inputs, source.history)),
            group=group,
            seen_zxid=seen.zxid,
            is_exact=seen.is_exact,
            detail=seen.detail,
            damage=source.damages(),
            notes=source.notes(),
        )
        drawn = drawing.drawn()
    incidents = numbered(found)
    return AuditReport(report_data(drawn, found, incidents, about, limits), found, incidents)


def _write(path: Path, write: Callable[[Path], object]) -> None:
    """Into a file beside it, which then takes its name."""
    draft = path.with_name(f".{path.name}.part")
    try:
        write(draft)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
