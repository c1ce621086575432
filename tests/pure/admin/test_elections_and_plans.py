"""Preferred elections, proposals and plans, Kafka's files, brokers and controllers."""

from __future__ import annotations

import json

import pytest

from tests.worlds.memory_cluster import MemoryCluster, move
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.cluster.brokers import describe_broker, list_brokers
from zkgroup.admin.cluster.controller import (
    controller_history,
    describe_controller,
    note_on_deletion,
    read_controller_info,
)
from zkgroup.admin.elections import check_outcomes, elect_preferred, plan_preferred, wait_for_election
from zkgroup.admin.files import (
    parse_partitions,
    parse_reassignment,
    parse_topics,
    reassignment_text,
)
from zkgroup.admin.reassign.proposals import (
    PlanRequest,
    make_plan,
    planner_balance,
    planner_decommission,
    planner_replace,
    planner_set_rf,
    propose,
)
from zkgroup.admin.reassign.submission import plan_reassignment
from zkgroup.errors import (
    ConfigError,
    ConflictError,
    CorruptZnodeError,
    NotFoundError,
    PartlyDoneError,
    PlanRefusedError,
    RefusedError,
)
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete
from zkgroup.znodes.admin_requests import PreferredElection, TopicDeletion
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.controller import ControllerRecord, ControllerStatus


def _candidates(cluster: MemoryCluster) -> None:
    cluster.topic("orders", (1, 2), (2, 1), (9, 1), (3, 1), (1, 3))
    cluster.topic("leaving", (2, 1))
    cluster.state("orders", 1, 1, (1, 2))
    cluster.state("orders", 2, 1, (1,))
    cluster.state("orders", 3, 1, (1,))
    cluster.state("orders", 4, -1, (1, 3))
    cluster.state("leaving", 0, 1, (1, 2))
    cluster.world.server.put(TopicDeletion.path("leaving"), b"")


def test_only_leaders_that_change_are_asked_for(world: MemoryGroups) -> None:
    """First replica alive and in sync, and not leading already; the others say why they stay."""
    cluster = MemoryCluster(world)
    _candidates(cluster)

    plan = plan_preferred(world.ensemble, None)
    elect_preferred(world.ensemble, plan)

    assert [(str(row.topic_partition), row.outcome) for row in plan.rows] == [
        ("leaving-0", "being_deleted"),
        ("orders-0", "leads"),
        ("orders-1", "elects"),
        ("orders-2", "not_live"),
        ("orders-3", "not_in_isr"),
        ("orders-4", "elects"),
    ]
    found = world.server.find(PreferredElection.path())
    assert found is not None
    assert json.loads(found.data or b"") == {
        "version": 1,
        "partitions": [{"topic": "orders", "partition": 1}, {"topic": "orders", "partition": 4}],
    }


