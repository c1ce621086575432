"""What all parts of the machine share: the effects of the step, requests under way, timers, the session.

Nothing here decides. The parts (`registration`, `snapshot`, `claim`, ...) hold the rules; this file
keeps the books: which request awaits an answer and whose it is, which watch is armed, which timer
runs, what state a person sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from zkgroup.consumer.effects import (
    Ask,
    Assign,
    CancelTimer,
    ChangeState,
    Effect,
    Lose,
    MemberState,
    Note,
    SetTimer,
)
from zkgroup.consumer.machine.config import MemberConfig
from zkgroup.consumer.machine.ownership import Held, Ownership
from zkgroup.consumer.machine.states import check_transition
from zkgroup.consumer.machine.watch import Watch
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Instant
from zkgroup.model.requests import Multi, MultiDone, Outcome, Request, Session


@dataclass(frozen=True, slots=True)
class _Asked:
    on_outcome: Callable[[Outcome], None]
    is_write: bool
    sent_ms: int
    connection: int


class Core:
    """The books of one member."""

    def __init__(self, config: MemberConfig) -> None:
        self.config = config
        self.owned = Ownership()
        self.now = Instant(0, 0)
        self.state = MemberState.NEW
        self.reason = "new"
        self.session: Session | None = None
        self.connected = False
        self.caught_up = False
        """A quorum write was answered on this connection since it was made and since the last doubt."""
        self.former_sessions: set[int] = set()
        self.registered_zxid: int | None = None
        """What the reply to the present registration told: its czxid, or the zxid of a write of somebody
        else just after it; every claim of this registration is younger. None where there is none."""
        self.finished = False
        self.request_bytes_max = config.request_bytes_max
        self.on_write_acknowledged: Callable[[int], None] = lambda sent_ms: None
        self._effects: list[Effect] = []
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

    # --- effects ----------------------------------------------------------------------------------

    def begin(self, now: Instant) -> None:
        self.now = now

    def take_effects(self) -> tuple[Effect, ...]:
        effects, self._effects = tuple(self._effects), []
        return effects

    def emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def note(self, kind: str, **fields: object) -> None:
        self.emit(Note(kind, fields))

    def change_state(self, after: MemberState, reason: str) -> None:
        """Tells the change, once; a new reason for the same state is only remembered."""
        self.reason = reason
        if after is self.state:
            return
        check_transition(self.state, after)
        before, self.state = self.state, after
        self.emit(ChangeState(before, after, reason))

    def lose(self, partitions: Iterable[TopicPartition], reason: str) -> None:
        """Ends these leases without notice: they are not ours any more. Those not held are passed over."""
        gone = tuple(sorted(tp for tp in partitions if tp in self.owned.held))
        if not gone:
            return
        # First the order to stop, then the record: no delivery may be recorded after the end.
        self.emit(Lose(gone, reason))
        for tp in gone:
            held = self.owned.drop(tp)
            if held.ended is None:
                self.note("own.end", topic=tp.topic, partition=tp.partition, token=held.token, reason=reason)

    def own(self, claimed: Iterable[Held]) -> None:
        """Accepted claims. One that the plan has given up meanwhile goes back before anybody saw it."""
        wanted = []
        move_id = self.next_id()
        for held in claimed:
            tp = held.topic_partition
            self.owned.add(held)
            fields = tp_fields(tp)
            self.note("own.begin", **fields, token=held.token, offset=held.value, version=held.fence)
            if self.owned.target.get(tp) == held.thread:
                held.moved = move_id
                wanted.append(held.grant())
            else:
                held.ended = "not_wanted"
                self.owned.releasing[tp] = None
                self.note("own.end", **fields, token=held.token, reason=held.ended)
        if wanted:
            self.emit(Assign(tuple(wanted), move_id))

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
        return max(1, round(ms * (1 + spread * (2 * self.config.jitter() - 1))))


def tp_fields(tp: TopicPartition) -> Mapping[str, object]:
    """A partition as the history writes it."""
    return {"topic": tp.topic, "partition": tp.partition}
