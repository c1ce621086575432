"""What all demos share: printed events, waiting for a state, and the checks at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from zkgroup.errors import StableTimeoutError

Tone = Literal["plain", "good", "bad"]
ViewT_contra = TypeVar("ViewT_contra", contravariant=True)
ViewT = TypeVar("ViewT")
READ_EVERY_S = 0.25
RUN_S = 600.0
"""Longest time for the whole run: far beyond what it needs, also on a slow machine that does other work."""
ANSWER_S = 60.0
"""Longest wait for a demo's own server to answer."""
VERIFY_S = 60.0
"""Longest wait of `group verify --wait` for a state that is right."""


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """One printed line, with the seconds since the start."""

    at_s: float
    text: str
    tone: Tone = "plain"


class Screen(Protocol[ViewT_contra]):
    """The output of a demo: a live view on a terminal, plain lines elsewhere."""

    def on_event(self, event: ProgressEvent) -> None:
        """Prints an event, once."""

    def show(self, view: ViewT_contra) -> None:
        """Shows a view in place of the one before."""


@dataclass(kw_only=True)
class DemoRun(Generic[ViewT]):
    """One run of a demo: prints events and waits for states. A subclass reads the states."""

    screen: Screen[ViewT]
    timeout_s: float
    """Longest time for the whole run."""
    events: list[ProgressEvent] = field(default_factory=list)
    headline: str = "starting"
    began_s: float = field(default_factory=time.monotonic)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began_s

    def log(self, text: str, tone: Tone = "plain") -> None:
        """Prints an event."""
        event = ProgressEvent(self.elapsed_s, text, tone)
        self.events.append(event)
        self.screen.on_event(event)

    def until(self, what: str, reached: Callable[[], bool], read_every_s: float = READ_EVERY_S) -> None:
        """Refreshes until `reached()` is true.

        Raises `StableTimeoutError` after `timeout_s`, and what `check` raises.
        """
        while True:
            self.refresh()
            if reached():
                return
            self.check()
            if self.elapsed_s > self.timeout_s:
                raise StableTimeoutError(f"not reached {self.timeout_s:g} s after the start: {what}")
            time.sleep(read_every_s)

    def refresh(self) -> None:
        """Reads everything and shows it."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises where a process or a thread has failed, so that waiting is useless."""
        raise NotImplementedError


NAMED_MAX = 5
"""Number of items that a message names; it counts the rest."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One checked statement: whether it holds, and the figures that show it."""

    statement: str
    holds: bool
    evidence: str


def named(names: Sequence[str]) -> str:
    """The first names, and the number of the others."""
    rest = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")
