"""What members and brokers answer to the probes of a supervisor, as Kubernetes and systemd have them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The answer of one part of a process at one moment."""

    part: str
    """Its name, such as `member billing_host-1` or `broker 1`."""
    status: str
    """What it does, for people."""
    unhealthy: str | None = None
    """Why only a new process can help; None while it works."""
    not_ready: str | None = None
    """Why it does not do its work now; None while it does."""
    is_leaving: bool = False
    """True from the beginning of its close."""


class Probed(Protocol):
    """A member, a consumer, a broker or a controller."""

    def _probe(self) -> Probe:
        """Answers within a second, from any thread, and never raises."""


def not_healthy(probes: Iterable[Probe]) -> tuple[str, ...]:
    """The reasons of all parts that are not healthy, each with the name of its part."""
    return tuple(f"{one.part}: {one.unhealthy}" for one in probes if one.unhealthy is not None)


def not_ready(probes: Iterable[Probe]) -> tuple[str, ...]:
    """The reasons of all parts that are not ready. What is not healthy is not ready either."""
    found = ((one.part, one.unhealthy or one.not_ready) for one in probes)
    return tuple(f"{part}: {reason}" for part, reason in found if reason is not None)


class ServiceStates:
    """The states of which systemd is notified: what sd_notify(3) calls assignments, one a line."""

    def __init__(self, *, watched: bool) -> None:
        """`watched`: systemd expects `WATCHDOG=1`, and restarts a service that does not send it."""
        self._watched = watched
        self._is_ready = self._is_stopping = False
        self._status = ""

    def news(self, probes: Iterable[Probe], *, is_closing: bool = False) -> tuple[str, ...]:
        """What is to be sent now. A state is sent once, `WATCHDOG=1` each time while all are healthy."""
        found = tuple(probes)
        ill, unready = not_healthy(found), not_ready(found)
        lines = []
        if not self._is_ready and not unready and not is_closing:
            self._is_ready = True
            lines.append("READY=1")
        is_leaving = bool(found) and all(one.is_leaving for one in found)
        if not self._is_stopping and (is_closing or is_leaving):
            self._is_stopping = True
            lines.append("STOPPING=1")
        status = "; ".join(ill or unready or [f"{one.part}: {one.status}" for one in found])
        if status != self._status:
            self._status = status
            lines.append(f"STATUS={' '.join(status.split())}")
        if self._watched and not ill:
            lines.append("WATCHDOG=1")
        return tuple(lines)
