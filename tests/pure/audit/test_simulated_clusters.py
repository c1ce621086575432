"""What the findings say of brokers and controllers under faults, as the simulator makes them."""

from __future__ import annotations

import dataclasses

import pytest

from tests.pure.audit.simulated import events_of_log
from tests.simulation.cluster import ClusterSimulation
from tests.simulation.cluster.foreign_writers import NO_BROKER
from tests.worlds.plain_findings import find
from zkgroup.audit.findings.engine import RULES
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import facts_of
from zkgroup.znodes.brokers import BrokerRegistration

ZKGROUP = [seed for seed in range(40) if ClusterSimulation(seed).setup.kind == "zkgroup"][:6]
BY_HAND = ("raise_epoch", "outrun", "allow_unclean", "elect_unclean")
LATE = (160, 338, 440)
"""Schedules in which a candidate of Kafka won, expired, and raised the epoch afterwards."""


def _run(seed: int) -> tuple[ClusterSimulation, list[Event], list[Finding]]:
    """Nobody writes epochs by hand, and no operator asks for unclean elections: that is found as well, and is
    no fault of any controller."""
    drawn = ClusterSimulation(seed).setup
    weights = {**drawn.weights, **dict.fromkeys(BY_HAND, 0.0)}
    simulation = ClusterSimulation(seed, setup=dataclasses.replace(drawn, weights=weights))
    simulation.run()
    events = events_of_log(simulation.world.server.log, with_lists=seed % 2 == 0)
    return simulation, events, find(RULES, lambda: events)


@pytest.mark.parametrize("seed", ZKGROUP)
def test_zkgroup_controllers_cause_no_finding(seed: int) -> None:
    """Whatever is killed, cut off or deleted; that nobody led is told, where every replica was gone."""
    _, events, found = _run(seed)
    elected = [
        event.zxid
        for event in events
        if event.op == "create" and event.path == "/controller" and event.applied
    ]

    stray = BrokerRegistration.path(NO_BROKER)
    errors = {each.finding for each in found if each.severity == "error" and stray not in each.detail}
    assert errors <= {"offline_partition"}
    assert [
        each.from_zxid for each in found if each.finding == "controller_election" and "elected" in each.detail
    ] == elected


@pytest.mark.parametrize("seed", LATE)
def test_candidates_of_kafka_that_come_back_raise_the_epoch_too_late(seed: int) -> None:
    """As real ones can (recipes 13), and ours cannot."""
    simulation, events, found = _run(seed)
    late = [
        each
        for each in found
        if each.finding == "deposed_controller_write" and "/controller_epoch set to" in each.detail
    ]
    brokers = facts_of(events).brokers
    kafkas = {life.session for broker in simulation.setup.brokers for life in brokers.get(str(broker), ())}

    assert late
    assert all((each.severity, each.session in kafkas) == ("error", True) for each in late)
