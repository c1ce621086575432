"""max_poll_interval_ms: a poll and the check of the interval may run at the same time."""

from __future__ import annotations

from typing import ClassVar

import pytest

from zkgroup.consumer.consumer_engine import PollMonitor

INTERVAL_MS = 2000


@pytest.fixture
def polls() -> PollMonitor:
    polls = PollMonitor()
    polls.start(0)
    return polls


def test_an_interval_without_a_poll_is_reported_once(polls: PollMonitor) -> None:
    """Also where the application never polled."""
    looks = [polls.check(now_ms, INTERVAL_MS) for now_ms in (1999, 2000, 9000)]

    assert looks == [False, True, False]


def test_a_poll_under_way_is_no_pause(polls: PollMonitor) -> None:
    """However long it waits; the interval counts from its end."""
    polls.begin()
    during = polls.check(9000, INTERVAL_MS)
    polls.end(9000)

    assert (during, polls.check(10_999, INTERVAL_MS), polls.check(11_000, INTERVAL_MS)) == (
        False,
        False,
        True,
    )


def test_the_next_poll_reports_the_exceeded_interval(polls: PollMonitor) -> None:
    """Once: then the interval begins anew."""
    polls.check(INTERVAL_MS, INTERVAL_MS)

    assert polls.begin()
    assert (polls.back(), polls.back()) == (True, False)
    assert not polls.check(9000, INTERVAL_MS)


def test_a_poll_that_begins_during_the_check_counts(polls: PollMonitor) -> None:
    """It has not reported its return, so the member must not leave: it would never rejoin."""
    told = []

    class Looked(int):
        """A time whose subtraction marks the moment between the check and the decision."""

        def __rsub__(self, other: int) -> int:
            told.append(polls.begin())
            return other - int(self)

    polls.start(Looked(0))

    assert not polls.check(INTERVAL_MS, INTERVAL_MS)
    assert told == [False]
    assert not polls.is_overdue


def test_a_check_while_a_long_poll_ends_sees_it() -> None:
    """Whichever of what the end of the poll writes is there already."""

    class Watched(PollMonitor):
        """Runs the check after each single write."""

        looks: ClassVar[list[bool]] = []
        is_watched = False

        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if self.is_watched:
                self.looks.append(9000 - self.since_ms(9000) >= INTERVAL_MS)

    polls = Watched()
    polls.start(0)
    polls.begin()
    polls.__dict__["is_watched"] = True
    polls.end(9000)

    assert polls.looks == [False, False]
