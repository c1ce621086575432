"""Checks groups for a monitor: problems, lag, age of commits, and verdicts over several reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from zkgroup.errors import AccessDeniedError
from zkgroup.groups.descriptions import GroupDescription, PartitionDescription, ProblemKind
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.group_ids import validate_group_id
from zkgroup.groups.lag_verdict import READS, LagVerdict, LagWindow, LagWindows
from zkgroup.groups.membership import LiveReader
from zkgroup.groups.reader import group_names
from zkgroup.groups.reads import LogEndReader, describe_groups
from zkgroup.model import TopicPartition
from zkgroup.model.text import duration_text
from zkgroup.znodes.consumers import group_path


class ReasonKind(Enum):
    """The kinds of reasons for which a group is not ok."""

    UNOWNED = "unowned"
    """A partition of a subscribed topic has no owner."""
    LAG = "lag"
    """The lag is above the limit, or is not known though there is a limit."""
    AGE = "age"
    """The last commit is longer ago than the limit, and the lag is not known to be 0."""
    VERDICT = "verdict"
    """The verdict on the lag is worse than `ok`, or cannot be known without the log end."""
    PROBLEM = "problem"
    """Another problem that `group verify` reports, or the group cannot be read."""
    MISSING = "missing"
    """There is no such group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason why a group is not ok."""

    kind: ReasonKind
    """The kind of the reason."""
    topic: str | None = None
    """The topic; None if the reason is not about one topic."""
    partition: int | None = None
    """The partition number; None if the reason is not about one partition."""
    detail: str
    """For a person: what was found, and what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCheck:
    """The result of the check of one group."""

    group: str
    """The group."""
    reasons: tuple[Reason, ...]
    """All reasons why it is not ok: those of the whole group, then by topic and partition."""

    @property
    def ok(self) -> bool:
        """Returns whether there is no reason."""
        return not self.reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLimits:
    """The limits of a check; what has no limit is not checked."""

    max_lag: int | None = None
    """The largest lag of a partition, in offsets."""
    max_age_ms: int | None = None
    """The longest time since the last commit of a partition that has lag, in milliseconds."""
    window_ms: int | None = None
    """The time over which ten reads are made, for verdicts on the lag; None: one read, which has none."""


VERDICT_TEXTS: Final[Mapping[LagVerdict, str]] = {
    LagVerdict.WARN: "commits grow, and the lag does not decrease",
    LagVerdict.STOP: "no commit for longer than the commits before are apart",
    LagVerdict.STALL: "all commits are of the same offset",
    LagVerdict.REWIND: "the committed offset went back",
}
"""What each verdict but `ok` says, for people."""


def judged(described: Mapping[str, GroupDescription], windows: LagWindows) -> dict[str, GroupDescription]:
    """Adds one read of all groups to their windows, and returns them with their verdicts."""
    of = windows.of(
        {name: [row.topic_partition for row in one.partitions] for name, one in described.items()}
    )
    return {name: replace(one, partitions=tuple(_judged(one, of[name]))) for name, one in described.items()}


def _judged(
    group: GroupDescription, windows: Mapping[TopicPartition, LagWindow]
) -> Iterator[PartitionDescription]:
    for row in group.partitions:
        window, now_ms = windows[row.topic_partition], group.as_of.time_ms
        verdict = window.read(row.offset, row.committed_at_ms, row.log_end_offset, now_ms=now_ms)
        yield row if verdict is row.verdict else replace(row, verdict=verdict)


def read_window(
    ensemble: Ensemble,
    groups: Sequence[str],
    window_ms: int,
    log_ends: LogEndReader | None = None,
    live: LiveReader | None = None,
) -> tuple[dict[str, GroupDescription], Mapping[str, AccessDeniedError]]:
    """The last of ten reads as by `describe_groups`, with verdicts; takes at least the time of the window."""
    windows = LagWindows()
    for _ in range(READS - 1):
        judged(describe_groups(ensemble, groups, log_ends, live)[0], windows)
        ensemble.pause(window_ms / (READS - 1) / 1000)
    described, denied = describe_groups(ensemble, groups, log_ends, live)
    return judged(described, windows), denied


def check_groups(
    ensemble: Ensemble,
    groups: Iterable[str] | None,
    limits: CheckLimits,
    log_ends: LogEndReader | None = None,
    live: LiveReader | None = None,
) -> tuple[AsOf, tuple[GroupCheck, ...]]:
    """Checks these groups, or all (None), by name. Takes the time of the limits' window."""
    names = group_names(ensemble) if groups is None else tuple(sorted(set(groups)))
    if groups is not None:
        for name in names:
            validate_group_id(name)
    if limits.window_ms is None:
        described, denied = describe_groups(ensemble, names, log_ends, live)
    else:
        described, denied = read_window(ensemble, names, limits.window_ms, log_ends, live)
    checks = []
    for name in names:
        if name in described:
            checks.append(GroupCheck(group=name, reasons=tuple(_reasons(described[name], limits))))
        elif name in denied:
            reason = Reason(kind=ReasonKind.PROBLEM, detail=f"cannot be read: {denied[name]}")
            checks.append(GroupCheck(group=name, reasons=(reason,)))
        elif groups is not None:
            detail = f"{group_path(name)}: there is no such group"
            reason = Reason(kind=ReasonKind.MISSING, detail=detail)
            checks.append(GroupCheck(group=name, reasons=(reason,)))
    return ensemble.as_of(), tuple(checks)


def _reasons(group: GroupDescription, limits: CheckLimits) -> Iterator[Reason]:
    for problem in group.problems:
        is_unowned = problem.kind is ProblemKind.UNOWNED
        yield Reason(
            kind=ReasonKind.UNOWNED if is_unowned else ReasonKind.PROBLEM,
            topic=problem.topic,
            partition=problem.partition,
            detail=problem.detail if is_unowned else f"{problem.kind.value}: {problem.detail}",
        )
    for row in group.partitions:
        tp = row.topic_partition
        for kind, detail in _of_partition(row, limits, group.as_of.time_ms):
            yield Reason(kind=kind, topic=tp.topic, partition=tp.partition, detail=f"{tp}: {detail}")


def _of_partition(
    row: PartitionDescription, limits: CheckLimits, now_ms: int
) -> Iterator[tuple[ReasonKind, str]]:
    """The reasons of a partition with a committed offset; one without an offset has no lag."""
    if row.offset is None or row.lag == 0:
        return
    lag = "lag unknown" if row.lag is None else f"lag {row.lag}"
    if limits.max_lag is not None and (row.lag is None or row.lag > limits.max_lag):
        yield ReasonKind.LAG, f"{lag}, expected at most {limits.max_lag}"
    # A claim hides the time of the commit before it: that is older still.
    since_ms = row.owned_since_ms if row.committed_at_ms is None else row.committed_at_ms
    if limits.max_age_ms is not None and since_ms is not None and now_ms - since_ms > limits.max_age_ms:
        ago, most = duration_text(now_ms - since_ms), duration_text(limits.max_age_ms)
        yield ReasonKind.AGE, f"no commit for {ago}, expected one within {most}; {lag}"
    if limits.window_ms is not None and row.lag is None:
        yield ReasonKind.VERDICT, "unknown: where the log ends is not known"
    elif row.verdict is not None and row.verdict is not LagVerdict.OK:
        yield ReasonKind.VERDICT, f"{row.verdict.value}: {VERDICT_TEXTS[row.verdict]}; {lag}"
