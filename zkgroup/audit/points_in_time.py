"""Moments of a history: by zxid, or by the leader's clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zkgroup.errors import ConfigError, NotFoundError


class PointInTime(NamedTuple):
    """A place in a history; exactly one of the two is set."""

    zxid: int | None = None
    time_ms: int | None = None
    """By the leader's clock, since 1970."""


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


def is_within(from_zxid: int | None, to_zxid: int | None, zxids: tuple[int, int | None]) -> bool:
    """Whether something was at some time of a range; None is before all and to the end."""
    first, last = zxids
    return (to_zxid is None or to_zxid >= first) and (last is None or (from_zxid or 0) <= last)
