"""`MemberEngine` runs the machine of one member in its loop and performs its effects.

The blocking and the asyncio classes use it. The methods below "the loop's thread" run on that thread only;
those above it may be called from any thread, return at once, and give a `Future` (`PendingFutures`).
`PartitionEffectHandler` performs the effects about partitions: for the leases, the delivery, the callbacks.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, TypeVar, assert_never

from zkgroup.consumer.callbacks import (
    CallbackDispatcher,
    CallbackRunner,
    Callbacks,
    Revocations,
)
from zkgroup.consumer.lease import DeliveryPort, Lease, LeaseTable, ProcessedPositions
from zkgroup.consumer.machine import MemberMachine, MemberSnapshot
from zkgroup.consumer.machine.events import (
    Abandon,
    ApplicationFailed,
    Assign,
    ChangeState,
    CloseRequested,
    CommitRequested,
    EndLease,
    EndOverdue,
    Event,
    ExtendLease,
    Finish,
    FinishCommit,
    HandBackRequested,
    Lose,
    MemberState,
    Opened,
    OwnEffect,
    Prepare,
    Revoke,
    SeekTo,
    SubscriptionChanged,
    TurnBegan,
)
from zkgroup.consumer.orphan_cleanup import remove_orphans
from zkgroup.consumer.preparations import Preparations
from zkgroup.consumer.telemetry import Telemetry
from zkgroup.consumer.turns import MemberTurn, session_of, turns_of
from zkgroup.errors import CommitResult, ForkedClientError, MemberClosedError, MemberFailedError, ZkGroupError
from zkgroup.model import Subscription, TopicPartition
from zkgroup.model.ports import Clock, HistorySink, MetricsSink, Store
from zkgroup.model.requests import Connected, Lost, Outcome, Request, SessionEvent
from zkgroup.runtime.events import LogEvent
from zkgroup.runtime.loop import MachineLoop

log = logging.getLogger("zkgroup.consumer")

T = TypeVar("T")

OWN_GRACE_MS = 200
"""Milliseconds after its deadline at which a machine that has not finished its close is given up."""
CLIENT_CLOSE_MS = 2000
CLIENT_CLOSE_MIN_MS = 100
SHARED_GRACE_MS = 120_000
"""The same on a shared client, where the machine deletes its znodes itself (`CloseRequested`)."""


class MemberEngine:
    """The engine of one member: its machine in a loop, its effects, and the calls of the public classes."""

    def __init__(
        self,
        *,
        group: str,
        member: str,
        machine: MemberMachine,
        store: Store,
        clock: Clock,
        callbacks: Callbacks,
        callback_timeout_ms: int,
        owns_client: bool,
        history: HistorySink | None,
        metrics: MetricsSink | None,
        delivery: DeliveryPort | None = None,
    ) -> None:
        self.group = group
        self.member = member
        self.clock = clock
        self.lease_table = LeaseTable(clock)
        self.telemetry = Telemetry(group, member, self.lease_table, clock, history, metrics)
        self.state, self.reason = MemberState.NEW, ""
        self.failure: BaseException | None = None
        self.incarnation = 0
        self.finished = threading.Event()
        self.closing = False
        self.topics: frozenset[str] = frozenset()
        self.missing_topics: frozenset[str] = frozenset()
        """Topics of the subscription in the newest assignment, and those that do not exist; of any thread."""
        self._close_by_ms: int | None = None
        self.loop: MachineLoop[Event, OwnEffect] = MachineLoop(
            machine,
            store,
            clock,
            perform=self._perform,
            after_step=self._after_step,
            on_crash=self._on_crash,
            name=f"zkgroup-{member}",
        )
        self.store = store
        self._machine, self._callbacks = machine, callbacks
        self._owns_client = owns_client
        self._delivery, self._pid = delivery or DeliveryPort(), os.getpid()
        self._ended = False
        self._calls = CallbackDispatcher(
            callbacks,
            self.loop,
            clock,
            self.telemetry,
            timeout_ms=callback_timeout_ms,
            on_error=self._fail_application,
        )
        self._turn = self._shared_with(machine)
        revocations = Revocations(self._calls, clock, self._delivery, self.loop.post)
        self._partition_effects = PartitionEffectHandler(
            self.lease_table, self._calls, revocations, self.telemetry, self._delivery
        )
        self._preparations = Preparations(callbacks, self.loop, self._fail_application)
        self._pending_futures = PendingFutures()
        self._unlisten: Callable[[], None] | None = None
        self._on_end: list[Callable[[], None]] = []

    def _shared_with(self, machine: MemberMachine) -> MemberTurn:
        """Gives the machine what the members of this process share; returns its turn."""
        machine.share_session(session_of(self.store, self.clock))
        turn = MemberTurn(turns_of(self.clock), lambda: self.loop.post(TurnBegan()))
        machine.work_in_turns(turn)
        return turn

    @property
    def told(self) -> Future[None]:
        """Done when the application was told of the member's failure, if it has failed."""
        return self._calls.told

    @property
    def runner(self) -> CallbackRunner:
        return self._callbacks.runner

    @property
    def forked(self) -> bool:
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """Raises `ForkedClientError` in a process forked from the one that opened the member."""
        if self.forked:
            raise ForkedClientError(
                f"{self.member} belongs to process {self._pid}; open a new member in process {os.getpid()}"
            )

    def raise_failure(self) -> None:
        """Raises the error that ended the member in the state `failed`, if there is one."""
        if self.failure is not None:
            raise ending_error(self.member, self.failure)

    def check_usable(self) -> None:
        """Raises if every call on this member must fail: after a fork, a failure, or a close."""
        self.check_process()
        self.raise_failure()
        if self.finished.is_set():
            raise ending_error(self.member, None)

    def start(self) -> None:
        """Starts the loop's thread, which joins the group."""
        self.open()
        self.loop.start()

    def open(self) -> None:
        """Joins the group without a thread: the caller runs `loop.run_pending()`."""
        self._unlisten = self.store.listen(self._on_session)
        self.loop.listen()
        self.loop.post(Opened())

    def _on_session(self, event: SessionEvent) -> None:
        """Notes the session of the reads of `ask`, and the error that ended the client."""
        if isinstance(event, Connected):
            self.incarnation = event.session.incarnation
            self.loop.post(lambda: None)  # re-checks the waits for the connection
        elif isinstance(event, Lost) and event.fatal is not None:
            self.fail(event.fatal)

    def at_end(self, action: Callable[[], None]) -> None:
        """Runs an action on the loop's thread when the member has ended."""
        self._on_end.append(action)

    def commit(self, processed: ProcessedPositions) -> Future[CommitResult]:
        """Requests a commit; the future gets its result, never an exception for refused partitions."""
        future: Future[CommitResult] = Future()
        self._request(lambda: self.begin_commit(processed, future), future)
        return future

    def commit_offsets(self, offsets: Mapping[TopicPartition, int]) -> Future[CommitResult]:
        """Requests a commit of checked offsets for the present claims, not for later ones."""
        return self.commit(ProcessedPositions(offsets, last_seek_id=self.lease_table.current.seek_id))

    def ask(self, request: Request) -> Future[Outcome]:
        """Submits a read of the application, outside the machine."""
        future: Future[Outcome] = Future()
        self._request(lambda: self._begin_question(request, future), future)
        return future

    def hand_back(self, partitions: Iterable[TopicPartition]) -> Future[None]:
        """Gives partitions up; done when all their present claims have ended. A later assignment may give
        them back at once."""
        wanted = frozenset(partitions)
        future: Future[None] = Future()

        def begin() -> None:
            if self._ended:
                self._fail(future)
                return
            claims = {grant for tp, grant in self.lease_table.current.grants.items() if tp in wanted}
            self._pending_futures.when(
                lambda: claims.isdisjoint(self.lease_table.current.grants.values()), future
            )
            self.loop.step(HandBackRequested(wanted))

        self._request(begin, future)
        return future

    def subscribe(self, subscription: Subscription) -> None:
        """Requests another subscription; its partitions come with the rebalance that follows."""
        self.loop.post(lambda: self.step(SubscriptionChanged(subscription)))

    def describe(self) -> Future[MemberSnapshot]:
        future: Future[MemberSnapshot] = Future()
        self._request(lambda: resolve(future, self._machine.describe()), future)
        return future

    def when(self, predicate: Callable[[], bool]) -> Future[None]:
        """A future that is done once the predicate is true; checked on the loop's thread after each event."""
        future: Future[None] = Future()

        def enlist() -> None:
            if self._ended:
                self._fail(future)
            else:
                self._pending_futures.when(predicate, future)

        self._request(enlist, future)
        return future

    def _request(self, task: Callable[[], None], future: Future[T]) -> None:
        """Runs a task of a future on the loop's thread; after the end of the member the future fails."""
        self.loop.request(task)
        if self.finished.is_set():
            self._fail(future)

    def forget(self, future: Future[T]) -> None:
        """Drops a future whose caller has stopped waiting."""
        self.loop.post(lambda: self._pending_futures.forget(future))

    def begin_close(self, timeout_s: float, *, leave: bool = True) -> None:
        """Starts to leave the group; returns at once, idempotent, safe in a signal handler."""
        self.loop.post(lambda: self._begin_close(timeout_s, leave))

    def fail(self, error: BaseException) -> None:
        """Leaves the group and ends as `failed`: the application's code or its source raised."""
        self.loop.post(lambda: self._fail_application(error))

    def call_soon(self, task: Callable[[], None]) -> None:
        self.loop.post(task)

    def note_delivery(self, kind: str, fields: Mapping[str, object]) -> None:
        """Records `start` (of the reset policy), `deliver.start`, `deliver.end` or `seek`, if there is a
        history. Thread-safe if its sink is."""
        self.telemetry.delivery(kind, fields)

    def call_at(self, name: str, at_ms: int, task: Callable[[], None]) -> None:
        """Runs a task at this time; replaces one of the same name."""
        if not self._ended:
            self.loop.schedule(name, at_ms, task)

    def begin_commit(self, processed: ProcessedPositions, future: Future[CommitResult]) -> None:
        if self._ended:
            self._fail(future)
            return
        commit_id, last_seek_id = self.loop.new_id(), processed.last_seek_id
        self._pending_futures.commit(commit_id, future)
        self.loop.step(CommitRequested(commit_id, processed.positions, processed.seeks, last_seek_id))

    def _after_step(self) -> None:
        machine = self._machine
        self.topics, self.missing_topics, self.reason = machine.topics, machine.missing_topics, machine.reason
        self._pending_futures.check_waiters()

    def step(self, event: Event) -> None:
        if not self._ended:
            self.loop.step(event)

    def _begin_question(self, request: Request, future: Future[Outcome]) -> None:
        if self._ended:
            self._fail(future)
            return
        self._pending_futures.question(future)

        def answered(outcome: Outcome) -> None:
            self.loop.post(lambda: self._pending_futures.answered(future, outcome))

        self.store.submit(request, incarnation=self.incarnation, on_outcome=answered)

    def _begin_close(self, timeout_s: float, leave: bool) -> None:
        if self._ended or self.closing:
            return
        self.closing = True
        now_ms = self.clock.now_ms()
        self._close_by_ms = now_ms + int(timeout_s * 1000)
        deadline_ms = now_ms + int(timeout_s * 1000 * 0.8)
        grace_ms = OWN_GRACE_MS if self._owns_client else SHARED_GRACE_MS
        self.loop.schedule("close", deadline_ms + grace_ms, self._give_up_closing)
        self.loop.step(CloseRequested(self._owns_client, deadline_ms, leave))

    def _give_up_closing(self) -> None:
        if not self._ended:
            what = "its session is closed" if self._owns_client else "its remaining znodes are deleted"
            log.warning("%s: the machine did not finish its close in time; %s", self.member, what)
            self._end_and_clear()

    def _end_and_clear(self) -> None:
        """Ends without the machine. So that there is only one owner at a time, leases and deliveries end
        before the owner znodes are deleted, by the end of the session where the client is its own."""
        try:
            self._end_everything()
        finally:  # else its znodes would stay until the process ends
            if self._owns_client:
                self._close_client()
            else:
                remove_orphans(self.store, self.clock, self.group, self.member)
            self._announce_end()

    def _fail_application(self, error: BaseException) -> None:
        if self._ended:
            if self.failure is None:
                self.failure = error
            return
        if self.failure is None:
            self.failure = error
            # the next call raises it: `raised` lets a program print it once
            log.error("%s fails and leaves", self.member, exc_info=error, extra={"raised": True})
        if not self.closing:
            self.loop.step(ApplicationFailed(error))

    def _perform(self, effect: OwnEffect) -> None:
        match effect:
            case FinishCommit():
                self._finish_commit(effect)
            case ChangeState():
                self.state = effect.after
                self.telemetry.state(effect)
                self._calls.call("on_state", effect.before, effect.after, effect.reason)
            case Abandon(incarnation, reason):
                self.store.abandon(incarnation, reason)
            case LogEvent():
                self.telemetry.note(effect)
            case Finish():
                self._finish(effect)
            case Prepare():
                self._preparations.begin(effect)
            case _:  # the other effects are about partitions: `PartitionEffect`
                self._partition_effects.perform(effect)

    def _finish_commit(self, effect: FinishCommit) -> None:
        self.telemetry.committed(effect)
        self._delivery.committed(effect)
        self._pending_futures.committed(effect.commit_id, CommitResult(effect.committed, effect.refused))

    def _finish(self, effect: Finish) -> None:
        if self._ended:
            return
        if effect.error is not None and self.failure is None:
            self.failure = effect.error
        self._end_everything()
        if effect.close_session:
            self._close_client()
        self._announce_end()

    def _on_crash(self, error: BaseException) -> None:
        """Ends the member after an error of zkgroup itself: its state cannot be relied on."""
        self.failure = error
        self.state = MemberState.FAILED
        self._end_and_clear()

    def _close_client(self) -> None:
        """Closes the client within the time left for closing; a member that failed has a fixed time."""
        left_ms = CLIENT_CLOSE_MS
        if self._close_by_ms is not None:
            left_ms = max(CLIENT_CLOSE_MIN_MS, self._close_by_ms - self.clock.now_ms())
        self.store.close(timeout_s=left_ms / 1000)

    def _announce_end(self) -> None:
        """Fails the futures of calls that came too late; later ones fail in `_request`."""
        self.finished.set()
        self.loop.run_tasks_left()
        for action in self._on_end:
            action()
        self._calls.tell_failure(ending_error(self.member, self.failure) if self.failure else None)

    def _end_everything(self) -> None:
        self._ended = True
        if self._turn.is_open:
            self._turn.end(self.clock.now_ms())
        self._calls.end()
        self._partition_effects.finish()
        if self._unlisten is not None:
            self._unlisten()
        self.loop.stop()
        self._pending_futures.end(ending_error(self.member, self.failure))

    def _fail(self, future: Future[T]) -> None:
        refuse(future, ending_error(self.member, self.failure))


