"""What a rule has to do and when: duties in their order, one at a time; refused ones again after a pause.

An event says where to look (`Reading.look`), or a time does (`later`). A duty that ends without an answer
has everything loaded again. One that an ACL or a limit refuses, or that asks for itself again and again and
changes nothing, is put off with growing pauses, and the status says why: nothing behind it waits for it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from typing import Final

from zkgroup.controller.machine import agenda
from zkgroup.controller.machine.agenda import PAUSE_MS, REASONS, Look, Pauses
from zkgroup.controller.machine.core import Core
from zkgroup.controller.machine.fence import Denied
from zkgroup.controller.machine.reading import Reading
from zkgroup.machinery.machine import Work
from zkgroup.machinery.procedures import DeniedError, NoAnswerError, OddAnswerError, Procedure
from zkgroup.model.requests import MultiDone, Outcome

DUTY_TIMER: Final = "duties"


class Working(Reading):
    """The duties of one rule: which is next, and what becomes of it."""

    def __init__(self, core: Core, duties: Mapping[Look, Callable[[str], Procedure[None]]]) -> None:
        """duties: each looks at one kind of thing; the text is the subject, the topic for `Look.TOPIC`."""
        super().__init__(core)
        self.waiting: dict[str, str] = {}
        """What waits (`move of t-0`, `deletion of t`, `leader of t-0`), and for what; for the status."""
        self.is_loaded = False
        self.was_loaded = False
        """At least once: what is loaded now is compared with it."""
        self.reason = ""
        """Why the duty under way changes something; for the log."""
        self.elected = 0
        """Leaders that the duty under way has changed."""
        self._duties = duties
        self._later: dict[agenda.Work, int] = {}
        self._pauses = Pauses()
        self._refused: str | None = None
        """Why the duty under way rests."""
        self._is_told = False
        """The status tells that of what waits for it."""
        self._is_on_duty = False
        """What is asked for now comes from a duty, not from an event."""

    @abstractmethod
    def tell_untold(self) -> None:
        """Tells the brokers what a duty has written and not told."""

    def wait(self, what: str, why: str | None) -> None:
        """`what` waits for something, for the status; None: no more."""
        if why is None:
            self.waiting.pop(what, None)
        else:
            self.waiting[what] = why

    def look(self, look: Look, subject: str = "") -> None:
        """Something may have changed there; it is read when its turn comes."""
        if not self._is_on_duty:
            self._pauses.changed()
        self.agenda.add(agenda.Work(look, subject), self.core.now.ms, is_own=self._is_on_duty)

    def later(self, look: Look, ms: int, subject: str = "") -> None:
        """`look`, after this time; an earlier time that was given before stays."""
        work, at_ms = agenda.Work(look, subject), self.core.now.ms + ms
        self._later[work] = min(at_ms, self._later.get(work, at_ms))
        self.core.set_timer_sooner(DUTY_TIMER, self._later[work])

    def rest(self, why: str, waiting: Iterable[str] = ()) -> None:
        """The duty under way was refused something, by an ACL: it is tried again, after pauses that grow.

        waiting: what waits for it, for the status; the duty where nothing is named.
        """
        self._refused = self._refused or why
        for what in waiting:
            self.wait(what, why)
            self._is_told = True

    def again(self, look: Look, refused: Iterable[str]) -> None:
        """`look`, after pauses that grow, where an ACL or a limit has refused: no event tells of these."""
        if any(isinstance(why, Denied) for why in refused):
            pause_ms = self._pauses.before_ms(agenda.Work(look), self.core.now.ms)
            self.later(look, max(PAUSE_MS, pause_ms))

    def timer_fired(self) -> None:
        """Work that was put off is due, some of it at least."""
        for work in [work for work, at_ms in self._later.items() if at_ms <= self.core.now.ms]:
            del self._later[work]
            self.agenda.add(work, self.core.now.ms)
        if self._later:
            self.core.set_timer(DUTY_TIMER, min(self._later.values()))

    def load_again(self) -> None:
        """Watches are gone, or what is known is in doubt: nothing else is done before all is read again."""
        self.forget_watches()
        self.is_loaded = False
        self.agenda.add(agenda.Work(Look.LOAD), self.core.now.ms)  # that is no change of what is there

    def next(self) -> Work | None:
        """The procedure that is due, or None. Nothing but loading before everything is loaded."""
        while (taken := self.agenda.take(Look.STATUS if self.is_loaded else Look.LOAD)) is not None:
            work, waiting = taken
            duty = self._duties.get(work.look)
            if duty is None:
                continue
            pause_ms = self._pauses.before_ms(work, self.core.now.ms)
            if pause_ms and waiting.is_own and work.look is not Look.STATUS:
                self.core.note("duty.put_off", work=str(work), pause_ms=pause_ms)
                self.later(work.look, pause_ms, work.subject)
                continue
            return str(work), partial(self._on_duty, work, duty)
        return None

    def _on_duty(self, work: agenda.Work, duty: Callable[[str], Procedure[None]]) -> Procedure[None]:
        self._pauses.begun(work, self.core.now.ms)
        self.reason, self.elected, begun_ms = REASONS.get(work.look, str(work)), 0, self.core.now.ms
        why, self._refused, self._is_told = None, None, False
        try:
            yield from self._stepped(work, duty(work.subject))
        except NoAnswerError as error:
            if not error.too_big:
                self.load_again()
                self.agenda.add(work, self.core.now.ms, is_own=True)
                raise
            why = str(error)
        except (DeniedError, OddAnswerError) as error:
            why = str(error)
        if self.elected:
            took_ms = self.core.now.ms - begun_ms
            self.core.note("election.done", leaders=self.elected, reason=self.reason, ms=took_ms)
        self._is_on_duty = True
        self._done(work, why)
        self._is_on_duty = False

    def _done(self, work: agenda.Work, refused: str | None) -> None:
        """What follows from a duty that is done, or was refused and will be tried again."""
        if refused is not None:
            self.forget_watches()
        why = self._refused if refused is None else refused
        if why is not None:
            self.core.note("duty.refused", work=work.look.name, subject=work.subject, detail=why)
            self.later(work.look, max(PAUSE_MS, self._pauses.before_ms(work, self.core.now.ms)), work.subject)
        told = None if self._is_told else self._refused
        self.wait(str(work), told if refused is None else f"refused: {refused}")
        self.tell_untold()
        if work.look is not Look.STATUS:
            self.look(Look.STATUS)

    def _stepped(self, work: agenda.Work, procedure: Procedure[None]) -> Procedure[None]:
        """The procedure, with what it asks for known as its own, and what it changes noticed."""
        outcomes: tuple[Outcome, ...] | None = None
        with closing(procedure):
            while True:
                self._is_on_duty = True
                try:
                    queries = next(procedure) if outcomes is None else procedure.send(outcomes)
                except StopIteration:
                    return
                finally:
                    self._is_on_duty = False
                outcomes = yield queries
                if work.look is not Look.STATUS and any(isinstance(each, MultiDone) for each in outcomes):
                    self._pauses.changed()
