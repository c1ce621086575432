"""The blocking face of a member: what `GroupMember` and `Consumer` have in common."""

from __future__ import annotations

import contextlib
import threading
from abc import abstractmethod
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self, TypeVar

from zkgroup.admin.values import GroupDescription
from zkgroup.consumer.arguments import checked_partitions, checked_timeout
from zkgroup.consumer.effects import MemberState
from zkgroup.consumer.engine import MemberEngine
from zkgroup.consumer.face import Face
from zkgroup.consumer.listener import RebalanceListener
from zkgroup.consumer.machine import MemberDescription
from zkgroup.consumer.opening import MemberOptions
from zkgroup.consumer.reads import LOOK_AGAIN_S, GroupReads, group_reads, offsets_of, offsets_request
from zkgroup.errors import (
    MemberClosedError,
    StableTimeoutError,
    StoreUnavailableError,
    ZkGroupError,
)
from zkgroup.model import TopicPartition
from zkgroup.model.waiting import after, seconds_until, wait_for
from zkgroup.settings import GroupSettings
from zkgroup.zookeeper import ZooKeeperClient

T = TypeVar("T")

HAND_BACK_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 5.0
CLOSE_GRACE_MS = 1000
PICTURE_TIMEOUT_S = 1.0


class BlockingFace(Face):
    """Life, waiting, leases and reads of a member; each call may come from any thread.

    A process forked from the one that started the member must make its own: here every call but
    `close()` and `stop()` raises `ForkedClientError`.
    """

    _listener_kind = RebalanceListener
    _how_to_start = "use `with`, or start() it"

    def __init__(self, options: MemberOptions) -> None:
        super().__init__(options)
        self._start_lock = threading.Lock()

    @abstractmethod
    def _build(self) -> MemberEngine:
        """Puts the engine together; nothing of it runs yet."""

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Joins the group; idempotent. Returns when ZooKeeper is connected, before anything is assigned.

        Raises `StoreUnavailableError` after `connection_timeout_ms` without a connection, and
        `ConfigError` where another member of this process uses the same client under the same id.
        """
        with self._start_lock:
            if self._closed.is_set():
                raise MemberClosedError("a closed member does not start again; make a new one")
            if self._engine_made is not None:
                return self
            # known before its first thread runs: a callback may use the member before this call returns
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
                raise  # else it is for the next call
        except KeyboardInterrupt:
            self._begin_close(engine, 1.0)
            raise
        except FutureTimeoutError:
            self.close(timeout_s=1.0)
            raise not_connected(engine, timeout_ms) from None

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Leaves: revokes, commits what the listener commits, releases, ends the session.

        Idempotent, from any thread; returns within `timeout_s` and a moment whatever ZooKeeper and the
        callbacks do. Inside a callback it schedules the end and returns. Raises what made the member
        fail, each time.
        """
        timeout_s = checked_timeout(timeout_s)
        self._closed.set()
        engine = self._engine_made
        if engine is None or engine.forked:
            return
        self._begin_close(engine, timeout_s)
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
        """Waits for what else was started; `deadline_ms` is on the member's clock."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            with contextlib.suppress(ZkGroupError):  # the body's error is the one to see
                self.close()

    # --- waiting ----------------------------------------------------------------------------------

    def wait_until_assigned(self, timeout_s: float = 30.0) -> None:
        """Returns when this member owns all that the plan gives it (perhaps nothing); no extra reads.

        Raises `StableTimeoutError` naming what it waits for, `MemberClosedError` after `stop`.
        """
        engine, timeout_s = self._engine, checked_timeout(timeout_s)
        try:
            assigned = engine.when(lambda: engine.state is MemberState.STABLE or self._stopped)
            result_of(engine, assigned, timeout_s)
        except FutureTimeoutError:
            engine.check_usable()
            raise not_assigned(engine, _picture(engine)) from None
        self._check_stopped(engine)

    def wait_until_stable(self, timeout_s: float = 30.0) -> None:
        """Returns when the whole group has converged: every partition is owned as the plan says.

        Reads the group now and then. Raises `StableTimeoutError`, whose `blockers` name the partitions.
        """
        engine = self._engine
        deadline_ms = after(engine.clock, checked_timeout(timeout_s))
        self.wait_until_assigned(timeout_s)
        with self._reads() as reads:
            converged = reads.wait_converged(
                deadline_ms, lambda: told(engine, _picture(engine)), lambda: self._stopped
            )
        engine.check_usable()
        if not converged:
            raise MemberClosedError(f"{engine.member} was asked to stop")
        # the reads may have shown a claim of this very member whose answer had yet to come
        self.wait_until_assigned(max(LOOK_AGAIN_S, seconds_until(engine.clock, deadline_ms)))

    # --- what is owned ----------------------------------------------------------------------------

    def hand_back(self, partitions: Iterable[TopicPartition], timeout_s: float = HAND_BACK_TIMEOUT_S) -> None:
        """Gives partitions up (revoked, committed, released) until a later plan names this member again.

        Raises `StableTimeoutError` when they are not released in time; they will be.
        """
        engine, timeout_s = self._engine, checked_timeout(timeout_s)
        try:
            result_of(engine, engine.hand_back(partitions), timeout_s)
        except FutureTimeoutError:
            raise not_assigned(engine, _picture(engine)) from None

    # --- offsets ----------------------------------------------------------------------------------

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Committed offsets as ZooKeeper holds them, of any partitions; None where there is none."""
        engine = self._engine
        wanted = checked_partitions(partitions)
        try:
            outcome = result_of(
                engine, engine.ask(offsets_request(engine.group, wanted)), answer_timeout_s(self._settings)
            )
        except FutureTimeoutError:
            raise StoreUnavailableError("the committed offsets could not be read in time") from None
        return offsets_of(wanted, outcome)

    def describe(self) -> GroupDescription:
        """The whole group as `zkgroup group describe` shows it; may take 2 s while it is moving."""
        with self._reads() as reads:
            return reads.describe()

    def _reads(self) -> AbstractContextManager[GroupReads]:
        engine = self._engine
        return group_reads(engine.store, engine.clock, engine.group, engine.finished)


