"""The machine of one member: it makes every decision of the consumer group, without IO.

Theory of operation
-------------------
`step(event, now)` takes one event and returns effects. There are two kinds of work:

* *State* (`machine_context` and the flags of the components) changes at once with each event: a watch fired,
  a timer is due, the application requested a commit, a callback returned.
* *Procedures* are the recipes, written as generators that yield requests. At most one runs at a time, from
  one request to the next reply. When it ends, `scheduler` reads the state and starts the most urgent one:

    not registered      -> register (and nothing else)
    not caught up       -> a check-only write: only after it do reads show the outcome of earlier writes
    unknown outcomes    -> read back commits, releases and claims without a reply
    after a disconnect  -> read back the owned partitions; then the lease continues
    then, by turns      -> operators' resets, commits, releases, snapshots and assignments, claims,
                           verification

Three events end all claims at any moment (`GroupLeave`): the session is lost, a write is refused at the own
registration, or T passes without an acknowledged write. Then nothing is released or committed for the old
claims (`on_lost`), and the member registers anew.

The rules of each recipe are in its component.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

from zkgroup.assignment.wildcards import compile_java, normalise
from zkgroup.consumer.machine import events as ev
from zkgroup.consumer.machine.assignment import PUBLISH_TIMER, GroupAssignment
from zkgroup.consumer.machine.claim import AGAIN_TIMERS, CLAIM_TIMER, GAP_TIMER, READ_BACK_TIMER, VERIFY_TIMER
from zkgroup.consumer.machine.commit_rate import COMMIT_RATE_TIMER
from zkgroup.consumer.machine.events import Effect, MemberState
from zkgroup.consumer.machine.freeze import FREEZE_TIMER
from zkgroup.consumer.machine.group_snapshot import SNAPSHOT_TIMER, MembershipSnapshot
from zkgroup.consumer.machine.machine_context import MemberConfig, MemberContext
from zkgroup.consumer.machine.membership import (
    EXPIRY_TIMER,
    HEARTBEAT_TIMER,
    LEASE_TIMER,
    WAIT_TIMER,
    SharedSession,
)
from zkgroup.consumer.machine.overload import REJOIN_TIMER, TURN_TIMER, Turn
from zkgroup.consumer.machine.release import REVOKE_TIMER
from zkgroup.consumer.machine.scheduler import CLOSE_TIMER, Components, GroupLeave, Scheduler
from zkgroup.consumer.machine.static_members import AWAY_TIMER
from zkgroup.consumer.machine.warm_up import WARM_UP_TIMER
from zkgroup.model import LeaseGrant, StaticSubscription, Subscription, TopicPartition
from zkgroup.model.ports import Instant
from zkgroup.model.requests import Session
from zkgroup.runtime.events import (
    Answered,
    SessionConnected,
    SessionLost,
    SessionSuspended,
    TimerFired,
    WatchFired,
)
from zkgroup.runtime.procedures import BACKOFF_TIMER
from zkgroup.znodes.consumers import Registration


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSnapshot:
    """The state of one member at one moment."""

    member_id: str
    state: MemberState
    reason: str
    session_id: int | None
    generation: int | None
    """pzxid of `ids` of the newest snapshot."""
    strategy: str | None
    is_assigned: bool
    """True if this member has carried out its part of the newest assignment that it knows."""
    members: tuple[str, ...]
    assigned: Mapping[TopicPartition, int]
    """The partitions that this member should own, with the thread."""
    grants: Mapping[TopicPartition, LeaseGrant]
    fences: Mapping[TopicPartition, int]
    """Data version of the offset znode that the next commit of each owned partition expects."""
    blocked: Mapping[TopicPartition, str]
    """The partitions that it waits for, with the thread id of the owner."""
    owners: Mapping[TopicPartition, str]
    """The whole group's assignment: partition to thread id."""


def describe(
    context: MemberContext,
    snapshot: MembershipSnapshot | None,
    planned: GroupAssignment | None,
    is_assigned: bool,
) -> MemberSnapshot:
    """The description of a member now; its mappings are copies if they could change."""
    return MemberSnapshot(
        member_id=context.config.member_id,
        state=context.state,
        reason=context.reason,
        session_id=context.session.session_id if context.session is not None else None,
        generation=snapshot.generation if snapshot is not None else None,
        strategy=planned.strategy if planned is not None else None,
        is_assigned=is_assigned,
        members=tuple(m.member for m in snapshot.members) if snapshot is not None else (),
        assigned=dict(context.owned.assigned),
        grants={tp: owned.grant() for tp, owned in context.owned.partitions.items()},
        fences={tp: owned.fence for tp, owned in context.owned.partitions.items()},
        blocked=dict(context.owned.blocked),
        owners=planned.owners if planned is not None else {},
    )


