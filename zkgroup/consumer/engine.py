"""One member at work: the machine in its loop, and what its effects mean to the application.

Both faces (blocking and asyncio) stand on this class. Everything below "the loop's thread" runs there
alone; the methods above it may be called from any thread, return at once, and answer by a `Future`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from zkgroup.consumer.arguments import checked_offsets, checked_partitions
from zkgroup.consumer.callbacks import Callbacks
from zkgroup.consumer.calls import Calls, Revocations
from zkgroup.consumer.clearing import clear_away
from zkgroup.consumer.effects import Abandon, ChangeState, Finish, FinishCommit, MemberState, OwnEffect
from zkgroup.consumer.events import (
    ApplicationFailed,
    CloseRequested,
    CommitRequested,
    Event,
    HandBackRequested,
    Opened,
)
from zkgroup.consumer.holding import Holding
from zkgroup.consumer.lease import LeaseBoard
from zkgroup.consumer.machine import MemberDescription, MemberMachine
from zkgroup.consumer.promises import Promises, ending_error, refuse, resolve
from zkgroup.consumer.share import Processed, Share
from zkgroup.consumer.telemetry import Telemetry
from zkgroup.consumer.worker import CallbackRunner
from zkgroup.errors import CommitResult, ForkedClientError
from zkgroup.machinery.effects import Note
from zkgroup.machinery.loop import MachineLoop
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, HistorySink, MetricsSink, Store
from zkgroup.model.requests import Connected, Lost, Outcome, Request, SessionEvent

log = logging.getLogger("zkgroup.consumer")

T = TypeVar("T")

OWN_GRACE_MS = 200
"""A machine that has not finished this long after its deadline is given up."""
CLIENT_CLOSE_MS = 2000
CLIENT_CLOSE_MIN_MS = 100
SHARED_GRACE_MS = 120_000
"""With a shared client it may go on until its znodes are gone (see `CloseRequested`): a session timeout.

