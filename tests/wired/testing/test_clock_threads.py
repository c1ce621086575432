"""`FakeClock` with threads, blocking calls and asyncio tasks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tests.waiting import becomes, eventually, happened, joined
from zkgroup.consumer.aio import in_thread, pause
from zkgroup.consumer.callbacks import AsyncCallbackRunner, CallbackCall
from zkgroup.model.ports import Sleeper, wait_for
from zkgroup.testing import FakeClock
from zkgroup.testing import clock as clock_module


class Ticker:
    """A thread that works every 100 ms of the clock, and that a test can hold up."""

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
        self.sleeper.worker = threading.get_ident()
        next_ms = self.clock.now_ms() + 100
        while not self.ended:
            self.sleeper.sleep(next_ms, self.bell.wait, self.bell.set)
            self.bell.clear()
            if self.clock.now_ms() >= next_ms:
                happened(self.free)
                self.times.append(self.clock.now_ms())
                next_ms += 100
        self.sleeper.leave()

    def end(self) -> None:
        self.ended = True
        self.free.set()
        self.bell.set()
        joined(self.thread)


@pytest.fixture
def ticker() -> Iterator[Ticker]:
    ticker = Ticker(FakeClock(now_ms=0))
    yield ticker
    ticker.end()


def test_no_timer_of_a_thread_is_late(ticker: Ticker) -> None:
    """The clock waits for the thread before each step: ten times ten seconds, each in time."""
    ticker.clock.advance(10_000)
    assert ticker.times == list(range(100, 10_001, 100))


def test_the_clock_waits_for_a_thread_that_works(ticker: Ticker) -> None:
    """No time passes meanwhile, and the error of a wait names the thread."""
    clock = ticker.clock
    clock.wait_quiet()
    ticker.free.clear()
    moving = threading.Thread(target=clock.advance, args=(1_000,))
    moving.start()
    becomes(clock.now_ms, 100)

    with pytest.raises(TimeoutError, match="these still work: ticker"):
        clock.wait_quiet(0.05)
    assert (clock.now_ms(), ticker.times) == (100, [])
    ticker.free.set()
    joined(moving)
    assert ticker.times == list(range(100, 1_001, 100))


def test_a_thread_in_aside_is_not_waited_for() -> None:
    """Otherwise no time could pass until the thread returns."""
    clock, free, inside = FakeClock(now_ms=0), threading.Event(), threading.Event()
    sleeper = Sleeper(clock, "worker", lambda: False)

    def work() -> None:
        sleeper.worker = threading.get_ident()
        with clock.aside():
            inside.set()
            happened(free)

    thread = threading.Thread(target=work)
    sleeper.join()
    thread.start()
    happened(inside)
    clock.advance(50)
    assert clock.now_ms() == 50
    free.set()
    joined(thread)
    with pytest.raises(TimeoutError, match="still work: worker"):
        clock.wait_quiet(0.01)


def test_advancing_until_something_is_true_goes_no_further(ticker: Ticker) -> None:
    """The clock advances from waiter to waiter, and skips none."""
    ticker.clock.advance_until(lambda: len(ticker.times) == 7)
    assert ticker.clock.now_ms() == 700


def test_the_error_of_a_failed_advance_names_the_condition(ticker: Ticker) -> None:
    """It fails after a limit of this clock's time; without waiters it fails after real time."""
    with pytest.raises(TimeoutError, match="the condition; 5000 ms of the clock have passed"):
        ticker.clock.advance_until(lambda: False, "the condition", max_ms=5000, timeout_s=0.01)
    assert ticker.clock.now_ms() == 5000
    alone = FakeClock(now_ms=0)
    with pytest.raises(TimeoutError, match="; 0 ms of the clock"):
        alone.advance_until(lambda: False, timeout_s=0.01)


def test_a_jump_does_not_wait_for_threads(ticker: Ticker) -> None:
    """As when the machine slept: the thread finds the clock that much later."""
    ticker.clock.wait_quiet()
    ticker.clock.jump(1050)
    ticker.clock.wait_quiet()
    assert ticker.times == [1050] * 10
    with pytest.raises(ValueError, match="go back"):
        ticker.clock.jump(-1)


