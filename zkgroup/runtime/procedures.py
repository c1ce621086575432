"""Procedures: recipes written as generators that yield requests and receive outcomes, and their runner.

A procedure belongs to one connection and one session. It ends with `ConnectionLossError` where a reply is
missing. A component records each write with an unknown outcome *before* it sends the write, and a later
procedure reads it back. A `Runner` drives one procedure at a time: while such a machine waits for a write it
does nothing else, as in the exhaustive model. `machine` has many runners. `MachineContext` has
the requests, watches and timers of one machine, `ProcedureLoop` starts its procedures.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.ports import Instant
from zkgroup.model.requests import (
    Code,
    ExistsDone,
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

BACKOFF_TIMER: Final = "rest"
BACKOFF_MS: Final = 150
"""Milliseconds of pause after a missing reply while the connection exists."""
UNEXPECTED_REPLY_BACKOFF_MS: Final = 1000
STARTS_MAX: Final = 1000


class Query(NamedTuple):
    """One request of a procedure; `on_watch` is called when its watch fires."""

    request: Request
    on_watch: Watch | None = None


class Pipelined(tuple[Query, ...]):
    """Queries whose outcomes come one at a time, in the order sent: each yield returns the next one.

    That may be an outcome of an earlier `Pipelined`. A procedure takes all of them before it yields other
    queries.
    """

    __slots__ = ()


class PipelinedStep(NamedTuple):
    """A query, and a function that takes its outcome and returns the steps that follow from it."""

    query: Query
    then: Callable[[Outcome], Iterable[PipelinedStep]]


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
    """Control flow: a write was refused by its guard (a member's registration, `/controller`).

    This process is no longer the member or controller that it was, and owns nothing.
    """


class NoAuthError(Exception):
    """Control flow: an ACL forbids the request."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: NoAuth: its ACL gives the ZooKeeper user of this process no right to it")
        self.path = path


class UnexpectedReplyError(Exception):
    """Control flow: a refusal that no recipe expects (read-only server, quota). It is logged and retried."""

    def __init__(self, path: str, code: Code) -> None:
        super().__init__(f"{path}: {code.value}")


def ask(*queries: Query) -> Procedure[tuple[Outcome, ...]]:
    """The outcomes of pipelined reads, each of them a reply. Raises the control-flow errors above."""
    outcomes = yield queries
    _require_answers(outcomes)
    return outcomes


def ask_allowed(*queries: Query) -> Procedure[tuple[Outcome, ...]]:
    """The outcomes as of `ask`, with `Refused` for a request that an ACL forbids."""
    outcomes = yield queries
    _require_answers([each for each in outcomes if not _is_denied(each)])
    return outcomes


def _is_denied(outcome: Outcome) -> bool:
    return isinstance(outcome, Refused) and outcome.code is Code.NO_AUTH


def run_pipelined(steps: Iterable[PipelinedStep], *, allows_denials: bool = False) -> Procedure[None]:
    """Sends all queries at once and handles each outcome as soon as it arrives.

    The steps that follow from an outcome are sent at once. Raises as `ask`; later outcomes are ignored then.
    With `allows_denials` a step takes `Refused` for a request that an ACL forbids, as of `ask_allowed`.
    """
    asked: deque[PipelinedStep] = deque()
    more = tuple(steps)
    while asked or more:
        asked.extend(more)
        outcomes = yield Pipelined([step.query for step in more])
        (outcome,) = outcomes
        if not (allows_denials and _is_denied(outcome)):
            _require_answers(outcomes)
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
    """The znodes of bulk reads, one request a batch, in this order. Empty batches cost nothing."""
    sent = [tuple(batch) for batch in batches if batch]
    outcomes = iter((yield from ask(*(Query(ReadMany(batch)) for batch in sent))) if sent else ())
    return tuple(_readable(tuple(batch), next(outcomes)) if batch else () for batch in batches)


def read_allowed(paths: Sequence[str]) -> Procedure[tuple[Znode | Code | None, ...]]:
    """The znodes of one bulk read; a code in place of a znode that an ACL hides."""
    (outcome,) = yield from ask(Query(ReadMany(tuple(paths))))
    assert isinstance(outcome, ReadManyDone), outcome
    return outcome.znodes


def readable(path: str, found: Znode | Code | None) -> Znode | None:
    """The znode of a read, or None if it does not exist. Raises `NoAuthError` if an ACL hides it."""
    if isinstance(found, Code):
        raise _refusal(path, found)
    return found


def _readable(paths: tuple[str, ...], outcome: Outcome) -> tuple[Znode | None, ...]:
    assert isinstance(outcome, ReadManyDone), outcome
    return tuple(readable(path, found) for path, found in zip(paths, outcome.znodes, strict=True))


def read_done(outcome: Outcome) -> Znode | None:
    """The znode in the outcome of a `Read`."""
    assert isinstance(outcome, ReadDone), outcome
    return outcome.znode


def exists_done(outcome: Outcome) -> ZnodeStat | None:
    """The Stat in the outcome of an `Exists`; None: there is no such znode."""
    assert isinstance(outcome, ExistsDone), outcome
    return outcome.stat


