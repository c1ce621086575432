"""Topics created without brokers, beside brokers: every command recognises them and reports no problem."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.cluster.brokers import describe_broker
from zkgroup.admin.elections import plan_preferred, plan_unclean
from zkgroup.admin.reassign.proposals import PlanRequest, make_plan, planner_balance, planner_set_rf, propose
from zkgroup.admin.reassign.submission import plan_reassignment, submit
from zkgroup.admin.status import read_findings, read_status
from zkgroup.admin.topics.alteration import AddedPartitions, alter_topic, plan_alteration
from zkgroup.admin.topics.creation import create_topic, plan_topic
from zkgroup.admin.topics.deletion import delete_topic, plan_topic_deletion
from zkgroup.admin.topics.listing import describe_topics, is_unavailable, only
from zkgroup.admin.undo import (
    plan_restoration,
    restore_znodes,
)
from zkgroup.admin.undo_records import UndoRecord
from zkgroup.errors import ConfigError, ConflictError, PlacementError, RefusedError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete
from zkgroup.znodes.admin_requests import Move
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.znodes.stray_replicas import UnhostedTopic, unhosted_topics_path

TP = TopicPartition("work", 0)
MARK = UnhostedTopic.path("work")
Maker = Callable[[MemoryGroups], None]


def made(world: MemoryGroups, name: str = "work") -> None:
    """`topic create` where no broker is registered."""
    create_topic(world.ensemble, plan_topic(world.ensemble, name, partitions=2))


def made_before_marks(world: MemoryGroups) -> None:
    """The same in a tree of an earlier version."""
    world.topic("work", 2)


def put(world: MemoryGroups, path: str, data: bytes | None = None) -> None:
    """With its parents."""
    parts = path.strip("/").split("/")
    for end in range(1, len(parts)):
        world.parent("/" + "/".join(parts[:end]))
    world.server.put(path, data)


def broker(world: MemoryGroups, number: int) -> None:
    ours = BrokerRegistration("h", 9092, timestamp_ms=1, extensions={"zkgroup": {"role": "data"}})
    world.hold(BrokerRegistration.path(number), ours.encode())


def hosted(world: MemoryGroups, name: str, leader: int, *replicas: int) -> None:
    """A topic of one partition that has a state."""
    put(world, Topic.path(name), Topic({0: replicas}).encode())
    tp = TopicPartition(name, 0)
    put(world, PartitionState.path(tp), PartitionState(leader, 0, replicas, 1).encode())


def controller(world: MemoryGroups, *, is_zkgroup: bool = True) -> None:
    data = ControllerRegistration(1, 1).encode()
    world.hold(ControllerRegistration.path(), data)
    if is_zkgroup:
        world.hold(ControllerRegistration.path(), data)  # version 1 marks ours


def cluster(world: MemoryGroups, maker: Maker = made, *, is_zkgroup: bool = True) -> None:
    """The topic `work`, then brokers 1 to 3 with a topic that they host, and a controller."""
    maker(world)
    for number in (1, 2, 3):
        broker(world, number)
    hosted(world, "orders", 1, 1, 2)
    controller(world, is_zkgroup=is_zkgroup)


makers = pytest.mark.parametrize("maker", [made, made_before_marks])


def test_the_mark_is_of_the_same_transaction_as_the_topic(world: MemoryGroups) -> None:
    """So its czxid is the topic's. The mark of an earlier topic is created again."""
    made(world)
    world.write(Delete(Topic.path("work"), -1), Delete("/config/topics/work", -1))
    old = world.server.find(MARK)
    made(world)

    topic, mark = world.server.find(Topic.path("work")), world.server.find(MARK)
    assert old is not None
    assert topic is not None
    assert mark is not None
    assert mark.stat.czxid == topic.stat.czxid > old.stat.czxid


def test_brokers_that_are_named_or_live_leave_no_mark(world: MemoryGroups) -> None:
    """A topic for broker 0, which starts later, differs from a topic without brokers in an older tree."""
    create_topic(
        world.ensemble, plan_topic(world.ensemble, "named", partitions=None, replica_assignment=[[0]])
    )
    broker(world, 0)
    create_topic(world.ensemble, plan_topic(world.ensemble, "dealt", partitions=1))

    _, described, _ = describe_topics(world.ensemble)
    assert [(one.topic, one.unhosted) for one in described] == [("dealt", False), ("named", False)]
    assert world.ensemble.zk.children(unhosted_topics_path())[0] == ()