class PendingFutures:
    """The futures of one member that are not done; all of them fail at its end."""

    def __init__(self) -> None:
        self._waiters: dict[Future[None], Callable[[], bool]] = {}
        self._commits: dict[int, Future[CommitResult]] = {}
        self._questions: set[Future[Outcome]] = set()

    def when(self, predicate: Callable[[], bool], future: Future[None]) -> None:
        """Adds a future that is done once the predicate is true; `check_waiters` evaluates it."""
        self._waiters[future] = predicate

    def commit(self, commit_id: int, future: Future[CommitResult]) -> None:
        self._commits[commit_id] = future

    def committed(self, commit_id: int, result: CommitResult) -> None:
        future = self._commits.pop(commit_id, None)
        if future is not None:
            resolve(future, result)

    def question(self, future: Future[Outcome]) -> None:
        self._questions.add(future)

    def answered(self, future: Future[Outcome], outcome: Outcome) -> None:
        self._questions.discard(future)
        resolve(future, outcome)

    def check_waiters(self) -> None:
        for future, predicate in list(self._waiters.items()):
            if future.done() or predicate():
                resolve(future, None)
                self._waiters.pop(future, None)

    def forget(self, future: Future[Any]) -> None:
        self._waiters.pop(future, None)

    def end(self, error: BaseException) -> None:
        """Fails all futures: the member has ended."""
        for waiter in self._waiters:
            refuse(waiter, error)
        for commit in self._commits.values():
            refuse(commit, error)
        for question in self._questions:
            refuse(question, error)
        self._waiters.clear()
        self._commits.clear()
        self._questions.clear()


