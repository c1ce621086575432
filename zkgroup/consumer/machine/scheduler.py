"""Starts the most urgent procedure by the state of the machine, also while the member leaves.

The state has no reasons, only what is to be done, so the order of events does not matter. First the member
must be registered, its reads must be up to date and its claims verified; then ordinary work follows, commits
and rebalancing by turns.

`GroupLeave` handles the end of the session, the registration, the lease and the membership. A member with a
client of its own runs its callbacks and one final commit; then the session's end removes all its znodes
together. A member with a shared client, or one that rejoins later, releases everything and then deletes its
registration. Every leave has a deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zkgroup.consumer.machine.assignment import AssignmentComputer, ViewPublisher
from zkgroup.consumer.machine.claim import Claims, OwnerVerification
from zkgroup.consumer.machine.commit import Commits, ResetWatch
from zkgroup.consumer.machine.commit_history import CommitHistory
from zkgroup.consumer.machine.events import Abandon, Effect, EndLease, EndOverdue, Finish, MemberState
from zkgroup.consumer.machine.group_snapshot import GroupSnapshotReader
from zkgroup.consumer.machine.history import HistoryWriter
from zkgroup.consumer.machine.machine_context import GroupPaths, MemberConfig, MemberContext
from zkgroup.consumer.machine.membership import Membership, SessionLease
from zkgroup.consumer.machine.overload import MemberTurns, RejoinPause
from zkgroup.consumer.machine.release import REVOKE_TIMER, Releases
from zkgroup.consumer.machine.transactions import guard
from zkgroup.consumer.machine.warm_up import NewOwner, OldOwner
from zkgroup.errors import AccessDeniedError, RebalanceFailedError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Sync
from zkgroup.runtime.procedures import (
    BACKOFF_MS,
    UNEXPECTED_REPLY_BACKOFF_MS,
    ConnectionLossError,
    GuardRefusedError,
    NoAuthError,
    Procedure,
    ProcedureLoop,
    Query,
    UnexpectedReplyError,
    Work,
    ask,
    write,
)


class Components:
    """The components of a member's machine, one for each recipe."""

    def __init__(self, config: MemberConfig) -> None:
        self.context = context = MemberContext(config)
        self.paths = paths = GroupPaths(config.group, config.member_id)
        self.membership = Membership(context, paths)
        self.rejoin_pause = RejoinPause(context)
        self.turns = MemberTurns(context)
        self.lease = SessionLease(context, paths)
        self.snapshot = GroupSnapshotReader(context, paths)
        self.assignments = AssignmentComputer(context, paths, self.snapshot)
        commit_history = CommitHistory(context, paths)
        self.commits = Commits(context, paths, self.lease, self.snapshot, commit_history)
        self.claims = Claims(context, paths, self.snapshot, self.assignments, commit_history)
        self.releases = Releases(context, paths, self.snapshot, self.assignments, commit_history)
        self.resets = ResetWatch(context, paths, self.commits)
        self.history = HistoryWriter(context, paths, self.snapshot, self.assignments)
        self.verification = OwnerVerification(context, paths, self.snapshot, self.history)
        self.new_owner = NewOwner(context, paths, self.snapshot, self.assignments)
        self.old_owner = OldOwner(context, paths, self.snapshot, self.assignments)
        if config.prepares:
            self.claims.is_preparing = lambda: self.new_owner.is_preparing
            self.claims.on_blocked = self.new_owner.blocked
        self.views = ViewPublisher(context, paths, self.assignments, self.history)


JVM_REVOKE_MS_MAX = 3100
"""Milliseconds. With `settle_max_ms` it is below 0.6 of the 6 s in which a JVM member retries (4.10)."""


