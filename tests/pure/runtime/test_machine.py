"""The common part of brokers and controllers: the session, and one procedure at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from zkgroup.model.ports import Instant
from zkgroup.model.requests import (
    Code,
    Delete,
    MultiRefused,
    NotSent,
    Outcome,
    Refused,
    Session,
    Sync,
    SyncDone,
    Unanswered,
)
from zkgroup.runtime.events import (
    Answered,
    LogEvent,
    SessionConnected,
    SessionLost,
    SessionSuspended,
    SetTimer,
    SharedEffect,
    SharedEvent,
    Submit,
    TimerFired,
)
from zkgroup.runtime.machine import ProcedureMachine
from zkgroup.runtime.procedures import (
    BACKOFF_MS,
    BACKOFF_TIMER,
    UNEXPECTED_REPLY_BACKOFF_MS,
    GuardRefusedError,
    MachineContext,
    NoAuthError,
    Pipelined,
    PipelinedStep,
    Procedure,
    Query,
    Work,
    ask,
    run_pipelined,
    write,
)


class Machine(ProcedureMachine[LogEvent]):
    """A machine that syncs a scripted number of times, and records the events of its session."""

    def __init__(self) -> None:
        self.context: MachineContext[LogEvent] = MachineContext(lambda: 0.5)
        super().__init__(self.context)
        self.times = 1
        self.done = 0
        self.told: list[str] = []
        self.effects: list[LogEvent | SharedEffect] = []

    def step(self, event: SharedEvent, at_ms: int = 0) -> None:
        self.context.begin(Instant(at_ms, at_ms))
        self._take_shared(event)
        self._run()
        self.effects.extend(self.context.take_effects())

    def answer(self, outcome: Outcome, at_ms: int = 0) -> None:
        self.step(Answered(self.asked()[-1].request_id, outcome), at_ms)

    def asked(self) -> list[Submit]:
        return [effect for effect in self.effects if isinstance(effect, Submit)]

    def notes(self) -> list[LogEvent]:
        return [effect for effect in self.effects if isinstance(effect, LogEvent)]

    def _next(self) -> Work | None:
        return ("sync", self._sync) if self.done < self.times else None

    def _sync(self) -> Procedure[None]:
        yield from ask(Query(Sync("/")))
        self.done += 1

    def _timer_fired(self, name: str) -> None:
        self.told.append(f"timer {name}")

    def _connected(self) -> None:
        self.told.append("connected")

    def _session_over(self, reason: str) -> None:
        assert self.context.session is not None, "it is told before the session is forgotten"
        self.told.append(f"over: {reason}")


class Carrying(Machine):
    """A machine that syncs a, which leads to c, and b; then continues with d."""

    def __init__(self) -> None:
        super().__init__()
        self.had: list[str] = []

    def _sync(self) -> Procedure[None]:
        yield from run_pipelined([self._step("/a", "/c"), self._step("/b")])
        yield from ask(Query(Sync("/d")))
        self.done += 1

    def _step(self, path: str, *led_to: str) -> PipelinedStep:
        def then(outcome: Outcome) -> Iterable[PipelinedStep]:
            assert outcome == SyncDone()
            self.had.append(path)
            return [self._step(each) for each in led_to]

        return PipelinedStep(Query(Sync(path)), then)

    def paths(self) -> list[str]:
        return [each.request.path for each in self.asked() if isinstance(each.request, Sync)]

    def answer_to(self, path: str, outcome: Outcome | None = None) -> None:
        at = len(self.paths()) - 1 - self.paths()[::-1].index(path)
        self.step(Answered(self.asked()[at].request_id, outcome or SyncDone()))


def connected(incarnation: int = 1) -> SessionConnected:
    return SessionConnected(Session(incarnation, 0x100 + incarnation, 6000))


def test_work_is_done_one_after_another() -> None:
    """The next begins with the answer to the one before."""
    machine = Machine()
    machine.times = 2
    machine.step(connected())
    assert len(machine.asked()) == 1
    assert not machine.is_idle
    machine.answer(SyncDone())
    assert len(machine.asked()) == 2
    machine.answer(SyncDone())
    assert (machine.done, machine.is_idle, len(machine.asked())) == (2, True, 2)


def test_what_an_answer_leads_to_is_asked_while_others_are_awaited() -> None:
    """Nothing else is asked before all of them are there."""
    machine = Carrying()
    machine.step(connected())
    assert machine.paths() == ["/a", "/b"]
    machine.answer_to("/a")
    assert (machine.had, machine.paths()) == (["/a"], ["/a", "/b", "/c"])
    machine.answer_to("/b")
    assert (machine.had, machine.paths()) == (["/a", "/b"], ["/a", "/b", "/c"])
    machine.answer_to("/c")
    assert (machine.had[-1], machine.paths()[-1]) == ("/c", "/d")
    machine.answer_to("/d")
    assert (machine.done, machine.is_idle) == (1, True)


def test_answers_are_taken_in_the_order_asked() -> None:
    """Also from a store that would answer in another one."""
    machine = Carrying()
    machine.step(connected())
    machine.answer_to("/b")
    assert machine.had == []
    machine.answer_to("/a")
    assert machine.had == ["/a", "/b"]


@pytest.mark.parametrize("outcome", [Unanswered("gone"), Refused(Code.NO_AUTH, "/a")])
def test_after_a_missing_answer_the_later_ones_are_ignored(outcome: Outcome) -> None:
    """Nor do they count for the same procedure when it is begun again."""
    machine = Carrying()
    machine.step(connected())
    machine.answer_to("/a", outcome)
    assert machine.is_idle
    late = machine.asked()[-1].request_id
    machine.step(TimerFired(BACKOFF_TIMER), UNEXPECTED_REPLY_BACKOFF_MS)
    assert machine.paths() == ["/a", "/b", "/a", "/b"]
    machine.step(Answered(late, SyncDone()), UNEXPECTED_REPLY_BACKOFF_MS)
    machine.answer_to("/a")
    assert (machine.had, machine.paths()[-1]) == (["/a"], "/c")


def test_answers_of_a_lost_session_lead_to_nothing() -> None:
    """Although they were on their way."""
    machine = Carrying()
    machine.step(connected())
    machine.step(SessionLost(1, "expired"))
    machine.answer_to("/a")
    assert (machine.had, machine.paths()) == ([], ["/a", "/b"])


def test_a_procedure_that_waits_for_nothing_or_leaves_answers_behind_is_a_mistake() -> None:
    """Else it would hang, or take an answer for another one."""

    class Waiting(Machine):
        def _sync(self) -> Procedure[None]:
            yield Pipelined()

    class Leaving(Machine):
        def _sync(self) -> Procedure[None]:
            yield Pipelined([Query(Sync("/")), Query(Sync("/"))])
            yield from ask(Query(Sync("/")))

    with pytest.raises(AssertionError, match="sync waits for nothing"):
        Waiting().step(connected())
    leaving = Leaving()
    leaving.step(connected())
    with pytest.raises(AssertionError, match="sync has not taken all outcomes"):
        leaving.step(Answered(leaving.asked()[0].request_id, SyncDone()))


def test_a_newer_session_ends_the_older_one_first_and_old_news_are_no_news() -> None:
    """Sessions are identified by their incarnations."""
    machine = Machine()
    machine.step(connected(2))
    machine.step(connected(1))
    machine.step(SessionLost(1, "late"))
    machine.step(SessionSuspended(1))
    assert machine.told == ["connected"]
    assert machine.context.connected
    machine.step(connected(3))
    assert machine.told == ["connected", "over: the session is lost", "connected"]
    assert [each.incarnation for each in machine.asked()] == [2, 3]


def test_what_was_under_way_in_a_lost_session_is_not_continued() -> None:
    """Nor is an answer heard that comes too late."""
    machine = Machine()
    machine.step(connected())
    machine.step(SessionLost(1, "expired"))
    assert machine.told[-1] == "over: expired"
    assert machine.is_idle
    machine.answer(SyncDone())
    assert (machine.done, machine.context.session) == (0, None)


def test_while_suspended_nothing_is_begun() -> None:
    """It waits for a connection, not for a backoff."""
    machine = Machine()
    machine.step(connected())
    machine.step(SessionSuspended(1))
    machine.answer(NotSent("suspended"))
    assert len(machine.asked()) == 1
    assert not [effect for effect in machine.effects if isinstance(effect, SetTimer)]
    machine.step(connected())
    assert len(machine.asked()) == 2


@pytest.mark.parametrize(
    ("outcome", "rest_ms", "notes"),
    [
        (Unanswered("gone"), BACKOFF_MS, []),
        (
            Refused(Code.READ_ONLY, "/a"),
            UNEXPECTED_REPLY_BACKOFF_MS,
            [LogEvent("unexpected_reply", {"detail": "/a: ReadOnly", "work": "sync"})],
        ),
        (
            Refused(Code.NO_AUTH, "/a"),
            UNEXPECTED_REPLY_BACKOFF_MS,
            [LogEvent("unexpected_reply", {"detail": str(NoAuthError("/a")), "work": "sync"})],
        ),
    ],
)
def test_it_backs_off_after_an_unexpected_reply(
    outcome: Outcome, rest_ms: int, notes: Sequence[LogEvent]
) -> None:
    """Longer, and with a word for people, where the server refuses: also why."""
    assert "no right to it" in str(NoAuthError("/a"))
    machine = Machine()
    machine.step(connected())
    machine.answer(outcome, 10)
    assert machine.effects[-1] == SetTimer(BACKOFF_TIMER, 10 + rest_ms)
    assert machine.notes() == list(notes)
    machine.step(TimerFired("other"), 11)
    assert len(machine.asked()) == 1
    machine.step(TimerFired(BACKOFF_TIMER), 10 + rest_ms)
    assert len(machine.asked()) == 2
    assert machine.told == ["connected"], "the pause is no timer of the machine's own"


def test_a_new_connection_ends_the_pause() -> None:
    """Another server may answer."""
    machine = Machine()
    machine.step(connected())
    machine.answer(Unanswered("gone"))
    machine.step(connected())
    assert len(machine.asked()) == 2


def test_work_that_asks_nothing_and_is_never_done_is_a_mistake() -> None:
    """Else the thread would turn for ever."""

    class Spinning(Machine):
        def _sync(self) -> Procedure[None]:
            yield from ()

    with pytest.raises(AssertionError, match="sync is started again and again"):
        Spinning().step(connected())


@pytest.mark.parametrize(
    ("fence", "error", "told"),
    [("/fence/below", AssertionError, "a collection of paths"), (["/fence"], GuardRefusedError, "/fence")],
    ids=["a text", "in a machine that has none"],
)
def test_a_fence_that_is_a_mistake(fence: Any, error: type[Exception], told: str) -> None:
    """Past bug: a refusal at `/consumers` was found within a text. Who has one says what its loss means."""

    class Fenced(Machine):
        def _sync(self) -> Procedure[None]:
            yield from write([Delete("/fence", 0)], fence)

    machine = Fenced()
    machine.step(connected())
    with pytest.raises(error, match=told):
        machine.answer(MultiRefused(0, Code.BAD_VERSION))


def test_an_event_for_the_log_is_its_kind_and_its_fields() -> None:
    """Past bug: an event of a member without fields was logged with an empty dict."""
    assert str(LogEvent("lease.expired", {})) == "lease.expired"
    assert str(LogEvent("isr.refused", {"partition": "orders-0", "code": -103})) == (
        "isr.refused partition=orders-0 code=-103"
    )


def test_control_characters_of_an_id_are_escaped_in_the_log() -> None:
    """Clients choose the ids of members: one with a line end wrote lines of its own into the log."""
    event = LogEvent("member_expired", {"member": "a\nERROR zkgroup: b\x1b[2J", "group": "gr\u00fc\u00dfe"})

    assert str(event) == "member_expired member=a\\nERROR zkgroup: b\\x1b[2J group=gr\u00fc\u00dfe"


def test_a_long_id_is_shortened_in_the_log_alone() -> None:
    """Clients choose the ids of groups: one of 32,000 characters made the log unreadable."""
    event = LogEvent("group_state", {"group": "a" * 32_000 + "z", "after": "Stable"})

    shown = f"group={'a' * 400}...(31501 characters)...{'a' * 99}z"
    assert str(event) == f"group_state {shown} after=Stable"
    assert event.fields["group"] == "a" * 32_000 + "z"
