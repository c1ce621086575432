"""What `status` and `doctor` say of group coordinators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.worlds.coordinated_groups import CoordinatedGroups, coordinating_broker, stored_member
from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.shell import Shell
from zkgroup.admin import coordinator
from zkgroup.admin.coordinator import describe_coordinator
from zkgroup.admin.coordinator_status import CoordinatorStatus, DoctorFinding, diagnose_coordinated
from zkgroup.admin.status import read_findings, read_status
from zkgroup.groups.descriptions import GroupState, GroupSummary
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.wire.groups import (
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from zkgroup.wire.messages import Request
from zkgroup.znodes.controller import ControllerStatus
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

ORDERS = [TopicPartition("orders", number) for number in range(2)]
PATIENT_MS = 60_000
"""Until a coordinator that answers is given up."""
ADA, BOB = stored_member("ada", ORDERS[0]), stored_member("bob", ORDERS[1])


@pytest.fixture
def world() -> Iterator[MemoryGroups]:
    """An empty ensemble in memory with an operator connected to it."""
    made = MemoryGroups()
    yield made
    for client in list(made.server.clients.values()):
        client.close()


@pytest.fixture
def groups(world: MemoryGroups) -> CoordinatedGroups:
    """A topic with two partitions, and a group with two members, led by broker 1."""
    world.topic("orders", 2)
    made = CoordinatedGroups(world)
    made.lead(1)
    made.store("g", ADA, BOB)
    return made


def rebalancing(ends_in_ms: int) -> DescribedGroup:
    """The group in its join phase: one of its members has not joined again."""
    members = tuple(
        DescribedMember(
            member_id=name,
            group_instance_id=None,
            client_id=f"client-{name}",
            client_host="/10.0.0.1",
            metadata=b"",
            assignment=b"",
            has_joined=name == "ada",
        )
        for name in ("ada", "bob")
    )
    return DescribedGroup(
        error=0,
        group="g",
        state="PreparingRebalance",
        protocol_type="consumer",
        protocol="",
        members=members,
        phase="PreparingRebalance",
        generation=1,
        phase_ends_in_ms=ends_in_ms,
    )


def of_group(world: MemoryGroups) -> DoctorFinding:
    """The finding about the group."""
    _, findings = read_findings(world.ensemble, wanted_timeout_ms=10_000)
    (found,) = (one for one in findings if one.subject == "group g")
    return found


def test_without_a_coordinator_there_is_nothing_to_say(world: MemoryGroups) -> None:
    """No client has ever asked for one."""
    assert read_status(world.ensemble).coordinator is None


def test_slots_without_a_live_leader_are_named(world: MemoryGroups, groups: CoordinatedGroups) -> None:
    """Broker 1 leads all slots, and is not registered; then it is."""
    gone = read_status(world.ensemble).coordinator
    assert gone == CoordinatorStatus(slots=4, slots_without_leader=(0, 1, 2, 3), unanswered=())
    found = of_group(world)
    assert (found.severity, found.next) == ("error", "zkgroup coordinator release g")
    assert found.detail.startswith(f"no live broker leads its slot, {groups.slot('g')}: its clients have no")

    groups.broker(1)
    assert read_status(world.ensemble).coordinator is not None
    assert found != of_group(world)


def test_a_coordinator_that_does_not_answer_is_a_warning(
    world: MemoryGroups, groups: CoordinatedGroups
) -> None:
    """Nothing listens at its port; `status` says why."""
    groups.broker(1)

    status = read_status(world.ensemble)

    assert status.coordinator is not None
    (why,) = status.coordinator.unanswered
    assert why.startswith("what the coordinator of g reports is not known: ")
    assert of_group(world) == DoctorFinding(
        "warning",
        "group g",
        "its coordinator does not answer, so its state is not known",
        "zkgroup coordinator describe g",
    )


@pytest.mark.parametrize(
    ("ends_in_ms", "severity", "more"),
    [
        (295_000, "info", ""),
        (255_000, "warning", ", for 45 s; those that have not come are removed in 255 s"),
    ],
)
def test_a_rebalance_names_the_members_that_it_waits_for(
    world: MemoryGroups,
    groups: CoordinatedGroups,
    monkeypatch: pytest.MonkeyPatch,
    ends_in_ms: int,
    severity: str,
    more: str,
) -> None:
    """The members' rebalance timeout is 300 s: what is left of it says how long the phase has lasted."""
    monkeypatch.setattr(coordinator.describe_coordinator, "__kwdefaults__", {"timeout_ms": PATIENT_MS})
    monkeypatch.setattr(coordinator.live_reader, "__defaults__", (lambda _: None, PATIENT_MS))

    def describe(request: Request) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=(rebalancing(ends_in_ms),))

    with coordinating_broker({DescribeGroupsRequest: describe}) as (port, _):
        groups.broker(1, port)
        found = of_group(world)

    assert found.severity == severity
    assert found.detail == f"is rebalancing, PreparingRebalance: waits for client-bob (10.0.0.1){more}"
    assert found.next == "zkgroup coordinator describe g"


