"""`GroupMember` and `Consumer`: the blocking classes.

`GroupMember` owns partitions of a group as leases, without any records. `Consumer` also delivers the records
of its partitions and commits processed positions. `SyncBase` is the base of both.
"""

from __future__ import annotations

import contextlib
import threading
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import AbstractContextManager
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
from zkgroup.consumer.callbacks import CallbackWorker, RebalanceListener
from zkgroup.consumer.consumer_engine import (
    SOURCE_GRACE_S,
    SOURCE_TIMEOUT_S,
    ConsumerBase,
    grouped,
    known_bounds,
)
from zkgroup.consumer.group_reads import READ_AGAIN_S, GroupReads, group_reads, offsets_of, offsets_request
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
from zkgroup.groups.descriptions import GroupDescription
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, after, seconds_until, wait_for
from zkgroup.sources.port import Record

T = TypeVar("T")


class SyncBase(MemberBase[RebalanceListener]):
    """Start and close, waits, leases and reads of a member; each method may be called from any thread.

    A process forked from the one that started the member must create its own: there every method except
    `close()` and `stop()` raises `ForkedClientError`.
    """

    _listener_kind = RebalanceListener
    _how_to_start = "use `with`, or start() it"

    def _set_up(self) -> None:
        super()._set_up()
        self._start_lock = threading.Lock()

    @abstractmethod
    def _build(self) -> MemberEngine:
        """Builds the engine without starting it."""

    def start(self) -> Self:
        """Joins the group; idempotent. Returns when ZooKeeper is connected, before anything is assigned.

        Raises `StoreUnavailableError` after `connection_timeout_ms` without a connection, and
        `ConfigError` if another member of this process uses the same client under the same id.
        """
        with self._start_lock:
            if self._closed.is_set():
                raise MemberClosedError("a closed member cannot be started again; create a new one")
            if self._engine_made is not None:
                return self
            # set before its first thread runs: a callback may use the member before this call returns
            engine = self._engine_made = self._build()
            self._launch(engine)
        if self._closed.is_set():  # by a signal handler, in the middle of the lines above
            self._begin_close(engine, 1.0)
        self._wait_connected(engine)
        return self

    def _wait_connected(self, engine: MemberEngine) -> None:
        timeout_ms = self._settings.connection_timeout_ms or self._settings.session_timeout_ms
        try:
            result_of(engine, engine.when(lambda: engine.incarnation > 0 or self._stopped), timeout_ms / 1000)
        except ZkGroupError:
            if engine.incarnation == 0:
                self.close(timeout_s=1.0)
                raise  # else the next call raises it
        except KeyboardInterrupt:
            self._begin_close(engine, 1.0)
            raise
        except FutureTimeoutError:
            self.close(timeout_s=1.0)
            raise not_connected(engine, timeout_ms) from None

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S, *, leave: bool = True) -> None:
        """Leaves the group: runs `on_revoked`, commits, releases, ends the session.

        `leave=False` keeps the partitions of a static member for its `restart_grace_ms`, as do a crash and a
        `with` block that ends by an exception. Raises `ConfigError` for it without that setting.

        Idempotent, from any thread; returns soon after `timeout_s` even if ZooKeeper or a callback does not.
        Inside a callback it does not wait for the end. Raises the error that made the member fail, each time.
        """
        timeout_s = checked_timeout(timeout_s)
        self._check_leave(leave)
        self._closed.set()
        engine = self._engine_made
        if engine is None or engine.forked:
            return
        self._begin_close(engine, timeout_s, leave=leave)
        if engine.runner.is_inside() or engine.loop.is_inside():
            return
        clock, finished = engine.clock, engine.finished
        deadline_ms = after(clock, timeout_s)
        wait_for(clock, finished.is_set, deadline_ms + CLOSE_GRACE_MS, finished.wait)
        engine.loop.join(max(0.5, seconds_until(clock, deadline_ms)))
        self._join(deadline_ms)
        engine.runner.stop(max(0.1, min(0.5, seconds_until(clock, deadline_ms))))
        engine.raise_failure()

    def _join(self, deadline_ms: int) -> None:
        """Waits for other threads that were started; `deadline_ms` is on the member's clock."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            with contextlib.suppress(ZkGroupError):  # the body's error is raised instead
                self.close(leave=not self._is_static)

    def wait_until_assigned(self, timeout_s: float = 30.0) -> None:
        """Waits until this member owns its assigned partitions (perhaps none); makes no extra reads.

        Raises `StableTimeoutError` naming the partitions it waits for, `MemberClosedError` after `stop`.
        """
        engine, timeout_s = self._engine, checked_timeout(timeout_s)
        try:
            assigned = engine.when(lambda: engine.state is MemberState.STABLE or self._stopped)
            result_of(engine, assigned, timeout_s)
        except FutureTimeoutError:
            engine.check_usable()
            raise not_assigned(engine, _description(engine)) from None
        self._check_stopped(engine)

    def wait_until_stable(self, timeout_s: float = 30.0, *, allow_missing_topics: bool = False) -> None:
        """Waits until the whole group has converged: every partition is owned as assigned.

        Reads the group repeatedly. Raises `StableTimeoutError`, whose `blockers` name the partitions, or
        whose message names a topic of this member that does not exist, unless `allow_missing_topics`.
        """
        engine = self._engine
        deadline_ms = after(engine.clock, checked_timeout(timeout_s))
        self.wait_until_assigned(timeout_s)
        with self._reads() as reads:
            converged = reads.wait_converged(
                deadline_ms,
                lambda: () if allow_missing_topics else engine.missing_topics,
                lambda: state_text(engine, _description(engine)),
                lambda: self._stopped,
            )
        engine.check_usable()
        if not converged:
            raise stopped_error(engine)
        # the reads may have shown a claim of this member whose reply had not come yet
        self.wait_until_assigned(max(READ_AGAIN_S, seconds_until(engine.clock, deadline_ms)))

    def wait_changed(
        self, timeout_s: float = 30.0, *, since: Iterable[Lease] | None = None
    ) -> tuple[Lease, ...]:
        """Waits until this member owns other partitions, or the same with other tokens; returns its leases.

        `since`: the leases that the caller knows, so that it misses no change between two calls; those of
        the moment of the call when absent. Raises `StableTimeoutError` if nothing has changed in time, and
        `MemberClosedError` after `stop` or when the member ends.
        """
        timeout_s = checked_timeout(timeout_s)
        engine, changed = self._begin_wait_changed(since)
        try:
            result_of(engine, changed, timeout_s)
        except FutureTimeoutError:
            engine.check_usable()
            raise timed_out(engine, timeout_s, "its leases are the same") from None
        return self._changed(engine)

    def wait_closed(self, timeout_s: float = 30.0) -> None:
        """Waits until the member has ended, by the `close` of another thread or because it has failed.

        Raises the error that made it fail, `StableTimeoutError` if it has not ended in time, and
        `MemberClosedError` if `stop` was called and nobody closes the member.
        """
        timeout_s = checked_timeout(timeout_s)
        engine, ended = self._begin_wait_closed()
        try:
            result_of(engine, ended, timeout_s)
        except FutureTimeoutError:
            raise timed_out(engine, timeout_s, "it has not ended") from None
        except MemberClosedError:  # it has ended; its client may still be closing
            wait_for(
                engine.clock,
                engine.finished.is_set,
                after(engine.clock, CLOSE_TIMEOUT_S),
                engine.finished.wait,
            )
            return
        raise stopped_error(engine)

    def hand_back(self, partitions: Iterable[TopicPartition], timeout_s: float = HAND_BACK_TIMEOUT_S) -> None:
        """Gives partitions up (revoked, committed, released) until a later assignment gives them back.

        Raises `StableTimeoutError` if they are not released in time; the release goes on.
        """
        engine, timeout_s = self._engine, checked_timeout(timeout_s)
        try:
            result_of(engine, engine.hand_back(checked_partitions(partitions)), timeout_s)
        except FutureTimeoutError:
            raise not_assigned(engine, _description(engine)) from None

    @overload
    def committed(self, partitions: TopicPartition) -> int | None: ...

    @overload
    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]: ...

    def committed(
        self, partitions: TopicPartition | Iterable[TopicPartition]
    ) -> int | dict[TopicPartition, int | None] | None:
        """Committed offset in ZooKeeper of one partition, or of several by partition, owned or not.

        None if there is none.
        """
        if isinstance(partitions, TopicPartition):
            return self.committed([partitions])[partitions]
        engine = self._engine
        wanted = checked_partitions(partitions)
        try:
            outcome = result_of(
                engine, engine.ask(offsets_request(engine.group, wanted)), reply_timeout_s(self._settings)
            )
        except FutureTimeoutError:
            raise StoreUnavailableError("the committed offsets could not be read in time") from None
        return offsets_of(wanted, outcome)

    def describe(self) -> GroupDescription:
        """The whole group as `zkgroup group describe` prints it; may take 2 s during a rebalance."""
        with self._reads() as reads:
            return reads.describe()

    def _reads(self) -> AbstractContextManager[GroupReads]:
        return group_reads(self._engine)


def result_of(engine: MemberEngine, future: Future[T], timeout_s: float) -> T:
    """The future's result. Raises TimeoutError, and drops the future then."""
    try:
        return _result(engine, future, timeout_s)
    except FutureTimeoutError:
        engine.forget(future)
        raise


