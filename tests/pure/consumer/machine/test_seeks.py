"""A seek back goes with the partition, however it is given up; nothing else goes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.worlds.stepped_group import GROUP, Member, SteppedGroup, effects_of, tp, writes_to
from zkgroup.consumer.machine import events as ev
from zkgroup.consumer.machine.events import Revoke
from zkgroup.history import check_history
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.znodes.consumers import Offset
from zkgroup.znodes.group_records import Reset


def closed(stage: SteppedGroup, member: Member) -> None:
    member.post(ev.CloseRequested(close_session=True, deadline_ms=stage.clock.now_ms() + 5000))


def closed_on_a_shared_client(stage: SteppedGroup, member: Member) -> None:
    member.post(ev.CloseRequested(close_session=False, deadline_ms=stage.clock.now_ms() + 5000))


def handed_back(stage: SteppedGroup, member: Member) -> None:
    member.post(ev.HandBackRequested(frozenset({tp(0)})))


def revoked(stage: SteppedGroup, member: Member) -> None:
    stage.join("0", run_ms=None)  # the plan gives it the partition


def parked(stage: SteppedGroup, member: Member) -> None:
    member.post(ev.PollOverdue())


WAYS = [closed, closed_on_a_shared_client, handed_back, revoked, parked]
GiveUp = Callable[[SteppedGroup, Member], None]


@pytest.fixture
def stage() -> SteppedGroup:
    return SteppedGroup(topics={"t": 1}, verify_interval_ms=600_000)


@pytest.fixture
def member(stage: SteppedGroup) -> Member:
    actor = stage.join("a")
    stage.commit(actor, {tp(0): 20})
    return actor


def seek(member: Member, offset: int) -> None:
    """Goes there and processes two records."""
    member.application.seek(tp(0), offset)
    for _ in range(2):
        member.application.deliver(tp(0))


def is_held(stage: SteppedGroup) -> bool:
    return stage.owners().get(0) == "a-0"


@pytest.mark.parametrize("give_up", WAYS, ids=lambda way: way.__name__)
def test_the_position_after_a_seek_goes_with_the_partition(
    stage: SteppedGroup, member: Member, give_up: GiveUp
) -> None:
    """The next owner continues at this member's position; its history explains the step back."""
    seek(member, 5)
    give_up(stage, member)
    stage.run_until(lambda: not is_held(stage))

    assert stage.offset(0).data == b"7"
    assert check_history(stage.recording.records).violations == ()


@pytest.mark.parametrize("give_up", WAYS, ids=lambda way: way.__name__)
def test_without_a_seek_the_partition_keeps_what_is_committed(
    stage: SteppedGroup, member: Member, give_up: GiveUp
) -> None:
    """The application committed further than it says now that it has processed."""
    member.application.deliver(tp(0))
    give_up(stage, member)
    stage.run_until(lambda: not is_held(stage))

    assert stage.offset(0).data == b"20"


@pytest.mark.parametrize("give_up", WAYS, ids=lambda way: way.__name__)
def test_a_seek_that_is_committed_leads_no_further_back(
    stage: SteppedGroup, member: Member, give_up: GiveUp
) -> None:
    """The application committed 9 after its seek to 5: the release does not take that back."""
    seek(member, 5)
    member.give(ev.CommitRequested(99, {tp(0): 9}, {tp(0): 1}, member.application.last_seek_id))
    stage.drain()
    give_up(stage, member)
    stage.run_until(lambda: not is_held(stage))

    assert stage.offset(0).data == b"9"


def test_a_release_without_an_answer_is_made_with_the_same_position(
    stage: SteppedGroup, member: Member
) -> None:
    """The request was lost; read back, and sent again as it was (recipes 10)."""
    stage.when("client-a", writes_to("/owners/", Delete), fault="lost_request")
    seek(member, 5)
    handed_back(stage, member)
    stage.run_until(lambda: not is_held(stage))

    assert stage.offset(0).data == b"7"


def test_a_seek_of_an_earlier_claim_leads_nowhere(stage: SteppedGroup, member: Member) -> None:
    """The partition was lost and claimed anew in between: it begins where the claim found it."""
    seek(member, 5)
    stage.server.expire_session(stage.client("client-a").session.session_id)  # type: ignore[union-attr]
    stage.run(3000)
    assert is_held(stage)
    handed_back(stage, member)
    stage.run_until(lambda: not is_held(stage))

    assert stage.offset(0).data == b"20"


def test_a_reset_after_a_seek_wins(stage: SteppedGroup, member: Member) -> None:
    """The other client's offset is adopted; the earlier seek has no effect (recipes 6)."""
    seek(member, 5)
    stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"30", -1))
    stage.commit(member, {tp(0): 21})
    assert stage.offset(0).data == b"30"
    handed_back(stage, member)
    stage.run_until(lambda: not is_held(stage))

    assert stage.offset(0).data == b"30"


def test_a_reset_after_the_partition_was_given_up_wins(stage: SteppedGroup, member: Member) -> None:
    """The application's last position waits for its release when the reset is met (recipes 6)."""
    seek(member, 5)

    def meanwhile() -> None:
        marker = Create(Reset.path(GROUP, tp(0)), Reset(3, stage.clock.wall_ms(), "operator").encode())
        stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"3", -1), marker)
        handed_back(stage, member)

    stage.when("client-a", writes_to("/offsets/", SetData), meanwhile)
    stage.commit(member, {tp(0): 7}, seeks={tp(0): 1})
    stage.run_until(lambda: not is_held(stage))

    assert stage.offset(0).data == b"3"


def test_a_release_from_before_a_seek_does_not_undo_it(stage: SteppedGroup, member: Member) -> None:
    """The position that goes with the partition was taken first; the seek is committed already."""
    stage.hangs.add("a")
    handed_back(stage, member)
    stage.drain()
    call_id = effects_of(member, Revoke)[-1].call_id
    stage.commit(member, {tp(0): 5}, seeks={tp(0): 1})
    member.post(ev.Revoked(call_id, {tp(0): 30}, member.application.last_seek_id))
    stage.run_until(lambda: not is_held(stage))

    assert stage.offset(0).data == b"5"
