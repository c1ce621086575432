"""Moments of a history: by zxid, or by the leader's clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.zkfiles.dates import time_text
from zkgroup.zkfiles.zxids import Hole, hole_between


class PointInTime(NamedTuple):
    """A place in a history; exactly one of the two is set."""

    zxid: int | None = None
    time_ms: int | None = None
    """By the leader's clock, since 1970."""


class Covered(NamedTuple):
    """Holds what is known of a history: its first logged transaction and its last one."""

    first_zxid: int | None
    """None where there is no log."""
    first_ms: int | None
    last_zxid: int
    last_ms: int | None
    """None where the log does not have it."""


def outside_notes(start: PointInTime | None, end: PointInTime | None, covered: Covered) -> Iterator[str]:
    """That a range which is asked for begins before a history or ends behind it, in words."""
    first, first_ms, last, last_ms = covered
    for moment, before in ((start, 1), (end, 0)):
        if moment is None:
            continue
        if moment.zxid is not None:
            is_early = first is not None and moment.zxid < first
            is_early = is_early and hole_between(max(moment.zxid - before, 0), first or 0) is not None
            is_late, text = moment.zxid > last, f"{moment.zxid:#x}"
        else:
            time_ms = moment.time_ms or 0
            is_early = first_ms is not None and time_ms < first_ms
            is_late, text = last_ms is not None and time_ms > last_ms, time_text(time_ms)
        if is_early:
            yield f"the logs begin at {_place(first or 0, first_ms)}, after {text}"
        if is_late:
            yield f"the files end at {_place(last, last_ms)}, before {text}"


def _place(zxid: int, time_ms: int | None) -> str:
    return f"{zxid:#x}" if time_ms is None else f"{zxid:#x} ({time_text(time_ms)})"


def zxid_range(
    start: PointInTime | None, end: PointInTime | None, zxid_at: Callable[[int], int]
) -> tuple[int, int | None]:
    """The first zxid that is asked for, 0 for the first of all, and the last, None for the last of all.

    Args:
        zxid_at: the last transaction at or before a time; raises NotFoundError where all are later.

    Raises ConfigError where the end is before the start, and NotFoundError of the end.
    """
    to_zxid = None if end is None else zxid_of(end, zxid_at)
    from_zxid = 0 if start is None else _first_of(start, zxid_at)
    if to_zxid is not None and to_zxid < from_zxid:
        raise ConfigError(f"expected a range of the history, found its end {to_zxid:#x} before its start")
    return from_zxid, to_zxid


def zxid_of(moment: PointInTime, zxid_at: Callable[[int], int]) -> int:
    """The last transaction at or before it; arguments and errors as of `zxid_range`."""
    if moment.zxid is not None:
        return moment.zxid
    assert moment.time_ms is not None
    return zxid_at(moment.time_ms)


def _first_of(start: PointInTime, zxid_at: Callable[[int], int]) -> int:
    if start.zxid is not None:
        return start.zxid
    assert start.time_ms is not None
    try:
        return zxid_at(start.time_ms - 1) + 1
    except NotFoundError:
        return 0  # the files begin later, so everything in them is behind it


def unlogged_part(
    unlogged: Hole | None,
    last_record: int | None,
    from_zxid: int,
    to_zxid: int | None,
    end: PointInTime | None,
) -> Hole | None:
    """Returns what a range asks for of zxids that are later than all records, as a snapshot shows; None for
    nothing.

    Args:
        from_zxid, to_zxid: of `zxid_range`, and its `end`: by a time behind the last record all may be meant.
    """
    if unlogged is None:
        return None
    is_late = end is not None and end.zxid is None and to_zxid == last_record
    last = unlogged.last_missing if to_zxid is None or is_late else to_zxid
    return unlogged.within(from_zxid, last)


def is_within(from_zxid: int | None, to_zxid: int | None, zxids: tuple[int, int | None]) -> bool:
    """Returns whether something was at some time of a range; None is before all and to the end."""
    first, last = zxids
    return (to_zxid is None or to_zxid >= first) and (last is None or (from_zxid or 0) <= last)