def test_an_unreadable_state_is_reported_with_its_path(world: MemoryGroups) -> None:
    """Past bug: it was reported as a partition that no controller has created yet."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", *[(1, 2)] * 8)
    paths = [PartitionState.path(TopicPartition("orders", number)) for number in range(8)]
    for path in paths[1:]:
        world.server.put(path, b"{")
    world.write(Delete(paths[0], -1))

    plan = plan_preferred(world.ensemble, None)
    one = plan_preferred(world.ensemble, [TopicPartition("orders", 3)])

    assert [(row.outcome, row.leader) for row in plan.rows] == [
        ("no_state", None),
        *[("unreadable", None)] * 7,
    ]
    assert [note.partition(": expected")[0] for note in plan.notes] == [
        *(f"cannot be read: {path}" for path in paths[1:6]),
        "2 more states cannot be read",
    ]
    assert [note.partition(": expected")[0] for note in one.notes] == [f"cannot be read: {paths[3]}"]


@pytest.mark.parametrize(
    ("outcomes", "shown", "executed"),
    [
        (["leads"], None, None),
        (["leads", "elects"], None, None),
        (["not_live", "no_state"], RefusedError, RefusedError),
        (["not_live", "elects"], None, PartlyDoneError),
        (["not_live", "leads"], None, PartlyDoneError),
        (["unreadable"], PartlyDoneError, PartlyDoneError),
        (["unreadable", "not_live"], PartlyDoneError, PartlyDoneError),
    ],
)
def test_no_election_that_was_refused_passes_for_done(
    outcomes: list[str], shown: type[Exception] | None, executed: type[Exception] | None
) -> None:
    """All refused, or some; a preview is no success where its execution would be none. For both elections."""
    rows = [(TopicPartition("orders", number), outcome) for number, outcome in enumerate(outcomes)]

    for acts, kind in ((False, shown), (True, executed)):
        if kind is None:
            check_outcomes(rows, ("elects", "leads"), executed=acts)
            continue
        with pytest.raises(kind, match=r"orders-0") as told:
            check_outcomes(rows, ("elects", "leads"), executed=acts)
        assert type(told.value) is kind


def test_many_refused_partitions_are_counted() -> None:
    """The first five are named, each with why."""
    rows = [(TopicPartition("orders", number), "not_live") for number in range(7)]

    with pytest.raises(RefusedError, match=r"orders-0 \(not live\), .*, orders-4 \(not live\) and 2 more$"):
        check_outcomes(rows, ("elects",), executed=True)


def test_an_unreadable_topic_is_reported(world: MemoryGroups) -> None:
    """Its partitions are not known: asked for all, the plan names it; asked for one of them, that is why."""
    MemoryCluster(world).topic("orders", (1, 2))
    world.server.put(Topic.path("odd"), b"{")

    plan = plan_preferred(world.ensemble, None)

    assert [error.path for error in plan.unreadable] == [Topic.path("odd")]
    with pytest.raises(PartlyDoneError, match=Topic.path("odd")):
        check_outcomes([], (), executed=False, unreadable=plan.unreadable)
    with pytest.raises(CorruptZnodeError, match=Topic.path("odd")):
        plan_preferred(world.ensemble, [TopicPartition("odd", 0)])


def test_an_unknown_partition_is_never_asked_for(world: MemoryGroups) -> None:
    """controller.md K18: controllers before 2.2 leave such a request for ever."""
    MemoryCluster(world).topic("orders", (1, 2))

    with pytest.raises(NotFoundError, match="orders-7"):
        plan_preferred(world.ensemble, [TopicPartition("orders", 7)])


def test_a_second_election_is_a_conflict(world: MemoryGroups) -> None:
    """Before and after the plan."""
    cluster = MemoryCluster(world)
    _candidates(cluster)
    plan = plan_preferred(world.ensemble, None)
    elect_preferred(world.ensemble, plan)

    with pytest.raises(ConflictError, match="asked for already"):
        elect_preferred(world.ensemble, plan)
    with pytest.raises(ConflictError, match="asked for already"):
        plan_preferred(world.ensemble, None)


@pytest.mark.parametrize("leader", [2, 1])
def test_waiting_ends_when_the_request_is_gone_and_reports_the_leaders(
    world: MemoryGroups, leader: int
) -> None:
    """A controller takes the request away whatever came of it."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", (2, 1))
    cluster.state("orders", 0, 1, (1, 2))
    plan = plan_preferred(world.ensemble, None)
    elect_preferred(world.ensemble, plan)

    def controller(_: float) -> None:
        cluster.state("orders", 0, leader, (1, 2))
        world.write(Delete(PreferredElection.path(), 0))

    operator = world.operator(world.server.client(), controller)
    led = wait_for_election(operator, plan, 10)

    assert led is (leader == 2)


def test_a_proposal_deals_anew_and_shows_what_is(world: MemoryGroups) -> None:
    """As Kafka's `--generate` with a fixed start (examples B of 6.1)."""
    MemoryCluster(world).topic("orders", *[(1, 2)] * 4)

    found = propose(world.ensemble, ["orders"], [1, 2, 3])

    assert list(found.after.values()) == [(1, 2), (2, 3), (3, 1), (1, 3)]
    assert set(found.before.values()) == {(1, 2)}
    assert found.moves == 3
    with pytest.raises(ConfigError, match="broker 9: not registered, or hosting nothing; there are 1, 2, 3"):
        propose(world.ensemble, ["orders"], [1, 9])
    with pytest.raises(NotFoundError, match="nothing"):
        propose(world.ensemble, ["nothing"], [1])


def test_plans_come_with_requests_that_can_be_carried_out(world: MemoryGroups) -> None:
    """Each phase is a file for `reassign execute`; the result of all phases is the requested one."""
    cluster = MemoryCluster(world, 4)
    cluster.topic("orders", (1, 2), (2, 3), (3, 1), (1, 3))

    found = make_plan(world.ensemble, planner_decommission([1]), PlanRequest(max_moves=1))
    for phase in found.phases:
        asked = [move(*one.topic_partition, *one.after) for one in phase.changes]
        cluster.request(*plan_reassignment(world.ensemble, asked).request.moves)
        cluster.finish()

    assert found.plan.moves == len(found.phases) == 3
    assert all(1 not in replicas for replicas in cluster.replicas("orders").values())


