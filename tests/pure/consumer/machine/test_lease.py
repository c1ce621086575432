"""The lease: own clock, quorum writes only, and what happens at its end and after."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.worlds.stepped_group import (
    GROUP,
    Member,
    SteppedGroup,
    effects_of,
    is_stable,
    multis,
    tp,
    writes_to,
)
from zkgroup.consumer.machine.events import (
    Abandon,
    Assign,
    ChangeState,
    ExtendLease,
    Lose,
    MemberState,
    Revoke,
)
from zkgroup.model.requests import Check, Create, Delete, Multi, Operation, SetData
from zkgroup.znodes.consumers import Offset, Owner, Registration

T_MS = 6000


def span_ms(timeout_ms: int = T_MS) -> int:
    """How long a lease is, with the settings as they are by default."""
    return int(2 / 3 * timeout_ms - min(2000 / 2, timeout_ms / 4))


def heartbeats(actor: Member) -> list[tuple[Operation, ...]]:
    return [
        ops for ops in multis(actor.asked) if ops == (Check(Registration.path(GROUP, actor.member_id), 0),)
    ]


def until(actor: Member) -> int:
    return effects_of(actor, ExtendLease)[-1].until_ms


def test_deadline_counts_from_the_send_of_an_acknowledged_write() -> None:
    """sent_at + fraction x T - min(tick / 2, T / 4); the time of the answer plays no part (recipes 9)."""
    stage = SteppedGroup()
    member = stage.join("a")
    sent_ms = stage.clock.now_ms()
    member.asked.clear()
    member.post(member.application.commit({tp(0): 5}))
    member.run()
    stage.clock.advance(700)
    stage.drain()

    assert (sent_ms, sent_ms + span_ms()) in [
        (r.fields["sent_ms"], r.fields["until_ms"]) for r in stage.notes("lease.renew")
    ]


def test_reads_and_sync_do_not_renew() -> None:
    """A follower cut off from the quorum answers them too (recipes 9)."""
    stage = SteppedGroup()
    member = stage.join("a")
    before = until(member)
    stage.topic("t", 6)
    stage.topic("u", 1)
    stage.run(60)
    renewals = [r for r in stage.notes("lease.renew") if r.fields["until_ms"] > before]

    assert len(renewals) <= len([ops for ops in multis(member.asked) if "/owners/" in str(ops)])


TIMEOUTS_MS = [2000, 4000, 6000, 10_000, 30_000]


def writes_ms(stage: SteppedGroup) -> list[int]:
    """When the server applied or refused transactions of member a, of whatever kind."""
    return [
        entry.time_ms for entry in stage.server.log if (entry.kind, entry.client) == ("write", "client-a")
    ]


@pytest.mark.parametrize("timeout_ms", TIMEOUTS_MS)
def test_idle_session_makes_at_most_six_quorum_writes_in_a_timeout(timeout_ms: int) -> None:
    """T/6 and up to 20 % more, however the jitter is drawn; so no T holds more than six (recipes 9)."""
    stage = SteppedGroup(session_timeout_ms=timeout_ms)
    stage.client("client-a", timeout_ms)
    member = stage.join("a", run_ms=20_000, jitter=random.Random(timeout_ms).random)
    before = len(writes_ms(stage))
    stage.run(100 * timeout_ms)
    found_ms = writes_ms(stage)[before:]
    gaps_ms = [later - earlier for earlier, later in itertools.pairwise(found_ms)]

    assert 500 <= len(found_ms) <= 600
    assert timeout_ms / 6 <= min(gaps_ms) < max(gaps_ms) <= 1.2 * timeout_ms / 6 + 1
    assert is_stable(member)
    assert stage.notes("lease.expired") == []


@pytest.mark.parametrize("timeout_ms", TIMEOUTS_MS)
@pytest.mark.parametrize("jitter", [0.0, 0.999])
def test_no_heartbeat_while_commits_flow(timeout_ms: int, jitter: float) -> None:
    """A commit is a quorum write and renews the lease itself; here they are just not T/6 apart."""
    stage = SteppedGroup(session_timeout_ms=timeout_ms)
    stage.client("client-a", timeout_ms)
    member = stage.join("a", run_ms=20_000, jitter=lambda: jitter)
    stage.commit(member, {tp(0): 0})
    member.asked.clear()
    before = len(writes_ms(stage))
    for value in range(1, 101):
        stage.run(timeout_ms // 6 - 1)
        stage.commit(member, {tp(0): value})

    assert heartbeats(member) == []
    assert len(writes_ms(stage)) - before == 100
    assert until(member) == stage.clock.now_ms() + span_ms(timeout_ms)


@pytest.mark.parametrize("timeout_ms", TIMEOUTS_MS)
def test_lease_outlives_a_heartbeat_that_gets_lost(timeout_ms: int) -> None:
    """The lease spans two of the longest periods."""
    stage = SteppedGroup(session_timeout_ms=timeout_ms)
    stage.client("client-a", timeout_ms)
    member = stage.join("a", run_ms=20_000, jitter=lambda: 0.999)
    lost: list[int] = []

    def lose() -> str:
        lost.append(stage.clock.now_ms())
        return "lost_request"

    stage.when("client-a", lambda request: isinstance(request, Multi), lose)
    stage.run(10 * timeout_ms)

    assert lost
    assert stage.notes("lease.expired") == []
    assert is_stable(member)


def test_break_shorter_than_the_lease_revokes_nothing() -> None:
    """No rebalance, ownership intact, no callback; watches are armed anew."""
    stage = SteppedGroup()
    member = stage.join("a")
    before = member.machine.grants()
    member.effects.clear()
    stage.server.suspend("client-a")
    stage.run(2000)
    stage.server.resume("client-a")
    stage.run(1000)

    assert member.machine.grants() == before
    assert [e for e in member.effects if isinstance(e, (Revoke, Lose, Assign, ChangeState))] == []
    stage.topic("t", 5)
    stage.run(500)
    assert len(member.machine.grants()) == 5


def test_delivery_stops_at_the_deadline_before_the_server_can_expire_the_session() -> None:
    """The lease ends by the own clock, well before T."""
    stage = SteppedGroup()
    member = stage.join("a")
    stage.run(100)
    stage.server.suspend("client-a")
    cut_ms = stage.clock.now_ms()
    stage.run(until(member) - cut_ms)

    assert member.application.deliverable() == []
    assert member.state is MemberState.SUSPENDED
    assert until(member) < cut_ms + T_MS
    assert stage.server.overdue() == []


def test_member_back_in_the_same_session_keeps_its_tokens() -> None:
    """Owner czxid and offset version unchanged: no callback, same tokens, lease again (recipes 9)."""
    stage = SteppedGroup()
    member = stage.join("a", run_ms=None)
    stage.client("client-a").session_timeout_ms = 60_000
    stage.run(2000)
    stage.commit(member, {tp(n): 0 for n in range(4)})
    before = member.machine.grants()
    stage.server.suspend("client-a")
    stage.run_until(lambda: member.state is MemberState.SUSPENDED, 60_000)
    member.effects.clear()
    stage.server.resume("client-a")
    stage.run(1000)

    assert is_stable(member)
    assert member.machine.grants() == before
    assert [e for e in member.effects if isinstance(e, (Revoke, Lose, Assign))] == []
    assert member.application.deliverable()


def test_member_back_in_the_same_session_verifies_before_it_delivers() -> None:
    """What was taken meanwhile is lost; the lease comes back only after the read-back (recipes 9)."""
    stage = SteppedGroup()
    member = stage.join("a", run_ms=None)
    stage.client("client-a").session_timeout_ms = 60_000
    stage.run(2000)
    stage.server.suspend("client-a")
    stage.run_until(lambda: member.state is MemberState.SUSPENDED, 60_000)
    stage.foreign_write(Delete(Owner.path(GROUP, tp(1)), -1))
    member.effects.clear()
    stage.server.resume("client-a")
    stage.run(1000)
    order = [type(e).__name__ for e in member.effects if isinstance(e, (Lose, ExtendLease))]

    assert order[:2] == ["Lose", "ExtendLease"]
    assert [loss.partitions for loss in effects_of(member, Lose)] == [(tp(1),)]


def test_own_clock_gives_the_session_up_before_a_new_one_is_asked_for() -> None:
    """Recipes 9: T after the last acknowledged write; first on_lost, then the client abandons the session."""
    stage = SteppedGroup()
    member = stage.join("a")
    stage.server.suspend("client-a")
    member.effects.clear()
    stage.run_until(lambda: effects_of(member, Abandon))
    order = [type(e).__name__ for e in member.effects if isinstance(e, (Lose, Abandon))]

    assert order == ["Lose", "Abandon"]
    assert member.state is MemberState.LOST
    assert member.machine.grants() == {}


def test_process_that_was_stopped_trusts_nothing_when_it_wakes() -> None:
    """The first step after a long stop ends the lease before it handles its event (recipes 9)."""
    stage = SteppedGroup()
    member = stage.join("a")
    stage.drain()
    for at_ms in (2000, 5000, 9000):
        stage.clock.advance(at_ms)
    member.effects.clear()
    member.run()

    assert [type(e).__name__ for e in member.effects[:1]] == ["LogEvent"]
    assert stage.notes("lease.expired")
    assert effects_of(member, Abandon)


def test_lost_session_calls_on_lost_and_writes_nothing_for_it() -> None:
    """No commit, no delete for the old ownership."""
    stage = SteppedGroup()
    member = stage.join("a")
    member.application.deliver(tp(0)) if member.application.deliverable() else None
    member.asked.clear()
    stage.server.expire("client-a")
    stage.run(3000)

    assert effects_of(member, Lose)[-1].partitions == (tp(0), tp(1), tp(2), tp(3))
    first_register = next(i for i, r in enumerate(member.asked) if writes_to("/ids/", Create)(r))
    for request in member.asked[:first_register]:
        assert not writes_to("/offsets/", SetData)(request)
        assert not writes_to("/owners/", Delete)(request)
    assert is_stable(member)


def test_write_refused_at_the_own_registration_ends_everything() -> None:
    """No retry and no read-back; on_lost, then register again, without any session event (recipes 10)."""
    stage = SteppedGroup()
    member = stage.join("a")
    stage.foreign_write(Delete(Registration.path(GROUP, "g_a"), -1))
    member.effects.clear()
    stage.commit(member, {tp(0): 5})
    stage.run(1000)

    assert effects_of(member, Lose)[0].partitions == (tp(0), tp(1), tp(2), tp(3))
    assert is_stable(member)
    assert stage.offset(0).data == b"-1"


def test_heartbeat_refused_at_the_own_registration_ends_everything() -> None:
    """An idle member learns by its heartbeat that it is not registered (recipes 9, 10)."""
    stage = SteppedGroup(verify_interval_ms=600_000)
    member = stage.join("a")
    member.client.child_watches.clear()
    stage.foreign_write(Delete(Registration.path(GROUP, "g_a"), -1))
    stage.run(3000)

    assert effects_of(member, Lose)
    assert is_stable(member)


@pytest.mark.parametrize("timeout_ms", [4000, 30_000])
def test_granted_timeout_counts_not_the_one_asked_for(timeout_ms: int) -> None:
    """faults.md, finding 3: the server may grant another; the lease follows it."""
    stage = SteppedGroup(session_timeout_ms=10_000)
    stage.client("client-a", timeout_ms)
    member = stage.join("a")
    renewal = stage.notes("lease.renew")[0].fields

    assert renewal["until_ms"] - renewal["sent_ms"] == span_ms(timeout_ms)
    assert is_stable(member)


def test_nothing_is_issued_while_suspended() -> None:
    """A request issued then would be sent later (recipes 10)."""
    stage = SteppedGroup()
    member = stage.join("a")
    stage.server.suspend("client-a")
    stage.drain()
    sent = len(member.asked)
    stage.topic("t", 7)
    stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"1", -1))
    stage.run(8000)

    assert len(member.asked) == sent
