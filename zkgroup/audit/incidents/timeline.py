"""Which findings of a list hold at a zxid."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from zkgroup.audit.rules import Finding


class FindingsByZxid:
    """Findings in order, for lookups by zxid. Those of one list overlap seldom."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self._findings = sorted(findings, key=lambda one: one.from_zxid or 0)
        self._starts = [one.from_zxid or 0 for one in self._findings]
        self._longest_until: list[int | None] = []
        """Of the findings up to here: the last zxid that one of them holds at; None for to the end."""
        longest: int | None = -1
        for one in self._findings:
            longest = None if longest is None or one.to_zxid is None else max(longest, one.to_zxid)
            self._longest_until.append(longest)

    def at(self, zxid: int) -> Finding | None:
        """The latest that holds at a zxid."""
        return self.overlapping(zxid, zxid)

    def overlapping(self, from_zxid: int, to_zxid: int | None) -> Finding | None:
        """The latest that has a zxid in common with a range of them; None for `to_zxid` is the end."""
        place = len(self._starts) if to_zxid is None else bisect_right(self._starts, to_zxid)
        for at in range(place - 1, -1, -1):
            until = self._findings[at].to_zxid
            if until is None or until >= from_zxid:
                return self._findings[at]
            longest = self._longest_until[at]
            if longest is not None and longest < from_zxid:
                return None
        return None

    def before(self, zxid: int) -> Finding | None:
        """The latest that begins at or before a zxid."""
        place = bisect_right(self._starts, zxid)
        return self._findings[place - 1] if place else None
