"""The thread of a controller of Kafka 0.8.2.2, with its client: events one at a time, call after call.

Each call is made again until it is answered, also in a new session, as zkclient does. Nothing of the
controller is decided here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from zkgroup.model.ports import Store
from zkgroup.model.requests import (
    Code,
    Connected,
    ListChildren,
    ListChildrenDone,
    Lost,
    Multi,
    MultiDone,
    MultiRefused,
    NotSent,
    Operation,
    Outcome,
    Read,
    ReadDone,
    Request,
    SessionEvent,
    Suspended,
    Unanswered,
)
from zkgroup.znodes.brokers import broker_ids_path
from zkgroup.znodes.controller import Controller

Calls = Generator[Request, Any, Any]
"""Yields requests to ZooKeeper, is sent their outcomes."""


class MovedError(Exception):
    """What `ControllerMovedException` and every other error of a failover come to."""


class RealThread:
    """`begin`: what an event makes the controller do; None for nothing."""

    def __init__(self, store: Store, begin: Callable[[str], Calls | None]) -> None:
        self.events: deque[str] = deque(["elect"])
        self._store = store
        self._begin = begin
        self._calls: Calls | None = None
        self._waiting: Request | None = None
        """A call that is to be made, or made again."""
        self._asked = False
        self._incarnation = 0
        self._stop_listening = store.listen(self._heard)

    def is_writing(self, path: str) -> bool:
        """Whether its next call, not made yet, changes this znode."""
        request = self._waiting
        return isinstance(request, Multi) and not self._asked and request.operations[0].path == path

    def stop(self) -> None:
        """The process is gone."""
        self._stop_listening()
        self._calls = self._waiting = None
        self.events.clear()

    # --- events ---------------------------------------------------------------------------------------

    def _heard(self, event: SessionEvent) -> None:
        match event:
            case Connected(session):
                is_new = self._incarnation not in (0, session.incarnation)
                self._incarnation = session.incarnation
                self._asked = False
                self.events.append("expired" if is_new else "reconnected")
            case Suspended() | Lost():
                self._asked = False

    def _watch(self, event: str) -> Callable[[str], None]:
        return lambda path: self.events.append(event)

    def choices(self) -> list[Callable[[], object]]:
        """What it can do now: make its call (again), or take the next event."""
        if self._waiting is not None and not self._asked:
            return [self._call]
        if self._calls is None and self.events:
            return [self._take]
        return []

    def _take(self) -> None:
        calls = self._begin(self.events.popleft())
        if calls is not None:
            self._calls = calls
            self._go_on(None)

    # --- calls ----------------------------------------------------------------------------------------

    def _go_on(self, outcome: Outcome | None) -> None:
        calls = self._calls
        if calls is None:
            return
        try:
            self._waiting = next(calls) if outcome is None else calls.send(outcome)
            self._asked = False
        except (StopIteration, MovedError):  # an error of an event ends that event alone
            self._calls = self._waiting = None

    def _call(self) -> None:
        """Made in whatever session there is now: a client of that time repeats a call in a new one."""
        request = self._waiting
        assert request is not None
        self._asked = True
        path = getattr(request, "path", "")

        def on_outcome(outcome: Outcome) -> None:
            if self._waiting is not request or not self._asked:
                return
            if isinstance(outcome, Unanswered | NotSent):
                self._asked = False
                return
            self._go_on(outcome)

        self._store.submit(
            request,
            incarnation=self._incarnation,
            on_outcome=on_outcome,
            on_watch=self._watch(_event_of(path)) if getattr(request, "watch", False) else None,
        )


def read(path: str, *, watch: bool = False) -> Calls:
    """The znode, or None."""
    outcome = yield Read(path, watch=watch)
    return outcome.znode if isinstance(outcome, ReadDone) else None


def children(path: str) -> Calls:
    """Names of the children, under a watch; none where there is no such znode."""
    outcome = yield ListChildren(path, watch=True)
    return outcome.children if isinstance(outcome, ListChildrenDone) else ()


def write(operation: Operation) -> Calls:
    """`MultiDone`, or `MultiRefused`."""
    outcome = yield Multi((operation,))
    return outcome if isinstance(outcome, MultiDone) else _refused(outcome)


def _refused(outcome: Outcome) -> MultiRefused:
    return outcome if isinstance(outcome, MultiRefused) else MultiRefused(0, Code.NO_NODE)


def _event_of(path: str) -> str:
    if path == Controller.path():
        return "controller"
    return "brokers" if path == broker_ids_path() else "topics"
