"""What counts as processed and where to start: acknowledgements, commits, seeks, the reset policy."""

from __future__ import annotations

import pytest

from tests.pure.consumer.rig import A, B, Rig, records
from zkgroup.consumer.machine.events import FinishCommit, SeekTo
from zkgroup.errors import LeaseLostError, NotOwnerError


def test_asking_for_more_acknowledges_what_was_handed_out(rig: Rig) -> None:
    """Automatic mode: the previous batch counts as processed at the next poll, not before."""
    rig.own()
    rig.feed(5)
    rig.take(3)
    before = rig.delivery.to_commit().positions

    rig.take(1)

    assert before == {}
    assert rig.delivery.to_commit().positions == {A: 3}


def test_explicit_mode_leaves_it_to_ack() -> None:
    """Polling on acknowledges nothing."""
    rig = Rig(auto_ack=False)
    rig.own()
    rig.feed(3)
    taken = rig.take(2)
    rig.take(1)
    assert rig.delivery.to_commit().positions == {}

    rig.delivery.ack(taken[0])

    assert rig.delivery.to_commit().positions == {A: 1}


def test_too_many_unacknowledged_records_pause_their_partition() -> None:
    """max_unacked: the others go on; an acknowledgement of the oldest opens it again."""
    rig = Rig(auto_ack=False, unacked_max=2)
    rig.own(A)
    rig.own(B)
    rig.feed(4, A)
    first = [r for r in rig.take() if r.partition == 0]
    rig.feed(1, B)
    rig.wakes.clear()
    others = [(r.partition, r.offset) for r in rig.take()]

    rig.delivery.ack(first[0])

    assert [r.offset for r in first] == [0, 1]
    assert others == [(1, 0)]
    assert rig.wakes == ["application"]
    assert rig.offsets() == [2]


def test_an_acknowledgement_after_the_loss_is_ignored_and_counted(rig: Rig) -> None:
    """Also if the partition is owned again meanwhile: the token identifies the claim."""
    rig.own(token=7)
    rig.feed(1)
    (record,) = rig.take()
    rig.delivery.ended([A])
    gone = rig.delivery.ack(record)
    rig.own(token=8)
    again = rig.delivery.ack(record)

    assert (gone, again, rig.delivery.acks_ignored) == (False, False, 2)
    assert rig.delivery.to_commit().positions == {}


def test_the_end_of_a_delivery_is_recorded_before_a_commit_can_cover_it() -> None:
    """The history shows start and end of each record, once."""
    rig = Rig(noted=True)
    rig.own()
    rig.feed(2)
    rig.take(1)
    rig.take(1)
    rig.take(1)

    assert rig.host.notes == [
        ("deliver.start", 0),
        ("deliver.end", 0),
        ("deliver.start", 1),
        ("deliver.end", 1),
    ]


def test_a_committed_position_is_no_news(rig: Rig) -> None:
    """What is written already is not written again."""
    rig.own(offset=40)
    nothing_yet = rig.delivery.to_commit().positions
    rig.feed(2)
    rig.take()
    rig.take()
    news = rig.delivery.to_commit()

    rig.delivery.committed(FinishCommit(1, news.positions, {}))

    assert (nothing_yet, news.positions) == ({}, {A: 42})
    assert rig.delivery.to_commit().positions == {}


def test_a_seek_back_may_be_committed(rig: Rig) -> None:
    """Each seek has a number, by which the member knows the first position after it."""
    rig.own(offset=40)
    rig.delivery.seek(A, 10)
    sought = rig.delivery.to_commit()
    rig.delivery.committed(FinishCommit(1, {A: 10}, {}))
    rig.feed(1)
    rig.take()
    rig.take()
    later = rig.delivery.to_commit()

    rig.delivery.seek(A, 11)
    again = rig.delivery.as_given({A: 11})

    assert (sought.positions, later.positions) == ({A: 10}, {A: 11})
    assert 0 < sought.seeks[A] == later.seeks[A] < again.seeks[A]


def test_a_seek_drops_what_was_buffered(rig: Rig) -> None:
    """Also what the source was giving at that moment."""
    rig.own()
    rig.feed(3)
    late = rig.delivery.fetch_buffer.order()

    rig.delivery.seek(A, 100)
    rig.delivery.fetch_buffer.accept(late, records(A, range(3, 6)))

    assert rig.offsets() == []
    assert rig.delivery.position(A) == 100
    assert rig.delivery.fetch_buffer.order().positions == {A: 100}


def test_seek_and_position_need_ownership(rig: Rig) -> None:
    """NotOwnerError names the partition."""
    with pytest.raises(NotOwnerError, match="orders-0"):
        rig.delivery.seek(A, 0)
    with pytest.raises(NotOwnerError, match="orders-0"):
        rig.delivery.position(A)


