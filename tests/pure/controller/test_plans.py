"""Plans that outlive the tool: phases submitted one after the other, throttles before and never after."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.pure.controller.reassignments import Cluster
from tests.pure.simulation.crashing import each_thirtieth
from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_electors import resigned
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, SetData
from zkgroup.znodes.admin_requests import Move, TopicDeletion, delete_topics_path
from zkgroup.znodes.config import ConfigEntity, EntityConfig
from zkgroup.znodes.config_settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from zkgroup.znodes.reassignment_records import StoredPlan, plans_path

TWO = ((Move(tp(0), (2,)),), (Move(tp(1), (3,)), Move(tp(0), (3,))))
"""Partition 0 goes from 1 by 2 to 3, partition 1 from 1 to 3."""
PLAN = StoredPlan.path("p")


def kept(phases: tuple[tuple[Move, ...], ...] = TWO, *, throttle: int | None = None) -> Cluster:
    """A cluster with such a plan, running, and no controller yet."""
    cluster = Cluster((1, 2, 3))
    cluster.replicas.topic("t", {0: (1,), 1: (1,)})
    cluster.world.server.put(plans_path())
    stored = StoredPlan(phases, "running", 0, 5, "me@host", throttle=throttle)
    cluster.world.write(Create(PLAN, stored.encode()))
    cluster.elector()
    return cluster


def plan(cluster: Cluster, path: str = PLAN) -> StoredPlan:
    return StoredPlan.decode(path, cluster.world.find(path).data)


def change(cluster: Cluster, changed: StoredPlan) -> None:
    """As a tool does."""
    cluster.world.write(SetData(PLAN, changed.encode(), cluster.world.find(PLAN).stat.version))


def over(cluster: Cluster) -> None:
    cluster.run(lambda: plan(cluster).state == "done")
    cluster.rest()
    assert plan(cluster).state == "done"


def settings(cluster: Cluster) -> dict[str, dict[str, str]]:
    """Entity to its overrides, of all that have some."""
    found = {}
    for entity in (*map(ConfigEntity.broker, (1, 2, 3)), ConfigEntity.topic("t")):
        znode = cluster.world.server.find(entity.config_path)
        if znode is not None and (overrides := EntityConfig.decode("", znode.data).overrides):
            found[str(entity)] = dict(overrides)
    return found


def test_one_phase_after_the_other_becomes_the_request() -> None:
    """When nothing is being moved, and in one transaction with the plan's own progress (recipes 17)."""
    cluster = kept()
    requests = []

    def look(what: str) -> None:
        found = cluster.replicas.request()
        if found is not None and found.moves not in requests:
            requests.append(found.moves)
            assert plan(cluster).next_phase == len(requests)

    cluster.on_point = look
    over(cluster)

    assert requests == list(TWO)
    assert cluster.replicas.lists("t").partitions == {0: (3,), 1: (3,)}
    assert [record.outcome for record in cluster.records] == ["done"] * 3
    assert cluster.active.parts.events.blocked == {}


def test_a_plan_is_carried_on_whichever_controller_is_active() -> None:
    """The controller is killed at every point; no phase is submitted twice or left out (recipes 17)."""
    carried_on(lambda points: each_thirtieth(points, "plan"))


def carried_on(choose: Callable[[int], Iterable[int]]) -> None:
    """The controller is killed at the points chosen, by their number."""
    whole = kept(throttle=1000)
    over(whole)
    for number in choose(whole.points):
        point = number + 1
        cluster = kept(throttle=1000)
        cluster.elector()
        cluster.kill_at = {point}
        cluster.on_point = lambda what, c=cluster: c.replicas.produce()
        over(cluster)
        assert cluster.replicas.lists("t").partitions == {0: (3,), 1: (3,)}
        assert len(cluster.records) == 3
        assert settings(cluster) == {}


