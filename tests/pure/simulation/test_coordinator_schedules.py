"""Seeded schedules of coordinated groups: S23-S34 throughout, L8 once the faults have ended.

The first ones; thousands more are in `tests/long/simulation`. A failure prints its seed, and the call that
does it again.
"""

from __future__ import annotations

from tests.pure.simulation.drawn import hold_for_coordinators
from tests.simulation.coordinator import CoordinatorSimulation
from tests.simulation.coordinator.setup import PARTITIONS, TOPIC, CoordinatorSetup
from tests.simulation.coordinator.world import OutsideClient
from zkgroup.coordinator.settings import CoordinatorSettings
from zkgroup.model.requests import Create
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

FIRST_OF_COORDINATORS = 22
"""Schedules that this file runs; `tests/long/simulation` goes on from here."""


def test_drawn_schedules_of_coordinated_groups_hold() -> None:
    """S23-S34 throughout, L8 after the faults; and both kinds of members were there."""
    figures = hold_for_coordinators(range(FIRST_OF_COORDINATORS))

    wanted = ("generations", "commits of members", "commits of ZooKeeper members", "groups loaded")
    assert min(figures[each] for each in wanted) >= 5, figures


def test_same_seed_is_the_same_schedule() -> None:
    """The same seed gives the same schedule."""

    def transcript(seed: int) -> list[str]:
        simulation = CoordinatorSimulation(seed, steps=60)
        simulation.begin()
        for _ in range(60):
            simulation.step()
        return [str(entry) for entry in simulation.world.server.log]

    assert transcript(7) == transcript(7)
    assert transcript(7) != transcript(8)


def test_a_topic_that_is_replaced_while_its_coordinator_is_dead_has_no_offsets() -> None:
    """S34: the coordinator died before it was notified, and the next one loads the group when all is over."""
    coordinator, topics = 2, {TOPIC: ((1,),) * PARTITIONS, OFFSETS_TOPIC: ((2, 3),)}
    setup = CoordinatorSetup(
        kind="zkgroup",
        brokers=(1, 2, 3),
        electors=(1,),
        topics=topics,
        slots=1,
        coordinator=CoordinatorSettings(group_min_session_timeout_ms=100),
        steps=0,
        zookeeper_members=0,
    )
    simulation = CoordinatorSimulation(1, setup=setup)
    world = simulation.groups_world

    def replace_topic() -> None:
        simulation.pass_time(6_000)
        assert all(each.acknowledged for each in world.group_clients)
        world.kill(coordinator)
        assert world.write(Create(TopicDeletion.path(TOPIC), b""))
        simulation.pass_time(1_000)
        assert world.missing_topics() == [TOPIC]
        assert world.create_topic(TOPIC)
        for client in list(world.group_clients):
            client.end()
        while not OutsideClient(world, "g0", 1).fetch():
            simulation.pass_time(500)
        simulation.pass_time(500)

    figures = simulation.run(replace_topic).figures

    assert figures["topics created again"] == 1
    assert figures["offsets of deleted topics deleted"] == PARTITIONS
    assert figures["outside fetch.ok"] == 1
