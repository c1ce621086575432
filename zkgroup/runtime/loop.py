"""Threads with event loops: `MachineLoop` owns a machine, `LoopThread` runs an asyncio loop.

Only the machine's thread steps the machine and performs its effects, in order. All others enqueue:
ZooKeeper's callbacks, the callback worker, the application's threads and signal handlers
(`queue.SimpleQueue.put` is reentrant, so a handler may interrupt another put). The loss of a session is
handled before all queued events, which must not act on a dead session.

Without its thread the loop runs by `run_pending()`, which the simulator and the tests use with a
clock of their own. It never sleeps: it waits for the next entry, at most until its next timer.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar, assert_never

from zkgroup.errors import StoreUnavailableError
from zkgroup.model.ports import Clock, Instant, Sleeper, Store, after, is_driven
from zkgroup.model.requests import (
    Connected,
    Exists,
    ListChildren,
    Lost,
    Outcome,
    Read,
    SessionEvent,
    Suspended,
)
from zkgroup.runtime.clock_loop import loop_factory
from zkgroup.runtime.events import (
    Answered,
    CancelTimer,
    SessionConnected,
    SessionLost,
    SessionSuspended,
    SetTimer,
    SharedEffect,
    SharedEvent,
    Submit,
    TimerFired,
    WatchFired,
)
from zkgroup.runtime.logs import get_logger

log = get_logger("zkgroup.runtime")

REQUESTS_MAX = 10_000
"""Most requests of the application in the queue. Replies need no bound: each belongs to a request."""

Task = Callable[[], None]


V = TypeVar("V")
E = TypeVar("E")
V_contra = TypeVar("V_contra", contravariant=True)
E_co = TypeVar("E_co", covariant=True)


class Machine(Protocol[V_contra, E_co]):
    """A machine as the loop uses it; `V` are its own events, `_E` its own effects."""

    def step(self, event: V_contra | SharedEvent, now: Instant) -> Sequence[E_co | SharedEffect]: ...


class MachineLoop(Generic[V, E]):
    """The queue, the timers and the thread of one machine."""

    def __init__(
        self,
        machine: Machine[V, E],
        store: Store,
        clock: Clock,
        *,
        perform: Callable[[E], None],
        after_step: Callable[[], None],
        on_crash: Callable[[BaseException], None],
        name: str,
    ) -> None:
        self._machine = machine
        self._store = store
        self._clock = clock
        self._perform_other = perform
        self._after_step = after_step
        self._on_crash = on_crash
        self._inbox: deque[V | SharedEvent | Task] = deque()
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()
        """One for each entry and each other reason to wake. Waiting takes no entry out of the inbox."""
        self._urgent: deque[SessionLost] = deque()
        self._waiting: deque[V | SharedEvent | Task] = deque()
        self._turn = 0
        self._turn_over = False
        self._timers: dict[str, int] = {}
        self._alarms: dict[str, tuple[int, Task]] = {}
        self._commit_ids = itertools.count(1)
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._sleeper = Sleeper(clock, name, self._has_news)
        self._name = name
        self._unlisten: Callable[[], None] | None = None
        self.over: Future[None] = Future()
        """Done when the thread has ended its work."""

    def post(self, entry: V | SharedEvent | Task) -> None:
        """Enqueues an event, or work for the loop's thread. Never blocks; safe in a signal handler."""
        self._inbox.append(entry)
        self._wakeups.put(None)

    def beat(self) -> Future[None]:
        """A future that is done once the thread has come to what is posted now: it neither hangs nor has
        ended."""
        beat: Future[None] = Future()
        self.post(lambda: beat.set_result(None))
        return beat

    def request(self, entry: V | SharedEvent | Task) -> None:
        """`post` for the application. Raises StoreUnavailableError when `REQUESTS_MAX` requests wait."""
        if len(self._inbox) > REQUESTS_MAX:
            raise StoreUnavailableError(f"{self._name}: more than {REQUESTS_MAX} requests wait to be handled")
        self.post(entry)

    def new_id(self) -> int:
        """A number that this loop has not used before (commit ids)."""
        return next(self._commit_ids)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"{self._name}-loop", daemon=True)
        self._sleeper.join()
        self._thread.start()

    def listen(self) -> None:
        """Registers for the store's session events, which are queued from now on."""
        self._unlisten = self._store.listen(self._on_session)

    def is_inside(self) -> bool:
        return threading.current_thread() is self._thread

    def join(self, timeout_s: float) -> bool:
        """Waits for the thread's end; whether it has ended."""
        if self._thread is None or self.is_inside():
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def has_ended(self) -> bool:
        """Returns whether it was started and its thread is over."""
        return self._thread is not None and not self._thread.is_alive()

    def _on_session(self, event: SessionEvent) -> None:
        self.post(session_event(event))

    def schedule(self, name: str, at_ms: int, task: Task) -> None:
        """Runs a task of the runtime at this time; replaces one of the same name."""
        self._alarms[name] = (at_ms, task)

    def unschedule(self, name: str) -> None:
        self._alarms.pop(name, None)

    def step(self, event: V | SharedEvent) -> None:
        """Gives the machine one event and performs its effects, before anything else is handled."""
        now = Instant(self._clock.now_ms(), self._clock.wall_ms())
        for effect in self._machine.step(event, now):
            self._perform(effect)

    def stop(self) -> None:
        """Stops handling entries; the thread ends."""
        self._stopped = True
        self._timers.clear()
        self._alarms.clear()
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None
        self._wakeups.put(None)

    def run_tasks_left(self) -> None:
        """Runs the tasks that came after `stop`, so that their callers get a result."""
        self._drain()
        for entry in self._waiting:
            if callable(entry):
                entry()
        self._waiting.clear()

    def run_pending(self, limit: int = 100_000) -> int:
        """Handles everything that is due now, without waiting; returns how many entries that were."""
        handled = 0
        while not self._stopped and handled < limit:
            self._drain()
            entry = self._next()
            if entry is None:
                break
            self._handle(entry)
            handled += 1
        return handled

    @property
    def has_work(self) -> bool:
        """Returns whether `run_pending` would handle anything now."""
        if self._stopped:
            return False
        if self._inbox or self._urgent or self._waiting:
            return True
        at_ms = self.next_timer_ms
        return at_ms is not None and at_ms <= self._clock.now_ms()

    @property
    def next_timer_ms(self) -> int | None:
        """The time of the next timer, on the loop's clock."""
        times = [*self._timers.values(), *(at for at, _ in self._alarms.values())]
        return min(times, default=None)

    def _run(self) -> None:
        self._sleeper.worker = threading.get_ident()
        try:
            while not self._stopped:
                self.run_pending()
                if not self._stopped:
                    self._wait()
        except BaseException as error:  # the top of the thread: the machine's owner ends and reports it
            log.exception("%s: stopped by an error of its own", self._name, extra={"raised": True})
            self.stop()
            self._on_crash(error)
        finally:
            self._sleeper.leave()
            self.over.set_result(None)

    def _wait(self) -> None:
        if self._waiting:  # more than one `run_pending` handles
            return
        self._sleeper.sleep(self.next_timer_ms, self._await_wakeup, lambda: self._wakeups.put(None))

    def _await_wakeup(self, timeout_s: float) -> None:
        with contextlib.suppress(queue.Empty):
            self._wakeups.get(timeout=timeout_s)

    def _has_news(self) -> bool:
        return bool(self._inbox) or self._stopped

    def _drain(self) -> None:
        while not self._wakeups.empty():  # first, so that a later wakeup is kept for its entry
            self._wakeups.get_nowait()
        while self._inbox:
            self._sort(self._inbox.popleft())

    def _sort(self, entry: V | SharedEvent | Task) -> None:
        """Queues an entry; the loss of a session replaces all earlier session events."""
        if isinstance(entry, SessionLost):
            self._urgent.append(entry)
            self._waiting = deque(item for item in self._waiting if not _older(item, entry.incarnation))
            self._turn = min(self._turn, len(self._waiting))
        else:
            self._waiting.append(entry)

    def _next(self) -> V | SharedEvent | Task | None:
        """The next entry: session losses first; then queued entries and due timers, in turns.

        After a pause of the process the replies that came meanwhile are handled before the timers that would
        give them up. A timer waits for at most the entries that were queued when it was due.
        """
        if self._urgent:
            return self._urgent.popleft()
        if self._turn_over and (due := self._due()) is not None:
            return due
        self._turn_over = False
        if not self._waiting:
            return self._due()
        self._turn = (self._turn or len(self._waiting)) - 1
        self._turn_over = self._turn == 0
        return self._waiting.popleft()

    def _due(self) -> V | SharedEvent | Task | None:
        """Removes and returns the earliest timer that is due."""
        at_ms = self.next_timer_ms
        if at_ms is None or at_ms > self._clock.now_ms():
            return None
        for name, at in self._timers.items():
            if at == at_ms:
                del self._timers[name]
                return TimerFired(name)
        name = next(name for name, (at, _) in self._alarms.items() if at == at_ms)
        return self._alarms.pop(name)[1]

    def _handle(self, entry: V | SharedEvent | Task) -> None:
        if callable(entry):
            entry()
        else:
            self.step(entry)
        self._after_step()

    def _perform(self, effect: E | SharedEffect) -> None:
        match effect:
            case Submit():
                submit(self._store, effect, self.post)
            case SetTimer(name, at_ms):
                self._timers[name] = at_ms
            case CancelTimer(name):
                self._timers.pop(name, None)
            case _:
                self._perform_other(effect)


