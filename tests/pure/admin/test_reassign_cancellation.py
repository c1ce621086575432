"""The old replica lists that a cancelled reassignment returns to, and a request that cannot be read."""

from __future__ import annotations

import pytest

from tests.worlds.memory_cluster import MemoryCluster, move
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stores import MeddledStore, before_nth
from zkgroup.admin.reassign.cancellation import (
    CancelPlan,
    Execution,
    cancel,
    plan_cancel,
    plan_removal,
    remove,
)
from zkgroup.admin.reassign.progress import list_reassignments, nothing_moves, verify_reassignments
from zkgroup.admin.reassign.submission import plan_reassignment
from zkgroup.admin.reassign.throttles import Throttled
from zkgroup.admin.status import diagnose, read_status
from zkgroup.errors import ConflictError, RefusedError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Multi, SetData
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.config import EntityConfig
from zkgroup.znodes.config_settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_REPLICAS
from zkgroup.znodes.reassignment_records import StoredPlan

ORDERS_0 = TopicPartition("orders", 0)
GARBAGE = b"garbage{"


@pytest.fixture
def cluster(world: MemoryGroups) -> MemoryCluster:
    """A zkgroup controller that moves orders-0 from [4, 1, 2] to [3, 1, 2]."""
    made = MemoryCluster(world, brokers=4)
    made.ours()
    made.request(move("orders", 0, 3, 1, 2))
    topic = Topic({0: (3, 1, 2, 4)}, version=2, adding={0: (3,)}, removing={0: (4,)})
    world.server.put(Topic.path("orders"), topic.encode())
    return made


def _execution(file: str, before: tuple[int, ...], after: tuple[int, ...]) -> Execution:
    return Execution(file, {ORDERS_0: before}, {ORDERS_0: after})


def _goes_back_to(plan: CancelPlan) -> tuple[int, ...]:
    (row,) = plan.rows
    return row.after


