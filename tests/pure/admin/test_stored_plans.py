"""Stored plans: saved, started, resumed beside a Kafka controller, paused, failed, finished."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.memory_cluster import MemoryCluster, move
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.change import AdminChange
from zkgroup.admin.reassign.progress import ReassignmentProgress, ReassignmentStatus
from zkgroup.admin.reassign.proposals import PhasedPlan, PlanRequest, make_plan, planner_decommission
from zkgroup.admin.reassign.stored_plans import (
    PlanDescription,
    PlanStep,
    begin,
    find_plan,
    list_plans,
    next_step,
    prune,
    run_plan,
    running_plans,
    save_plan_change,
    start_plan_change,
    stop,
    take_throttles_off,
)
from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.errors import ConfigError, ConflictError, NotFoundError, RefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete
from zkgroup.znodes.admin_requests import Reassignment, TopicDeletion
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.reassignment_records import StoredPlan

QUIET: Callable[[ReassignmentProgress], object] = lambda progress: None  # noqa: E731


@pytest.fixture
def cluster(world: MemoryGroups) -> MemoryCluster:
    """Three partitions on brokers 1 and 2; one copy at a time empties broker 1 in three phases."""
    made = MemoryCluster(world)
    made.topic("orders", (1, 2), (2, 1), (1, 2))
    return made


def _found(world: MemoryGroups) -> PhasedPlan:
    return make_plan(world.ensemble, planner_decommission([1]), PlanRequest(max_moves=1))


def _kept(
    world: MemoryGroups, *, start: bool = True, throttle: int | None = None, name: str = "p"
) -> PlanDescription:
    return _stored(_change(world, start=start, throttle=throttle), name)


def _change(
    world: MemoryGroups, *, start: bool = True, throttle: int | None = None
) -> AdminChange[PhasedPlan, PlanDescription, Any]:
    make = start_plan_change if start else save_plan_change
    return make(world.ensemble, _found(world), user="ada", throttle=throttle)


def _stored(change: AdminChange[PhasedPlan, PlanDescription, Any], name: str) -> PlanDescription:
    return change.write(ChangeRecord(undo_id=name, command="", user="ada"))


def _finishing(world: MemoryGroups, cluster: MemoryCluster) -> Ensemble:
    """A Kafka controller that has completed the request by the next check."""

    def controller(seconds: float) -> None:
        world.pass_time(seconds)
        if cluster.requested() is not None:
            cluster.finish()

    return world.operator(world.server.client(), controller)


def test_a_plan_is_carried_on_phase_by_phase(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """Over a controller of Kafka, one request at a time, with progress, to its end (recipes 17)."""
    one = _kept(world)
    seen: list[ReassignmentProgress] = []

    ended = run_plan(_finishing(world, cluster), "p", 60, seen.append)

    assert (len(one.stored.phases), one.done, one.total) == (3, 0, 3)
    assert (ended.stored.state, ended.stored.next_phase, ended.done) == ("done", 3, 3)
    assert {tuple(sorted(brokers)) for brokers in cluster.replicas("orders").values()} == {(2, 3)}
    assert [progress.done for progress in seen] == sorted(progress.done for progress in seen)
    assert seen[-1].left_ms == 0
    assert cluster.requested() is None


def test_the_next_command_continues_where_the_last_one_ended(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """A phase that was asked for is not asked for again; the request and the plan move on together."""
    _kept(world)

    first = run_plan(world.ensemble, "p", 0, QUIET)
    again = run_plan(world.ensemble, "p", 0, QUIET)
    asked = cluster.requested()
    cluster.finish()
    third = run_plan(world.ensemble, "p", 0, QUIET)

    assert (first.stored.next_phase, again.stored.next_phase, third.stored.next_phase) == (1, 1, 2)
    assert asked is not None
    assert len(asked) == 1
    assert cluster.requested() != asked


def test_a_zkgroup_controller_continues_a_plan(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """The command only waits; with a Kafka controller it prints a note first."""
    told = _change(world).notes
    cluster.ours()
    silent = _change(world).notes
    _kept(world)

    waited = run_plan(world.ensemble, "p", 3, QUIET)

    assert ["plan resume ID" in note for note in told] == [True]
    assert silent == ()
    assert (waited.stored.state, waited.stored.next_phase, cluster.requested()) == ("running", 0, None)


def test_a_phase_that_did_not_come_to_its_end_stops_the_plan(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """Resumed, it asks for that phase again."""
    _kept(world)
    run_plan(world.ensemble, "p", 0, QUIET)
    asked = cluster.requested()
    world.write(Delete(Reassignment.path(), -1))  # dropped: the lists are as they were

    failed = run_plan(world.ensemble, "p", 60, QUIET)
    resumed = begin(world.ensemble, failed)
    ended = run_plan(_finishing(world, cluster), "p", 60, QUIET)

    assert (failed.stored.state, "is not on its target replicas" in failed.stored.reason) == ("failed", True)
    assert asked is not None
    assert str(next(iter(asked))) in failed.stored.reason
    assert (resumed.stored.state, resumed.stored.next_phase, resumed.stored.reason) == ("running", 0, "")
    assert ended.stored.state == "done"


def test_a_topic_that_is_gone_holds_nothing_up(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """Its moves are passed over, asked for or not."""
    _kept(world)
    for number in range(3):
        world.write(Delete(f"/brokers/topics/orders/partitions/{number}/state", -1))
        world.write(Delete(f"/brokers/topics/orders/partitions/{number}", -1))
    world.write(Delete("/brokers/topics/orders/partitions", -1))
    world.write(Delete(Topic.path("orders"), -1))

    ended = run_plan(world.ensemble, "p", 60, QUIET)

    assert (ended.stored.state, cluster.requested()) == ("done", None)


def test_a_topic_that_is_being_deleted_holds_nothing_up(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """A controller drops its moves; a plan that waited for them would fail by it."""
    cluster.topic("leaving", (1, 2))
    _kept(world)
    world.server.put(TopicDeletion.path("leaving"), b"")

    ended = run_plan(_finishing(world, cluster), "p", 60, QUIET)

    assert ended.stored.state == "done"
    assert cluster.replicas("leaving") == {0: (1, 2)}
    assert {tuple(sorted(brokers)) for brokers in cluster.replicas("orders").values()} == {(2, 3)}


def test_a_foreign_request_is_waited_for(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """It is neither taken for a phase nor written over."""
    cluster.topic("clicks", (2, 3))
    _kept(world)
    cluster.request(move("clicks", 0, 3, 2))

    waited = run_plan(world.ensemble, "p", 3, QUIET)
    ended = run_plan(_finishing(world, cluster), "p", 60, QUIET)

    assert waited.stored.next_phase == 0
    assert ended.stored.state == "done"


def test_one_plan_runs_at_a_time(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """Others can be saved; a finished plan is not resumed."""
    running = _kept(world)
    paused = _kept(world, start=False, name="q")

    with pytest.raises(ConflictError, match="plan p is running"):
        _change(world)
    with pytest.raises(ConflictError, match="plan pause p"):
        begin(world.ensemble, paused)
    with pytest.raises(ConflictError):
        _kept(world, start=False)
    cancelled = stop(world.ensemble, running, "cancelled", "because")
    with pytest.raises(RefusedError, match="is cancelled"):
        begin(world.ensemble, cancelled)
    with pytest.raises(RefusedError, match="is cancelled already"):
        stop(world.ensemble, cancelled, "paused")
    begun = begin(world.ensemble, paused)

    assert (begun.stored.state, begin(world.ensemble, begun)) == ("running", begun)
    assert [(one.plan, one.stored.state, one.done) for one in list_plans(world.ensemble)[0]] == [
        ("p", "cancelled", None),
        ("q", "running", 0),
    ]


def test_of_two_plans_that_begin_at_once_one_does(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """Neither tool sees the other's plan at its read: a started or resumed plan refuses the others."""
    paused = _kept(world, start=False, name="q")
    first, second, third = [_change(world) for _ in range(3)]

    begun = _stored(first, "p")
    with pytest.raises(ConflictError, match="run the command again"):
        _stored(second, "r")
    stop(world.ensemble, begun, "paused")
    begin(world.ensemble, paused)
    with pytest.raises(ConflictError, match="run the command again"):
        _stored(third, "s")

    assert running_plans(world.ensemble) == ("q",)
    assert [one.plan for one in list_plans(world.ensemble)[0]] == ["p", "q"]


