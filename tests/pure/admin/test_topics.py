"""Topics created, listed, described and deleted as znodes."""

from __future__ import annotations

import json

import pytest

from tests.worlds import golden_data
from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stores import MeddledStore, RecordedStore, before_nth
from zkgroup.admin.status import diagnose, diagnose_partitions, read_status
from zkgroup.admin.topics import creation, listing
from zkgroup.admin.topics.deletion import (
    DELETES_AT_ONCE,
    delete_topic,
    delete_topic_change,
    plan_topic_deletion,
)
from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.errors import ConfigError, ConflictError, NotFoundError, PartlyDoneError, RefusedError
from zkgroup.model.requests import Create, Delete, Multi
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import BrokerRegistration, Endpoint, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.controller import ControllerRegistration


def _broker(world: MemoryGroups, number: int, **extensions: object) -> None:
    data = BrokerRegistration("h", 9092, timestamp_ms=1, extensions=extensions).encode()
    world.hold(BrokerRegistration.path(number), data)


def _controller(world: MemoryGroups) -> None:
    world.hold(ControllerRegistration.path(), ControllerRegistration(1, 1).encode())


def test_a_topic_without_brokers_gets_placeholder_replicas_and_a_note(world: MemoryGroups) -> None:
    """With no broker registered every replica list is [0], which is said."""
    new = creation.plan_topic(world.ensemble, "orders", partitions=2, configs={"retention.ms": "1"})
    creation.create_topic(world.ensemble, new)

    found = world.server.find(Topic.path("orders"))
    config = world.server.find(TopicConfig.path("orders"))
    assert found is not None
    assert config is not None
    assert json.loads(found.data or b"") == {"version": 1, "partitions": {"0": [0], "1": [0]}}
    assert json.loads(config.data or b"") == {"version": 1, "config": {"retention.ms": "1"}}
    assert "no broker" in new.notes[0]


def test_topic_and_configuration_are_one_transaction(world: MemoryGroups) -> None:
    """Kafka's tool writes them one after the other and can lose a race in between (K22)."""
    creation.create_topic(world.ensemble, creation.plan_topic(world.ensemble, "orders", partitions=1))

    paths = [operation.path for operation in world.server.log[-1].operations]
    assert paths == ["/config/topics/orders", "/brokers/topics/orders", "/zkgroup/unhosted/orders"]


def test_replicas_are_spread_over_the_live_brokers(world: MemoryGroups) -> None:
    """Leaders in turn, followers shifted by one more each round, the start by the topic's name."""
    for number in (1, 2, 3):
        _broker(world, number)

    new = creation.plan_topic(world.ensemble, "orders", partitions=6, replication_factor=2)

    assert list(new.assignment.values()) == [(3, 1), (1, 2), (2, 3), (3, 2), (1, 3), (2, 1)]
    assert new.notes == ("there is no active controller: the topic has no leaders until there is one",)
    firsts = {
        creation.plan_topic(world.ensemble, name, partitions=1).assignment[0] for name in ("a", "b", "c", "d")
    }
    assert len(firsts) > 1


