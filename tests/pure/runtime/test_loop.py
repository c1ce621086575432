"""The queue, timers and thread that own a member."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from tests.waiting import PATIENCE_S, eventually, happened
from tests.worlds.stores import ServerlessStore
from zkgroup.consumer.machine.events import ChangeState, Effect, Event, MemberState, Opened
from zkgroup.errors import StoreUnavailableError
from zkgroup.model.ports import Instant
from zkgroup.model.requests import (
    Connected,
    ListChildren,
    Lost,
    Outcome,
    Request,
    Session,
    SessionEvent,
    Suspended,
    SyncDone,
)
from zkgroup.runtime.events import (
    Answered,
    CancelTimer,
    LogEvent,
    SessionConnected,
    SessionLost,
    SessionSuspended,
    SetTimer,
    Submit,
    TimerFired,
    WatchFired,
)
from zkgroup.runtime.loop import REQUESTS_MAX, MachineLoop
from zkgroup.testing.clock import FakeClock


class Script:
    """A machine that records its events and returns scripted effects."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.times: list[int] = []
        self.answers: dict[type, Sequence[Effect]] = {}
        self.error: Exception | None = None

    def step(self, event: Event, now: Instant) -> Sequence[Effect]:
        self.events.append(event)
        self.times.append(now.ms)
        if self.error is not None:
            raise self.error
        return self.answers.get(type(event), ())


class Wire(ServerlessStore):
    """A store whose answers the test gives."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Request, int, Callable[[Outcome], None], Callable[[str], None] | None]] = []

    def submit(
        self,
        request: Request,
        *,
        incarnation: int,
        on_outcome: Callable[[Outcome], None],
        on_watch: Callable[[str], None] | None = None,
    ) -> None:
        self.asked.append((request, incarnation, on_outcome, on_watch))

    def tell(self, event: SessionEvent) -> None:
        for listener in self.listeners:
            listener(event)


class Bench:
    """A loop between a script and a wire, on a clock that the test moves."""

    def __init__(self) -> None:
        self.machine, self.wire, self.clock = Script(), Wire(), FakeClock(now_ms=1000)
        self.performed: list[Effect] = []
        self.crashes: list[BaseException] = []
        self.steps = 0
        self.loop = MachineLoop(
            self.machine,
            self.wire,
            self.clock,
            perform=self.performed.append,
            after_step=self._after_step,
            on_crash=self.crashes.append,
            name="test",
        )
        self.loop.listen()

    def _after_step(self) -> None:
        self.steps += 1


@pytest.fixture
def bench() -> Bench:
    return Bench()


def session(incarnation: int) -> Session:
    return Session(incarnation, 7, 6000)


def test_effects_are_performed_in_order_before_the_next_event(bench: Bench) -> None:
    """Requests, timers and the rest keep the order in which the machine wrote them."""
    order: list[str] = []
    bench.wire.submit = lambda request, **_: order.append("ask")  # type: ignore[method-assign, misc]
    bench.loop._perform_other = lambda effect: order.append(effect.kind)  # type: ignore[union-attr]
    bench.machine.answers[Opened] = (
        LogEvent("a", {}),
        Submit(1, ListChildren("/x"), 1),
        SetTimer("t", 5000),
        LogEvent("b", {}),
    )
    bench.loop.post(Opened())
    bench.loop.post(lambda: order.append("task"))

    bench.loop.run_pending()

    assert order == ["a", "ask", "b", "task"]
    assert bench.loop.next_timer_ms == 5000


def test_answers_and_watches_come_back_as_events(bench: Bench) -> None:
    """They carry the request's number, and are bound to its incarnation on the way out."""
    bench.machine.answers[Opened] = (
        Submit(4, ListChildren("/x", watch=True), 2),
        Submit(5, ListChildren("/y"), 2),
    )
    bench.loop.post(Opened())
    bench.loop.run_pending()
    (request, incarnation, on_outcome, on_watch), (_, _, _, no_watch) = bench.wire.asked

    on_outcome(SyncDone())
    assert on_watch is not None
    on_watch("/x")
    bench.loop.run_pending()

    assert (request, incarnation, no_watch) == (ListChildren("/x", watch=True), 2, None)
    assert bench.machine.events[1:] == [Answered(4, SyncDone()), WatchFired(4, "/x")]


def test_the_loss_of_a_session_jumps_the_queue(bench: Bench) -> None:
    """Nothing queued before it is handled first, and older news of that session is dropped."""
    bench.wire.tell(Connected(session(1)))
    bench.loop.post(Answered(1, SyncDone()))
    bench.wire.tell(Suspended(1))
    bench.wire.tell(Lost(1, "expired"))
    bench.wire.tell(Connected(session(2)))

    bench.loop.run_pending()

    assert bench.machine.events == [
        SessionLost(1, "expired"),
        Answered(1, SyncDone()),
        SessionConnected(session(2)),
    ]


def test_two_losses_keep_their_order(bench: Bench) -> None:
    """A session that came and went while the loop was busy is never connected for the machine."""
    for event in (Connected(session(1)), Lost(1, "a"), Connected(session(2)), Lost(2, "b")):
        bench.wire.tell(event)

    bench.loop.run_pending()

    assert bench.machine.events == [SessionLost(1, "a"), SessionLost(2, "b")]


def test_suspension_of_a_newer_session_is_kept(bench: Bench) -> None:
    """Only news of the lost session and of those before it is void."""
    bench.wire.tell(Connected(session(2)))
    bench.wire.tell(Suspended(2))
    bench.wire.tell(Lost(1, "late"))

    bench.loop.run_pending()

    assert bench.machine.events == [
        SessionLost(1, "late"),
        SessionConnected(session(2)),
        SessionSuspended(2),
    ]


