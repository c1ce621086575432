"""Events and effects that machines share: sessions, replies, watches, timers, requests, log events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from zkgroup.model.requests import Outcome, Request, Session
from zkgroup.model.text import escaped

LOGGED_MAX: Final = 500
"""Characters of a string in the log."""
LOGGED_END: Final = 100
"""Those of them that are its end."""


@dataclass(frozen=True, slots=True)
class SessionConnected:
    session: Session


@dataclass(frozen=True, slots=True)
class SessionSuspended:
    incarnation: int


@dataclass(frozen=True, slots=True)
class SessionLost:
    """Comes before all queued events of the session: nothing of the old session may be done after it."""

    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The one outcome of the effect `Submit` with the same id."""

    request_id: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class WatchFired:
    """The watch armed by the effect `Submit` with this id fired."""

    request_id: int
    path: str


@dataclass(frozen=True, slots=True)
class TimerFired:
    name: str


SharedEvent = SessionConnected | SessionSuspended | SessionLost | Answered | WatchFired | TimerFired


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit this request; report its outcome as `Answered` and a fired watch as `WatchFired`."""

    request_id: int
    request: Request
    incarnation: int


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Report `TimerFired(name)` at this time; replaces a timer of the same name."""

    name: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    name: str


@dataclass(frozen=True, slots=True)
class LogEvent:
    """An event for the log, the metrics and, of a member, the history. Changes nothing else.

    The runtime that performs a machine's effects also writes these.
    """

    kind: str
    fields: Mapping[str, object]

    def __str__(self) -> str:
        """As it stands in the log: `lease.expired`, `isr.refused partition=orders-0 code=-103`.

        The middle of a string above `LOGGED_MAX` characters is left out, and line ends and other control
        characters are escaped: clients choose the ids of groups and members.
        """
        return " ".join([self.kind, *(f"{name}={_shown(value)}" for name, value in self.fields.items())])


def quoted(text: str, length_max: int = LOGGED_MAX) -> str:
    """The text without control characters, line ends and bidirectional marks, which are escaped.

    The middle of a text above `length_max` characters is left out; `LOGGED_END` of them are its end.
    """
    if (left_out := len(text) - length_max) > 0:
        text = f"{text[: length_max - LOGGED_END]}...({left_out} characters)...{text[-LOGGED_END:]}"
    return escaped(text)


def _shown(value: object) -> object:
    return quoted(value) if isinstance(value, str) else value


SharedEffect = Submit | SetTimer | CancelTimer


class Watch:
    """Called once when the watch fires. Setting `fired` before that cancels it."""

    __slots__ = ("_then", "fired")

    def __init__(self, then: Callable[[], None]) -> None:
        self.fired = False
        self._then = then

    def __call__(self) -> None:
        if not self.fired:
            self.fired = True
            self._then()
