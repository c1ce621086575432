"""Unclean elections by a zkgroup controller; a Kafka controller is refused, with an alternative."""

from __future__ import annotations

import pytest

from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.elections import all_led, elect_unclean, plan_unclean, wait_for_verdicts
from zkgroup.errors import ConfigError, ConflictError, NotFoundError, RefusedError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete
from zkgroup.znodes.admin_requests import (
    PartitionVerdict,
    TopicDeletion,
    UncleanElection,
    UncleanElectionDone,
)
from zkgroup.znodes.brokers import PartitionState


def _tp(number: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, number)


@pytest.fixture
def cluster(world: MemoryGroups) -> MemoryCluster:
    """Broker 9 is in replica lists and has gone."""
    made = MemoryCluster(world)
    made.ours()
    made.topic("orders", (9, 1, 2), (9, 1), (1, 2), (9, 8))
    made.topic("leaving", (9, 1))
    made.state("orders", 0, -1, (9,))
    made.state("orders", 1, 9, (9, 1))
    made.state("leaving", 0, -1, (9,))
    world.server.put(TopicDeletion.path("leaving"), b"")
    return made


ALL = [*map(_tp, range(4)), _tp(0, "leaving")]


def test_elections_that_may_lose_records_are_distinguished(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """No election is requested for a live leader, or without live replicas."""
    plan = plan_unclean(world.ensemble, ALL)

    assert [(str(row.topic_partition), row.outcome, row.live) for row in plan.rows] == [
        ("leaving-0", "being_deleted", (1,)),
        ("orders-0", "unclean", (1, 2)),
        ("orders-1", "clean", (1,)),
        ("orders-2", "led", (1, 2)),
        ("orders-3", "not_live", ()),
    ]
    assert (plan.wanted, plan.losing) == ((_tp(0), _tp(1)), (_tp(0),))


def test_an_empty_isr_with_more_replicas_is_unclean(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """`isr: []` left by a controller of Kafka (recipes 15)."""
    cluster.state("orders", 0, -1, ())

    (row,) = plan_unclean(world.ensemble, [_tp(0)]).rows

    assert (row.outcome, row.isr) == ("unclean", ())


def test_an_unreadable_state_is_reported_with_its_path(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """Nothing is asked for there: who was in sync is not known."""
    path = PartitionState.path(_tp(0))
    world.server.put(path, b"{")

    plan = plan_unclean(world.ensemble, [_tp(0)])

    assert ([(row.outcome, row.isr) for row in plan.rows], plan.wanted) == ([("unreadable", None)], ())
    assert [note.partition(": expected")[0] for note in plan.notes] == [f"cannot be read: {path}"]


def test_the_outcome_is_found_by_the_czxid_of_the_request(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """Also if the controller was faster than the first check."""
    plan = plan_unclean(world.ensemble, ALL)
    czxid = elect_unclean(world.ensemble, plan, "ada")
    found = world.server.find(UncleanElection.path())
    assert found is not None
    asked = UncleanElection.decode(found.path, found.data)
    nothing = wait_for_verdicts(world.ensemble, czxid, 1)
    verdicts = (PartitionVerdict(_tp(0), "unclean", 1), PartitionVerdict(_tp(1), "refused", None, "why"))
    done = UncleanElectionDone(verdicts, 7, 1)
    world.server.put(UncleanElectionDone.path(czxid), done.encode())

    came = wait_for_verdicts(world.ensemble, czxid, 0)

    assert (asked.partitions, asked.by, found.stat.czxid) == (plan.wanted, "ada", czxid)
    assert (nothing, came) == (None, done)
    assert not all_led(verdicts, plan.wanted)
    assert all_led(verdicts, [_tp(0)])


def test_a_controller_of_kafka_is_refused(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """A Kafka controller, none, and one that took over since the plan: nothing is written."""
    plan = plan_unclean(world.ensemble, ALL)
    cluster.no_controller()
    with pytest.raises(RefusedError, match="there is no active controller"):
        plan_unclean(world.ensemble, ALL)
    MemoryCluster(world, brokers=0)
    with pytest.raises(RefusedError, match=r"unclean\.leader\.election\.enable"):
        plan_unclean(world.ensemble, ALL)
    with pytest.raises(RefusedError, match="broker 1 is a Kafka controller"):
        elect_unclean(world.ensemble, plan, "ada")

    assert world.server.find(UncleanElection.path()) is None


def test_a_second_request_is_a_conflict(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """Before the plan and after it; the partitions of the first are named."""
    plan = plan_unclean(world.ensemble, ALL)
    elect_unclean(world.ensemble, plan, "ada")

    with pytest.raises(ConflictError, match="orders-0, orders-1"):
        elect_unclean(world.ensemble, plan, "ben")
    with pytest.raises(ConflictError, match="asked for already"):
        plan_unclean(world.ensemble, ALL)
    world.write(Delete(UncleanElection.path(), 0))
    plan_unclean(world.ensemble, ALL)


def test_what_does_not_exist_or_is_too_much_changes_nothing(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """One clear error each."""
    cluster.topic("wide", *[(9, 1)] * 1001)
    for number in range(1001):
        cluster.state("wide", number, -1, (9,))

    with pytest.raises(NotFoundError, match="orders-7"):
        plan_unclean(world.ensemble, [_tp(7)])
    with pytest.raises(ConfigError, match="at most 1000"):
        plan_unclean(world.ensemble, [_tp(number, "wide") for number in range(1001)])
