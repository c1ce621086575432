"""Reassignments: checked, submitted, verified, cancelled."""

from __future__ import annotations

import json

import pytest

from tests.worlds.memory_cluster import MemoryCluster, move
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stores import MeddledStore, RecordedStore, before_nth
from zkgroup.admin.reassign.cancellation import cancel, plan_cancel
from zkgroup.admin.reassign.progress import (
    ReassignmentProgress,
    list_reassignments,
    verify_reassignments,
    wait_for_reassignments,
)
from zkgroup.admin.reassign.submission import plan_reassignment, submit
from zkgroup.admin.reassign.throttles import clear_throttles, read_throttles
from zkgroup.errors import ConfigError, ConflictError, NotFoundError, RefusedError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Multi
from zkgroup.znodes.admin_requests import Reassignment, TopicDeletion
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.config_settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from zkgroup.znodes.controller import ControllerRegistration

ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def cluster(world: MemoryGroups) -> MemoryCluster:
    """Three brokers of 1.1.1 and a topic of two partitions on two of them."""
    made = MemoryCluster(world)
    made.topic("orders", (1, 2), (2, 1), **{"retention.ms": "5"})
    return made


def test_a_request_has_kafkas_keys_and_only_what_changes(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """Exactly the keys that 2.8.2 binds; unchanged partitions are left out."""
    plan = plan_reassignment(world.ensemble, [move("orders", 0, 3, 1), move("orders", 1, 2, 1)])
    submit(world.ensemble, plan)

    found = world.server.find(Reassignment.path())
    assert found is not None
    assert json.loads(found.data or b"") == {
        "version": 1,
        "partitions": [{"topic": "orders", "partition": 0, "replicas": [3, 1]}],
    }
    assert plan.rollback == {ORDERS_0: (1, 2)}
    assert (plan.moves, [row.changes for row in plan.rows]) == (1, [True, False])


def test_a_second_request_is_refused_and_the_first_one_named(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """Whether it runs before the plan or comes up after it, nothing is changed."""
    plan = plan_reassignment(world.ensemble, [move("orders", 0, 3, 1)], throttle=1000)
    cluster.request(move("orders", 1, 3, 1))

    with pytest.raises(ConflictError, match="orders-1"):
        submit(world.ensemble, plan)
    with pytest.raises(ConflictError, match="zkgroup reassign list"):
        plan_reassignment(world.ensemble, [move("orders", 0, 3, 1)])

    assert cluster.requested() == {TopicPartition("orders", 1): (3, 1)}
    assert cluster.notifications() == []


def test_a_request_that_comes_up_in_the_last_moment_leaves_no_throttle(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """Throttles and request are one transaction."""
    plan = plan_reassignment(world.ensemble, [move("orders", 0, 3, 1)], throttle=1000)
    other = before_nth(Multi, 1, lambda: cluster.request(move("orders", 1, 3, 1)))
    store = MeddledStore(world.server.client(), other)

    with pytest.raises(ConflictError, match="orders-1"):
        submit(world.operator(store), plan)

    assert cluster.overrides("/config/brokers/1") == {}
    assert cluster.overrides("/config/topics/orders") == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("moves", "error", "told"),
    [
        ([move("orders", 7, 3)], NotFoundError, "orders-7"),
        ([move("nothing", 0, 3)], NotFoundError, "nothing-0"),
        ([move("orders", 0, 9, 1)], ConfigError, "broker 9 is not registered"),
    ],
)
def test_what_cannot_be_moved_is_refused_by_name(
    world: MemoryGroups,
    cluster: MemoryCluster,
    moves: list,
    error: type,
    told: str,  # type: ignore[type-arg]
) -> None:
    """One clear error and nothing written (controller.md 4.2, the column of zkgroup)."""
    with pytest.raises(error, match=told):
        plan_reassignment(world.ensemble, moves)

    assert cluster.requested() is None


def test_a_dead_target_needs_force_and_a_controller_that_waits(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """controller.md K12: before 0.10.2 such a move is dropped, so it is refused even with force."""
    plan = plan_reassignment(world.ensemble, [move("orders", 0, 9, 1)], force=True)
    assert "waits for it" in plan.notes[0]

    cluster.broker(3, "0.8.2.2")
    with pytest.raises(RefusedError, match=r"0\.10\.2 drop such a move"):
        plan_reassignment(world.ensemble, [move("orders", 0, 9, 1)], force=True)


def test_what_will_not_happen_is_said_before(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """No controller, a topic that is being deleted, nothing to copy from."""
    world.server.put(TopicDeletion.path("orders"), b"")
    cluster.state("orders", 0, -1, (8,))
    cluster.no_controller()

    notes = plan_reassignment(world.ensemble, [move("orders", 0, 3, 1)]).notes

    assert [note.split(":")[0] for note in notes] == [
        "there is no active controller",
        "topic orders is being deleted",
        "orders-0",
    ]


def test_a_controller_that_hosts_nothing_is_no_target(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """Not even with force (recipes 14)."""
    cluster.broker(9, zkgroup={"role": "controller"})

    with pytest.raises(ConfigError, match="hosts nothing"):
        plan_reassignment(world.ensemble, [move("orders", 0, 9)], force=True)


def test_a_migrated_cluster_is_refused(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """A KRaft controller does not read the request."""
    world.server.put(
        ControllerRegistration.path(), ControllerRegistration(1, 1, 2, {"kraftControllerEpoch": 3}).encode()
    )

    with pytest.raises(RefusedError, match="KRaft"):
        plan_reassignment(world.ensemble, [move("orders", 0, 3)])


def test_an_oversized_request_is_refused_before_anything_is_sent(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """With a clear message, and the tree as it was."""
    name = "wide" * 40
    cluster.topic(name, *[(1, 2)] * 5000)
    before = world.server.tree()

    with pytest.raises(ConfigError, match=r"expected at most 900000 bytes"):
        plan_reassignment(world.ensemble, [move(name, number, 3, 1) for number in range(5000)])

    assert world.server.tree() == before


def test_throttles_come_with_the_request_and_are_removed_alone(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """Rates of all brokers concerned, old and added replicas, other settings kept."""
    plan = plan_reassignment(world.ensemble, [move("orders", 0, 3, 1)], throttle=1000)
    submit(world.ensemble, plan)

    rates = {LEADER_RATE: "1000", FOLLOWER_RATE: "1000"}
    assert [cluster.overrides(f"/config/brokers/{number}") for number in (1, 2, 3)] == [rates] * 3
    assert cluster.overrides("/config/topics/orders") == {
        "retention.ms": "5",
        LEADER_REPLICAS: "0:1,0:2",
        FOLLOWER_REPLICAS: "0:3",
    }
    operations = world.server.log[-1].operations
    assert [operation.path for operation in operations][-1] == Reassignment.path()
    assert len(cluster.notifications()) == 4

    cleared = clear_throttles(world.ensemble, read_throttles(world.ensemble, ["orders"]))

    assert cleared == 4
    assert cluster.overrides("/config/topics/orders") == {"retention.ms": "5"}
    assert not read_throttles(world.ensemble, ["orders"])


def test_a_throttle_that_no_broker_applies_is_refused(world: MemoryGroups) -> None:
    """Brokers before 0.10.1 ignore it, and 0.8.2.2's tools then refuse to alter the topic."""
    cluster = MemoryCluster(world, release="0.8.2.2")
    cluster.topic("orders", (1, 2))

    with pytest.raises(RefusedError, match=r"0\.10\.1 ignore it"):
        plan_reassignment(world.ensemble, [move("orders", 0, 3, 1)], throttle=1000)


def test_verify_reports_the_status_of_each_partition(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """Done, moving, elsewhere, at old and new together, and no such partition; order counts."""
    cluster.topic("clicks", (1, 2), (3, 1), (1, 2, 3), (1, 2))
    cluster.request(move("clicks", 0, 3, 1))
    asked = [
        move("clicks", 0, 3, 1),
        move("clicks", 1, 3, 1),
        move("clicks", 2, 3, 1),
        move("clicks", 3, 2, 1),
    ]

    _, rows = verify_reassignments(world.ensemble, [*asked, move("clicks", 9, 1)])

    assert [row.status for row in rows] == ["in_progress", "done", "failed", "failed", "failed"]
    assert rows[0].before == (1, 2)
    assert "old and new replicas together" in (rows[2].detail or "")
    assert "is on [1, 2] and nothing moves it" in (rows[3].detail or "")


def test_a_reassignment_to_another_target_is_distinguished(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """Kafka's tool says "in progress" whatever the target is."""
    cluster.request(move("orders", 0, 3, 9))

    _, (row,) = verify_reassignments(world.ensemble, [move("orders", 0, 3, 1)])

    assert row.status == "in_progress"
    assert row.detail == "is being moved to [3, 9] instead; broker 9 is not registered"


def test_moves_asked_for_by_api_are_under_way_without_a_request(world: MemoryGroups) -> None:
    """`adding_replicas` alone says so, on a tree of Kafka 2.8.2."""
    operator = world.operator(RecordedStore("kafka-2.8.2/10-reassign-running.jsonl"))

    _, rows, unreadable = list_reassignments(operator)
    first = rows[0]
    _, verified = verify_reassignments(
        operator, [move(first.topic_partition.topic, first.topic_partition.partition, *first.target)]
    )

    assert unreadable == ()
    assert {row.status for row in rows} == {"in_progress"}
    assert all(row.before is not None and set(row.before) != set(row.target) for row in rows)
    assert [row.status for row in verified] == ["in_progress"]


def test_a_partition_that_is_moving_by_api_is_not_asked_for(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """2.4 and later would replace the running move."""
    topic = Topic({0: (3, 1, 2)}, version=2, adding={0: (3,)}, removing={0: (2,)})
    world.server.put(Topic.path("orders"), topic.encode())

    with pytest.raises(ConflictError, match="API"):
        plan_reassignment(world.ensemble, [move("orders", 0, 2, 1)])


def test_waiting_reports_progress_and_ends_with_the_last_reassignment(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """Each check is reported; the wait ends when no reassignment is in progress."""
    moves = [move("orders", 0, 3, 1), move("orders", 1, 3, 2)]
    cluster.request(*moves)
    told: list[ReassignmentProgress] = []

    def pass_time(seconds: float) -> None:
        world.pass_time(seconds)
        if len(told) == 3:
            cluster.finish()

    operator = world.operator(world.server.client(), pass_time)
    _, rows = wait_for_reassignments(operator, moves, 60, told.append)

    assert [row.status for row in rows] == ["done", "done"]
    assert [progress.done for progress in told] == [0, 0, 0, 2]
    assert told[-1].per_minute == pytest.approx(40)


def test_waiting_ends_with_the_time(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """Reassignments in progress at that time are reported as such."""
    cluster.request(move("orders", 0, 3, 1))

    _, (row,) = wait_for_reassignments(world.ensemble, [move("orders", 0, 3, 1)], 5, lambda _: None)

    assert row.status == "in_progress"


def test_time_left_follows_from_what_was_done_while_waiting() -> None:
    """Reassignments that were complete before are not part of the rate."""
    progress = ReassignmentProgress(done=6, total=10, elapsed_ms=60_000, done_before=4)

    assert (progress.per_minute, progress.left_ms) == (2.0, 120_000)
    assert ReassignmentProgress(done=4, total=10, elapsed_ms=60_000, done_before=4).left_ms is None


def test_only_a_zkgroup_controller_is_asked_to_cancel(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """Refused before any write if a Kafka controller is active, or none (recipes 17)."""
    cluster.request(move("orders", 0, 3, 1))

    with pytest.raises(RefusedError, match="is a Kafka controller"):
        plan_cancel(world.ensemble)
    cluster.no_controller()
    with pytest.raises(RefusedError, match="there is no active controller"):
        plan_cancel(world.ensemble)

    assert cluster.requested() == {ORDERS_0: (3, 1)}


def test_a_cancelled_move_gets_its_former_replicas_as_target(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """From the topic's own keys, else from the rollback file; other entries stay."""
    cluster.ours()
    cluster.request(move("orders", 0, 3, 1), move("orders", 1, 3, 2))
    topic = Topic({0: (3, 1, 2), 1: (3, 2, 1)}, version=2, adding={0: (3,)}, removing={0: (2,)})
    world.server.put(Topic.path("orders"), topic.encode())

    cancel(world.ensemble, plan_cancel(world.ensemble, [ORDERS_0]))
    with pytest.raises(RefusedError, match="rollback file"):
        plan_cancel(world.ensemble)
    second = plan_cancel(world.ensemble, [TopicPartition("orders", 1)], [move("orders", 1, 2, 1)])
    cancel(world.ensemble, second)

    assert cluster.requested() == {ORDERS_0: (1, 2), TopicPartition("orders", 1): (2, 1)}


def test_a_cancel_loses_to_another_controller(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """The transaction itself checks that a zkgroup controller is active."""
    cluster.ours()
    cluster.request(move("orders", 0, 3, 1))
    plan = plan_cancel(world.ensemble)

    def deposed() -> None:
        cluster.no_controller()
        world.hold(ControllerRegistration.path(), ControllerRegistration(2, 1).encode())

    with pytest.raises(ConflictError, match="/controller"):
        cancel(world.operator(MeddledStore(world.server.client(), before_nth(Multi, 1, deposed))), plan)

    assert cluster.requested() == {ORDERS_0: (3, 1)}


def test_nothing_to_cancel_is_not_found(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """No request, or not of this partition."""
    cluster.ours()
    with pytest.raises(NotFoundError, match="no reassignment runs"):
        plan_cancel(world.ensemble)
    cluster.request(move("orders", 0, 3, 1))
    with pytest.raises(NotFoundError, match="orders-1 is not being moved"):
        plan_cancel(world.ensemble, [TopicPartition("orders", 1)])


def test_a_move_asked_for_through_the_brokers_api_is_not_denied(world: MemoryGroups) -> None:
    """`reassign list` shows it, so a cancel says who can cancel it, instead of that nothing runs."""
    operator = world.operator(RecordedStore("kafka-3.9.1/10-reassign-running.jsonl"))

    for partitions in ([], [TopicPartition("move", 1)]):
        with pytest.raises(RefusedError, match=r"/brokers/topics/move: the move of .*brokers' own API"):
            plan_cancel(operator, partitions)
    with pytest.raises(NotFoundError, match="no reassignment runs"):
        plan_cancel(operator, [TopicPartition("plain", 1)])
