"""The names of exports in a folder that is filled again and again, which of them are old, when one is due.

`export-0000000100000019-20260131T140305Z.gz` has the zxid in 16 hex digits, by which the names sort, and the
time in UTC. Files with other names are somebody else's: they are never counted nor removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

_TIME: Final = "%Y%m%dT%H%M%SZ"
_NAME: Final = re.compile(
    r"(?P<half>\.)?export-(?P<zxid>[0-9a-f]{16})-(?P<time>\d{8}T\d{6}Z)\.gz(?(half)\.\w+\.tmp)", re.ASCII
)


class NamedExport(NamedTuple):
    """An export as its name says; ordered by time."""

    time_ms: int
    zxid: int
    name: str
    is_whole: bool
    """False for what a process that was killed has left of one."""


def export_name(zxid: int, time_ms: int | None) -> str:
    """The name of an export of this zxid, of a time since 1970. `time_ms`: None where it is not known."""
    if time_ms is None:
        return f"export-{zxid:016x}.gz"
    return f"export-{zxid:016x}-{datetime.fromtimestamp(time_ms // 1000, UTC):{_TIME}}.gz"


def named_export(name: str) -> NamedExport | None:
    """The export of a name; None for a name that is none of ours, or has no time."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    try:
        moment = datetime.strptime(found["time"], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
    return NamedExport(int(moment.timestamp()) * 1000, int(found["zxid"], 16), name, not found["half"])


def same_zxid(names: Iterable[str], zxid: int) -> str | None:
    """The name among these of an export of this zxid, the first if there are several."""
    untimed = export_name(zxid, None)

    def has_it(name: str) -> bool:
        found = named_export(name)
        return name == untimed or (found is not None and found.is_whole and found.zxid == zxid)

    return min(filter(has_it, names), default=None)


def outdated(names: Iterable[str], now_ms: int, keep_ms: int) -> list[str]:
    """The names of exports that are older than `keep_ms`, the oldest first; never of the newest one."""
    found = sorted(filter(None, map(named_export, names)))
    newest = max((one for one in found if one.is_whole), default=None)
    return [one.name for one in found if one != newest and one.time_ms < now_ms - keep_ms]


def next_due_ms(begun_ms: int, every_ms: int, now_ms: int) -> int:
    """The first time after `now_ms` that is a multiple of `every_ms` from `begun_ms`; others were missed."""
    return begun_ms + ((now_ms - begun_ms) // every_ms + 1) * every_ms
