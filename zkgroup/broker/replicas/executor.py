"""The thread that calls a `ReplicaManager`, for code that runs on an asyncio loop.

A replica manager blocks for its disk and allows one caller at a time. `changed` gives the loop an event that
is set when the role, log end offset or high watermark of one of some partitions changes.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVar

from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.model import TopicPartition
from zkgroup.runtime.clock_loop import party_beside

T = TypeVar("T")
Job = Callable[[], None]


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
        self._waiting: dict[TopicPartition, set[asyncio.Event]] = {}
        self._watches: dict[TopicPartition, set[PartitionWatch]] = {}
        self._ended = asyncio.Event()
        self._closing = self._abandons = False
        host.listen(self._moved.add)
        if leader_failed is not None:
            host.listen_to_failures(lambda tp, why: self._call_back(leader_failed, tp, why))
        self._given = self._taken = 0
        self._party = party_beside(self._loop, name, lambda: self._given != self._taken)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

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

        def job() -> None:
            try:
                value = ask(self._host)
            except BaseException as error:  # noqa: BLE001  # raised in the calling task
                self._call_back(_set_exception, answer, error)
            else:
                self._call_back(_set_result, answer, value)

        self._given += 1
        self._jobs.put(job)
        return answer

    def post(self, ask: Callable[[ReplicaManager], object]) -> None:
        """Calls `ask` after all earlier calls, and drops its result. Without effect after `close`.

        An error of `ask` is reported by the event loop.
        """
        if not self._closing:
            self._submit(ask)

    @contextmanager
    def changed(self, *partitions: TopicPartition) -> Iterator[asyncio.Event]:
        """An event that is set at each change of one of the partitions; the caller clears it."""
        event, watched = asyncio.Event(), set(partitions)
        for tp in watched:
            self._waiting.setdefault(tp, set()).add(event)
        try:
            yield event
        finally:
            for tp in watched:
                events = self._waiting[tp]
                events.discard(event)
                if not events:
                    del self._waiting[tp]

    @contextmanager
    def watch(self, partitions: Iterable[TopicPartition]) -> Iterator[PartitionWatch]:
        """Notes the changes of the partitions."""
        watch = PartitionWatch(self)
        try:
            for tp in partitions:
                watch.add(tp)
            yield watch
        finally:
            watch.close()

    async def close(self, timeout_s: float = 5.0, *, abandon: bool = False) -> bool:
        """Closes the replica manager after all earlier calls; returns whether it closed in time. Idempotent.

        `abandon`: nothing more is written, as at the end of a process (`ReplicaManager.abandon`).
        If it did not, the thread is still waiting for its disk and ends later or with the process.
        """
        if not self._closing:
            self._closing, self._abandons = True, abandon
            self._given += 1
            self._jobs.put(None)
        try:
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        except TimeoutError:
            return False
        self._thread.join()
        return True

    # --- on the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (job := self._next()) is not None:
                job()
                if self._moved:
                    moved = frozenset(self._moved)
                    self._moved.clear()
                    self._call_back(self._wake, moved)
        finally:
            try:
                if self._abandons:
                    self._host.abandon()
                else:
                    self._host.close()
            finally:
                self._call_back(self._ended.set)
                if self._party is not None:
                    self._party.leave()

    def _next(self) -> Job | None:
        with self._party.resting() if self._party is not None else nullcontext():
            job = self._jobs.get()
        self._taken += 1
        return job

    def _call_back(self, callback: Callable[..., object], *arguments: object) -> None:
        """Calls back on the loop; without effect on the loop if that is closed."""
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            self._jobs.put(None)

    # --- on the loop ----------------------------------------------------------------------------

    def _wake(self, moved: frozenset[TopicPartition]) -> None:
        for tp in moved & self._waiting.keys():
            for event in self._waiting[tp]:
                event.set()
        for tp in moved & self._watches.keys():
            for watch in self._watches[tp]:
                watch.note(tp)


class PartitionWatch:
    """Notes which of some partitions have changed. Used on the event loop of its executor."""

    def __init__(self, executor: ReplicaExecutor) -> None:
        self._watches = executor._watches
        self._partitions: set[TopicPartition] = set()
        self._changed: dict[TopicPartition, None] = {}
        self.event = asyncio.Event()
        """Is set while a partition has changed."""

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
        self.event.set()

    def take(self) -> list[TopicPartition]:
        """The partitions that have changed since the last call, in order of their changes."""
        changed, self._changed = list(self._changed), {}
        self.event.clear()
        return changed

    def close(self) -> None:
        """Notes nothing more."""
        for tp in tuple(self._partitions):
            self.discard(tp)


def _set_result(answer: asyncio.Future[T], value: T) -> None:
    if not answer.done():
        answer.set_result(value)


def _set_exception(answer: asyncio.Future[T], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
