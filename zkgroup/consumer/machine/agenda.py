"""What a member does next: the most urgent procedure that its books call for.

Nothing is remembered about *why* something has to be done, only that it has to be, so that no order of
events can be forgotten. The first lines are about trust (am I registered, do my reads tell the truth, do
I hold what I think); only then comes ordinary work, commits and rebalancing by turns.
"""

from __future__ import annotations

from collections.abc import Callable

from zkgroup.consumer.effects import MemberState
from zkgroup.consumer.machine.parts import Parts
from zkgroup.consumer.machine.writes import guard
from zkgroup.machinery.machine import Work
from zkgroup.machinery.procedures import (
    DeniedError,
    FencedError,
    NoAnswerError,
    OddAnswerError,
    Procedure,
    Query,
    ask,
    write,
)
from zkgroup.model.requests import Sync

REST_TIMER = "rest"
REST_MS = 150
"""Pause after a missing answer while the connection stands."""
ODD_REST_MS = 1000
JVM_REVOKE_MS_MAX = 3100
"""With the longest settling it stays below 0.6 of the 6 s that a JVM member retries (4.10)."""
STARTS_MAX = 1000


class Agenda:
    """Starts procedures, one after another."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.is_parked = False
        """The application does not poll: no registration until it does."""
        self.is_leaving = False
        self.session_ends = False
        """The leave under way ends the session, which does the releasing."""
        self.is_resting = False
        self.was_away = False
        """The connection was lost: what is held must be looked at."""
        self.on_unregistered: Callable[[str], None] = lambda reason: None
        self.on_denied: Callable[[str], None] = lambda path: None
        self._last = ""

    @property
    def must_clean_up(self) -> bool:
        """There may be znodes of ours in a session that lives on: back in, for as long as it takes."""
        parts = self._parts
        is_leaking = self.is_leaving and not self.session_ends and bool(parts.core.owned.leaked)
        return parts.core.session is not None and (parts.membership.is_doubtful or is_leaking)

    # --- the loop ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Starts what is due until something waits for an answer or nothing is due."""
        parts = self._parts
        for _ in range(STARTS_MAX):
            self._look_at_error()
            core = parts.core
            if not parts.runner.is_idle or not core.connected or self.is_resting or core.finished:
                return
            work = self._next()
            if work is None:
                return
            self._last, procedure = work
            parts.runner.start(self._last, procedure())
        raise AssertionError(f"{self._last} is started again and again without asking anything")

    def _look_at_error(self) -> None:
        """How the last procedure ended, where it did not come to its end."""
        error, self._parts.runner.error = self._parts.runner.error, None
        core = self._parts.core
        match error:
            case None:
                pass
            case NoAnswerError():
                is_hopeless = error.too_big and not core.cut_packets()
                if is_hopeless:
                    core.note("odd_answer", detail=str(error))
                if not error.certain:
                    core.caught_up = False
                self._rest(ODD_REST_MS if is_hopeless else core.jittered(REST_MS, 0.5))
            case FencedError():
                self.on_unregistered("not_registered")
            case DeniedError():
                if self.is_leaving:  # what is still to be done is tried again, but not without a pause
                    self._rest(ODD_REST_MS)
                self.on_denied(error.path)
            case OddAnswerError():
                core.note("odd_answer", detail=str(error))
                self._rest(ODD_REST_MS)
            case _:
                raise error

    def _rest(self, ms: int) -> None:
        if self._parts.core.connected:
            self.is_resting = True
            self._parts.core.set_timer(REST_TIMER, self._parts.core.now.ms + ms)

    def rested(self) -> None:
        """The pause is over, or the connection is new."""
        self.is_resting = False

    # --- what is next -----------------------------------------------------------------------------

    def _next(self) -> Work | None:
        return self._trust() if not self._is_trusted() else self._ordinary()

    def _is_trusted(self) -> bool:
        p = self._parts
        is_sure = p.membership.is_registered and p.core.caught_up and not self._has_doubts()
        return is_sure and not self._must_review()

    def _has_doubts(self) -> bool:
        p = self._parts
        return p.commits.is_in_doubt or p.releases.is_in_doubt or bool(p.claims.doubtful)

    def _must_review(self) -> bool:
        return self.was_away or self._parts.lease.has_ended

    def _trust(self) -> Work | None:
        p = self._parts
        if not p.membership.is_registered:
            return self._joining()
        if not p.core.caught_up:
            return "catch up", self._catch_up
        if p.commits.is_in_doubt:
            return "commit", p.commits.commit
        if p.releases.is_in_doubt:
            return "release", p.releases.release
        if p.claims.doubtful:
            return "resolve claims", p.claims.resolve_doubts
        return "review", self._review

    def _joining(self) -> Work | None:
        p = self._parts
        must_not = self.is_parked or self.is_leaving or p.core.state is MemberState.NEW
        if p.membership.is_waiting or p.membership.in_use is not None:
            return None
        if must_not and not self.must_clean_up:
            return None
        if not self.is_leaving:
            p.core.change_state(MemberState.JOINING, "registering")
        return "register", self._register

    def _ordinary(self) -> Work | None:
        p = self._parts
        if p.membership.must_replace and not self.is_leaving:
            return "register anew", p.membership.replace
        if p.resets.is_due and p.snapshot.picture is not None:
            return "look at resets", p.resets.look
        if p.commits.review:
            return "review", p.commits.look_at
        by_turns = [self._committing, self._releasing, self._looking, self._claiming]
        if self._last == "commit":
            by_turns = [self._looking, self._claiming, self._releasing, self._committing]
        for turn in by_turns:
            work = turn()
            if work is not None:
                return work
        return self._idle()

    def _committing(self) -> Work | None:
        return ("commit", self._parts.commits.commit) if self._parts.commits.is_ready else None

    def _releasing(self) -> Work | None:
        is_due = self._parts.releases.is_ready and not self.session_ends
        return ("release", self._parts.releases.release) if is_due else None

    def _looking(self) -> Work | None:
        p = self._parts
        if self.is_leaving:
            return None
        if p.snapshot.settling.is_due:
            return "snapshot", self._take_picture
        if p.snapshot.is_new or p.planning.is_outdated:
            return "plan", self._plan
        return None

    def _claiming(self) -> Work | None:
        p = self._parts
        if self.is_leaving:
            return None
        if p.membership.may_have_leaked and p.planning.planned is not None:
            return "look for leaks", self._look_for_leaks
        if p.claims.recheck_is_due:
            return "look at blocked", p.claims.look_at_blocked
        return ("claim", p.claims.claim) if p.claims.is_ready else None

    def _idle(self) -> Work | None:
        p = self._parts
        if self.is_leaving:
            return None
        if p.verification.is_due:
            return "verify", p.verification.verify
        return ("publish", p.views.publish) if p.views.is_due else None

    # --- procedures made of several parts ---------------------------------------------------------

    def _register(self) -> Procedure[None]:
        p = self._parts
        p.lease.start()
        yield from p.membership.register()
        if p.membership.is_registered:
            self.was_away = False
            p.snapshot.settling.joined()
            p.verification.start()

    def _catch_up(self) -> Procedure[None]:
        """An acknowledged write: only after it do reads tell what became of earlier ones (recipes.md 10)."""
        p = self._parts
        yield from ask(Query(Sync(p.paths.ids)))
        yield from write([guard(p.paths)], (p.paths.own,))

    def _review(self) -> Procedure[None]:
        """Back after a while: is everything as it was? Then the lease goes on with the same tokens."""
        p = self._parts
        p.commits.review.update(p.core.owned.held)
        yield from p.commits.look_at()
        self.was_away = False
        p.lease.verified()
        if p.lease.has_ended:
            p.core.caught_up = False  # the acknowledgement was too old: another one

    def _take_picture(self) -> Procedure[None]:
        p = self._parts
        owners = yield from p.snapshot.take()
        if owners is not None:
            p.verification.judge(owners)
        if p.snapshot.is_new:
            yield from self._plan()

    def _look_for_leaks(self) -> Procedure[None]:
        p = self._parts
        yield from p.claims.look_for_leaks()
        p.membership.may_have_leaked = False

    def _plan(self) -> Procedure[None]:
        """Plan, and give up what the plan takes away."""
        p = self._parts
        yield from p.planning.make()
        if self.is_leaving:  # it began while the plan was on its way
            p.core.owned.retarget({})
            return
        if p.snapshot.is_new or p.planning.is_waiting_for_brokers:
            return
        settings, picture = p.core.config.settings, p.snapshot.picture
        deadline_ms = settings.revoke_timeout_ms
        if picture is not None and picture.has_foreign_members:
            deadline_ms = min(deadline_ms, JVM_REVOKE_MS_MAX)
        lost = p.core.owned.to_revoke()
        p.releases.revoke(lost, "rebalance", p.core.now.ms + deadline_ms)
        if p.planning.waits_for_releases and not p.core.owned.is_giving_up:
            p.claims.put_off(p.core.jittered(2 * settings.settle_ms, 0.25))
