"""How a broker handles its controller's requests."""

from __future__ import annotations

import pytest

from tests.worlds.broker_requests import (
    ORDERS,
    broker,
    handled,
    leader_and_isr,
    state,
    stop_replica,
    update_metadata,
)
from zkgroup.broker.replica_view import (
    AssignedRole,
    BecomeFollower,
    BecomeLeader,
    DeleteReplica,
    SetReplicas,
    StopReplica,
)
from zkgroup.broker.server.control_requests import ControlRequestHandler
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.model import TopicPartition
from zkgroup.wire.control import (
    LeaderAndIsrResponse,
    PartitionError,
    StopReplicaResponse,
    UpdateMetadataResponse,
)

ONE = TopicPartition("orders", 1)
TWO = TopicPartition("orders", 2)
STALE = 11
STALE_EPOCH = 13


def receiver() -> ControlRequestHandler:
    """Of broker 1."""
    return ControlRequestHandler(1, MetadataCache())


@pytest.mark.parametrize("first", ["leader and isr", "stop", "update"])
def test_an_older_controller_is_refused_whatever_showed_the_newer_one(first: str) -> None:
    """11 for all three, an empty list, nothing done; the higher epoch is remembered."""
    one, cache = receiver(), MetadataCache()
    one = ControlRequestHandler(1, cache)
    match first:
        case "leader and isr":
            handled(one.leader_and_isr(leader_and_isr(epoch=5)))
        case "stop":
            handled(one.stop_replica(stop_replica(epoch=5)))
        case "update":
            one.update_metadata(update_metadata(epoch=5, live=(1,)), 0)
    known = cache.metadata([])

    assert handled(one.leader_and_isr(leader_and_isr(state(), epoch=4))) == ([], LeaderAndIsrResponse(STALE))
    assert handled(one.stop_replica(stop_replica(ORDERS, epoch=4))) == ([], StopReplicaResponse(STALE))
    assert one.update_metadata(update_metadata(state(), epoch=4), 0) == UpdateMetadataResponse(STALE)
    assert (one.controller_epoch, dict(one.replicas), cache.metadata([])) == (5, {}, known)


def test_an_equal_or_higher_controller_epoch_is_accepted() -> None:
    """By each of the three."""
    one = receiver()
    assert one.controller_epoch is None
    for epoch in (0, 0, 2, 3, 3):
        assert handled(one.leader_and_isr(leader_and_isr(epoch=epoch))) == ([], LeaderAndIsrResponse(0))
        assert handled(one.stop_replica(stop_replica(epoch=epoch))) == ([], StopReplicaResponse(0))
        assert one.update_metadata(update_metadata(epoch=epoch), 0) == UpdateMetadataResponse(0)
    assert one.controller_epoch == 3


def test_leaders_are_made_before_followers_and_answered_in_the_order_asked() -> None:
    """Followers may fetch from a new leader at once: it must not wait for the broker's own fetches."""
    one = receiver()
    lead, follow = state(ONE, leader=1), state(ORDERS, leader=2)

    actions, response = handled(one.leader_and_isr(leader_and_isr(follow, lead)))

    assert actions == [BecomeLeader(lead), BecomeFollower(follow, broker(2))]
    assert response == LeaderAndIsrResponse(
        0, (PartitionError("orders", 0, 0), PartitionError("orders", 1, 0))
    )
    assert one.replicas == {ONE: AssignedRole(lead, leads=True), ORDERS: AssignedRole(follow, leads=False)}


@pytest.mark.parametrize("epoch", [3, 4])
def test_an_equal_or_lower_leader_epoch_has_error_13(epoch: int) -> None:
    """For that partition alone, and its state is untouched."""
    one = receiver()
    handled(one.leader_and_isr(leader_and_isr(state(leader=1, epoch=4))))
    known = dict(one.replicas)

    actions, response = handled(
        one.leader_and_isr(leader_and_isr(state(leader=2, epoch=epoch), state(ONE, leader=2)))
    )

    assert [action.topic_partition for action in actions] == [ONE]
    assert response.partitions == (PartitionError("orders", 0, 13), PartitionError("orders", 1, 0))
    assert one.replicas[ORDERS] == known[ORDERS]


def test_what_this_broker_does_not_replicate_is_not_in_the_response() -> None:
    """Even where it is named as leader, and it is not remembered."""
    one = receiver()

    actions, response = handled(
        one.leader_and_isr(leader_and_isr(state(leader=1, replicas=(2, 3)), state(ONE, leader=2)))
    )

    assert [action.topic_partition for action in actions] == [ONE]
    assert response == LeaderAndIsrResponse(0, (PartitionError("orders", 1, 0),))
    assert list(one.replicas) == [ONE]


