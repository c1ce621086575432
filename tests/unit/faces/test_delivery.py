"""From the source to the application: buffers, acknowledgements, commits, the reset policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

import pytest

from zkgroup.consumer.delivery import Delivery
from zkgroup.consumer.effects import Assign, FinishCommit, MoveTo
from zkgroup.consumer.lease import LeaseBoard
from zkgroup.consumer.records import Record, SourceRecord
from zkgroup.consumer.share import Processed
from zkgroup.errors import CommitRefusedError, CommitResult, LeaseLostError, NotOwnerError
from zkgroup.model import LeaseGrant, TopicPartition
from zkgroup.testing.clock import FakeClock

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
LEASE_MS = 4000


class Host:
    """The member's side: a clock, a lease board, tasks that run when the test says so, commits to answer."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.board = LeaseBoard(self.clock)
        self.board.extend(self.clock.now_ms() + LEASE_MS)
        self.tasks: list[Callable[[], None]] = []
        self.timers: dict[str, tuple[int, Callable[[], None]]] = {}
        self.commits: list[tuple[Processed, Future[CommitResult]]] = []
        self.notes: list[tuple[str, int]] = []
        self.delivery: Delivery | None = None

    def call_soon(self, task: Callable[[], None]) -> None:
        self.tasks.append(task)

    def call_at(self, name: str, at_ms: int, task: Callable[[], None]) -> None:
        self.timers[name] = (at_ms, task)

    def begin_commit(self, processed: Processed, future: Future[CommitResult]) -> None:
        self.commits.append((processed, future))

    def note_delivery(self, kind: str, fields: Mapping[str, object]) -> None:
        offset = fields["offset"]
        assert isinstance(offset, int)
        self.notes.append((kind, offset))

    def run(self) -> None:
        while self.tasks:
            self.tasks.pop(0)()

    def advance(self, ms: int) -> None:
        self.clock.advance(ms)
        for name, (at_ms, task) in list(self.timers.items()):
            if at_ms <= self.clock.now_ms():
                del self.timers[name]
                task()
        self.run()

    def answer(self, refused: Mapping[TopicPartition, CommitRefusedError] | None = None) -> Processed:
        """Ends the oldest commit, as the member's thread does."""
        processed, future = self.commits.pop(0)
        refused = refused or {}
        committed = {tp: offset for tp, offset in processed.positions.items() if tp not in refused}
        assert self.delivery is not None
        self.delivery.committed(FinishCommit(1, committed, refused))
        future.set_result(CommitResult(committed, refused))
        return processed


class Rig:
    """A delivery with its host, and short words for what happens to it."""

    def __init__(self, *, auto_ack: bool = True, unacked_max: int = 100, noted: bool = False) -> None:
        self.host = Host()
        self.wakes: list[str] = []
        self.delivery = Delivery(
            auto_ack=auto_ack,
            auto_commit=True,
            unacked_max=unacked_max,
            chunks_max=2,
            records_noted=noted,
            wake_fetcher=lambda: self.wakes.append("fetcher"),
            wake_application=lambda: self.wakes.append("application"),
        )
        self.host.delivery = self.delivery
        self.delivery.attach(self.host)

    def own(self, tp: TopicPartition = A, offset: int | None = 0, token: int = 7, start: bool = True) -> None:
        grant = LeaseGrant(topic_partition=tp, thread=0, token=token, offset=offset)
        self.host.board.grant([grant], token)
        self.delivery.assigned(Assign((grant,), token))
        if start:
            self.delivery.started([tp])

    def feed(self, count: int, tp: TopicPartition = A) -> None:
        """The source gives the next so many records."""
        order = self.delivery.feeding.order()
        first = order.positions[tp]
        self.delivery.feeding.accept(order, records(tp, range(first, first + count)))

    def take(self, count: int = 100) -> list[Record]:
        self.delivery.begin_poll()
        return self.delivery.take(count)

    def offsets(self, count: int = 100) -> list[int]:
        return [record.offset for record in self.take(count)]


def records(tp: TopicPartition, offsets: Sequence[int] | range) -> list[SourceRecord]:
    return [SourceRecord(tp.topic, tp.partition, offset, b"%d" % offset) for offset in offsets]


@pytest.fixture
def rig() -> Rig:
    return Rig()


# --- delivery -------------------------------------------------------------------------------------


def test_records_carry_thread_and_token(rig: Rig) -> None:
    """So that the application's own store can fence as ZooKeeper does."""
    rig.own(token=9)
    rig.feed(1)

    (record,) = rig.take()

    assert record == Record("orders", 0, 0, None, b"0", None, (), 0, 9)


def test_nothing_is_delivered_before_on_assigned_has_returned(rig: Rig) -> None:
    """Records may be fetched meanwhile."""
    rig.own(start=False)
    rig.feed(2)
    before = rig.offsets()

    rig.delivery.started([A])

    assert (before, rig.offsets()) == ([], [0, 1])


