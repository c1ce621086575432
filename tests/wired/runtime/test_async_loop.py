"""A machine on an event loop: the order of its events and effects, its timers, its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from tests.waiting import joined
from tests.worlds.serving import on_a_loop, until
from zkgroup.model.ports import Instant
from zkgroup.model.requests import (
    Connected,
    Lost,
    Outcome,
    Read,
    Request,
    Session,
    SessionEvent,
    Suspended,
    Unanswered,
)
from zkgroup.runtime.async_loop import AsyncMachineLoop, LoopTimer
from zkgroup.runtime.events import (
    Answered,
    CancelTimer,
    SessionConnected,
    SessionLost,
    SetTimer,
    Submit,
    TimerFired,
)
from zkgroup.testing.clock import FakeClock
from zkgroup.zookeeper.client import SystemClock


class Scripted:
    """A machine that gives the effects that the test has set for an event."""

    def __init__(self) -> None:
        self.effects: dict[object, list[Any]] = {}
        self.events: list[object] = []

    def step(self, event: Any, now: Instant) -> list[Any]:
        self.events.append(event)
        return self.effects.get(event, [])


class ScriptedStore:
    """A store whose listener and replies the test calls."""

    def __init__(self) -> None:
        self.outcomes: list[Callable[[Outcome], None]] = []
        self.listener: Callable[[SessionEvent], None] | None = None

    def submit(
        self, request: Request, *, incarnation: int, on_outcome: Callable[[Outcome], None], on_watch: Any
    ) -> None:
        self.outcomes.append(on_outcome)

    def listen(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        self.listener = listener

        def unlisten() -> None:
            self.listener = None

        return unlisten


class World:
    """A machine on the running loop. `performed` are its own effects."""

    def __init__(self, clock: Any = None) -> None:
        self.machine, self.store = Scripted(), ScriptedStore()
        self.performed: list[object] = []
        self.crashes: list[Exception] = []
        self.loop: AsyncMachineLoop[Any, Any] = AsyncMachineLoop(
            self.machine,
            self.store,  # type: ignore[arg-type]
            clock or SystemClock(),
            perform=self.perform,
            on_crash=self.crashes.append,
        )

    def perform(self, effect: object) -> None:
        self.performed.append(effect)
        if callable(effect):
            effect()


@on_a_loop
async def test_an_event_within_a_step_follows_the_effects_of_the_step() -> None:
    """An effect may step the machine."""
    world = World()
    world.machine.effects = {"a": [lambda: world.loop.step("b"), "rest of a"], "b": ["of b"]}

    world.loop.step("a")

    assert world.machine.events == ["a", "b"]
    assert world.performed[1:] == ["rest of a", "of b"]


@on_a_loop
async def test_replies_come_in_order_from_any_thread() -> None:
    """Many wake the loop once."""
    world = World()
    world.machine.effects = {"ask": [Submit(number, Read("/a"), 1) for number in range(100)]}
    world.loop.step("ask")
    reply = Unanswered("lost")

    def replies() -> None:
        for outcome in world.store.outcomes:
            outcome(reply)

    thread = threading.Thread(target=replies)
    thread.start()
    joined(thread)
    assert world.machine.events == ["ask"], "the machine is stepped on the loop alone"
    await until(lambda: len(world.machine.events) == 101)

    assert world.machine.events[1:] == [Answered(number, reply) for number in range(100)]
    world.loop.close()


@on_a_loop
async def test_a_lost_session_comes_before_what_was_queued() -> None:
    """Events of the lost session itself are dropped; replies come after it."""
    world = World()
    world.machine.effects = {"ask": [Submit(1, Read("/a"), 1)]}
    world.loop.step("ask")
    world.loop.listen()
    listener = world.store.listener
    assert listener is not None
    session, later = (Session(each, 5, 6000) for each in (1, 2))
    world.store.outcomes[0](Unanswered("lost"))
    for event in (Connected(session), Suspended(1), Lost(1, "expired"), Connected(later)):
        listener(event)
    await until(lambda: len(world.machine.events) == 4)

    assert world.machine.events[1:] == [
        SessionLost(1, "expired"),
        Answered(1, Unanswered("lost")),
        SessionConnected(later),
    ]
    world.loop.close()
    assert world.store.listener is None


@on_a_loop
async def test_timers_fire_in_order_and_can_be_moved() -> None:
    """A later time replaces the earlier one of the same name; a cancelled timer does not fire."""
    clock = SystemClock()
    world = World(clock)
    now_ms = clock.now_ms()
    world.machine.effects = {
        "set": [
            SetTimer("late", now_ms + 20),
            SetTimer("early", now_ms + 10),
            SetTimer("moved", now_ms + 1),
            SetTimer("moved", now_ms + 30),
            SetTimer("never", now_ms + 15),
            CancelTimer("never"),
        ]
    }
    world.loop.step("set")

    await until(lambda: len(world.machine.events) == 4)

    assert world.machine.events[1:] == [TimerFired(name) for name in ("early", "late", "moved")]
    world.loop.close()


@on_a_loop
async def test_a_machine_that_fails_is_stopped_and_reported() -> None:
    """No effect and no event follows."""
    world = World()
    world.machine.effects = {"a": [lambda: 1 / 0, "not performed"]}

    world.loop.step("a")
    world.loop.step("b")

    assert [type(error) for error in world.crashes] == [ZeroDivisionError]
    assert world.machine.events == ["a"]
    assert "not performed" not in world.performed


@on_a_loop
async def test_nothing_is_stepped_after_the_end() -> None:
    """Neither a reply nor a timer."""
    world = World()
    world.machine.effects = {"a": [Submit(1, Read("/a"), 1), SetTimer("t", 0)]}
    world.loop.step("a")
    world.loop.close()
    world.store.outcomes[0](Unanswered("lost"))
    for _ in range(5):
        await asyncio.sleep(0)

    assert world.machine.events == ["a"]


@on_a_loop
async def test_a_timer_that_is_moved_later_costs_no_new_one() -> None:
    """It is armed again when it comes up too early."""
    clock = FakeClock()
    fired: list[int] = []
    timer = LoopTimer(clock, lambda: fired.append(clock.now_ms()))
    timer.set(clock.now_ms() + 1)
    handle = timer._handle
    timer.set(clock.now_ms() + 60_000)
    assert timer._handle is handle
    await until(lambda: timer._handle is not handle)
    assert fired == []

    clock.jump(60_000)
    timer._fire()
    await until(lambda: fired)

    assert fired == [clock.now_ms()]
    timer.cancel()


@on_a_loop
async def test_a_timer_comes_after_the_requests_of_its_turn() -> None:
    """A socket's callback passes a request on to a task, which runs in the next turn: before the timer."""
    clock, order, loop = FakeClock(), list[str](), asyncio.get_running_loop()
    timer = LoopTimer(clock, lambda: order.append("timer"))
    arrived: asyncio.Future[None] = loop.create_future()
    arrived.add_done_callback(lambda _: order.append("request"))
    timer.at_ms = clock.now_ms()

    loop.call_soon(arrived.set_result, None)  # the order of a turn: sockets, then timers
    loop.call_soon(timer._fire)
    await until(lambda: len(order) == 2)

    assert order == ["request", "timer"]
    timer.cancel()
