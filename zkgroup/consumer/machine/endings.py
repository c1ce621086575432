"""How things end: the session, the registration, the lease, the membership (recipes.md 7, 9, 10).

Leaving with a client of its own: the callbacks, one final commit, and then the session's end removes all
znodes of the member together. With a shared client, and for a member that comes back later: everything
is released, then the registration is deleted. Every leave has a deadline.
"""

from __future__ import annotations

from dataclasses import dataclass

from zkgroup.consumer.effects import Abandon, EndLease, EndOverdue, Finish, MemberState
from zkgroup.consumer.machine.agenda import Agenda
from zkgroup.consumer.machine.parts import Parts
from zkgroup.consumer.machine.release import REVOKE_TIMER
from zkgroup.errors import AccessDeniedError, RebalanceFailedError
from zkgroup.machinery.procedures import Procedure

CLOSE_TIMER = "close"
OVERTIME_MS = 1000
FAILED_LEAVE_MS = 5000
"""Time for a clean leave of a member that failed by itself."""


@dataclass(slots=True)
class Leaving:
    """A leave under way."""

    reason: str
    closes_session: bool
    """The session's end does the releasing."""
    deadline_ms: int | None
    error: BaseException | None = None
    is_final: bool = True
    """False for a member that only waits for the next poll."""
    is_overtime: bool = False
    """The deadline is past; what stands in a session that lives on is still to be removed."""
    has_committed: bool = False
    """The final commit was handed over."""


