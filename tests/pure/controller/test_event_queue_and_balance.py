"""What waits, and which leaders are to go home."""

from __future__ import annotations

from dataclasses import replace

from tests.worlds.controller_clusters import cluster, tp
from zkgroup.controller.machine.context import Brokers, ControllerContext, LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.deletion.pending_deletes import PendingDeletes
from zkgroup.controller.machine.event_queue import EventKind, EventQueue, QueuedEvent, Waited
from zkgroup.controller.machine.leadership.preferred import preferred_elections_due


def test_equal_work_that_waits_is_one() -> None:
    """Controller item 78: however often it is announced; another topic is another work."""
    queue = EventQueue()

    added = [
        queue.add(QueuedEvent(EventKind.BROKERS), 1),
        queue.add(QueuedEvent(EventKind.TOPIC, "a"), 2),
        queue.add(QueuedEvent(EventKind.BROKERS), 3),
        queue.add(QueuedEvent(EventKind.TOPIC, "b"), 4),
        queue.add(QueuedEvent(EventKind.TOPIC, "a"), 5),
    ]

    assert (added, len(queue)) == ([True, True, False, True, False], 3)


def test_what_is_being_looked_at_can_be_announced_again() -> None:
    """Controller item 78: a change after the reading has begun is not lost."""
    queue = EventQueue()
    queue.add(QueuedEvent(EventKind.BROKERS), 1)
    assert queue.take() == (QueuedEvent(EventKind.BROKERS), Waited(1, is_own=False))

    assert queue.add(QueuedEvent(EventKind.BROKERS), 2)
    assert queue.take() == (QueuedEvent(EventKind.BROKERS), Waited(2, is_own=False))
    assert queue.take() is None


def test_what_ends_the_rule_comes_first() -> None:
    """By kind, within a kind as it came; an expiry makes the rest void."""
    queue = EventQueue()
    for at, work in enumerate(
        [
            QueuedEvent(EventKind.TOPIC, "b"),
            QueuedEvent(EventKind.BROKERS),
            QueuedEvent(EventKind.TOPIC, "a"),
            QueuedEvent(EventKind.EXPIRED),
        ]
    ):
        queue.add(work, at)

    taken = [found[0] for _ in range(3) if (found := queue.take())]

    assert taken == [
        QueuedEvent(EventKind.EXPIRED),
        QueuedEvent(EventKind.BROKERS),
        QueuedEvent(EventKind.TOPIC, "b"),
    ]
    queue.clear()
    assert queue.take() is None


def balanced(preferring: int, elsewhere: int) -> ControllerContext:
    """So many partitions prefer broker 1, and so many of them are led by broker 2."""
    partitions: dict[int, Brokers] = dict.fromkeys(range(preferring), (1, 2))
    return cluster({"t": partitions}, leaders={tp(number): 2 for number in range(elsewhere)})


def due(context: ControllerContext, percentage: int = 10) -> list[int]:
    """Numbers of the partitions of the batch."""
    return [each.partition for each in preferred_elections_due(context, PendingDeletes(), percentage)]


def test_balance_needs_more_than_the_percentage() -> None:
    """Controller item 59: 11 of 100 is too many, 10 of 100 and 1 of 10 is not; all of them are one batch."""
    assert due(balanced(100, 11)) == list(range(11))
    assert due(balanced(100, 10)) == []
    assert due(balanced(10, 1)) == []
    assert due(balanced(10, 1), percentage=0) == [0]


def test_no_balance_during_a_reassignment() -> None:
    """Controller item 59: whichever partition it is of."""
    context = balanced(10, 5)
    context.moves.add(tp(9))

    assert due(context) == []


def test_balance_skips_what_an_election_would_refuse() -> None:
    """Controller item 59: a dead, stopping or out-of-sync preferred replica, also one that cannot serve."""
    context = balanced(10, 5)
    standing = context.standing(tp(0))
    assert standing is not None
    context.state_seen(tp(0), LeaderIsrAndControllerEpoch(replace(standing.state, isr=(2,)), 1))
    context.failed_to_serve(tp(1), 1)
    assert due(context) == [2, 3, 4]

    context.shutting_down = {1}
    assert due(context) == []


def test_balance_leaves_out_held_replicas() -> None:
    """Recipes 17: what a late deletion may hit does not lead."""
    pending_deletes = PendingDeletes()
    pending_deletes.delete_asked(tp(0), [1])

    assert [each.partition for each in preferred_elections_due(balanced(10, 2), pending_deletes)] == [1]


def test_topics_that_go_do_not_count() -> None:
    """Neither for the ratio nor for the batch; nor do partitions without state."""
    context = balanced(10, 5)
    context.deletions.add("t")
    assert due(context) == []

    context = balanced(10, 2)
    context.state_seen(tp(0), None)
    assert due(context) == []
