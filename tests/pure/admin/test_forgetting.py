"""An operator states that a broker never comes back: the records of its replicas are deleted."""

from __future__ import annotations

import pytest

from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.cluster.brokers import forget, plan_forgetting
from zkgroup.errors import ConflictError, NotFoundError, RefusedError
from zkgroup.znodes.brokers import BrokerRegistration, Topic
from zkgroup.znodes.stray_replicas import AbandonedReplicas, StrayReplicas, StrayTopic


def recorded(world: MemoryGroups) -> None:
    """Broker 3 was moved away from `t`, and `gone` was deleted without it; broker 4 owes something, too."""
    world.server.put(Topic.path("t"), Topic({0: (1,)}).encode())
    znode = world.server.find(Topic.path("t"))
    assert znode is not None
    topics = StrayTopic("t", znode.stat.czxid, (0, 2), 5), StrayTopic("gone", 7, (1,), 5)
    world.server.put(StrayReplicas.path(3), StrayReplicas(topics[:1]).encode())
    world.server.put(StrayReplicas.path(3, 1), StrayReplicas(topics[1:]).encode())
    world.server.put(StrayReplicas.path(4), StrayReplicas(topics).encode())
    for number, broker in enumerate((3, 4)):
        world.server.put(AbandonedReplicas.path(number), AbandonedReplicas("old", broker, (3,), 2).encode())


def left(world: MemoryGroups) -> set[str]:
    return {
        path for path in world.server.tree() if path.startswith(("/zkgroup/strays/", "/zkgroup/abandoned/"))
    }


def test_a_plan_names_what_is_left_and_changes_nothing(world: MemoryGroups) -> None:
    """Replicas of existing and deleted topics, and records of an earlier version."""
    recorded(world)
    before = left(world)
    plan = plan_forgetting(world.ensemble, 3)

    told = [(each.topic, each.partitions, each.is_there, each.czxid is None) for each in plan.left]
    assert told == [("gone", (1,), False, False), ("old", (3,), False, True), ("t", (0, 2), True, False)]
    assert left(world) == before


def test_all_of_the_broker_goes_at_once_and_nothing_of_others(world: MemoryGroups) -> None:
    """The znode that briefly replaces its registration is deleted as well."""
    recorded(world)
    forget(world.ensemble, plan_forgetting(world.ensemble, 3))

    assert left(world) == {StrayReplicas.path(4), AbandonedReplicas.path(1)}
    assert world.server.find(BrokerRegistration.path(3)) is None
    with pytest.raises(NotFoundError, match="nothing is recorded of broker 3"):
        plan_forgetting(world.ensemble, 3)


def test_a_broker_that_is_registered_is_not_forgotten(world: MemoryGroups) -> None:
    """Before the plan, and in the very transaction where it comes back after it."""
    recorded(world)
    before = left(world)
    plan = plan_forgetting(world.ensemble, 3)
    world.hold(BrokerRegistration.path(3), BrokerRegistration("h", 9092, 1, 0).encode())

    with pytest.raises(RefusedError, match="broker 3 is registered"):
        forget(world.ensemble, plan)
    with pytest.raises(RefusedError, match="broker 3 is registered"):
        plan_forgetting(world.ensemble, 3)
    assert left(world) == before


def test_a_record_that_has_changed_since_is_not_taken_off(world: MemoryGroups) -> None:
    """A controller has added a replica that the operator has not seen."""
    recorded(world)
    before = left(world)
    plan = plan_forgetting(world.ensemble, 3)
    world.server.put(StrayReplicas.path(3), StrayReplicas((StrayTopic("new", 9, (0,), 6),)).encode())

    with pytest.raises(ConflictError, match="/zkgroup/strays/3"):
        forget(world.ensemble, plan)
    assert left(world) == before


def test_a_record_that_cannot_be_read_goes_too(world: MemoryGroups) -> None:
    """Its name says whose it is."""
    world.server.put(StrayReplicas.path(3), b"{")
    plan = plan_forgetting(world.ensemble, 3)

    assert (plan.left, plan.unreadable) == ((), (StrayReplicas.path(3),))
    forget(world.ensemble, plan)
    assert left(world) == set()
