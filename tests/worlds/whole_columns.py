"""All rows of a history as columns, where they can be made without objects."""

from __future__ import annotations

from zkgroup.audit.columns.logs import with_ends
from zkgroup.audit.columns.parts import ROWS_PER_PART
from zkgroup.audit.columns.rows import Columns
from zkgroup.audit.source import Rows
from zkgroup.zkfiles.column_replay import NotPlainError


def whole_columns(rows: Rows) -> Columns | None:
    """None where the logs need a closer look."""
    parts = rows.parts(ROWS_PER_PART)
    try:
        return None if parts is None else with_ends(list(parts.logged), parts.before)
    except NotPlainError:
        return None
