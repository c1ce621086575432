"""Writes a report and what goes beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from zkgroup.audit.documents import findings_document
from zkgroup.audit.inspection import health_of
from zkgroup.audit.report import parquet
from zkgroup.audit.report.data import About, gather
from zkgroup.audit.report.keeping import Limits
from zkgroup.audit.report.page import page
from zkgroup.audit.run import Found, of_group
from zkgroup.audit.sources import Moment, Source
from zkgroup.errors import ConfigError, RefusedError

FINDINGS = "findings.json"


def require_free(output: Path, *, overwrite: bool) -> None:
    """Raises RefusedError where a file of the report is there, ConfigError where there is no folder."""
    if not output.parent.is_dir():
        raise ConfigError(f"{output.parent}: expected a folder to write the report into, found none")
    for path in _paths(output):
        if path.exists() and not overwrite:
            raise RefusedError(
                f"{path}: there is such a file already; name another folder, or say --overwrite"
            )


def write_report(output: Path, data: dict[str, Any], found: Found, *, overwrite: bool = False) -> list[Path]:
    """Writes the page, `findings.json` and, where pyarrow is there, `findings.parquet`; gives their paths.

    Each stands under its name once it is whole. Raises RefusedError where one is there already, ConfigError
    where it cannot be written.
    """
    require_free(output, overwrite=overwrite)
    html, json_file, *tables = _paths(output)
    _write(html, lambda draft: draft.write_text(page(data), encoding="utf-8"))
    text = json.dumps(findings_document(found), indent=2) + "\n"
    _write(json_file, lambda draft: draft.write_text(text, encoding="utf-8"))
    for table in tables:
        _write(table, lambda draft: parquet.write_findings(draft, found.findings))
    return [html, json_file, *tables]


def report_of(
    source: Source,
    found: Found,
    inputs: Sequence[Path],
    *,
    start: Moment | None = None,
    end: Moment | None = None,
    group: str | None = None,
    limits: Limits | None = None,
) -> dict[str, Any]:
    """The data of a report on one laptop: reads the rows once more, and looks at every file.

    Args:
        found: of the same source and stretch, so that what its files lack is known by now.
        inputs: what the source was opened with; none for a living ensemble.
    """
    rows = source.rows(start, end)
    events = rows.events() if group is None else of_group(rows.events(), group)
    seen = rows.seen
    about = About(
        inputs=[str(path) for path in inputs] or ["the living ensemble"],
        files=list(health_of(inputs)),
        group=group,
        seen_zxid=seen.zxid,
        is_exact=seen.is_exact,
        detail=seen.detail,
        damages=source.damages(),
        notes=source.notes(),
    )
    return gather(events, found, about, limits)


def _paths(output: Path) -> list[Path]:
    tables = [output.with_name(parquet.FINDINGS)] if parquet.is_there() else []
    return [output, output.with_name(FINDINGS), *tables]


def _write(path: Path, write: Callable[[Path], object]) -> None:
    """Into a file beside it, which then takes its name."""
    draft = path.with_name(f".{path.name}.part")
    try:
        write(draft)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