def test_a_paused_plan_asks_for_nothing(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """A change has the version that was shown."""
    one = _kept(world)
    paused = stop(world.ensemble, one, "paused", "later")

    still = run_plan(world.ensemble, "p", 60, QUIET)

    assert (still.stored.state, still.stored.next_phase, cluster.requested()) == ("paused", 0, None)
    with pytest.raises(ConflictError, match="changed since it was read"):
        stop(world.ensemble, one, "cancelled")
    assert paused.stored.reason == "later"


def test_a_throttle_goes_with_each_phase_and_is_taken_off_at_the_end(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """In the transaction of the request; a controller of zkgroup takes its own off."""
    _kept(world, throttle=1000)
    before = cluster.overrides("/config/brokers/3")
    run_plan(world.ensemble, "p", 0, QUIET)
    rates = [set(cluster.overrides(f"/config/brokers/{number}").values()) for number in (1, 2, 3)]
    lists = cluster.overrides("/config/topics/orders")
    ended = run_plan(_finishing(world, cluster), "p", 60, QUIET)
    off, written = take_throttles_off(world.ensemble, ended)
    again = take_throttles_off(world.ensemble, off)
    cluster.ours()
    theirs = take_throttles_off(world.ensemble, ended)

    assert (before, rates) == ({}, [{"1000"}] * 3)
    assert lists["follower.replication.throttled.replicas"].endswith(":3")
    assert (written, off.stored.throttles_off, again, theirs) == (4, True, (off, 0), (ended, 0))
    assert cluster.overrides("/config/brokers/3") == {}
    assert cluster.overrides("/config/topics/orders") == {}


def test_brokers_that_ignore_a_throttle_are_noted(world: MemoryGroups) -> None:
    """Refused, also where the plan would begin later."""
    cluster = MemoryCluster(world, release="0.8.2.2")
    cluster.topic("orders", (1, 2))

    for start in (True, False):
        with pytest.raises(RefusedError, match=r"0\.10\.1 ignore it"):
            _change(world, throttle=1000, start=start)


def test_a_znode_that_is_no_plan_is_distinguished(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """An unknown id, a name that is none, a znode that cannot be read."""
    _kept(world, start=False)
    world.server.put(StoredPlan.path("odd"), b"{}")

    plans, unreadable = list_plans(world.ensemble)

    assert [one.plan for one in plans] == ["p"]
    assert [error.path for error in unreadable] == [StoredPlan.path("odd")]
    with pytest.raises(NotFoundError, match="plan list"):
        find_plan(world.ensemble, "none")
    with pytest.raises(ConfigError):
        find_plan(world.ensemble, "a/b")


def test_a_broker_that_is_gone_stops_the_command_not_the_plan(
    world: MemoryGroups, cluster: MemoryCluster
) -> None:
    """Once it is back the plan continues with the same phase."""
    _kept(world)
    world.write(Delete("/brokers/ids/3", -1))

    with pytest.raises(ConfigError, match="broker 3 is not registered"):
        run_plan(world.ensemble, "p", 60, QUIET)
    stays = find_plan(world.ensemble, "p")
    cluster.broker(3)

    assert (stays.stored.state, stays.stored.next_phase) == ("running", 0)
    assert run_plan(_finishing(world, cluster), "p", 60, QUIET).stored.state == "done"


def test_of_plans_that_are_over_the_last_hundred_stay(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """By their ends; one with throttles stays until they are off; a controller of zkgroup prunes itself."""
    stored = _kept(world, start=False, name="resting").stored
    for number in range(103):
        throttle = 1000 if number == 0 else None
        data = dataclasses.replace(stored, state="done", throttle=throttle).encode()
        world.ensemble.zk.multi(Create(StoredPlan.path(f"old-{number:03}"), data))

    assert prune(world.ensemble) == 2
    assert prune(world.ensemble) == 0
    names = [one.plan for one in list_plans(world.ensemble)[0]]
    left = [f"old-{number:03}" for number in (0, *range(3, 103))]
    assert sorted(names) == [*left, "resting"]


def _row(status: str) -> ReassignmentStatus:
    return ReassignmentStatus(topic_partition=TopicPartition("t", 0), before=None, target=(1,), status=status)


@pytest.mark.parametrize(
    ("asked", "status", "free", "action"),
    [
        (0, None, True, "submit"),
        (0, None, False, "wait"),
        (1, "done", True, "submit"),
        (1, "in_progress", True, "wait"),
        (1, "unknown", True, "wait"),
        (2, "done", False, "wait"),
        (2, "done", True, "finish"),
        (2, "failed", True, "fail"),
        (1, "failed", False, "wait"),
    ],
)
def test_the_next_step_follows_from_the_last_phase(
    asked: int, status: str | None, free: bool, action: str
) -> None:
    """The whole table."""
    stored = StoredPlan(((move("t", 0, 1),), (move("t", 0, 2),)), "running", asked, 0, "ada")

    step = next_step(stored, [_row(status)] if status else [], is_free=free)

    assert step.action == action
    assert step == PlanStep(action, step.reason)
    assert bool(step.reason) is (action == "fail")
