"""The rebalance listeners, and the runners of their callbacks on a thread or on asyncio, with deadlines.

An application overrides `RebalanceListener` or `AsyncRebalanceListener`. `CallbackDispatcher` submits the
calls on the member's thread; a `CallbackRunner` runs them one at a time. Python cannot stop a thread, so a
callback that exceeds its deadline is *abandoned*: its thread goes on by itself and later callbacks run on a
new one. Neither a rebalance nor `close()` waits for it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from zkgroup.consumer.lease import DeliveryPort, Lease, ProcessedPositions
from zkgroup.consumer.machine.events import (
    EndOverdue,
    Event,
    MemberState,
    OwnEffect,
    Revoke,
    Revoked,
)
from zkgroup.consumer.telemetry import Telemetry
from zkgroup.errors import ZkGroupError
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, after, is_driven, wait_for
from zkgroup.runtime.loop import MachineLoop


class RebalanceListener:
    """Base class whose methods do nothing; override what you need.

    The calls of one member run one at a time, in order, on the member's own worker thread, never on a
    ZooKeeper thread. Lists are never empty. The deadline of each call is `revoke_timeout_ms`: a call that
    takes longer is abandoned, its partitions count as revoked, and later calls run on a new worker. An error
    ends the member: state `failed`, given to `on_failed`, raised by the next call and by `close()`.
    """

    def on_assigned(self, leases: Sequence[Lease]) -> None:
        """Called when this member owns these partitions. Their delivery starts when this returns."""

    def on_prepare(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when this member is to take over these partitions and another one still works on them.

        When it returns, the other one releases them, at the latest `prepare_timeout_ms` after it has read the
        new assignment. They are not owned yet, and may never be: another rebalance may take them elsewhere.
        If the other one dies, leaves or is too late, `on_assigned` comes before this has returned. It runs on
        a worker of its own, beside the other calls and without their deadline.
        """

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Called before these partitions are released, also on `close()`: finish, acknowledge, commit."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when these partitions are lost: drop unfinished work, commit nothing."""

    def on_state(self, before: MemberState, after: MemberState, reason: str) -> None:
        """Called when the member's state has changed."""

    def on_failed(self, error: ZkGroupError) -> None:
        """Called last, when the member has failed and left the group, with what each further call raises.

        An error of the application's code or of its source is the `__cause__`. Another member may be started
        here. What this raises is logged.
        """