@makers
def test_status_and_doctor_are_quiet(world: MemoryGroups, maker: Maker) -> None:
    """None of its partitions is offline, also with broker 0 there; `topic describe` explains it."""
    cluster(world, maker)
    broker(world, 0)

    status = read_status(world.ensemble)
    _, findings = read_findings(world.ensemble, wanted_timeout_ms=status.session_timeout_ms)
    assert (status.offline, status.under_replicated) == (0, 0)
    assert not [finding for finding in findings if "work" in finding.subject]
    _, described, _ = describe_topics(world.ensemble, ["orders", "work"])
    assert [one.unhosted for one in described] == [False, True]
    assert only(described, lambda row: is_unavailable(row, [1, 2, 3])) == ()


def test_a_topic_of_broker_0_without_a_leader_is_noted(world: MemoryGroups) -> None:
    """The same lists, no mark, in a tree that knows marks: it waits for its controller."""
    cluster(world)
    broker(world, 0)
    made_after = Topic({0: (0,)}).encode()
    put(world, Topic.path("new"), made_after)

    _, findings = read_findings(world.ensemble, wanted_timeout_ms=1)
    assert [each.detail for each in findings if each.subject == "topic new"] == [
        "no live leader for partition 0"
    ]


@makers
def test_elections_pass_it_over(world: MemoryGroups, maker: Maker) -> None:
    """Without named partitions it is left out; if it is named, it is reported as unhosted."""
    cluster(world, maker)

    assert {row.topic_partition.topic for row in plan_preferred(world.ensemble, None).rows} == {"orders"}
    (row,) = plan_preferred(world.ensemble, [TP]).rows
    (unclean,) = plan_unclean(world.ensemble, [TP]).rows
    assert (row.outcome, unclean.outcome) == ("unhosted", "unhosted")


@makers
def test_plans_leave_it_where_it_is_not(world: MemoryGroups, maker: Maker) -> None:
    """It has no load and is not moved; to be planned for, it has to have brokers. Sizes need not name it."""
    cluster(world, maker)
    broker(world, 0)
    sizes = {TopicPartition("orders", 0): 10}

    plan = make_plan(
        world.ensemble, planner_balance(leaders_only=False, tolerance=None), PlanRequest(sizes=sizes)
    )
    assert (plan.plan.before.loads[0].replicas, plan.plan.before.loads[1].replicas) == (0, 1)
    assert not [move for move in plan.plan.changes if move.topic_partition.topic == "work"]
    with pytest.raises(ConfigError, match="topic alter work --replica-assignment"):
        make_plan(world.ensemble, planner_set_rf(2, ["work"]), PlanRequest(topics=["work"]))
    proposed = propose(world.ensemble, ["work"], [1, 2, 3])
    assert {tp.topic for tp in proposed.after} == {"work"}


@makers
def test_broker_0_does_not_count_it(world: MemoryGroups, maker: Maker) -> None:
    """It hosts nothing of it, and is the preferred leader of nothing."""
    cluster(world, maker)
    broker(world, 0)

    _, described = describe_broker(world.ensemble, 0)
    assert (described.replicas, described.preferred, described.hosted) == (0, 0, ())


@makers
def test_its_deletion_waits_for_no_broker(world: MemoryGroups, maker: Maker) -> None:
    """A zkgroup controller deletes it at once, without a note on broker 0; a Kafka controller waits."""
    cluster(world, maker)
    assert plan_topic_deletion(world.ensemble, "work").notes == ()

    world.write(Delete(ControllerRegistration.path(), -1))
    controller(world, is_zkgroup=False)
    notes = plan_topic_deletion(world.ensemble, "work").notes
    assert any("broker 0 is not registered" in note for note in notes)


def test_the_mark_goes_with_the_topic_and_comes_back_with_it(world: MemoryGroups) -> None:
    """Without a controller; `undo` creates both in one transaction, so that the mark is valid again."""
    made(world)
    plan = plan_topic_deletion(world.ensemble, "work")
    delete_topic(world.ensemble, plan)
    assert world.server.find(MARK) is None
    assert world.server.log[-1].operations[-1].path in {Topic.path("work"), MARK}

    record = UndoRecord(
        undo_id="1",
        time_ms=1,
        command="topic delete",
        zookeeper="z",
        znodes=tuple((znode.path, znode.data) for znode in plan.znodes),
    )
    restore_znodes(world.ensemble, plan_restoration(world.ensemble, record))
    assert describe_topics(world.ensemble, ["work"])[1][0].unhosted