def test_each_kind_of_plan_reads_the_same_cluster(world: MemoryGroups) -> None:
    """Replaced, given another number of replicas, evened out."""
    cluster = MemoryCluster(world, 4)
    cluster.topic("orders", (1, 2), (1, 2))

    replaced = make_plan(world.ensemble, planner_replace({1: 4}), PlanRequest(allow=("balance",))).plan
    thinner = make_plan(world.ensemble, planner_set_rf(1, None), PlanRequest()).plan
    even = make_plan(world.ensemble, planner_balance(leaders_only=False, tolerance=None), PlanRequest()).plan

    assert set(replaced.target.values()) == {(4, 2)}
    assert {len(replicas) for replicas in thinner.target.values()} == {1}
    assert even.after.replica_spread == 0


def test_what_is_being_deleted_is_in_no_plan(world: MemoryGroups) -> None:
    """A controller drops moves of a topic that is queued for deletion."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", (1, 2))
    cluster.topic("leaving", (1, 2))
    world.server.put(TopicDeletion.path("leaving"), b"")
    sizes = {TopicPartition("orders", 0): 10, TopicPartition("leaving", 0): 10}

    for wish in (PlanRequest(), PlanRequest(sizes=sizes)):
        found = make_plan(world.ensemble, planner_decommission([1]), wish)
        assert [change.topic_partition.topic for change in found.plan.changes] == ["orders"]
        assert "topic leaving is being deleted: it is left out" in found.notes


def test_a_plan_that_cannot_be_is_refused_by_name(world: MemoryGroups) -> None:
    """Too few brokers stay; nothing is planned while something moves."""
    cluster = MemoryCluster(world, 2)
    cluster.topic("orders", (1, 2))

    with pytest.raises(PlanRefusedError, match="set-rf"):
        make_plan(world.ensemble, planner_decommission([1]), PlanRequest())
    cluster.request(move("orders", 0, 2, 1))
    with pytest.raises(ConflictError, match="runs already"):
        make_plan(world.ensemble, planner_decommission([1]), PlanRequest())


def test_a_file_goes_round() -> None:
    """A written file is read again; `any` in log_dirs means no log directory is requested."""
    text = reassignment_text({TopicPartition("t", 1): (2, 1), TopicPartition("t", 0): (1, 2)})

    assert text == (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]},'
        '{"topic":"t","partition":1,"replicas":[2,1]}]}'
    )
    assert parse_reassignment("f", text) == (move("t", 0, 1, 2), move("t", 1, 2, 1))
    with_folders = text.replace('"replicas":[2,1]', '"replicas":[2,1],"log_dirs":["any","any"]')
    assert parse_reassignment("f", with_folders) == parse_reassignment("f", text)


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ("", "at least one partition"),
        ('{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}', "twice"),
        ('{"topic":"t","partition":0,"replicas":[1,1]}', "each broker once"),
        ('{"topic":"t","partition":0,"replicas":[]}', "expected replicas"),
        ('{"topic":"t/u","partition":0,"replicas":[1]}', "t/u"),
        ('{"topic":"t","partition":-1,"replicas":[1]}', "-1"),
        ('{"topic":"t","partition":0}', "replicas"),
        ('{"topic":"t","partition":0,"replicas":[1],"log_dirs":["/a"]}', "log_dirs"),
    ],
)
def test_a_wrong_file_is_one_error_with_its_place(entries: str, told: str) -> None:
    """controller.md 4.2, the column of zkgroup."""
    with pytest.raises(ConfigError, match=told) as raised:
        parse_reassignment("moves.json", f'{{"version":1,"partitions":[{entries}]}}')

    assert "moves.json" in str(raised.value)


def test_a_file_of_another_version_is_refused() -> None:
    """As Kafka's own tool does since 2.x; without a version it is taken, as before that."""
    entry = '{"topic":"t","partition":0,"replicas":[1]}'
    with pytest.raises(ConfigError, match="expected version 1, found 2"):
        parse_reassignment("f", f'{{"version":2,"partitions":[{entry}]}}')
    assert parse_reassignment("f", f'{{"partitions":[{entry}]}}') == (move("t", 0, 1),)


def test_a_key_that_stands_twice_is_refused() -> None:
    """JSON keeps the last of the two, so the moves of the first would be dropped."""
    partitions = '"partitions":[{"topic":"t","partition":0,"replicas":[1]}]'
    for parse in (parse_reassignment, parse_partitions):
        with pytest.raises(ConfigError, match="'partitions' twice"):
            parse("f", f'{{"version":1,{partitions},{partitions.replace(":0", ":1")}}}')


