"""An event loop on a fake clock: its timers are the clock's, and no time passes while it has work."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from tests.waiting import happened, outcome
from zkgroup.runtime.clock_loop import party_beside
from zkgroup.runtime.loop import LoopThread
from zkgroup.testing.clock import FakeClock
from zkgroup.zookeeper.client import SystemClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def thread(clock: FakeClock) -> Iterator[LoopThread]:
    made = LoopThread("loop-of-a-test", clock)
    made.start()
    yield made
    assert made.stop()


def after(clock: FakeClock, thread: LoopThread, work: Coroutine[Any, Any, Any]) -> tuple[Any, int]:
    """What a coroutine gives, or raises, and how many ms of the clock that took."""
    begun_ms = clock.now_ms()
    future = thread.run(work)
    clock.advance_until(future.done)
    return future.exception() or future.result(), clock.now_ms() - begun_ms


def test_half_an_hour_is_slept_in_no_time(clock: FakeClock, thread: LoopThread) -> None:
    """And the loop's own time is the clock's."""

    async def slept() -> float:
        begun = asyncio.get_running_loop().time()
        await asyncio.sleep(1800.0005)
        return asyncio.get_running_loop().time() - begun

    assert after(clock, thread, slept()) == (pytest.approx(1800.001), 1_800_001)


def test_a_timeout_ends_on_the_clock(clock: FakeClock, thread: LoopThread) -> None:
    """Not before, and not long after."""

    async def wait() -> None:
        async with asyncio.timeout(0.25):
            await asyncio.Event().wait()

    error, passed_ms = after(clock, thread, wait())
    assert (type(error), passed_ms) == (TimeoutError, 250)


def test_time_stands_still_until_a_sleeper_is_moved(clock: FakeClock, thread: LoopThread) -> None:
    """Only the test moves the clock."""
    over = threading.Event()

    async def rest() -> None:
        await asyncio.sleep(1)
        over.set()

    thread.run(rest())
    clock.wait_quiet()
    clock.advance(999)
    assert not over.is_set()
    clock.advance(1)
    happened(over)


def test_no_time_passes_while_bytes_are_unread(clock: FakeClock, thread: LoopThread) -> None:
    """Two loops talk over sockets, a hundred times, with a timeout of a millisecond for each answer."""
    other = LoopThread("its-peer", clock)
    other.start()
    one, two = socket.socketpair()

    async def echo() -> None:
        reader, writer = await asyncio.open_connection(sock=two)
        while piece := await reader.read(10):
            writer.write(piece)
        writer.close()
        await writer.wait_closed()

    async def ask() -> int:
        reader, writer = await asyncio.open_connection(sock=one)
        for _ in range(100):
            writer.write(b"x")
            async with asyncio.timeout(0.001):
                await reader.readexactly(1)
        writer.close()
        await writer.wait_closed()
        return 100

    echoing = other.run(echo())
    assert after(clock, thread, ask()) == (100, 0)
    outcome(echoing)
    assert other.stop()


def test_no_time_passes_while_an_executor_works(clock: FakeClock, thread: LoopThread) -> None:
    """What runs there has as long as it needs."""
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        happened(go_on)

    async def wait() -> str:
        async with asyncio.timeout(1):
            await asyncio.to_thread(work)
        return "done"

    future = thread.run(wait())
    happened(begun)
    with pytest.raises(TimeoutError, match="these still work: loop-of-a-test"):
        clock.wait_quiet(0.01)
    go_on.set()
    clock.advance_until(future.done)
    assert outcome(future) == "done"


def test_on_a_clock_that_goes_by_itself_the_loop_is_asyncios_own() -> None:
    """Nothing takes part in anything there."""
    thread = LoopThread("plain", SystemClock())
    thread.start()

    async def look() -> tuple[str, object]:
        loop = asyncio.get_running_loop()
        return type(loop).__module__, party_beside(loop, "nobody", bool)

    module, party = outcome(thread.run(look()))
    assert (module.partition(".")[0], party) == ("asyncio", None)
    assert thread.stop()
