"""Orders that every machine gives: ask ZooKeeper, wake me later, tell people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zkgroup.model.requests import Request


@dataclass(frozen=True, slots=True)
class Ask:
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
class Note:
    """Something for people: the log, the metrics and, of a member, the history. Changes nothing.

    Every machine has it among its own effects; who performs those tells it.
    """

    kind: str
    fields: Mapping[str, object]


SharedEffect = Ask | SetTimer | CancelTimer
