"""Decides from a window of commits whether a consumer keeps up with a partition, by Burrow's rules. Pure.

Source: github.com/linkedin/Burrow, core/internal/evaluator/caching.go at ced55ba9, with its default settings:
a window of ten commits and of ten log ends, no lag allowed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from zkgroup.model import TopicPartition

READS = 10
"""Commits and log ends that a window holds, and reads without which it is not complete."""


class LagVerdict(Enum):
    """The verdict on the lag of one partition; a later one is worse."""

    OK = "ok"
    """There is no lag, or there was none at a commit of the window, or the lag decreased."""
    WARN = "warn"
    """The committed offset grows, and the lag decreased at no commit of the window: too slow a consumer."""
    STOP = "stop"
    """There is lag, and the last commit is longer ago than the window's commits are apart."""
    STALL = "stall"
    """There is lag, and every commit of the window is of the same offset."""
    REWIND = "rewind"
    """There is lag, the committed offset decreased, and it has not reached again what it was."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a window."""

    offset: int
    """The committed offset."""
    time_ms: int
    """The time of the commit, in epoch milliseconds of the server."""
    lag: int | None
    """The lag at the commit, from the log end that was known before it; None if none was known."""


def lag_verdict(commits: Sequence[Commit], log_ends: Iterable[int], lag: int, *, now_ms: int) -> LagVerdict:
    """The verdict on a complete window. `commits` has at least one, the oldest first.

    `log_ends`: the ends at the window's reads, in any order. `lag`: now, in offsets. `now_ms`: in epoch
    milliseconds.
    """
    if lag == 0:
        return LagVerdict.OK
    first, last = commits[0], commits[-1]
    is_silent = now_ms - last.time_ms > last.time_ms - first.time_ms
    if is_silent and all(end > last.offset for end in log_ends):
        return LagVerdict.STOP
    if _is_rewound(commits):
        return LagVerdict.REWIND
    lags = [commit.lag for commit in commits if commit.lag is not None]
    if 0 in lags:
        return LagVerdict.OK
    if all(commit.offset == first.offset for commit in commits):
        return LagVerdict.STALL
    return LagVerdict.OK if any(b < a for a, b in pairwise(lags)) else LagVerdict.WARN


def verdict_of_one_read(lag: int | None) -> LagVerdict | None:
    """The verdict that needs no window: no lag is OK. None: unknown."""
    return LagVerdict.OK if lag == 0 else None


def worst_verdict(verdicts: Iterable[LagVerdict | None]) -> LagVerdict | None:
    """The worst one; None where it would be OK, but one of them is unknown, and where there is none."""
    found = set(verdicts)
    known = [verdict for verdict in LagVerdict if verdict in found]
    worst = known[-1] if known else None
    return None if worst is LagVerdict.OK and None in found else worst


def _is_rewound(commits: Sequence[Commit]) -> bool:
    """Returns whether the first decrease of the offset has not been made up for."""
    for index, (before, after) in enumerate(pairwise(commits), 1):
        if after.offset < before.offset:
            return all(commit.offset < before.offset for commit in list(commits)[index:])
    return False


class LagWindow:
    """The last commits and log ends of one partition of a group, as its reads find them.

    The reads should be equally far apart; commits between two reads count as the last of them.
    """

    __slots__ = ("_commits", "_end_before", "_ends")

    def __init__(self) -> None:
        self._commits: deque[Commit] = deque(maxlen=READS)
        self._ends: deque[int] = deque(maxlen=READS)
        self._end_before: int | None = None

    def read(
        self, offset: int | None, committed_at_ms: int | None, log_end: int | None, *, now_ms: int
    ) -> LagVerdict | None:
        """Adds one read of the partition, and returns the verdict; None while it is unknown.

        The arguments are as in `PartitionDescription`, times in epoch milliseconds. The verdict is unknown
        without an offset or a log end. Until the window has ten commits or ten log ends, only two things are
        certain: no lag is OK, and a decrease of the offset is REWIND.
        """
        end_before, self._end_before = self._end_before, log_end
        if offset is None:
            self._commits.clear()
            return None
        last = self._commits[-1] if self._commits else None
        # A claim hides the time of the last commit: then only another offset shows that there was one.
        if last is None or offset != last.offset or (committed_at_ms or last.time_ms) != last.time_ms:
            lag = None if end_before is None else max(0, end_before - offset)
            self._commits.append(Commit(offset, now_ms if committed_at_ms is None else committed_at_ms, lag))
        if log_end is None:
            return None
        self._ends.append(log_end)
        if log_end <= offset:
            return LagVerdict.OK
        if READS in (len(self._commits), len(self._ends)):
            return lag_verdict(self._commits, self._ends, log_end - offset, now_ms=now_ms)
        return LagVerdict.REWIND if _is_rewound(self._commits) else None


class LagWindows:
    """The windows of the partitions of groups that are read again and again."""

    def __init__(self) -> None:
        self._windows: Mapping[str, Mapping[TopicPartition, LagWindow]] = {}

    def of(
        self, groups: Mapping[str, Iterable[TopicPartition]]
    ) -> Mapping[str, Mapping[TopicPartition, LagWindow]]:
        """The window of each partition of these groups, for one read of it. All others are forgotten."""
        before = self._windows
        self._windows = {
            group: {tp: known.get(tp) or LagWindow() for tp in partitions}
            for group, partitions in groups.items()
            for known in (before.get(group, {}),)
        }
        return self._windows
