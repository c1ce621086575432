"""An asyncio event loop on a driven clock: its timers are the clock's, and it is a party of the clock.

On a clock that runs by itself it is not needed: an asyncio loop has a clock of its own.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple

from zkgroup.model.ports import Clock, DrivenClock, Sleeper, is_driven

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_RESOLUTION_S = 0.0005
"""Timers are due within half of the clock's unit, as sums of seconds are never exact."""


def loop_factory(clock: Clock | None, name: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop factory for `asyncio.Runner`; None on a clock that runs by itself."""
    if not is_driven(clock):
        return None
    return lambda: ClockLoop(clock, name)


def party_beside(
    loop: asyncio.AbstractEventLoop, name: str, has_news: Callable[[], object]
) -> Sleeper | None:
    """A party for a thread that works for the loop; None if the loop's clock is not driven."""
    if not isinstance(loop, ClockLoop):
        return None
    party = Sleeper(loop.driven, name, has_news)
    party.join()
    return party


class ClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time`, sleeps and timeouts are those of a `DrivenClock`.

    No time passes while it has something to do: a callback, a socket that is ready, work in its executor.
    Time does pass while a coroutine waits for a peer that is no party of the clock, so its timeouts fire.
    """

    def __init__(self, clock: DrivenClock, name: str) -> None:
        super().__init__(_Selector(self, clock, name))
        self.driven = clock
        self._clock_resolution = _RESOLUTION_S
        self.working = 0
        """Calls in executors that have not finished."""

    def time(self) -> float:
        return self.driven.now_ms() / 1000

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        self.working += 1
        try:
            future = super().run_in_executor(executor, func, *args)
        except BaseException:
            self.working -= 1
            raise
        future.add_done_callback(self._finished)
        return future

    def _finished(self, _: object) -> None:
        self.working -= 1

    def wake(self) -> None:
        """Ends a wait of the loop; from any thread."""
        self._write_to_self()  # type: ignore[attr-defined]

    def has_callbacks(self) -> bool:
        """Returns whether a callback is due now; from any thread."""
        return bool(self._ready)  # type: ignore[attr-defined]


class _Selector(selectors.DefaultSelector):
    """A selector that waits for sockets at most until a time of the clock."""

    def __init__(self, loop: ClockLoop, clock: DrivenClock, name: str) -> None:
        super().__init__()
        self._loop = loop
        self._clock = clock
        self._sleeper = Sleeper(clock, name, self._has_news)
        self._sleeper.join()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        self._sleeper.worker = threading.get_ident()
        until_ms = None if timeout is None else self._clock.now_ms() + math.ceil((timeout - 1e-6) * 1000)
        return self._sleeper.sleep(until_ms, super().select, self._loop.wake)

    def close(self) -> None:
        self._sleeper.leave()
        super().close()

    def _has_news(self) -> bool:
        return self._loop.working > 0 or self._loop.has_callbacks() or bool(super().select(0))