@pytest.mark.parametrize(
    "text", ["", "[]", '{"topics":[]}', '{"topics":[1]}', '{"topics":[{"topic":"a"},{"topic":"a"}]}']
)
def test_wrong_lists_of_topics_are_refused(text: str) -> None:
    """For `generate`; the file of an election likewise."""
    with pytest.raises(ConfigError, match=r"topics\.json"):
        parse_topics("topics.json", text)
    with pytest.raises(ConfigError, match=r"topics\.json"):
        parse_partitions("topics.json", text)
    assert parse_topics("f", '{"topics":[{"topic":"a"},{"topic":"b"}],"version":1}') == ("a", "b")


def test_brokers_are_listed_with_the_fields_of_their_registrations(world: MemoryGroups) -> None:
    """Version, epoch, kind, role, active controller; an unreadable one is named and hides no other."""
    cluster = MemoryCluster(world, 1, "0.8.2.2")
    cluster.broker(2, zkgroup={"role": "controller"})
    world.hold(BrokerRegistration.path(3), b"{")

    _, rows, unreadable = list_brokers(world.ensemble)

    told = [(row.broker, row.version, row.kind, row.role, row.controller) for row in rows]
    assert told == [(1, 1, "kafka", "data", True), (2, 4, "zkgroup", "controller", False)]
    assert unreadable[0].path == "/brokers/ids/3"
    with pytest.raises(CorruptZnodeError, match="/brokers/ids/3"):
        describe_broker(world.ensemble, 3)
    with pytest.raises(NotFoundError, match="broker 9"):
        describe_broker(world.ensemble, 9)


def test_a_broker_is_described_with_what_it_hosts(world: MemoryGroups) -> None:
    """Replicas, leaders, first replicas, and those out of sync."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", (1, 2), (2, 1), (3, 2))
    cluster.state("orders", 1, 1, (1,))

    _, one = describe_broker(world.ensemble, 2)

    assert (one.replicas, one.leaders, one.preferred) == (3, 0, 1)
    assert one.out_of_sync == (TopicPartition("orders", 1),)


def test_the_controller_is_described_by_its_kind(world: MemoryGroups) -> None:
    """Only a zkgroup controller has a zxid, that of its epoch; without a controller NotFoundError."""
    cluster = MemoryCluster(world)
    real = describe_controller(world.ensemble)[1]
    cluster.ours()
    world.hold(ControllerStatus.path(), ControllerStatus(1, 7, 2**40, 5).encode())
    ours = describe_controller(world.ensemble)[1]
    world.hold(ControllerStatus.path(), ControllerStatus(1, 6, 2**40, 5).encode())
    former = describe_controller(world.ensemble)[1]
    cluster.no_controller()

    assert (real.controller, real.epoch, real.kind, real.last_processed_zxid) == (1, 7, "kafka", None)
    assert (ours.kind, ours.last_processed_zxid, former.last_processed_zxid) == ("zkgroup", 2**40, None)
    with pytest.raises(NotFoundError, match="last epoch was 7"):
        describe_controller(world.ensemble)


def test_the_history_has_the_latest_epoch_first(world: MemoryGroups) -> None:
    """Unreadable records are named; names that are no epoch are passed over."""
    for epoch in (9, 10):
        world.server.put(ControllerRecord.path(epoch), ControllerRecord(1, 5, "first", 1).encode())
    world.server.put(ControllerRecord.path(11), b"{")
    world.server.put(ControllerRecord.path(8), ControllerRecord(1, 4, "x", 1).over(2, "asked to").encode())
    world.server.put("/zkgroup/controller/history/x", b"{")

    _, rows, unreadable = controller_history(world.ensemble)

    assert [row.epoch for row in rows] == [10, 9, 8]
    assert [row.record.ended for row in rows] == [None, "its session ended", "asked to"]
    assert [text.partition(":")[0] for text in unreadable] == [ControllerRecord.path(11)]


def test_what_a_release_makes_of_a_deletion_is_said(world: MemoryGroups) -> None:
    """delete.topic.enable is off by default before 1.0; the releases from 2.7 on are recognised."""
    cluster = MemoryCluster(world, 1, "0.8.2.2")
    oldest = note_on_deletion(read_controller_info(world.ensemble))
    cluster.broker(1, "1.1.1")
    middle = note_on_deletion(read_controller_info(world.ensemble))
    cluster.broker(1, "2.8.2")

    assert "the request stays" in (oldest or "")
    assert "delete.topic.enable=true" in (middle or "")
    assert note_on_deletion(read_controller_info(world.ensemble)) is None