def test_racks_are_used_unless_disabled(world: MemoryGroups) -> None:
    """As 0.10 and later: one replica in each rack; some brokers without a rack is an error by default."""
    for number, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "b")):
        registration = BrokerRegistration.of(
            [Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT")], timestamp_ms=1, rack=rack
        )
        world.hold(BrokerRegistration.path(number), registration.encode())

    new = creation.plan_topic(world.ensemble, "orders", partitions=8, replication_factor=2)
    _broker(world, 5)

    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    assert all({racks[broker] for broker in replicas} == {"a", "b"} for replicas in new.assignment.values())
    with pytest.raises(ConfigError, match="broker 5 has no rack"):
        creation.plan_topic(world.ensemble, "orders", partitions=8)
    assert creation.plan_topic(world.ensemble, "orders", partitions=8, rack_mode="disabled").assignment


def test_a_controller_that_hosts_nothing_holds_no_replica(world: MemoryGroups) -> None:
    """Controller-only brokers are left out; where only they live a topic is refused (recipes 14)."""
    _broker(world, 9, zkgroup={"role": "controller"})
    with pytest.raises(RefusedError, match="/brokers/ids"):
        creation.plan_topic(world.ensemble, "orders", partitions=1)
    _broker(world, 1, zkgroup={"role": "data"})

    assert creation.plan_topic(world.ensemble, "orders", partitions=2).assignment == {
        0: (1,),
        1: (1,),
    }


def test_a_name_that_is_no_broker_id_is_passed_over(world: MemoryGroups) -> None:
    """Past bug: `²` is a digit for `str.isdigit`, and then `int` failed; `01` is no path of broker 1."""
    _broker(world, 1)
    for name in ("²", "01", "x", "9" * 5000):
        world.hold(f"/brokers/ids/{name}", b"{}")

    assert creation.plan_topic(world.ensemble, "orders", partitions=1).assignment == {0: (1,)}


def test_an_explicit_assignment_is_taken_as_it_is(world: MemoryGroups) -> None:
    """`0:1,1:2`: two partitions; brokers that can hold no replica now are noted, not refused."""
    lists = [[0, 1], [1, 2]]
    new = creation.plan_topic(world.ensemble, "orders", partitions=None, replica_assignment=lists)
    _broker(world, 0)
    _broker(world, 1, zkgroup={"role": "controller"})
    with_brokers = creation.plan_topic(world.ensemble, "orders", partitions=None, replica_assignment=lists)

    assert new.assignment == {0: (0, 1), 1: (1, 2)}
    assert new.notes == (
        "brokers 0, 1, 2 are not registered now: replicas there are created when they start",
    )
    assert with_brokers.notes[-2:] == (
        "broker 2 is not registered now: replicas there are created when it starts",
        "broker 1 is registered to host nothing: no replica is created there",
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"partitions": None}, "how many"),
        ({"partitions": 0}, "1 to"),
        ({"partitions": 1, "replication_factor": 0}, "at least 1"),
        ({"partitions": 1, "replication_factor": 2}, "no broker"),
        ({"partitions": 3, "replica_assignment": [[0]]}, "names 1"),
        ({"partitions": None, "replica_assignment": [[0], [0, 1]]}, "same number"),
        ({"partitions": None, "replica_assignment": [[0, 0]]}, "twice"),
    ],
)
def test_impossible_topics_are_refused_with_the_reason(world: MemoryGroups, options: dict, told: str) -> None:  # type: ignore[type-arg]
    """An invalid topic is a usage error before any write."""
    with pytest.raises(ConfigError, match=told):
        creation.plan_topic(world.ensemble, "orders", **options)


def test_commands_to_type_take_a_topic_whose_name_begins_with_a_dash(world: MemoryGroups) -> None:
    """Click takes it for an option else."""
    MemoryCluster(world).topic("-t", (9,))
    world.member("g", "m", {"-u": 1})
    found = diagnose(read_status(world.ensemble), wanted_timeout_ms=0)
    partitions = diagnose_partitions(read_status(world.ensemble).partitions, (1,))

    with pytest.raises(ConflictError, match="`zkgroup topic describe -- -t` shows it"):
        creation.create_topic(world.ensemble, creation.plan_topic(world.ensemble, "-t", partitions=1))
    assert [one.next for one in partitions] == ["zkgroup topic describe -- -t"]
    assert "zkgroup topic create --partitions N -- -u" in [one.next for one in found]


def test_a_name_that_is_taken_is_a_conflict(world: MemoryGroups) -> None:
    """An existing topic, one with the same metric name, and one with a pending deletion."""
    new = creation.plan_topic(world.ensemble, "a.b", partitions=1)
    creation.create_topic(world.ensemble, new)
    with pytest.raises(ConflictError, match=r"/brokers/topics/.* exists already"):
        creation.create_topic(world.ensemble, new)
    with pytest.raises(ConflictError, match="collides"):
        creation.create_topic(world.ensemble, creation.plan_topic(world.ensemble, "a_b", partitions=1))
    world.server.put(TopicDeletion.path("gone"), b"")
    with pytest.raises(ConflictError, match="being deleted"):
        creation.create_topic(world.ensemble, creation.plan_topic(world.ensemble, "gone", partitions=1))