def _result(engine: MemberEngine, future: Future[T], timeout_s: float) -> T:
    def wait(left_s: float) -> None:
        with contextlib.suppress(FutureTimeoutError, CancelledError):
            future.exception(left_s)

    wait_for(engine.clock, future.done, after(engine.clock, timeout_s), wait)
    return future.result(0)


def _description(engine: MemberEngine) -> MemberSnapshot | None:
    try:
        return _result(engine, engine.describe(), DESCRIBE_TIMEOUT_S)
    except FutureTimeoutError:
        return None


class GroupMember(SyncBase):
    """A member of a consumer group that owns partitions and delivers nothing.

    ```python
    with GroupMember("host:2181/chroot", group="billing", topics=["orders"]) as member:
        member.wait_until_assigned(timeout_s=30)
        for lease in member.leases():
            work_on(lease.partition, lease.token)
    ```

    It joins the group at the start of the `with` block (or by `start()`) and leaves at its end (or by
    `close()`). Every method may be called from any thread, also inside a listener's callbacks, where
    `close()` does not wait for the end. The next call raises an error of a callback. A process forked from
    this one must create its own member: there every method except `close()` and `stop()` raises
    `ForkedClientError`.
    """

    def _build(self) -> MemberEngine:
        worker = CallbackWorker(f"zkgroup-{self._options.group}", self._options.clock_used)
        return open_engine(self._options, worker)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> CommitResult:
        """Commits offsets (of the *next* record to process) of owned partitions, fenced.

        All commits that wait are one transaction. An offset at or below this member's last commit counts as
        committed. Partitions are committed independently of the others' refusals.

        Raises `CommitRefusedError` with the result if any partition was refused; if all refusals are of one
        kind, that subclass: `NotOwnerError`, `OffsetConflictError`, `LeaseLostError`, `CommitUnknownError`.
        Raises `ConfigError` for an invalid partition or offset, and commits nothing then;
        `OutcomeUnknownError` if there was no reply in time.
        """
        engine = self._engine
        try:
            result = result_of(
                engine, engine.commit_offsets(checked_offsets(offsets)), reply_timeout_s(self._settings)
            )
        except FutureTimeoutError:
            raise OutcomeUnknownError("the commit got no reply in time; it may have been applied") from None
        result.raise_if_refused()
        return result