class AsyncRebalanceListener:
    """`RebalanceListener` with coroutines, for the asyncio classes, on the member's event loop."""

    async def on_assigned(self, leases: Sequence[Lease]) -> None:
        """See `RebalanceListener.on_assigned`."""

    async def on_prepare(self, partitions: Sequence[TopicPartition]) -> None:
        """See `RebalanceListener.on_prepare`."""

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """See `RebalanceListener.on_revoked`."""

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """See `RebalanceListener.on_lost`."""

    async def on_state(self, before: MemberState, after: MemberState, reason: str) -> None:
        """See `RebalanceListener.on_state`."""

    async def on_failed(self, error: ZkGroupError) -> None:
        """See `RebalanceListener.on_failed`."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """A listener and the runner of its calls."""

    listener: RebalanceListener | AsyncRebalanceListener | None
    runner: CallbackRunner

    def bind(self, name: str, arguments: tuple[object, ...]) -> Callable[[], object] | None:
        """The call as a function; None for a method of the base class, which does nothing."""
        if self.listener is None:
            return None
        method = getattr(type(self.listener), name)
        if method in (getattr(RebalanceListener, name), getattr(AsyncRebalanceListener, name)):
            return None
        bound: Callable[..., object] = getattr(self.listener, name)
        return lambda: bound(*arguments)

    @property
    def prepares(self) -> bool:
        """Returns whether the application has overridden `on_prepare`."""
        return self.bind("on_prepare", ()) is not None


Done = Callable[[BaseException | None], None]


@dataclass(eq=False, slots=True)
class CallbackCall:
    """One callback to run."""

    name: str
    run: Callable[[], object]
    done: Done
    """Called once when `run` has ended, with its error, also after the deadline; only enqueues."""


class CallbackRunner(ABC):
    """Runs the callbacks of one member. It is a `Party` of a `DrivenClock`.

    No time passes there while a callback runs, unless it waits on that clock.
    """

    def __init__(self) -> None:
        self._open = 0
        """Callbacks that are queued, run, or have yet to be reported."""
        self.turns = 0
        self._lock = threading.Lock()
        self._queue: deque[CallbackCall] = deque()
        self._running: CallbackCall | None = None
        self._others: list[CallbackRunner] = []

    @abstractmethod
    def submit(self, call: CallbackCall) -> None:
        """Queues a callback; returns at once."""

    @abstractmethod
    def stop_waiting_for(self, call: CallbackCall) -> bool:
        """Abandons a callback; whether it had begun (it runs on). One that had not begun never runs."""

    def another(self) -> CallbackRunner:
        """A runner of the same kind, whose callbacks run beside those of this one, and which ends with it."""
        made = self._like_this()
        self._others.append(made)
        return made

    @abstractmethod
    def _like_this(self) -> CallbackRunner:
        """A runner of the same kind."""

    @abstractmethod
    def is_inside(self) -> bool:
        """Returns whether the caller is inside one of this runner's callbacks."""

    @abstractmethod
    def stop(self, timeout_s: float) -> bool:
        """Ends the worker once its queue is empty; False if a callback still runs after the timeout."""

    @property
    def running(self) -> CallbackCall | None:
        """The callback that runs now; None if there is none."""
        return self._running

    def is_quiet(self) -> bool:
        with self._lock:
            return self._open == 0

    def _add(self, call: CallbackCall) -> None:
        self._queue.append(call)
        self._open += 1

    def _has_ended(self) -> None:
        self._open -= 1
        self.turns += 1

    def _take_off(self, call: CallbackCall) -> bool:
        """Returns whether the callback was still in the queue; it never runs."""
        if call not in self._queue:
            return False
        self._queue.remove(call)
        self._has_ended()
        return True


class CallbackWorker(CallbackRunner):
    """`CallbackRunner` on a thread that is started by the first callback. All methods are thread-safe."""

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__()
        self._name = name
        self._clock = clock
        self._leave = clock.join(self) if is_driven(clock) else lambda: None
        self._filled = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._inside = threading.local()
        self._started = 0
        self._stopped = False

    def submit(self, call: CallbackCall) -> None:
        with self._lock:
            self._add(call)
            if self._thread is None:
                self._start_thread()
            self._filled.notify()

    def stop_waiting_for(self, call: CallbackCall) -> bool:
        with self._lock:
            if self._take_off(call):
                return False
            if self._running is not call:
                return True
            self._has_ended()
            self._running = None
            self._thread = None
            if self._queue:
                self._start_thread()
            return True

    def _like_this(self) -> CallbackWorker:
        return CallbackWorker(f"{self._name}-prepare", self._clock)

    def is_inside(self) -> bool:
        return getattr(self._inside, "active", False)

    def stop(self, timeout_s: float) -> bool:
        for other in self._others:
            other.stop(0)
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

    @property
    def name(self) -> str:
        running = self._running
        return f"{self._name}-callbacks" + (f" ({running.name})" if running is not None else "")

    @property
    def worker(self) -> object:
        thread = self._thread
        return thread.ident if thread is not None else None

    def _start_thread(self) -> None:
        self._started += 1
        name = f"{self._name}-callbacks-{self._started}"
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def _take(self) -> CallbackCall | None:
        """The next call; None when this thread is no longer the worker or the worker has ended."""
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


log = logging.getLogger("zkgroup.consumer")


