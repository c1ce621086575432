"""Many in a short time."""

from __future__ import annotations

from zkgroup.audit.findings.rules import FullWindow, Occurrence, full_windows


def windows_of(times: list[int], *, enough: int, window_ms: int) -> list[FullWindow]:
    """The window of moments at these times; their zxids count from 1."""
    moments = [Occurrence(zxid, time_ms) for zxid, time_ms in enumerate(times, 1)]
    return list(full_windows(moments, enough, window_ms))


def test_a_burst_lasts_as_long_as_every_window_has_enough() -> None:
    """Far longer than the window; its end is the last moment that was dense."""
    times = [*range(0, 100, 5), 500]

    assert windows_of(times, enough=3, window_ms=10) == [FullWindow(Occurrence(1, 0), Occurrence(20, 95), 20)]


def test_the_window_has_both_its_ends() -> None:
    """Exactly as long is still within."""
    assert len(windows_of([0, 5, 10], enough=3, window_ms=10)) == 1
    assert windows_of([0, 5, 11], enough=3, window_ms=10) == []


def test_a_moment_belongs_to_one_burst_only() -> None:
    """What ended one may begin the next; those before it are used up."""
    assert windows_of([0, 1, 2, 12, 12], enough=3, window_ms=10) == [
        FullWindow(Occurrence(1, 0), Occurrence(3, 2), 3)
    ]
    assert windows_of([0, 1, 2, 12, 12, 13], enough=3, window_ms=10) == [
        FullWindow(Occurrence(1, 0), Occurrence(3, 2), 3),
        FullWindow(Occurrence(4, 12), Occurrence(6, 13), 3),
    ]
    assert windows_of([0, 1, 2, 20, 21, 22], enough=3, window_ms=10) == [
        FullWindow(Occurrence(1, 0), Occurrence(3, 2), 3),
        FullWindow(Occurrence(4, 20), Occurrence(6, 22), 3),
    ]


def test_a_clock_that_steps_back_takes_no_time() -> None:
    """Durations below zero count as none."""
    assert len(windows_of([100, 50, 60], enough=3, window_ms=10)) == 1


def test_one_can_be_enough() -> None:
    """Then each calm ends a full window."""
    assert [each.times for each in windows_of([0, 50, 51], enough=1, window_ms=10)] == [1, 2]
