"""Rebalances in steps: `rebalance_moves_max` (recipes 4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.worlds.stepped_group import GROUP, SteppedGroup, claims, is_stable, owned, tp
from zkgroup.assignment.steps import RebalanceStep, next_step
from zkgroup.model import EvaluatedMember, Whitelist
from zkgroup.model.requests import Delete, ListChildren, Read
from zkgroup.settings import GroupSettings
from zkgroup.znodes.brokers import Topic, topics_path
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.group_records import StoredAssignment

PLAN = f"/consumers/{GROUP}/plan"


class WatchedPlan:
    """Counts the partitions that are on their way at each write of the assignment znode and of owners."""

    def __init__(self, stage: SteppedGroup) -> None:
        self.stage = stage
        self.most = 0

    def look(self) -> None:
        """Partitions that are planned for a member that does not have them yet."""
        plan = self.stage.server.find(PLAN)
        if plan is None:
            return
        planned = StoredAssignment.decode(PLAN, plan.data)
        owners = self.stage.owners()
        moving = [tp for tp, who in planned.owners.items() if f"{GROUP}_{owners.get(tp.partition)}" != who]
        self.most = max(self.most, len(moving))


def _settings(limit: int | None) -> GroupSettings:
    return GroupSettings(partition_assignment_strategy="sticky", rebalance_moves_max=limit)


def _plan(stage: SteppedGroup) -> StoredAssignment:
    znode = stage.server.find(PLAN)
    assert znode is not None
    return StoredAssignment.decode(PLAN, znode.data)


def test_partitions_of_living_members_move_so_many_at_a_time() -> None:
    """Six partitions, two more members: four moves, in steps of one; no step begins before the last is
    done."""
    stage = SteppedGroup({"t": 6})
    stage.join("a", settings=_settings(2))
    watched = WatchedPlan(stage)
    for name in "bc":
        stage.join(name, settings=_settings(1), run_ms=None)
    for _ in range(400):
        stage.run(10)
        watched.look()

    assert sorted(len(owned(actor)) for actor in stage.actors.values()) == [2, 2, 2]
    assert all(map(is_stable, stage.actors.values()))
    assert watched.most == 1
    assert _plan(stage).moving == {}
    views = [actor.machine.describe().owners for actor in stage.actors.values()]
    assert views[0] == views[1] == views[2]


def test_a_step_begins_when_every_move_of_the_last_is_done() -> None:
    """Of two members that get a partition each, one cannot claim for a while."""
    stage = SteppedGroup({"t": 9})
    stage.join("a", settings=_settings(2))
    watched = WatchedPlan(stage)
    for name in "bc":
        stage.join(name, settings=_settings(2), run_ms=None)
    stage.run_until(lambda: _plan(stage).moving)
    stage.server.suspend("client-c")
    for number in range(600):
        if number == 200:
            stage.server.resume("client-c")
        stage.run(10)
        watched.look()

    assert watched.most == 2
    assert [len(owned(stage.actors[name])) for name in "abc"] == [3, 3, 3]


def test_a_step_that_is_computed_again_adds_no_move_to_those_under_way() -> None:
    """Another member joins while one partition, of one at a time, is on its way."""
    step = RebalanceStep({tp(number): "a-0" for number in range(6)}, {})
    for members in ("ab", "abc"):
        evaluated = [EvaluatedMember(name, {"t": 1}) for name in members]
        step = next_step("sticky", evaluated, {"t": range(6)}, step, {}, list(members), 1)
        assert len(step.moving) == 1


def test_a_plan_for_a_topic_that_is_gone_again_is_written_anew() -> None:
    """Past bug: who had read it without the topic kept what it had, and claimed without a check of the
    plan."""
    stage = SteppedGroup({"t1": 4})
    slow = replace(_settings(8), settle_ms=400, verify_interval_ms=1000)
    member = stage.join("a", Whitelist("t.*"), settings=slow)
    stage.join("b", Whitelist("t.*"), settings=replace(slow, settle_ms=10), run_ms=6000)

    def goes() -> None:
        stage.server.remove(Topic.path("t2"))
        stage.server.catch_up("client-a")
        stage.server.suspend("client-b")

    stage.when("client-a", lambda request: request == ListChildren(topics_path(), watch=True), goes)
    stage.topic("t2", 2)
    stage.run(1000)
    assert {each.topic for each in _plan(stage).owners} == {"t1"}

    stage.foreign_write(Delete(f"/consumers/{GROUP}/owners/t1/0", -1))
    stage.run_until(lambda: len(claims(member)) > 1)
    assert stage.registration("b") is not None
    assert PLAN in {each.path for each in claims(member)[-1]}


def test_what_a_dead_member_had_is_no_move() -> None:
    """Its partitions go to the others at once."""
    stage = SteppedGroup({"t": 6})
    for name in "abc":
        stage.join(name, settings=_settings(1), run_ms=3000)
    stage.actors["c"].kill()
    stage.server.expire("client-c")
    stage.run(9000)

    assert sorted(len(owned(stage.actors[name])) for name in "ab") == [3, 3]


@pytest.mark.parametrize("limits", [(1, None), (None, 1)])
def test_a_member_without_a_limit_switches_it_off(limits: tuple[int | None, ...]) -> None:
    """It would not read the next steps: everything moves at once, as without. The second one assigns."""
    stage = SteppedGroup({"t": 6})
    stage.join("a", settings=_settings(limits[0]))
    stage.join("b", settings=_settings(limits[1]), run_ms=700)

    assert _plan(stage).moving == {}
    assert sorted(stage.owners().values()).count("b-0") == 3


def test_a_step_goes_on_over_a_disconnect_and_a_change_of_the_group() -> None:
    """Moves under way count in the new assignment; a missed watch is made good."""
    stage = SteppedGroup({"t": 8})
    first = stage.join("a", settings=_settings(1))
    stage.join("b", settings=_settings(1), run_ms=60)
    stage.server.suspend("client-a")
    stage.join("c", settings=_settings(1), run_ms=100)
    stage.server.resume("client-a")
    stage.run(8000)

    assert sorted(len(owned(actor)) for actor in stage.actors.values()) == [2, 3, 3]
    assert is_stable(first)


def test_without_a_limit_no_watch_is_set_on_the_assignment_znode() -> None:
    """It is read with other znodes' requests, as ever."""
    stage = SteppedGroup({"t": 2})
    first = stage.join("a", settings=_settings(None))
    stage.join("b", settings=_settings(1))

    assert not any(isinstance(request, Read) and request.path == PLAN for request in first.asked)


def test_the_setting_is_published() -> None:
    """As text; a registration that is damaged has none."""
    stage = SteppedGroup()
    stage.join("a", settings=_settings(3))
    znode = stage.registration("a")

    assert znode is not None
    assert Registration.decode(znode.path, znode.data).moves_max == 3
