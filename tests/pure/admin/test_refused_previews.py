"""A preview is refused what its execution would be: making a change raises what its write refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.change import AdminChange
from zkgroup.admin.groups import delete_group_change, nudge, nudge_group_change, plan_deletion, plan_nudge
from zkgroup.admin.offsets.changes import set_offsets_change
from zkgroup.admin.reassign.proposals import PhasedPlan, PlanRequest, make_plan, planner_decommission
from zkgroup.admin.reassign.stored_plans import (
    CANCELLED,
    PAUSED,
    cancel_plan_change,
    pause_plan_change,
    resume_plan_change,
    save_plan_change,
    start_plan_change,
    stop,
)
from zkgroup.admin.topics.deletion import delete_topic_change, plan_topic_deletion
from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.errors import ConflictError, RefusedError, ZkGroupError
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import BrokerRegistration

Change = AdminChange[Any, Any, Any]


def _group(world: MemoryGroups) -> None:
    world.topic("orders", 1)
    world.member("g", "a", {"orders": 1})
    world.own_as_planned("g")


def _nudged(world: MemoryGroups) -> Change:
    nudge(world.ensemble, plan_nudge(world.ensemble, "g"))
    return nudge_group_change(world.ensemble, plan_nudge(world.ensemble, "g"))


def _owned_still(world: MemoryGroups) -> Change:
    """The owner znode is of a session that has no registration."""
    world.server.remove("/consumers/g/ids/g_a")
    return delete_group_change(world.ensemble, plan_deletion(world.ensemble, "g"))


GROUPS: dict[str, tuple[Callable[[MemoryGroups], Change], type[ZkGroupError], str]] = {
    "nudge": (_nudged, RefusedError, "nudged less than 10 s ago"),
    "delete a group": (
        lambda world: delete_group_change(world.ensemble, plan_deletion(world.ensemble, "g")),
        RefusedError,
        "g_a",
    ),
    "delete an owned one": (_owned_still, RefusedError, "expected no owner, found 0 by g_a-0"),
    "set offsets": (
        lambda world: set_offsets_change(world.ensemble, "g", {TopicPartition("orders", 0): 5}),
        RefusedError,
        "g_a",
    ),
    "delete a topic": (
        lambda world: delete_topic_change(world.ensemble, plan_topic_deletion(world.ensemble, "orders")),
        RefusedError,
        "g_a of g",
    ),
}


@pytest.mark.parametrize("name", GROUPS)
def test_changes_of_groups(world: MemoryGroups, name: str) -> None:
    """Members, owners, and a nudge that has just been."""
    make, error, told = GROUPS[name]
    _group(world)

    with pytest.raises(error, match=told):
        make(world)


def _found(world: MemoryGroups) -> PhasedPlan:
    return make_plan(world.ensemble, planner_decommission([1]), PlanRequest(max_moves=1))


def _stored(world: MemoryGroups, name: str, state: str, throttle: int | None = None) -> None:
    change = save_plan_change(world.ensemble, _found(world), user="ada", throttle=throttle)
    one = change.write(ChangeRecord(undo_id=name, command="", user="ada"))
    if state == CANCELLED:
        stop(world.ensemble, one, CANCELLED)


def _resumed(world: MemoryGroups) -> Change:
    return resume_plan_change(world.ensemble, "p")


def _beside_another(world: MemoryGroups) -> Change:
    start = start_plan_change(world.ensemble, _found(world), user="ada")
    start.write(ChangeRecord(undo_id="q", command="", user="ada"))
    return _resumed(world)


def _beside_brokers_of_0_8(world: MemoryGroups) -> Change:
    """A broker has come that ignores the throttle with which the plan was saved."""
    old = BrokerRegistration.decode("", b'{"host":"h","port":9092,"version":1,"jmx_port":-1,"timestamp":"1"}')
    world.hold(BrokerRegistration.path(9), old.encode())
    return _resumed(world)


PLANS: dict[str, tuple[str, Callable[[MemoryGroups], Change], type[ZkGroupError], str]] = {
    "resume a cancelled one": (CANCELLED, _resumed, RefusedError, "the plan is cancelled"),
    "resume beside another": (PAUSED, _beside_another, ConflictError, "plan q is running"),
    "resume with a throttle": (PAUSED, _beside_brokers_of_0_8, RefusedError, "--throttle"),
    "pause a cancelled one": (
        CANCELLED,
        lambda world: pause_plan_change(world.ensemble, "p"),
        RefusedError,
        "already",
    ),
    "cancel a cancelled one": (
        CANCELLED,
        lambda world: cancel_plan_change(world.ensemble, "p"),
        RefusedError,
        "already",
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_changes_of_stored_plans(world: MemoryGroups, name: str) -> None:
    """Beside a controller of Kafka, where the command itself submits the next phase."""
    state, make, error, told = PLANS[name]
    MemoryCluster(world).topic("orders", (1, 2), (2, 1), (1, 2))
    _stored(world, "p", state, throttle=1000)

    with pytest.raises(error, match=told):
        make(world)


@pytest.mark.parametrize("make", [start_plan_change, save_plan_change])
def test_a_throttle_that_no_broker_obeys(world: MemoryGroups, make: Callable[..., Change]) -> None:
    """Kafka before 0.10.1, also for a plan that is only saved."""
    MemoryCluster(world, release="0.8.2.2").topic("orders", (1, 2), (2, 1), (1, 2))

    with pytest.raises(RefusedError, match="--throttle"):
        make(world.ensemble, _found(world), user="ada", throttle=1000)