def list_done(outcome: Outcome) -> ListChildrenDone:
    """The outcome of a `ListChildren`, with its type."""
    assert isinstance(outcome, ListChildrenDone), outcome
    return outcome


def write(operations: Sequence[Operation], fence: Collection[str]) -> Procedure[MultiDone | MultiRefused]:
    """The outcome of one transaction; a refusal at one of the paths in `fence` raises `GuardRefusedError`."""
    outcomes = yield (Query(Multi(tuple(operations))),)
    (outcome,) = outcomes
    require_answers(outcomes, [operations], fence)
    assert isinstance(outcome, (MultiDone, MultiRefused)), outcome
    return outcome


def require_answers(
    outcomes: Sequence[Outcome], transactions: Sequence[Sequence[Operation]], fence: Collection[str]
) -> None:
    """Raises for outcomes of transactions that every recipe handles alike; the most severe first."""
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
    """Drives one procedure at a time: submits the queries that it yields, and sends it the outcomes."""

    def __init__(self, context: MachineContext[E]) -> None:
        self._context = context
        self._procedure: Procedure[None] | None = None
        self._round = 0
        self._pipelined: deque[list[Outcome]] = deque()
        """A place for each outcome of a `Pipelined` that the procedure has not taken, in the order sent."""
        self.name = ""
        self.error: Exception | None = None
        """The error that ended the last procedure; the machine takes it."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when the procedure has ended by itself; not by `stop`."""

    @property
    def is_idle(self) -> bool:
        return self._procedure is None

    def start(self, name: str, procedure: Procedure[None]) -> None:
        assert self._procedure is None, f"{name}: {self.name} is under way"
        self.name, self._procedure = name, procedure
        self._advance(None)

    def stop(self) -> None:
        """Ends the running procedure: its connection or session has ended."""
        procedure = self._procedure
        self._end()
        if procedure is not None:
            procedure.close()

    def _end(self) -> None:
        """Forgets the procedure; outcomes that come later are dropped."""
        self._procedure = None
        self._round += 1
        self._pipelined.clear()

    def _advance(self, outcomes: tuple[Outcome, ...] | None) -> None:
        procedure = self._procedure
        assert procedure is not None
        try:
            queries = next(procedure) if outcomes is None else procedure.send(outcomes)
        except StopIteration:
            self._end()
            self.on_end()
        except (ConnectionLossError, GuardRefusedError, NoAuthError, UnexpectedReplyError) as error:
            self._end()
            self.error = error
            self.on_end()
        else:
            if isinstance(queries, Pipelined):
                self._ask_pipelined(queries)
            else:
                self._ask(queries)

    def _ask_pipelined(self, queries: Pipelined) -> None:
        for query in queries:
            place: list[Outcome] = []
            self._pipelined.append(place)
            self._context.ask(query.request, partial(self._arrived, self._round, place), query.on_watch)
        assert self._pipelined, f"{self.name} waits for nothing"

    def _arrived(self, number: int, place: list[Outcome], outcome: Outcome) -> None:
        if number != self._round:
            return
        place.append(outcome)
        while self._pipelined and self._pipelined[0]:
            self._advance(tuple(self._pipelined.popleft()))

    def _ask(self, queries: tuple[Query, ...]) -> None:
        assert not self._pipelined, f"{self.name} has not taken all outcomes of its pipelined queries"
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
            self._context.ask(query.request, collect(index), query.on_watch)


_E = TypeVar("_E")


@dataclass(frozen=True, slots=True)
class _Asked:
    on_outcome: Callable[[Outcome], None]
    is_write: bool
    sent_ms: int
    connection: int


