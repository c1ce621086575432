"""From the source to the application: buffers, leases, pauses, draining."""

from __future__ import annotations

from collections.abc import Mapping

from tests.pure.consumer.rig import LEASE_MS, A, B, Rig, records
from zkgroup.consumer.lease import ProcessedPositions
from zkgroup.model import TopicPartition
from zkgroup.sources.port import Record


def test_records_carry_thread_and_token(rig: Rig) -> None:
    """So that the application's own store can fence as ZooKeeper does."""
    rig.own(token=9)
    rig.feed(1)

    (record,) = rig.take()

    assert record == Record("orders", 0, 0, None, b"0", None, (), 0, 9)


def test_nothing_is_delivered_before_on_assigned_has_returned(rig: Rig) -> None:
    """Records may be fetched meanwhile."""
    grant = rig.own(start=False)
    rig.feed(2)
    before = rig.offsets()

    rig.delivery.started([grant])

    assert (before, rig.offsets()) == ([], [0, 1])


def test_on_assigned_of_an_earlier_claim_starts_nothing_of_a_later_one(rig: Rig) -> None:
    """The partition was lost and claimed again while that callback ran; the later one has its own."""
    earlier = rig.own(token=7, start=False)
    rig.delivery.ended([A])
    later = rig.own(token=9, start=False)
    rig.feed(2)

    rig.delivery.started([earlier])
    before = rig.offsets()
    rig.delivery.started([later])

    assert (before, rig.offsets()) == ([], [0, 1])


def test_nothing_is_delivered_outside_the_lease(rig: Rig) -> None:
    """No delivery starts at or after the deadline; a later one opens it again."""
    rig.own()
    rig.feed(3)
    rig.host.clock.advance(LEASE_MS - 1)
    inside = rig.offsets(1)
    rig.host.clock.advance(1)
    outside = rig.offsets()
    rig.wakes.clear()

    rig.host.lease_table.extend(rig.host.clock.now_ms() + 1)
    rig.delivery.extended()

    assert (inside, outside) == ([0], [])
    assert rig.wakes == ["application"]
    assert rig.offsets() == [1, 2]


def test_a_revoked_partition_delivers_nothing_more(rig: Rig) -> None:
    """What was buffered is dropped at once; the others go on."""
    rig.own(A)
    rig.own(B)
    rig.feed(2, A)
    rig.feed(2, B)

    rig.delivery.stop([A])

    assert [(r.partition, r.offset) for r in rig.take()] == [(1, 0), (1, 1)]
    assert A not in rig.delivery.fetch_buffer.order().positions


def test_what_was_fetched_for_an_earlier_claim_is_dropped(rig: Rig) -> None:
    """A partition lost and claimed again while the source was read starts from the new claim's value."""
    rig.own(token=7)
    late = rig.delivery.fetch_buffer.order()
    rig.delivery.ended([A])
    rig.own(token=8, offset=5)

    rig.delivery.fetch_buffer.accept(late, records(A, range(3)))

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
    assert A not in rig.delivery.fetch_buffer.order().positions
    rig.take(499)
    still_full = A not in rig.delivery.fetch_buffer.order().positions
    rig.delivery.begin_poll()
    rig.wakes.clear()

    rig.delivery.take(1)

    assert still_full
    assert rig.wakes == ["fetcher"]
    assert rig.delivery.fetch_buffer.order().positions == {A: 1000}


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


class Drained:
    def __init__(self) -> None:
        self.reports: list[Mapping[TopicPartition, int]] = []

    def __call__(self, processed: ProcessedPositions) -> None:
        self.reports.append(processed.positions)


def test_a_revocation_waits_for_the_record_in_hand(rig: Rig) -> None:
    """Its position is committed with the release, so a clean move repeats nothing."""
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
    """The release is late by the deadline at most; what was processed is still committed."""
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


def test_no_handler_is_waited_for_when_the_application_leaves(rig: Rig) -> None:
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
