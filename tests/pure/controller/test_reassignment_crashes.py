"""The controller dies at every point of a move, and another one ends it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Literal, NamedTuple

import pytest

from tests.pure.controller.reassignments import Cluster
from tests.pure.controller.replicas import WHOLE, Brokers
from tests.pure.simulation.crashing import EVERY_POINT
from tests.worlds.controller_clusters import tp
from zkgroup.model import TopicPartition

Lists = Mapping[TopicPartition, Brokers]


class Moving(NamedTuple):
    """A reassignment, and what comes in between."""

    before: Lists
    after: Lists
    version: int = 4
    """Of the registrations: below 4 the request alone reports a move."""
    later: Lists | None = None
    """Another target, asked for at `change_at`."""


MOVES = {
    "elsewhere": Moving({tp(0): (1, 2)}, {tp(0): (3, 4)}),
    "elsewhere, old brokers": Moving({tp(0): (1, 2)}, {tp(0): (3, 4)}, version=1),
    "overlapping": Moving({tp(0): (1, 2)}, {tp(0): (2, 3)}),
    "overlapping, old brokers": Moving({tp(0): (1, 2)}, {tp(0): (2, 3)}, version=1),
    "more replicas": Moving({tp(0): (1,)}, {tp(0): (1, 2)}),
    "more replicas, old brokers": Moving({tp(0): (1,)}, {tp(0): (2, 1)}, version=1),
    "fewer replicas": Moving({tp(0): (1, 2)}, {tp(0): (2,)}),
    "another order": Moving({tp(0): (1, 2)}, {tp(0): (2, 1)}),
    "three of two topics": Moving(
        {tp(0): (1,), tp(1): (2,), tp(0, "u"): (1,)}, {tp(0): (2,), tp(1): (3,), tp(0, "u"): (3, 1)}
    ),
}


def began(moving: Moving) -> Cluster:
    """A cluster whose first controller has loaded, with the request just made."""
    used = {
        id_
        for lists in (moving.before, moving.after, moving.later or {})
        for each in lists.values()
        for id_ in each
    }
    cluster = Cluster(tuple(sorted(used)), moving.version)
    topics: dict[str, dict[int, Brokers]] = {}
    for each, replicas in moving.before.items():
        topics.setdefault(each.topic, {})[each.partition] = replicas
    for name, partitions in topics.items():
        cluster.replicas.topic(name, partitions)
    first = cluster.elector()
    cluster.run(lambda: first.machine.context is not None)
    cluster.rest()
    for _ in range(2):
        cluster.elector()
    cluster.rest()
    cluster.points = cluster.written = 0
    cluster.said.clear()
    cluster.on_point = lambda what: cluster.replicas.produce()
    cluster.request(moving.after)
    return cluster


def carried_through(
    moving: Moving,
    kill_at: set[int],
    change_at: int | None = None,
    lose: Mapping[int, Literal["answer", "connection"]] = {},
) -> Cluster:
    """The same to its end, with the active controller killed, or answers lost, at these points."""
    cluster = began(moving)
    cluster.kill_at, cluster.lose = kill_at, dict(lose)
    if change_at is not None and moving.later is not None:
        later = moving.later

        def change(what: str) -> None:
            cluster.replicas.produce()
            if cluster.points == change_at and cluster.replicas.request() is not None:
                cluster.change(later)

        cluster.on_point = change
    cluster.run(lambda: cluster.replicas.request() is None)
    cluster.rest()
    return cluster


def ended(cluster: Cluster, moving: Moving, targets: Lists) -> None:
    """What must hold at the end of all moves."""
    for each, target in targets.items():
        topic, state = cluster.replicas.lists(each.topic), cluster.replicas.state(each)
        assert topic.partitions[each.partition] == target
        assert not topic.moving
        assert state is not None
        assert set(state.isr) == set(target)
        assert all(cluster.replicas.hosts[id_].logs[each] == WHOLE for id_ in target)
    assert cluster.replicas.request() is None
    assert sorted(record.topic_partition for record in cluster.records) == sorted(moving.before)
    assert {record.topic_partition: record.target for record in cluster.records} == targets


@pytest.mark.parametrize("lost", ["answer", "connection"])
@pytest.mark.parametrize("name", ["overlapping", "more replicas", "three of two topics"])
def test_the_answer_to_any_transaction_is_lost(name: str, lost: Literal["answer", "connection"]) -> None:
    """It was executed; the controller reads back, sends what it wrote, and goes on itself (recipes 16)."""
    moving = MOVES[name]
    written = carried_through(moving, set()).written
    assert written >= 4
    for number in range(1, written + 1):
        cluster = carried_through(moving, set(), lose={number: lost})
        ended(cluster, moving, moving.after)
        assert cluster.world.epoch()[0] == 1


_counted: dict[str, int] = {}


def points(moving: Moving) -> int:
    """How many there are where no one is killed; counted once for each move."""
    if (key := repr(moving)) not in _counted:
        _counted[key] = carried_through(moving, set()).points
    return _counted[key]


AT_EVERY_POINT = ("overlapping", "fewer replicas")
"""The others, whose steps are of the same kinds, at each third point; all with ZKGROUP_CRASH_POINTS=all."""


@pytest.mark.parametrize("name", MOVES)
def test_another_controller_ends_what_one_has_begun(name: str) -> None:
    """Killed at every transaction and every request, each time once."""
    moving = MOVES[name]
    whole = carried_through(moving, set())
    ended(whole, moving, moving.after)
    assert [record.outcome for record in whole.records] == ["done"] * len(moving.after)

    step = 1 if EVERY_POINT or name in AT_EVERY_POINT else 3
    for point in range(1 + list(MOVES).index(name) % step, whole.points + 1, step):
        cluster = carried_through(moving, {point})
        assert cluster.world.epoch()[0] == 2, "nobody was killed"
        ended(cluster, moving, moving.after)
        assert {record.outcome for record in cluster.records} == {"done"}


@pytest.mark.parametrize("seed", range(12))
def test_the_next_controller_is_killed_as_well(seed: int) -> None:
    """Two controllers die at points drawn by a seed, the third one ends the move."""
    draw = random.Random(seed)
    moving = draw.choice([MOVES["overlapping"], MOVES["elsewhere, old brokers"], MOVES["more replicas"]])
    count = points(moving)
    cluster = carried_through(moving, {draw.randint(1, count), draw.randint(1, 2 * count)})

    ended(cluster, moving, moving.after)


CHANGES = {
    "elsewhere": Moving({tp(0): (1, 2)}, {tp(0): (2, 3)}, later={tp(0): (3, 4)}),
    "back": Moving({tp(0): (1, 2)}, {tp(0): (3, 4)}, later={tp(0): (1, 2)}),
    "back, old brokers": Moving({tp(0): (1, 2)}, {tp(0): (3, 2)}, version=1, later={tp(0): (1, 2)}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_target_at_every_point(name: str) -> None:
    """The request is changed, or taken back, after each step; the replicas end where it says (recipes 17).

    At every second point, of the two ways back at others; at all with ZKGROUP_CRASH_POINTS=all.
    """
    moving = CHANGES[name]
    assert moving.later is not None
    outcomes = set()
    step = 1 if EVERY_POINT else 2
    for point in range(1 + list(CHANGES).index(name) % step, points(moving) + 1, step):
        cluster = carried_through(moving, set(), change_at=point)
        target = cluster.records[0].target
        ended(cluster, moving, {tp(0): target})
        outcomes.add((target, cluster.records[0].outcome))

    taken_back = moving.later[tp(0)] == moving.before[tp(0)]
    changed = (moving.later[tp(0)], "cancelled" if taken_back else "done")
    assert changed in outcomes
    assert outcomes <= {changed, (moving.after[tp(0)], "done")}


@pytest.mark.parametrize("seed", range(12))
def test_another_target_and_another_controller(seed: int) -> None:
    """The change and the death of the controller at points drawn by a seed (recipes 17)."""
    draw = random.Random(seed)
    moving = draw.choice(list(CHANGES.values()))
    count = points(moving)
    cluster = carried_through(moving, {draw.randint(1, count)}, change_at=draw.randint(1, count))

    ended(cluster, moving, {tp(0): cluster.records[0].target})
