"""What a member does so that work makes no expiries, and expiries no work (recipes 2, 3 and 9)."""

from __future__ import annotations

import pytest

from tests.worlds.stepped_group import GROUP, Member, SteppedGroup, claims, is_stable, tp
from zkgroup.consumer import turns
from zkgroup.consumer.machine import MemberConfig
from zkgroup.consumer.machine.group_snapshot import SnapshotTiming
from zkgroup.consumer.machine.machine_context import MemberContext
from zkgroup.consumer.machine.overload import PAUSE_MS_MAX
from zkgroup.consumer.turns import TURN_MS_MAX, TURNS_MAX, MemberTurn, Turns
from zkgroup.model import StaticSubscription
from zkgroup.model.ports import Instant
from zkgroup.model.requests import Create, Delete, Multi, ReadMany, Session
from zkgroup.znodes.consumers import Owner, Registration

T_MS = 6000


def lose_session(stage: SteppedGroup, member: Member) -> int:
    """Ends the member's session at the server; milliseconds until it is stable again."""
    began_ms, before = stage.clock.now_ms(), stage.registration("a")
    assert before is not None
    stage.server.expire(member.client.name)
    while (znode := stage.registration("a")) is None or znode == before or not is_stable(member):
        stage.run(500)
    return stage.clock.now_ms() - began_ms


def test_the_pause_before_a_registration_doubles_with_each_loss_of_a_session() -> None:
    """The first loss costs none; they are bounded, and forgotten after a registration that has lasted."""
    stage = SteppedGroup()
    member = stage.join("a")
    stage.run(1000)
    back_ms = [lose_session(stage, member) for _ in range(5)]
    pauses = [record.fields["pause_ms"] for record in stage.notes("rejoin.pause")]

    stage.run(10 * T_MS)
    calm_ms = lose_session(stage, member)

    assert pauses == [T_MS, 2 * T_MS, 4 * T_MS, PAUSE_MS_MAX]
    assert [late >= pause for late, pause in zip(back_ms[1:], pauses, strict=True)] == [True] * 4
    assert max(back_ms[0], calm_ms) < T_MS


def timing() -> tuple[MemberContext, SnapshotTiming]:
    context = MemberContext(
        MemberConfig(group="g", member_id="g_a", subscription=StaticSubscription({"t": 1}))
    )
    context.connected_to(Session(1, 1, T_MS))
    return context, SnapshotTiming(context)


@pytest.mark.parametrize(
    ("took_ms", "foreign", "due_ms"),
    [(10, False, 30), (400, False, 800), (9000, False, T_MS // 2), (400, True, 30)],
)
def test_a_member_rests_after_a_slow_pass(took_ms: int, foreign: bool, due_ms: int) -> None:
    """The next change waits for twice the time that the last pass took, at most T / 2; a short pass, and one
    beside JVM members, which retry for 6 s only, delays nothing."""
    context, settling = timing()
    settling.mark_changed()
    ended_ms = 30 + took_ms
    context.begin(Instant(ended_ms, ended_ms))
    settling.done(settling.marks, has_foreign_members=foreign)

    settling.mark_changed()

    for at_ms, is_due in ((ended_ms + due_ms - 1, False), (ended_ms + due_ms, True)):
        context.begin(Instant(at_ms, at_ms))
        assert settling.is_due is is_due


def test_a_member_that_is_late_for_its_lease_claims_nothing() -> None:
    """Its loop stood still for two heartbeats: a freed partition is claimed after the lease is renewed."""
    stage = SteppedGroup({"t": 1}, rebalance_backoff_ms=60_000)
    owner = Owner.path(GROUP, tp(0))
    for path in (f"/consumers/{GROUP}/owners/t", owner):
        stage.server.put(path, b"g_other-0")
    member = stage.join("a")
    stage.run(200)
    assert member.describe().blocked
    stage.clock.advance(2500)
    stage.foreign_write(Delete(owner, -1))
    while steps := stage.server.pending():
        for step in steps:
            stage.server.deliver(step)
    member.asked.clear()
    member.run(100)
    stage.clock.advance(20)
    member.run(100)

    assert [type(request) for request in member.asked] == [Multi]  # the heartbeat
    stage.run(100)
    assert is_stable(member)
    assert claims(member)


def test_registrations_of_a_failed_pass_are_not_read_again() -> None:
    """Each change during a pass repeats it; in a group of a thousand each repetition read all of them."""
    stage = SteppedGroup()
    for name in ("a", "b"):
        stage.join(name)
    path = Registration.path(GROUP, f"{GROUP}_a")
    data = Registration.of(StaticSubscription({"t": 1}), 0, {"zkgroup": "1"}).encode()
    newcomer = Registration.path(GROUP, f"{GROUP}_z")
    stage.when(
        "client-c",
        lambda request: isinstance(request, ReadMany) and path in request.paths,
        lambda: stage.foreign_write(Create(newcomer, data)),
    )
    member = stage.join("c")
    reads = [request.paths for request in member.asked if isinstance(request, ReadMany)]

    assert [sum(each in paths for paths in reads) for each in (path, newcomer)] == [1, 1]


@pytest.fixture
def one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURNS_MAX", 1)


@pytest.mark.usefixtures("one_turn")
def test_members_that_work_one_after_another_converge() -> None:
    """Also when one of them dies in its turn."""
    stage = SteppedGroup({"t": 8})
    members = [stage.join(name, run_ms=None) for name in ("a", "b", "c", "d")]
    for step in stage.server.pending():
        stage.server.deliver(step)
    members[0].run(10)
    members[0].kill()
    del stage.actors["a"]
    stage.server.expire(members[0].client.name)
    stage.run(10_000)

    assert [is_stable(member) for member in members[1:]] == [True] * 3
    assert sorted(stage.owners()) == list(range(8))


def test_the_turn_goes_to_the_member_that_has_waited_longest() -> None:
    """A turn that is not ended is not counted after a second."""
    called: list[int] = []
    all_turns = Turns()
    members = [MemberTurn(all_turns, lambda number=number: called.append(number)) for number in range(20)]  # type: ignore[misc]
    taken = [member.take(0) for member in members]
    members[TURNS_MAX].end(0)
    members[3].end(5)

    assert taken == [True] * TURNS_MAX + [False] * 4
    assert called == [TURNS_MAX + 1]
    assert members[TURNS_MAX + 1].take(5)
    assert not members[19].take(TURN_MS_MAX - 1)
    assert members[19].take(TURN_MS_MAX)
    assert called == [TURNS_MAX + 1, TURNS_MAX + 2]
