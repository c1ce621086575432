"""Starts the most urgent procedure by the state of the machine.

The state has no reasons, only what is to be done, so the order of events does not matter. First the member
must be registered, its reads must be up to date and its claims verified; then ordinary work follows, commits
and rebalancing by turns.
"""

from __future__ import annotations

from collections.abc import Callable

from zkgroup.consumer.machine.assignment import AssignmentComputer, ViewPublisher
from zkgroup.consumer.machine.claim import Claims, OwnerVerification
from zkgroup.consumer.machine.commit import Commits, ResetWatch
from zkgroup.consumer.machine.events import Effect, MemberState
from zkgroup.consumer.machine.group_snapshot import GroupSnapshotReader
from zkgroup.consumer.machine.machine_context import GroupPaths, MemberConfig, MemberContext
from zkgroup.consumer.machine.membership import Membership, SessionLease
from zkgroup.consumer.machine.release import Releases
from zkgroup.consumer.machine.transactions import guard
from zkgroup.model.requests import Sync
from zkgroup.runtime.machine import BACKOFF_MS, UNEXPECTED_REPLY_BACKOFF_MS, ProcedureLoop, Work
from zkgroup.runtime.procedures import (
    ConnectionLossError,
    GuardRefusedError,
    NoAuthError,
    Procedure,
    Query,
    UnexpectedReplyError,
    ask,
    write,
)


class Components:
    """The components of a member's machine, one for each recipe."""

    def __init__(self, config: MemberConfig) -> None:
        self.context = context = MemberContext(config)
        self.paths = paths = GroupPaths(config.group, config.member_id)
        self.membership = Membership(context, paths)
        self.lease = SessionLease(context, paths)
        self.snapshot = GroupSnapshotReader(context, paths)
        self.assignments = AssignmentComputer(context, paths, self.snapshot)
        self.commits = Commits(context, paths, self.lease, self.snapshot)
        self.claims = Claims(context, paths, self.snapshot, self.assignments)
        self.releases = Releases(context, paths, self.snapshot, self.assignments)
        self.resets = ResetWatch(context, paths, self.commits)
        self.verification = OwnerVerification(context, paths, self.snapshot)
        self.views = ViewPublisher(context, paths, self.assignments)


JVM_REVOKE_MS_MAX = 3100
"""Milliseconds. With `settle_max_ms` it is below 0.6 of the 6 s in which a JVM member retries (4.10)."""


class Scheduler(ProcedureLoop[Effect]):
    """The loop of a member's procedures."""

    def __init__(self, components: Components) -> None:
        super().__init__(components.context)
        self._components = components
        self.has_left_group = False
        """Whether the member does not register until the application polls."""
        self.is_leaving = False
        self.session_ends = False
        """Whether the running leave ends the session, which releases the partitions."""
        self.was_away = False
        """Whether the owned partitions must be read back after a lost connection."""
        self.on_unregistered: Callable[[str], None] = lambda reason: None
        self.on_denied: Callable[[str], None] = lambda path: None

    @property
    def must_clean_up(self) -> bool:
        """Whether the member must register again to remove its znodes from a session that goes on."""
        components = self._components
        has_orphans = self.is_leaving and not self.session_ends and bool(components.context.owned.orphaned)
        return components.context.session is not None and (
            components.membership.is_outcome_unknown or has_orphans
        )

    def run(self) -> None:
        """Starts due procedures until one waits for a reply or none is due."""
        self._run()

    def start(self, name: str, procedure: Procedure[None]) -> None:
        """Starts a procedure out of turn; none may be running."""
        self._runner.start(name, procedure)

    def stop(self) -> None:
        """Ends the running procedure."""
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
                if self.is_leaving:  # the leave is tried again after a pause
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
        must_not = self.has_left_group or self.is_leaving or p.context.state is MemberState.NEW
        if p.membership.is_waiting or p.membership.in_use is not None:
            return None
        if must_not and not self.must_clean_up:
            return None
        if not self.is_leaving:
            p.context.change_state(MemberState.JOINING, "registering")
        return "register", self._register

    def _ordinary(self) -> Work | None:
        p = self._components
        if p.membership.must_replace and not self.is_leaving:
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
        return ("commit", self._components.commits.commit) if self._components.commits.is_ready else None

    def _releasing(self) -> Work | None:
        is_due = self._components.releases.is_ready and not self.session_ends
        return ("release", self._components.releases.release) if is_due else None

    def _reading(self) -> Work | None:
        p = self._components
        if self.is_leaving:
            return None
        if p.snapshot.settling.is_due:
            return "snapshot", self._take_snapshot
        if p.snapshot.is_new or p.assignments.is_outdated:
            return "plan", self._plan
        return None

    def _claiming(self) -> Work | None:
        p = self._components
        if self.is_leaving:
            return None
        if p.membership.may_have_orphans and p.assignments.planned is not None:
            return "find orphaned claims", self._find_orphans
        if p.claims.read_back_is_due:
            return "read back blocked", p.claims.read_back_blocked
        return ("claim", p.claims.claim) if p.claims.is_ready else None

    def _idle(self) -> Work | None:
        p = self._components
        if self.is_leaving:
            return None
        if p.verification.is_due:
            return "verify", p.verification.verify
        return ("publish", p.views.publish) if p.views.is_due else None

    def _register(self) -> Procedure[None]:
        p = self._components
        p.lease.start()
        yield from p.membership.register()
        if p.membership.is_registered:
            self.was_away = False
            p.snapshot.settling.joined()
            p.verification.start()

    def _catch_up(self) -> Procedure[None]:
        """Makes an acknowledged write: only later reads show the outcome of earlier ones (recipes.md 10)."""
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
        yield from p.assignments.make()
        if self.is_leaving:  # the leave began while the assignment znode was written
            p.context.owned.assign({})
            return
        if p.snapshot.is_new or p.assignments.is_waiting_for_brokers:
            return
        settings, snapshot = p.context.config.settings, p.snapshot.newest
        deadline_ms = settings.revoke_timeout_ms
        if snapshot is not None and snapshot.has_foreign_members:
            deadline_ms = min(deadline_ms, JVM_REVOKE_MS_MAX)
        lost = p.context.owned.to_revoke()
        p.releases.revoke(lost, "rebalance", p.context.now.ms + deadline_ms)
        if p.assignments.waits_for_releases and not p.context.owned.is_giving_up:
            p.claims.put_off(p.context.jittered(2 * settings.settle_ms, 0.25))