class Consumer(ConsumerBase[RebalanceListener], SyncBase):
    """A member of a group that reads its partitions' records from a source.

    ```python
    with Consumer("host:2181", group="billing", topics=["orders"], source=FileSource("data/")) as consumer:
        for record in consumer:
            handle(record)
    ```

    With `ack_mode="auto"` (default) the iteration acknowledges a record when the next one is requested, and
    `poll` acknowledges the previous batch; `ack` does it earlier. With `"explicit"` only `ack` acknowledges.
    Acknowledged records are committed by timer (`auto_commit_interval_ms`), before a partition is revoked, at
    `close()`, and by `commit()`. Nothing is committed that was not acknowledged.

    `poll` and iteration are for one thread at a time; every other method may be called from any.
    """

    def _set_up(self) -> None:
        super()._set_up()
        self._ready = threading.Condition()
        self._news = 0

    def _build(self) -> MemberEngine:
        return self._put_together(CallbackWorker(f"zkgroup-{self._options.group}", self._options.clock_used))

    def _join(self, deadline_ms: int) -> None:
        if self._consuming is not None:
            clock = self._consuming.engine.clock
            self._consuming.fetcher.close(max(0.5, seconds_until(clock, deadline_ms)))

    def _wake(self) -> None:
        with self._ready:
            self._news += 1
            self._ready.notify_all()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        """The next record; the iteration ends after `stop()`, `close()` or `consumer_timeout_ms` without one.

        Raises the error that made the consumer fail.
        """
        timeout_ms = self._options.settings.consumer_timeout_ms
        try:
            records = self._take(1, None if timeout_ms < 0 else timeout_ms / 1000)
        except MemberClosedError:
            raise StopIteration from None
        if not records:
            raise StopIteration
        return records[0]

    def poll(self, timeout_s: float = 1.0, max_records: int = 500) -> dict[TopicPartition, list[Record]]:
        """Up to `max_records` records by partition, in order; empty if none came in time or after `stop()`.

        Raises `MemberClosedError`, or the error that made the consumer fail.
        """
        return grouped(self._take(max_records, checked_timeout(timeout_s)))

    def _take(self, max_records: int, timeout_s: float | None) -> list[Record]:
        member = self._member
        check_count(max_records)
        clock = member.engine.clock
        deadline_ms = None if timeout_s is None else after(clock, timeout_s)
        member.begin_poll()
        try:
            while not self._stopped:
                seen = self._news
                member.engine.check_usable()
                if records := member.delivery.take(max_records):
                    return records
                if deadline_ms is not None and clock.now_ms() >= deadline_ms:
                    return []
                self._wait(clock, seen, deadline_ms)
            return []
        finally:
            member.end_poll()

    def _wait(self, clock: Clock, seen: int, deadline_ms: int | None) -> None:
        """Waits until there may be new records, or until `deadline_ms`."""

        def is_new() -> bool:
            return self._news != seen

        def wait(left_s: float) -> None:
            with self._ready:
                self._ready.wait_for(is_new, left_s)

        wait_for(clock, is_new, deadline_ms, wait)

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> CommitResult:
        """Commits the acknowledged records, or the offsets given; see `GroupMember.commit` for the errors."""
        member = self._member
        try:
            result = result_of(member.engine, member.commit(offsets), reply_timeout_s(self._settings))
        except FutureTimeoutError:
            raise OutcomeUnknownError("the commit got no reply in time; it may have been applied") from None
        result.raise_if_refused()
        return result

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Continues from this offset. Only after a seek may a later commit go back.

        Raises `NotOwnerError`; `ConfigError` for a negative offset.
        """
        member = self._member
        check_offset(topic_partition, offset)
        member.delivery.seek(topic_partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition, timeout_s: float = SOURCE_TIMEOUT_S) -> None:
        """Continues from the first offset that the source has, of these partitions or of all owned.

        Raises `NotOwnerError`, `SourceUnavailableError`.
        """
        found = self.beginning_offsets(self._member.owned(partitions), timeout_s)
        for topic_partition, offset in found.items():
            self._member.delivery.seek(topic_partition, offset)

    def seek_to_end(self, *partitions: TopicPartition, timeout_s: float = SOURCE_TIMEOUT_S) -> None:
        """Continues from the log end, of these partitions or of all owned; see `seek_to_beginning`."""
        found = self.end_offsets(self._member.owned(partitions), timeout_s)
        for topic_partition, offset in found.items():
            self._member.delivery.seek(topic_partition, offset)

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_s: float = SOURCE_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        """First offset in the source that can be read of each partition, owned or not.

        Raises `SourceUnavailableError` if the source does not reply in time.
        """
        wanted, timeout_s = checked_partitions(partitions), checked_timeout(timeout_s)
        found = self._reply(self._member.bounds(wanted, timeout_s), timeout_s)
        return {tp: bounds.earliest for tp, bounds in known_bounds(found, wanted).items()}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_s: float = SOURCE_TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        """Log end (offset of the next record) of each partition; see `beginning_offsets`."""
        wanted, timeout_s = checked_partitions(partitions), checked_timeout(timeout_s)
        found = self._reply(self._member.bounds(wanted, timeout_s), timeout_s)
        return {tp: bounds.end for tp, bounds in known_bounds(found, wanted).items()}

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_s: float = SOURCE_TIMEOUT_S
    ) -> dict[TopicPartition, int | None]:
        """Offset of the first record at or after a time (epoch milliseconds); None if there is none.

        Raises `ConfigError` if the source does not know the times of its records.
        """
        wanted, timeout_s = checked_times(times), checked_timeout(timeout_s)
        return self._reply(self._member.offsets_for_times(wanted, timeout_s), timeout_s)

    def lag(
        self, *partitions: TopicPartition, timeout_s: float = SOURCE_TIMEOUT_S
    ) -> dict[TopicPartition, int | None]:
        """Log end minus position, of these partitions or of all owned.

        None if the position or the log end is unknown. Raises `NotOwnerError`.
        """
        wanted, timeout_s = self._member.owned(partitions), checked_timeout(timeout_s)
        found = self._reply(self._member.bounds(wanted, timeout_s), timeout_s)
        return self._member.lag(wanted, found)

    def _reply(self, future: Future[T], timeout_s: float) -> T:
        """The source's reply to a call by the fetcher, which may be busy with another call.

        A call that ends because a failed consumer closed its client raises the failure.
        """
        try:
            return result_of(self._engine, future, timeout_s + SOURCE_GRACE_S)
        except StoreUnavailableError:
            self._engine.raise_failure()
            raise
        except FutureTimeoutError:
            raise self._no_reply(timeout_s) from None