def _older(entry: V | SharedEvent | Task, incarnation: int) -> bool:
    """Returns whether the loss of this incarnation makes a session event obsolete."""
    match entry:
        case SessionConnected(session):
            return session.incarnation <= incarnation
        case SessionSuspended(suspended):
            return suspended <= incarnation
        case _:
            return False


T = TypeVar("T")


class LoopThread:
    """An asyncio event loop on its own thread, from `start` to `stop`. Thread-safe."""

    def __init__(
        self,
        name: str,
        clock: Clock | None = None,
        make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        """
        Args:
            clock: the clock of the loop, if it is a driven one.
            make_loop: makes the event loop; None: a loop of the clock, else asyncio's own.
        """
        self._name = name
        self._clock = clock
        self._make_loop = make_loop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Returns once the loop runs."""
        self._thread.start()
        self._ready.wait()

    def call(self, callback: Callable[..., object], *arguments: object) -> None:
        """Calls the callback on the loop, in the order of the calls; does nothing once the loop has ended."""
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            log.debug("%s has ended: %s is not called", self._name, callback)

    def beat(self) -> Future[None]:
        """As `MachineLoop.beat`; cancelled if the loop has ended."""
        return self.run(asyncio.sleep(0))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Runs a coroutine on the loop; the future is cancelled if the loop ends before it."""
        if self._loop is not None and self._thread.is_alive():
            try:
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            except RuntimeError:
                log.debug("%s has ended: %s is not run", self._name, coroutine)
        coroutine.close()
        cancelled: Future[T] = Future()
        cancelled.cancel()
        return cancelled

    def result(self, future: Future[T], timeout_s: float | None = None) -> T:
        """The result of a future of `run`, waited for on the loop's clock. Raises TimeoutError."""
        if not is_driven(self._clock):
            return future.result(timeout_s)
        self._clock.wait_for(future.done, None if timeout_s is None else after(self._clock, timeout_s))
        return future.result(0)

    def stop(self, timeout_s: float = 5.0) -> bool:
        """Cancels all tasks of the loop and waits for the thread; whether it ended in time."""
        if self._over is not None:
            self.call(self._over.set)
        if self._thread is threading.current_thread() or not self._thread.ident:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with asyncio.Runner(
                loop_factory=self._make_loop or loop_factory(self._clock, self._name)
            ) as runner:
                runner.run(self._main())
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._over.wait()


def submit(store: Store, ask: Submit, post: Callable[[Answered | WatchFired], None]) -> None:
    """Performs `Submit`. The store's threads call `post` with the events."""

    def on_outcome(outcome: Outcome) -> None:
        post(Answered(ask.request_id, outcome))

    def on_watch(path: str) -> None:
        post(WatchFired(ask.request_id, path))

    watched = isinstance(ask.request, Read | ListChildren | Exists) and ask.request.watch
    store.submit(
        ask.request,
        incarnation=ask.incarnation,
        on_outcome=on_outcome,
        on_watch=on_watch if watched else None,
    )


def session_event(event: SessionEvent) -> SessionConnected | SessionSuspended | SessionLost:
    """A session event of the store as an event of a machine."""
    match event:
        case Connected(session):
            return SessionConnected(session)
        case Suspended(incarnation):
            return SessionSuspended(incarnation)
        case Lost(incarnation, reason):
            return SessionLost(incarnation, reason)
        case _:
            assert_never(event)
