"""The books of one machine: what was asked and whose answer it is, watches, timers, the session.

Nothing here decides. A machine extends `Books` by what it knows besides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from zkgroup.machinery.effects import Ask, CancelTimer, Note, SetTimer, SharedEffect
from zkgroup.machinery.watch import Watch
from zkgroup.model.ports import Instant
from zkgroup.model.requests import Multi, MultiDone, Outcome, Request, Session

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class _Asked:
    on_outcome: Callable[[Outcome], None]
    is_write: bool
    sent_ms: int
    connection: int


class Books(Generic[E]):
    """`E`: the effects of this machine, `Note` among them."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        """jitter: random numbers in [0, 1)."""
        self.now = Instant(0, 0)
        self.session: Session | None = None
        self.connected = False
        self.caught_up = False
        """A quorum write was answered on this connection since it was made and since the last doubt."""
        self.former_sessions: set[int] = set()
        self.on_write_acknowledged: Callable[[int], None] = lambda sent_ms: None
        self._jitter = jitter
        self._effects: list[E | SharedEffect | Note] = []
        self._asked: dict[int, _Asked] = {}
        self._watches: dict[int, Watch] = {}
        self._timers: dict[str, int] = {}
        self._last_id = 0
        self._connection = 0

    def connected_to(self, session: Session) -> None:
        """A new connection, of the same session or of a new one."""
        self.session, self.connected, self.caught_up = session, True, False
        self._connection += 1
        self.forget_watches()

    def is_present(self, incarnation: int) -> bool:
        """Whether this is the incarnation of the present session: news of another one is old."""
        return self.session is not None and self.session.incarnation == incarnation

    def owns(self, owner: int) -> bool:
        """Whether an ephemeral with this owner is of the present session."""
        return self.session is not None and owner == self.session.session_id

    # --- effects ----------------------------------------------------------------------------------

    def begin(self, now: Instant) -> None:
        self.now = now

    def take_effects(self) -> tuple[E | SharedEffect | Note, ...]:
        effects, self._effects = tuple(self._effects), []
        return effects

    def emit(self, effect: E | SharedEffect) -> None:
        self._effects.append(effect)

    def note(self, kind: str, **fields: object) -> None:
        self._effects.append(Note(kind, fields))

    # --- requests ---------------------------------------------------------------------------------

    def next_id(self) -> int:
        """A number for a request, a callback or a record of the history: unique for this machine."""
        self._last_id += 1
        return self._last_id

    def ask(
        self,
        request: Request,
        on_outcome: Callable[[Outcome], None],
        on_watch: Watch | None = None,
    ) -> None:
        """Submits a request for the present session. `on_outcome` is dropped with the session."""
        assert self.session is not None, "nothing is asked without a session"
        request_id = self.next_id()
        is_write = isinstance(request, Multi)
        self._asked[request_id] = _Asked(on_outcome, is_write, self.now.ms, self._connection)
        if on_watch is not None:
            self._watches[request_id] = on_watch
        self.emit(Ask(request_id, request, self.session.incarnation))

    def answered(self, request_id: int, outcome: Outcome) -> None:
        asked = self._asked.pop(request_id, None)
        if asked is None:
            return
        if asked.is_write and isinstance(outcome, MultiDone):
            self.caught_up = self.caught_up or asked.connection == self._connection
            self.on_write_acknowledged(asked.sent_ms)
        asked.on_outcome(outcome)

    def watch_fired(self, request_id: int) -> None:
        on_watch = self._watches.pop(request_id, None)
        if on_watch is not None:
            on_watch()

    def forget_watches(self) -> None:
        """After a disconnect: the server has forgotten them too, and those still being asked for."""
        for watch in self._watches.values():
            watch.fired = True
        self._watches.clear()

    def forget_session(self) -> None:
        """After the session's end: no answer of it matters any more."""
        if self.session is not None:
            self.former_sessions.add(self.session.session_id)
        self.session = None
        self.connected = False
        self.caught_up = False
        self._asked.clear()
        self.forget_watches()

    # --- timers -----------------------------------------------------------------------------------

    def set_timer(self, name: str, at_ms: int) -> None:
        if self._timers.get(name) == at_ms:
            return
        self._timers[name] = at_ms
        self.emit(SetTimer(name, at_ms))

    def set_timer_sooner(self, name: str, at_ms: int) -> None:
        """Like `set_timer`, but a timer that would fire earlier stays."""
        if name not in self._timers or at_ms < self._timers[name]:
            self.set_timer(name, at_ms)

    def cancel_timer(self, name: str) -> None:
        if self._timers.pop(name, None) is not None:
            self.emit(CancelTimer(name))

    def has_timer(self, name: str) -> bool:
        return name in self._timers

    def timer_fired(self, name: str) -> bool:
        """False for a timer that was replaced or cancelled while its event was under way."""
        at_ms = self._timers.get(name)
        if at_ms is None:
            return False
        if at_ms > self.now.ms:
            self.emit(SetTimer(name, at_ms))
            return False
        del self._timers[name]
        return True

    def jittered(self, ms: float, spread: float) -> int:
        """`ms` plus or minus up to `spread` (a fraction) of it."""
        return max(1, round(ms * (1 + spread * (2 * self._jitter() - 1))))
