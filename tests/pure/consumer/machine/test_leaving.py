"""Leaving: closed with an own client or a shared one, failed, or away until the next poll."""

from __future__ import annotations

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
from zkgroup.consumer.machine import events as ev
from zkgroup.consumer.machine.events import EndOverdue, Finish, FinishCommit, MemberState, Revoke
from zkgroup.errors import NotOwnerError
from zkgroup.model.requests import Create, Delete
from zkgroup.testing.memory_zookeeper import Fault
from zkgroup.znodes.consumers import Registration


def close(
    stage: SteppedGroup, actor: Member, *, closes_session: bool = True, deadline_ms: int = 5000
) -> None:
    actor.post(ev.CloseRequested(closes_session, stage.clock.now_ms() + deadline_ms))


def test_own_client_commits_once_and_lets_the_session_remove_everything() -> None:
    """Delivery stopped, one commit, session closed; `ids` and owners vanish in one transaction."""
    stage = SteppedGroup(topics={"t": 2})
    member = stage.join("a")
    stage.commit(member, {tp(0): 0, tp(1): 0})
    for _ in range(3):
        member.application.deliver(tp(1))
    member.asked.clear()
    close(stage, member)
    stage.run(100)

    assert [type(e).__name__ for e in member.effects if isinstance(e, (Revoke, Finish))] == [
        "Revoke",
        "Finish",
    ]
    assert stage.offset(1).data == b"3"
    assert not any(writes_to("/owners/", Delete)(r) for r in member.asked)
    ends = [entry for entry in stage.server.log if entry.kind == "close_session"]
    assert len(ends[-1].changes) >= 3
    assert (stage.owners(), stage.registration("a")) == ({}, None)
    assert member.state is MemberState.CLOSED


def test_shared_client_releases_everything_then_its_registration() -> None:
    """Owners first, the registration last; the neighbour is not touched (recipes 7)."""
    stage = SteppedGroup(topics={"t": 4})
    first, second = stage.join("a", client="shared"), stage.join("b", client="shared")
    first.asked.clear()
    close(stage, first, closes_session=False)
    stage.run(1000)
    writes = [i for i, ops in enumerate(multis(first.asked)) if any(isinstance(o, Delete) for o in ops)]

    assert multis(first.asked)[writes[-1]] == (Delete(Registration.path(GROUP, "g_a"), 0),)
    assert stage.registration("b") is not None
    assert sorted(h.partition for h in second.machine.grants()) == [0, 1, 2, 3]
    assert first.finished is not None
    assert first.finished.close_session is False


@pytest.mark.parametrize("kind", ["views", "prepared"])
@pytest.mark.parametrize("fault", ["lost_request", "lost_reply"])
def test_shared_client_keeps_nothing_of_a_member_whose_leave_is_tried_again(kind: str, fault: Fault) -> None:
    """Past bug: a delete without an answer was not sent again, and the session kept the znode."""
    stage = SteppedGroup()
    stage.join("a", client="one")
    member = stage.join("b", client="shared", prepares=True, run_ms=10_000)
    stage.join("c", client="shared")
    assert stage.server.find(f"/consumers/{GROUP}/{kind}/g_b")
    stage.when("shared", writes_to(f"/{kind}/g_b", Delete), fault=fault)
    member.post(ev.CloseRequested(False, stage.clock.now_ms() + 5000))
    stage.run(5000)

    assert member.finished == Finish(False, None)
    assert not stage.server.find(f"/consumers/{GROUP}/{kind}/g_b")


def test_close_of_a_member_that_never_connected_ends_at_once() -> None:
    """Nothing is registered, so nothing has to be removed."""
    stage = SteppedGroup()
    stage.client("client-a").held = True
    member = stage.join("a", run_ms=100)
    close(stage, member)
    stage.run(10)

    assert member.finished is not None


def test_close_while_cut_off_ends_by_its_deadline() -> None:
    """L9: a close never hangs; an unanswered callback is over then."""
    stage = SteppedGroup()
    member = stage.join("a")
    stage.hangs.add("a")
    stage.server.suspend("client-a")
    close(stage, member, deadline_ms=1500)
    stage.run(1600)

    assert member.finished is not None
    assert effects_of(member, EndOverdue)


