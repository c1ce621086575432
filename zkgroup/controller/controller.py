"""A running controller: its machine on one thread, its connections to brokers on another, and its listener.

In a broker's process it shares the broker's store, and so its session: both end together. As a process of its
own (`--controller-only`) it has a store of its own. The store is never closed here.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeVar

from zkgroup.controller.channels import ChannelSettings, ControllerChannelManager, SendDeadline
from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.events import (
    AccessDenied,
    BrokerRequest,
    CloseChannel,
    ControllerEffect,
    ControllerEvent,
    Elected,
    ExtendSendLease,
    IdInUse,
    LeaveElection,
    OpenChannel,
    Resigned,
    ShutdownAnswered,
    ShutdownAsked,
)
from zkgroup.controller.machine.machine import ControllerMachine
from zkgroup.controller.telemetry import ControllerTelemetry
from zkgroup.errors import AccessDeniedError, BrokerIdInUseError, ConflictError, ZkGroupError
from zkgroup.model.ports import Clock, MetricsSink, Store
from zkgroup.model.requests import Lost, SessionEvent
from zkgroup.runtime.events import LogEvent
from zkgroup.runtime.logs import get_logger
from zkgroup.runtime.loop import LoopThread, MachineLoop
from zkgroup.wire.control import ControlledShutdownResponse
from zkgroup.wire.messages import ErrorCode

log = get_logger("zkgroup.controller")

LEAVE_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Loaded:
    """It is active, has loaded the cluster, and has sent the states to the brokers."""

    epoch: int
    partitions: int
    load_ms: int


T = TypeVar("T")
ControllerNews = Elected | Loaded | Resigned
"""The listener gets one of these."""


class Controller:
    """One controller, which takes part in elections and is active while it has won the last one.

    `start`, `stop` and `close` in this order; everything from any thread, and none of it blocks but `close`,
    which always returns.
    """

    is_loading: bool
    """True from its election until it has loaded the cluster; of any thread."""

    def __init__(
        self,
        machine: ControllerMachine,
        store: Store,
        clock: Clock,
        *,
        broker: int,
        client_id: str,
        on_news: Callable[[ControllerNews], None] = lambda news: None,
        on_failure: Callable[[BaseException], None] = lambda error: None,
        channels: ChannelSettings | None = None,
        metrics: MetricsSink | None = None,
        jitter: Callable[[], float] = random.random,
        make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        """
        Args:
            machine: stepped by this controller's thread alone.
            store: shared with the caller.
            broker: its id.
            client_id: the client id in requests to brokers (`controller_client_id`).
            on_news: called on the machine's thread, which waits for it; must not raise.
            on_failure: it takes part in no more elections, and why; once, on any thread.
            metrics: called on the machine's thread. `make_loop`: see `LoopThread`.
        """
        self.broker = broker
        self._machine = machine
        self._store = store
        self._on_news = on_news
        self._on_failure = on_failure
        self._name = f"zkgroup-controller-{broker}"
        self._lease = SendDeadline(clock)
        self._telemetry = ControllerTelemetry(broker, clock, metrics)
        self._thread = LoopThread(f"{self._name}-channels", clock, make_loop)
        self._loop: MachineLoop[ControllerEvent, ControllerEffect] = MachineLoop(
            machine,
            store,
            clock,
            perform=self._perform,
            after_step=self._after_step,
            on_crash=self._crashed,
            name=self._name,
        )
        self._pool = ControllerChannelManager(
            self._thread,
            self._lease,
            post=self._loop.post,
            notify=self._loop.step,
            client_id=client_id,
            settings=channels,
            jitter=jitter,
        )
        self._asked: dict[int, Future[ControlledShutdownResponse]] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._unlisten: Callable[[], None] | None = None
        self.is_loading = self._is_leaving = False
        self._left = threading.Event()
        self._over = False

    def start(self) -> None:
        """Takes part in elections from now on, whenever the store is connected."""
        self._thread.start()
        self._unlisten = self._store.listen(self._on_session)
        self._loop.listen()
        self._loop.start()

    def stop(self) -> None:
        """Begins to leave: resigns, and takes part in no more elections. Safe in a signal handler."""
        self._loop.post(self._leave)

    def close(self, timeout_s: float = LEAVE_TIMEOUT_S) -> bool:
        """Leaves, and ends both threads; whether that was done in time. May be called again.

        What could not be taken off in time (ZooKeeper is away) ends with the session.
        """
        if self._unlisten is None:
            self._end()
            return True
        self.stop()
        done = self._loop.is_inside() or self._left.wait(timeout_s)
        self._unlisten()
        self._loop.post(self._loop.stop)
        done = self._loop.join(timeout_s) and done
        if self._loop.has_ended:
            self._unlisten = None  # its thread has ended
        self._end()
        return self._thread.stop(timeout_s) and done

    def beats(self) -> dict[str, Future[None]]:
        """Its parts, each with a future that is done once its thread comes to it; none before the start."""
        if self._unlisten is None:
            return {}
        return {"controller": self._loop.beat(), "controller's connections": self._thread.beat()}

    def check(self) -> None:
        """Raises why it takes part in no more elections: `ConflictError` where its id is another process's,
        `AccessDeniedError` where an ACL refuses it, or the error with which the store gave up."""
        if self._failure is not None:
            raise self._failure

    def shut_down(self, broker: int) -> Future[ControlledShutdownResponse]:
        """Requests a controlled shutdown of a broker: others lead what it leads.

        Answered with 11 where this controller is not active, or resigns before it is done.
        Raises StoreUnavailableError where far too much waits already.
        """
        future: Future[ControlledShutdownResponse] = Future()
        request_id = next(self._ids)
        with self._lock:
            if not self._over:
                self._asked[request_id] = future
                self._loop.request(ShutdownAsked(request_id, broker))
                return future
        future.set_result(ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH))
        return future

    def with_context(self, read: Callable[[ControllerContext | None], T]) -> Future[T]:
        """The result of `read`, called on the machine's thread with the context; None: it is not active.

        It must be quick. Never answered once the controller is closed.
        """
        future: Future[T] = Future()

        def answer() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(read(self._machine.context))
                except Exception as error:  # noqa: BLE001 - raised where the result is awaited
                    future.set_exception(error)

        self._loop.request(answer)
        return future

    def _perform(self, effect: ControllerEffect) -> None:
        match effect:
            case OpenChannel():
                self._pool.open(effect)
            case CloseChannel():
                self._pool.close(effect)
            case BrokerRequest():
                self._pool.send(effect)
            case ExtendSendLease(until_ms):
                self._lease.extend(until_ms)
            case ShutdownAnswered(request_id, error, remaining):
                self._answer(request_id, ControlledShutdownResponse(error, remaining))
            case Elected():
                self.is_loading = True
                self._telemetry.elected(effect)
                self._on_news(effect)
            case Resigned():
                self._resigned(effect)
            case IdInUse(broker, path, session):
                self._fail(_id_in_use(broker, path, session))
            case AccessDenied(path):
                self._fail(AccessDeniedError.of_start(path, "a controller"))
            case LogEvent():
                self._note(effect)

    def _resigned(self, effect: Resigned) -> None:
        """Nothing more is sent: what a loop's thread has in hand by now finds the lease over."""
        self._lease.extend(None)
        self._pool.close_all()
        self.is_loading = False
        self._telemetry.resigned(effect)
        self._on_news(effect)

    def _note(self, note: LogEvent) -> None:
        fields = note.fields
        if note.kind == "controller.loaded":
            self.is_loading = False
            self._on_news(Loaded(**{name: fields[name] for name in Loaded.__slots__}))  # type: ignore[arg-type]
        self._telemetry.note(note)

    def _leave(self) -> None:
        if not self._is_leaving:
            self._is_leaving = True
            self._loop.step(LeaveElection("stopped"))

    def _after_step(self) -> None:
        self._telemetry.count_cluster(self._machine.figures)
        if self._is_leaving and self._machine.has_left:
            self._left.set()

    def _on_session(self, event: SessionEvent) -> None:
        if isinstance(event, Lost) and event.fatal is not None:
            self._fail(event.fatal)

    def _crashed(self, error: BaseException) -> None:
        """The machine's thread ends by a bug in zkgroup: its session must not go on without it."""
        self._lease.extend(None)
        self._telemetry.crashed()
        self._left.set()
        self._end()
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            first, self._failure = self._failure is None, self._failure or error
        if first:
            self._on_failure(error)

    def _end(self) -> None:
        with self._lock:
            self._over = True
            left, self._asked = self._asked, {}
        for future in left.values():
            _resolve(future, ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH))

    def _answer(self, request_id: int, response: ControlledShutdownResponse) -> None:
        with self._lock:
            future = self._asked.pop(request_id, None)
        if future is not None:
            _resolve(future, response)


def _resolve(future: Future[ControlledShutdownResponse], response: ControlledShutdownResponse) -> None:
    """Sets the result, unless the caller has cancelled."""
    if future.set_running_or_notify_cancel():
        future.set_result(response)


def _id_in_use(broker: int, path: str, session: int) -> ZkGroupError:
    if session == 0:
        return BrokerIdInUseError(path, session, None)
    return ConflictError(
        f"broker id {broker} is in use: {path} is held by session 0x{session:x}; "
        f"choose another id, or stop the process that has it (`zkgroup broker list`)"
    )
