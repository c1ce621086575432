"""What the members of one process share: the turns in which they work, and the sessions of their clients.

A change of the group makes work for all its members at the same moment. Hundreds of them in one process would
all wait for its one interpreter, and with them the writes of their leases. So at most `TURNS_MAX` work on a
change at a time; heartbeats, commits and releases need no turn. The next turn goes to the member that has
waited longest.

Members that share a client share its session: `SharedSession` has what they know of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from weakref import WeakKeyDictionary

from zkgroup.consumer.machine.membership import SharedSession
from zkgroup.model.ports import Clock, Store

TURNS_MAX = 16
TURN_MS_MAX = 1000
"""Milliseconds after which a turn is not counted any more: its member waits for a server that is away."""


class Turns:
    """The turns of the members that share a clock, so all of a process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: dict[MemberTurn, int] = {}
        """The members whose turn it is, with the time at which it began, in milliseconds."""
        self._waiting: dict[MemberTurn, None] = {}

    def take(self, turn: MemberTurn, now_ms: int) -> bool:
        """Begins a turn of the member; False if it has to wait, and then `on_turn` is called."""
        with self._lock:
            if turn in self._taken:
                return True
            self._waiting.setdefault(turn)
            if len(self._taken) >= TURNS_MAX:
                late = [other for other, since_ms in self._taken.items() if now_ms - since_ms >= TURN_MS_MAX]
                for other in late:
                    del self._taken[other]
            given = self._give(now_ms)
        for other in given:
            if other is not turn:
                other.on_turn()
        return turn in given

    def end(self, turn: MemberTurn, now_ms: int) -> None:
        """Ends the turn of the member, and gives up its place among those that wait."""
        with self._lock:
            self._waiting.pop(turn, None)
            self._taken.pop(turn, None)
            given = self._give(now_ms)
        for other in given:
            other.on_turn()

    def _give(self, now_ms: int) -> list[MemberTurn]:
        given = []
        while self._waiting and len(self._taken) < TURNS_MAX:
            other = next(iter(self._waiting))
            del self._waiting[other]
            self._taken[other] = now_ms
            given.append(other)
        return given


class MemberTurn:
    """The turn of one member; implements `overload.Turn`."""

    def __init__(self, turns: Turns, on_turn: Callable[[], None]) -> None:
        """`on_turn` is called, by any thread, when a turn that the member waited for has begun."""
        self._turns = turns
        self.on_turn = on_turn
        self.is_open = False
        """True if the member has a turn, or waits for one."""

    def take(self, now_ms: int) -> bool:
        self.is_open = True
        return self._turns.take(self, now_ms)

    def end(self, now_ms: int) -> None:
        self.is_open = False
        self._turns.end(self, now_ms)


_turns: WeakKeyDictionary[Clock, Turns] = WeakKeyDictionary()
_sessions: WeakKeyDictionary[Clock, WeakKeyDictionary[Store, SharedSession]] = WeakKeyDictionary()
_making = threading.Lock()


def session_of(store: Store, clock: Clock) -> SharedSession:
    """What the members with this client and this clock share."""
    with _making:
        try:
            return _sessions.setdefault(clock, WeakKeyDictionary()).setdefault(store, SharedSession())
        except TypeError:
            return SharedSession()


def turns_of(clock: Clock) -> Turns:
    """The turns of the members with this clock. A clock that cannot be a key gives each member its own."""
    with _making:
        try:
            return _turns.setdefault(clock, Turns())
        except TypeError:
            return Turns()


def _after_fork_in_child() -> None:
    """Forgets the turns of the parent's members: a lock may be one of a thread that is not here."""
    global _turns, _sessions, _making
    _turns, _sessions, _making = WeakKeyDictionary(), WeakKeyDictionary(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
