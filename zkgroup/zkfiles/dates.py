"""Times as texts, for documents and errors alike."""

from __future__ import annotations

from datetime import UTC, datetime


def iso_time(epoch_ms: int) -> str | None:
    """ISO-8601 UTC with milliseconds; None for a time that no calendar has."""
    try:
        moment = datetime.fromtimestamp(epoch_ms // 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    # Not by strftime, which takes four times as long: a document has a time or two in each row.
    return f"{moment.isoformat()[:19]}.{epoch_ms % 1000:03d}Z"


def time_text(epoch_ms: int) -> str:
    """The same for an error; milliseconds where no calendar has the time."""
    return iso_time(epoch_ms) or f"{epoch_ms} ms since 1970"
