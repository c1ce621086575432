"""`AsyncGroupMember` and `AsyncConsumer`: the blocking classes for asyncio, with the same method names."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar, overload

from zkgroup.consumer._base import (
    CLOSE_GRACE_MS,
    CLOSE_TIMEOUT_S,
    DESCRIBE_TIMEOUT_S,
    HAND_BACK_TIMEOUT_S,
    MemberBase,
    check_count,
    check_offset,
    checked_offsets,
    checked_partitions,
    checked_timeout,
    checked_times,
    not_assigned,
    not_connected,
    open_engine,
    reply_timeout_s,
    state_text,
    stopped_error,
    timed_out,
)
from zkgroup.consumer.callbacks import AsyncCallbackRunner, AsyncRebalanceListener
from zkgroup.consumer.consumer_engine import (
    SOURCE_GRACE_S,
    SOURCE_TIMEOUT_S,
    ConsumerBase,
    grouped,
    known_bounds,
)
from zkgroup.consumer.group_reads import (
    READ_AGAIN_S,
    group_reads,
    is_stable,
    not_stable,
    offsets_of,
    offsets_request,
    pauses,
)
from zkgroup.consumer.lease import Lease
from zkgroup.consumer.machine import MemberSnapshot
from zkgroup.consumer.machine.events import MemberState
from zkgroup.consumer.member_engine import MemberEngine
from zkgroup.errors import (
    CommitResult,
    MemberClosedError,
    OutcomeUnknownError,
    StoreUnavailableError,
    ZkGroupError,
)
from zkgroup.groups.descriptions import GroupDescription, Verification
from zkgroup.model import TopicPartition
from zkgroup.model.ports import (
    Clock,
    Sleeper,
    after,
    is_driven,
    seconds_until,
)
from zkgroup.sources.port import Record

log = logging.getLogger("zkgroup.consumer")

CANCELLED_KEPT = 100
"""Most outcomes of cancelled commits for `cancelled_commits`."""
TAKEN_AT_ONCE_MAX = 100
"""Records delivered without waiting before other tasks get a turn."""

T = TypeVar("T")


class AsyncBase(MemberBase[AsyncRebalanceListener]):
    """Start and close, waits, leases and reads of a member on an event loop.

    The member works on a thread of its own; awaiting needs none. Plain methods (`leases`, `lease`, `stop`,
    `state`) may be called from any thread, coroutines on the event loop of the start.
    """

    _listener_kind = AsyncRebalanceListener
    _how_to_start = "use `async with`, or await start()"

    def _set_up(self) -> None:
        super()._set_up()
        self._runner: AsyncCallbackRunner | None = None
        self._cancelled: deque[CommitResult] = deque(maxlen=CANCELLED_KEPT)

    @abstractmethod
    def _build(self, runner: AsyncCallbackRunner) -> MemberEngine:
        """Builds the engine without starting it."""

    async def start(self) -> Self:
        """Joins the group; idempotent. See `GroupMember.start`."""
        if self._closed.is_set():
            raise MemberClosedError("a closed member cannot be started again; create a new one")
        if self._engine_made is not None:
            return self
        self._runner = AsyncCallbackRunner(asyncio.get_running_loop(), self._options.clock_used)
        # set before its first thread runs, as in the blocking class
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
                raise  # else the next call raises it
        except asyncio.CancelledError:
            self._begin_close(engine, 1.0)
            raise
        except TimeoutError:
            await self.close(timeout_s=1.0)
            raise not_connected(engine, timeout_ms) from None
        return self

    async def close(self, timeout_s: float = CLOSE_TIMEOUT_S, *, leave: bool = True) -> None:
        """Leaves the group as `GroupMember.close` does. Inside a callback it does not wait for the end."""
        timeout_s = checked_timeout(timeout_s)
        self._check_leave(leave)
        self._closed.set()
        engine, runner = self._engine_made, self._runner
        if engine is None or runner is None or engine.forked:
            return
        self._begin_close(engine, timeout_s, leave=leave)
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
        """The futures that `close` waits for."""
        return [engine.loop.over, engine.told]

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        else:
            with contextlib.suppress(ZkGroupError):  # the body's error is raised instead
                await self.close(leave=not self._is_static)

    async def wait_until_assigned(self, timeout_s: float = 30.0) -> None:
        """See `GroupMember.wait_until_assigned`."""
        engine, timeout_s = self._engine, checked_timeout(timeout_s)
        try:
            assigned = engine.when(lambda: engine.state is MemberState.STABLE or self._stopped)
            await _result(engine, assigned, timeout_s)
        except TimeoutError:
            engine.check_usable()
            raise not_assigned(engine, await _description(engine)) from None
        self._check_stopped(engine)

    async def wait_until_stable(self, timeout_s: float = 30.0, *, allow_missing_topics: bool = False) -> None:
        """See `GroupMember.wait_until_stable`. The reads run on the event loop's executor, one at a time."""
        engine = self._engine
        deadline_ms = after(engine.clock, checked_timeout(timeout_s))
        await self.wait_until_assigned(timeout_s)
        for pause_s in pauses():
            found = await in_thread(engine.clock, "reads of the group", lambda: _verify(engine))
            engine.check_usable()
            missing = () if allow_missing_topics else engine.missing_topics
            if is_stable(found, missing):
                break
            if self._stopped:
                raise stopped_error(engine)
            left_s = seconds_until(engine.clock, deadline_ms)
            if left_s <= 0:
                raise not_stable(engine.group, found, missing, state_text(engine, await _description(engine)))
            await pause(engine.clock, min(pause_s, left_s))
        # the reads may have shown a claim of this member whose reply had not come yet
        await self.wait_until_assigned(max(READ_AGAIN_S, seconds_until(engine.clock, deadline_ms)))

    async def wait_changed(
        self, timeout_s: float = 30.0, *, since: Iterable[Lease] | None = None
    ) -> tuple[Lease, ...]:
        """See `GroupMember.wait_changed`."""
        timeout_s = checked_timeout(timeout_s)
        engine, changed = self._begin_wait_changed(since)
        try:
            await _result(engine, changed, timeout_s)
        except TimeoutError:
            engine.check_usable()
            raise timed_out(engine, timeout_s, "its leases are the same") from None
        return self._changed(engine)

    async def wait_closed(self, timeout_s: float = 30.0) -> None:
        """See `GroupMember.wait_closed`."""
        timeout_s = checked_timeout(timeout_s)
        engine, ended = self._begin_wait_closed()
        try:
            await _result(engine, ended, timeout_s)
        except TimeoutError:
            raise timed_out(engine, timeout_s, "it has not ended") from None
        except MemberClosedError:  # it has ended; its client may still be closing
            with contextlib.suppress(TimeoutError):
                await kept_result_within(engine.clock, engine.loop.over, CLOSE_TIMEOUT_S)
            return
        raise stopped_error(engine)

    async def hand_back(
        self, partitions: Iterable[TopicPartition], timeout_s: float = HAND_BACK_TIMEOUT_S
    ) -> None:
        """See `GroupMember.hand_back`."""
        engine, timeout_s = self._engine, checked_timeout(timeout_s)
        try:
            await _result(engine, engine.hand_back(checked_partitions(partitions)), timeout_s)
        except TimeoutError:
            raise not_assigned(engine, await _description(engine)) from None

    @overload
    async def committed(self, partitions: TopicPartition) -> int | None: ...

    @overload
    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]: ...

    async def committed(
        self, partitions: TopicPartition | Iterable[TopicPartition]
    ) -> int | dict[TopicPartition, int | None] | None:
        """See `GroupMember.committed`."""
        if isinstance(partitions, TopicPartition):
            return (await self.committed([partitions]))[partitions]
        engine = self._engine
        wanted = checked_partitions(partitions)
        try:
            answer = engine.ask(offsets_request(engine.group, wanted))
            outcome = await _result(engine, answer, reply_timeout_s(self._settings))
        except TimeoutError:
            raise StoreUnavailableError("the committed offsets could not be read in time") from None
        return offsets_of(wanted, outcome)

    async def describe(self) -> GroupDescription:
        """See `GroupMember.describe`. The reads run on the event loop's executor."""
        engine = self._engine
        return await in_thread(engine.clock, "reads of the group", lambda: _describe(engine))

    @property
    def cancelled_commits(self) -> tuple[CommitResult, ...]:
        """Results of commits whose awaiting was cancelled (they went on); oldest first, at most 100."""
        return tuple(self._cancelled)

    async def _await_commit(self, future: Future[CommitResult]) -> CommitResult:
        """The result of a commit. Cancelling ends the wait, not the commit: its outcome is kept."""
        clock = self._options.clock_used
        try:
            result = await kept_result_within(clock, future, reply_timeout_s(self._settings))
        except TimeoutError:
            future.add_done_callback(self._keep)
            raise OutcomeUnknownError("the commit got no reply in time; it may have been applied") from None
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
            log.warning("a commit whose awaiting was cancelled was refused: %s", dict(result.refused))


