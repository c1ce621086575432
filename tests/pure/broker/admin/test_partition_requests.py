"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.pure.broker.admin.conftest import BY
from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.stores import MeddledStore, before_nth
from zkgroup.broker.admin.failures import RequestPartError
from zkgroup.broker.admin.partitions import (
    PREFERRED,
    UNCLEAN,
    Results,
    alter_reassignments,
    elect_leaders,
    running_reassignments,
)
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete, Multi
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.admin_requests import Move, PreferredElection, Reassignment
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.controller import ControllerRegistration


def _tp(number: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, number)


def _codes(found: Results) -> dict[str, ErrorCode | None]:
    return {str(tp): None if why is None else why.error for tp, why in sorted(found.items())}


def _operator(cluster: MemoryCluster, controller: Callable[[], None]) -> Ensemble:
    """An operator in whose pauses the controller works."""

    def pause(seconds: float) -> None:
        controller()
        cluster.world.pass_time(seconds)

    return cluster.world.operator(cluster.world.server.client("broker"), pause)


def test_an_election_waits_for_the_controller_and_says_what_each_partition_needed(
    cluster: MemoryCluster,
) -> None:
    """84 where the preferred replica leads, 80 where it cannot, 3 where there is no such partition."""
    cluster.topic("moved", (1, 2), (3, 2), (2, 1))
    cluster.state("moved", 0, 2, (1, 2))
    cluster.state("moved", 1, 2, (2,))

    def controller() -> None:
        if cluster.world.server.find(PreferredElection.path()) is not None:
            cluster.state("moved", 0, 1, (1, 2))
            cluster.world.write(Delete(PreferredElection.path(), -1))

    wanted = [*(_tp(number, "moved") for number in (0, 1, 2, 9)), _tp(0, "absent")]
    found = elect_leaders(_operator(cluster, controller), PREFERRED, wanted, 60.0, BY)

    assert _codes(found) == {
        "absent-0": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "moved-0": None,
        "moved-1": ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        "moved-2": ErrorCode.ELECTION_NOT_NEEDED,
        "moved-9": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_an_election_of_all_partitions_leaves_out_those_that_need_none(cluster: MemoryCluster) -> None:
    """As in Kafka (KIP-460)."""
    assert elect_leaders(cluster.world.ensemble, PREFERRED, None, 1.0, BY) == {}


def test_an_election_that_no_controller_performs_times_out(cluster: MemoryCluster) -> None:
    """A second one meanwhile is told to try again."""
    cluster.state("orders", 0, 2, (1, 2))
    timed_out = {"orders-0": ErrorCode.REQUEST_TIMED_OUT}

    assert _codes(elect_leaders(cluster.world.ensemble, PREFERRED, [_tp(0)], 1.0, BY)) == timed_out
    assert _codes(elect_leaders(cluster.world.ensemble, PREFERRED, [_tp(0)], 1.0, BY)) == timed_out


def test_an_unclean_election_is_refused_where_none_can_lead(cluster: MemoryCluster) -> None:
    """84 with a live leader, 83 without a live replica."""
    cluster.topic("lost", (8, 9))

    found = elect_leaders(cluster.world.ensemble, UNCLEAN, [_tp(0), _tp(0, "lost")], 1.0, BY)

    assert _codes(found) == {
        "lost-0": ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "orders-0": ErrorCode.ELECTION_NOT_NEEDED,
    }


def test_an_election_of_an_unknown_type_is_refused(cluster: MemoryCluster) -> None:
    """A later type must not be taken for an unclean election, which can lose records."""
    before = len(cluster.world.server.log)

    with pytest.raises(RequestPartError, match="no election of type 2") as refused:
        elect_leaders(cluster.world.ensemble, 2, [_tp(0)], 1.0, BY)
    assert refused.value.error == ErrorCode.INVALID_REQUEST
    assert len(cluster.world.server.log) == before


def test_a_reassignment_is_one_request_to_the_controller(cluster: MemoryCluster) -> None:
    """Partitions with an error of their own are left out of it."""
    wanted = {_tp(0): (3, 1), _tp(1): (2, 2), _tp(5): (1,), _tp(0, "absent"): (1,), _tp(1, "absent"): (9,)}
    found = alter_reassignments(cluster.world.ensemble, wanted, BY)

    assert _codes(found) == {
        "absent-0": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "absent-1": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "orders-0": None,
        "orders-1": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "orders-5": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert cluster.requested() == {_tp(0): (3, 1)}


def test_a_reassignment_is_added_to_the_one_that_runs(cluster: MemoryCluster) -> None:
    """ZooKeeper has one request for reassignments; a partition that moves gets the other target (KIP-455)."""
    ensemble = cluster.world.ensemble
    alter_reassignments(ensemble, {_tp(0): (3, 1)}, BY)
    union = Topic({0: (3, 1, 2), 1: (2, 1)}, version=2, adding={0: (3,)}, removing={0: (2,)})
    cluster.world.server.put(Topic.path("orders"), union.encode())

    assert _codes(alter_reassignments(ensemble, {_tp(1): (3, 1)}, BY)) == {"orders-1": None}
    assert cluster.requested() == {_tp(0): (3, 1), _tp(1): (3, 1)}
    found = alter_reassignments(ensemble, {_tp(0): (3, 1, 2), _tp(1): None}, BY)
    assert _codes(found) == {"orders-0": None, "orders-1": None}
    assert cluster.requested() == {_tp(0): (3, 1, 2), _tp(1): (2, 1)}


def test_an_added_reassignment_is_merged_again_when_another_one_ends(cluster: MemoryCluster) -> None:
    """The controller ends moves at any moment: what it has taken out does not come back."""
    ensemble = cluster.world.ensemble
    alter_reassignments(ensemble, {_tp(0): (3, 1), _tp(1): (3, 2)}, BY)
    ended = Reassignment((Move(_tp(1), (3, 2)),)).encode()
    at_write = before_nth(Multi, 1, lambda: cluster.world.server.put(Reassignment.path(), ended))
    client = MeddledStore(cluster.world.server.client("broker"), at_write)

    found = alter_reassignments(cluster.world.operator(client), {_tp(1): (1, 3)}, BY)

    assert _codes(found) == {"orders-1": None}
    assert cluster.requested() == {_tp(1): (1, 3)}


def test_a_second_reassignment_waits_for_the_first_with_a_kafka_controller(cluster: MemoryCluster) -> None:
    """60: Kafka's controllers read a request once. The same without a controller, as Kafka's may be next."""
    ensemble = cluster.world.ensemble
    alter_reassignments(ensemble, {_tp(0): (3, 1)}, BY)
    refused = {"orders-1": ErrorCode.REASSIGNMENT_IN_PROGRESS}
    cluster.no_controller()
    assert _codes(alter_reassignments(ensemble, {_tp(1): (3, 1)}, BY)) == refused
    cluster.world.hold(ControllerRegistration.path(), ControllerRegistration(1, 1).encode())
    assert _codes(alter_reassignments(ensemble, {_tp(1): (3, 1)}, BY)) == refused
    assert cluster.requested() == {_tp(0): (3, 1)}


def test_a_move_without_a_request_is_in_progress(cluster: MemoryCluster) -> None:
    """60: a Kafka controller has begun it, and its topic alone shows it."""
    union = Topic({0: (3, 1, 2), 1: (2, 1)}, version=2, adding={0: (3,)}, removing={0: (2,)})
    cluster.world.server.put(Topic.path("orders"), union.encode())

    found = alter_reassignments(cluster.world.ensemble, {_tp(0): (1, 2)}, BY)

    assert _codes(found) == {"orders-0": ErrorCode.REASSIGNMENT_IN_PROGRESS}


def test_an_unknown_target_is_refused(cluster: MemoryCluster) -> None:
    """Broker 9 is not registered. The other partitions of the request are moved."""
    found = alter_reassignments(cluster.world.ensemble, {_tp(0): (9, 1), _tp(1): (3, 2)}, BY)

    assert _codes(found) == {"orders-0": ErrorCode.INVALID_REPLICA_ASSIGNMENT, "orders-1": None}
    assert cluster.requested() == {_tp(1): (3, 2)}


def test_running_reassignments_show_what_comes_and_what_goes(cluster: MemoryCluster) -> None:
    """Before the controller has begun by the request, then by the topic."""
    ensemble = cluster.world.ensemble
    alter_reassignments(ensemble, {_tp(0): (3, 1)}, BY)

    (begun,) = running_reassignments(ensemble, None).values()
    assert (begun.replicas, begun.adding, begun.removing) == ((3, 1, 2), (3,), (2,))
    topic = Topic({0: (3, 1, 2), 1: (2, 1)}, version=2, adding={0: (3,)}, removing={0: (2,)})
    cluster.world.server.put(Topic.path("orders"), topic.encode())
    assert running_reassignments(ensemble, [_tp(0), _tp(1)]) == {_tp(0): begun}


def test_a_cancelled_reassignment_goes_back(cluster: MemoryCluster) -> None:
    """85 for a partition that does not move, or does not exist."""
    ensemble = cluster.world.ensemble
    alter_reassignments(ensemble, {_tp(0): (3, 1)}, BY)

    found = alter_reassignments(ensemble, {_tp(0): None, _tp(1): None, _tp(5): None}, BY)

    idle = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert _codes(found) == {"orders-0": None, "orders-1": idle, "orders-5": idle}
    assert cluster.requested() == {_tp(0): (1, 2)}
