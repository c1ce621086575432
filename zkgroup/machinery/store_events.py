"""Between a store and a machine: orders go to the one, and what it says comes back to the other as events."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from zkgroup.machinery.effects import Ask
from zkgroup.machinery.events import (
    Answered,
    SessionConnected,
    SessionLost,
    SessionSuspended,
    WatchFired,
)
from zkgroup.model.ports import Store
from zkgroup.model.requests import (
    Connected,
    Exists,
    ListChildren,
    Lost,
    Outcome,
    Read,
    SessionEvent,
    Suspended,
)


def submit(store: Store, ask: Ask, tell: Callable[[Answered | WatchFired], None]) -> None:
    """Carries `Ask` out. `tell` is called by the store's threads."""

    def on_outcome(outcome: Outcome) -> None:
        tell(Answered(ask.request_id, outcome))

    def on_watch(path: str) -> None:
        tell(WatchFired(ask.request_id, path))

    watched = isinstance(ask.request, Read | ListChildren | Exists) and ask.request.watch
    store.submit(
        ask.request,
        incarnation=ask.incarnation,
        on_outcome=on_outcome,
        on_watch=on_watch if watched else None,
    )


def session_event(event: SessionEvent) -> SessionConnected | SessionSuspended | SessionLost:
    """What a store tells of its session, as a machine is told it."""
    match event:
        case Connected(session):
            return SessionConnected(session)
        case Suspended(incarnation):
            return SessionSuspended(incarnation)
        case Lost(incarnation, reason):
            return SessionLost(incarnation, reason)
        case _:
            assert_never(event)
