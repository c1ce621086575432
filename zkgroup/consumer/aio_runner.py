"""The listener's coroutines: `CallbackRunner` on the event loop of an asyncio face."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque

from zkgroup.consumer.worker import Call

log = logging.getLogger("zkgroup.consumer")


class AsyncRunner:
    """Runs one callback at a time as a task; a late one is left behind and cancelled at the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._queue: deque[Call] = deque()
        self._running: Call | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- CallbackRunner: any thread ---------------------------------------------------------------

    def submit(self, call: Call) -> None:
        with self._lock:
            self._queue.append(call)
        self._wake(call)

    def leave_behind(self, call: Call) -> bool:
        with self._lock:
            if call in self._queue:
                self._queue.remove(call)
                return False
            if self._running is call:
                self._running = None
        self._wake(None)
        return True

    @property
    def running(self) -> Call | None:
        return self._running

    def is_inside(self) -> bool:
        try:
            return asyncio.current_task() in self._tasks
        except RuntimeError:  # no event loop runs on this thread
            return False

    def stop(self, timeout_s: float) -> bool:
        """Nothing to end: tasks end by themselves; see `cancel_late`."""
        return True

    def _wake(self, call: Call | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._pump)
        except RuntimeError as error:  # the loop was closed under a living member
            if call is not None:
                call.done(error)

    # --- the event loop ---------------------------------------------------------------------------

    def _pump(self) -> None:
        with self._lock:
            if self._running is not None or not self._queue:
                return
            call = self._running = self._queue.popleft()
        task = self._loop.create_task(self._run(call), name=f"zkgroup-{call.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, call: Call) -> None:
        error: BaseException | None = None
        try:
            result = call.run()
            if inspect.isawaitable(result):
                await result
        except BaseException as raised:  # noqa: BLE001 - the application's; reported, never swallowed
            error = raised
        with self._lock:
            if self._running is call:
                self._running = None
        call.done(error)
        self._pump()

    def cancel_late(self) -> None:
        """Cancels the callbacks that were left behind; called on the event loop when the member has ended."""
        with self._lock:
            self._queue.clear()
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()