def test_throttles_stand_before_the_request_and_go_with_the_plan() -> None:
    """Rates with every broker concerned, lists with the topic; what else stands stays."""
    cluster = kept(throttle=1000)
    for path in ("/config/brokers", "/config/topics/t"):
        cluster.world.server.put(path)
    own = EntityConfig({"retention.ms": "1", FOLLOWER_REPLICAS: "7:9"}).encode()
    cluster.world.write(SetData("/config/topics/t", own, 0))
    cluster.replicas.holds_back.update((2, 3))
    cluster.run(cluster.replicas.request)

    rates = {LEADER_RATE: "1000", FOLLOWER_RATE: "1000"}
    assert settings(cluster) == {
        "brokers/1": rates,
        "brokers/2": rates,
        "topics/t": {"retention.ms": "1", LEADER_REPLICAS: "0:1", FOLLOWER_REPLICAS: "0:2,7:9"},
    }
    changes = [path for path in cluster.world.server.tree() if path.startswith("/config/changes/")]
    assert len(changes) == 3

    cluster.replicas.holds_back.clear()
    over(cluster)
    assert settings(cluster) == {"topics/t": {"retention.ms": "1", FOLLOWER_REPLICAS: "7:9"}}
    assert plan(cluster).throttles_off


@pytest.mark.parametrize("text", ["*", "x:y"])
def test_lists_of_every_replica_stay_and_odd_ones_are_waited_for(text: str) -> None:
    """An operator's `*` covers the plan; what cannot be read cannot be kept, so nothing is written over."""
    cluster = kept(throttle=1000)
    cluster.world.server.put("/config/topics/t")
    cluster.world.write(SetData("/config/topics/t", EntityConfig({LEADER_REPLICAS: text}).encode(), 0))
    cluster.run(limit_ms=8_000)

    assert settings(cluster)["topics/t"][LEADER_REPLICAS] == text
    if text == "*":
        assert plan(cluster).state == "done"
    else:
        assert plan(cluster).next_phase == 0
        assert "throttled replicas" in cluster.active.parts.events.blocked["plan p"]


def test_a_plan_that_cannot_lose_its_throttles_is_tried_again_after_a_pause() -> None:
    """Past bug: with a configuration that cannot be read the controller tried again at once, for ever."""
    cluster = kept(throttle=1000)
    cluster.run(lambda: plan(cluster).next_phase == len(TWO))
    path = ConfigEntity.topic("t").config_path
    before = cluster.world.find(path)
    cluster.world.write(SetData(path, b"{", before.stat.version))
    cluster.run(
        lambda: (
            "move of t-0" not in cluster.active.parts.events.blocked
            and "its throttles" in str(cluster.active.parts.events.blocked)
        )
    )
    cluster.rest()
    assert cluster.active.parts.events.blocked["plan p"] == f"its throttles: {path} cannot be read"

    cluster.world.write(SetData(path, before.data or b"", before.stat.version + 1))
    over(cluster)
    assert plan(cluster).throttles_off
    assert settings(cluster) == {}


def test_a_paused_plan_stops_and_a_cancelled_one_loses_its_throttles() -> None:
    """What runs goes on; no further phase is submitted."""
    cluster = kept(throttle=1000)
    cluster.run(cluster.replicas.request)
    change(cluster, plan(cluster).at(1, "paused"))
    cluster.run(limit_ms=5_000)
    assert cluster.replicas.lists("t").partitions == {0: (2,), 1: (1,)}
    assert "brokers/1" in settings(cluster)
    assert cluster.active.parts.events.blocked["plan p"] == "1 of 2 phases are submitted; it is paused"

    change(cluster, plan(cluster).at(1, "cancelled"))
    cluster.run(lambda: plan(cluster).throttles_off)
    assert (plan(cluster).state, settings(cluster)) == ("cancelled", {})
    assert cluster.replicas.request() is None


def test_a_plan_whose_phase_was_taken_back_fails_and_can_be_resumed() -> None:
    """The next phase may rest on it; the reason names the partition."""
    cluster = kept(throttle=1000)
    cluster.replicas.holds_back.add(2)
    cluster.run(cluster.replicas.request)
    cluster.change({tp(0): (1,)})
    cluster.run(lambda: plan(cluster).state == "failed")
    assert plan(cluster).reason == "phase 1: t-0 is not on its target replicas"
    assert settings(cluster) == {}

    cluster.replicas.holds_back.clear()
    change(cluster, plan(cluster).at(0, "running"))
    over(cluster)
    assert cluster.replicas.lists("t").partitions == {0: (3,), 1: (3,)}
    assert settings(cluster) == {}


