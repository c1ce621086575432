"""Simulated cooperative clients: what they keep and revoke, and what their leader assigns (KIP-429)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from tests.simulation.cluster.broker import SimulatedBroker
from tests.simulation.coordinator.assignments import (
    assign_cooperatively,
    assignment_bytes,
    subscription_bytes,
)
from tests.simulation.coordinator.calls import ClientCall, ClientNetwork
from tests.simulation.coordinator.client import ClientOptions, ClientPhase, GroupClient
from tests.simulation.coordinator.simulation import CoordinatorSimulation
from tests.simulation.coordinator.world import _PARTITIONS
from zkgroup.assignment.consumer_protocol import decode_subscription
from zkgroup.broker.groups.store_events import OffsetsRead
from zkgroup.broker.groups.stored_coordinator import ServiceResult
from zkgroup.coordinator.effects import CommitOffsetsResult
from zkgroup.coordinator.events import CommitOffsets, GroupRequest, JoinGroup
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.testing.clock import FakeClock
from zkgroup.wire.groups import HeartbeatResponse, JoinedMember, JoinGroupResponse, SyncGroupResponse
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata

P0, P1, P2 = ALL = tuple(TopicPartition("t0", number) for number in range(3))


class OneBroker:
    """A world with one broker, whose requests the test answers itself."""

    def __init__(self, instance_id: str | None = None) -> None:
        self.clock = FakeClock()
        self.rng = random.Random(1)
        self.calls = ClientNetwork(self.clock, self.rng, Counter())
        options = ClientOptions(is_cooperative=True)
        self.client = GroupClient(self, "g", "c", 0, 1, options, instance_id)
        self.noted: list[str] = []

    def find_coordinator(self, group: str) -> SimulatedBroker | None:
        return cast("SimulatedBroker", SimpleNamespace(name="b", pid=1))

    def partitions(self) -> Sequence[TopicPartition]:
        return ALL

    def note(self, client: GroupClient, kind: str, **fields: object) -> None:
        self.noted.append(kind)

    def act(self) -> None:
        """Lets the client do what is due, until it waits for an answer."""
        for _ in range(3):
            for action in list(self.client.actions()):
                action()

    def sent(self, kind: str = "main") -> GroupRequest:
        """The request of this kind that the client waits for."""
        return self._call(kind).request

    def answer(self, result: ServiceResult, kind: str = "main") -> None:
        self.client.received(self._call(kind), result)

    def _call(self, kind: str) -> ClientCall:
        return self.client._calls[kind]

    def owned(self) -> tuple[TopicPartition, ...]:
        """What the client says that it owns, in the join that it has sent."""
        request = self.sent()
        assert isinstance(request, JoinGroup)
        return decode_subscription(request.protocols[0][1]).owned

    def assign(self, generation: int, *partitions: TopicPartition) -> None:
        """Answers join and sync."""
        self.act()
        self.answer(JoinGroupResponse(generation=generation, leader="other", member_id="m"))
        self.act()
        self.answer(SyncGroupResponse(assignment=assignment_bytes(partitions)))

    def rebalance(self) -> None:
        """Answers the next heartbeat."""
        self.clock.advance(1_000)
        self.act()
        self.answer(HeartbeatResponse(error=ErrorCode.REBALANCE_IN_PROGRESS), "heartbeat")


def test_partitions_are_kept_and_what_moves_is_committed_and_revoked() -> None:
    """The client joins again with what it still owns."""
    world = OneBroker()
    world.assign(1, P0, P1)
    world.act()
    world.answer(OffsetsRead(1, ErrorCode.NONE, {P0: OffsetAndMetadata(offset=5)}, {}))
    assert world.client.believes.positions == {P0: 5, P1: 0}

    world.client.phase = ClientPhase.OUTSIDE  # as after a heartbeat
    world.assign(2, P0)
    world.act()
    commit = world.sent()
    assert isinstance(commit, CommitOffsets)
    assert (commit.generation, commit.offsets.keys()) == (2, {P0, P1})
    world.answer(CommitOffsetsResult({P0: ErrorCode.NONE, P1: ErrorCode.NONE}))
    world.act()

    assert world.owned() == (P0,)
    assert world.client.believes.positions == {P0: 5}


def test_partitions_without_an_offset_that_was_read_are_revoked_too() -> None:
    """Seed 20169: the client did not join again, so nobody got them."""
    world = OneBroker()
    world.assign(1, P0, P1)
    world.rebalance()
    world.act()
    assert world.owned() == (P0, P1)

    world.assign(2, P0)
    world.act()

    assert world.owned() == (P0,)


def test_lost_partitions_are_not_claimed() -> None:
    """The coordinator does not know the member any more: others may have got them."""
    world = OneBroker()
    world.assign(1, P0)
    world.clock.advance(1_000)
    world.act()
    world.answer(HeartbeatResponse(error=ErrorCode.UNKNOWN_MEMBER_ID), "heartbeat")
    world.act()

    assert world.owned() == ()


def member(name: str, *owned: TopicPartition, generation: int = 1) -> JoinedMember:
    return JoinedMember(
        member_id=name, group_instance_id=None, metadata=subscription_bytes("t0", owned, generation)
    )


def test_a_leader_assigns_what_moves_only_when_it_is_revoked() -> None:
    """First nobody has it, then the new member."""
    first = assign_cooperatively([member("a", P0, P1, P2), member("b")], ALL)
    second = assign_cooperatively([member("a", P0, P1), member("b")], ALL)

    assert first == {"a": [P0, P1], "b": []}
    assert second == {"a": [P0, P1], "b": [P2]}


def test_of_two_owners_the_one_of_the_later_generation_is_believed() -> None:
    """The member of the older generation is given none of what the newer one owns."""
    shares = assign_cooperatively([member("a", P0, P1, generation=5), member("b", P0, generation=6)], ALL)

    assert shares == {"a": [P1, P2], "b": [P0]}


def _working(*partitions: TopicPartition, instance_id: str | None = None) -> OneBroker:
    """A client that has its assignment, and has read the offsets."""
    world = OneBroker(instance_id)
    world.assign(1, *partitions)
    world.act()
    read = {each: OffsetAndMetadata(offset=5) for each in partitions}
    world.answer(OffsetsRead(1, ErrorCode.NONE, read, {}))
    assert world.client.phase is ClientPhase.WORKING
    return world


@pytest.mark.parametrize(("instance_id", "noted"), [("i", True), (None, False)])
def test_a_static_member_that_ends_between_its_assignment_and_its_next_join_is_noted(
    instance_id: str | None, noted: bool
) -> None:
    """Schedule 23606: its next process gets the assignment and does not know what was to be revoked."""
    world = OneBroker(instance_id)
    world.assign(1, P0)
    assert world.client.phase is not ClientPhase.WORKING

    world.client.end()

    assert ("static.ended" in world.noted) is noted


@pytest.mark.parametrize("is_assigned", [True, False])
def test_a_static_member_that_ends_outside_a_rebalance_is_not_noted(is_assigned: bool) -> None:
    """Nothing was to be revoked."""
    world = _working(P0, instance_id="i") if is_assigned else OneBroker("i")

    world.client.end()

    assert "static.ended" not in world.noted


def _enforced(*clients: OneBroker, ended: int, is_cooperative: bool = True) -> list[bool]:
    """Which clients join again after a look of the simulation at a group at the end."""
    setup = SimpleNamespace(options=ClientOptions(is_cooperative=is_cooperative))
    world = SimpleNamespace(members_setup=setup, figures=Counter({"client static.ended": ended}))
    simulation = cast("CoordinatorSimulation", SimpleNamespace(groups_world=world))
    CoordinatorSimulation._enforce_rebalance(simulation, [one.client for one in clients])
    return [one.client.phase is ClientPhase.OUTSIDE for one in clients]


def test_a_static_member_that_ended_within_a_rebalance_excuses_one_more() -> None:
    """Partitions are left that nobody has: Kafka waits for the next rebalance, and so does the group."""
    one, two = _working(P0), _working(P1)

    assert _enforced(one, two, ended=1) == [True, True]
    one.act()
    assert one.owned() == (P0,)


def test_nothing_else_excuses_a_group_that_does_not_settle() -> None:
    """Otherwise a coordinator that leaves partitions would not be found."""
    assert _enforced(_working(P0), _working(P1), ended=0) == [False, False]
    assert _enforced(_working(P0), _working(P1), ended=1, is_cooperative=False) == [False, False]
    joining = OneBroker()
    joining.client.phase = ClientPhase.JOINED
    assert _enforced(_working(P0), joining, ended=1) == [False, False]


def test_a_settled_group_is_left_alone() -> None:
    """All partitions have an owner, in one generation."""
    assert _enforced(_working(*_PARTITIONS), ended=1) == [False]
