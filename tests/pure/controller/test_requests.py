"""What brokers are sent after a decision, and in which order."""

from __future__ import annotations

from tests.worlds import golden_data
from tests.worlds.controller_clusters import broker, cluster, leadership, tp
from tests.worlds.wire_requests import decode_request
from zkgroup.controller.machine.context import ControllerContext, LiveBroker
from zkgroup.controller.machine.events import BrokerRequest
from zkgroup.controller.machine.pending_deletes import PendingDeletes
from zkgroup.controller.machine.requests.batch import BuiltRequests, RequestBatch
from zkgroup.controller.machine.requests.sender import SendQueue
from zkgroup.model import TopicPartition
from zkgroup.wire.control import (
    LEADER_DURING_DELETE,
    BrokerEndPoint,
    LeaderAndIsrRequest,
    PartitionStateInfo,
    StopReplicaRequest,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import Api, decode_rest, encode
from zkgroup.znodes.brokers import BrokerRegistration, Endpoint, InterBrokerListener, PartitionState, Topic


def batch() -> RequestBatch:
    """Of controller 7 in epoch 5."""
    return RequestBatch(7, 5)


def greeted(context: ControllerContext) -> ControllerContext:
    """Every broker has had its first LeaderAndIsr."""
    context.first_request_sent = {id_: each.epoch for id_, each in context.brokers.items()}
    return context


def build(
    one: RequestBatch, context: ControllerContext, pending_deletes: PendingDeletes | None = None
) -> BuiltRequests:
    """With nothing held unless said."""
    return one.build(context, pending_deletes or PendingDeletes())


def sort_of(each: BrokerRequest) -> str:
    """Kind of a request, with the flag of a stop."""
    if isinstance(each.request, StopReplicaRequest):
        return "delete" if each.request.delete else "stop"
    return "lead" if isinstance(each.request, LeaderAndIsrRequest) else "metadata"


def led(built: BuiltRequests, broker_id: int) -> dict[TopicPartition, PartitionStateInfo]:
    """What a broker's LeaderAndIsr says of each partition."""
    return {
        info.topic_partition: info
        for each in built.requests
        if each.broker == broker_id and isinstance(each.request, LeaderAndIsrRequest)
        for info in each.request.partitions
    }


def metadata(built: BuiltRequests) -> UpdateMetadataRequest:
    """The one UpdateMetadata that all brokers get."""
    found = {each.request for each in built.requests if isinstance(each.request, UpdateMetadataRequest)}
    assert len(found) == 1
    return found.pop()


def test_leader_and_isr_then_metadata_then_stop() -> None:
    """In this order for each broker, to stop before to delete, however called."""
    context = greeted(cluster({"t": {0: (1, 2), 1: (2, 1)}}))
    one = batch()
    one.stop_replica([1, 2], tp(1), delete=True)
    one.stop_replica([2], tp(1), delete=False)
    one.leader_and_isr([1, 2], tp(0))

    built = build(one, context)

    by_broker = {id_: [sort_of(each) for each in built.requests if each.broker == id_] for id_ in (1, 2, 3)}
    assert by_broker == {
        1: ["lead", "metadata", "delete"],
        2: ["lead", "metadata", "stop", "delete"],
        3: ["metadata"],
    }
    kinds = [sort_of(each) for each in built.requests]
    assert kinds == sorted(kinds, key=["lead", "metadata", "stop", "delete"].index)


def test_a_request_says_what_the_context_has_when_it_is_built() -> None:
    """State, version, replica list and the addresses of the leaders named."""
    context = greeted(cluster({"t": {0: (1, 2), 1: (2, 1)}}))
    one = batch()
    one.leader_and_isr([1], tp(0))
    context.state_seen(tp(0), leadership(2, (2,), leader_epoch=3, version=4, epoch=5))

    built = build(one, context)

    assert built.requests[0] == BrokerRequest(
        1,
        1,
        LeaderAndIsrRequest(
            7, 5, (PartitionStateInfo("t", 0, 5, 2, 3, (2,), 4, (1, 2)),), (BrokerEndPoint(2, "h", 9002),)
        ),
    )


def test_of_two_calls_for_one_partition_the_last_counts() -> None:
    """One entry, with the list of the last call."""
    context = greeted(cluster({"t": {0: (1, 2)}}))
    one = batch()
    one.leader_and_isr([1], tp(0), (1, 2, 3))
    one.leader_and_isr([1], tp(0), (1, 3))

    assert led(build(one, context), 1)[tp(0)].replicas == (1, 3)


def test_what_brokers_lead_is_sent_to_all() -> None:
    """LeaderAndIsr brings UpdateMetadata to every broker, those that stop included, with one body."""
    context = greeted(cluster({"t": {0: (1, 2), 1: (2, 1)}}))
    context.shutting_down = {3}
    one = batch()
    one.leader_and_isr([1, 2], tp(0))

    built = build(one, context)

    received = [each for each in built.requests if sort_of(each) == "metadata"]
    assert [each.broker for each in received] == [1, 2, 3]
    assert [info.topic_partition for info in metadata(built).partitions] == [tp(0)]
    assert [each.broker for each in metadata(built).brokers] == [1, 2, 3]
    assert {id(each.body) for each in received} == {id(received[0].body)}
    assert received[0].body == encode(metadata(built), 0)


def test_brokers_with_other_listeners_are_named_with_all_of_them() -> None:
    """By UpdateMetadata 3 to brokers of zkgroup, as version 0 has one plain listener; Kafka's get that one.
    A broker without the inter-broker listener cannot be reached, and is in no request."""
    inside, outside = Endpoint("IN", "i", 1, "PLAINTEXT"), Endpoint("OUT", "o", 2, "SSL")

    def registered(*endpoints: Endpoint, zkgroup: bool) -> LiveBroker:
        own = {"zkgroup": {"role": "data"}} if zkgroup else {}
        return LiveBroker(BrokerRegistration.of(endpoints, 0, rack="r", extensions=own), 1)

    context = ControllerContext(InterBrokerListener("IN", "PLAINTEXT"))
    context.set_brokers(
        {
            1: registered(outside, inside, zkgroup=True),
            2: registered(inside, zkgroup=False),
            3: registered(outside, zkgroup=True),
        }
    )
    one = batch()
    one.update_metadata()

    to_zkgroup, to_kafka = build(one, context).requests

    assert (to_zkgroup.broker, to_zkgroup.version) == (1, 3)
    assert (to_kafka.broker, to_kafka.version) == (2, 0)
    assert to_zkgroup.body is not None
    assert to_kafka.body is not None
    assert decode_rest(UpdateMetadataRequest, 3, to_zkgroup.body, 0).brokers == (
        UpdateMetadataBroker(
            1,
            endpoints=(UpdateMetadataEndpoint(2, "o", "OUT", 1), UpdateMetadataEndpoint(1, "i", "IN", 0)),
            rack="r",
        ),
        UpdateMetadataBroker(2, endpoints=(UpdateMetadataEndpoint(1, "i", "IN", 0),), rack="r"),
    )
    assert decode_rest(UpdateMetadataRequest, 0, to_kafka.body, 0).brokers == (
        UpdateMetadataBroker(1, "i", 1),
        UpdateMetadataBroker(2, "i", 1),
    )


def test_an_update_without_partitions_names_the_brokers_alone() -> None:
    """As from 2.2 on: a broker that joins costs the others no partition (KAFKA-7537)."""
    one = batch()
    one.update_metadata()

    assert metadata(build(one, cluster({"t": {0: (1, 2)}}))).partitions == ()


def test_an_update_of_all_names_every_partition_with_a_state() -> None:
    """One without leader is a state too; one that has none yet is left out."""
    context = cluster({"t": {0: (1, 2), 1: (1, 2)}})
    context.topic_seen("u", Topic({0: (1,)}), 0)
    context.state_seen(tp(1), leadership(-1, (), version=1))
    one = batch()
    one.update_metadata_of_all()

    found = metadata(build(one, context)).partitions

    assert [(info.topic_partition, info.leader, info.isr) for info in found] == [
        (tp(0), 1, (1, 2)),
        (tp(1), -1, ()),
    ]


def test_nothing_asked_for_is_nothing_sent() -> None:
    """An empty batch."""
    assert build(batch(), cluster({"t": {0: (1, 2)}})) == BuiltRequests((), {})


def test_partitions_of_deleted_topics_are_hidden_in_every_update() -> None:
    """Leader -2 and leader epoch 0, at the end, in what the others are sent too; never as they are."""
    context = cluster({"t": {0: (1, 2)}, "gone": {0: (2, 1)}})
    context.state_seen(tp(0, "gone"), leadership(2, (2, 1), leader_epoch=9, version=4, epoch=3))
    context.deletions = {"gone", "unknown"}
    one = batch()
    one.update_metadata([tp(0, "gone"), tp(0)])

    found = metadata(build(one, context)).partitions

    assert found[0].topic_partition == tp(0)
    assert found[1:] == (PartitionStateInfo("gone", 0, 3, LEADER_DURING_DELETE, 0, (2, 1), 0, (2, 1)),)


def test_real_kafka_hides_them_the_same_way() -> None:
    """In the recorded frames of 0.8.2.2: leader epoch and version 0 with leader -2."""
    hidden = {
        (info.leader_epoch, info.zk_version)
        for frame in golden_data.frames("kafka-0.8.2.2/wire")
        if frame.api == Api.UPDATE_METADATA and frame.direction == "request"
        for info in getattr(decode_request(frame.data[4:])[1], "partitions", ())
        if info.leader == LEADER_DURING_DELETE
    }

    assert hidden == {(0, 0)}


def test_ids_below_0_and_brokers_that_are_gone_are_sent_nothing() -> None:
    """Nor is a controller that hosts nothing (recipes 14); a leader -1 has no address."""
    context = greeted(cluster({"t": {0: (1, 2)}}))
    context.set_brokers({1: broker(1), -1: broker(-1), 8: broker(8, role="controller")})
    context.state_seen(tp(0), leadership(-1, (), version=1))
    one = batch()
    one.leader_and_isr([1, 2, -1, 8], tp(0))
    one.stop_replica([2, -1], tp(0), delete=True)

    built = build(one, context)

    assert [(each.broker, sort_of(each)) for each in built.requests] == [(1, "lead"), (1, "metadata")]
    request = built.requests[0].request
    assert isinstance(request, LeaderAndIsrRequest)
    assert request.leaders == ()
    assert [each.broker for each in metadata(built).brokers] == [1]


def test_stops_are_one_request_for_each_broker_and_flag() -> None:
    """Not one for each partition, as in 0.8.2.2, and no empty one (K40)."""
    one = batch()
    for number in (2, 0, 1):
        one.stop_replica([1], tp(number), delete=True)

    built = build(one, cluster({"t": {0: (1,), 1: (1,), 2: (1,)}}))

    assert [each.request for each in built.requests] == [
        StopReplicaRequest(7, 5, True, (tp(0), tp(1), tp(2)))
    ]


def test_a_stop_is_dropped_for_a_later_leader_and_isr_of_the_batch() -> None:
    """It has no leader epoch, so it would undo what is newer; a later stop stays (K28)."""
    context = greeted(cluster({"t": {0: (1, 2), 1: (1, 2)}}))
    one = batch()
    one.stop_replica([1, 2], tp(0), delete=False)
    one.leader_and_isr([1], tp(0))
    one.leader_and_isr([2], tp(1))
    one.stop_replica([2], tp(1), delete=False)

    stops = [each for each in build(one, context).requests if sort_of(each) == "stop"]

    assert [(each.broker, getattr(each.request, "partitions", ())) for each in stops] == [(2, (tp(0), tp(1)))]


def test_the_first_leader_and_isr_names_every_partition_of_the_broker() -> None:
    """Recipes 15: a Kafka follower truncates what it does not name. Once for each incarnation."""
    context = cluster({"t": {0: (1, 2), 1: (2, 1), 2: (2, 3)}, "u": {0: (1,)}})
    one = batch()
    one.leader_and_isr([1], tp(0))
    assert list(led(build(one, context), 1)) == [tp(0), tp(1), tp(0, "u")]

    again = batch()
    again.leader_and_isr([1], tp(0))
    assert list(led(build(again, context), 1)) == [tp(0)]

    context.set_brokers({**context.brokers, 1: broker(1, epoch=2)})
    bounced = batch()
    bounced.leader_and_isr([1], tp(1))
    assert list(led(build(bounced, context), 1)) == [tp(0), tp(1), tp(0, "u")]


def test_what_the_first_request_cannot_name_is_reported() -> None:
    """An unreadable state is reported; a missing one is no matter, nor is a deleted topic (recipes 15)."""
    context = cluster({"t": {0: (1, 2), 1: (1, 2), 2: (1, 2)}, "gone": {0: (1, 2)}})
    context.state_seen(tp(1), None)
    context.state_seen(tp(2), None)
    context.unreadable[PartitionState.path(tp(1))] = "no JSON"
    context.deletions.add("gone")
    one = batch()
    one.leader_and_isr([1], tp(0))

    built = build(one, context)

    assert (list(led(built, 1)), built.omitted_partitions) == ([tp(0)], {1: (tp(1),)})


def test_a_late_move_is_sent_with_its_target_to_new_incarnations_too() -> None:
    """Those that leave are not made followers again; brokers get the target (recipes 17)."""
    context = cluster({"t": {0: (2, 1), 1: (1, 2)}})
    one = batch()
    one.leader_and_isr([1, 2], tp(1))

    built = one.build(context, PendingDeletes(), {tp(0): (2, 3)})

    assert list(led(built, 1)) == [tp(1)]
    assert led(built, 2)[tp(0)].replicas == (2, 3)


def test_a_replica_that_is_being_deleted_is_sent_nothing_and_not_named() -> None:
    """Not even to the leader, which would let it back into the ISR (recipes 17)."""
    context = greeted(cluster({"t": {0: (1, 2), 1: (1, 2)}}))
    pending_deletes = PendingDeletes()
    pending_deletes.delete_asked(tp(0), [2])
    one = batch()
    for number in (0, 1):
        one.leader_and_isr([1, 2], tp(number))

    built = build(one, context, pending_deletes)

    assert {each: info.replicas for each, info in led(built, 1).items()} == {tp(0): (1,), tp(1): (1, 2)}
    assert list(led(built, 2)) == [tp(1)]
    assert {info.topic_partition: info.replicas for info in metadata(built).partitions}[tp(0)] == (1,)


def test_a_deletion_holds_until_its_answer_or_the_end_of_the_incarnation() -> None:
    """A restart ends the connections on which it could arrive (recipes 17)."""
    context = cluster({"t": {0: (1, 2), 1: (1, 2)}})
    pending_deletes = PendingDeletes()
    pending_deletes.delete_asked(tp(0), [2, 3])
    pending_deletes.delete_asked(tp(1), [3])
    assert pending_deletes.of(context, tp(0)) == {2, 3}

    assert pending_deletes.delete_answered(2, [tp(0), tp(1)]) == (tp(0),)
    assert pending_deletes.of(context, tp(0)) == {3}
    assert pending_deletes.restarted(3) == (tp(0), tp(1))
    assert (pending_deletes.of(context, tp(0)), pending_deletes.all_deleting()) == (frozenset(), {})


def test_during_a_move_a_broker_that_has_not_answered_this_epoch_is_held() -> None:
    """A predecessor's request may be under way to it; in-sync replicas are not held (recipes 17)."""
    context = cluster({"t": {0: (1, 2), 1: (1, 2)}})
    context.moves.add(tp(0))
    pending_deletes = PendingDeletes()
    assert (pending_deletes.of(context, tp(0)), pending_deletes.of(context, tp(1))) == ({3}, frozenset())

    pending_deletes.answered(3, 1)
    assert pending_deletes.of(context, tp(0)) == frozenset()

    context.set_brokers({**context.brokers, 3: broker(3, epoch=2)})
    assert pending_deletes.of(context, tp(0)) == {3}
    pending_deletes.answered(3, 2)
    pending_deletes.epoch_raised()
    assert pending_deletes.of(context, tp(0)) == {3}


def stop(*numbers: int, delete: bool = False, incarnation: int = 1) -> BrokerRequest:
    """To broker 1."""
    partitions = tuple(tp(number) for number in numbers)
    return BrokerRequest(1, incarnation, StopReplicaRequest(7, 5, delete, partitions))


def lead(*numbers: int) -> BrokerRequest:
    """To broker 1."""
    infos = tuple(PartitionStateInfo("t", number, 5, 1, 0, (1,), 0, (1,)) for number in numbers)
    return BrokerRequest(1, 1, LeaderAndIsrRequest(7, 5, infos, ()))


def test_one_request_is_in_flight_and_is_sent_again_first() -> None:
    """A failure keeps the order, however often it happens."""
    queue = SendQueue(1, 1)
    queue.put([lead(0), stop(1)])
    assert queue.next() is None

    assert queue.connected() == lead(0)
    assert queue.next() is None
    queue.broken()
    queue.put([stop(2)])
    assert queue.connected() == lead(0)
    assert queue.answered() == (lead(0), True)
    assert (queue.next(), len(queue)) == (stop(1), 2)
    assert queue.answered() == (stop(1), False)
    assert queue.next() == stop(2)


def test_requests_to_another_incarnation_are_not_sent() -> None:
    """What was decided for the former one is not for the new one; nor what is for others (K8)."""
    queue = SendQueue(1, 2)

    queue.put([stop(0, incarnation=1), BrokerRequest(3, 2, stop(0).request)])

    assert (queue.connected(), len(queue)) == (None, 0)


def test_a_waiting_stop_gives_way_to_a_newer_leader_and_isr() -> None:
    """K28: for the partitions named by it; a dropped deletion is reported, as no response to it will come."""
    queue = SendQueue(1, 1)
    queue.put([stop(0, 1), stop(0, 2, delete=True), stop(3)])

    assert queue.put([lead(0, 3)]) == {tp(0)}

    sent = [queue.connected()]
    while queue.answered() and len(queue):
        sent.append(queue.next())
    assert sent == [stop(1), stop(2, delete=True), lead(0, 3)]


def test_a_stop_in_flight_is_not_taken_back() -> None:
    """It has been sent; its answer decides."""
    queue = SendQueue(1, 1)
    queue.put([stop(0, delete=True)])
    queue.connected()

    assert queue.put([lead(0)]) == frozenset()
    queue.broken()
    assert queue.connected() == stop(0, delete=True)
