"""What waits, and which leaders are to go home."""

from __future__ import annotations

from tests.worlds.controller_clusters import cluster, tp
from zkgroup.controller.machine.agenda import Agenda, Look, Waiting, Work
from zkgroup.controller.machine.balance import preferred_elections_due
from zkgroup.controller.machine.holding import Holding
from zkgroup.controller.machine.picture import Brokers, Picture


def test_equal_work_that_waits_is_one() -> None:
    """Controller item 78: however often it is announced; another topic is another work."""
    agenda = Agenda()

    added = [
        agenda.add(Work(Look.BROKERS), 1),
        agenda.add(Work(Look.TOPIC, "a"), 2),
        agenda.add(Work(Look.BROKERS), 3),
        agenda.add(Work(Look.TOPIC, "b"), 4),
        agenda.add(Work(Look.TOPIC, "a"), 5),
    ]

    assert (added, len(agenda)) == ([True, True, False, True, False], 3)


def test_what_is_being_looked_at_can_be_announced_again() -> None:
    """Controller item 78: a change after the reading has begun is not lost."""
    agenda = Agenda()
    agenda.add(Work(Look.BROKERS), 1)
    assert agenda.take() == (Work(Look.BROKERS), Waiting(1, is_own=False))

    assert agenda.add(Work(Look.BROKERS), 2)
    assert agenda.take() == (Work(Look.BROKERS), Waiting(2, is_own=False))
    assert agenda.take() is None


def test_what_ends_the_rule_comes_first() -> None:
    """By kind, within a kind as it came; an expiry makes the rest void."""
    agenda = Agenda()
    for at, work in enumerate(
        [Work(Look.TOPIC, "b"), Work(Look.BROKERS), Work(Look.TOPIC, "a"), Work(Look.EXPIRED)]
    ):
        agenda.add(work, at)

    taken = [found[0] for _ in range(3) if (found := agenda.take())]

    assert taken == [Work(Look.EXPIRED), Work(Look.BROKERS), Work(Look.TOPIC, "b")]
    agenda.clear()
    assert agenda.take() is None


def balanced(preferring: int, elsewhere: int) -> Picture:
    """So many partitions prefer broker 1, and so many of them are led by broker 2."""
    partitions: dict[int, Brokers] = dict.fromkeys(range(preferring), (1, 2))
    return cluster({"t": partitions}, leaders={tp(number): 2 for number in range(elsewhere)})


def due(picture: Picture, percentage: int = 10) -> list[int]:
    """Numbers of the partitions of the batch."""
    return [each.partition for each in preferred_elections_due(picture, Holding(), percentage)]


def test_balance_needs_more_than_the_percentage() -> None:
    """Controller item 59: 11 of 100 is too many, 10 of 100 and 1 of 10 is not; all of them are one batch."""
    assert due(balanced(100, 11)) == list(range(11))
    assert due(balanced(100, 10)) == []
    assert due(balanced(10, 1)) == []
    assert due(balanced(10, 1), percentage=0) == [0]


def test_no_balance_during_a_reassignment() -> None:
    """Controller item 59: whichever partition it is of."""
    picture = balanced(10, 5)
    picture.moves.add(tp(9))

    assert due(picture) == []


def test_balance_skips_what_an_election_would_refuse() -> None:
    """Controller item 59: a dead, stopping or out-of-sync preferred replica, also one that cannot serve."""
    picture = balanced(10, 5)
    standing = picture.standing(tp(0))
    assert standing is not None
    picture.state_seen(tp(0), standing._replace(isr=(2,), version=1))
    picture.failed_to_serve(tp(1), 1)
    assert due(picture) == [2, 3, 4]

    picture.shutting_down = {1}
    assert due(picture) == []


def test_balance_leaves_out_held_replicas() -> None:
    """Recipes 17: what a late deletion may hit does not lead."""
    holding = Holding()
    holding.delete_asked(tp(0), [1])

    assert [each.partition for each in preferred_elections_due(balanced(10, 2), holding)] == [1]


def test_topics_that_go_do_not_count() -> None:
    """Neither for the ratio nor for the batch; nor do partitions without state."""
    picture = balanced(10, 5)
    picture.deletions.add("t")
    assert due(picture) == []

    picture = balanced(10, 2)
    picture.state_seen(tp(0), None)
    assert due(picture) == []
