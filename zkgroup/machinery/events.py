"""Facts that every machine is told: its session, its answers, its watches and timers."""

from __future__ import annotations

from dataclasses import dataclass

from zkgroup.model.requests import Outcome, Session


@dataclass(frozen=True, slots=True)
class SessionConnected:
    session: Session


@dataclass(frozen=True, slots=True)
class SessionSuspended:
    incarnation: int


@dataclass(frozen=True, slots=True)
class SessionLost:
    """Jumps the queue of the shell: nothing of the old session may be done after it."""

    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The one outcome of the effect `Ask` with the same id."""

    request_id: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class WatchFired:
    """The watch armed by the effect `Ask` with this id fired."""

    request_id: int
    path: str


@dataclass(frozen=True, slots=True)
class TimerFired:
    name: str


SharedEvent = SessionConnected | SessionSuspended | SessionLost | Answered | WatchFired | TimerFired
