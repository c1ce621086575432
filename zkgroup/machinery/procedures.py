"""Recipes written as they are read: a procedure is a generator that yields requests and gets outcomes.

A procedure lives within one connection and one session. Where an answer is missing it ends
(`NoAnswerError`); whatever it left in doubt it has noted in its part's books *before* it wrote, and a later
procedure reads it back (recipes.md 10). At most one procedure runs at a time: while a member waits for
a write it does nothing else, as in the exhaustive model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from zkgroup.machinery.books import Books
from zkgroup.machinery.watch import Watch
from zkgroup.model import Znode
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
    Unanswered,
)


class Query(NamedTuple):
    """One request of a procedure; `on_watch` is called when the watch it arms has fired."""

    request: Request
    on_watch: Watch | None = None


class Ahead(tuple[Query, ...]):
    """Queries whose outcomes come one at a time, in the order asked: the procedure goes on with the next one.

    It may be one of an earlier `Ahead`. None is left when something else is asked.
    """

    __slots__ = ()


class Step(NamedTuple):
    """A query, and what is done with its answer; that may say what to ask because of it."""

    query: Query
    then: Callable[[Outcome], Iterable[Step]]


T = TypeVar("T")
E = TypeVar("E")
Procedure = Generator[tuple[Query, ...], tuple[Outcome, ...], T]


class NoAnswerError(Exception):
    """Control flow: an outcome is missing. `certain`: nothing of the procedure's write was applied."""

    def __init__(self, outcome: Unanswered | NotSent) -> None:
        super().__init__(outcome.reason)
        self.certain = isinstance(outcome, NotSent)
        self.too_big = isinstance(outcome, NotSent) and outcome.too_big


class FencedError(Exception):
    """Control flow: a write was refused at its fence (a member's registration, `/controller`).

    We are no longer what we took ourselves for, and nothing is ours any more.
    """


class DeniedError(Exception):
    """Control flow: an ACL does not let us."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class OddAnswerError(Exception):
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


def carry_on(steps: Iterable[Step]) -> Procedure[None]:
    """Asks all at once, and takes each answer as soon as it is there: others are on their way meanwhile.

    What an answer leads to is asked at once. Raises as `ask`; the answers after that are not looked at.
    """
    asked: deque[Step] = deque()
    more = tuple(steps)
    while asked or more:
        asked.extend(more)
        outcomes = yield Ahead([step.query for step in more])
        _require_answers(outcomes)
        (outcome,) = outcomes
        more = tuple(asked.popleft().then(outcome))


def _require_answers(outcomes: Iterable[Outcome]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, (Unanswered, NotSent)):
            raise NoAnswerError(outcome)
        if isinstance(outcome, Refused):
            raise _refusal(outcome.path, outcome.code)


def _refusal(path: str, code: Code) -> Exception:
    return DeniedError(path) if code is Code.NO_AUTH else OddAnswerError(path, code)


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
    """Raises `DeniedError` where the ACL of a znode that this member needs hides it."""
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
    """One transaction; `fence`: the paths whose refusal ends everything (`FencedError`)."""
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
                raise FencedError(path)
            if outcome.code not in _EXPECTED_CODES:
                raise _refusal(path, outcome.code)
        elif isinstance(outcome, (Unanswered, NotSent)):
            missing = outcome if missing is None or isinstance(outcome, Unanswered) else missing
    if missing is not None:
        raise NoAnswerError(missing)


_EXPECTED_CODES = frozenset({Code.NO_NODE, Code.NODE_EXISTS, Code.BAD_VERSION, Code.NOT_EMPTY})


class Runner(Generic[E]):
    """Drives one procedure at a time: asks what it yields, and sends it the outcomes."""

    def __init__(self, books: Books[E]) -> None:
        self._books = books
        self._procedure: Procedure[None] | None = None
        self._round = 0
        self._ahead: deque[list[Outcome]] = deque()
        """A place for each outcome of an `Ahead` that the procedure has not had yet, in the order asked."""
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
        except (NoAnswerError, FencedError, DeniedError, OddAnswerError) as error:
            self._end()
            self.error = error
        else:
            if isinstance(queries, Ahead):
                self._ask_ahead(queries)
            else:
                self._ask(queries)

    def _ask_ahead(self, queries: Ahead) -> None:
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
