"""What a control request claims of partitions, compared with ZooKeeper."""

from __future__ import annotations

import pytest

from tests.worlds.broker_requests import ORDERS, leader_and_isr, state, stop_replica
from zkgroup.broker.replica_view import AssignedRole
from zkgroup.broker.server.control_claims import (
    StoredStates,
    claimed,
    impossible,
    paths_of,
    stored_states,
    without,
)
from zkgroup.model import TopicPartition, Znode, ZnodeStat
from zkgroup.model.requests import Code
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import PartitionState

ME = 1
ONE = TopicPartition("orders", 1)
STAT = ZnodeStat(*range(11))


def stored(leader: int, epoch: int, isr: tuple[int, ...], *, going: bool = False) -> StoredStates:
    topics = frozenset({ORDERS.topic}) if going else frozenset()
    return StoredStates({ORDERS: PartitionState(leader, epoch, isr, 1)}, frozenset(), topics)


NOTHING = StoredStates({}, frozenset(), frozenset())
UNREADABLE = StoredStates({}, frozenset({ORDERS}), frozenset())


@pytest.mark.parametrize(
    ("leader", "epoch", "found", "is_possible"),
    [
        (1, 4, stored(1, 4, (1, 2)), True),
        (2, 4, stored(2, 4, (1, 2)), True),
        (1, 3, stored(2, 4, (2,)), True),
        (1, 5, stored(1, 4, (1, 2)), False),
        (1, 2**31 - 1, stored(1, 4, (1, 2)), False),
        (2, 4, stored(1, 4, (1, 2)), False),
        (1, 0, NOTHING, False),
        (1, 5, UNREADABLE, True),
    ],
)
def test_no_leader_epoch_is_above_the_stored_one(
    leader: int, epoch: int, found: StoredStates, is_possible: bool
) -> None:
    """A late request is possible; in the stored epoch the leader is the stored one."""
    request = leader_and_isr(state(leader=leader, epoch=epoch))
    compared = claimed(request, ME, {})

    assert compared == (ORDERS,)
    assert impossible(request, ME, compared, found) == (frozenset() if is_possible else {ORDERS})


@pytest.mark.parametrize(
    ("delete", "found", "is_possible"),
    [
        (False, stored(1, 4, (1, 2)), False),
        (False, stored(2, 4, (1, 2)), True),
        (True, stored(2, 4, (1, 2)), False),
        (True, stored(2, 4, (2,)), True),
        (True, stored(1, 4, (1,), going=True), True),
        (True, NOTHING, True),
        (True, UNREADABLE, True),
    ],
)
def test_no_leader_is_stopped_and_no_replica_in_sync_deleted(
    delete: bool, found: StoredStates, is_possible: bool
) -> None:
    """Unless the topic is to be deleted, or is gone."""
    request = stop_replica(ORDERS, delete=delete)
    compared = claimed(request, ME, {})

    assert impossible(request, ME, compared, found) == (frozenset() if is_possible else {ORDERS})


def test_what_changes_nothing_is_not_read() -> None:
    """A known leader epoch, a replica of others, and a partition that cannot exist."""
    known = {ORDERS: AssignedRole(state(epoch=4), leads=True)}
    elsewhere = state(ONE)._replace(replicas=(2, 3))
    illegal = state()._replace(topic="a/b")

    assert claimed(leader_and_isr(state(epoch=4), elsewhere, illegal), ME, known) == ()
    assert claimed(leader_and_isr(state(epoch=5)), ME, known) == (ORDERS,)


def test_what_a_read_has_found() -> None:
    """The states in their order, and the requests to delete topics behind them."""
    request = stop_replica(ORDERS, ONE)
    compared = claimed(request, ME, {})
    paths = paths_of(request, compared)
    assert paths == (*PartitionState.paths(compared), TopicDeletion.path(ORDERS.topic))
    data = PartitionState(1, 4, (1,), 1).encode()

    found = stored_states(compared, (Znode(paths[0], data, STAT), Code.NO_AUTH, Znode(paths[2], b"", STAT)))

    assert found == StoredStates(
        {ORDERS: PartitionState.decode(paths[0], data)}, frozenset({ONE}), frozenset({ORDERS.topic})
    )
    assert without(request, frozenset({ORDERS})) == stop_replica(ONE)
    assert without(leader_and_isr(state(), state(ONE)), frozenset({ORDERS})) == leader_and_isr(state(ONE))