def test_topics_of_a_real_cluster_are_described(world: MemoryGroups) -> None:
    """Partitions, leaders, ISR and overrides as Kafka 0.8.2.2 wrote them."""
    operator = world.operator(RecordedStore("kafka-0.8.2.2/11-no-live-replica.jsonl"))

    _, (orders,), _ = listing.describe_topics(operator, ["orders"])

    assert [row.partition for row in orders.partitions] == [0, 1, 2, 3, 4, 5]
    without = [row.partition for row in orders.partitions if row.leader == -1]
    assert without == [2, 3, 5]
    assert listing.is_under_replicated(orders.partitions[0])
    assert listing.is_unavailable(orders.partitions[2], [1])
    assert not listing.is_unavailable(orders.partitions[0], [orders.partitions[0].leader or 0])


def test_overrides_and_new_keys_are_shown(world: MemoryGroups) -> None:
    """A reassignment of Kafka 2.4 and later shows what is added and removed."""
    operator = world.operator(RecordedStore("kafka-3.9.1/10-reassign-running.jsonl"))

    _, described, _ = listing.describe_topics(operator)

    moving = [row for topic in described for row in topic.partitions if row.adding or row.removing]
    assert moving
    assert all(set(row.adding) <= set(row.replicas) for row in moving)


def test_listed_topics_have_size_and_deletion(world: MemoryGroups) -> None:
    """One row a topic; unreadable ones are rows too."""
    world.topic("orders", 3)
    world.topic("__consumer_offsets", 1)
    world.server.put(Topic.path("broken"), b"{")
    world.server.put(TopicDeletion.path("orders"), b"")

    _, rows = listing.list_topics(world.ensemble)

    told = [
        (row.topic, row.partitions, row.replication_factor, row.internal, row.marked_for_deletion)
        for row in rows
    ]
    assert told == [
        ("__consumer_offsets", 1, 1, True, False),
        ("broken", None, None, False, False),
        ("orders", 3, 1, False, True),
    ]


def test_states_and_configurations_that_cannot_be_read_hide_no_partition(world: MemoryGroups) -> None:
    """The topic is described as far as it can be read, with the errors."""
    world.topic("orders", 2)
    state, config = "/brokers/topics/orders/partitions/1/state", "/config/topics/orders"
    world.server.put(state, b"junk")
    world.server.put(config, b"{")

    _, (orders,), others = listing.describe_topics(world.ensemble)

    assert others == ()
    assert [error.path for error in orders.unreadable] == [config, state]
    assert [(row.partition, row.leader, row.isr) for row in orders.partitions][1] == (1, None, None)
    assert orders.configs is None


def test_a_missing_topic_is_not_found(world: MemoryGroups) -> None:
    """Asked for by name, it must exist."""
    with pytest.raises(NotFoundError, match="/brokers/topics/orders"):
        listing.describe_topics(world.ensemble, ["orders"])


def test_without_a_controller_the_znodes_are_removed(world: MemoryGroups) -> None:
    """Topic, configuration, partitions and a waiting request go; nothing else does."""
    world.topic("other", 1)
    creation.create_topic(world.ensemble, creation.plan_topic(world.ensemble, "orders", partitions=2))
    world.server.put("/brokers/topics/orders/partitions/0/state", b"{}")
    world.server.put(TopicDeletion.path("orders"), b"")

    delete_topic(world.ensemble, plan_topic_deletion(world.ensemble, "orders"))

    left = [path for path in world.server.tree() if "orders" in path]
    assert left == []
    assert world.server.find(Topic.path("other")) is not None


def test_with_a_controller_the_request_is_left_to_it(world: MemoryGroups) -> None:
    """`/admin/delete_topics/<t>` is created without data as by Kafka's tool, and the topic stays."""
    world.topic("orders", 1)
    _controller(world)
    plan = plan_topic_deletion(world.ensemble, "orders")

    delete_topic(world.ensemble, plan)

    request = world.server.find(TopicDeletion.path("orders"))
    recorded = next(
        golden_data.data_of(record)
        for record in golden_data.lines("kafka-0.8.2.2/12-deletion-waiting-for-brokers.jsonl")
        if record["path"] == "/admin/delete_topics/orders"
    )
    assert request is not None
    assert request.data == recorded
    assert plan.controller == 1
    assert world.server.find(Topic.path("orders")) is not None
    with pytest.raises(ConflictError, match="already"):
        delete_topic(world.ensemble, plan_topic_deletion(world.ensemble, "orders"))


