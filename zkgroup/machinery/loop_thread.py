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

log = logging.getLogger("zkgroup.machinery")

T = TypeVar("T")


class LoopThread:
    """Starts with `start`, ends with `stop`. Every method may be called from any thread."""

    def __init__(self, name: str) -> None:
        self._name = name
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
            asyncio.run(self._main())
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._over.wait()
