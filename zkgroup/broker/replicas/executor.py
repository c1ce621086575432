"""The thread that calls a `ReplicaManager`, for code that runs on an asyncio loop.

A replica manager blocks for its disk and allows one caller at a time. What waits for a change of partitions
(their role, log end offset or high watermark) is attempted again on the thread, in the call that has made the
change: `ReplicaExecutor.complete`, Kafka's `DelayedOperationPurgatory`. So the loop is woken once, with the
result.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Collection
from contextlib import nullcontext
from typing import Protocol, TypeVar

from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.request_time import measured
from zkgroup.model import TopicPartition
from zkgroup.runtime.clock_loop import party_beside

T = TypeVar("T")
Job = Callable[[], None]
Attempt = Callable[[ReplicaManager], bool]
"""A function that returns True when it is complete."""


class DelayedOperation(Protocol):
    """A part of a request that waits for other replicas."""

    @property
    def waiting(self) -> Collection[TopicPartition]: ...

    def check(self, host: ReplicaManager) -> bool:
        """Takes what has changed. Returns whether it is complete."""
        ...


OperationT = TypeVar("OperationT", bound=DelayedOperation)


class ExecutorClosedError(RuntimeError):
    """`ReplicaExecutor.call` was called after `close`."""


class ReplicaExecutor:
    """Calls a replica manager on one thread, one call after the other. Made and used on one event loop.

    Nothing else may call the replica manager; `close` closes it.
    """

    def __init__(
        self,
        host: ReplicaManager,
        name: str = "zkgroup-replicas",
        leader_failed: Callable[[TopicPartition, str], None] | None = None,
    ) -> None:
        """`leader_failed` is called on the loop when the files of a leader have failed, with the reason.

        It is called before the failed call returns.
        """
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._moved: set[TopicPartition] = set()
        self._watches: dict[TopicPartition, set[PartitionWatch]] = {}
        """Of the thread."""
        self._callbacks: list[tuple[Callable[..., object], tuple[object, ...]]] = []
        """The calls of the present job on the loop."""
        self._ended = asyncio.Event()
        self._closing = self._abandons = False
        host.listen(self._moved.add)
        if leader_failed is not None:
            host.listen_to_failures(lambda tp, why: self.call_back(leader_failed, tp, why))
        self._given = self._taken = 0
        self._party = party_beside(self._loop, name, lambda: self._given != self._taken)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def now(self) -> float:
        """The time of the loop, in seconds; on any thread."""
        return self._loop.time()

    async def call(self, ask: Callable[[ReplicaManager], T]) -> T:
        """Calls `ask` on the replica manager's thread and returns its result.

        If the caller is cancelled, `ask` is called nevertheless. Raises the error of `ask`, or
        ExecutorClosedError once `close` has begun.
        """
        if self._closing:
            raise ExecutorClosedError("the replica manager is closed")
        return await self._submit(ask)

    def _submit(self, ask: Callable[[ReplicaManager], T]) -> asyncio.Future[T]:
        answer: asyncio.Future[T] = self._loop.create_future()
        ask = measured(ask)

        def job() -> None:
            try:
                value = ask(self._host)
            except BaseException as error:  # noqa: BLE001  # raised in the calling task
                self.call_back(_set_exception, answer, error)
            else:
                self.call_back(_set_result, answer, value)

        self._give(job)
        return answer

    def _give(self, job: Job | None) -> None:
        self._given += 1
        self._jobs.put(job)

    def post(self, ask: Callable[[ReplicaManager], object]) -> None:
        """Calls `ask` after all earlier calls, and drops its result. Without effect after `close`.

        An error of `ask` is reported by the event loop.
        """

        def job() -> None:
            try:
                ask(self._host)
            except Exception as error:  # noqa: BLE001  # reported
                context = {"message": "a call of the replica manager failed", "exception": error}
                self.call_back(self._loop.call_exception_handler, context)

        if not self._closing:
            self._give(job)

    async def complete(self, watch: PartitionWatch, attempt: Attempt, until: float) -> bool:
        """Calls `attempt` on the thread, and again at each change that `watch` notes, until it is complete.

        Args:
            watch: has no other attempt at the same time. The attempt may change which partitions it notes.
            until: on the loop's clock; the attempt is not called any more then.

        Returns whether it is complete. Raises the error of the attempt.
        """
        if self._closing:
            raise ExecutorClosedError("the replica manager is closed")
        if until <= self._loop.time():
            return await self._submit(attempt)
        done: asyncio.Future[None] = self._loop.create_future()
        run = _Attempts(self, watch, measured(attempt), done)
        self._give(run)
        try:
            async with asyncio.timeout_at(until):
                await done
        except TimeoutError:
            await self.call(lambda host: watch.end_attempt(run))  # it may have run meanwhile
        except asyncio.CancelledError:
            self.post(lambda host: watch.end_attempt(run))
            raise
        if run.failure is not None:
            raise run.failure
        return run.is_complete

    async def complete_operation(
        self, begin: Callable[[ReplicaManager], OperationT], until: float
    ) -> tuple[OperationT, bool]:
        """Begins an operation, and checks it again at each change of a partition that it waits for.

        Returns it, and whether it is complete. `until`: see `complete`.
        """
        watch = PartitionWatch(self)
        begun: list[OperationT] = []

        def attempt(host: ReplicaManager) -> bool:
            if not begun:
                begun.append(begin(host))
                for tp in begun[0].waiting:
                    watch.add(tp)
            is_complete = begun[0].check(host)
            if is_complete:
                watch.close()
            return is_complete

        try:
            is_complete = await self.complete(watch, attempt, until)
        finally:
            if watch.is_open:
                self.post(lambda host: watch.close())
        return begun[0], is_complete

    async def close(self, timeout_s: float = 5.0) -> bool:
        """Ends, and waits so long for it; returns whether the thread has ended.

        If it has not, it is still waiting for its disk and ends later or with the process.
        """
        self.end()
        try:
            async with asyncio.timeout(timeout_s):
                await self.wait_ended()
        except TimeoutError:
            return False
        return True

    async def wait_ended(self) -> None:
        """Waits until the replica manager is closed, after `end`."""
        await self._ended.wait()
        self._thread.join()

    def end(self, *, abandon: bool = False) -> None:
        """Closes the replica manager after all earlier calls. Does not wait; idempotent; on any thread.

        `abandon`: nothing more is written, as at the end of a process (`ReplicaManager.abandon`).
        """
        if not self._closing:
            self._closing, self._abandons = True, abandon
            self._give(None)

    def join(self, timeout_s: float) -> bool:
        """Waits for the thread after `end`, without its loop; returns whether it ended in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def call_back(self, callback: Callable[..., object], *arguments: object) -> None:
        """Calls back on the loop after the present job, in order. Used on the thread."""
        self._callbacks.append((callback, arguments))

    def _run(self) -> None:
        try:
            while (job := self._next()) is not None:
                job()
                while self._moved:
                    self._attempt_again()
                self._call_all_back()
        finally:
            try:
                if self._abandons:
                    self._host.abandon()
                else:
                    self._host.close()
            finally:
                self.call_back(self._ended.set)
                self._call_all_back()
                if self._party is not None:
                    self._party.leave()

    def _attempt_again(self) -> None:
        """Notes the changes of the last calls, and attempts again what waits for them."""
        moved = frozenset(self._moved)
        self._moved.clear()
        noted: dict[PartitionWatch, None] = {}
        for tp in moved & self._watches.keys():
            for watch in self._watches[tp]:
                watch.note(tp)
                noted[watch] = None
        for watch in noted:
            if watch.attempt is not None:
                watch.attempt()

    def _call_all_back(self) -> None:
        """Wakes the loop once for all that a job calls back; without effect on a loop that is closed."""
        if self._callbacks:
            callbacks, self._callbacks = self._callbacks, []
            try:
                self._loop.call_soon_threadsafe(self._called_back, callbacks)
            except RuntimeError:
                self._jobs.put(None)

    def _next(self) -> Job | None:
        with self._party.blocking() if self._party is not None else nullcontext():
            job = self._jobs.get()
        self._taken += 1
        return job

    def _called_back(self, callbacks: list[tuple[Callable[..., object], tuple[object, ...]]]) -> None:
        for callback, arguments in callbacks:
            try:
                callback(*arguments)
            except Exception as error:  # noqa: BLE001  # the others are called as well
                self._loop.call_exception_handler({"message": "a callback failed", "exception": error})


