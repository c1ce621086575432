"""The thread on which the application's callbacks run: one at a time, in order, off everybody's way.

Python cannot stop a thread. A callback that overstays is therefore *left behind*: its thread goes on
by itself and later callbacks run on a fresh one. Neither a rebalance nor `close()` ever waits for it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from zkgroup.model.ports import Clock, DrivenClock
from zkgroup.model.waiting import after, wait_for

Done = Callable[[BaseException | None], None]


@dataclass(eq=False, slots=True)
class Call:
    """One callback to run."""

    name: str
    run: Callable[[], object]
    done: Done
    """Called once when `run` has ended, with its error, however late; only enqueues."""


class CallbackRunner(Protocol):
    """Runs the callbacks of one member. `CallbackWorker` and its asyncio twin implement it."""

    def submit(self, call: Call) -> None:
        """Queue a callback; returns at once."""
        ...

    def leave_behind(self, call: Call) -> bool:
        """Do not wait for this callback. True if it had begun (it runs on), False if it never will."""
        ...

    @property
    def running(self) -> Call | None:
        """The callback that runs now."""
        ...

    def is_inside(self) -> bool:
        """True when the caller is inside one of this runner's callbacks."""
        ...

    def stop(self, timeout_s: float) -> bool:
        """End the worker once its queue is empty; False when a callback still runs after the timeout."""
        ...


class CallbackWorker:
    """`CallbackRunner` on a thread that is started by the first callback. All methods are thread-safe.

    On a `DrivenClock` it is a `Party`: no time passes while a callback runs, unless it waits on that clock.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._open = 0
        """Callbacks that are queued, run, or have yet to be reported."""
        self.turns = 0
        self._leave = clock.join(self) if isinstance(clock, DrivenClock) else lambda: None
        self._lock = threading.Lock()
        self._filled = threading.Condition(self._lock)
        self._queue: deque[Call] = deque()
        self._running: Call | None = None
        self._thread: threading.Thread | None = None
        self._inside = threading.local()
        self._started = 0
        self._stopped = False

    def submit(self, call: Call) -> None:
        with self._lock:
            self._queue.append(call)
            self._open += 1
            if self._thread is None:
                self._start_thread()
            self._filled.notify()

    def leave_behind(self, call: Call) -> bool:
        with self._lock:
            if call in self._queue:
                self._queue.remove(call)
                self._has_ended()
                return False
            if self._running is not call:
                return True
            self._has_ended()
            self._running = None
            self._thread = None
            if self._queue:
                self._start_thread()
            return True

    @property
    def running(self) -> Call | None:
        return self._running

    def is_inside(self) -> bool:
        return getattr(self._inside, "active", False)

    def stop(self, timeout_s: float) -> bool:
        with self._lock:
            self._stopped = True
            self._filled.notify_all()
            thread = self._thread
        if thread is None or thread is threading.current_thread():
            self._leave()
            return True
        ended = wait_for(
            self._clock, lambda: not thread.is_alive(), after(self._clock, timeout_s), thread.join
        )
        self._leave()
        return ended

    # --- Party ------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        running = self._running
        return f"{self._name}-callbacks" + (f" ({running.name})" if running is not None else "")

    @property
    def worker(self) -> object:
        thread = self._thread
        return thread.ident if thread is not None else None

    def is_quiet(self) -> bool:
        with self._lock:
            return self._open == 0

    def _has_ended(self) -> None:
        self._open -= 1
        self.turns += 1

    # --- the thread -------------------------------------------------------------------------------

    def _start_thread(self) -> None:
        self._started += 1
        name = f"{self._name}-callbacks-{self._started}"
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def _take(self) -> Call | None:
        """Waits for the next call; None when this thread is no longer the worker or all is done."""
        me = threading.current_thread()
        with self._lock:
            while self._thread is me:
                if self._queue:
                    self._running = self._queue.popleft()
                    return self._running
                if self._stopped:
                    self._thread = None
                    return None
                self._filled.wait()
            return None

    def _work(self) -> None:
        self._inside.active = True
        while (call := self._take()) is not None:
            error: BaseException | None = None
            try:
                call.run()
            except BaseException as raised:  # noqa: BLE001 - the application's; reported, never swallowed
                error = raised
            with self._lock:
                left_behind = self._running is not call
                if not left_behind:
                    self._running = None
            call.done(error)
            if left_behind:
                return
            with self._lock:
                self._has_ended()
