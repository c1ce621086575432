"""Procedures: recipes written as generators that yield requests and receive outcomes, and their runner.

A procedure belongs to one connection and one session. It ends with `ConnectionLossError` where a reply is
missing. A component records each write with an unknown outcome *before* it sends the write, and a later
procedure reads it back (recipes.md 10). One procedure runs at a time: while a machine waits for a write it
does nothing else, as in the exhaustive model. `MachineContext` records what one machine has asked, watched
and scheduled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from zkgroup.model import Znode
from zkgroup.model.ports import Instant
from zkgroup.model.requests import (
    Code,
    ListChildrenDone,
    Multi,
    MultiDone,
    MultiRefused,
    NotSent,
    Operation,
    Outcome,
    ReadDone,
    ReadMany,
    ReadManyDone,
    Refused,
    Request,
    Session,
    Unanswered,
)
from zkgroup.runtime.events import CancelTimer, LogEvent, SetTimer, SharedEffect, Submit, Watch


class Query(NamedTuple):
    """One request of a procedure; `on_watch` is called when the watch it arms has fired."""

    request: Request
    on_watch: Watch | None = None


class Pipelined(tuple[Query, ...]):
    """Queries whose outcomes come one at a time, in the order asked: the procedure goes on with the next one.

    It may be one of an earlier `Pipelined`. None is left when something else is asked.
    """

    __slots__ = ()


class Step(NamedTuple):
    """A query, and what is done with its answer; that may say what to ask because of it."""

    query: Query
    then: Callable[[Outcome], Iterable[Step]]


T = TypeVar("T")
E = TypeVar("E")
Procedure = Generator[tuple[Query, ...], tuple[Outcome, ...], T]


class ConnectionLossError(Exception):
    """Control flow: an outcome is missing. `certain`: nothing of the procedure's write was applied."""

    def __init__(self, outcome: Unanswered | NotSent) -> None:
        super().__init__(outcome.reason)
        self.certain = isinstance(outcome, NotSent)
        self.too_big = isinstance(outcome, NotSent) and outcome.too_big


class GuardRefusedError(Exception):
    """Control flow: a write was refused at its fence (a member's registration, `/controller`).

    We are no longer what we took ourselves for, and nothing is ours any more.
    """


