"""What the findings say of our own members under faults, as the simulator makes them."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import pytest

from tests.pure.audit.simulated import COUNTED, QUIET, STOLEN, UNREGISTERED, events_of_log
from tests.pure.simulation.setups import SEEDS_OF_A_GROUP, SETUPS
from tests.simulation.group import Simulation
from tests.simulation.group.setup import GROUP
from tests.simulation.group.world import BROKER
from tests.worlds.audit_agreement import tally_of_checker, tally_of_rows
from tests.worlds.plain_findings import find
from zkgroup.audit.findings.engine import RULES
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.inputs.events import Event
from zkgroup.testing.memory_zookeeper.leader import server_transactions

MORE_SEEDS = 30  # for what a stranger seldom does
STRANGER = 0


@functools.cache
def _simulated(name: str, seed: int) -> Simulation:
    """A schedule that has run: each is looked at by several tests."""
    simulation = Simulation(seed, setup=SETUPS[name])
    simulation.run()
    return simulation


def _run(name: str, seed: int) -> tuple[list[Event], list[Finding]]:
    """A schedule, audited as the log of a server with lists in its closes, or without."""
    simulation = _simulated(name, seed)
    events = events_of_log(simulation.world.server.log, with_lists=seed % 2 == 0)
    return events, find(RULES, lambda: events)


@pytest.mark.parametrize("name", QUIET)
def test_lost_replies_expiries_and_pauses_leave_no_fault_behind(name: str) -> None:
    """Members of ours, alone or beside JVM members, raise no error whatever the network does."""
    for seed in range(SEEDS_OF_A_GROUP):
        _, found = _run(name, seed)

        errors = [each for each in found if each.severity == "error" and BROKER not in each.detail]
        assert errors == []  # the one broker is a znode, held by no session
        assert any(each.finding == "rebalance" for each in found)


@pytest.mark.parametrize("name", STOLEN)
def test_exactly_the_claims_that_a_foreign_writer_deletes_are_found(name: str) -> None:
    """Each owner that a stranger deletes is a `claim_stolen` at its zxid; our members have no error."""
    stolen = 0
    for seed in range(MORE_SEEDS):
        if stolen and seed >= SEEDS_OF_A_GROUP:
            break
        events, found = _run(name, seed)
        deletions = [
            event.zxid
            for event in events
            if event.op == "delete" and "/owners/" in event.path and event.session == STRANGER
        ]

        assert [each.from_zxid for each in found if each.finding == "claim_stolen"] == deletions
        assert {each.session for each in found if each.severity == "error"} <= {STRANGER}
        stolen += len(deletions)
    assert stolen


def test_a_deleted_registration_leaves_claims_for_a_moment() -> None:
    """The member finds out, and its claims go: an interval that is over, never one that stands."""
    found = [each for seed in range(2) for each in _run(UNREGISTERED, seed)[1]]
    errors = {(each.finding, each.to_zxid is None) for each in found if each.severity == "error"}

    assert errors == {("orphan_owner_interval", False)}


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        *((name, range(SEEDS_OF_A_GROUP)) for name in COUNTED),
        ("threads", (5, 8)),  # in which a partition moves between threads of one member
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_rows_and_checker_count_the_same_claims_commits_and_owners(name: str, seeds: Iterable[int]) -> None:
    """Out of one simulated log, audit and history checker count the same claims, commits and owners."""
    claims = commits = 0
    for seed in seeds:
        simulation = _simulated(name, seed)
        log = simulation.world.server.log
        tally = tally_of_rows(events_of_log(log, with_lists=seed % 2 == 0), GROUP)

        assert tally == tally_of_checker(server_transactions(log, simulation.world.clock), GROUP)
        claims, commits = claims + tally.claims, commits + tally.commits
    assert claims
    assert commits
