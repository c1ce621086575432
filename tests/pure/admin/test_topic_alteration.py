"""Topics altered: more partitions, other overrides, under conditions."""

from __future__ import annotations

import pytest

from tests.worlds.memory_cluster import MemoryCluster, move
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.topics.alteration import AddedPartitions, alter_topic, plan_alteration
from zkgroup.errors import ConfigError, ConflictError, NotFoundError, RefusedError
from zkgroup.model.requests import SetData
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import Topic


def test_growth_follows_on_by_either_rule(world: MemoryGroups) -> None:
    """controller.md 6.2, example E: the later algorithm by default, 0.8.2.2's on request."""
    cluster = MemoryCluster(world, 0)
    for number in range(101, 106):
        cluster.broker(number)
    cluster.topic("orders", (103, 104), (104, 105), (105, 101), (101, 102))

    old = plan_alteration(world.ensemble, "orders", AddedPartitions(partitions=7, compat="0.8"))
    new = plan_alteration(world.ensemble, "orders", AddedPartitions(partitions=7))
    alter_topic(world.ensemble, new)

    assert old.added == {4: (103, 102), 5: (104, 105), 6: (105, 101)}
    assert new.added == {4: (102, 105), 5: (103, 102), 6: (104, 103)}
    assert cluster.replicas("orders") == {
        0: (103, 104), 1: (104, 105), 2: (105, 101), 3: (101, 102), **new.added
    }  # fmt: skip


def test_partitions_and_overrides_change_together(world: MemoryGroups) -> None:
    """One transaction; other keys stay, those of 2.8 too."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", (1, 2), **{"retention.ms": "5", "old": "1"})
    known = Topic({0: (1, 2)}, 3, topic_id="a" * 22, extensions={"later": 1})
    world.server.put(Topic.path("orders"), known.encode())

    plan = plan_alteration(
        world.ensemble, "orders", AddedPartitions(partitions=2), {"flush.ms": "1"}, ["old"]
    )
    alter_topic(world.ensemble, plan)

    found = world.server.find(Topic.path("orders"))
    assert found is not None
    changed = Topic.decode(found.path, found.data)
    assert (changed.version, changed.topic_id, changed.extensions) == (3, "a" * 22, {"later": 1})
    assert len(changed.partitions) == 2
    assert cluster.overrides("/config/topics/orders") == {"retention.ms": "5", "flush.ms": "1"}
    assert len(world.server.log[-1].operations) == 3


def test_growth_alone_leaves_the_configuration_as_it_is(world: MemoryGroups) -> None:
    """controller.md 5.4: 0.8.2.2's tool writes it again, and a caller that passes none erases it."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", (1,), **{"retention.ms": "5"})

    alter_topic(world.ensemble, plan_alteration(world.ensemble, "orders", AddedPartitions(partitions=2)))

    assert cluster.overrides("/config/topics/orders") == {"retention.ms": "5"}
    assert cluster.notifications() == []


def test_a_topic_that_changed_meanwhile_is_a_conflict(world: MemoryGroups) -> None:
    """Two operators that grow a topic do not overwrite each other."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", (1,))
    plan = plan_alteration(world.ensemble, "orders", AddedPartitions(partitions=2))
    world.write(SetData(Topic.path("orders"), Topic({0: (1,), 1: (3,)}).encode(), 0))

    with pytest.raises(ConflictError, match="/brokers/topics/orders"):
        alter_topic(world.ensemble, plan)

    assert cluster.replicas("orders") == {0: (1,), 1: (3,)}


def test_a_topic_that_must_not_grow_now_is_refused(world: MemoryGroups) -> None:
    """Being moved (the controller would write the old map again), being deleted, of groups' offsets."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", (1,))
    cluster.topic("__consumer_offsets", (1,))
    with pytest.raises(RefusedError, match="cannot grow"):
        plan_alteration(world.ensemble, "__consumer_offsets", AddedPartitions(partitions=2))
    cluster.request(move("orders", 0, 2))
    with pytest.raises(RefusedError, match="being moved"):
        plan_alteration(world.ensemble, "orders", AddedPartitions(partitions=2))
    cluster.finish()
    world.server.put(TopicDeletion.path("orders"), b"")
    with pytest.raises(ConflictError, match="being deleted"):
        plan_alteration(world.ensemble, "orders", AddedPartitions(partitions=2))


@pytest.mark.parametrize(
    ("growth", "told"),
    [
        (AddedPartitions(), "expected --partitions, --set or --delete-config, found none"),
        (AddedPartitions(partitions=1), "can only grow"),
        (AddedPartitions(partitions=30_000), "at most 20000"),
        (AddedPartitions(replica_assignment=[[1, 2], [3]]), "expected 2 different brokers"),
        (AddedPartitions(replica_assignment=[[1, 2], [3, 9]]), "broker 9 is not registered"),
        (AddedPartitions(partitions=3, replica_assignment=[[1, 2], [3, 1]]), "names 2"),
    ],
)
def test_impossible_growth_is_refused(world: MemoryGroups, growth: AddedPartitions, told: str) -> None:
    """One clear error, nothing written."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", (1, 2))

    with pytest.raises(ConfigError, match=told):
        plan_alteration(world.ensemble, "orders", growth)

    assert cluster.replicas("orders") == {0: (1, 2)}


def test_lists_by_hand_leave_the_old_partitions_alone(world: MemoryGroups) -> None:
    """Kafka's option names old and new partitions; only the new ones are used."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", (1, 2))

    plan = plan_alteration(world.ensemble, "orders", AddedPartitions(replica_assignment=[[9, 9], [3, 1]]))

    assert plan.after.partitions == {0: (1, 2), 1: (3, 1)}


def test_a_topic_made_without_brokers_grows_without_brokers(world: MemoryGroups) -> None:
    """Its lists are placeholders, and so are the new ones."""
    world.topic("orders", 2)

    plan = plan_alteration(world.ensemble, "orders", AddedPartitions(partitions=4))

    assert plan.added == {2: (0,), 3: (0,)}
    assert "there is no active controller" in plan.notes[0]
    with pytest.raises(ConfigError, match="can only grow"):
        plan_alteration(world.ensemble, "orders", AddedPartitions(partitions=2))
    with pytest.raises(NotFoundError, match="zkgroup topic list"):
        plan_alteration(world.ensemble, "nothing", AddedPartitions(partitions=2))