def resolve(future: Future[T], result: T) -> None:
    """Sets the result of a future whose waiter may have cancelled it meanwhile."""
    with suppress(InvalidStateError):
        future.set_result(result)


def refuse(future: Future[T], error: BaseException) -> None:
    """Sets the error of a future whose waiter may have cancelled it meanwhile."""
    with suppress(InvalidStateError):
        future.set_exception(error)


def ending_error(member: str, failure: BaseException | None) -> ZkGroupError:
    """The error of a call on a member that has ended; an error of the application is its cause."""
    if failure is None:
        return MemberClosedError(f"{member} is closed")
    if isinstance(failure, ZkGroupError):
        return failure.with_traceback(None)
    error = MemberFailedError(f"{member} has failed: {failure!r}")
    error.__cause__ = failure
    return error


PartitionEffect = Assign | Revoke | EndOverdue | EndLease | Lose | ExtendLease | SeekTo


class PartitionEffectHandler:
    """Performs the effects about partitions. Used on the member's thread.

    The lease table is changed before anything is reported: a thread that reads it must never find a
    partition that is not owned.
    """

    def __init__(
        self,
        lease_table: LeaseTable,
        calls: CallbackDispatcher,
        revocations: Revocations,
        telemetry: Telemetry,
        delivery: DeliveryPort,
    ) -> None:
        self._lease_table = lease_table
        self._calls = calls
        self._revocations = revocations
        self._telemetry = telemetry
        self._delivery = delivery

    def perform(self, effect: PartitionEffect) -> None:
        match effect:
            case Assign():
                self._assign(effect)
            case Revoke():
                self._revoke(effect)
            case EndOverdue():
                self._end_overdue(effect)
            case EndLease(partitions):
                self._end(partitions)
            case Lose(partitions):
                self._end(partitions)
                self._calls.call("on_lost", partitions)
            case ExtendLease(until_ms):
                self._lease_table.extend(until_ms)
                self._telemetry.holdings()
                self._delivery.extended()
            case SeekTo():
                self._lease_table.seek_performed(effect.seek_id)
                self._delivery.seek_performed(effect)
            case _:
                assert_never(effect)

    def _assign(self, effect: Assign) -> None:
        self._lease_table.grant(effect.grants, effect.seek_id)
        self._telemetry.holdings()
        self._delivery.assigned(effect)
        leases = [Lease(grant, self._lease_table) for grant in effect.grants]
        self._calls.call("on_assigned", leases, then=lambda: self._delivery.started(effect.grants))

    def _revoke(self, effect: Revoke) -> None:
        self._lease_table.stop(effect.partitions)
        self._delivery.stop(effect.partitions)
        self._revocations.begin(effect)

    def _end_overdue(self, effect: EndOverdue) -> None:
        has_begun = self._revocations.end_overdue(effect)
        self._end(effect.partitions)
        if not has_begun:
            self._calls.call("on_lost", effect.partitions)

    def _end(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._lease_table.end(partitions)
        self._telemetry.holdings()
        self._delivery.ended(partitions)

    def finish(self) -> None:
        partitions = tuple(self._lease_table.current.grants)
        self._lease_table.clear()
        self._telemetry.holdings()
        self._delivery.ended(partitions)
        self._delivery.finished()