def test_two_threads_may_advance_at_once(ticker: Ticker) -> None:
    """Neither thread waits for the other, and the ticker is in time for both."""
    threads = [threading.Thread(target=ticker.clock.advance, args=(1000,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        joined(thread)
    assert ticker.times[:10] == list(range(100, 1001, 100))


def test_a_blocking_call_moves_the_clock(ticker: Ticker) -> None:
    """It advances the clock to its condition, at most to its timeout; other threads are in time."""
    clock = ticker.clock
    assert wait_for(clock, lambda: len(ticker.times) == 3, 10_000, pytest.fail)
    assert clock.now_ms() == 300
    assert not wait_for(clock, lambda: False, 1_050, pytest.fail)
    assert clock.now_ms() == 1_050
    assert ticker.times == list(range(100, 1_001, 100))


def test_a_call_on_another_thread_waits_until_the_clock_is_moved() -> None:
    """Otherwise two threads of a test would both move the clock."""
    clock, over = FakeClock(now_ms=0), threading.Event()
    thread = threading.Thread(target=lambda: (wait_for(clock, lambda: False, 700, pytest.fail), over.set()))
    thread.start()
    clock.advance_until(lambda: bool(clock._waiters) or over.is_set())
    clock.advance(699)
    assert not over.is_set()
    clock.advance_until(over.is_set)
    assert clock.now_ms() == 700
    joined(thread)


def test_a_call_without_a_thread_that_moves_the_clock_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for ever; in `moving_here()` it moves the clock itself."""
    monkeypatch.setattr(clock_module, "STANDSTILL_S", 0.01)
    clock = FakeClock(now_ms=0)
    raised: list[str] = []

    def call() -> None:
        try:
            wait_for(clock, lambda: False, 700, pytest.fail)
        except RuntimeError as error:
            raised.append(str(error))
        with clock.moving_here():
            wait_for(clock, lambda: False, 700, pytest.fail)

    thread = threading.Thread(target=call)
    thread.start()
    joined(thread)
    assert [text.partition(":")[0] for text in raised] == [
        "a call with a timeout has waited for 0.01 s and no thread moved the clock"
    ]
    assert clock.now_ms() == 700


def test_the_clock_waits_for_a_call_whose_condition_is_true() -> None:
    """From that moment no time passes until the call has returned."""
    clock, news, go_on = FakeClock(now_ms=0), threading.Event(), threading.Event()
    seen_ms: list[int] = []

    def call() -> None:
        wait_for(clock, news.is_set, None, pytest.fail)
        seen_ms.append(clock.now_ms())
        happened(go_on)

    def arrive() -> None:
        news.set()

    thread = threading.Thread(target=call)
    thread.start()
    eventually(lambda: clock._parties._parties)
    clock.call_at(50, arrive)
    clock.advance(1000)
    assert seen_ms == [50]
    go_on.set()
    joined(thread)


def test_the_clock_advances_on_a_running_event_loop() -> None:
    """Coroutines that pause on it are in time; nothing blocks the loop."""
    clock, times = FakeClock(now_ms=0), list[int]()

    async def every_100_ms() -> None:
        while True:
            await pause(clock, 0.1)
            times.append(clock.now_ms())

    async def main() -> None:
        task = asyncio.create_task(every_100_ms())
        await asyncio.sleep(0)  # the task has begun
        begun_ms = clock.now_ms()
        await clock.advance_async(1_000)
        assert clock.now_ms() == begun_ms + 1_000
        await clock.advance_until_async(lambda: len(times) == 15)
        with pytest.raises(TimeoutError, match="the condition; 300 ms of the clock"):
            await clock.advance_until_async(lambda: False, "the condition", max_ms=300, timeout_s=0.01)
        task.cancel()

    asyncio.run(main())
    assert times[:15] == list(range(100, 1_501, 100))


def test_a_blocked_event_loop_raises_an_error_with_advice() -> None:
    """A callback on the loop could never end while the loop's thread waits for it."""
    clock = FakeClock(now_ms=0)

    async def main() -> None:
        runner, over = AsyncCallbackRunner(asyncio.get_running_loop(), clock), asyncio.Event()
        runner.submit(CallbackCall("on_assigned", lambda: None, lambda _: over.set()))
        with pytest.raises(RuntimeError, match="advance_async"):
            clock.advance(100)
        await clock.advance_async(100)
        assert over.is_set()
        runner.cancel_late()

    asyncio.run(main())
    assert clock.now_ms() == 100


def test_no_time_passes_while_work_of_an_event_loop_runs_in_a_thread() -> None:
    """But timers that the work waits for are called."""
    clock = FakeClock(now_ms=0)

    def work() -> tuple[int, int]:
        begun_ms = clock.now_ms()
        wait_for(clock, lambda: False, begun_ms + 500, pytest.fail)
        return begun_ms, clock.now_ms()

    async def main() -> tuple[int, int]:
        return await in_thread(clock, "work", work)

    assert asyncio.run(main()) == (0, 500)
    assert clock.now_ms() == 500
