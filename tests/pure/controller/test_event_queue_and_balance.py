"""What waits, and which leaders are to go home."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.worlds.controller_clusters import cluster, tp
from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.active import EVENT_HANDLERS
from zkgroup.controller.machine.context import Brokers, ControllerContext, LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.event_manager import EventKind, EventQueue, QueuedEvent, Waited
from zkgroup.controller.machine.leadership.requested_elections import preferred_elections_due
from zkgroup.controller.machine.pending_deletes import PendingDeletes

KINDS = [row.kind for row in EVENT_HANDLERS]


def test_equal_events_wait_once() -> None:
    """However often it is enqueued; an event of another topic is another event."""
    queue = EventQueue(KINDS)

    added = [
        queue.add(QueuedEvent(event_manager.BROKERS), 1),
        queue.add(QueuedEvent(event_manager.TOPIC, "a"), 2),
        queue.add(QueuedEvent(event_manager.BROKERS), 3),
        queue.add(QueuedEvent(event_manager.TOPIC, "b"), 4),
        queue.add(QueuedEvent(event_manager.TOPIC, "a"), 5),
    ]

    assert (added, len(queue)) == ([True, True, False, True, False], 3)


def test_an_event_that_is_being_handled_can_be_enqueued_again() -> None:
    """A change after its handler has begun to read is not lost."""
    queue = EventQueue(KINDS)
    queue.add(QueuedEvent(event_manager.BROKERS), 1)
    assert queue.take() == (QueuedEvent(event_manager.BROKERS), Waited(1, is_own=False))

    assert queue.add(QueuedEvent(event_manager.BROKERS), 2)
    assert queue.take() == (QueuedEvent(event_manager.BROKERS), Waited(2, is_own=False))
    assert queue.take() is None


def test_events_are_taken_in_the_order_of_the_table() -> None:
    """By kind, within a kind in the order of their arrival."""
    queue = EventQueue(KINDS)
    for at, event in enumerate(
        [
            QueuedEvent(event_manager.TOPIC, "b"),
            QueuedEvent(event_manager.BROKERS),
            QueuedEvent(event_manager.TOPIC, "a"),
            QueuedEvent(event_manager.LOAD),
        ]
    ):
        queue.add(event, at)

    assert queue.take(first_kind_only=True) == (QueuedEvent(event_manager.LOAD), Waited(3, is_own=False))
    assert queue.take(first_kind_only=True) is None
    taken = [found[0] for _ in range(3) if (found := queue.take())]

    assert taken == [
        QueuedEvent(event_manager.BROKERS),
        QueuedEvent(event_manager.TOPIC, "b"),
        QueuedEvent(event_manager.TOPIC, "a"),
    ]


def test_a_kind_without_a_handler_is_refused() -> None:
    """It would wait for ever."""
    with pytest.raises(KeyError):
        EventQueue(KINDS).add(QueuedEvent(EventKind("full disks")), 1)


def test_every_kind_has_one_handler() -> None:
    """The ranks are the order of the table."""
    declared = {each for each in vars(event_manager).values() if isinstance(each, EventKind)}

    assert len(set(KINDS)) == len(KINDS)
    assert declared <= set(KINDS)


def balanced(preferred: int, elsewhere: int) -> ControllerContext:
    """So many partitions prefer broker 1, and so many of them are led by broker 2."""
    partitions: dict[int, Brokers] = dict.fromkeys(range(preferred), (1, 2))
    return cluster({"t": partitions}, leaders={tp(number): 2 for number in range(elsewhere)})


def due(context: ControllerContext, percentage: int = 10) -> list[int]:
    """Numbers of the partitions of the batch."""
    return [each.partition for each in preferred_elections_due(context, PendingDeletes(), percentage)]


def test_balance_needs_more_than_the_percentage() -> None:
    """11 of 100 is too many, 10 of 100 and 1 of 10 is not; all of them are one batch."""
    assert due(balanced(100, 11)) == list(range(11))
    assert due(balanced(100, 10)) == []
    assert due(balanced(10, 1)) == []
    assert due(balanced(10, 1), percentage=0) == [0]


def test_no_balance_during_a_reassignment() -> None:
    """Whichever partition it is of."""
    context = balanced(10, 5)
    context.moves.add(tp(9))

    assert due(context) == []


def test_balance_skips_what_an_election_would_refuse() -> None:
    """A dead, stopping or out-of-sync preferred replica, also one that cannot serve."""
    context = balanced(10, 5)
    leadership = context.leadership(tp(0))
    assert leadership is not None
    context.state_seen(tp(0), LeaderIsrAndControllerEpoch(replace(leadership.state, isr=(2,)), 1))
    context.replica_offline(tp(1), 1)
    assert due(context) == [2, 3, 4]

    context.shutting_down = {1}
    assert due(context) == []


def test_balance_leaves_out_held_replicas() -> None:
    """What a late deletion may hit does not lead (recipes 17)."""
    pending_deletes = PendingDeletes()
    pending_deletes.delete_asked(tp(0), [1])

    assert [each.partition for each in preferred_elections_due(balanced(10, 2), pending_deletes, 10)] == [1]


def test_topics_that_go_do_not_count() -> None:
    """Neither for the ratio nor for the batch; nor do partitions without state."""
    context = balanced(10, 5)
    context.deletions.add("t")
    assert due(context) == []

    context = balanced(10, 2)
    context.state_seen(tp(0), None)
    assert due(context) == []
