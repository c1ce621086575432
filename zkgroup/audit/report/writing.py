"""Writes a report and what goes beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zkgroup.audit.documents import findings_document
from zkgroup.audit.engine import Found
from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.groups import of_group
from zkgroup.audit.incidents.numbered import numbered
from zkgroup.audit.inspection import health_of
from zkgroup.audit.points_in_time import PointInTime
from zkgroup.audit.report import parquet
from zkgroup.audit.report.data import About, Counted, gather
from zkgroup.audit.report.keeping import Limits
from zkgroup.audit.report.page import page
from zkgroup.audit.report.parquet import Drafts
from zkgroup.audit.report.tables import TABLES, Nowhere, Rows
from zkgroup.audit.source import Rows as RangeRows
from zkgroup.audit.source import Source
from zkgroup.errors import ConfigError, RefusedError

FINDINGS = "findings.json"


def require_free(output: Path, *, overwrite: bool) -> None:
    """Raises RefusedError where a file of the report is there, ConfigError where there is no folder."""
    if not output.parent.is_dir():
        raise ConfigError(f"{output.parent}: expected a folder to write the report into, found none")
    for path in _paths(output):
        if path.exists() and not overwrite:
            raise RefusedError(
                f"{path}: there is such a file already; name another folder, or give --overwrite"
            )


@contextmanager
def rows_beside(output: Path) -> Iterator[Drafts | Nowhere]:
    """Takes the rows of `tables.TABLES` for `write_report`, into drafts that are gone when the block ends.

    Without pyarrow they are left out. Raises ConfigError where they cannot be written.
    """
    if not parquet.is_there():
        yield Nowhere()
        return
    with parquet.drafts(output) as drafts:
        yield drafts


def write_report(
    output: Path,
    data: dict[str, Any],
    found: Found,
    rows: Drafts | Nowhere | None = None,
    *,
    overwrite: bool = False,
) -> list[Path]:
    """Writes the page, `findings.json` and, where pyarrow is there, Parquet; gives their paths.

    Each stands under its name once it is whole. `rows` are those that the data were made of. Raises
    RefusedError where a file is there already, ConfigError where it cannot be written.
    """
    require_free(output, overwrite=overwrite)
    html, json_file = output, output.with_name(FINDINGS)
    _write(html, lambda draft: draft.write_text(page(data), encoding="utf-8"))
    told = numbered(found)
    text = json.dumps(findings_document(found, told), indent=2) + "\n"
    _write(json_file, lambda draft: draft.write_text(text, encoding="utf-8"))
    written = [html, json_file]
    if parquet.is_there():
        table = output.with_name(parquet.FINDINGS)
        _write(table, lambda draft: parquet.write_findings(draft, told.findings))
        written.append(table)
    if isinstance(rows, Drafts):
        written += rows.finish()
    return written


def report_of(
    source: Source,
    found: Found,
    inputs: Sequence[Path],
    *,
    start: PointInTime | None = None,
    end: PointInTime | None = None,
    group: str | None = None,
    limits: Limits | None = None,
    rows: Rows | None = None,
) -> dict[str, Any]:
    """The data of a report on one laptop: reads the rows once more, and looks at every file.

    Args:
        found: of the same source and range, so that what its files lack is known by now.
        inputs: what the source was opened with; none for a live ensemble.
        rows: takes what is shown as rows of `tables.TABLES`.
    """
    in_range = source.rows(start, end)
    events, counted = _rows_of(in_range, found.facts, limits or Limits(), group)
    seen = in_range.seen
    about = About(
        inputs=[str(path) for path in inputs] or ["the live ensemble"],
        files=list(health_of(inputs)),
        group=group,
        seen_zxid=seen.zxid,
        is_exact=seen.is_exact,
        detail=seen.detail,
        damages=source.damages(),
        notes=source.notes(),
    )
    return gather(events, found, about, limits, rows, counted)


def _rows_of(
    rows: RangeRows, facts: Facts, limits: Limits, group: str | None
) -> tuple[Iterator[Event], Counted | None]:
    """The rows to show, and with numpy and pyarrow what is counted of all: then some are not among those."""
    try:
        from zkgroup.audit.report.counting import counted
    except ImportError:
        return (rows.events() if group is None else of_group(rows.events(), group)), None
    return counted(rows, facts, limits, group)


def _paths(output: Path) -> list[Path]:
    tables = [parquet.FINDINGS, *(f"{name}.parquet" for name in TABLES)] if parquet.is_there() else []
    return [output, *(output.with_name(name) for name in (FINDINGS, *tables))]


def _write(path: Path, write: Callable[[Path], object]) -> None:
    """Into a file beside it, which then takes its name."""
    draft = path.with_name(f".{path.name}.part")
    try:
        write(draft)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