class Scheduler(ProcedureLoop[Effect]):
    """The loop of a member's procedures."""

    def __init__(self, components: Components) -> None:
        super().__init__(components.context)
        self._components = components
        components.old_owner.revoke = self._revoke
        self.has_left_group = False
        """True if the member does not register until the application polls."""
        self.session_ends = False
        """True if the running leave ends the session, which releases the partitions."""
        self.was_away = False
        """True if the owned partitions must be read back after a lost connection."""
        self.on_unregistered: Callable[[str], None] = lambda reason: None
        self.on_denied: Callable[[str], None] = lambda path: None

    @property
    def must_clean_up(self) -> bool:
        """Returns whether the member must register again to remove its znodes from a session that goes on."""
        components = self._components
        has_orphans = (
            components.context.is_leaving
            and not self.session_ends
            and bool(components.context.owned.orphaned)
        )
        return components.context.session is not None and (
            components.membership.is_outcome_unknown or has_orphans
        )

    def run(self) -> None:
        """Starts due procedures until one waits for a reply or none is due."""
        self._run()
        if self._components.turns.is_open:
            self._components.turns.ran(None if self._runner.is_idle else self._runner.name)

    def start(self, name: str, procedure: Procedure[None]) -> None:
        """Starts a procedure out of turn; none may be running."""
        self._runner.start(name, procedure)

    def stop(self) -> None:
        self._runner.stop()

    def _may_start(self) -> bool:
        return super()._may_start() and not self._components.context.finished

    def _ended_by(self, error: Exception) -> None:
        context = self._components.context
        match error:
            case ConnectionLossError():
                is_hopeless = error.too_big and not context.cut_packets()
                if is_hopeless:
                    context.note("unexpected_reply", detail=str(error))
                if not error.certain:
                    context.caught_up = False
                self._back_off(
                    UNEXPECTED_REPLY_BACKOFF_MS if is_hopeless else context.jittered(BACKOFF_MS, 0.5)
                )
            case NoAuthError():
                if self._components.context.is_leaving:  # the leave is tried again after a pause
                    self._back_off(UNEXPECTED_REPLY_BACKOFF_MS)
                self.on_denied(error.path)
            case UnexpectedReplyError():
                context.note("unexpected_reply", detail=str(error))
                self._back_off(UNEXPECTED_REPLY_BACKOFF_MS)
            case _:
                super()._ended_by(error)

    def _fenced(self, error: GuardRefusedError) -> None:
        self.on_unregistered("not_registered")

    def _next(self) -> Work | None:
        return self._trust() if not self._is_trusted() else self._ordinary()

    def _is_trusted(self) -> bool:
        p = self._components
        is_sure = p.membership.is_registered and p.context.caught_up and not self._has_unknown_outcomes()
        return is_sure and not self._must_review()

    def _has_unknown_outcomes(self) -> bool:
        p = self._components
        return (
            p.commits.has_unknown_outcome or p.releases.has_unknown_outcome or bool(p.claims.unknown_outcomes)
        )

    def _must_review(self) -> bool:
        return self.was_away or self._components.lease.has_ended

    def _trust(self) -> Work | None:
        p = self._components
        if not p.membership.is_registered:
            return self._joining()
        if not p.context.caught_up:
            return "catch up", self._catch_up
        if p.commits.has_unknown_outcome:
            return "commit", p.commits.commit
        if p.releases.has_unknown_outcome:
            return "release", p.releases.release
        if p.claims.unknown_outcomes:
            return "resolve claims", p.claims.resolve_unknown_outcomes
        return "review", self._review

    def _joining(self) -> Work | None:
        p = self._components
        must_not = self.has_left_group or p.context.is_leaving or p.context.state is MemberState.NEW
        if p.membership.is_waiting or p.membership.in_use is not None:
            return None
        if must_not and not self.must_clean_up:
            return None
        if p.rejoin_pause.is_running and not p.context.is_leaving:
            p.context.reason = "waiting_after_lost_sessions"
            return None
        if not p.context.is_leaving:
            p.context.change_state(MemberState.JOINING, "registering")
            if not p.turns.has_turn():
                return None
        return "register", self._register

    def _ordinary(self) -> Work | None:
        p = self._components
        if p.membership.must_replace and not p.context.is_leaving:
            return "register anew", p.membership.replace
        if p.resets.is_due and p.snapshot.newest is not None:
            return "read reset markers", p.resets.read_markers
        if p.commits.review:
            return "review", p.commits.read_reviewed
        by_turns = [self._committing, self._releasing, self._reading, self._claiming]
        if self._runner.name == "commit":
            by_turns = [self._reading, self._claiming, self._releasing, self._committing]
        for turn in by_turns:
            work = turn()
            if work is not None:
                return work
        return self._idle()

    def _committing(self) -> Work | None:
        return ("commit", self._components.commits.commit) if self._components.commits.is_due else None

    def _releasing(self) -> Work | None:
        is_due = self._components.releases.is_ready and not self.session_ends
        return ("release", self._components.releases.release) if is_due else None

    def _reading(self) -> Work | None:
        p = self._components
        if p.context.is_leaving:
            return None
        takes_snapshot = p.snapshot.settling.is_due
        must_plan = p.snapshot.is_new or p.assignments.is_outdated or p.assignments.steps.is_outdated
        if (takes_snapshot or must_plan) and p.turns.has_turn():
            return ("snapshot", self._take_snapshot) if takes_snapshot else ("plan", self._plan)
        if p.snapshot.freeze.is_end_due:
            return "end the freeze", p.snapshot.freeze.end
        if p.context.owned.kept and p.old_owner.is_due:
            return "read what is prepared", p.old_owner.read
        if p.new_owner.ready and p.new_owner.is_due:
            return "publish what is prepared", p.new_owner.publish
        return ("next step", p.assignments.steps.advance) if p.assignments.steps.is_due else None

    def _claiming(self) -> Work | None:
        p = self._components
        if p.context.is_leaving:
            return None
        seeks_orphans = p.membership.may_have_orphans and p.assignments.planned is not None
        may_claim = p.claims.is_ready and not p.lease.is_late
        if not (seeks_orphans or p.claims.read_back_is_due or may_claim) or not p.turns.has_turn():
            return None
        if seeks_orphans:
            return "find orphaned claims", self._find_orphans
        if p.claims.read_back_is_due:
            return "read back blocked", p.claims.read_back_blocked
        return "claim", p.claims.claim

    def _idle(self) -> Work | None:
        p = self._components
        if p.context.is_leaving:
            return None
        must_verify = p.verification.is_due or (p.views.is_due and p.history.must_read)
        if must_verify and p.turns.has_turn():
            p.assignments.steps.check_again()
            return "verify", p.verification.verify
        if p.snapshot.away.is_due:
            return "attend to away members", p.snapshot.away.attend
        return ("publish", p.views.publish) if p.views.is_due else None

    def _register(self) -> Procedure[None]:
        p = self._components
        p.lease.start()
        yield from p.membership.register()
        if p.membership.is_registered:
            self.was_away = False
            p.rejoin_pause.registered()
            p.snapshot.settling.joined()
            p.verification.start()

    def _catch_up(self) -> Procedure[None]:
        """Makes an acknowledged write: only later reads show the outcome of earlier ones."""
        p = self._components
        yield from ask(Query(Sync(p.paths.ids)))
        yield from write([guard(p.paths)], (p.paths.own,))

    def _review(self) -> Procedure[None]:
        """Reads back the owned partitions after a disconnect; the lease continues with the same tokens."""
        p = self._components
        p.commits.review.update(p.context.owned.partitions)
        yield from p.commits.read_reviewed()
        self.was_away = False
        p.lease.verified()
        if p.lease.has_ended:
            p.context.caught_up = False  # the acknowledgement was too old: make another write

    def _take_snapshot(self) -> Procedure[None]:
        p = self._components
        owners = yield from p.snapshot.take()
        if owners is not None:
            p.verification.check_owners(owners)
        if p.snapshot.is_new:
            yield from self._plan()

    def _find_orphans(self) -> Procedure[None]:
        p = self._components
        yield from p.claims.find_orphans()
        p.membership.may_have_orphans = False

    def _plan(self) -> Procedure[None]:
        """Computes the assignment, and revokes partitions that are no longer assigned."""
        p = self._components
        is_applied = yield from p.assignments.make()
        p.history.planned()
        if self._components.context.is_leaving:  # the leave began while the assignment znode was written
            p.context.owned.assign({})
            return
        if not is_applied:
            return
        p.new_owner.assigned()
        self._revoke(p.old_owner.keep(p.context.owned.to_revoke()))
        if p.assignments.waits_for_releases and not p.context.owned.is_giving_up:
            others_ms = max(2 * p.context.config.settings.settle_ms, p.snapshot.settling.pace.took_ms)
            p.claims.put_off(p.context.jittered(others_ms, 0.25))

    def _revoke(self, lost: Sequence[TopicPartition]) -> None:
        """Revokes partitions that others get."""
        p = self._components
        deadline_ms, snapshot = p.context.config.settings.revoke_timeout_ms, p.snapshot.newest
        if snapshot is not None and snapshot.has_foreign_members:
            deadline_ms = min(deadline_ms, JVM_REVOKE_MS_MAX)
        p.releases.revoke(lost, "rebalance", p.context.now.ms + deadline_ms)


