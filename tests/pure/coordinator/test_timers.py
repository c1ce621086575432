"""Timers: moving a deadline touches no heap, and each fires once, at its last deadline."""

from __future__ import annotations

import random

from zkgroup.coordinator.context import STALE_MAX, TimerQueue
from zkgroup.coordinator.group import Timer


class Fired:
    """Timers by name, and the names in the order in which they fired."""

    def __init__(self) -> None:
        self.queue = TimerQueue()
        self.names: list[str] = []

    def timer(self, name: str, at_ms: int) -> Timer:
        timer = Timer(lambda: self.names.append(name))
        self.queue.set(timer, at_ms)
        return timer

    def advance(self, now_ms: int) -> list[str]:
        self.names.clear()
        for timer in self.queue.due(now_ms):
            timer.on_expiry()
        return list(self.names)


def test_timers_fire_in_the_order_of_their_deadlines() -> None:
    """And not before."""
    fired = Fired()
    for name, at_ms in (("c", 30), ("a", 10), ("b", 20)):
        fired.timer(name, at_ms)

    assert [fired.advance(now) for now in (9, 10, 30)] == [[], ["a"], ["b", "c"]]
    assert fired.queue.next_deadline_ms() is None


def test_a_timer_that_moves_on_keeps_its_one_entry() -> None:
    """A heartbeat moves a number: a thousand of them leave one entry, pushed again when it comes up."""
    fired = Fired()
    timer = fired.timer("a", 500)
    for now in range(1000):
        fired.queue.set(timer, now + 500)

    assert len(fired.queue) == 1
    assert fired.queue.next_deadline_ms() == 500
    assert fired.advance(600) == []
    assert fired.queue.next_deadline_ms() == 1499
    assert [fired.advance(now) for now in (1498, 1499, 5000)] == [[], ["a"], []]


def test_a_timer_that_moves_forward_fires_earlier_and_once() -> None:
    """The new member's five minutes give way to its session."""
    fired = Fired()
    timer = fired.timer("a", 300_000)
    fired.queue.set(timer, 500)

    assert fired.advance(500) == ["a"]
    assert fired.advance(400_000) == []


def test_a_cancelled_timer_does_not_fire() -> None:
    """And may be set again."""
    fired = Fired()
    timer = fired.timer("a", 10)
    fired.queue.cancel(timer)
    assert fired.advance(20) == []

    fired.queue.set(timer, 30)
    assert fired.advance(30) == ["a"]


def test_a_timer_may_set_and_cancel_others_when_it_fires() -> None:
    """Those that are due already fire in the same step."""
    queue, names = TimerQueue(), list[str]()
    late = Timer(lambda: names.append("late"))
    gone = Timer(lambda: names.append("gone"))

    def first() -> None:
        queue.set(late, 5)
        queue.cancel(gone)

    queue.set(Timer(first), 1)
    queue.set(gone, 2)
    for timer in queue.due(10):
        timer.on_expiry()

    assert names == ["late"]


def test_stale_entries_are_dropped_before_they_outnumber_the_others() -> None:
    """Members that come and go leave entries of five minutes each."""
    fired = Fired()
    kept = fired.timer("kept", 400_000)
    for _ in range(10 * STALE_MAX):
        fired.queue.cancel(fired.timer("gone", 300_000))

    assert len(fired.queue) < 2 * STALE_MAX
    assert kept.queued_ms == 400_000
    assert fired.advance(400_000) == ["kept"]


def test_any_order_of_changes_fires_what_a_plain_table_would() -> None:
    """Against a dictionary that is searched at each step."""
    draw = random.Random(7)
    fired, table = Fired(), dict[str, int]()
    timers = {name: fired.timer(name, 0) for name in "abcdefgh"}
    fired.advance(0)
    for now in range(1, 3000):
        name = draw.choice("abcdefgh")
        if draw.random() < 0.2:
            fired.queue.cancel(timers[name])
            table.pop(name, None)
        else:
            table[name] = now + draw.randrange(60)
            fired.queue.set(timers[name], table[name])
        due = sorted(each for each, at in table.items() if at <= now)

        assert sorted(fired.advance(now)) == due
        for each in due:
            del table[each]
