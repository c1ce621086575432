"""What a control request claims of partitions, compared with ZooKeeper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.worlds.broker_requests import (
    ORDERS,
    broker,
    leader_and_isr,
    live_brokers,
    state,
    stop_replica,
    update_metadata,
)
from zkgroup.broker.server.control_claims import (
    Known,
    StoredStates,
    claimed,
    claimed_brokers,
    impossible,
    paths_of,
    registered_brokers,
    stored_states,
    without,
)
from zkgroup.model import TopicPartition, Znode, ZnodeStat
from zkgroup.model.requests import Code
from zkgroup.wire.control import LEADER_DURING_DELETE, PartitionStateInfo
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic

ME = 1
ONE = TopicPartition("orders", 1)
STAT = ZnodeStat(*range(11))


def stored(leader: int, epoch: int, isr: tuple[int, ...], *, going: bool = False) -> StoredStates:
    topics = frozenset({ORDERS.topic}) if going else frozenset()
    return StoredStates({ORDERS: PartitionState(leader, epoch, isr, 1)}, frozenset(), topics)


NOTHING = StoredStates({}, frozenset())
UNREADABLE = StoredStates({}, frozenset({ORDERS}))


def knows(*states: PartitionStateInfo) -> Known:
    return {each.topic_partition: each for each in states}.get


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
    sent = state(leader=leader, epoch=epoch)
    for request in (leader_and_isr(sent), update_metadata(sent)):
        compared = claimed(request, ME, knows())

        assert compared == (ORDERS,)
        assert impossible(request, ME, compared, knows(), found) == (frozenset() if is_possible else {ORDERS})


@pytest.mark.parametrize(
    ("found", "is_possible"),
    [(stored(1, 4, (1, 2)), False), (stored(1, 4, (1, 2), going=True), True), (NOTHING, True)],
)
def test_only_a_topic_that_goes_leaves_the_metadata(found: StoredStates, is_possible: bool) -> None:
    """Its deletion is asked for, or it is gone."""
    request = update_metadata(state(leader=LEADER_DURING_DELETE))

    refused = impossible(request, ME, (ORDERS,), knows(), found)

    assert refused == (frozenset() if is_possible else {ORDERS})


@pytest.mark.parametrize(
    ("replicas", "epoch", "is_possible"), [((1,), 4, False), ((1, 2, 3), 4, True), ((1,), 5, True)]
)
def test_a_known_role_comes_again_with_the_replicas_of_the_topic_alone(
    replicas: tuple[int, ...], epoch: int, is_possible: bool
) -> None:
    """With fewer the leader would shut out a follower. In a new epoch a reassignment goes on."""
    known = knows(state(epoch=4))
    request = leader_and_isr(state(epoch=epoch, replicas=replicas))
    found = StoredStates(
        {ORDERS: PartitionState(1, epoch, (1, 2), 1)},
        frozenset(),
        topics={ORDERS.topic: Topic({ORDERS.partition: (1, 2, 3)})},
    )
    compared = claimed(request, ME, known)

    assert compared == (ORDERS,)
    assert impossible(request, ME, compared, known, found) == (frozenset() if is_possible else {ORDERS})


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
    compared = claimed(request, ME, knows())

    assert impossible(request, ME, compared, knows(), found) == (frozenset() if is_possible else {ORDERS})


def test_what_changes_nothing_is_not_read() -> None:
    """A known leader, a replica of others, and a partition that cannot exist."""
    known = knows(state(epoch=4))
    elsewhere = state(ONE, replicas=(2, 3))
    illegal = state()._replace(topic="a/b")

    assert claimed(leader_and_isr(state(epoch=4), elsewhere, illegal), ME, known) == ()
    assert claimed(update_metadata(state(epoch=4, isr=(1,)), illegal), ME, known) == ()
    assert claimed(leader_and_isr(state(epoch=5)), ME, known) == (ORDERS,)
    assert claimed(update_metadata(elsewhere), ME, known) == (ONE,)


def test_what_a_read_has_found() -> None:
    """The states in their order, and the requests to delete topics behind them."""
    request = stop_replica(ORDERS, ONE)
    compared = claimed(request, ME, knows())
    paths = paths_of(request, compared)
    assert paths == (*PartitionState.paths(compared), TopicDeletion.path(ORDERS.topic))
    data = PartitionState(1, 4, (1,), 1).encode()
    states = {ORDERS: PartitionState.decode(paths[0], data)}

    znodes = (Znode(paths[0], data, STAT), Code.NO_AUTH, Znode(paths[2], b"", STAT))
    assert stored_states(request, compared, znodes) == StoredStates(
        states, frozenset({ONE}), to_be_deleted=frozenset({ORDERS.topic})
    )
    assert without(request, frozenset({ORDERS})) == stop_replica(ONE)

    roles = leader_and_isr(state(), state(ONE))
    path = Topic.path(ORDERS.topic)
    assert paths_of(roles, compared) == (*paths[:2], path)
    topic = Topic({0: (1, 2)})
    znodes = (*znodes[:2], Znode(path, topic.encode(), STAT))
    assert stored_states(roles, compared, znodes).topics == {ORDERS.topic: topic}
    assert without(roles, frozenset({ORDERS})) == leader_and_isr(state(ONE))


def test_live_brokers_are_those_that_are_registered() -> None:
    """2 stays, 3 is gone, 4 is new, 5 is elsewhere, 6 is nowhere, 7 cannot be read; 8 is where it was."""
    live = {one.broker: one for one in live_brokers(1, 2, 3, 8)}
    request = update_metadata(live=(1, 4, 5, 6, 7))
    request = replace(request, brokers=(*request.brokers, replace(live[8], port=1)))
    compared = claimed_brokers(request, live)
    assert compared == (2, 3, 4, 5, 6, 7, 8)

    def registered(number: int, port: int | None = None) -> Znode:
        address = broker(number)
        data = BrokerRegistration(address.host, port or address.port, timestamp_ms=1).encode()
        return Znode(BrokerRegistration.path(number), data, STAT)

    znodes = (registered(2), None, registered(4), registered(5, 1), None, Code.NO_AUTH, registered(8))

    assert registered_brokers(request, live, compared, znodes) == live_brokers(1, 4, 7, 2, 8)
    assert claimed_brokers(update_metadata(live=(1, 2, 3, 8)), live) == ()
    assert claimed_brokers(leader_and_isr(), live) == ()
