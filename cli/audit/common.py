"""What the commands of `zkgroup audit` share: their documents, sessions and spans."""

from __future__ import annotations

from typing import Any

from zkgroup.admin.verify import hex_session

from ..documents import Json
from ..units import iso_time

EXIT_CHECK_FAILED = 3


def document(name: str, zxid: int | None, time_ms: int | None, **fields: Any) -> Json:
    """A whole document; `zxid` and `time_ms` are of the last transaction that was looked at."""
    as_of = {"zxid": max(zxid or 0, 0), "time": iso_time(time_ms)}
    return {"schema": f"zkgroup.{name}/1", "as_of": as_of, **fields}


def hex_zxid(zxid: int | None) -> str | None:
    """As ZooKeeper's own tools write it."""
    return None if zxid is None else f"0x{zxid:x}"


def session_text(session: int | None) -> str | None:
    """As ZooKeeper's own tools write it; None for nobody."""
    return hex_session(session) if session else None


def span(from_zxid: int | None, to_zxid: int | None, from_ms: int | None, to_ms: int | None) -> Json:
    """From when to when; what lasts to the end has no `to`."""
    return {
        "from_zxid": from_zxid,
        "to_zxid": to_zxid,
        "from": iso_time(from_ms),
        "to": iso_time(to_ms),
    }