def answer_timeout_s(settings: GroupSettings) -> float:
    """Longest wait for an answer: every request ends by the session's timeout, in one way or another."""
    return 5.0 + 3 * settings.session_timeout_ms / 1000


def result_of(engine: MemberEngine, future: Future[T], timeout_s: float) -> T:
    """The future's result; a call that gets none in time is forgotten, so that nothing waits for it."""
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


def not_connected(engine: MemberEngine, timeout_ms: int) -> StoreUnavailableError:
    """The error of a start that ran out: a real client knows whom it asked, and what came of it."""
    if isinstance(engine.store, ZooKeeperClient):
        return engine.store.unconnected(timeout_ms / 1000)
    return StoreUnavailableError(f"the client given has no connection within {timeout_ms} ms")


def not_assigned(engine: MemberEngine, picture: MemberDescription | None) -> StableTimeoutError:
    """The error of a wait for this member's own share that ran out."""
    blockers = picture.blocked if picture is not None else {}
    waits = "; ".join(f"{tp} is held by {who}" for tp, who in sorted(blockers.items()))
    return StableTimeoutError(told(engine, picture) + (f": {waits}" if waits else ""), blockers)


def told(engine: MemberEngine, picture: MemberDescription | None) -> str:
    """The member's own state in words, for messages."""
    reason = f" ({picture.reason})" if picture is not None else ""
    return f"{engine.member} is {engine.state.value}{reason}"


def _picture(engine: MemberEngine) -> MemberDescription | None:
    try:
        return _result(engine, engine.picture(), PICTURE_TIMEOUT_S)
    except FutureTimeoutError:
        return None
