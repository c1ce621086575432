"""Times as texts, for documents and errors alike."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def iso_time(epoch_ms: int) -> str | None:
    """ISO-8601 UTC with milliseconds; None for a time that no calendar has."""
    text = _second_text(epoch_ms // 1000)
    return None if text is None else f"{text}.{epoch_ms % 1000:03d}Z"


@lru_cache(maxsize=1 << 12)
def _second_text(epoch_s: int) -> str | None:
    """A second. Results are cached: a document has a time or two in each row, many of the same second."""
    try:
        moment = datetime.fromtimestamp(epoch_s, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    return moment.isoformat()[:19]  # strftime would take four times as long


def time_text(epoch_ms: int) -> str:
    """The same for an error; milliseconds where no calendar has the time."""
    return iso_time(epoch_ms) or f"{epoch_ms} ms since 1970"
