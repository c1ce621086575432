"""Acknowledgements in any order, and the position that may be committed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zkgroup.consumer.subscription_state import AckTracker
from zkgroup.model import TopicPartition

ORDERS_3 = TopicPartition("orders", 3)


def tracker(start: int = 0, unacked_max: int = 100) -> AckTracker:
    return AckTracker(ORDERS_3, start, unacked_max)


def test_nothing_is_committed_that_was_not_acknowledged() -> None:
    """Delivery alone does not move the position."""
    tracked = tracker(40)
    tracked.delivered(40)
    tracked.delivered(41)

    assert tracked.position == 40
    assert tracked.next_offset == 42


def test_the_lowest_unacknowledged_record_holds_the_position() -> None:
    """Acknowledgements in any order move it only over an unbroken run."""
    tracked = tracker()
    for offset in range(4):
        tracked.delivered(offset)

    positions = []
    for offset in (2, 0, 3, 1):
        tracked.ack(offset)
        positions.append(tracked.position)

    assert positions == [0, 1, 1, 4]


def test_contiguous_means_in_delivery_order() -> None:
    """Gaps between offsets (compacted topics) do not stop the position."""
    tracked = tracker(5)
    for offset in (7, 10, 30):
        tracked.delivered(offset)

    tracked.ack(7)
    tracked.ack(10)

    assert tracked.position == 11


def test_an_acknowledgement_counts_once() -> None:
    """A second one, or one of a record never delivered, is ignored."""
    tracked = tracker()
    tracked.delivered(0)

    assert [tracked.ack(0), tracked.ack(0), tracked.ack(9)] == [True, False, False]


def test_it_is_full_until_the_oldest_is_acknowledged() -> None:
    """max_unacked bounds what is remembered, also of acknowledged records behind a stuck one."""
    tracked = tracker(unacked_max=3)
    for offset in range(3):
        tracked.delivered(offset)
    tracked.ack(1)
    tracked.ack(2)
    full_behind_the_first = tracked.is_full

    tracked.ack(0)

    assert full_behind_the_first
    assert not tracked.is_full
    assert tracked.position == 3


def test_a_seek_forgets_what_is_in_hand() -> None:
    """Acknowledgements of what was delivered before a seek do not move the position."""
    tracked = tracker()
    for offset in range(5):
        tracked.delivered(offset)

    tracked.seek(2)

    assert not tracked.ack(4)
    assert (tracked.position, tracked.next_offset, tracked.unacked) == (2, 2, 0)


@given(
    gaps=st.lists(st.integers(min_value=1, max_value=5), min_size=1, max_size=30),
    data=st.data(),
)
def test_the_position_is_the_end_of_the_acknowledged_head(gaps: list[int], data: st.DataObject) -> None:
    """Whatever the offsets and the order: as a count over all records that were delivered says."""
    offsets = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    tracked = tracker()
    for offset in offsets:
        tracked.delivered(offset)
    acked: set[int] = set()
    for offset in data.draw(st.permutations(offsets)):
        tracked.ack(offset)
        acked.add(offset)

        head = 0
        while head < len(offsets) and offsets[head] in acked:
            head += 1
        assert tracked.position == (offsets[head - 1] + 1 if head else 0)
        assert [o for o, done in tracked._order.items() if not done] == [o for o in offsets if o not in acked]
