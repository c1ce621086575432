"""An asyncio loop on a thread of its own, for a shell that talks to many peers at once.

The thread that owns a machine never waits for a socket: it hands what is to be sent over to this one, and is
told of answers by entries in its queue.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from zkgroup.machinery.clock_loop import loop_factory
from zkgroup.model.ports import Clock, DrivenClock
from zkgroup.model.waiting import after

log = logging.getLogger("zkgroup.machinery")

T = TypeVar("T")


class LoopThread:
    """Starts with `start`, ends with `stop`. Every method may be called from any thread."""

    def __init__(self, name: str, clock: Clock | None = None) -> None:
        """`clock`: whose time the loop has, where that is driven."""
        self._name = name
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Returns once the loop runs."""
        self._thread.start()
        self._ready.wait()

    def call(self, callback: Callable[..., object], *arguments: object) -> None:
        """Has the loop call this, in the order given; nothing happens once the loop is over."""
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            log.debug("%s is over: %s is not called", self._name, callback)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Runs a coroutine on the loop; the future is cancelled where the loop is over or ends before."""
        if self._loop is not None and self._thread.is_alive():
            try:
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            except RuntimeError:
                log.debug("%s is over: %s is not run", self._name, coroutine)
        coroutine.close()
        nobody: Future[T] = Future()
        nobody.cancel()
        return nobody

    def result(self, future: Future[T], timeout_s: float | None = None) -> T:
        """Waits for a future of `run`, on the loop's clock. Raises TimeoutError."""
        if not isinstance(self._clock, DrivenClock):
            return future.result(timeout_s)
        self._clock.wait_for(future.done, None if timeout_s is None else after(self._clock, timeout_s))
        return future.result(0)

    def stop(self, timeout_s: float = 5.0) -> bool:
        """Cancels what runs on the loop and waits for the thread; whether it ended in time."""
        if self._over is not None:
            self.call(self._over.set)
        if self._thread is threading.current_thread() or not self._thread.ident:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory(self._clock, self._name)) as runner:
                runner.run(self._main())
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._over.wait()