def test_timers_fire_once_when_their_time_has_come(bench: Bench) -> None:
    """The earliest first; a timer set again replaces the former one; a cancelled one does not fire."""
    bench.machine.answers[Opened] = (
        SetTimer("late", 1500),
        SetTimer("early", 1100),
        SetTimer("late", 1300),
        SetTimer("never", 1050),
        CancelTimer("never"),
    )
    bench.loop.post(Opened())
    bench.loop.run_pending()
    bench.clock.advance(99)
    assert bench.loop.run_pending() == 0

    bench.clock.advance(500)
    bench.loop.run_pending()
    bench.loop.run_pending()

    assert bench.machine.events[1:] == [TimerFired("early"), TimerFired("late")]


def test_answers_that_waited_come_before_timers_that_are_due(bench: Bench) -> None:
    """After a pause of the process nothing is given up whose answer is there already."""
    bench.machine.answers[Opened] = (SetTimer("deadline", 1100),)
    bench.loop.post(Opened())
    bench.loop.run_pending()
    bench.clock.advance(60_000)
    bench.loop.post(Answered(1, SyncDone()))
    bench.loop.post(Answered(2, SyncDone()))

    bench.loop.run_pending()

    assert bench.machine.events[1:] == [
        Answered(1, SyncDone()),
        Answered(2, SyncDone()),
        TimerFired("deadline"),
    ]


def test_a_flood_of_events_does_not_starve_timers(bench: Bench) -> None:
    """Events that arrive while a full queue is handled wait behind a timer that is due."""
    bench.machine.answers[Opened] = (SetTimer("lease", 1000),)
    bench.loop.post(Opened())

    def flood() -> None:
        if len(bench.machine.events) < 50:
            bench.loop.post(flood)
            bench.loop.post(Answered(len(bench.machine.events), SyncDone()))

    bench.loop.post(flood)
    bench.loop.run_pending()

    assert bench.machine.events.index(TimerFired("lease")) <= 3


def test_tasks_of_the_shell_are_timed_apart(bench: Bench) -> None:
    """They replace one another by name and never reach the machine."""
    told: list[str] = []
    bench.loop.schedule("commit", 1200, lambda: told.append("first"))
    bench.loop.schedule("commit", 1400, lambda: told.append("second"))
    bench.clock.advance(1000)

    bench.loop.run_pending()

    assert told == ["second"]
    assert bench.machine.events == []


def test_the_application_is_refused_when_too_much_waits(bench: Bench) -> None:
    """The queue is bounded for requests; replies are bounded by the requests."""
    for _ in range(REQUESTS_MAX + 1):
        bench.loop.post(Opened())

    with pytest.raises(StoreUnavailableError, match="requests wait"):
        bench.loop.request(Opened())


def test_a_stopped_loop_handles_nothing_and_listens_to_nothing(bench: Bench) -> None:
    """Late events are dropped."""
    bench.loop.stop()
    bench.loop.post(Opened())

    assert bench.loop.run_pending() == 0
    assert bench.wire.listeners == []


def test_the_thread_ends_with_the_loop_and_reports_its_own_errors(bench: Bench) -> None:
    """A bug ends the member visibly: the crash is handed on, the thread is gone."""
    bench.machine.error = RuntimeError("a bug")
    bench.loop.start()

    bench.loop.post(Opened())

    assert bench.loop.over.result(PATIENCE_S) is None
    assert [str(error) for error in bench.crashes] == ["a bug"]
    assert bench.loop.join(PATIENCE_S)


def test_the_thread_wakes_for_entries_and_for_timers() -> None:
    """It waits for whichever comes first; no entry is needed for a timer to fire."""
    bench = Bench()
    fired = threading.Event()
    bench.loop.start()
    bench.loop.post(lambda: bench.loop.schedule("soon", bench.clock.now_ms() + 20, fired.set))
    eventually(lambda: bench.loop.next_timer_ms is not None)

    bench.clock.advance(20)

    happened(fired)
    bench.loop.post(bench.loop.stop)
    assert bench.loop.join(PATIENCE_S)


def test_other_effects_go_to_the_engine(bench: Bench) -> None:
    """The loop itself knows requests and timers only."""
    change = ChangeState(MemberState.NEW, MemberState.JOINING, "opened")
    bench.machine.answers[Opened] = (change,)
    bench.loop.post(Opened())
    bench.loop.run_pending()

    assert bench.performed == [change]
    assert bench.steps == 1


def test_the_thread_wakes_when_its_clock_comes_to_a_timer(bench: Bench) -> None:
    """On a clock that the test moves no real time passes, however far away the timer is."""
    bench.machine.answers[Opened] = (SetTimer("far", 1000 + 3_600_000),)
    bench.loop.start()
    bench.loop.post(Opened())

    bench.clock.advance(3_600_000 - 1)
    assert TimerFired("far") not in bench.machine.events
    bench.clock.advance(1)
    assert bench.machine.events[-1] == TimerFired("far")
    assert bench.machine.times[-1] == 1000 + 3_600_000

    bench.loop.stop()
    assert bench.loop.join(PATIENCE_S)


def test_time_stands_still_while_the_thread_works(bench: Bench) -> None:
    """The effects of a timer are done before the next one is due; a clock that is ahead waits for it."""
    done: list[int] = []

    def again() -> None:
        done.append(bench.clock.now_ms())
        bench.loop.schedule("again", bench.clock.now_ms() + 10, again)

    bench.loop.start()
    bench.loop.post(again)
    bench.clock.advance(5_000)
    assert done == list(range(1000, 6001, 10))

    bench.loop.stop()
    assert bench.loop.join(PATIENCE_S)