def test_positions_carry_the_epoch_under_which_they_were_taken(rig: Rig) -> None:
    """From before an operator's reset, or under an earlier claim, they are void: the machine compares."""
    rig.own(token=3)
    before = rig.delivery.to_commit()

    rig.delivery.seek_performed(SeekTo(A, 5, "reset", seek_id=4))
    after = rig.delivery.to_commit()

    assert (before.last_seek_id, after.last_seek_id) == (3, 4)


def test_an_operators_reset_is_applied_at_once(rig: Rig) -> None:
    """What was buffered and what is in hand no longer counts; the reset itself is no news to commit."""
    rig.own()
    rig.feed(5)
    in_hand = rig.take(2)

    rig.delivery.seek_performed(SeekTo(A, 100, "reset", seek_id=8))

    assert not rig.delivery.to_commit().positions
    rig.feed(1)
    assert rig.offsets() == [100]
    rig.delivery.ack(in_hand[0])
    assert rig.delivery.to_commit().positions == {}


@pytest.mark.parametrize("offset", [None, -1])
def test_the_start_is_committed_before_the_first_record(rig: Rig, offset: int | None) -> None:
    """Without a committed offset the policy's position is committed, then delivery begins."""
    rig.own(offset=offset)
    order = rig.delivery.fetch_buffer.order()
    assert list(order.unresolved) == [A]
    rig.delivery.fetch_buffer.resolved(order, {A: 17})
    rig.feed(2)
    before = rig.offsets()

    rig.host.run()
    committed = rig.host.answer()

    assert before == []
    assert committed.positions == {A: 17}
    assert rig.offsets() == [17, 18]


def test_a_start_that_could_not_be_committed_is_tried_again(rig: Rig) -> None:
    """Nothing is delivered until it is."""
    rig.own(offset=None)
    rig.delivery.fetch_buffer.resolved(rig.delivery.fetch_buffer.order(), {A: 17})
    rig.host.run()
    rig.feed(1)
    rig.host.answer(refused={A: LeaseLostError("away")})
    before = rig.offsets()

    rig.host.advance(1000)
    rig.host.answer()

    assert (before, rig.offsets()) == ([], [17])


def test_starts_that_are_tried_again_do_not_forget_each_other(rig: Rig) -> None:
    """Two batches were refused whose least partition is the same: each is committed in the end."""
    rig.own(A, offset=None)
    rig.own(B, offset=None)
    rig.delivery.fetch_buffer.resolved(rig.delivery.fetch_buffer.order(), {A: 17, B: 27})
    rig.host.run()
    away = {A: LeaseLostError("away"), B: LeaseLostError("away")}
    rig.host.answer(refused=away)
    rig.delivery.fetch_buffer.out_of_range(A, rig.delivery.fetch_buffer.order())
    rig.delivery.fetch_buffer.resolved(rig.delivery.fetch_buffer.order(), {A: 18})
    rig.host.run()
    rig.host.answer(refused=away)

    rig.host.advance(1000)
    while rig.host.commits:
        rig.host.answer()
    rig.feed(1, A)
    rig.feed(1, B)

    assert sorted(rig.offsets()) == [18, 27]


def test_a_start_that_the_source_has_no_more_is_left_for_another() -> None:
    """Past bug: the commit of the first start was on its way, and a lower one did not lead back behind it."""
    rig = Rig(noted=True)
    rig.own(offset=None)
    rig.delivery.fetch_buffer.resolved(rig.delivery.fetch_buffer.order(), {A: 17})
    rig.host.run()
    rig.delivery.fetch_buffer.out_of_range(A, rig.delivery.fetch_buffer.order())
    rig.delivery.fetch_buffer.resolved(rig.delivery.fetch_buffer.order(), {A: 3})
    rig.host.run()
    first, second = rig.host.answer(), rig.host.answer()

    assert (first.positions, dict(first.seeks)) == ({A: 17}, {})
    assert second.positions == {A: 3}
    assert second.seeks[A] > 0
    assert rig.host.notes == [("start", 17), ("seek", 3)]


def test_a_start_for_an_earlier_claim_is_dropped(rig: Rig) -> None:
    """The partition has gone and come back with a committed offset."""
    rig.own(offset=None)
    order = rig.delivery.fetch_buffer.order()
    rig.delivery.ended([A])
    rig.own(token=8, offset=5)
    rig.delivery.stop([])

    rig.delivery.fetch_buffer.resolved(order, {A: 17})
    rig.host.run()

    assert rig.host.commits == []
    assert rig.delivery.position(A) == 5


@pytest.mark.parametrize("offset", [100, None])
def test_a_position_out_of_range_goes_to_the_policy(rig: Rig, offset: int | None) -> None:
    """A lower position of the policy's is committed as a rewind; also where only a seek led to the first."""
    rig.own(offset=offset)
    rig.delivery.seek(A, 100)

    rig.delivery.fetch_buffer.out_of_range(A, rig.delivery.fetch_buffer.order())
    rig.delivery.fetch_buffer.resolved(rig.delivery.fetch_buffer.order(), {A: 60})
    rig.host.run()

    committed = rig.host.answer()
    assert (committed.positions, list(committed.seeks)) == ({A: 60}, [A])