class MachineContext(Generic[_E]):
    """The session, requests, watches, timers and effects of one machine; `_E`: its effects."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        """jitter: random numbers in [0, 1)."""
        self.now = Instant(0, 0)
        self.session: Session | None = None
        self.connected = False
        self.caught_up = False
        """A quorum write was acknowledged on this connection, after the last missing reply."""
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
        """Takes a new connection, of the same session or of a new one."""
        self.session, self.connected, self.caught_up = session, True, False
        self._connection += 1
        self.forget_watches()

    def is_present(self, incarnation: int) -> bool:
        """Returns whether this is the incarnation of the present session. Events of others are obsolete."""
        return self.session is not None and self.session.incarnation == incarnation

    def owns(self, owner: int) -> bool:
        """Returns whether an ephemeral znode with this owner is of the present session."""
        return self.session is not None and owner == self.session.session_id

    def begin(self, now: Instant) -> None:
        self.now = now

    def take_effects(self) -> tuple[_E | SharedEffect | LogEvent, ...]:
        effects, self._effects = tuple(self._effects), []
        return effects

    def emit(self, effect: _E | SharedEffect) -> None:
        self._effects.append(effect)

    def note(self, kind: str, **fields: object) -> None:
        self._effects.append(LogEvent(kind, fields))

    def next_id(self) -> int:
        """A number for a request, a callback or a record of the history, unique for this machine."""
        self._last_id += 1
        return self._last_id

    def ask(
        self,
        request: Request,
        on_outcome: Callable[[Outcome], None],
        on_watch: Watch | None = None,
    ) -> None:
        """Submits a request for the present session. `on_outcome` is dropped with the session."""
        assert self.session is not None, "a request needs a session"
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
        """Drops all watches, also those of requests without a reply: a disconnect has ended them."""
        for watch in self._watches.values():
            watch.fired = True
        self._watches.clear()

    def forget_session(self) -> None:
        """Drops the session, its requests and its watches; later replies are ignored."""
        if self.session is not None:
            self.former_sessions.add(self.session.session_id)
        self.session = None
        self.connected = False
        self.caught_up = False
        self._asked.clear()
        self.forget_watches()

    def set_timer(self, name: str, at_ms: int) -> None:
        if self._timers.get(name) == at_ms:
            return
        self._timers[name] = at_ms
        self.emit(SetTimer(name, at_ms))

    def set_timer_sooner(self, name: str, at_ms: int) -> None:
        """Sets a timer as `set_timer` does, unless one of this name fires earlier."""
        if name not in self._timers or at_ms < self._timers[name]:
            self.set_timer(name, at_ms)

    def cancel_timer(self, name: str) -> None:
        if self._timers.pop(name, None) is not None:
            self.emit(CancelTimer(name))

    def has_timer(self, name: str) -> bool:
        return name in self._timers

    def timer_fired(self, name: str) -> bool:
        """Returns whether the timer still applies: nothing replaced or cancelled it while its event was
        queued."""
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


Work = tuple[str, Callable[[], Procedure[None]]]
"""A procedure to run: its name for the log, and the function that starts it."""


class ProcedureLoop(ABC, Generic[_E]):
    """Starts procedures one after another, and pauses after one that failed.

    The machines of brokers and controllers are such loops; a member's machine has one. `E`: the effects of
    the machine.
    """

    def __init__(self, context: MachineContext[_E]) -> None:
        self._context = context
        self._runner = Runner(context)
        self.is_backing_off = False

    @property
    def is_idle(self) -> bool:
        """Returns whether no procedure runs."""
        return self._runner.is_idle

    @abstractmethod
    def _next(self) -> Work | None:
        """The most urgent work; called only while there is a connection and no procedure runs."""

    def _run(self) -> None:
        """Starts procedures until one waits for a reply or none is left."""
        for _ in range(STARTS_MAX):
            error, self._runner.error = self._runner.error, None
            if error is not None:
                self._ended_by(error)
            if not self._may_start():
                return
            work = self._next()
            if work is None:
                return
            name, procedure = work
            self._runner.start(name, procedure())
        raise AssertionError(f"{self._runner.name} is started again and again without asking anything")

    def _may_start(self) -> bool:
        return self.is_idle and self._context.connected and not self.is_backing_off

    def _ended_by(self, error: Exception) -> None:
        """Handles the error that ended the last procedure."""
        match error:
            case ConnectionLossError():
                self._back_off(self._context.jittered(BACKOFF_MS, 0.5))
            case GuardRefusedError():
                self._fenced(error)
            case NoAuthError() | UnexpectedReplyError():
                self._context.note("unexpected_reply", detail=str(error), work=self._runner.name)
                self._back_off(UNEXPECTED_REPLY_BACKOFF_MS)
            case _:
                raise error

    def _fenced(self, error: GuardRefusedError) -> None:
        """Handles a write that was refused by its guard. Raises it if no write of the machine has one."""
        raise error

    def _back_off(self, ms: int) -> None:
        if self._context.connected:
            self.is_backing_off = True
            self._context.set_timer(BACKOFF_TIMER, self._context.now.ms + ms)

    def end_backoff(self) -> None:
        """Ends the pause: its timer (`BACKOFF_TIMER`) has fired, or the connection is new."""
        self.is_backing_off = False


HEARTBEATS_PER_TIMEOUT: Final = 6
HEARTBEAT_SPREAD: Final = 0.2
"""The longest period is so much longer than the shortest (recipes 9: T/6 plus or minus 20 %)."""


def lease_ms(timeout_ms: int, lease_fraction: float, server_tick_ms: int) -> int:
    """Length of a lease in milliseconds, from the send time of an acknowledged write (recipes 9, the lease).

        deadline = sent_at(last acknowledged write) + lease_fraction x T - min(server_tick_ms / 2, T / 4)

    T is the session timeout. `sent_at` is the time of the step that issued the write: the server's own timer
    cannot have started earlier. In a lease a process may act without an acknowledged write; members, brokers
    and controllers have leases of this length, and write heartbeats.
    """
    return int(lease_fraction * timeout_ms - min(server_tick_ms / 2, timeout_ms / 4))


def heartbeat_period_ms(timeout_ms: int, jitter: Callable[[], float]) -> int:
    """Milliseconds from one write to the next heartbeat: T/6 or more; `jitter` draws from [0, 1)."""
    return math.ceil(timeout_ms / HEARTBEATS_PER_TIMEOUT * (1 + HEARTBEAT_SPREAD * jitter()))