def test_nothing_is_delivered_outside_the_lease(rig: Rig) -> None:
    """item 50: no delivery starts at or after the deadline; a later one opens it again."""
    rig.own()
    rig.feed(3)
    rig.host.clock.advance(LEASE_MS - 1)
    inside = rig.offsets(1)
    rig.host.clock.advance(1)
    outside = rig.offsets()
    rig.wakes.clear()

    rig.host.board.extend(rig.host.clock.now_ms() + 1)
    rig.delivery.extended()

    assert (inside, outside) == ([0], [])
    assert rig.wakes == ["application"]
    assert rig.offsets() == [1, 2]


def test_a_revoked_partition_delivers_nothing_more(rig: Rig) -> None:
    """item 36: what was buffered is dropped at once; the others go on (item 40)."""
    rig.own(A)
    rig.own(B)
    rig.feed(2, A)
    rig.feed(2, B)

    rig.delivery.stop([A])

    assert [(r.partition, r.offset) for r in rig.take()] == [(1, 0), (1, 1)]
    assert A not in rig.delivery.feeding.order().positions


def test_what_was_fetched_for_an_earlier_claim_is_dropped(rig: Rig) -> None:
    """A partition lost and claimed again while the source was read starts from the new claim's value."""
    rig.own(token=7)
    late = rig.delivery.feeding.order()
    rig.delivery.ended([A])
    rig.own(token=8, offset=5)

    rig.delivery.feeding.accept(late, records(A, range(3)))

    assert rig.offsets() == []
    rig.feed(1)
    assert rig.offsets() == [5]


def test_partitions_take_turns(rig: Rig) -> None:
    """One with a long backlog does not keep the others waiting."""
    rig.own(A)
    rig.own(B)
    rig.feed(10, A)
    rig.feed(10, B)

    taken = [r.partition for _ in range(4) for r in rig.take(2)]

    assert sorted(taken[:4]) == [0, 0, 1, 1]
    assert sorted(taken[4:]) == [0, 0, 1, 1]


def test_the_source_is_asked_again_when_half_is_gone() -> None:
    """Reading ahead is bounded by two fetches a partition, and does not wait for the buffer to be empty."""
    rig = Rig(unacked_max=10_000)
    rig.own()
    rig.feed(500)
    rig.feed(500)
    assert A not in rig.delivery.feeding.order().positions
    rig.take(499)
    still_full = A not in rig.delivery.feeding.order().positions
    rig.delivery.begin_poll()
    rig.wakes.clear()

    rig.delivery.take(1)

    assert still_full
    assert rig.wakes == ["fetcher"]
    assert rig.delivery.feeding.order().positions == {A: 1000}


# --- acknowledgements -----------------------------------------------------------------------------


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
    """Also when the partition has come back meanwhile: the token tells the claims apart."""
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


# --- commits --------------------------------------------------------------------------------------


def test_a_committed_position_is_no_news(rig: Rig) -> None:
    """item 56: what is written already is not written again."""
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
    """item 59: only a seek lets an offset go back, and only until it has been committed."""
    rig.own(offset=40)
    rig.delivery.seek(A, 10)
    sought = rig.delivery.to_commit()
    rig.delivery.committed(FinishCommit(1, {A: 10}, {}))
    rig.feed(1)
    rig.take()
    rig.take()
    later = rig.delivery.to_commit()

    assert (sought.positions, sought.rewinds) == ({A: 10}, {A})
    assert (later.positions, later.rewinds) == ({A: 11}, frozenset())


def test_a_seek_drops_what_was_buffered(rig: Rig) -> None:
    """Also what the source was giving at that moment."""
    rig.own()
    rig.feed(3)
    late = rig.delivery.feeding.order()

    rig.delivery.seek(A, 100)
    rig.delivery.feeding.accept(late, records(A, range(3, 6)))

    assert rig.offsets() == []
    assert rig.delivery.position(A) == 100
    assert rig.delivery.feeding.order().positions == {A: 100}


def test_seek_and_position_need_ownership(rig: Rig) -> None:
    """NotOwnerError names the partition."""
    with pytest.raises(NotOwnerError, match="orders-0"):
        rig.delivery.seek(A, 0)
    with pytest.raises(NotOwnerError, match="orders-0"):
        rig.delivery.position(A)


def test_positions_tell_under_what_they_were_taken(rig: Rig) -> None:
    """From before an operator's reset, or under an earlier claim, they are void: the machine compares."""
    rig.own(token=3)
    before = rig.delivery.to_commit()

    rig.delivery.moved(MoveTo(A, 5, "reset", move_id=4))
    after = rig.delivery.to_commit()

    assert (before.last_move_id, after.last_move_id) == (3, 4)


