"""When a leader notifies the controller of changed ISRs."""

from __future__ import annotations

from tests.worlds.broker_requests import ORDERS
from zkgroup.broker.machine.isr import IsrChangePropagation, IsrChangePropagationConfig, isr_change_request
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Multi
from zkgroup.znodes.notifications import PARTITIONS_AT_ONCE, IsrChange

ONE = TopicPartition("orders", 1)


def sent_at(
    notices: IsrChangePropagation, until_ms: int, changes: dict[int, TopicPartition]
) -> list[tuple[int, int]]:
    """The time of each notification and its number of partitions; the clock advances by 100 ms."""
    found = []
    for now in range(0, until_ms + 1, 100):
        if now in changes:
            notices.changed([changes[now]], now)
        found += [(now, len(change.partitions)) for change in notices.take_due(now)]
    return found


def test_nothing_is_sent_before_five_seconds_without_a_change() -> None:
    """Checked each 2.5 s, so a change at 4 s is sent at 10 s, with the one before."""
    assert sent_at(IsrChangePropagation(0), 60_000, {100: ORDERS, 4_000: ONE}) == [(10_000, 2)]


def test_changes_that_do_not_stop_are_sent_after_sixty_seconds() -> None:
    """The oldest change waits at most 60 s, up to the next check."""
    changes = {now: TopicPartition("t", now) for now in range(100, 200_000, 2_000)}

    found = sent_at(IsrChangePropagation(0), 130_000, changes)

    assert [now for now, _ in found] == [62_500, 125_000]
    assert sum(count for _, count in found) == len([now for now in changes if now <= 125_000])


def test_changes_are_checked_each_two_and_a_half_seconds() -> None:
    """Nothing is sent between two checks, however long there was no change."""
    notices = IsrChangePropagation(0)
    notices.changed([ORDERS], 0)

    assert (notices.next_check_ms, notices.take_due(2_499)) == (2_500, ())
    assert (notices.take_due(2_500), notices.next_check_ms) == ((), 5_000)
    assert (notices.take_due(7_400), notices.next_check_ms) == ((IsrChange((ORDERS,)),), 9_900)
    assert notices.take_due(60_000) == ()


def test_the_first_change_after_a_long_silence_waits_for_quiet_too() -> None:
    """Kafka sends it alone, and the thousands of changes after it in a second notification."""
    assert sent_at(IsrChangePropagation(0), 200_000, {100_000: ORDERS, 103_000: ONE}) == [(110_000, 2)]


def test_a_notification_that_failed_is_sent_again_with_what_came_since() -> None:
    """In one notification."""
    notices = IsrChangePropagation(0)
    notices.changed([ORDERS], 0)
    (lost,) = notices.take_due(5_000)
    notices.changed([ONE], 5_000)
    notices.changed(lost.partitions, 5_100)
    notices.changed([], 9_000)

    assert notices.waiting == {ORDERS, ONE}
    assert notices.take_due(10_100) == (IsrChange((ORDERS, ONE)),)
    assert notices.waiting == frozenset()


def test_more_than_one_request_can_carry_is_several_notifications() -> None:
    """Each below the limit of a request, with the longest names."""
    notices = IsrChangePropagation(0)
    notices.changed((TopicPartition("x" * 249, n) for n in range(PARTITIONS_AT_ONCE + 1)), 0)

    changes = notices.take_due(5_000)

    assert [len(change.partitions) for change in changes] == [PARTITIONS_AT_ONCE, 1]
    assert all(len(change.encode()) < 1_000_000 for change in changes)


def test_a_notification_is_a_sequential_create() -> None:
    """Persistent, below the path that controllers watch."""
    change = IsrChange((ORDERS,))

    assert isr_change_request(change) == Multi(
        (Create("/isr_change_notification/isr_change_", change.encode(), sequential=True),)
    )


def test_the_times_can_be_set() -> None:
    """All three of them."""
    notices = IsrChangePropagation(
        0, IsrChangePropagationConfig(every_ms=100, quiet_ms=200, waiting_max_ms=1_000)
    )

    assert sent_at(notices, 2_000, {100: ORDERS}) == [(300, 1)]
