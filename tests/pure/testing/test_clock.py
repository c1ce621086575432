"""`FakeClock` without threads, and `wait_until`."""

from __future__ import annotations

import threading

import pytest

from zkgroup.testing import FakeClock, wait_until


def test_time_passes_only_when_advanced() -> None:
    """Monotonic and wall time advance together."""
    clock = FakeClock(now_ms=100, wall_ms=5000)
    clock.advance(25)
    assert (clock.now_ms(), clock.wall_ms()) == (125, 5025)


def test_waiters_are_called_in_order_at_their_time() -> None:
    """Each waiter is called at its own time, also one that another waiter registered; later ones stay."""
    clock = FakeClock(now_ms=0)
    calls: list[tuple[str, int]] = []

    def note(name: str) -> None:
        calls.append((name, clock.now_ms()))

    def early() -> None:
        note("early")
        clock.call_at(15, lambda: note("nested"))

    clock.call_at(20, lambda: note("late"))
    clock.call_at(10, early)
    clock.call_at(21, lambda: note("never"))
    clock.advance(20)
    assert calls == [("early", 10), ("nested", 15), ("late", 20)]


def test_a_waiter_can_be_cancelled() -> None:
    """Once, twice, and after it was called."""
    clock = FakeClock(now_ms=0)
    calls: list[int] = []
    cancel = clock.call_at(10, lambda: calls.append(10))
    cancel()
    cancel()
    called = clock.call_at(5, lambda: calls.append(5))
    clock.advance(100)
    called()
    assert calls == [5]


def test_a_time_that_has_come_is_called_at_once() -> None:
    """A waiter for a past time is called without an advance."""
    clock = FakeClock(now_ms=10)
    calls: list[int] = []
    clock.call_at(10, lambda: calls.append(1))
    assert calls == [1]


def test_time_does_not_go_back() -> None:
    """The wall clock may jump, which changes nothing else."""
    clock = FakeClock(now_ms=10, wall_ms=1000)
    with pytest.raises(ValueError, match="go back"):
        clock.advance(-1)
    clock.step_wall(-500)
    assert (clock.now_ms(), clock.wall_ms()) == (10, 500)


def test_waiting_ends_with_the_condition_or_says_why() -> None:
    """Another thread makes the condition true; if none does, the error has the message."""
    event = threading.Event()
    thread = threading.Thread(target=event.set)
    thread.start()
    wait_until(event.is_set)
    thread.join()
    with pytest.raises(TimeoutError, match="the cows come home"):
        wait_until(lambda: False, 0.01, "the cows come home")