@pytest.mark.parametrize("leader", [2, -1])
def test_a_follower_without_leader_stops_what_it_did_and_answers_0(leader: int) -> None:
    """The leader is not among those named, or there is none. The same decision can come again with it."""
    one = receiver()
    handled(one.leader_and_isr(leader_and_isr(state(leader=1, epoch=4))))
    decision = state(leader=leader, epoch=5)

    actions, response = handled(one.leader_and_isr(leader_and_isr(decision, leaders=(1, 3))))

    assert actions == [BecomeFollower(decision, None)]
    assert response == LeaderAndIsrResponse(0, (PartitionError("orders", 0, 0),))
    assert one.replicas[ORDERS] == AssignedRole(decision, leads=False, awaits_leader=True)
    again, _ = handled(one.leader_and_isr(leader_and_isr(decision, leaders=(leader,))))
    assert again == [BecomeFollower(decision, broker(leader))]


@pytest.mark.parametrize("earlier", [(), (3,)])
@pytest.mark.parametrize("leader", [2, -1])
def test_a_follower_without_leader_refuses_an_earlier_leader_epoch(
    earlier: tuple[int, ...], leader: int
) -> None:
    """Also where nothing was known of it before, and after a StopReplica: 13, and nothing is done."""
    one = receiver()
    for epoch in earlier:
        handled(one.leader_and_isr(leader_and_isr(state(leader=1, epoch=epoch))))
    handled(one.leader_and_isr(leader_and_isr(state(leader=leader, epoch=5), leaders=())))

    for late in (state(leader=1, epoch=4), state(leader=2, epoch=4)):
        actions, response = handled(one.leader_and_isr(leader_and_isr(late)))
        assert actions == []
        assert response == LeaderAndIsrResponse(0, (PartitionError("orders", 0, STALE_EPOCH),))
        handled(one.stop_replica(stop_replica(ORDERS)))

    decision = state(leader=2, epoch=5)
    assert handled(one.leader_and_isr(leader_and_isr(decision)))[0] == [BecomeFollower(decision, broker(2))]


def test_a_partition_named_twice_counts_once_by_its_last_entry() -> None:
    """And is answered once."""
    one = receiver()

    actions, response = handled(one.leader_and_isr(leader_and_isr(state(leader=1), state(leader=2, epoch=1))))

    assert actions == [BecomeFollower(state(leader=2, epoch=1), broker(2))]
    assert response.partitions == (PartitionError("orders", 0, 0),)


def test_an_empty_list_is_answered() -> None:
    """Controllers of Kafka send them (K40)."""
    one = receiver()

    assert handled(one.leader_and_isr(leader_and_isr())) == ([], LeaderAndIsrResponse(0))
    assert handled(one.stop_replica(stop_replica())) == ([], StopReplicaResponse(0))
    assert handled(one.stop_replica(stop_replica(delete=True))) == ([], StopReplicaResponse(0))


def test_what_the_host_cannot_do_is_in_the_response() -> None:
    """Error 56: the broker does not lead, and a leader is tried in a new leader epoch only.

    A follower is tried again: it continues in the same leader epoch when its files can be opened.

    Past bug: a controller that took over got error 13, and did not learn that the partition had no leader.
    """
    one = receiver()
    request = leader_and_isr(state(epoch=1), state(ONE, leader=2), state(TWO))

    _, response = handled(one.leader_and_isr(request), {ORDERS: 56, ONE: 56})

    assert [entry.error for entry in response.partitions] == [56, 56, 0]
    assert {tp: replica.leads for tp, replica in one.replicas.items()} == {
        ORDERS: False,
        ONE: False,
        TWO: True,
    }
    actions, response = handled(one.leader_and_isr(request), {ONE: 56})
    assert actions == [BecomeFollower(state(ONE, leader=2), broker(2))]
    assert [entry.error for entry in response.partitions] == [56, 56, 13]
    _, response = handled(one.leader_and_isr(request))
    assert [entry.error for entry in response.partitions] == [56, 0, 13]
    assert [entry.error for entry in handled(one.leader_and_isr(request))[1].partitions] == [56, 13, 13]
    _, response = handled(one.leader_and_isr(leader_and_isr(state(epoch=2))))
    assert (response.partitions[0].error, one.replicas[ORDERS].leads) == (0, True)


def test_a_stopped_replica_keeps_its_leader_epoch() -> None:
    """So a late LeaderAndIsr does not bring it back."""
    one = receiver()
    handled(one.leader_and_isr(leader_and_isr(state(epoch=4))))

    actions, response = handled(one.stop_replica(stop_replica(ORDERS)))

    assert actions == [StopReplica(ORDERS)]
    assert response == StopReplicaResponse(0, (PartitionError("orders", 0, 0),))
    assert one.replicas[ORDERS] == AssignedRole(state(epoch=4), leads=False)
    _, late = handled(one.leader_and_isr(leader_and_isr(state(epoch=4))))
    assert late.partitions == (PartitionError("orders", 0, 13),)


