"""Reads of groups: list, describe, verify, preview. Nothing here writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zkgroup.admin.describe import LogEnds, describe_group, summarise_group
from zkgroup.admin.ensemble import AsOf, Ensemble
from zkgroup.admin.expectation import Expectation, expectation
from zkgroup.admin.picture import GroupPicture
from zkgroup.admin.preview import Change, preview_group
from zkgroup.admin.reading import group_names, picture_to_change, read_picture, read_pictures
from zkgroup.admin.values import GroupDescription, GroupState, GroupSummary, Preview, Verification
from zkgroup.admin.verify import find_problems, group_state, needs_second_look
from zkgroup.errors import NotFoundError
from zkgroup.model import TopicPartition

SECOND_LOOK_S = 2.0
"""Pause before the look that tells `rebalancing` from `inconsistent`."""

POLL_S = 0.25
"""Pause between two looks of `--wait`."""

LogEndReader = Callable[[Sequence[TopicPartition]], LogEnds]
"""Asks a record source for the next offset of each partition; those it does not know are absent."""


def list_groups(
    ensemble: Ensemble, log_ends: LogEndReader | None = None
) -> tuple[AsOf, tuple[GroupSummary, ...]]:
    """Every group with its state. Waits 2 s, once for all, when one is wrong and looks still."""
    pictures = read_pictures(ensemble, group_names(ensemble))
    present = {name: picture for name, picture in pictures.items() if picture}
    states = _states(ensemble, present)
    rows = []
    for name, picture in present.items():
        ends = log_ends(sorted(picture.offsets)) if log_ends else None
        rows.append(summarise_group(picture, expectation(picture), states[name], ends))
    return ensemble.as_of(), tuple(rows)


def describe(ensemble: Ensemble, group: str, log_ends: LogEndReader | None = None) -> GroupDescription:
    """One group in full. Raises NotFoundError. Waits 2 s when it is wrong and looks still."""
    picture = read_picture(ensemble, group)
    state = _states(ensemble, {group: picture})[group]
    ends = log_ends(sorted(picture.offsets)) if log_ends else None
    return describe_group(picture, expectation(picture), state, ends)


def verify(ensemble: Ensemble, group: str, *, wait_s: float | None = None) -> Verification:
    """What is wrong with the group now; with `wait_s`, looks again until nothing is or the time is over.

    A wait is also for a group that does not exist yet, and then for its first member: before that there is
    nothing that could be wrong. Raises NotFoundError where there is no group, also at the end of the time.
    """
    deadline_ms = ensemble.clock.now_ms() + int((wait_s or 0) * 1000)
    begins = False
    while True:
        is_last = ensemble.clock.now_ms() >= deadline_ms
        try:
            picture = read_picture(ensemble, group)
        except NotFoundError:
            if is_last:
                raise
            begins = True
        else:
            problems = find_problems(picture, expectation(picture))
            found = Verification(as_of=picture.as_of, group=group, problems=problems)
            has_begun = bool(picture.registrations) or not begins
            if is_last or (found.converged and has_begun):
                return found
        ensemble.pause(POLL_S)


def preview(ensemble: Ensemble, group: str, change: Change) -> Preview:
    """Who would own what after a change that nobody makes here. Raises NotFoundError, ConfigError.

    The group need not exist where the change gives it members.
    """
    topics = sorted(
        {topic for _, threads in change.add for topic in threads or ()} | set(change.add_partitions)
    )
    if not change.add and not change.members:
        return preview_group(read_picture(ensemble, group, topics), change)
    return preview_group(picture_to_change(ensemble, group, topics), change)


def _states(ensemble: Ensemble, pictures: dict[str, GroupPicture]) -> dict[str, GroupState]:
    now_ms = ensemble.clock.wall_ms()
    expected: dict[str, Expectation] = {name: expectation(picture) for name, picture in pictures.items()}
    doubtful = [name for name in pictures if needs_second_look(pictures[name], expected[name], now_ms)]
    later: dict[str, GroupPicture | None] = {}
    if doubtful:
        ensemble.pause(SECOND_LOOK_S)
        later = read_pictures(ensemble, doubtful)
    return {
        name: group_state(picture, expected[name], now_ms=now_ms, later=later.get(name))
        for name, picture in pictures.items()
    }
