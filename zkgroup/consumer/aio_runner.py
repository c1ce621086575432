"""The listener's coroutines: `CallbackRunner` on the event loop of an asyncio face."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque

from zkgroup.consumer.worker import Call
from zkgroup.model.ports import Clock, DrivenClock

log = logging.getLogger("zkgroup.consumer")


class AsyncRunner:
    """Runs one callback at a time as a task; a late one is left behind and cancelled at the end.

    On a `DrivenClock` it is a `Party`: no time passes while a callback runs, unless it waits on that clock.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.event_loop = loop
        self._open = 0
        """Callbacks that are queued, run, or have yet to be reported."""
        self.turns = 0
        self._task: asyncio.Task[None] | None = None
        """Of the callback that runs."""
        self._leave = clock.join(self) if isinstance(clock, DrivenClock) else lambda: None
        self._lock = threading.Lock()
        self._queue: deque[Call] = deque()
        self._running: Call | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- CallbackRunner: any thread ---------------------------------------------------------------

    def submit(self, call: Call) -> None:
        with self._lock:
            self._queue.append(call)
            self._open += 1
        self._wake(call)

    def leave_behind(self, call: Call) -> bool:
        with self._lock:
            if call in self._queue:
                self._queue.remove(call)
                self._has_ended()
                return False
            if self._running is call:
                self._running = self._task = None
                self._has_ended()
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
            self.event_loop.call_soon_threadsafe(self._pump)
        except RuntimeError as error:  # the loop was closed under a living member
            if call is not None:
                call.done(error)
            self._leave()

    # --- Party ------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        running = self._running
        return "the event loop's callbacks" + (f" ({running.name})" if running is not None else "")

    @property
    def worker(self) -> object:
        return self._task

    def is_quiet(self) -> bool:
        with self._lock:
            return self._open == 0

    def _has_ended(self) -> None:
        self._open -= 1
        self.turns += 1

    # --- the event loop ---------------------------------------------------------------------------

    def _pump(self) -> None:
        with self._lock:
            if self._running is not None or not self._queue:
                return
            call = self._running = self._queue.popleft()
        task = self._task = self.event_loop.create_task(self._run(call), name=f"zkgroup-{call.name}")
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
            left_behind = self._running is not call
            if not left_behind:
                self._running = self._task = None
        call.done(error)
        if not left_behind:
            with self._lock:
                self._has_ended()
        self._pump()

    def cancel_late(self) -> None:
        """Cancels the callbacks that were left behind; called on the event loop when the member has ended."""
        self._leave()
        with self._lock:
            self._queue.clear()
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()
