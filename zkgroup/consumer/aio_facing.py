"""The asyncio face of a member: what `AsyncGroupMember` and `AsyncConsumer` have in common."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar

from zkgroup.admin.values import GroupDescription, Verification
from zkgroup.consumer.aio_runner import AsyncRunner
from zkgroup.consumer.aio_waiting import in_thread, kept_result_within, pause, result_within
from zkgroup.consumer.arguments import checked_partitions, checked_timeout
from zkgroup.consumer.effects import MemberState
from zkgroup.consumer.engine import MemberEngine
from zkgroup.consumer.face import Face
from zkgroup.consumer.facing import (
    CLOSE_GRACE_MS,
    CLOSE_TIMEOUT_S,
    HAND_BACK_TIMEOUT_S,
    PICTURE_TIMEOUT_S,
    answer_timeout_s,
    not_assigned,
    not_connected,
    told,
)
from zkgroup.consumer.listener import AsyncRebalanceListener
from zkgroup.consumer.machine import MemberDescription
from zkgroup.consumer.opening import MemberOptions
from zkgroup.consumer.reads import LOOK_AGAIN_S, group_reads, not_stable, offsets_of, offsets_request, pauses
from zkgroup.errors import (
    CommitResult,
    MemberClosedError,
    OutcomeUnknownError,
    StoreUnavailableError,
    ZkGroupError,
)
from zkgroup.model import TopicPartition
from zkgroup.model.waiting import after, seconds_until

log = logging.getLogger("zkgroup.consumer")

T = TypeVar("T")

CANCELLED_KEPT = 100
"""Outcomes of cancelled commits that are kept for `cancelled_commits`."""


class AsyncFace(Face):
    """Life, waiting, leases and reads of a member on an event loop.

    The member works on a thread of its own; awaiting costs none. Plain methods (`leases`, `lease`,
    `stop`, `state`) may be called from any thread, coroutines on the event loop of the start.
    """

    _listener_kind = AsyncRebalanceListener
    _how_to_start = "use `async with`, or await start()"

    def __init__(self, options: MemberOptions) -> None:
        super().__init__(options)
        self._runner: AsyncRunner | None = None
        self._cancelled: deque[CommitResult] = deque(maxlen=CANCELLED_KEPT)

    @abstractmethod
    def _build(self, runner: AsyncRunner) -> MemberEngine:
        """Puts the engine together; nothing of it runs yet."""

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Joins the group; idempotent. See `GroupMember.start`."""
        if self._closed.is_set():
            raise MemberClosedError("a closed member does not start again; make a new one")
        if self._engine_made is not None:
            return self
        self._runner = AsyncRunner(asyncio.get_running_loop(), self._options.clock_used)
        # known before its first thread runs, as in the blocking face
        engine = self._engine_made = self._build(self._runner)
        self._launch(engine)
        if self._closed.is_set():
            self._begin_close(engine, 1.0)
        timeout_ms = self._settings.connection_timeout_ms or self._settings.session_timeout_ms
        try:
            connected = engine.when(lambda: engine.incarnation > 0 or self._stopped)
            await _result(engine, connected, timeout_ms / 1000)
        except ZkGroupError:
            if engine.incarnation == 0:
                await self.close(timeout_s=1.0)
                raise  # else it is for the next call
        except asyncio.CancelledError:
            self._begin_close(engine, 1.0)
            raise
        except TimeoutError:
            await self.close(timeout_s=1.0)
            raise not_connected(engine, timeout_ms) from None
        return self

    async def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Leaves, as `GroupMember.close` does. Inside a callback it schedules the end and returns."""
        timeout_s = checked_timeout(timeout_s)
        self._closed.set()
        engine, runner = self._engine_made, self._runner
        if engine is None or runner is None or engine.forked:
            return
        self._begin_close(engine, timeout_s)
        if runner.is_inside():
            return
        deadline_ms = after(engine.clock, timeout_s) + CLOSE_GRACE_MS
        for over in self._ends(engine):
            left_s = max(0.5, seconds_until(engine.clock, deadline_ms))
            with contextlib.suppress(TimeoutError):
                await kept_result_within(engine.clock, over, left_s)
        runner.cancel_late()
        engine.raise_failure()

    def _ends(self, engine: MemberEngine) -> list[Future[None]]:
        """What `close` waits for."""
        return [engine.loop.over]

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        else:
            with contextlib.suppress(ZkGroupError):  # the body's error is the one to see
                await self.close()

    # --- waiting ----------------------------------------------------------------------------------

    async def wait_until_assigned(self, timeout_s: float = 30.0) -> None:
        """See `GroupMember.wait_until_assigned`."""
        engine, timeout_s = self._engine, checked_timeout(timeout_s)
        try:
            assigned = engine.when(lambda: engine.state is MemberState.STABLE or self._stopped)
            await _result(engine, assigned, timeout_s)
        except TimeoutError:
            engine.check_usable()
            raise not_assigned(engine, await _picture(engine)) from None
        self._check_stopped(engine)

    async def wait_until_stable(self, timeout_s: float = 30.0) -> None:
        """See `GroupMember.wait_until_stable`. The reads run on the event loop's executor, one at a time."""
        engine = self._engine
        deadline_ms = after(engine.clock, checked_timeout(timeout_s))
        await self.wait_until_assigned(timeout_s)
        for pause_s in pauses():
            found = await in_thread(engine.clock, "reads of the group", lambda: _look(engine))
            engine.check_usable()
            if found is not None and found.converged:
                break
            if self._stopped:
                raise MemberClosedError(f"{engine.member} was asked to stop")
            left_s = seconds_until(engine.clock, deadline_ms)
            if left_s <= 0:
                raise not_stable(engine.group, found, told(engine, await _picture(engine)))
            await pause(engine.clock, min(pause_s, left_s))
        # the reads may have shown a claim of this very member whose answer had yet to come
        await self.wait_until_assigned(max(LOOK_AGAIN_S, seconds_until(engine.clock, deadline_ms)))

    # --- what is owned ----------------------------------------------------------------------------

    async def hand_back(
        self, partitions: Iterable[TopicPartition], timeout_s: float = HAND_BACK_TIMEOUT_S
    ) -> None:
        """See `GroupMember.hand_back`."""
        engine, timeout_s = self._engine, checked_timeout(timeout_s)
        try:
            await _result(engine, engine.hand_back(partitions), timeout_s)
        except TimeoutError:
            raise not_assigned(engine, await _picture(engine)) from None

    # --- offsets ----------------------------------------------------------------------------------

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """See `GroupMember.committed`."""
        engine = self._engine
        wanted = checked_partitions(partitions)
        try:
            answer = engine.ask(offsets_request(engine.group, wanted))
            outcome = await _result(engine, answer, answer_timeout_s(self._settings))
        except TimeoutError:
            raise StoreUnavailableError("the committed offsets could not be read in time") from None
        return offsets_of(wanted, outcome)

    async def describe(self) -> GroupDescription:
        """See `GroupMember.describe`. The reads run on the event loop's executor."""
        engine = self._engine
        return await in_thread(engine.clock, "reads of the group", lambda: _describe(engine))

    @property
    def cancelled_commits(self) -> tuple[CommitResult, ...]:
        """What became of commits whose awaiting was cancelled (they went on); oldest first, bounded."""
        return tuple(self._cancelled)

    async def _await_commit(self, future: Future[CommitResult]) -> CommitResult:
        """Waits for a commit. Cancelling ends the wait, not the commit: its outcome is kept."""
        clock = self._options.clock_used
        try:
            result = await kept_result_within(clock, future, answer_timeout_s(self._settings))
        except TimeoutError:
            future.add_done_callback(self._keep)
            raise OutcomeUnknownError("the commit got no answer in time; it may have been applied") from None
        except asyncio.CancelledError:
            future.add_done_callback(self._keep)
            raise
        result.raise_if_refused()
        return result

    def _keep(self, future: Future[CommitResult]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        result = future.result()
        self._cancelled.append(result)
        if result.refused:
            log.warning("a commit that nobody awaits any more was refused: %s", dict(result.refused))


async def _result(engine: MemberEngine, future: Future[T], timeout_s: float) -> T:
    try:
        return await result_within(engine.clock, future, timeout_s)
    except (TimeoutError, asyncio.CancelledError):
        engine.forget(future)
        raise


async def _picture(engine: MemberEngine) -> MemberDescription | None:
    try:
        return await result_within(engine.clock, engine.picture(), PICTURE_TIMEOUT_S)
    except TimeoutError:
        return None


def _look(engine: MemberEngine) -> Verification | None:
    with group_reads(engine.store, engine.clock, engine.group, engine.finished) as reads:
        return reads.look()


def _describe(engine: MemberEngine) -> GroupDescription:
    with group_reads(engine.store, engine.clock, engine.group, engine.finished) as reads:
        return reads.describe()
