"""What a controller reads first: the same as all topics and then all states, with both on their way."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tests.worlds.controller_clusters import broker, tp
from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.controller_election.elector import WonElection
from zkgroup.controller.machine.failover import loading
from zkgroup.controller.machine.failover.loading import TopicLoader
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.controller.machine.settings import ControllerSettings, ElectorConfig, ElectorContext
from zkgroup.controller.machine.state_machines import PartitionAndReplica
from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.ports import Instant
from zkgroup.model.requests import Code, Outcome, Read, ReadDone, ReadMany, ReadManyDone, Request, Session
from zkgroup.runtime.events import Submit
from zkgroup.runtime.procedures import Procedure, Runner, run_pipelined
from zkgroup.znodes.brokers import PartitionState, Topic, topics_path
from zkgroup.znodes.controller import ControllerRecord

Tree = dict[str, Znode | Code]
BROKERS = {1: broker(1, 10), 2: broker(2, 30, role="data"), 3: broker(3, 30)}
"""The second one is a zkgroup broker, and started after some of the states."""


def znode(path: str, data: bytes, version: int = 0, zxid: int = 20) -> Znode:
    return Znode(path, data, ZnodeStat(zxid, zxid, 0, 0, version, 0, 0, 0, len(data), 0, zxid))


def drawn(rng: random.Random) -> Tree:
    """Topics with gaps in their numbers; states that are missing, hidden, broken, alike or not."""
    tree: Tree = {}
    for name in rng.sample("abcdef", rng.randrange(1, 6)):
        lists = {
            number: tuple(rng.sample((1, 2, 3, 4), rng.randrange(1, 4)))
            for number in rng.sample(range(9), rng.randrange(0, 7))
        }
        path = Topic.path(name)
        tree[path] = znode(path, b"{" if rng.random() < 0.1 else Topic(lists).encode(), rng.randrange(3))
        for number, replicas in lists.items():
            path = PartitionState.path(tp(number, name))
            leader = rng.choice((-1, *replicas))
            state = PartitionState(leader, rng.randrange(2), replicas, 1).encode()
            found: Znode | Code = znode(path, state, rng.randrange(2), rng.choice((20, 40)))
            match rng.randrange(12):
                case 0:
                    found = Code.NO_AUTH
                case 1:
                    found = znode(path, b"no JSON")
            if rng.random() < 0.9:
                tree[path] = found
    return tree


def active() -> ActiveController:
    """Of a controller that knows the brokers, and nothing else yet."""
    core = ElectorContext(ElectorConfig(broker=9))
    core.begin(Instant(0, 0))
    core.connected_to(Session(1, 1, 6000))
    won = WonElection(Fence(5, 4), 1, ControllerRecord(9, 1, "first", 0), 0, 0)
    made: Any = SimpleNamespace(won=won, former=None, may_send=False)
    found = ActiveController(core, made, ControllerSettings())
    found.context.set_brokers(BROKERS)
    return found


def answer(tree: Tree, request: Request) -> Outcome:
    if isinstance(request, Read):
        found = tree.get(request.path)
        assert not isinstance(found, Code)
        return ReadDone(found)
    assert isinstance(request, ReadMany)
    return ReadManyDone(tuple(tree.get(path) for path in request.paths))


def carried_out(mine: ActiveController, procedure: Procedure[None], tree: Tree) -> list[list[str]]:
    """Runs it to its end. Returns the requests of each step, as the topic's name or the number of paths."""
    runner = Runner(mine.parts.core)
    flying: deque[Submit] = deque()
    asked = []

    def take() -> None:
        new = [each for each in mine.parts.core.take_effects() if isinstance(each, Submit)]
        flying.extend(new)
        asked.append([_shown(each.request) for each in new])

    runner.start("read", procedure)
    take()
    while flying:
        each = flying.popleft()
        mine.parts.core.answered(each.request_id, answer(tree, each.request))
        take()
    assert runner.is_idle
    return asked


def _shown(request: Request) -> str:
    return str(len(request.paths)) if isinstance(request, ReadMany) else request.path[-1]  # type: ignore[union-attr]


def names(tree: Tree) -> list[str]:
    return sorted(path.split("/")[3] for path in tree if path.count("/") == 3)


def forget_others(mine: ActiveController, tree: Tree) -> None:
    """As loading does."""
    listed = names(tree)
    mine.parts.reader.only(topics_path(), listed)
    mine.features.topics.forget_topics([name for name in mine.context.topics if name not in listed])
    mine.parts.reader.forget_watches()


def one_after_another(mine: ActiveController, tree: Tree) -> Procedure[None]:
    """All topics, then all states."""
    forget_others(mine, tree)
    yield from mine.features.topics.read_topics(names(tree))
    every = list(mine.context.partitions())
    yield from mine.parts.states.read_states(every)
    mine.features.topics.enter_partitions(every)


def at_once(mine: ActiveController, tree: Tree) -> Procedure[None]:
    forget_others(mine, tree)
    yield from run_pipelined(TopicLoader(mine.parts, mine.features.topics, names(tree)).steps())
    mine.features.topics.enter_all_partitions()


def known(mine: ActiveController) -> Mapping[str, object]:
    """Everything that reading leaves behind."""
    context = mine.context
    return {
        "leaderships": {each: context.leadership(each) for each in context.partitions()},
        "led": {id_: list(context.led_by(id_)) for id_ in range(-1, 5)},
        "first": context.first_states,
        "unreadable": context.unreadable,
        "restarted leaders": mine.context.restarted_leaders,
        "unsent": set(mine.parts.requests.unsent),
        "phases": {each: mine.context.partition_phases.phase(each) for each in context.partitions()},
        "replicas": {
            (each, id_): mine.context.replica_phases.phase(PartitionAndReplica(each, id_))
            for each in context.partitions()
            for id_ in context.replicas(each)
        },
        "zxid": mine.parts.reader.zxid,
    }


def test_it_leaves_what_reading_one_after_another_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is found. A second attempt, with other states, is no other matter."""
    for seed in range(150):
        rng = random.Random(seed)
        monkeypatch.setattr(loading, "STATES_AT_ONCE", rng.randrange(1, 9))
        plain, mine = active(), active()
        for tree in (drawn(rng), drawn(rng)):
            carried_out(plain, one_after_another(plain, tree), tree)
            carried_out(mine, at_once(mine, tree), tree)
            assert known(mine) == known(plain), seed


def test_states_are_asked_for_while_topics_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """In full requests, whichever topics they are of; the last one holds what is left."""
    monkeypatch.setattr(loading, "STATES_AT_ONCE", 3)
    sizes = {"a": 2, "b": 8, "c": 0, "d": 1}
    tree: Tree = {}
    for name, size in sizes.items():
        path = Topic.path(name)
        tree[path] = znode(path, Topic(dict.fromkeys(range(size), (1,))).encode())
    mine = active()

    asked = carried_out(mine, at_once(mine, tree), tree)

    assert asked == [["a", "b", "c", "d"], [], ["3", "3", "3"], [], ["2"], [], [], [], []]


def test_nothing_is_asked_where_there_are_no_topics() -> None:
    """Nor waited for."""
    mine = active()

    assert carried_out(mine, at_once(mine, {}), {}) == [[]]