def test_member_on_a_shared_client_continues_until_its_znodes_are_gone() -> None:
    """The session lives on with the client; its znodes are deleted after a reconnect (recipes 7)."""
    stage = SteppedGroup(topics={"t": 2})
    member = stage.join("a", client="shared")
    stage.server.suspend("shared")
    close(stage, member, closes_session=False, deadline_ms=1000)
    stage.run(2000)
    assert member.finished is None

    stage.server.resume("shared")
    stage.run(1000)
    assert member.finished is not None
    assert (stage.owners(), stage.registration("a")) == ({}, None)


def test_commit_inside_the_last_callback_is_written() -> None:
    """interfaces, `on_revoked`: still owner, may commit; also on close."""
    stage = SteppedGroup(topics={"t": 1})
    member = stage.join("a")
    stage.hangs.add("a")
    close(stage, member)
    stage.run(50)
    assert effects_of(member, Revoke)
    stage.commit(member, {tp(0): 8})
    stage.hangs.clear()
    stage.run(100)

    assert effects_of(member, FinishCommit)[-1].committed == {tp(0): 8}
    assert stage.offset(0).data == b"8"


def test_commit_after_the_end_is_refused() -> None:
    """Effects, `Finish`: afterwards every commit is refused, and nothing is sent."""
    stage = SteppedGroup()
    member = stage.join("a")
    close(stage, member)
    stage.run(500)
    asked = len(member.asked)
    member.give(ev.CommitRequested(7, {tp(0): 1}))

    assert isinstance(effects_of(member, FinishCommit)[-1].refused[tp(0)], NotOwnerError)
    assert len(member.asked) == asked


def test_failed_application_leaves_cleanly_and_raises_its_error() -> None:
    """Errors of callbacks set the state `failed`; what is owned goes to the others."""
    stage = SteppedGroup()
    member = stage.join("a")
    error = RuntimeError("on_assigned")
    member.post(ev.ApplicationFailed(error))
    stage.run(1000)
    (finish,) = effects_of(member, Finish)

    assert finish.error is error
    assert member.state is MemberState.FAILED
    assert stage.owners() == {}


def test_member_that_does_not_poll_leaves_until_it_does() -> None:
    """interfaces, `max_poll_interval_ms`: released, out of the group; the next poll joins again."""
    stage = SteppedGroup()
    member = stage.join("a")
    other = stage.join("b")
    member.post(ev.PollOverdue())
    stage.run(1000)

    assert stage.registration("a") is None
    assert len(other.machine.grants()) == 4
    assert member.machine.describe().reason == "poll_timeout"
    member.post(ev.Polled())
    stage.run(1000)
    assert all(map(is_stable, (member, other)))
    assert len(member.machine.grants()) == 2


def test_changed_subscription_is_a_new_registration_in_one_transaction() -> None:
    """Deleted and created at once, so other members always see this one; claims stay (recipes 2)."""
    from zkgroup.model import StaticSubscription

    stage = SteppedGroup({"t": 2, "u": 2})
    member = stage.join("a", {"t": 1})
    tokens = {held: grant.token for held, grant in member.machine.grants().items()}
    member.asked.clear()
    member.post(ev.SubscriptionChanged(StaticSubscription({"t": 1, "u": 1})))
    stage.run(1000)
    path = Registration.path(GROUP, "g_a")
    (change,) = [
        ops for ops in multis(member.asked) if any(o.path == path and isinstance(o, Delete) for o in ops)
    ]

    assert [type(o) for o in change] == [Delete, Create]
    held = member.machine.grants()
    assert {tp: held[tp].token for tp in tokens} == tokens
    assert len(held) == 4


def test_lost_session_while_leaving_ends_the_member() -> None:
    """A leaving member has then left; it does not register again (recipes 10)."""
    stage = SteppedGroup()
    member = stage.join("a", client="shared")
    stage.hangs.add("a")
    close(stage, member, closes_session=False, deadline_ms=60_000)
    stage.run(50)
    stage.server.expire("shared")
    stage.run(5000)

    assert member.finished is not None
    assert stage.registration("a") is None


def test_leftovers_of_an_earlier_member_on_a_shared_client_are_released() -> None:
    """Claims of this name in this session that no member owns are orphaned claims (recipes 5)."""
    stage = SteppedGroup(topics={"t": 2})
    first = stage.join("a", client="shared")
    first.kill()
    stage.actors.pop("a")
    stage.topic("u", 1)
    second = stage.join("a", {"u": 1}, client="shared", run_ms=3000)

    assert stage.owners("t") == {}
    assert {h.topic for h in second.machine.grants()} == {"u"}