What it leaves then is cleared away, as after a crash."""


class MemberEngine:
    """A member of a group, without a face."""

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
        metrics: MetricsSink,
        share: Share | None = None,
    ) -> None:
        self.group = group
        self.member = member
        self.clock = clock
        self.board = LeaseBoard(clock)
        self.telemetry = Telemetry(group, member, self.board, clock, history, metrics)
        self.state = MemberState.NEW
        self.failure: BaseException | None = None
        self.incarnation = 0
        self.finished = threading.Event()
        self.closing = False
        self._close_by_ms: int | None = None
        self.loop: MachineLoop[Event, OwnEffect] = MachineLoop(
            machine,
            store,
            clock,
            perform=self._perform,
            after_step=lambda: self._promises.look(),
            on_crash=self._on_crash,
            name=f"zkgroup-{member}",
        )
        self.store = store
        self._machine = machine
        self._callbacks = callbacks
        self._owns_client = owns_client
        self._share = share
        self._pid = os.getpid()
        self._ended = False
        self._calls = Calls(
            callbacks,
            self.loop,
            clock,
            self.telemetry,
            timeout_ms=callback_timeout_ms,
            on_error=self._fail_application,
        )
        revocations = Revocations(self._calls, clock, share, self.loop.post)
        self._holding = Holding(self.board, self._calls, revocations, self.telemetry, share)
        self._promises = Promises()
        self._unlisten: Callable[[], None] | None = None
        self._on_end: list[Callable[[], None]] = []

    # --- any thread -------------------------------------------------------------------------------

    @property
    def runner(self) -> CallbackRunner:
        return self._callbacks.runner

    def check_process(self) -> None:
        """Raises `ForkedClientError` in a process forked from the one that opened the member."""
        if os.getpid() != self._pid:
            raise ForkedClientError(
                f"{self.member} belongs to process {self._pid}; open a new member in process {os.getpid()}"
            )

    @property
    def forked(self) -> bool:
        return os.getpid() != self._pid

    def raise_failure(self) -> None:
        """Raises what ended the member in the state `failed`, if anything did."""
        if self.failure is not None:
            raise ending_error(self.member, self.failure)

    def check_usable(self) -> None:
        """Raises what makes every call on this member fail: fork, failure, closed."""
        self.check_process()
        self.raise_failure()
        if self.finished.is_set():
            raise ending_error(self.member, None)

    def start(self) -> None:
        """Join the group: starts the loop's thread."""
        self.open()
        self.loop.start()

    def open(self) -> None:
        """Join the group without a thread: the caller runs `loop.run_pending()`."""
        self._unlisten = self.store.listen(self._on_session)
        self.loop.listen()
        self.loop.post(Opened())

    def _on_session(self, event: SessionEvent) -> None:
        """Notes the session by which `ask` reads, and what ended the client for good."""
        if isinstance(event, Connected):
            self.incarnation = event.session.incarnation
            self.loop.post(lambda: None)  # whoever waits for the connection is asked again
        elif isinstance(event, Lost) and event.fatal is not None:
            self.fail(event.fatal)

    def at_end(self, action: Callable[[], None]) -> None:
        """Runs an action on the loop's thread when the member has ended."""
        self._on_end.append(action)

    def commit(self, processed: Processed) -> Future[CommitResult]:
        """Order a commit; the future gets its result, never an exception for refused partitions."""
        future: Future[CommitResult] = Future()
        self._request(lambda: self.begin_commit(processed, future), future)
        return future

    def commit_now(self, offsets: Mapping[TopicPartition, int]) -> Future[CommitResult]:
        """Order a commit of offsets that hold for what is owned at this moment, not for a later claim.

        Raises `ConfigError` where one of them is no offset.
        """
        return self.commit(Processed(checked_offsets(offsets), last_move_id=self.board.current.move_id))

    def ask(self, request: Request) -> Future[Outcome]:
        """A read of the application's, beside the machine."""
        future: Future[Outcome] = Future()
        self._request(lambda: self._begin_question(request, future), future)
        return future

    def hand_back(self, partitions: Iterable[TopicPartition]) -> Future[None]:
        """Give partitions up; the future is done when none of the claims held now is held any more: a later
        plan may give them to this member again at once. Raises `ConfigError`."""
        wanted = frozenset(checked_partitions(partitions))
        future: Future[None] = Future()

        def begin() -> None:
            if self._ended:
                self._fail(future)
                return
            claims = {grant for tp, grant in self.board.current.grants.items() if tp in wanted}
            self._promises.when(lambda: claims.isdisjoint(self.board.current.grants.values()), future)
            self.loop.step(HandBackRequested(wanted))

        self._request(begin, future)
        return future

    def picture(self) -> Future[MemberDescription]:
        """What the machine knows now."""
        future: Future[MemberDescription] = Future()
        self._request(lambda: resolve(future, self._machine.describe()), future)
        return future

    def when(self, predicate: Callable[[], bool]) -> Future[None]:
        """A future that is done once the predicate holds: asked on the loop's thread after each event."""
        future: Future[None] = Future()

        def enlist() -> None:
            if self._ended:
                self._fail(future)
            else:
                self._promises.when(predicate, future)

        self._request(enlist, future)
        return future

    def _request(self, task: Callable[[], None], future: Future[T]) -> None:
        """Has the loop do what answers a future; one that comes after the end is failed here."""
        self.loop.request(task)
        if self.finished.is_set():
            self._fail(future)

    def forget(self, future: Future[T]) -> None:
        """A waiter has given up."""
        self.loop.post(lambda: self._promises.forget(future))

    def begin_close(self, timeout_s: float) -> None:
        """Order the clean end; returns at once, idempotent, safe in a signal handler."""
        self.loop.post(lambda: self._begin_close(timeout_s))

    def fail(self, error: BaseException) -> None:
        """The application's code or its source raised: leave cleanly and end as `failed`."""
        self.loop.post(lambda: self._fail_application(error))

    def call_soon(self, task: Callable[[], None]) -> None:
        """Runs a task on the loop's thread."""
        self.loop.post(task)

    def note_delivery(self, kind: str, fields: Mapping[str, object]) -> None:
        """Records the start or the end of a delivery; thread-safe as far as the history sink is."""
        self.telemetry.delivery(kind, fields)

    # --- the loop's thread ------------------------------------------------------------------------

    def call_at(self, name: str, at_ms: int, task: Callable[[], None]) -> None:
        """Runs a task at this time, instead of an earlier one of this name."""
        if not self._ended:
            self.loop.schedule(name, at_ms, task)

    def begin_commit(self, processed: Processed, future: Future[CommitResult]) -> None:
        """Order a commit from the loop's thread itself."""
        if self._ended:
            self._fail(future)
            return
        commit_id = self.loop.new_id()
        self._promises.commit(commit_id, future)
        self.loop.step(
            CommitRequested(
                commit_id, processed.positions, processed.seeks, last_move_id=processed.last_move_id
            )
        )

    def step(self, event: Event) -> None:
        if not self._ended:
            self.loop.step(event)

    def _begin_question(self, request: Request, future: Future[Outcome]) -> None:
        if self._ended:
            self._fail(future)
            return
        self._promises.question(future)

        def answered(outcome: Outcome) -> None:
            self.loop.post(lambda: self._promises.answered(future, outcome))

        self.store.submit(request, incarnation=self.incarnation, on_outcome=answered)

    def _begin_close(self, timeout_s: float) -> None:
        if self._ended or self.closing:
            return
        self.closing = True
        now_ms = self.clock.now_ms()
        self._close_by_ms = now_ms + int(timeout_s * 1000)
        deadline_ms = now_ms + int(timeout_s * 1000 * 0.8)
        grace_ms = OWN_GRACE_MS if self._owns_client else SHARED_GRACE_MS
        self.loop.schedule("close", deadline_ms + grace_ms, self._give_up_closing)
        self.loop.step(CloseRequested(self._owns_client, deadline_ms))

    def _give_up_closing(self) -> None:
        if not self._ended:
            what = "its session is ended as it is" if self._owns_client else "what it left is taken away"
            log.warning("%s: not closed cleanly in time; %s", self.member, what)
            self._end_and_clear()

    def _end_and_clear(self) -> None:
        """Ends without the machine. No lease runs and nothing is delivered any more when owners go, so that
        whoever claims next is alone; a client of its own takes them away with its session."""
        try:
            self._end_everything()
        finally:  # else its znodes would stay for as long as the process lives
            if self._owns_client:
                self._close_client()
            else:
                clear_away(self.store, self.clock, self.group, self.member)
            self._announce_end()

    def _fail_application(self, error: BaseException) -> None:
        if self._ended:
            if self.failure is None:
                self.failure = error
            return
        if self.failure is None:
            self.failure = error
            # whoever calls next gets it raised: `raised` lets a program show it once
            log.error("%s fails and leaves", self.member, exc_info=error, extra={"raised": True})
        if not self.closing:
            self.loop.step(ApplicationFailed(error))

    # --- effects ----------------------------------------------------------------------------------

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
            case Note():
                self.telemetry.note(effect)
            case Finish():
                self._finish(effect)
            case _:  # about partitions, all of them: `PartitionEffect`
                self._holding.perform(effect)

    def _finish_commit(self, effect: FinishCommit) -> None:
        self.telemetry.committed(effect)
        if self._share is not None:
            self._share.committed(effect)
        self._promises.committed(effect.commit_id, CommitResult(effect.committed, effect.refused))

    # --- the end ----------------------------------------------------------------------------------

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
        """An error of our own: nothing of this member may be believed any more."""
        self.failure = error
        self.state = MemberState.FAILED
        self._end_and_clear()

    def _close_client(self) -> None:
        """Within what is left of the time for closing; a member that ends by itself has some of its own."""
        left_ms = CLIENT_CLOSE_MS
        if self._close_by_ms is not None:
            left_ms = max(CLIENT_CLOSE_MIN_MS, self._close_by_ms - self.clock.now_ms())
        self.store.close(timeout_s=left_ms / 1000)

    def _announce_end(self) -> None:
        """What was asked too late is answered here, or by `_request`."""
        self.finished.set()
        self.loop.run_tasks_left()
        for action in self._on_end:
            action()

    def _end_everything(self) -> None:
        self._ended = True
        self._calls.end()
        self._holding.finish()
        if self._unlisten is not None:
            self._unlisten()
        self.loop.stop()
        self._promises.end(ending_error(self.member, self.failure))

    def _fail(self, future: Future[T]) -> None:
        refuse(future, ending_error(self.member, self.failure))