def test_the_order_is_taken_from_the_latest_execution_that_fits(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """The same target and the same replicas; others say nothing about this move."""
    executions = [
        Execution("another-partition", {TopicPartition("orders", 1): (4, 1, 2)}, {}),
        _execution("another-target", (1, 4, 2), (3, 2, 1)),
        _execution("other-replicas", (4, 1), (3, 1, 2)),
        _execution("fits", (4, 1, 2), (3, 1, 2)),
        _execution("older", (2, 1, 4), (3, 1, 2)),
    ]

    plan = plan_cancel(world.ensemble, executions=executions)

    assert _goes_back_to(plan) == (4, 1, 2)
    assert (plan.files, plan.unordered) == ({ORDERS_0: "fits"}, ())


def test_an_unknown_order_of_replicas_is_reported_as_unknown(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """The replicas are those of before; a file that was given is asked nothing about."""
    plan = plan_cancel(world.ensemble)
    given = plan_cancel(world.ensemble, rollback=[move("orders", 0, 4, 1, 2)])

    assert (_goes_back_to(plan), plan.unordered) == ((1, 2, 4), (ORDERS_0,))
    assert (_goes_back_to(given), given.unordered, given.files) == ((4, 1, 2), (), {})


def test_a_request_that_the_controller_has_set_to_what_it_was_is_cancelled_as_shown(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """Past bug: it had another version, so the command said that it had changed."""
    plan = plan_cancel(world.ensemble)
    world.server.put(Reassignment.path(), Reassignment((move("orders", 0, 3, 1, 2),)).encode())
    cancel(world.ensemble, plan)

    assert cluster.requested() == {ORDERS_0: (1, 2, 4)}


def test_a_request_that_asks_for_something_else_by_now_is_not_cancelled(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """The change that was shown is made, or none."""
    plan = plan_cancel(world.ensemble)
    world.server.put(Reassignment.path(), Reassignment((move("orders", 0, 1, 2),)).encode())
    with pytest.raises(ConflictError):
        cancel(world.ensemble, plan)

    assert cluster.requested() == {ORDERS_0: (1, 2)}


def test_a_move_that_has_not_begun_needs_no_execution(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """Its list is the old one, in its order; a single replica has but one order."""

    def unasked() -> Execution:
        raise AssertionError

    for topic in (
        Topic({0: (4, 1, 2)}),
        Topic({0: (3, 1, 2, 4)}, version=2, adding={0: (3, 1, 2)}, removing={0: (4,)}),
    ):
        world.server.put(Topic.path("orders"), topic.encode())
        plan = plan_cancel(world.ensemble, executions=(unasked() for _ in range(1)))
        assert (plan.files, plan.unordered) == ({}, ())


def test_an_execution_separates_old_replicas_from_new_ones(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """Before 2.4 the topic does not have the old list: old list and target must make up the replicas."""
    world.server.put(Topic.path("orders"), Topic({0: (3, 1, 2, 4)}).encode())

    plan = plan_cancel(world.ensemble, executions=[_execution("fits", (4, 1, 2), (3, 1, 2))])
    with pytest.raises(RefusedError, match="old and new together"):
        plan_cancel(world.ensemble, executions=[_execution("odd", (1, 2), (3, 1, 2))])

    assert (_goes_back_to(plan), plan.files) == ((4, 1, 2), {ORDERS_0: "fits"})


@pytest.mark.parametrize(("kind", "told"), [("ours", "stops where"), ("real", "from memory"), ("none", None)])
def test_what_the_removal_of_a_request_means_is_said_before(
    world: MemoryGroups, kind: str, told: str | None
) -> None:
    """A controller keeps started reassignments in memory; without a controller there is no note."""
    cluster = MemoryCluster(world)
    if kind == "ours":
        cluster.ours()
    elif kind == "none":
        cluster.no_controller()
    world.server.put(Reassignment.path(), GARBAGE)

    plan = plan_removal(world.ensemble)
    assert plan is not None
    remove(world.ensemble, plan)

    assert plan.znode.data == GARBAGE
    assert (told or "") in (plan.note or "")
    assert (plan.note is None) == (told is None)
    assert world.server.find(Reassignment.path()) is None
    assert plan_removal(world.ensemble) is None


def test_a_request_that_changes_meanwhile_is_not_removed(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """The deletion has the version that was shown; a readable request is not removed at all."""
    assert plan_removal(world.ensemble) is None
    world.server.put(Reassignment.path(), GARBAGE)
    plan = plan_removal(world.ensemble)
    assert plan is not None
    good = Reassignment((move("orders", 0, 1),)).encode()
    version = plan.znode.stat.version

    def mended() -> None:
        world.write(SetData(Reassignment.path(), good, version))

    with pytest.raises(ConflictError, match="changed since it was read"):
        remove(world.operator(MeddledStore(world.server.client(), before_nth(Multi, 1, mended))), plan)

    assert cluster.requested() == {ORDERS_0: (1,)}


def test_a_request_that_cannot_be_read_is_no_stillness(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """It is named by path, refuses others with what to do, and `doctor` finds it."""
    world.server.put(Topic.path("orders"), Topic({0: (3, 1, 2)}).encode())
    world.server.put(Reassignment.path(), GARBAGE)

    _, rows, unreadable = list_reassignments(world.ensemble)
    with pytest.raises(ConflictError, match="zkgroup reassign cancel"):
        plan_reassignment(world.ensemble, [move("orders", 0, 1)])
    status = read_status(world.ensemble)
    found = {one.subject: one.next for one in diagnose(status, wanted_timeout_ms=0)}

    assert (rows, [error.path for error in unreadable]) == ((), [Reassignment.path()])
    assert not nothing_moves(world.ensemble)
    assert list(status.unreadable) == [Reassignment.path()]
    assert found[Reassignment.path()] == "zkgroup reassign cancel"


def test_a_throttle_is_left_where_nothing_moves_and_no_plan_runs(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """Not while something moves; by brokers and topics, and with the command."""
    rate = EntityConfig({FOLLOWER_RATE: "1000"}).encode()
    world.server.put("/config/brokers/3", rate)

    moving = read_status(world.ensemble)
    cluster.finish()
    world.server.put(Topic.path("orders"), Topic({0: (3, 1, 2)}).encode())
    plan = StoredPlan(((move("orders", 0, 3, 1, 2),),), "running", 0, 1, "ada")
    world.server.put(StoredPlan.path("p"), plan.encode())
    planned = read_status(world.ensemble)
    world.server.put(StoredPlan.path("p"), plan.at(0, "paused").encode())
    still = read_status(world.ensemble)
    told = [one for one in diagnose(still, wanted_timeout_ms=0) if one.subject == "throttle"]

    assert (moving.throttle_left, planned.throttle_left) == (None, None)
    assert still.throttle_left == Throttled({3: {FOLLOWER_RATE: "1000"}}, {})
    assert [(one.severity, one.detail, one.next) for one in told] == [
        (
            "warning",
            "broker 3: throttled, and nothing moves",
            "zkgroup reassign verify --clear-throttle --execute",
        )
    ]


@pytest.mark.parametrize(
    ("lists", "of_moves"), [({"orders": "0:1,0:2"}, True), ({"orders": "*"}, False), ({}, False)]
)
def test_a_throttle_of_every_replica_was_set_by_an_operator(lists: dict[str, str], of_moves: bool) -> None:
    """Moves name replicas one by one; a rate alone slows nothing."""
    topics = {topic: {LEADER_REPLICAS: value} for topic, value in lists.items()}

    assert Throttled({1: {FOLLOWER_RATE: "1"}}, topics).is_of_moves is of_moves


def test_a_rate_without_a_throttled_replica_was_set_by_hand() -> None:
    """A reassignment sets the rates of brokers that its topics name; unreadable lists name none."""
    rates = {broker: {FOLLOWER_RATE: "1"} for broker in (1, 2, 3, 4)}
    topics = {
        "orders": {LEADER_REPLICAS: "0:1", FOLLOWER_REPLICAS: "0:2"},
        "odd": {LEADER_REPLICAS: "x"},
        "all": {LEADER_REPLICAS: "*"},
    }

    assert sorted(Throttled(rates, topics).of_moves().brokers) == [1, 2]
    assert sorted(Throttled(rates, {}).of_moves([3]).brokers) == [3]
    assert Throttled(rates, topics).of_moves().topics == topics


def test_a_move_that_was_never_asked_for_is_not_called_dropped(world: MemoryGroups) -> None:
    """More replicas than the file has: the possible causes share one message."""
    MemoryCluster(world).topic("orders", (2, 3, 1))

    _, (row,) = verify_reassignments(world.ensemble, [move("orders", 0, 2, 3)])

    assert row.status == "failed"
    assert "has not been asked for since, or a controller has dropped it" in (row.detail or "")