class NoAuthError(Exception):
    """Control flow: an ACL does not let us."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class UnexpectedReplyError(Exception):
    """Control flow: a refusal that no recipe expects (read-only server, quota). Told, and tried again."""

    def __init__(self, path: str, code: Code) -> None:
        super().__init__(f"{path}: {code.value}")


def ask(*queries: Query) -> Procedure[tuple[Outcome, ...]]:
    """Outcomes of pipelined reads, every one an answer. Raises the control-flow errors above."""
    outcomes = yield queries
    _require_answers(outcomes)
    return outcomes


def ask_allowed(*queries: Query) -> Procedure[tuple[Outcome, ...]]:
    """`ask`, where an ACL may refuse some: their outcome is that."""
    outcomes = yield queries
    _require_answers([each for each in outcomes if not _is_denied(each)])
    return outcomes


def _is_denied(outcome: Outcome) -> bool:
    return isinstance(outcome, Refused) and outcome.code is Code.NO_AUTH


def run_pipelined(steps: Iterable[Step]) -> Procedure[None]:
    """Asks all at once, and takes each answer as soon as it is there: others are on their way meanwhile.

    What an answer leads to is asked at once. Raises as `ask`; the answers after that are not looked at.
    """
    asked: deque[Step] = deque()
    more = tuple(steps)
    while asked or more:
        asked.extend(more)
        outcomes = yield Pipelined([step.query for step in more])
        _require_answers(outcomes)
        (outcome,) = outcomes
        more = tuple(asked.popleft().then(outcome))


def _require_answers(outcomes: Iterable[Outcome]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, (Unanswered, NotSent)):
            raise ConnectionLossError(outcome)
        if isinstance(outcome, Refused):
            raise _refusal(outcome.path, outcome.code)


def _refusal(path: str, code: Code) -> Exception:
    return NoAuthError(path) if code is Code.NO_AUTH else UnexpectedReplyError(path, code)


def read_many(*batches: Sequence[str]) -> Procedure[tuple[tuple[Znode | None, ...], ...]]:
    """Bulk reads, one request a batch, answered in this order. Empty batches cost nothing."""
    sent = [tuple(batch) for batch in batches if batch]
    outcomes = iter((yield from ask(*(Query(ReadMany(batch)) for batch in sent))) if sent else ())
    return tuple(_readable(tuple(batch), next(outcomes)) if batch else () for batch in batches)


def read_allowed(paths: Sequence[str]) -> Procedure[tuple[Znode | Code | None, ...]]:
    """One bulk read in which an ACL may hide some znodes: their place holds the code."""
    (outcome,) = yield from ask(Query(ReadMany(tuple(paths))))
    assert isinstance(outcome, ReadManyDone), outcome
    return outcome.znodes


def readable(path: str, found: Znode | Code | None) -> Znode | None:
    """Raises `NoAuthError` where the ACL of a znode that this member needs hides it."""
    if isinstance(found, Code):
        raise _refusal(path, found)
    return found


def _readable(paths: tuple[str, ...], outcome: Outcome) -> tuple[Znode | None, ...]:
    assert isinstance(outcome, ReadManyDone), outcome
    return tuple(readable(path, found) for path, found in zip(paths, outcome.znodes, strict=True))


def read_done(outcome: Outcome) -> Znode | None:
    """The znode out of the answer to a `Read`."""
    assert isinstance(outcome, ReadDone), outcome
    return outcome.znode


def list_done(outcome: Outcome) -> ListChildrenDone:
    """The answer to a `ListChildren`."""
    assert isinstance(outcome, ListChildrenDone), outcome
    return outcome


def write(operations: Sequence[Operation], fence: Collection[str]) -> Procedure[MultiDone | MultiRefused]:
    """One transaction; `fence`: the paths whose refusal ends everything (`GuardRefusedError`)."""
    outcomes = yield (Query(Multi(tuple(operations))),)
    (outcome,) = outcomes
    require_answers(outcomes, [operations], fence)
    assert isinstance(outcome, (MultiDone, MultiRefused)), outcome
    return outcome


def require_answers(
    outcomes: Sequence[Outcome], transactions: Sequence[Sequence[Operation]], fence: Collection[str]
) -> None:
    """Raises for outcomes of transactions that mean the same to every recipe; the worst news first."""
    assert not isinstance(fence, str), f"{fence}: a collection of paths; in a text every part of it is found"
    missing: Unanswered | NotSent | None = None
    for outcome, operations in zip(outcomes, transactions, strict=True):
        if isinstance(outcome, MultiRefused):
            path = operations[outcome.index].path
            if path in fence:
                raise GuardRefusedError(path)
            if outcome.code not in _EXPECTED_CODES:
                raise _refusal(path, outcome.code)
        elif isinstance(outcome, (Unanswered, NotSent)):
            missing = outcome if missing is None or isinstance(outcome, Unanswered) else missing
    if missing is not None:
        raise ConnectionLossError(missing)


_EXPECTED_CODES = frozenset({Code.NO_NODE, Code.NODE_EXISTS, Code.BAD_VERSION, Code.NOT_EMPTY})


class Runner(Generic[E]):
    """Drives one procedure at a time: asks what it yields, and sends it the outcomes."""

    def __init__(self, books: MachineContext[E]) -> None:
        self._books = books
        self._procedure: Procedure[None] | None = None
        self._round = 0
        self._ahead: deque[list[Outcome]] = deque()
        """A place for each outcome of a `Pipelined` that the procedure has not had yet, in the order asked.
        """
        self.name = ""
        self.error: Exception | None = None
        """How the last procedure ended, where it did not come to its end; for the machine to take."""

    @property
    def is_idle(self) -> bool:
        return self._procedure is None

    def start(self, name: str, procedure: Procedure[None]) -> None:
        assert self._procedure is None, f"{name}: {self.name} is under way"
        self.name, self._procedure = name, procedure
        self._advance(None)

    def stop(self) -> None:
        """The connection's or session's end: what is under way is not continued."""
        procedure = self._procedure
        self._end()
        if procedure is not None:
            procedure.close()

    def _end(self) -> None:
        """No outcome that is still to come matters any more."""
        self._procedure = None
        self._round += 1
        self._ahead.clear()

    def _advance(self, outcomes: tuple[Outcome, ...] | None) -> None:
        procedure = self._procedure
        assert procedure is not None
        try:
            queries = next(procedure) if outcomes is None else procedure.send(outcomes)
        except StopIteration:
            self._end()
        except (ConnectionLossError, GuardRefusedError, NoAuthError, UnexpectedReplyError) as error:
            self._end()
            self.error = error
        else:
            if isinstance(queries, Pipelined):
                self._ask_ahead(queries)
            else:
                self._ask(queries)

    def _ask_ahead(self, queries: Pipelined) -> None:
        for query in queries:
            place: list[Outcome] = []
            self._ahead.append(place)
            self._books.ask(query.request, partial(self._came, self._round, place), query.on_watch)
        assert self._ahead, f"{self.name} waits for nothing"

    def _came(self, number: int, place: list[Outcome], outcome: Outcome) -> None:
        if number != self._round:
            return
        place.append(outcome)
        while self._ahead and self._ahead[0]:
            self._advance(tuple(self._ahead.popleft()))

    def _ask(self, queries: tuple[Query, ...]) -> None:
        assert not self._ahead, f"{self.name} has not had all answers that it asked for ahead"
        self._round += 1
        number = self._round
        results: dict[int, Outcome] = {}

        def collect(index: int) -> Callable[[Outcome], None]:
            def on_outcome(outcome: Outcome) -> None:
                results[index] = outcome
                if len(results) == len(queries) and number == self._round:
                    self._advance(tuple(results[i] for i in range(len(queries))))

            return on_outcome

        for index, query in enumerate(queries):
            self._books.ask(query.request, collect(index), query.on_watch)


_E = TypeVar("_E")


@dataclass(frozen=True, slots=True)
class _Asked:
    on_outcome: Callable[[Outcome], None]
    is_write: bool
    sent_ms: int
    connection: int


class MachineContext(Generic[_E]):
    """`_E`: the effects of this machine, `LogEvent` among them."""

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
        self._effects: list[_E | SharedEffect | LogEvent] = []
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

    def take_effects(self) -> tuple[_E | SharedEffect | LogEvent, ...]:
        effects, self._effects = tuple(self._effects), []
        return effects

    def emit(self, effect: _E | SharedEffect) -> None:
        self._effects.append(effect)

    def note(self, kind: str, **fields: object) -> None:
        self._effects.append(LogEvent(kind, fields))

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
        self.emit(Submit(request_id, request, self.session.incarnation))

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
