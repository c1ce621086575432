"""The machine of one member: every decision of the consumer group, and no IO.

Theory of operation
-------------------
`step(event, now)` takes one fact and returns orders. Inside there are two kinds of work:

* *Books* (`core`, `ownership`, and the flags of the parts) change at once with each event: a watch fired,
  a timer is due, the application asked for a commit, a callback returned.
* *Procedures* are the recipes, written as generators that yield requests. At most one runs at a time,
  from one request to the next answer. When it ends, `agenda` looks at the books and starts what is most
  urgent:

    not registered      -> register (and nothing else)
    not caught up       -> a check-only write: only after it do reads tell what became of earlier writes
    doubts              -> read back what had no answer: commits, releases, claims
    away for a while    -> read back what is held; then the lease goes on
    then, by turns      -> operators' resets, commits, releases, pictures and plans, claims, verification

Three things may end everything held at any moment (`endings`): the session is lost, a write is refused at
the own registration, or T passes without an acknowledged write. Then nothing is released and nothing is
committed for the old claims (`on_lost`), and the member registers anew.

The rules of each recipe are in the part that carries it out; `states` has what people see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from zkgroup.assignment.wildcards import compile_java, normalise
from zkgroup.consumer import events as ev
from zkgroup.consumer.effects import Effect, MemberState
from zkgroup.consumer.machine.agenda import REST_TIMER, Agenda
from zkgroup.consumer.machine.claim import CLAIM_TIMER, RECHECK_TIMER
from zkgroup.consumer.machine.config import MemberConfig
from zkgroup.consumer.machine.description import MemberDescription, describe
from zkgroup.consumer.machine.endings import CLOSE_TIMER, Endings
from zkgroup.consumer.machine.lease import EXPIRY_TIMER, HEARTBEAT_TIMER, LEASE_TIMER
from zkgroup.consumer.machine.parts import Parts
from zkgroup.consumer.machine.plan import Planned
from zkgroup.consumer.machine.registration import WAIT_TIMER
from zkgroup.consumer.machine.release import REVOKE_TIMER
from zkgroup.consumer.machine.settling import SNAPSHOT_TIMER
from zkgroup.consumer.machine.verification import AGAIN_TIMERS, GAP_TIMER, VERIFY_TIMER
from zkgroup.consumer.machine.views import PUBLISH_TIMER
from zkgroup.machinery.events import (
    Answered,
    SessionConnected,
    SessionLost,
    SessionSuspended,
    TimerFired,
    WatchFired,
)
from zkgroup.model import LeaseGrant, StaticSubscription, Subscription, TopicPartition
from zkgroup.model.ports import Instant
from zkgroup.model.requests import Session


class MemberMachine:
    """One member of a group. Not thread-safe: one thread steps it."""

    def __init__(self, config: MemberConfig) -> None:
        """Raises UnsupportedRegexError for a wildcard that cannot be evaluated as Java would (item 67)."""
        check_subscription(config.subscription)
        self._parts = parts = Parts(config)
        self._agenda = Agenda(parts)
        self._endings = Endings(parts, self._agenda)
        self._carried_out_plan: Planned | None = None
        """The newest one whose end was recorded."""
        self._claims_verified = 0
        """How many claims had been accepted when what is held was last verified after a rebalance."""
        self._timers = self._timer_table()

    # --- what the shell uses ----------------------------------------------------------------------

    def step(self, event: ev.Event, now: Instant) -> tuple[Effect, ...]:
        """Takes one event, in the order they happened, and says what to do, in the order given."""
        self._parts.core.begin(now)
        self._endings.watch_the_clock()
        if isinstance(event, ev.CommitRequested):
            self._parts.commits.request(event)
        elif not self._parts.core.finished:
            self._take(event)
        self._agenda.run()
        while self._endings.go_on():
            self._agenda.run()
        self._refresh_state()
        return self._parts.core.take_effects()

    def held(self) -> dict[TopicPartition, LeaseGrant]:
        """What this member owns now, also while it is being revoked."""
        return {tp: held.grant() for tp, held in self._parts.core.owned.held.items()}

    def describe(self) -> MemberDescription:
        """A picture of the member for people."""
        parts = self._parts
        return describe(parts.core, parts.snapshot.picture, parts.planning.planned, self._is_assigned())

    # --- events -----------------------------------------------------------------------------------

    def _take(self, event: ev.Event) -> None:  # noqa: C901 - one arm an event
        core = self._parts.core
        match event:
            case Answered(request_id, outcome):
                core.answered(request_id, outcome)
            case WatchFired(request_id, _):
                core.watch_fired(request_id)
            case TimerFired(name):
                self._timer_fired(name)
            case SessionConnected(session):
                self._session_connected(session)
            case SessionSuspended(incarnation):
                if core.is_present(incarnation):
                    core.connected = False
            case SessionLost(incarnation, reason):
                if core.is_present(incarnation):
                    self._endings.session_over(reason or "session_lost")
            case ev.Opened():
                core.change_state(MemberState.JOINING, "opened")
            case ev.Revoked():
                self._parts.releases.revoked(event)
            case ev.HandBackRequested(partitions):
                self._hand_back(partitions)
            case ev.SubscriptionChanged(subscription):
                self._subscribe(subscription)
            case ev.PollOverdue():
                self._endings.park()
            case ev.Polled():
                self._endings.unpark()
            case ev.ApplicationFailed(error):
                self._endings.fail(error)
            case ev.CloseRequested(closes_session, deadline_ms):
                self._endings.close(closes_session, deadline_ms)
            case ev.CommitRequested():
                raise AssertionError("taken by the caller")
            case _:
                assert_never(event)

    def _timer_table(self) -> dict[str, Callable[[], None]]:
        parts = self._parts

        def nothing() -> None:
            """The agenda looks at the clock itself."""

        table: dict[str, Callable[[], None]] = {
            WAIT_TIMER: parts.membership.wake,
            REST_TIMER: self._agenda.rested,
            CLOSE_TIMER: self._endings.deadline,
            PUBLISH_TIMER: parts.views.timer_fired,
            RECHECK_TIMER: parts.claims.recheck,
            SNAPSHOT_TIMER: nothing,
            CLAIM_TIMER: nothing,
        }
        for name in (HEARTBEAT_TIMER, LEASE_TIMER, EXPIRY_TIMER):
            table[name] = lambda name=name: parts.lease.timer_fired(name)  # type: ignore[misc]
        for name in (VERIFY_TIMER, GAP_TIMER, *AGAIN_TIMERS):
            table[name] = lambda name=name: parts.verification.timer_fired(name)  # type: ignore[misc]
        return table

    def _timer_fired(self, name: str) -> None:
        if not self._parts.core.timer_fired(name):
            return
        if name.startswith(REVOKE_TIMER):
            self._parts.releases.overdue(name)
        else:
            self._timers[name]()

    def _session_connected(self, session: Session) -> None:
        """The same session again, or a new one. Every watch armed before is gone."""
        parts, core = self._parts, self._parts.core
        before = core.session
        if before is not None and session.incarnation < before.incarnation:
            return
        if before is not None and session.incarnation > before.incarnation:
            self._endings.session_over("session_lost")
        core.connected_to(session)
        parts.snapshot.forget_watches()
        parts.resets.forget_watches()
        parts.membership.wake()
        self._agenda.rested()
        if parts.membership.is_registered:
            self._agenda.was_away = True
            core.owned.unblock(list(core.owned.blocked))
            parts.snapshot.settling.mark_now()

    def _hand_back(self, partitions: frozenset[TopicPartition]) -> None:
        core = self._parts.core
        core.owned.hand_back(partitions)
        deadline_ms = core.now.ms + core.config.settings.revoke_timeout_ms
        self._parts.releases.revoke(core.owned.to_revoke(), "handed_back", deadline_ms)

    def _subscribe(self, subscription: Subscription) -> None:
        """Raises UnsupportedRegexError, and changes nothing then."""
        check_subscription(subscription)
        self._parts.membership.subscription = subscription
        if self._parts.membership.data is not None:
            self._parts.membership.must_replace = True

    # --- the state that people see ----------------------------------------------------------------

    def _is_assigned(self) -> bool:
        """This member carried the newest plan out that it knows."""
        parts = self._parts
        return (
            parts.membership.is_registered
            and parts.planning.planned is not None
            and parts.core.owned.is_settled
            and not parts.snapshot.is_new
            and not self._agenda.is_leaving
        )

    def _refresh_state(self) -> None:
        parts, core = self._parts, self._parts.core
        if not parts.membership.is_registered or self._agenda.is_leaving or core.finished:
            return
        if parts.lease.has_ended:
            core.change_state(MemberState.SUSPENDED, "lease_ended")
        elif self._is_assigned():
            core.change_state(MemberState.STABLE, "assigned")
            self._carried_out()
        elif parts.planning.planned is None or core.state is MemberState.JOINING:
            if core.state is not MemberState.JOINING:
                core.change_state(MemberState.JOINING, "joining")
        elif parts.planning.is_waiting_for_brokers:
            core.reason = "waiting_for_brokers"
        else:
            core.change_state(MemberState.REBALANCING, "partitions_move")

    def _carried_out(self) -> None:
        """Once for each plan: the record, the verification, and the publication (lazily)."""
        parts, owned = self._parts, self._parts.core.owned
        planned = parts.planning.planned
        assert planned is not None
        if planned is not self._carried_out_plan:
            self._carried_out_plan = planned
            mine = [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(owned.held)]
            parts.core.note(
                "rebalance.end", generation=planned.generation, result=planned.result(), mine=mine
            )
            parts.verification.after_rebalance(claimed=owned.claims_count != self._claims_verified)
            self._claims_verified = owned.claims_count
            parts.views.stable()
            self._agenda.run()


def check_subscription(subscription: Subscription) -> None:
    """Raises UnsupportedRegexError (or ConfigError) for a wildcard that Python cannot evaluate faithfully."""
    if not isinstance(subscription, StaticSubscription):
        compile_java(normalise(subscription.expression))