def summary(state: GroupState, protocol_state: str | None) -> GroupSummary:
    return GroupSummary(
        group="g",
        state=state,
        members=2,
        topics=("orders",),
        partitions=2,
        unowned=0,
        lag=None,
        protocol="coordinator",
        protocol_state=protocol_state,
    )


LED = CoordinatorStatus(slots=4, slots_without_leader=(), unanswered=())


@pytest.mark.parametrize(
    ("state", "protocol_state", "severity"),
    [
        (GroupState.STABLE, "Stable", None),
        (GroupState.EMPTY, "Empty", None),
        (GroupState.INCONSISTENT, "Stable", "error"),
        (GroupState.REBALANCING, "Stable", "info"),
        (GroupState.REBALANCING, "CompletingRebalance", "info"),
    ],
)
def test_findings_by_state(state: GroupState, protocol_state: str, severity: str | None) -> None:
    """A group that has gone since it was listed has no details."""
    found = diagnose_coordinated(summary(state, protocol_state), LED, {})

    assert (found.severity if found else None) == severity


def test_a_rebalance_of_members_that_are_not_stored_has_no_known_age(
    world: MemoryGroups, groups: CoordinatedGroups
) -> None:
    """A new member's rebalance timeout is not known, so the finding stays a note."""
    described = describe_coordinator(world.ensemble, "g").groups[0]
    members = tuple(replace(one, rebalance_timeout_ms=None, has_joined=False) for one in described.members)
    found = replace(
        described,
        state="PreparingRebalance",
        phase="PreparingRebalance",
        phase_ends_in_ms=1_000,
        members=members,
    )

    finding = diagnose_coordinated(summary(GroupState.REBALANCING, "PreparingRebalance"), LED, {"g": found})

    assert finding is not None
    assert (finding.severity, finding.detail) == (
        "info",
        "is rebalancing, PreparingRebalance: waits for client (127.0.0.1), client (127.0.0.1)",
    )


def test_status_shows_the_slots(
    world: MemoryGroups, groups: CoordinatedGroups, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On one line, with those whose leader refuses to lead, and what coordinators have not answered; in the
    JSON with the numbers of the slots.
    """

    @contextmanager
    def connected(**_: object) -> Iterator[Ensemble]:
        yield world.ensemble

    monkeypatch.setattr("zkgroup_cli.commands.status.connected", connected)
    shell = Shell(tmp_path)
    ran = shell.run("-z", "z:1", "status")

    assert "coordinator 4 slots, 4 without a live leader\n" in ran.out
    assert shell.json("-z", "z:1", "status")["coordinator"] == {
        "slots": 4,
        "slots_without_leader": [0, 1, 2, 3],
        "unanswered": [],
    }
    groups.broker(1)
    ran = shell.run("-z", "z:1", "status")
    assert "coordinator 4 slots, all led\n" in ran.out
    assert "coordinator what the coordinator of g reports is not known" in ran.out
    MemoryCluster(world, 0).ours()
    waiting = {f"leader of {OFFSETS_TOPIC}-2": "error 56"}
    world.hold(ControllerStatus.path(), ControllerStatus(1, 7, 2**40, 5, waiting=waiting).encode())
    ran = shell.run("-z", "z:1", "status")
    assert "coordinator 4 slots, 1 whose leader refuses to lead\n" in ran.out
    assert "partitions  1 whose leader refuses to lead" in ran.out