def test_a_topic_that_is_being_deleted_fails_no_plan() -> None:
    """Its moves are dropped, so what was to be there never will; the others go on."""
    cluster = kept()
    cluster.replicas.topic("u", {0: (1, 2)})
    cluster.world.server.put(delete_topics_path())
    cluster.world.write(Create(TopicDeletion.path("u"), b""))
    cluster.replicas.stop(2)  # so that the deletion does not end
    phases = ((Move(tp(0), (3,)), Move(TopicPartition("u", 0), (3, 2))), (Move(tp(1), (3,)),))
    change(cluster, StoredPlan(phases, "running", 0, 5, "me@host"))
    cluster.run(lambda: plan(cluster).state != "running")

    assert cluster.replicas.lists("u").partitions == {0: (1, 2)}
    assert plan(cluster).state == "done"
    assert cluster.replicas.lists("t").partitions == {0: (3,), 1: (3,)}


def test_a_plan_waits_for_a_request_of_another_client() -> None:
    """Of two who ask, one is first; the other one's phase follows."""
    cluster = kept()
    cluster.replicas.holds_back.add(2)
    cluster.request({tp(1): (2,)})
    cluster.run(limit_ms=3_000)
    assert plan(cluster).next_phase == 0

    cluster.replicas.holds_back.clear()
    over(cluster)
    assert len(cluster.records) == 4


def test_a_plan_that_cannot_be_read_stops_no_other() -> None:
    """It is reported by its path."""
    cluster = kept()
    cluster.world.write(Create(StoredPlan.path("a"), b"{"))
    over(cluster)

    assert StoredPlan.path("a") in cluster.active.context.unreadable


def test_a_plan_that_could_not_be_written_again_is_reported() -> None:
    """A zkgroup tool writes none such; one that did stops neither the controller nor other plans."""
    cluster = kept()
    odd = plan(cluster).encode().replace(b'"replicas":[2]', b'"replicas":[]')
    cluster.world.write(Create(StoredPlan.path("a"), odd))
    over(cluster)

    assert cluster.active.context.unreadable[StoredPlan.path("a")] == (
        "move of t-0: expected replicas, found none"
    )
    assert resigned(cluster.controller) == []


def ended(cluster: Cluster, names: range, **how: object) -> None:
    """Plans of former times, in the order of their ends."""
    for number in names:
        stored = StoredPlan(TWO, "done", 2, 5, "me@host", **how)  # type: ignore[arg-type]
        cluster.world.write(Create(StoredPlan.path(f"old-{number:03}"), stored.encode()))


def plans(cluster: Cluster) -> list[str]:
    return sorted(each for each in cluster.world.server.tree() if each.startswith(f"{plans_path()}/"))


def test_of_plans_that_have_ended_the_last_hundred_stay() -> None:
    """The one that has just ended among them, however old; one that runs or is paused is not counted."""
    cluster = kept()
    ended(cluster, range(250))
    resting = StoredPlan(TWO, "paused", 0, 1, "me@host")
    cluster.world.write(Create(StoredPlan.path("a"), resting.encode()))
    over(cluster)

    left = [StoredPlan.path(f"old-{number:03}") for number in range(151, 250)]
    assert plans(cluster) == [StoredPlan.path("a"), *left, PLAN]


def test_a_plan_with_throttles_is_not_pruned_before_they_are_off() -> None:
    """While a move runs nothing is taken off; the plan is all that reports them."""
    cluster = kept()
    cluster.replicas.holds_back.add(2)
    ended(cluster, range(1), throttle=1000)
    ended(cluster, range(1, 102))
    cluster.run(limit_ms=3_000)
    assert StoredPlan.path("old-000") in plans(cluster)
    assert StoredPlan.path("old-001") not in plans(cluster)

    cluster.replicas.holds_back.clear()
    over(cluster)
    assert len(plans(cluster)) == 100
