"""The parts of a zxid: the leader's epoch in the upper half, a count within it in the lower."""

from __future__ import annotations

from typing import NamedTuple


def epoch_of(zxid: int) -> int:
    """The epoch of the leader; 0 of a server alone."""
    return zxid >> 32


def follows(zxid: int, before: int) -> bool:
    """True if nothing can be missing between two zxids: each epoch counts from 1 without a gap."""
    return zxid == before + 1 or (epoch_of(zxid) > epoch_of(before) and zxid & 0xFFFFFFFF == 1)


class Hole(NamedTuple):
    """Zxids that must have been, and are in no file; both ends are missing."""

    first_missing: int
    last_missing: int

    def within(self, first: int, last: int) -> Hole | None:
        """The part of it from one zxid to another, both included; None where there is none."""
        part = Hole(max(self.first_missing, first), min(self.last_missing, last))
        return part if part.first_missing <= part.last_missing else None

    @property
    def text(self) -> str:
        """What is missing, in words."""
        if self.first_missing == self.last_missing:
            return f"zxid {self.first_missing:#x} is missing"
        return f"zxids {self.first_missing:#x} to {self.last_missing:#x} are missing"


def hole_between(before: int, zxid: int) -> Hole | None:
    """The hole between two zxids that follow each other in the files; None where nothing is missing."""
    if zxid <= before or follows(zxid, before):
        return None
    first = before + 1 if epoch_of(zxid) == epoch_of(before) else epoch_of(zxid) << 32 | 1
    return Hole(first, zxid - 1)
