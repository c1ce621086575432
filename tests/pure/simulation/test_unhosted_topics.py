"""A topic created without brokers, in drawn schedules of a cluster that has a broker with id 0."""

from __future__ import annotations

import dataclasses
from collections import Counter

from tests.simulation.cluster import ClusterSetup, ClusterSimulation
from tests.simulation.cluster.setup import draw_cluster
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.znodes.brokers import Topic, topics_path
from zkgroup.znodes.stray_replicas import UnhostedTopic, may_be_unhosted, unhosted_topics_path

SEEDS = range(12)
NAME = "work"
MARK = UnhostedTopic.path(NAME)


def from_zero(seed: int) -> ClusterSetup | None:
    """The setup of a seed with broker ids from 0; None for Kafka brokers, which know no marks."""
    drawn = draw_cluster(seed, 200)
    if drawn.kind != "zkgroup":
        return None
    return dataclasses.replace(
        drawn,
        brokers=tuple(each - 1 for each in drawn.brokers),
        electors=tuple(each - 1 for each in drawn.electors),
        topics={
            name: tuple(tuple(each - 1 for each in replicas) for replicas in lists)
            for name, lists in drawn.topics.items()
        },
    )


def end_of(simulation: ClusterSimulation) -> str:
    """The state of the topic: without brokers, with brokers, or deleted."""
    simulation.world.audit.catch_up()
    tree = simulation.world.server.tree()
    found = tree.get(Topic.path(NAME))
    if found is None:
        assert MARK not in tree
        return "deleted"
    lists = Topic.decode(Topic.path(NAME), found.data)
    states = [path for path in tree if path.startswith(f"{Topic.path(NAME)}/") and path.endswith("/state")]
    if MARK not in tree or not may_be_unhosted(lists):
        return "given brokers"
    held = [
        tp
        for broker in simulation.world.brokers.values()
        for tp in (TopicPartition(NAME, number) for number in lists.numbers)
        if broker.host.view(tp) is not None
    ]
    assert (states, held) == ([], [])
    return "left alone"


def test_no_broker_adopts_it_whatever_fails() -> None:
    """Controllers die and are cut off, broker 0 stops and starts, operators reassign, grow and delete.

    Once the faults have ended it is as somebody has asked for, and waits for nothing (L7).
    """
    ends: Counter[str] = Counter()
    for seed in SEEDS:
        if (setup := from_zero(seed)) is None:
            continue
        simulation = ClusterSimulation(seed, setup=setup)
        server = simulation.world.server
        for path in ("/zkgroup", unhosted_topics_path(), "/brokers", topics_path()):
            if path not in server.tree():
                server.put(path)
        assert simulation.world.write(
            Create(Topic.path(NAME), Topic({0: (0,), 1: (0,)}).encode()),
            Create(MARK, UnhostedTopic().encode()),
        )
        simulation.run()
        ends[end_of(simulation)] += 1

    assert ends.keys() == {"left alone", "given brokers", "deleted"}, ends