def test_a_mark_without_its_topic_can_be_deleted(world: MemoryGroups) -> None:
    """A Kafka controller deletes the topic and leaves the mark."""
    made(world)
    world.write(Delete(Topic.path("work"), -1), Delete("/config/topics/work", -1))

    plan = plan_topic_deletion(world.ensemble, "work")
    assert plan.leftover
    delete_topic(world.ensemble, plan)
    assert world.server.find(MARK) is None


@makers
def test_topic_alter_gives_it_brokers(world: MemoryGroups, maker: Maker) -> None:
    """All lists are the named ones, broker 0 included, and the mark is deleted in the same transaction."""
    cluster(world, maker)
    broker(world, 0)
    plan = plan_alteration(world.ensemble, "work", AddedPartitions(replica_assignment=[[0], [0]]))
    alter_topic(world.ensemble, plan)

    (topic,) = describe_topics(world.ensemble, ["work"])[1]
    assert not topic.unhosted
    assert world.server.find(MARK) is None
    paths = {operation.path for operation in world.server.log[-1].operations}
    assert paths == {Topic.path("work"), *([MARK] if maker is made else [])}


def test_more_partitions_come_with_the_first_brokers(world: MemoryGroups) -> None:
    """Lists of old and new ones; all old ones need one, of brokers that are there."""
    cluster(world)
    named = AddedPartitions(replica_assignment=[[1, 2], [2, 3], [3, 1]])
    plan = plan_alteration(world.ensemble, "work", named)
    assert plan.after.partitions == {0: (1, 2), 1: (2, 3), 2: (3, 1)}
    assert "with empty logs" in plan.notes[0]

    with pytest.raises(PlacementError, match="partition 1: expected brokers"):
        plan_alteration(world.ensemble, "work", AddedPartitions(replica_assignment=[[1]]))
    with pytest.raises(PlacementError, match="broker 7 is not registered"):
        plan_alteration(world.ensemble, "work", AddedPartitions(replica_assignment=[[1], [7]]))
    alter_topic(world.ensemble, plan)
    with pytest.raises(ConflictError, match="changed since"):
        alter_topic(world.ensemble, plan)


@makers
def test_it_grows_without_brokers_where_none_is_named(world: MemoryGroups, maker: Maker) -> None:
    """Also next to brokers; one of an older tree gets a mark, as it is no older than marks any more."""
    cluster(world, maker)
    plan = plan_alteration(world.ensemble, "work", AddedPartitions(partitions=3))
    alter_topic(world.ensemble, plan)
    broker(world, 0)

    (topic,) = describe_topics(world.ensemble, ["work"])[1]
    assert [row.replicas for row in topic.partitions] == [(0,)] * 3
    assert topic.unhosted
    assert "--replica-assignment names some" in plan.notes[0]


def test_a_reassignment_of_it_copies_nothing_and_has_no_rollback(world: MemoryGroups) -> None:
    """Its brokers begin with empty logs; other partitions wait for broker 0, which a note says."""
    cluster(world)
    plan = plan_reassignment(world.ensemble, [Move(TP, (1, 2))], throttle=1_000)
    assert (plan.moves, plan.rollback, plan.configs) == (0, {}, ())
    assert [note for note in plan.notes if "work" in note] == [
        "work was made without brokers: the named brokers host it from now on, with empty logs",
        "not named, and so waiting for broker 0: work-1",
    ]

    broker(world, 0)
    back = plan_reassignment(world.ensemble, [Move(TP, (0,))])
    assert [row.topic_partition for row in back.effective] == [TP]
    submit(world.ensemble, back)


def test_no_brokers_are_given_while_a_controller_of_kafka_is_active(world: MemoryGroups) -> None:
    """It moves nothing without a state, and keeps to the lists that it has read."""
    cluster(world, is_zkgroup=False)

    with pytest.raises(RefusedError, match="create it again with brokers"):
        plan_reassignment(world.ensemble, [Move(TP, (1, 2))])
    with pytest.raises(RefusedError, match="create it again with brokers"):
        plan_alteration(world.ensemble, "work", AddedPartitions(replica_assignment=[[1], [2]]))
