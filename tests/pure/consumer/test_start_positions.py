"""When the source is asked again for the start of a partition, and how long the others wait meanwhile."""

from __future__ import annotations

from zkgroup.consumer.fetcher import RESOLVE_AGAIN_S, RESOLVE_MAX_S, RESOLVE_S, StartPositions
from zkgroup.model import TopicPartition

A, B, C = (TopicPartition("orders", number) for number in range(3))
LATE_MS = 1_000_000


def test_what_was_not_come_to_is_asked_for_at_once_and_first() -> None:
    """It was not asked yet, so it has no part in the pause of what was; the pause over, it goes first."""
    starts = StartPositions()
    assert starts.due([A, B], 0) == [A, B]
    starts.tried([A], [A], 0)

    assert starts.due([A, B], 0) == [B]
    assert starts.due([A, B], LATE_MS) == [B, A]


def test_of_those_that_failed_the_one_that_waits_longest_is_first() -> None:
    """One that takes all the time there is does not keep the others from being asked."""
    starts = StartPositions()
    asked = []
    for round_ in range(6):
        first = starts.due([A, B, C], round_ * LATE_MS)[0]
        starts.tried([first], [first], round_ * LATE_MS)
        asked.append(first)

    assert asked == [A, B, C, A, B, C]


def test_the_others_wait_a_short_time_for_what_was_asked_for_in_vain() -> None:
    """Now and then a long one again: there are sources that answer slowly. New ones get the long one."""
    starts = StartPositions()
    limits = []
    for _ in range(7):
        limits.append(starts.limit_s([A], others_wait=True))
        starts.tried([A], [A], 0)
    short = [RESOLVE_AGAIN_S] * 4

    assert limits == [RESOLVE_S, *short, RESOLVE_S, RESOLVE_AGAIN_S]
    assert starts.limit_s([A, B], others_wait=True) == RESOLVE_S


def test_without_a_waiter_the_source_has_more_time_each_time() -> None:
    """Up to a bound, however long that goes on."""
    starts = StartPositions()
    limits = []
    for _ in range(2000):
        limits.append(starts.limit_s([A], others_wait=False))
        starts.tried([A], [A], 0)

    assert limits[:4] == [RESOLVE_S, 2 * RESOLVE_S, 4 * RESOLVE_S, 8 * RESOLVE_S]
    assert set(limits[4:]) == {RESOLVE_MAX_S}