class PartitionWatch:
    """Notes which of some partitions have changed. Used on the thread of its executor."""

    def __init__(self, executor: ReplicaExecutor) -> None:
        self._watches = executor._watches
        self._partitions: set[TopicPartition] = set()
        self._changed: dict[TopicPartition, None] = {}
        self.attempt: Callable[[], None] | None = None
        """Called after a change; None without one."""

    def add(self, tp: TopicPartition) -> None:
        """Notes the changes of a partition from now on."""
        if tp not in self._partitions:
            self._partitions.add(tp)
            self._watches.setdefault(tp, set()).add(self)

    def discard(self, tp: TopicPartition) -> None:
        """Notes no more changes of a partition."""
        if tp in self._partitions:
            self._partitions.discard(tp)
            self._changed.pop(tp, None)
            watches = self._watches[tp]
            watches.discard(self)
            if not watches:
                del self._watches[tp]

    def note(self, tp: TopicPartition) -> None:
        """Notes a change."""
        self._changed[tp] = None

    def take(self) -> list[TopicPartition]:
        """The partitions that have changed since the last call, in order of their changes."""
        changed, self._changed = list(self._changed), {}
        return changed

    def end_attempt(self, attempt: Callable[[], None]) -> None:
        """Does not call this attempt any more."""
        if self.attempt is attempt:
            self.attempt = None

    @property
    def is_open(self) -> bool:
        """True if there are partitions; on any thread."""
        return bool(self._partitions)

    def close(self) -> None:
        """Notes nothing more."""
        self.attempt = None
        for tp in tuple(self._partitions):
            self.discard(tp)


class _Attempts:
    """An attempt, called again at each change until it is complete. Called on the thread of its executor.

    No function that names itself: with that, all that the attempt has read would wait for the collector.
    """

    def __init__(
        self, executor: ReplicaExecutor, watch: PartitionWatch, attempt: Attempt, done: asyncio.Future[None]
    ) -> None:
        self._executor = executor
        self._watch = watch
        self._attempt = attempt
        self._done = done
        self.is_complete = False
        self.failure: BaseException | None = None

    def __call__(self) -> None:
        self._watch.attempt = None
        try:
            self.is_complete = self._attempt(self._executor._host)
        except BaseException as error:  # noqa: BLE001  # raised in the calling task
            self.failure = error
        if self.is_complete or self.failure is not None:
            self._executor.call_back(_set_result, self._done, None)
        else:
            self._watch.attempt = self


def _set_result(answer: asyncio.Future[T], value: T) -> None:
    if not answer.done():
        answer.set_result(value)


def _set_exception(answer: asyncio.Future[T], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