class AsyncCallbackRunner(CallbackRunner):
    """`CallbackRunner` on asyncio: one task at a time; an overdue one is abandoned, later cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        super().__init__()
        self.event_loop = loop
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        """The task of the callback that runs."""
        self._leave = clock.join(self) if is_driven(clock) else lambda: None
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, call: CallbackCall) -> None:
        with self._lock:
            self._add(call)
        self._wake(call)

    def stop_waiting_for(self, call: CallbackCall) -> bool:
        with self._lock:
            if self._take_off(call):
                return False
            if self._running is call:
                self._running = self._task = None
                self._has_ended()
        self._wake(None)
        return True

    def _like_this(self) -> AsyncCallbackRunner:
        return AsyncCallbackRunner(self.event_loop, self._clock)

    def is_inside(self) -> bool:
        try:
            return asyncio.current_task() in self._tasks
        except RuntimeError:  # no event loop runs on this thread
            return False

    def stop(self, timeout_s: float) -> bool:
        """Does nothing: tasks end by themselves; see `cancel_late`."""
        return True

    def _wake(self, call: CallbackCall | None) -> None:
        try:
            self.event_loop.call_soon_threadsafe(self._pump)
        except RuntimeError as error:  # the application closed the loop before the member
            if call is not None:
                call.done(error)
            self._leave()

    @property
    def name(self) -> str:
        running = self._running
        return "the event loop's callbacks" + (f" ({running.name})" if running is not None else "")

    @property
    def worker(self) -> object:
        return self._task

    def _pump(self) -> None:
        with self._lock:
            if self._running is not None or not self._queue:
                return
            call = self._running = self._queue.popleft()
        task = self._task = self.event_loop.create_task(self._run(call), name=f"zkgroup-{call.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, call: CallbackCall) -> None:
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
        """Cancels abandoned callbacks; called on the event loop when the member has ended."""
        for other in self._others:
            assert isinstance(other, AsyncCallbackRunner)
            other.cancel_late()
        self._leave()
        with self._lock:
            self._queue.clear()
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()


DRAIN_MARGIN = 0.1
"""Part of the revoke deadline that is left for the commit of the processed positions."""


class CallbackDispatcher:
    """Submits the callbacks of one member and handles their ends, deadlines and errors."""

    def __init__(
        self,
        callbacks: Callbacks,
        loop: MachineLoop[Event, OwnEffect],
        clock: Clock,
        telemetry: Telemetry,
        *,
        timeout_ms: int,
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._callbacks = callbacks
        self._loop = loop
        self._clock = clock
        self._telemetry = telemetry
        self._timeout_ms = timeout_ms
        self._on_error = on_error
        self._waiting: deque[CallbackCall] = deque()
        self._ended = False
        self.told: Future[None] = Future()
        """Done when the member has ended and `on_failed`, if it was to be called, has returned."""

    def call(
        self, name: str, *arguments: object, then: Callable[[], None] | None = None
    ) -> CallbackCall | None:
        """Submits a callback; `then` follows on this thread. None if the application has not overridden it.

        `then` also follows when an abandoned callback returns, so a slow `on_assigned` delays only the first
        delivery of its partitions.
        """
        run = self._callbacks.bind(name, arguments)
        if run is None:
            if then is not None:
                then()
            return None

        def done(error: BaseException | None) -> None:
            self._loop.post(lambda: self._returned(call, error, then))

        call = CallbackCall(name, run, done)
        self._waiting.append(call)
        if len(self._waiting) == 1:
            self._watch_head()
        self._callbacks.runner.submit(call)
        return call

    def stop_waiting_for(self, call: CallbackCall) -> bool:
        """Abandons an overdue callback: later ones run on a new worker. False if it had not begun."""
        if call not in self._waiting:
            return True
        begun = self._callbacks.runner.stop_waiting_for(call)
        self._waiting.remove(call)
        self._watch_head()
        if begun:
            self._telemetry.overdue(call.name, self._timeout_ms)
        return begun

    def end(self) -> None:
        """Ignores callbacks that return from now on: the member has ended."""
        self._ended = True

    def tell_failure(self, error: ZkGroupError | None) -> None:
        """Submits `on_failed`, where there is an error, as the last callback; later errors are only logged.

        The loop of the member has ended, so the clock watches the callback that may still run.
        """
        run = self._callbacks.bind("on_failed", (error,)) if error is not None else None
        if run is None:
            self.told.set_result(None)
            return
        runner = self._callbacks.runner

        def done(raised: BaseException | None) -> None:
            stop_watching()
            if raised is not None:
                log.error("on_failed raised", exc_info=raised)
            self.told.set_result(None)

        def overdue() -> None:
            running = runner.running
            if running is not None and running is not call:
                runner.stop_waiting_for(running)

        call = CallbackCall("on_failed", run, done)
        until_ms = self._clock.now_ms() + self._timeout_ms
        stop_watching = self._clock.call_at(until_ms, overdue) if self._waiting else lambda: None
        runner.submit(call)

    def _returned(
        self, call: CallbackCall, error: BaseException | None, then: Callable[[], None] | None
    ) -> None:
        if call in self._waiting:
            self._waiting.remove(call)
            self._watch_head()
        if error is not None:
            self._on_error(error)
        if then is not None and not self._ended:
            then()

    def _watch_head(self) -> None:
        """Starts the deadline of the oldest callback: `timeout_ms` from now."""
        if not self._waiting or self._ended:
            self._loop.unschedule("callback")
            return
        head = self._waiting[0]
        self._loop.schedule("callback", self._clock.now_ms() + self._timeout_ms, lambda: self._overdue(head))

    def _overdue(self, call: CallbackCall) -> None:
        if call.name == "on_revoked":  # the machine has that deadline itself: `EndOverdue`
            return
        if self._callbacks.runner.running is not call:  # the process was paused before the worker began it
            self._watch_head()
            return
        self.stop_waiting_for(call)


@dataclass(eq=False)
class _Revocation:
    effect: Revoke
    begun_ms: int
    call: CallbackCall | None = None


class Revocations:
    """Performs each `Revoke`: the callback, the wait for unacknowledged records, then `Revoked` as an event,
    so that all effects of the present event are performed first."""

    def __init__(
        self,
        calls: CallbackDispatcher,
        clock: Clock,
        delivery: DeliveryPort,
        post: Callable[[Revoked], None],
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._delivery = delivery
        self._post = post
        self._open: dict[int, _Revocation] = {}

    def begin(self, effect: Revoke) -> None:
        revocation = _Revocation(effect, self._clock.now_ms())
        self._open[effect.call_id] = revocation
        revocation.call = self._calls.call(
            "on_revoked", effect.partitions, then=lambda: self._drain(revocation)
        )

    def end_overdue(self, effect: EndOverdue) -> bool:
        """Ends an overdue revocation; False if its callback never began."""
        revocation = self._open.pop(effect.call_id, None)
        if revocation is None or revocation.call is None:
            return True
        return self._calls.stop_waiting_for(revocation.call)

    def _drain(self, revocation: _Revocation) -> None:
        """Waits for the unacknowledged records after the callback, then reports."""
        effect = revocation.effect
        if effect.call_id not in self._open:
            return
        length_ms = effect.deadline_ms - revocation.begun_ms
        until_ms = effect.deadline_ms - int(length_ms * DRAIN_MARGIN)
        self._delivery.drain(effect.partitions, until_ms, lambda done: self._report(revocation, done))

    def _report(self, revocation: _Revocation, processed: ProcessedPositions) -> None:
        call_id = revocation.effect.call_id
        if self._open.pop(call_id, None) is not None:
            self._post(Revoked(call_id, processed.positions, processed.last_seek_id, processed.seeks))
