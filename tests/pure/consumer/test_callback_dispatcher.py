"""Callbacks that are late: which of them are left behind, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from tests.simulation.group.members import SteppedRunner
from zkgroup.consumer.callbacks import CallbackDispatcher, Callbacks, RebalanceListener
from zkgroup.consumer.lease import Lease
from zkgroup.testing import FakeClock

TIMEOUT_MS = 3000


class Timers:
    """The loop of a member: scheduled calls run when the test says so."""

    def __init__(self) -> None:
        self.at: dict[str, tuple[int, Callable[[], None]]] = {}

    def post(self, task: Callable[[], None]) -> None:
        task()

    def schedule(self, name: str, at_ms: int, task: Callable[[], None]) -> None:
        self.at[name] = at_ms, task

    def unschedule(self, name: str) -> None:
        self.at.pop(name, None)

    def fire(self, now_ms: int) -> None:
        for name, (at_ms, task) in list(self.at.items()):
            if at_ms <= now_ms:
                del self.at[name]
                task()


class Application(RebalanceListener):
    """It has a callback."""

    def on_assigned(self, leases: Sequence[Lease]) -> None:
        pass


class Overdue:
    """Telemetry that counts them."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def overdue(self, name: str, timeout_ms: int) -> None:
        self.names.append(name)


class Stage:
    """Calls, with a runner in steps."""

    def __init__(self) -> None:
        self.clock, self.timers, self.telemetry = FakeClock(), Timers(), Overdue()
        self.runner = SteppedRunner()
        self.calls = CallbackDispatcher(
            Callbacks(Application(), self.runner),
            cast("Any", self.timers),
            self.clock,
            cast("Any", self.telemetry),
            timeout_ms=TIMEOUT_MS,
            on_error=lambda error: None,
        )

    def advance(self, ms: int) -> None:
        self.clock.advance(ms)
        self.timers.fire(self.clock.now_ms())


def test_a_callback_that_has_not_begun_is_not_left_behind() -> None:
    """Past bug: after a stop of the process the partitions stayed owned, and nothing was delivered."""
    stage, followed = Stage(), list[str]()
    stage.calls.call("on_assigned", [], then=lambda: followed.append("started"))
    stage.advance(5000)
    stage.runner.begin()
    stage.runner.finish()

    assert (followed, stage.telemetry.names, stage.timers.at) == (["started"], [], {})


def test_one_that_overstays_is_left_behind_and_followed_when_it_returns() -> None:
    """The next one begins on another worker meanwhile; its time counts from then."""
    stage, followed = Stage(), list[str]()
    stage.calls.call("on_assigned", [], then=lambda: followed.append("first"))
    stage.calls.call("on_assigned", [], then=lambda: followed.append("second"))
    stage.runner.begin()
    stage.advance(TIMEOUT_MS)
    stage.runner.begin()
    stage.runner.finish()
    stage.runner.finish_late()

    assert (followed, stage.telemetry.names) == (["second", "first"], ["on_assigned"])
