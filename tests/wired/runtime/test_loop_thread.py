"""An asyncio loop on a thread of its own: in order, and always at its end in time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.waiting import happened, outcome
from zkgroup.runtime.loop import LoopThread


def test_calls_come_in_order_on_its_thread() -> None:
    """From any thread."""
    thread = LoopThread("loop-of-a-test")
    thread.start()
    seen: list[tuple[int, str]] = []
    done = threading.Event()
    for number in range(100):
        thread.call(lambda number=number: seen.append((number, threading.current_thread().name)))  # type: ignore[misc]
    thread.call(done.set)
    happened(done)
    assert seen == [(number, "loop-of-a-test") for number in range(100)]
    assert thread.stop()


def test_a_coroutine_gives_its_value_or_error() -> None:
    """By a future of the caller's kind."""

    async def half(number: int) -> int:
        await asyncio.sleep(0)
        if number % 2:
            raise ValueError(number)
        return number // 2

    thread = LoopThread("loop-of-a-test")
    thread.start()
    assert outcome(thread.run(half(8))) == 4
    with pytest.raises(ValueError, match="7"):
        outcome(thread.run(half(7)))
    assert thread.stop()


def test_its_end_cancels_what_runs() -> None:
    """Who waits for it is not left waiting."""
    thread = LoopThread("loop-of-a-test")
    thread.start()
    waiting = thread.run(asyncio.Event().wait())
    assert thread.stop()
    assert waiting.cancelled()


def test_nothing_is_done_before_the_start_and_after_the_end() -> None:
    """And no caller waits for it."""
    thread = LoopThread("loop-of-a-test")
    seen: list[int] = []
    for when in ("before", "after"):
        thread.call(seen.append, 1)
        assert thread.run(asyncio.sleep(0)).cancelled()
        assert thread.stop()
        if when == "before":
            thread.start()
            assert thread.stop()
    assert seen == []


def test_the_end_does_not_wait_for_what_blocks_the_loop() -> None:
    """It waits no longer than its timeout."""
    thread = LoopThread("loop-of-a-test")
    thread.start()
    gate = threading.Event()
    thread.call(gate.wait)
    assert not thread.stop(0.01)
    gate.set()
    assert thread.stop()
