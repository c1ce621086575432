"""The age of what was read; apart from the connection, whose import takes long."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AsOf:
    """The age of a snapshot: nothing in it is newer than `zxid`."""

    zxid: int
    """The last zxid that the session had seen after the read."""
    time_ms: int
    """Wall time of this process after the read, in epoch milliseconds."""