CLOSE_TIMER = "close"
PAST_DEADLINE_MS = 1000
FAILED_LEAVE_MS = 5000
"""Milliseconds in which a member that failed leaves the group."""


@dataclass(slots=True)
class LeaveInProgress:
    """The state of a running leave."""

    reason: str
    closes_session: bool
    """True if the session's end releases the partitions."""
    deadline_ms: int | None
    error: BaseException | None = None
    is_final: bool = True
    """False for a member that rejoins at the next poll."""
    is_past_deadline: bool = False
    """True if the deadline has passed; znodes in a session that goes on are still to be removed."""
    has_committed: bool = False
    """True if the final commit was queued."""
    keep: bool = False
    """True if the entry of a static member keeps its claims for the grace."""


class GroupLeave:
    """Ends leases, registrations and the membership."""

    def __init__(self, components: Components, scheduler: Scheduler) -> None:
        self._components = components
        self._scheduler = scheduler
        self._leaving: LeaveInProgress | None = None
        scheduler.on_unregistered = self.registration_over
        scheduler.on_denied = self._denied

    def check_expiry(self) -> None:
        """Ends an expired lease or session; first in every step, as the process may have been stopped."""
        components, context = self._components, self._components.context
        if components.lease.has_run_out():
            components.lease.end()
            components.commits.end_lease()
            context.caught_up = False
        if components.lease.is_expired() and context.session is not None:
            incarnation = context.session.incarnation
            self.session_over("own_expiry_clock")
            context.emit(Abandon(incarnation, "no acknowledged write for the session timeout"))

    def session_over(self, reason: str) -> None:
        """Ends everything of the old session."""
        self._scheduler.stop()
        session = self._components.context.session
        if session is not None:
            self._components.rejoin_pause.session_lost(session.timeout_ms)
        self._components.context.forget_session()
        self.registration_over(reason)

    def registration_over(self, reason: str) -> None:
        """Loses all owned partitions; commits nothing and deletes nothing (unknown outcomes, recipes 10)."""
        components, context = self._components, self._components.context
        was_joined = components.membership.is_registered
        left_over = {*context.owned.partitions, *context.owned.orphaned, *components.claims.unknown_outcomes}
        context.lose(list(context.owned.partitions), reason)
        components.releases.forget_calls()
        if context.config.prepares:
            components.new_owner.forget()
        context.owned.clear()
        if context.session is not None:
            context.owned.orphaned |= left_over  # the session goes on, and with it the owner znodes
        for part in (components.claims, components.releases, components.assignments, components.snapshot):
            part.forget()
        for stopped in (components.lease, components.verification, components.views):
            stopped.stop()
        components.commits.give_up(reason)
        components.membership.lost()
        if self._leaving is None:
            if was_joined:
                context.change_state(MemberState.LOST, reason)
        elif not self._scheduler.must_clean_up:
            self._has_left()

    def close(self, closes_session: bool, deadline_ms: int, *, keep: bool) -> None:
        """Starts to leave, on request of the application."""
        self._begin(LeaveInProgress("closed", closes_session, deadline_ms, keep=keep))

    def fail(self, error: BaseException) -> None:
        """Starts to leave because of an error, and ends in the state `failed`. A static member may be started
        again, so its claims are kept."""
        context = self._components.context
        deadline_ms = context.now.ms + FAILED_LEAVE_MS
        self._begin(LeaveInProgress("failed", context.config.owns_client, deadline_ms, error, keep=True))

    def _denied(self, path: str) -> None:
        """Fails because of an ACL. A member that is leaving reports the error at its end; if only the
        session's end is left to do, nothing is tried again."""
        error, leaving = AccessDeniedError(f"{path}: the ACL refuses this member"), self._leaving
        if leaving is None or not leaving.is_final:
            self.fail(error)
            return
        leaving.error = leaving.error or error
        if leaving.has_committed:
            self.finish()

    def leave_group(self) -> None:
        """Leaves the group until the application polls again."""
        if self._leaving is None and not self._scheduler.has_left_group:
            self._scheduler.has_left_group = True
            self._begin(LeaveInProgress("poll_timeout", False, None, is_final=False))

    def rejoin(self) -> None:
        """Joins again after a poll, once the running leave has ended."""
        self._scheduler.has_left_group = False

    def _begin(self, leaving: LeaveInProgress) -> None:
        components, context = self._components, self._components.context
        before = self._leaving
        if before is not None and before.is_final:
            if leaving.deadline_ms is not None and before.error is not None:
                before.closes_session = leaving.closes_session
            return
        self._leaving, context.is_leaving = leaving, True
        self._scheduler.session_ends = leaving.closes_session
        context.owned.assign({})
        deadline_ms = context.now.ms + context.config.settings.revoke_timeout_ms
        if leaving.deadline_ms is not None:
            deadline_ms = min(deadline_ms, leaving.deadline_ms)
            context.set_timer(CLOSE_TIMER, leaving.deadline_ms)
        if leaving.is_final:
            context.change_state(MemberState.CLOSING, leaving.reason)
        else:
            context.change_state(MemberState.JOINING, leaving.reason)
        components.releases.revoke(context.owned.to_revoke(), leaving.reason, deadline_ms)

    def go_on(self) -> bool:
        """Starts the next stage of a leave, at the end of every step, and handles losses during the step and
        the limit of failed claims. Returns whether there may be new work."""
        components = self._components
        if components.membership.in_use is not None and self._leaving is None:
            self.fail(components.membership.in_use)
        self._check_retry_limit()
        if components.lease.is_refused:
            components.lease.is_refused = False
            self._scheduler.stop()
            self.registration_over("not_registered")
            return True
        leaving = self._leaving
        if leaving is None or components.context.finished or components.context.owned.revoking:
            return False
        if self._is_out_of_reach(leaving):
            self._has_left()
            return True
        if leaving.closes_session:
            return self._commit_and_close(leaving)
        if self._scheduler.is_idle and components.context.connected and not self._is_busy():
            self._scheduler.start("leave", self._delete_registration())
        return False

    def _check_retry_limit(self) -> None:
        limit = self._components.context.config.settings.rebalance_max_retries
        is_frozen = self._components.snapshot.freeze.newest is not None  # a blocked claim is no failure
        if (
            limit is None
            or self._components.claims.failures < limit
            or self._leaving is not None
            or is_frozen
        ):
            return
        blockers = dict(self._components.context.owned.blocked)
        holders = ", ".join(f"{tp} by {who}" for tp, who in sorted(blockers.items()))
        self.fail(RebalanceFailedError(f"{limit} claims in a row failed; owned: {holders}", blockers))

    def _is_out_of_reach(self, leaving: LeaveInProgress) -> bool:
        """Returns whether nothing can be released: never registered, or disconnected beyond the lease."""
        components = self._components
        if not self._may_be_registered():
            return True
        # A shared session goes on with its client: the znodes in it are removed after a reconnect.
        is_cut_off = not components.context.connected and (
            components.lease.has_ended or not components.membership.is_registered
        )
        return leaving.closes_session and is_cut_off

    def _may_be_registered(self) -> bool:
        return self._components.membership.is_registered or self._scheduler.must_clean_up

    def _is_busy(self) -> bool:
        components = self._components
        return (
            not components.membership.is_registered
            or not components.context.caught_up
            or components.commits.is_ready
            or components.releases.is_ready
            or bool(components.context.owned.partitions)
            or self._scheduler.is_backing_off
        )

    def _commit_and_close(self, leaving: LeaveInProgress) -> bool:
        components, owned = self._components, self._components.context.owned
        if not leaving.has_committed:
            if not self._scheduler.is_idle:
                return False  # the running procedure ends first
            leaving.has_committed = True
            final = {tp: position for tp, position in owned.releasing.items() if position is not None}
            news = {
                tp: position
                for tp, position in final.items()
                if (one := owned.partitions[tp]).leads_to(position) != one.value
            }
            owned.releasing.clear()  # the session's end releases
            components.commits.write_positions(news)
            return True
        if components.commits.is_ready:
            return False
        if leaving.keep or not components.membership.is_kept:
            self.finish()
        elif self._scheduler.is_idle and components.context.connected and not self._scheduler.is_backing_off:
            self._scheduler.start("leave", components.membership.give_up())
        return False

    def _delete_registration(self) -> Procedure[None]:
        yield from self._components.views.remove()
        if self._components.context.config.prepares:
            yield from self._components.new_owner.remove()
        yield from self._components.membership.remove(keep=self._leaving is not None and self._leaving.keep)

    def _has_left(self) -> None:
        leaving = self._leaving
        assert leaving is not None
        if leaving.is_final:
            self.finish()
        else:
            self._leaving, self._components.context.is_leaving = None, False
            self._components.context.reason = leaving.reason
            self._components.snapshot.freeze.forget()

    def deadline(self) -> None:
        """Ends the leave at its deadline. In a session that goes on, cleaning up takes one timeout more."""
        components, leaving = self._components, self._leaving
        session = components.context.session
        is_over = leaving is None or leaving.closes_session or leaving.is_past_deadline
        if is_over or session is None or leaving is None or not self._may_be_registered():
            self.finish()
        else:
            leaving.is_past_deadline = True
            for call_id in list(components.context.owned.revoking):
                components.releases.overdue(f"{REVOKE_TIMER}{call_id}")
            components.context.set_timer(
                CLOSE_TIMER, components.context.now.ms + session.timeout_ms + PAST_DEADLINE_MS
            )

    def finish(self) -> None:
        """Ends the machine, also without outstanding replies."""
        components, context, leaving = self._components, self._components.context, self._leaving
        if context.finished or leaving is None:
            return
        for call_id, revocation in context.owned.revoking.items():
            context.emit(EndOverdue(call_id, tuple(sorted(revocation.partitions))))
        open_still = [owned for owned in context.owned.partitions.values() if owned.ended is None]
        for owned in open_still:
            tp = owned.topic_partition
            context.note(
                "own.end", topic=tp.topic, partition=tp.partition, token=owned.token, reason="closed"
            )
        if context.owned.partitions:
            context.emit(EndLease(tuple(sorted(context.owned.partitions))))
        context.owned.clear()
        self._scheduler.stop()
        components.commits.give_up("closed")
        context.finished = True
        context.change_state(MemberState.FAILED if leaving.error else MemberState.CLOSED, leaving.reason)
        context.emit(Finish(leaving.closes_session, leaving.error))
