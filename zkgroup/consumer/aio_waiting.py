"""Waiting on an event loop, at most until a time of the member's clock (see `model.waiting`)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from zkgroup.model.ports import Clock, DrivenClock
from zkgroup.model.waiting import Sleeper, after, seconds_until

T = TypeVar("T")


async def result_within(clock: Clock, future: Future[T], timeout_s: float) -> T:
    """The future's result. Raises TimeoutError; then, and when it is cancelled, so is the future."""
    if not isinstance(clock, DrivenClock):
        return await asyncio.wait_for(asyncio.wrap_future(future), timeout_s)
    try:
        await clock.await_for(future.done, after(clock, timeout_s))
    finally:
        in_time = not future.cancel()
    if not in_time:
        raise TimeoutError
    return future.result()


async def kept_result_within(clock: Clock, future: Future[T], timeout_s: float) -> T:
    """As `result_within`, and the future goes on whatever becomes of the wait."""
    if not isinstance(clock, DrivenClock):
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), timeout_s)
    await clock.await_for(future.done, after(clock, timeout_s))
    if not future.done():
        raise TimeoutError
    return future.result()


async def wait_for_event(
    clock: Clock, event: asyncio.Event, is_over: Callable[[], object], until_ms: int | None
) -> None:
    """Returns when the event is set, which follows `is_over()`, or the clock has come to `until_ms`."""
    if isinstance(clock, DrivenClock):
        await clock.await_for(is_over, until_ms)
        return
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds_until(clock, until_ms))


async def pause(clock: Clock, seconds: float) -> None:
    """Waits so long on the clock."""
    if isinstance(clock, DrivenClock):
        await clock.await_for(lambda: False, after(clock, seconds))
    else:
        await asyncio.sleep(seconds)


async def in_thread(clock: Clock, name: str, work: Callable[[], T]) -> T:
    """Blocking work on the event loop's executor. On a clock that is driven no time passes while it runs."""
    if not isinstance(clock, DrivenClock):
        return await asyncio.to_thread(work)
    worker = Sleeper(clock, name, lambda: True)  # it never sleeps: what it calls waits on the clock itself
    worker.join()

    def run() -> T:
        worker.worker = threading.get_ident()
        try:
            return work()
        finally:
            worker.leave()

    done = asyncio.get_running_loop().run_in_executor(None, run)
    await clock.await_for(done.done)
    return await done