class MemberMachine:
    """One member of a group. Not thread-safe: one thread steps it."""

    def __init__(self, config: MemberConfig) -> None:
        """Raises UnsupportedRegexError for a wildcard that cannot be evaluated as Java would."""
        check_subscription(config.subscription)
        self._components = components = Components(config)
        self._scheduler = Scheduler(components)
        self._group_leave = GroupLeave(components, self._scheduler)
        self._carried_out_plan: GroupAssignment | None = None
        """The newest assignment that was recorded as carried out."""
        self._claims_verified = 0
        """Number of accepted claims at the last verification after a rebalance."""
        self._awaits_subscription = False
        """True if the subscription was changed and no assignment was computed with it yet."""
        self._timers = self._timer_table()

    def work_in_turns(self, turn: Turn) -> None:
        """Has the member wait for its turn among the members of its process."""
        self._components.turns.turn = turn

    def share_session(self, shared: SharedSession) -> None:
        """Has the member use what the members that share its client know."""
        self._components.lease.shared = self._components.snapshot.shared = shared

    def step(self, event: ev.Event, now: Instant) -> tuple[Effect, ...]:
        """The effects of one event, to be performed in this order. Events are given in their order."""
        self._components.context.begin(now)
        self._group_leave.check_expiry()
        if isinstance(event, ev.CommitRequested):
            self._components.commits.request(event)
        elif not self._components.context.finished:
            self._take(event)
        self._scheduler.run()
        while self._group_leave.go_on():
            self._scheduler.run()
        self._refresh_state()
        return self._components.context.take_effects()

    def grants(self) -> dict[TopicPartition, LeaseGrant]:
        """The partitions that this member owns now, also those that are being revoked."""
        return {tp: owned.grant() for tp, owned in self._components.context.owned.partitions.items()}

    @property
    def topics(self) -> frozenset[str]:
        """The topics of the member's own subscription in the newest assignment."""
        return self._components.assignments.topics

    @property
    def reason(self) -> str:
        """Why the member has its state."""
        return self._components.context.reason

    @property
    def missing_topics(self) -> frozenset[str]:
        """Those of them that do not exist."""
        return self._components.assignments.missing_topics

    def describe(self) -> MemberSnapshot:
        components = self._components
        return describe(
            components.context,
            components.snapshot.newest,
            components.assignments.planned,
            self._is_assigned(),
        )

    def _take(self, event: ev.Event) -> None:  # noqa: C901 - one arm an event
        context = self._components.context
        match event:
            case Answered(request_id, outcome):
                context.answered(request_id, outcome)
            case WatchFired(request_id, _):
                context.watch_fired(request_id)
            case TimerFired(name):
                self._timer_fired(name)
            case SessionConnected(session):
                self._session_connected(session)
            case SessionSuspended(incarnation):
                if context.is_present(incarnation):
                    context.connected = False
            case SessionLost(incarnation, reason):
                if context.is_present(incarnation):
                    self._group_leave.session_over(reason or "session_lost")
            case ev.Opened():
                context.change_state(MemberState.JOINING, "opened")
            case ev.Revoked():
                self._components.releases.revoked(event)
            case ev.PreparationDone(call_id):
                self._components.new_owner.prepared(call_id)
            case ev.HandBackRequested(partitions):
                self._hand_back(partitions)
            case ev.SubscriptionChanged(subscription):
                self._subscribe(subscription)
            case ev.PollOverdue():
                self._group_leave.leave_group()
            case ev.Polled():
                self._group_leave.rejoin()
            case ev.ApplicationFailed(error):
                self._group_leave.fail(error)
            case ev.CloseRequested(closes_session, deadline_ms, leave):
                self._group_leave.close(closes_session, deadline_ms, keep=not leave)
            case ev.TurnBegan():
                """The scheduler finds it out itself."""
            case ev.CommitRequested():
                raise AssertionError("taken by the caller")
            case _:
                assert_never(event)

    def _timer_table(self) -> dict[str, Callable[[], None]]:
        components = self._components

        def nothing() -> None:
            """Does nothing: the scheduler reads the clock itself."""

        table: dict[str, Callable[[], None]] = {
            WAIT_TIMER: components.membership.wake,
            REJOIN_TIMER: components.rejoin_pause.end,
            BACKOFF_TIMER: self._scheduler.end_backoff,
            CLOSE_TIMER: self._group_leave.deadline,
            PUBLISH_TIMER: components.views.timer_fired,
            FREEZE_TIMER: components.snapshot.freeze.timer_fired,
            READ_BACK_TIMER: components.claims.schedule_read_back,
            SNAPSHOT_TIMER: nothing,
            TURN_TIMER: nothing,
            WARM_UP_TIMER: components.old_owner.overdue,
            CLAIM_TIMER: nothing,
            COMMIT_RATE_TIMER: nothing,
            AWAY_TIMER: components.snapshot.away.timer_fired,
        }
        for name in (HEARTBEAT_TIMER, LEASE_TIMER, EXPIRY_TIMER):
            table[name] = lambda name=name: components.lease.timer_fired(name)  # type: ignore[misc]
        for name in (VERIFY_TIMER, GAP_TIMER, *AGAIN_TIMERS):
            table[name] = lambda name=name: components.verification.timer_fired(name)  # type: ignore[misc]
        return table

    def _timer_fired(self, name: str) -> None:
        if not self._components.context.timer_fired(name):
            return
        if name.startswith(REVOKE_TIMER):
            self._components.releases.overdue(name)
        else:
            self._timers[name]()

    def _session_connected(self, session: Session) -> None:
        """Takes a connection of the same session or of a new one. Every watch armed before is gone."""
        components, context = self._components, self._components.context
        before = context.session
        if before is not None and session.incarnation < before.incarnation:
            return
        if before is not None and session.incarnation > before.incarnation:
            self._group_leave.session_over("session_lost")
        context.connected_to(session)
        components.snapshot.forget_watches()
        components.assignments.steps.forget_watch()
        components.old_owner.forget_watches()
        components.resets.forget_watches()
        components.membership.reconnected()
        self._scheduler.end_backoff()
        if components.membership.is_registered:
            self._scheduler.was_away = True
            context.owned.unblock(list(context.owned.blocked))
            components.snapshot.settling.mark_changed_now()

    def _hand_back(self, partitions: frozenset[TopicPartition]) -> None:
        context = self._components.context
        context.owned.hand_back(partitions)
        deadline_ms = context.now.ms + context.config.settings.revoke_timeout_ms
        self._components.releases.revoke(context.owned.to_revoke(), "handed_back", deadline_ms)

    def _subscribe(self, subscription: Subscription) -> None:
        """Changes the subscription. Raises UnsupportedRegexError, and then changes nothing."""
        check_subscription(subscription)
        self._components.membership.subscription = subscription
        if self._components.membership.data is not None:
            self._components.membership.must_replace = True
            self._awaits_subscription = True

    def _is_assigned(self) -> bool:
        """Returns whether this member has carried out the newest assignment that it knows."""
        components = self._components
        if self._awaits_subscription and self._has_own_subscription():
            self._awaits_subscription = False
        return (
            components.membership.is_registered
            and not self._awaits_subscription
            and self._has_what_it_should()
            and not components.snapshot.is_new
            and not components.context.is_leaving
        )

    def _has_what_it_should(self) -> bool:
        """Returns whether the member owns what it is assigned; in a frozen group: what it may."""
        owned, freeze = self._components.context.owned, self._components.snapshot.freeze
        if freeze.newest is None:
            return self._components.assignments.planned is not None and owned.is_settled
        return not (owned.is_giving_up or owned.orphaned or (owned.wanted and freeze.allows_claims))

    def _has_own_subscription(self) -> bool:
        """Returns whether the newest snapshot has this member's present registration."""
        membership, snapshot = self._components.membership, self._components.snapshot.newest
        own = (
            snapshot.registrations.get(self._components.context.config.member_id)
            if snapshot is not None
            else None
        )
        wanted = Registration.of(membership.subscription, 0)
        is_same = own is not None and (own.pattern, own.subscription) == (wanted.pattern, wanted.subscription)
        return is_same and not membership.must_replace

    def _refresh_state(self) -> None:
        components, context = self._components, self._components.context
        if not components.membership.is_registered or context.is_leaving or context.finished:
            return
        if components.lease.has_ended:
            context.change_state(MemberState.SUSPENDED, "lease_ended")
        elif self._is_assigned():
            is_frozen = components.snapshot.freeze.newest is not None or components.assignments.keeps
            context.change_state(MemberState.STABLE, "frozen" if is_frozen else "assigned")
            if not is_frozen:
                self._carried_out()
        elif components.assignments.planned is None or context.state is MemberState.JOINING:
            if context.state is not MemberState.JOINING:
                context.change_state(MemberState.JOINING, "joining")
        elif components.assignments.is_waiting_for_brokers:
            context.reason = "waiting_for_brokers"
        else:
            context.change_state(MemberState.REBALANCING, "partitions_move")

    def _carried_out(self) -> None:
        """Records an assignment as carried out, once, and schedules its verification and publication."""
        components, owned = self._components, self._components.context.owned
        planned = components.assignments.planned
        assert planned is not None
        if planned is not self._carried_out_plan:
            self._carried_out_plan = planned
            mine = [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(owned.partitions)]
            components.context.note(
                "rebalance.end", generation=planned.generation, result=planned.result(), mine=mine
            )
            components.verification.after_rebalance(claimed=owned.claims_count != self._claims_verified)
            self._claims_verified = owned.claims_count
            components.history.carried_out()
            components.views.stable()
            self._scheduler.run()


def check_subscription(subscription: Subscription) -> None:
    """Raises UnsupportedRegexError (or ConfigError) for a wildcard that Python cannot evaluate faithfully."""
    if not isinstance(subscription, StaticSubscription):
        compile_java(normalise(subscription.expression))