class AsyncGroupMember(AsyncBase):
    """`GroupMember` for asyncio. The arguments are the same; the listener's methods are coroutines.

    ```python
    async with AsyncGroupMember("host:2181", group="billing", topics=["orders"]) as member:
        await member.wait_until_assigned(timeout_s=30)
        for lease in member.leases():
            await work_on(lease.partition, lease.token)
    ```
    """

    def _build(self, runner: AsyncCallbackRunner) -> MemberEngine:
        return open_engine(self._options, runner)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> CommitResult:
        """See `GroupMember.commit`. Cancelling ends the wait, not the commit (`cancelled_commits`)."""
        return await self._await_commit(self._engine.commit_offsets(checked_offsets(offsets)))


class AsyncConsumer(ConsumerBase[AsyncRebalanceListener], AsyncBase):
    """`Consumer` for asyncio. The arguments are the same; the listener's methods are coroutines.

    ```python
    async with AsyncConsumer("host:2181", group="billing", topics=["orders"], source=source) as consumer:
        async for record in consumer:
            await handle(record)
    ```
    """

    def _set_up(self) -> None:
        super()._set_up()
        self._ready = asyncio.Event()
        self._news = 0
        self._events: asyncio.AbstractEventLoop | None = None
        self._taken_at_once = 0

    def _build(self, runner: AsyncCallbackRunner) -> MemberEngine:
        self._events = asyncio.get_running_loop()
        return self._put_together(runner)

    def _ends(self, engine: MemberEngine) -> list[Future[None]]:
        assert self._consuming is not None
        return [*super()._ends(engine), self._consuming.fetcher.over]

    def _wake(self) -> None:
        self._news += 1
        if self._events is not None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed, and no task waits
                self._events.call_soon_threadsafe(self._ready.set)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        """See `Consumer.__next__`."""
        timeout_ms = self._options.settings.consumer_timeout_ms
        try:
            records = await self._take(1, None if timeout_ms < 0 else timeout_ms / 1000)
        except MemberClosedError:
            raise StopAsyncIteration from None
        if not records:
            raise StopAsyncIteration
        return records[0]

    async def poll(
        self, timeout_s: float = 1.0, max_records: int = 500
    ) -> dict[TopicPartition, list[Record]]:
        """See `Consumer.poll`. A cancelled poll takes no records."""
        return grouped(await self._take(max_records, checked_timeout(timeout_s)))

    async def _take(self, max_records: int, timeout_s: float | None) -> list[Record]:
        member = self._member
        check_count(max_records)
        clock = member.engine.clock
        deadline_ms = None if timeout_s is None else after(clock, timeout_s)
        self._taken_at_once = (self._taken_at_once + 1) % TAKEN_AT_ONCE_MAX
        if self._taken_at_once == 0:
            await asyncio.sleep(0)
        member.begin_poll()
        try:
            while not self._stopped:
                self._ready.clear()
                seen = self._news
                member.engine.check_usable()
                if records := member.delivery.take(max_records):
                    return records
                if deadline_ms is not None and clock.now_ms() >= deadline_ms:
                    return []
                await self._wait(clock, seen, deadline_ms)
            return []
        finally:
            member.end_poll()

    async def _wait(self, clock: Clock, seen: int, deadline_ms: int | None) -> None:
        """Waits until there may be new records, or until `deadline_ms`."""
        await wait_for_event(clock, self._ready, lambda: self._news != seen, deadline_ms)

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> CommitResult:
        """See `Consumer.commit`. Cancelling ends the wait, not the commit (`cancelled_commits`)."""
        return await self._await_commit(self._member.commit(offsets))

    async def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """See `Consumer.seek`."""
        member = self._member
        check_offset(topic_partition, offset)
        member.delivery.seek(topic_partition, offset)

    async def seek_to_beginning(
        self, *partitions: TopicPartition, timeout_s: float = SOURCE_TIMEOUT_S
    ) -> None:
        """See `Consumer.seek_to_beginning`."""
        found = await self.beginning_offsets(self._member.owned(partitions), timeout_s)
        for topic_partition, offset in found.items():
            self._member.delivery.seek(topic_partition, offset)

    async def seek_to_end(self, *partitions: TopicPartition, timeout_s: float = SOURCE_TIMEOUT_S) -> None:
        """See `Consumer.seek_to_end`."""
        found = await self.end_offsets(self._member.owned(partitions), timeout_s)
        for topic_partition, offset in found.items():
            self._member.delivery.seek(topic_partition, offset)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_s: float = SOURCE_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        """See `Consumer.beginning_offsets`."""
        wanted, timeout_s = checked_partitions(partitions), checked_timeout(timeout_s)
        found = await self._reply(self._member.bounds(wanted, timeout_s), timeout_s)
        return {tp: bounds.earliest for tp, bounds in known_bounds(found, wanted).items()}

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_s: float = SOURCE_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        """See `Consumer.end_offsets`."""
        wanted, timeout_s = checked_partitions(partitions), checked_timeout(timeout_s)
        found = await self._reply(self._member.bounds(wanted, timeout_s), timeout_s)
        return {tp: bounds.end for tp, bounds in known_bounds(found, wanted).items()}

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_s: float = SOURCE_TIMEOUT_S
    ) -> dict[TopicPartition, int | None]:
        """See `Consumer.offsets_for_times`."""
        wanted, timeout_s = checked_times(times), checked_timeout(timeout_s)
        return await self._reply(self._member.offsets_for_times(wanted, timeout_s), timeout_s)

    async def lag(
        self, *partitions: TopicPartition, timeout_s: float = SOURCE_TIMEOUT_S
    ) -> dict[TopicPartition, int | None]:
        """See `Consumer.lag`."""
        wanted, timeout_s = self._member.owned(partitions), checked_timeout(timeout_s)
        found = await self._reply(self._member.bounds(wanted, timeout_s), timeout_s)
        return self._member.lag(wanted, found)

    async def _reply(self, future: Future[T], timeout_s: float) -> T:
        """See `Consumer._reply`."""
        try:
            return await _result(self._engine, future, timeout_s + SOURCE_GRACE_S)
        except StoreUnavailableError:
            self._engine.raise_failure()
            raise
        except TimeoutError:
            raise self._no_reply(timeout_s) from None