def test_the_rest_of_a_topic_is_the_controllers_while_it_is_at_it(world: MemoryGroups) -> None:
    """Topic gone, request still there: with a controller wait, without one the rest is deleted."""
    _controller(world)
    for path in ("/config/topics/orders", "/admin/delete_topics/orders"):
        world.server.put(path, b"{}")

    with pytest.raises(ConflictError, match="/admin/delete_topics/orders"):
        plan_topic_deletion(world.ensemble, "orders")
    world.write(Delete(ControllerRegistration.path(), 0))
    plan = plan_topic_deletion(world.ensemble, "orders")
    delete_topic(world.ensemble, plan)

    assert (plan.leftover, [znode.path for znode in plan.znodes]) == (
        True,
        ["/config/topics/orders", "/admin/delete_topics/orders"],
    )
    with pytest.raises(NotFoundError, match="zkgroup topic list"):
        plan_topic_deletion(world.ensemble, "orders")


def test_a_topic_with_members_on_it_is_refused(world: MemoryGroups) -> None:
    """Also where a wildcard means it; the members are named."""
    world.topic("orders", 1)
    world.member("g", "a", {"orders": 1})
    world.member("h", "b", {"clicks": 1})

    with pytest.raises(RefusedError, match="g_a of g"):
        delete_topic(world.ensemble, plan_topic_deletion(world.ensemble, "orders"))

    assert world.server.find(Topic.path("orders")) is not None


def test_a_group_that_wakes_up_meanwhile_refuses_the_deletion(world: MemoryGroups) -> None:
    """A group with offsets of the topic must stay without members in the very transaction."""
    world.topic("orders", 1)
    world.server.put("/consumers/g/ids")
    world.commit("g", "orders", 0, 1)
    plan = plan_topic_deletion(world.ensemble, "orders")
    join = before_nth(Multi, 1, lambda: world.member("g", "late", {"orders": 1}))

    with pytest.raises(RefusedError, match="/consumers/g/ids"):
        delete_topic(world.operator(MeddledStore(world.server.client(), join)), plan)

    assert plan.idle_groups == ("g",)
    assert world.server.find(Topic.path("orders")) is not None


@pytest.mark.parametrize("controller", [False, True])
def test_a_group_that_joins_after_the_preview_refuses_the_deletion(
    world: MemoryGroups, controller: bool
) -> None:
    """Past bug: only groups that had used the topic before were checked again, so its records were lost."""
    world.topic("orders", 1)
    if controller:
        _controller(world)
    change = delete_topic_change(world.ensemble, plan_topic_deletion(world.ensemble, "orders"))
    world.member("new", "a", {"orders": 1})
    before = world.server.tree()

    with pytest.raises(RefusedError, match="new_a of new"):
        change.write(ChangeRecord(undo_id="x", command="topic delete orders", user="me"))

    assert world.server.tree() == before


def test_a_controller_that_comes_up_meanwhile_stops_the_removal(world: MemoryGroups) -> None:
    """With an active controller it deletes the znodes: partly done, and the next run asks it."""
    world.topic("orders", 1)
    for number in range(DELETES_AT_ONCE // 2 + 1):
        world.server.put(f"/brokers/topics/orders/partitions/{number}/state", b"{}")
    store = MeddledStore(world.server.client(), before_nth(Multi, 1, lambda: _controller(world)))

    with pytest.raises(PartlyDoneError, match="/controller"):
        delete_topic(world.operator(store), plan_topic_deletion(world.ensemble, "orders"))

    assert world.server.find(Topic.path("orders")) is not None


def test_a_topic_that_changes_meanwhile_is_a_conflict(world: MemoryGroups) -> None:
    """A partition added since the plan was read is not thrown away unseen."""
    world.topic("orders", 1)
    plan = plan_topic_deletion(world.ensemble, "orders")
    world.topic("orders", 2)

    with pytest.raises(ConflictError, match="/brokers/topics/orders"):
        delete_topic(world.ensemble, plan)

    assert world.server.find(Topic.path("orders")) is not None
    world.write(Create("/unrelated", None))
