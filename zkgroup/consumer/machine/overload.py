"""How a member keeps its own work from ending sessions, and ended sessions from making work (recipes 9).

Where hundreds of members share a process, or a server is slow, each change of the group costs all of them
time. If that takes longer than a lease, sessions end, each end is two more changes of the group, and the
group never converges. Four rules end that, and cost nothing where passes are short and sessions last:

* After a pass a member rests for twice as long as the pass took (`PassPace`), so that at most a third of the
  time is spent on changes, however fast they come; it then handles all of them at once.
* A member that has lost its session again registers after a pause that doubles with each loss
  (`RejoinPause`).
* Members that share a client share the lease of its session, and what they read (`membership.SharedSession`).
* A member whose lease was not renewed for two periods of the heartbeat claims nothing new
  (`SessionLease.is_late`): its loop, its connection or its server is behind already.
"""

from __future__ import annotations

from typing import Protocol

from zkgroup.consumer.machine.machine_context import MemberContext

REJOIN_TIMER = "rejoin"
CALM_TIMEOUTS = 10
"""Session timeouts that a registration must last for the losses before it to be forgotten."""
PAUSE_MS_MAX = 30_000
PAUSE_SPREAD = 0.5
REST_PASSES = 2
"""Durations of a pass for which the member rests after it."""


TURN_TIMER = "turn"
TURN_AGAIN_MS = 1500
"""Milliseconds after which a member that waits for a turn asks again, in case its turn was forgotten."""


class Turn(Protocol):
    """The turn of a member among those of its process (`zkgroup.consumer.turns`)."""

    def take(self, now_ms: int) -> bool:
        """Begins a turn, or goes on with it; False if the member has to wait for it."""
        ...

    def end(self, now_ms: int) -> None:
        """Ends the turn, or the wait for it; does nothing without one."""
        ...


class MemberTurns:
    """When this member may begin the work that is done in turns."""

    WORK = frozenset(
        {
            *("register", "snapshot", "plan", "claim", "verify"),
            *("find orphaned claims", "read back blocked"),
        }
    )

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self.turn: Turn | None = None
        """None for a member that needs no turns."""
        self.is_open = False
        """True if it has a turn, or waits for one."""
        self._is_waiting = self._is_wanted = False

    def has_turn(self) -> bool:
        """Returns whether it is this member's turn; asks for one if it is not."""
        if self.turn is None:
            return True
        context = self._context
        self.is_open = self._is_wanted = True
        self._is_waiting = not self.turn.take(context.now.ms)
        if not self._is_waiting:
            context.cancel_timer(TURN_TIMER)
        elif not context.has_timer(TURN_TIMER):
            context.set_timer(TURN_TIMER, context.now.ms + TURN_AGAIN_MS)
        return not self._is_waiting

    def ran(self, running: str | None) -> None:
        """Ends the turn, or the wait, unless its work runs or waits; `running`: the procedure that runs."""
        is_wanted, self._is_wanted = self._is_wanted, False
        still_waits = self._is_waiting and (is_wanted or running is not None)
        if self.turn is not None and running not in self.WORK and not still_waits:
            self.is_open = self._is_waiting = False
            self._context.cancel_timer(TURN_TIMER)
            self.turn.end(self._context.now.ms)


class RejoinPause:
    """The pause of a member that loses one session after another."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self._losses = 0
        self._registered_ms: int | None = None
        self.is_running = False

    def registered(self) -> None:
        """Notes a registration in the present session."""
        if self._registered_ms is None:
            self._registered_ms = self._context.now.ms

    def session_lost(self, timeout_ms: int) -> None:
        """Counts the loss of a session in which the member was registered; the first one costs no pause."""
        context, since_ms, self._registered_ms = self._context, self._registered_ms, None
        if since_ms is None:
            return
        lasted = context.now.ms - since_ms >= CALM_TIMEOUTS * timeout_ms
        self._losses = 1 if lasted else self._losses + 1
        if self._losses == 1:
            return
        pause_ms = context.jittered(min(timeout_ms << min(self._losses - 2, 16), PAUSE_MS_MAX), PAUSE_SPREAD)
        self.is_running = True
        context.set_timer(REJOIN_TIMER, context.now.ms + pause_ms)
        context.note("rejoin.pause", losses=self._losses, pause_ms=pause_ms)

    def end(self) -> None:
        """Ends the pause: its timer has fired."""
        self.is_running = False


class PassPace:
    """How long the last pass took, and the rest that follows from it."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self.took_ms = 0
        """Milliseconds from the time at which the last pass was due to its end."""
        self.rest_until_ms = 0

    def passed(self, due_ms: int, rest_ms_max: int) -> None:
        """Notes a pass that ends now."""
        self.took_ms = min(max(0, self._context.now.ms - due_ms), rest_ms_max // REST_PASSES)
        self.rest_until_ms = self._context.now.ms + REST_PASSES * self.took_ms