async def _result(engine: MemberEngine, future: Future[T], timeout_s: float) -> T:
    try:
        return await result_within(engine.clock, future, timeout_s)
    except (TimeoutError, asyncio.CancelledError):
        engine.forget(future)
        raise


async def _description(engine: MemberEngine) -> MemberSnapshot | None:
    try:
        return await result_within(engine.clock, engine.describe(), DESCRIBE_TIMEOUT_S)
    except TimeoutError:
        return None


def _verify(engine: MemberEngine) -> Verification | None:
    with group_reads(engine) as reads:
        return reads.verify()


def _describe(engine: MemberEngine) -> GroupDescription:
    with group_reads(engine) as reads:
        return reads.describe()


async def result_within(clock: Clock, future: Future[T], timeout_s: float) -> T:
    """The future's result. Raises TimeoutError, and cancels the future then and when it is cancelled."""
    if not is_driven(clock):
        return await asyncio.wait_for(asyncio.wrap_future(future), timeout_s)
    try:
        await clock.await_for(future.done, after(clock, timeout_s))
    finally:
        in_time = not future.cancel()
    if not in_time:
        raise TimeoutError
    return future.result()


async def kept_result_within(clock: Clock, future: Future[T], timeout_s: float) -> T:
    """The future's result as of `result_within`, but without ever cancelling the future."""
    if not is_driven(clock):
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), timeout_s)
    await clock.await_for(future.done, after(clock, timeout_s))
    if not future.done():
        raise TimeoutError
    return future.result()


async def wait_for_event(
    clock: Clock, event: asyncio.Event, is_over: Callable[[], object], until_ms: int | None
) -> None:
    """Waits until the event is set, which follows `is_over()`, or the clock has come to `until_ms`."""
    if is_driven(clock):
        await clock.await_for(is_over, until_ms)
        return
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds_until(clock, until_ms))


async def pause(clock: Clock, seconds: float) -> None:
    """Waits for this many seconds on the clock."""
    if is_driven(clock):
        await clock.await_for(lambda: False, after(clock, seconds))
    else:
        await asyncio.sleep(seconds)


async def in_thread(clock: Clock, name: str, work: Callable[[], T]) -> T:
    """The result of blocking work on the event loop's executor. A driven clock stands still meanwhile."""
    if not is_driven(clock):
        return await asyncio.to_thread(work)
    worker = Sleeper(clock, name, lambda: True)  # it never sleeps: the called code waits on the clock itself
    worker.join()

    def run() -> T:
        worker.worker = threading.get_ident()
        try:
            return work()
        finally:
            worker.leave()

    done = asyncio.get_running_loop().run_in_executor(None, run)
    await clock.await_for(done.done)
    return await done