def test_a_leader_takes_over_the_replicas_that_a_later_controller_names() -> None:
    """A reassignment that the former controller was completing was cancelled: leader epoch 4 continues."""
    one = receiver()
    handled(one.leader_and_isr(leader_and_isr(state(epoch=4, replicas=(1, 2)))))
    wider = state(epoch=4, replicas=(1, 2, 3))

    assert handled(one.leader_and_isr(leader_and_isr(wider)))[0] == []  # the same controller: it comes late
    actions, response = handled(one.leader_and_isr(leader_and_isr(wider, epoch=2)))
    assert (actions, response.partitions[0].error) == ([SetReplicas(wider)], 0)
    actions, response = handled(one.leader_and_isr(leader_and_isr(wider, epoch=3)))
    assert (actions, response.partitions[0].error) == ([], 13)


@pytest.mark.parametrize("leads", [False, True])
def test_replicas_are_not_taken_over_by_who_does_not_lead(leads: bool) -> None:
    """A follower ignores the replica list; a stopped leader leads in no known leader epoch."""
    one = receiver()
    handled(one.leader_and_isr(leader_and_isr(state(leader=1 if leads else 2, epoch=4))))
    if leads:
        handled(one.stop_replica(stop_replica(ORDERS)))
    wider = state(leader=1 if leads else 2, epoch=4, replicas=(1, 2, 3))

    actions, response = handled(one.leader_and_isr(leader_and_isr(wider, epoch=2)))

    assert (actions, response.partitions[0].error) == ([], 13)


def test_a_deleted_replica_is_forgotten() -> None:
    """The topic can be created again, at leader epoch 0."""
    one = receiver()
    handled(one.leader_and_isr(leader_and_isr(state(epoch=4))))

    assert handled(one.stop_replica(stop_replica(ORDERS, delete=True)))[0] == [DeleteReplica(ORDERS)]
    assert one.replicas == {}
    _, again = handled(one.leader_and_isr(leader_and_isr(state(epoch=0))))
    assert again.partitions == (PartitionError("orders", 0, 0),)


@pytest.mark.parametrize("delete", [False, True])
def test_stopping_what_is_not_known_is_asked_of_the_host_and_answered_0(delete: bool) -> None:
    """There may be records of it from before a restart."""
    actions, response = handled(receiver().stop_replica(stop_replica(ONE, ONE, delete=delete)))

    assert actions == [DeleteReplica(ONE) if delete else StopReplica(ONE)]
    assert response.partitions == (PartitionError("orders", 1, 0),)


def test_a_deletion_that_fails_is_reported_and_can_be_requested_again() -> None:
    """The replica's role stays until then."""
    one = receiver()
    handled(one.leader_and_isr(leader_and_isr(state())))

    _, response = handled(one.stop_replica(stop_replica(ORDERS, delete=True)), {ORDERS: 56})

    assert response.partitions == (PartitionError("orders", 0, 56),)
    assert list(one.replicas) == [ORDERS]
    _, response = handled(one.stop_replica(stop_replica(ORDERS, delete=True)))
    assert (response.partitions[0].error, dict(one.replicas)) == (0, {})


def test_metadata_goes_to_the_cache_alone() -> None:
    """Its leader epochs are no fence for LeaderAndIsr."""
    cache = MetadataCache()
    one = ControlRequestHandler(1, cache)

    assert one.update_metadata(update_metadata(state(epoch=3)), 70) == UpdateMetadataResponse(0)

    assert (cache.partition(ORDERS), cache.age_ms(75)) == (state(epoch=3), 5)
    assert one.replicas == {}
    assert handled(one.leader_and_isr(leader_and_isr(state(epoch=3))))[1].partitions[0].error == 0


def test_a_batch_that_comes_twice_ends_as_it_did_the_first_time() -> None:
    """The receiver's half: in the order LeaderAndIsr, UpdateMetadata, StopReplica."""
    cache = MetadataCache()
    one = ControlRequestHandler(1, cache)
    ends = []
    for _ in range(2):
        handled(one.leader_and_isr(leader_and_isr(state(leader=1, epoch=4), state(ONE, leader=2))))
        one.update_metadata(update_metadata(state(leader=1, epoch=4), state(ONE, leader=2)), 0)
        handled(one.stop_replica(stop_replica(ONE)))
        ends.append((dict(one.replicas), cache.metadata([])))

    assert ends[0] == ends[1]
    assert ends[0][0] == {
        ORDERS: AssignedRole(state(leader=1, epoch=4), leads=True),
        ONE: AssignedRole(state(ONE, leader=2), leads=False),
    }
