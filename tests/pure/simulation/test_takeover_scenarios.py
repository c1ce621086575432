"""Scenarios that exhaustive search found for two controllers: take-overs between Kafka and zkgroup.

Each rule marked [M] in recipes 13 is a schedule here, which goes wrong without it: `RARE_BUGS` of
`tests/long/simulation/cluster_bugs.py` has the rule, the scenario, and the mistake that it shows. What
concerns moves is in `test_cluster_scenarios`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.pure.simulation.cluster_actions import ALONE
from tests.pure.simulation.cluster_scenes import (
    BESIDE_KAFKA,
    LONG_MS,
    ask_for,
    asleep_over_a_write,
    begun,
    ended,
    moved_up_to_deletion,
    real_rules,
    state_of,
    stepwise,
    zkgroup_controller,
)
from tests.pure.simulation.crashing import each_thirtieth
from tests.simulation.cluster import ClusterSimulation
from tests.simulation.cluster.controller import ControllerProcess
from tests.simulation.cluster.kafka_0_8_controller import Kafka08Controller
from tests.simulation.cluster.operations import Operations
from tests.simulation.cluster.simulation import ControllerAction, play
from zkgroup.controller.machine.controller_election.transactions import ElectorState
from zkgroup.model.requests import Delete
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.controller import ControllerRecord, ControllerRegistration


def test_a_real_candidate_that_bumps_late_is_given_way_to() -> None:
    """Recipes 13: Kafka's controller created `/controller`, expired and came back; zkgroup's was active
    meanwhile, and resigns at the new epoch, not at its next write."""
    simulation = begun(BESIDE_KAFKA)
    world = simulation.world
    real = real_rules(simulation)
    world.pause(real.name, 1)
    world.write(Delete(ControllerRegistration.path(), -1))
    for broker in (101, 102):
        world.pause(world.controllers[broker].name, 500)
    session = world.registrations()[1]
    epochs = list(real.epochs)
    stepwise(simulation, real, lambda: _holds(simulation, session) and real.epochs == epochs)
    world.pause(real.name, LONG_MS)
    world.server.expire(real.client.name)
    simulation.convergence.pass_time(5_000)
    controller = zkgroup_controller(simulation)
    won = list(controller.epochs)
    world.wake_up(real.name)
    simulation.convergence.drain()

    assert real.epochs[-1] > won[-1]
    assert not controller.is_active, "it stays active in an epoch that is not the last"
    simulation.convergence.pass_time(6_000)
    ended(simulation)


def _holds(simulation: ClusterSimulation, session: int) -> bool:
    found = simulation.world.server.find(ControllerRegistration.path())
    return found is not None and found.stat.ephemeral_owner == session


def test_a_living_real_controller_has_time_to_notice() -> None:
    """Recipes 13: `/controller` is deleted by hand. A Kafka controller that finds it changed instead of gone
    stays active (K1)."""
    simulation = begun(BESIDE_KAFKA)
    world = simulation.world
    real = real_rules(simulation)
    world.pause(real.name, 1_000)
    world.write(Delete(ControllerRegistration.path(), -1))

    _one_rules_for(simulation, 5_000)
    assert world.active_controllers == [real]
    ended(simulation)


def test_a_candidate_that_sleeps_over_its_own_grace_begins_anew() -> None:
    """Recipes 13: it elects with the version that it read before the grace. A Kafka controller was active
    while it was paused, and needs its grace as well."""
    simulation = begun(BESIDE_KAFKA)
    world = simulation.world
    real = real_rules(simulation)
    world.kill(102)
    candidate = world.controllers[101]
    assert isinstance(candidate, ControllerProcess)
    world.pause(real.name, 1_000)
    world.write(Delete(ControllerRegistration.path(), -1))
    simulation.convergence.pass_time(500)
    assert candidate.machine.election.stage is ElectorState.GRACE
    world.pause(candidate.name, 4_000)
    simulation.convergence.pass_time(2_500)
    assert world.active_controllers == [real]
    world.pause(real.name, 2_000)
    world.write(Delete(ControllerRegistration.path(), -1))

    _one_rules_for(simulation, 5_000)
    assert world.active_controllers == [real]
    ended(simulation)


def _one_rules_for(simulation: ClusterSimulation, ms: int) -> None:
    world = simulation.world
    for _ in range(ms // 100):
        simulation.convergence.pass_time(100)
        assert len(world.active_controllers) <= 1, (
            f"S11 {[one.name for one in world.active_controllers]} are controllers at once"
        )


def test_a_real_controller_that_sleeps_over_the_grace_is_repaired() -> None:
    """Recipes 13: it wakes after zkgroup's controller took over, finds `/controller` changed, stays
    active (K1), and sends its write. Recovery has changed the version that the write expects."""
    simulation = begun(BESIDE_KAFKA)
    world = simulation.world
    real = asleep_over_a_write(simulation)
    session = world.registrations()[1]
    world.write(Delete(ControllerRegistration.path(), -1))
    simulation.convergence.pass_time(4_000)
    controller = zkgroup_controller(simulation)
    assert world.registrations()[1] == session
    world.wake_up(real.name)
    simulation.convergence.pass_time(1_000)

    assert len(world.active_controllers) == 2, "the grace was long enough"
    assert set(world.active_controllers) == {controller, real}
    _is_decided_by_ours(simulation, real)
    assert controller.machine.active is not None
    assert "restart it" in controller.machine.active.parts.events.blocked["broker 1"]
    ended(simulation)


def test_a_kafka_controller_that_continues_in_a_new_session_is_repaired() -> None:
    """Recipes 13: it expires in the middle of a batch, zkgroup's controller takes over, and then it goes
    on writing (K3). Its decisions of the old epoch are replaced."""
    simulation = begun(BESIDE_KAFKA)
    world = simulation.world
    real = asleep_over_a_write(simulation)
    world.server.expire(real.client.name)
    simulation.convergence.pass_time(8_000)
    world.wake_up(real.name)
    simulation.convergence.pass_time(3_000)

    _is_decided_by_ours(simulation, real)
    ended(simulation)


def test_a_winner_that_dies_before_it_recovers_is_followed_by_one_that_does() -> None:
    """The same, where the active controller's predecessor is zkgroup's (recipes 13)."""
    simulation = begun(BESIDE_KAFKA)
    world = simulation.world
    real = asleep_over_a_write(simulation)
    world.server.expire(real.client.name)
    while not (won := [one for one in world.active_controllers if isinstance(one, ControllerProcess)]):
        simulation.convergence.drain_some(1)
    world.kill(won[0].broker)
    simulation.convergence.pass_time(8_000)
    assert zkgroup_controller(simulation) not in won
    world.wake_up(real.name)
    simulation.convergence.pass_time(3_000)

    _is_decided_by_ours(simulation, real)
    ended(simulation)


def _is_decided_by_ours(simulation: ClusterSimulation, real: Kafka08Controller) -> None:
    """The write of `asleep_over_a_write` was refused."""
    state = state_of(simulation)
    assert state.controller_epoch > real.epoch, f"epoch {real.epoch} of {real.name} has decided {state}"
    assert state.leader == 2


def test_a_successor_finishes_the_recovery() -> None:
    """Recipes 13: the first winner after a real controller dies at any point; its successor finds
    by the records alone which states are foreign, and rewrites them."""
    recovered(lambda points: each_thirtieth(points, "recovery"))


def recovered(choose: Callable[[int], Iterable[int]]) -> None:
    """The first winner dies at the chosen points, by number."""

    def begin(simulation: ClusterSimulation, operations: Operations) -> None:
        world = simulation.world
        real = real_rules(simulation)
        world.server.put(Topic.path("r"), Topic({0: (2, 3), 1: (3, 4)}).encode())
        simulation.convergence.pass_time(1_000)
        states = world.audit.catch_up().states.values()
        assert real.epoch in {one.state.controller_epoch for one in states if one.state}
        world.stop_kafka()

    action = ControllerAction(BESIDE_KAFKA, begin)
    for at in choose(len(play(action).passed)):
        played = play(action, [at])
        states = played.simulation.world.audit.catch_up().states
        records = played.simulation.world.server.tree()
        for tp, seen in states.items():
            assert seen.state is not None
            epoch = seen.state.controller_epoch
            assert ControllerRecord.path(epoch) in records, f"{tp} is left in the foreign epoch {epoch}"


def test_no_request_is_sent_after_the_own_lease() -> None:
    """Recipes 13: an expired controller wakes with a deletion to send, after the replica is in sync
    again."""
    simulation = begun(ALONE)
    world = simulation.world
    controller = moved_up_to_deletion(simulation)
    world.pause(controller.name, LONG_MS)
    simulation.convergence.pass_time(9_000)
    (other,) = (one for one in world.active_controllers if one is not controller)
    ask_for(simulation, (1, 2))
    simulation.convergence.pass_time(5_000)
    assert set(state_of(simulation).isr) == {1, 2}
    sent: list[str] = []
    world.network.point = lambda kind, connection: (
        sent.append(f"{connection} {kind}") if connection.owner is controller else None
    )
    world.wake_up(controller.name)
    while controller.shell.inbox:  # before it hears of its session's end
        controller.shell.take_event()
    assert sent == [], f"{sent[0]} without a lease"
    simulation.convergence.pass_time(2_000)

    assert sent == [], f"{sent[0]} without a lease"
    assert world.active_controllers == [other]
    world.network.point = lambda kind, connection: None
    ended(simulation)
