"""The clock that stands still, and the wait for others."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from zkgroup.model.waiting import Sleeper
from zkgroup.testing import FakeClock, wait_until


def test_time_passes_only_when_told() -> None:
    """Both readings move together."""
    clock = FakeClock(now_ms=100, wall_ms=5000)
    clock.advance(25)
    assert (clock.now_ms(), clock.wall_ms()) == (125, 5025)


def test_waiters_are_called_in_order_at_their_time() -> None:
    """Each sees its own time, also one that was registered by another; later ones wait on."""
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
    """Nobody has to advance for it."""
    clock = FakeClock(now_ms=10)
    calls: list[int] = []
    clock.call_at(10, lambda: calls.append(1))
    assert calls == [1]


def test_time_does_not_go_back() -> None:
    """But the wall clock may jump, which moves nothing else."""
    clock = FakeClock(now_ms=10, wall_ms=1000)
    with pytest.raises(ValueError, match="go back"):
        clock.advance(-1)
    clock.step_wall(-500)
    assert (clock.now_ms(), clock.wall_ms()) == (10, 500)


def test_waiting_ends_with_the_condition_or_says_why() -> None:
    """Another thread makes it true; where nobody does, the message is in the error."""
    event = threading.Event()
    thread = threading.Thread(target=event.set)
    thread.start()
    wait_until(event.is_set, 10)
    thread.join()
    with pytest.raises(TimeoutError, match="the cows come home"):
        wait_until(lambda: False, 0.01, "the cows come home")


class Ticker:
    """A thread that works every 100 ms of the clock, and holds its work up for as long as it is told."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.times: list[int] = []
        self.free, self.bell = threading.Event(), threading.Event()
        self.free.set()
        self.ended = False
        self.sleeper = Sleeper(clock, "ticker", self.bell.is_set)
        self.thread = threading.Thread(target=self._run)
        self.sleeper.join()
        self.thread.start()

    def _run(self) -> None:
        self.sleeper.thread_id = threading.get_ident()
        next_ms = self.clock.now_ms() + 100
        while not self.ended:
            self.sleeper.sleep(next_ms, self.bell.wait, self.bell.set)
            self.bell.clear()
            if self.clock.now_ms() >= next_ms:
                self.free.wait(30)
                self.times.append(self.clock.now_ms())
                next_ms += 100
        self.sleeper.leave()

    def end(self) -> None:
        self.ended = True
        self.free.set()
        self.bell.set()
        self.thread.join(30)


@pytest.fixture
def ticker() -> Iterator[Ticker]:
    ticker = Ticker(FakeClock(now_ms=0))
    yield ticker
    ticker.end()


def test_no_timer_of_a_thread_is_late(ticker: Ticker) -> None:
    """The clock waits until the thread has worked before it goes on: ten times ten seconds, each in time."""
    ticker.clock.advance(10_000)
    assert ticker.times == list(range(100, 10_001, 100))


def test_the_clock_waits_for_a_thread_that_works(ticker: Ticker) -> None:
    """Time stands still meanwhile, and a thread that never comes back is named."""
    ticker.free.clear()
    with pytest.raises(TimeoutError, match="these threads still work: ticker"):
        ticker.clock.advance_until(lambda: False, timeout_s=0.05)
    assert ticker.clock.now_ms() == 100
    assert ticker.times == []


def test_a_thread_that_waits_for_the_test_is_left_aside() -> None:
    """Else time could not go on until it returns."""
    clock, free, inside = FakeClock(now_ms=0), threading.Event(), threading.Event()
    sleeper = Sleeper(clock, "worker", lambda: False)

    def work() -> None:
        sleeper.thread_id = threading.get_ident()
        with clock.aside():
            inside.set()
            free.wait(30)

    thread = threading.Thread(target=work)
    sleeper.join()
    thread.start()
    assert inside.wait(30)
    clock.advance(50)
    assert clock.now_ms() == 50
    free.set()
    thread.join()
    with pytest.raises(TimeoutError, match="still work: worker"):
        clock.wait_quiet(0.01)


def test_advancing_until_something_is_true_goes_no_further(ticker: Ticker) -> None:
    """From waiter to waiter; nothing that waits is passed over."""
    ticker.clock.advance_until(lambda: len(ticker.times) == 7)
    assert ticker.clock.now_ms() == 700


def test_advancing_in_vain_says_for_what(ticker: Ticker) -> None:
    """After a bound of this clock's time; what waits no more gets real time only."""
    with pytest.raises(TimeoutError, match="the bells; 5000 ms of the clock have passed"):
        ticker.clock.advance_until(lambda: False, "the bells", max_ms=5000, timeout_s=0.01)
    assert ticker.clock.now_ms() == 5000
    alone = FakeClock(now_ms=0)
    with pytest.raises(TimeoutError, match="; 0 ms of the clock"):
        alone.advance_until(lambda: False, timeout_s=0.01)


def test_a_jump_asks_no_thread(ticker: Ticker) -> None:
    """As when the machine slept: the thread finds itself so much later."""
    ticker.clock.wait_quiet()
    ticker.clock.jump(1050)
    ticker.clock.wait_quiet()
    assert ticker.times == [1050] * 10
    with pytest.raises(ValueError, match="go back"):
        ticker.clock.jump(-1)


def test_two_threads_may_advance_at_once(ticker: Ticker) -> None:
    """Neither waits for the other, and the thread is in time for both."""
    threads = [threading.Thread(target=ticker.clock.advance, args=(1000,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert ticker.times[:10] == list(range(100, 1001, 100))