def test_an_operators_reset_is_obeyed_at_once(rig: Rig) -> None:
    """What was buffered and what is in hand no longer counts; the reset itself is no news to commit."""
    rig.own()
    rig.feed(5)
    in_hand = rig.take(2)

    rig.delivery.moved(MoveTo(A, 100, "reset", move_id=8))

    assert not rig.delivery.to_commit().positions
    rig.feed(1)
    assert rig.offsets() == [100]
    rig.delivery.ack(in_hand[0])
    assert rig.delivery.to_commit().positions == {}


# --- pause ----------------------------------------------------------------------------------------


def test_a_pause_lasts_over_a_rebalance(rig: Rig) -> None:
    """Until resume: a partition that comes back stays paused."""
    rig.own()
    rig.delivery.pause([A])
    rig.delivery.ended([A])
    rig.own(token=8)
    rig.feed(1)
    paused = rig.offsets()

    rig.delivery.resume([A])

    assert (paused, rig.offsets()) == ([], [0])


# --- the reset policy -----------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [None, -1])
def test_the_start_is_committed_before_the_first_record(rig: Rig, offset: int | None) -> None:
    """item 61: without a committed offset the policy's position is committed, then delivery begins."""
    rig.own(offset=offset)
    order = rig.delivery.feeding.order()
    assert list(order.unresolved) == [A]
    rig.delivery.feeding.resolved(order, {A: 17})
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
    rig.delivery.feeding.resolved(rig.delivery.feeding.order(), {A: 17})
    rig.host.run()
    rig.feed(1)
    rig.host.answer(refused={A: LeaseLostError("away")})
    before = rig.offsets()

    rig.host.advance(1000)
    rig.host.answer()

    assert (before, rig.offsets()) == ([], [17])


def test_a_start_for_an_earlier_claim_is_dropped(rig: Rig) -> None:
    """The partition has gone and come back with a committed offset."""
    rig.own(offset=None)
    order = rig.delivery.feeding.order()
    rig.delivery.ended([A])
    rig.own(token=8, offset=5)
    rig.delivery.stop([])

    rig.delivery.feeding.resolved(order, {A: 17})
    rig.host.run()

    assert rig.host.commits == []
    assert rig.delivery.position(A) == 5


def test_a_position_out_of_range_goes_to_the_policy(rig: Rig) -> None:
    """A lower position of the policy's is committed as a rewind."""
    rig.own(offset=100)

    rig.delivery.feeding.out_of_range(A, rig.delivery.feeding.order())
    rig.delivery.feeding.resolved(rig.delivery.feeding.order(), {A: 60})
    rig.host.run()

    committed = rig.host.answer()
    assert (committed.positions, committed.rewinds) == ({A: 60}, {A})


# --- draining -------------------------------------------------------------------------------------


class Drained:
    def __init__(self) -> None:
        self.reports: list[Mapping[TopicPartition, int]] = []

    def __call__(self, processed: Processed) -> None:
        self.reports.append(processed.positions)


def test_a_revocation_waits_for_the_record_in_hand(rig: Rig) -> None:
    """item 35: its position is committed with the release, so a clean move repeats nothing."""
    rig.own()
    rig.feed(5)
    rig.take(3)
    drained = Drained()
    rig.delivery.stop([A])
    rig.delivery.drain([A], rig.host.clock.now_ms() + 2700, drained)
    before = list(drained.reports)

    rig.take()
    rig.host.run()

    assert (before, drained.reports) == ([], [{A: 3}])


def test_an_idle_partition_is_drained_at_once(rig: Rig) -> None:
    """Nothing is in hand, so nothing is waited for."""
    rig.own()
    rig.feed(5)
    drained = Drained()
    rig.delivery.stop([A])

    rig.delivery.drain([A], rig.host.clock.now_ms() + 2700, drained)

    assert drained.reports == [{}]


def test_draining_ends_in_time_with_what_is_acknowledged() -> None:
    """item 41: the release is late by the deadline at most; what was processed is still committed."""
    rig = Rig(auto_ack=False)
    rig.own()
    rig.feed(3)
    first, second, _ = rig.take()
    rig.delivery.ack(first)
    drained = Drained()
    rig.delivery.stop([A])
    rig.delivery.drain([A], rig.host.clock.now_ms() + 2700, drained)

    rig.host.advance(2700)
    rig.delivery.ack(second)
    rig.host.run()

    assert drained.reports == [{A: 1}]


def test_nobody_is_waited_for_when_the_application_leaves(rig: Rig) -> None:
    """close() by the thread that holds a record must not wait for itself."""
    rig.own()
    rig.feed(2)
    rig.take(1)
    drained = Drained()
    rig.delivery.stop([A])
    rig.delivery.drain([A], rig.host.clock.now_ms() + 2700, drained)

    rig.delivery.stop_draining()
    rig.host.run()

    assert drained.reports == [{}]