class Endings:
    """Everything that makes a member let go."""

    def __init__(self, parts: Parts, agenda: Agenda) -> None:
        self._parts = parts
        self._agenda = agenda
        self._leaving: Leaving | None = None
        agenda.on_unregistered = self.registration_over
        agenda.on_denied = self._denied

    # --- the own clock ----------------------------------------------------------------------------

    def watch_the_clock(self) -> None:
        """The first thing in every step: a process that was stopped must not act on what it believed."""
        parts, core = self._parts, self._parts.core
        if parts.lease.has_run_out():
            parts.lease.end()
            parts.commits.end_lease()
            core.caught_up = False
        if parts.lease.is_expired() and core.session is not None:
            incarnation = core.session.incarnation
            self.session_over("own_expiry_clock")
            core.emit(Abandon(incarnation, "no acknowledged write for the session timeout"))

    # --- the session and the registration ---------------------------------------------------------

    def session_over(self, reason: str) -> None:
        """Nothing of the old session is done any more."""
        self._parts.runner.stop()
        self._parts.core.forget_session()
        self.registration_over(reason)

    def registration_over(self, reason: str) -> None:
        """`on_lost` for everything held; nothing is committed, nothing deleted (recipes.md 10)."""
        parts, core = self._parts, self._parts.core
        was_joined = parts.membership.is_registered
        left_over = {*core.owned.held, *core.owned.leaked, *parts.claims.doubtful}
        core.lose(list(core.owned.held), reason)
        parts.releases.forget_calls()
        core.owned.clear()
        if core.session is not None:
            core.owned.leaked |= left_over  # the session lives, and with it the owner znodes
        for part in (parts.claims, parts.releases, parts.planning, parts.snapshot):
            part.forget()
        for stopped in (parts.lease, parts.verification, parts.views):
            stopped.stop()
        parts.commits.give_up(reason)
        parts.membership.lost()
        if self._leaving is None:
            if was_joined:
                core.change_state(MemberState.LOST, reason)
        elif not self._agenda.must_clean_up:
            self._has_left()

    # --- leaving ----------------------------------------------------------------------------------

    def close(self, closes_session: bool, deadline_ms: int) -> None:
        """By the application."""
        self._begin(Leaving("closed", closes_session, deadline_ms))

    def fail(self, error: BaseException) -> None:
        """By an error; the member leaves as cleanly as it can."""
        core = self._parts.core
        self._begin(Leaving("failed", core.config.owns_client, core.now.ms + FAILED_LEAVE_MS, error))

    def _denied(self, path: str) -> None:
        """An ACL is against it: the member fails; where it is leaving, it says so at the end.

        Once the session's end is all that is left to do nothing is tried again.
        """
        error, leaving = AccessDeniedError(f"{path}: the ACL refuses this member"), self._leaving
        if leaving is None or not leaving.is_final:
            self.fail(error)
            return
        leaving.error = leaving.error or error
        if leaving.has_committed:
            self.finish()

    def park(self) -> None:
        """The application does not poll: out of the group until it does."""
        if self._leaving is None and not self._agenda.is_parked:
            self._agenda.is_parked = True
            self._begin(Leaving("poll_timeout", False, None, is_final=False))

    def unpark(self) -> None:
        """It polls again: join, once the leave under way is through."""
        self._agenda.is_parked = False

    def _begin(self, leaving: Leaving) -> None:
        parts, core = self._parts, self._parts.core
        before = self._leaving
        if before is not None and before.is_final:
            if leaving.deadline_ms is not None and before.error is not None:
                before.closes_session = leaving.closes_session
            return
        self._leaving, self._agenda.is_leaving = leaving, True
        self._agenda.session_ends = leaving.closes_session
        core.owned.retarget({})
        deadline_ms = core.now.ms + core.config.settings.revoke_timeout_ms
        if leaving.deadline_ms is not None:
            deadline_ms = min(deadline_ms, leaving.deadline_ms)
            core.set_timer(CLOSE_TIMER, leaving.deadline_ms)
        if leaving.is_final:
            core.change_state(MemberState.CLOSING, leaving.reason)
        else:
            core.change_state(MemberState.JOINING, leaving.reason)
        parts.releases.revoke(core.owned.to_revoke(), leaving.reason, deadline_ms)

    def go_on(self) -> bool:
        """At the end of every step: what ended meanwhile, a limit that was reached, the next stage of a
        leave. True where the agenda may have something new to do."""
        parts = self._parts
        if parts.membership.in_use is not None and self._leaving is None:
            self.fail(parts.membership.in_use)
        self._look_at_limit()
        if parts.lease.is_refused:
            parts.lease.is_refused = False
            parts.runner.stop()
            self.registration_over("not_registered")
            return True
        leaving = self._leaving
        if leaving is None or parts.core.finished or parts.core.owned.revoking:
            return False
        if self._is_out_of_reach(leaving):
            self._has_left()
            return True
        if leaving.closes_session:
            return self._commit_and_close(leaving)
        if parts.runner.is_idle and parts.core.connected and not self._is_busy():
            parts.runner.start("leave", self._delete_registration())
        return False

    def _look_at_limit(self) -> None:
        limit = self._parts.core.config.settings.rebalance_max_retries
        if limit is None or self._parts.claims.failures < limit or self._leaving is not None:
            return
        blockers = dict(self._parts.core.owned.blocked)
        held = ", ".join(f"{tp} by {who}" for tp, who in sorted(blockers.items()))
        self.fail(RebalanceFailedError(f"{limit} claims in a row failed; held: {held}", blockers))

    def _is_out_of_reach(self, leaving: Leaving) -> bool:
        """Nothing can be done for what was held: never registered, or cut off beyond the lease."""
        parts = self._parts
        if not self._may_be_registered():
            return True
        # A shared session lives on with its client: what stands in it is removed when it is back.
        is_cut_off = not parts.core.connected and (
            parts.lease.has_ended or not parts.membership.is_registered
        )
        return leaving.closes_session and is_cut_off

    def _may_be_registered(self) -> bool:
        return self._parts.membership.is_registered or self._agenda.must_clean_up

    def _is_busy(self) -> bool:
        parts = self._parts
        return (
            not parts.membership.is_registered
            or not parts.core.caught_up
            or parts.commits.is_ready
            or parts.releases.is_ready
            or bool(parts.core.owned.held)
            or self._agenda.is_resting
        )

    def _commit_and_close(self, leaving: Leaving) -> bool:
        parts, owned = self._parts, self._parts.core.owned
        if not leaving.has_committed:
            if not parts.runner.is_idle:
                return False  # what is under way comes to its end first
            leaving.has_committed = True
            final = {tp: position for tp, position in owned.releasing.items() if position is not None}
            news = {
                tp: position
                for tp, position in final.items()
                if (held := owned.held[tp]).leads_to(position) != held.value
            }
            owned.releasing.clear()  # the session's end releases
            parts.commits.write_positions(news)
            return True
        if not parts.commits.is_ready:
            self.finish()
        return False

    def _delete_registration(self) -> Procedure[None]:
        yield from self._parts.views.remove()
        yield from self._parts.membership.remove()

    def _has_left(self) -> None:
        leaving = self._leaving
        assert leaving is not None
        if leaving.is_final:
            self.finish()
        else:
            self._leaving, self._agenda.is_leaving = None, False
            self._parts.core.reason = leaving.reason

    def deadline(self) -> None:
        """Time is up. In a session that lives on the member goes on, silently, for one session timeout."""
        parts, leaving = self._parts, self._leaving
        session = parts.core.session
        is_over = leaving is None or leaving.closes_session or leaving.is_overtime
        if is_over or session is None or leaving is None or not self._may_be_registered():
            self.finish()
        else:
            leaving.is_overtime = True
            for call_id in list(parts.core.owned.revoking):
                parts.releases.overdue(f"{REVOKE_TIMER}{call_id}")
            parts.core.set_timer(CLOSE_TIMER, parts.core.now.ms + session.timeout_ms + OVERTIME_MS)

    def finish(self) -> None:
        """The end, whatever is still unanswered."""
        parts, core, leaving = self._parts, self._parts.core, self._leaving
        if core.finished or leaving is None:
            return
        for call_id, revocation in core.owned.revoking.items():
            core.emit(EndOverdue(call_id, tuple(sorted(revocation.partitions))))
        open_still = [held for held in core.owned.held.values() if held.ended is None]
        for held in open_still:
            tp = held.topic_partition
            core.note("own.end", topic=tp.topic, partition=tp.partition, token=held.token, reason="closed")
        if core.owned.held:
            core.emit(EndLease(tuple(sorted(core.owned.held))))
        core.owned.clear()
        parts.runner.stop()
        parts.commits.give_up("closed")
        core.finished = True
        core.change_state(MemberState.FAILED if leaving.error else MemberState.CLOSED, leaving.reason)
        core.emit(Finish(leaving.closes_session, leaving.error))
