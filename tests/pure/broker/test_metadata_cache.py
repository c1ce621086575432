"""The answers of a broker to clients, from its controller's UpdateMetadata requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worlds import golden_data
from tests.worlds.broker_requests import ORDERS, broker, brokers, state, update_metadata
from tests.worlds.golden_data import Frame
from tests.worlds.wire_requests import decode_request
from zkgroup.assignment.kafka_assignors import java_hash
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.model import TopicPartition
from zkgroup.wire.control import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    BrokerEndPoint,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import Api, decode_response, encode
from zkgroup.wire.metadata import (
    PIECE,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
    body_in_pieces,
)
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

OTHER = TopicPartition("orders", 1)


def filled(*requests: UpdateMetadataRequest) -> MetadataCache:
    cache = MetadataCache()
    for request in requests:
        cache.update(request, now_ms=0)
    return cache


def partitions(cache: MetadataCache, topic: str = "orders") -> tuple[PartitionMetadata, ...]:
    (answer,) = cache.metadata([topic]).topics
    return answer.partitions


def test_a_partition_is_answered_with_its_leader_replicas_and_isr() -> None:
    """In the order of the replica list, and the brokers by id."""
    cache = filled(update_metadata(state(isr=(2, 1), replicas=(2, 1)), live=(3, 1, 2)))

    assert cache.metadata(["orders"]) == MetadataResponse(
        brokers(1, 2, 3), (TopicMetadata(0, "orders", (PartitionMetadata(0, 0, 1, (2, 1), (2, 1)),)),)
    )


def test_none_named_means_all_topics() -> None:
    """Topics and partitions ascending."""
    cache = filled(update_metadata(state(TopicPartition("b", 1)), state(TopicPartition("b", 0)), state()))

    answer = cache.metadata([])

    assert [(topic.topic, [one.partition for one in topic.partitions]) for topic in answer.topics] == [
        ("b", [0, 1]),
        ("orders", [0]),
    ]


def test_a_large_answer_is_made_in_bounded_pieces() -> None:
    """Batches of about `PIECE` partitions; afterwards only topics that have changed are made."""
    topics = [f"t{number}" for number in range(30)]
    cache = filled(
        *(
            update_metadata(*(state(TopicPartition(topic, number)) for number in range(100)))
            for topic in topics
        )
    )
    made: list[str] = []
    make = cache._topic

    def noted(topic: str, listener: str) -> TopicMetadata:
        if not any(topic in answers for answers in cache._answers.values()):
            made.append(topic)
        return make(topic, listener)

    cache._topic = noted  # type: ignore[method-assign]
    seen = []
    for _ in cache.prepare([]):
        seen.append(len(made))
        made.clear()

    assert seen == [PIECE // 100] * (len(topics) * 100 // PIECE)
    assert len(cache.metadata([]).topics) == len(topics)
    assert made == []
    cache.update(update_metadata(state(TopicPartition("t7", 3), epoch=9)), 0)
    assert list(cache.prepare([])) == []
    assert made == ["t7"]


@pytest.mark.parametrize("sizes", [(), (0,), (3, 0, 5), (999, 1, 1), (2500, 2), (400,) * 8])
def test_the_pieces_of_a_body_are_its_bytes(sizes: tuple[int, ...]) -> None:
    """Whatever the sizes of its topics; no piece has a topic more than it needs."""
    one = PartitionMetadata(0, 0, 1, (1, 2), (1, 2))
    topics = tuple(TopicMetadata(0, f"t{number}", (one,) * size) for number, size in enumerate(sizes))
    response = MetadataResponse(brokers(1, 2), topics)

    pieces = list(body_in_pieces(response))
    assert b"".join(pieces) == encode(response, 0)
    assert len(pieces) == {(): 1, (0,): 1, (3, 0, 5): 1, (999, 1, 1): 2, (2500, 2): 2}.get(sizes, 3)


def test_an_unknown_topic_has_error_3_and_the_others_are_answered() -> None:
    """Each topic once, in the request's order; a request creates no topic."""
    cache = filled(update_metadata(state()))

    answer = cache.metadata(["nosuch", "orders", "nosuch"])

    assert [(topic.error, topic.topic) for topic in answer.topics] == [(3, "nosuch"), (0, "orders")]
    assert cache.metadata([]).topics == answer.topics[1:]


@pytest.mark.parametrize("leader", [NO_LEADER, 3])
def test_without_a_live_leader_error_5_and_no_isr(leader: int) -> None:
    """No leader is named; of the replicas the live ones."""
    cache = filled(update_metadata(state(leader=leader, isr=(3,), replicas=(3, 1, 2)), live=(1, 2)))

    assert partitions(cache) == (PartitionMetadata(5, 0, -1, (1, 2), ()),)


def test_a_dead_replica_or_isr_member_gives_error_9_and_the_live_ones() -> None:
    """The leader is live, so clients can continue."""
    cache = filled(
        update_metadata(
            state(isr=(1,), replicas=(3, 1)), state(OTHER, isr=(1, 3), replicas=(1,)), live=(1, 2)
        )
    )

    assert partitions(cache) == (
        PartitionMetadata(9, 0, 1, (1,), (1,)),
        PartitionMetadata(9, 1, 1, (1,), (1,)),
    )


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "x" * 250])
def test_an_illegal_name_gives_error_17_and_an_empty_broker_list(name: str) -> None:
    """For every topic asked for, as 0.8.2.2 gives up on the whole request."""
    cache = filled(update_metadata(state()))

    assert cache.metadata(["orders", name]) == MetadataResponse(
        (), (TopicMetadata(17, "orders", ()), TopicMetadata(17, name, ()))
    )


@pytest.mark.parametrize(("name", "error"), [("x" * 249, 3), ("x" * 250, 17)])
def test_an_unknown_topic_whose_name_is_too_long_is_not_one_to_be_created(name: str, error: int) -> None:
    """Error 3 would create it for a client that allows that: on a disk it could have no folder."""
    assert filled(update_metadata(state())).metadata([name], 9).topics[0].error == error


def test_before_the_first_update_nothing_is_known() -> None:
    """No broker, no topic, no controller, no age."""
    cache = MetadataCache()

    assert cache.metadata([]) == MetadataResponse((), ())
    assert cache.metadata(["orders"]).topics[0].error == 3
    assert (cache.controller_id, cache.controller_epoch, cache.controller, cache.age_ms(7)) == (None,) * 4


def test_only_brokers_with_the_listener_of_a_client_are_live_to_it() -> None:
    """One that has not been restarted with the listener yet leads nothing for these clients."""
    cache = MetadataCache(inter_broker="IN")
    inside, outside = UpdateMetadataEndpoint(1, "i", "IN", 0), UpdateMetadataEndpoint(2, "o", "OUT", 1)
    brokers = (
        UpdateMetadataBroker(1, endpoints=(inside,)),
        UpdateMetadataBroker(2, endpoints=(inside, outside), rack="r"),
    )
    states = (state(leader=1), state(OTHER, leader=2))
    cache.update(UpdateMetadataRequest(1, 1, states, brokers), now_ms=0)

    answer = cache.metadata(["orders"], 9, "OUT")
    assert answer.brokers == (BrokerEndPoint(2, "o", 2, "r"),)
    assert answer.controller_id == 2
    assert [(one.error, one.leader) for one in answer.topics[0].partitions] == [(5, -1), (0, 2)]
    assert [one.leader for one in cache.metadata(["orders"], 9, "IN").topics[0].partitions] == [1, 2]
    assert cache.metadata(["orders"], 9).brokers == ()


def test_a_leader_is_reached_by_the_own_inter_broker_listener() -> None:
    """A controller that was not restarted yet names another listener; an address that is new is believed."""
    cache = MetadataCache(inter_broker="IN")
    inside, outside = UpdateMetadataEndpoint(1, "i", "IN", 0), UpdateMetadataEndpoint(2, "o", "OUT", 1)
    broker = UpdateMetadataBroker(2, endpoints=(inside, outside), rack="r")
    cache.update(UpdateMetadataRequest(2, 1, (), (broker,)), now_ms=0)

    assert cache.peer(BrokerEndPoint(2, "o", 2)) == BrokerEndPoint(2, "i", 1) == cache.controller
    for other in (BrokerEndPoint(2, "new", 1), BrokerEndPoint(3, "o", 2)):
        assert cache.peer(other) == other


def test_brokers_are_replaced_and_partitions_added() -> None:
    """Partitions that a request does not name stay."""
    cache = filled(
        update_metadata(state(), live=(1, 2, 3)), update_metadata(state(OTHER, leader=2), live=(2, 1))
    )

    assert cache.metadata(["orders"]).brokers == brokers(1, 2)
    assert [one.leader for one in partitions(cache)] == [1, 2]
    assert dict(cache.peers) == {1: broker(1), 2: broker(2)}


def test_leader_minus_2_removes_the_partition_and_with_the_last_one_the_topic() -> None:
    """A query then answers 3."""
    cache = filled(update_metadata(state(epoch=7), state(OTHER)))

    cache.update(update_metadata(state(leader=LEADER_DURING_DELETE), state(ORDERS, 1, epoch=0)), 0)
    assert [one.partition for one in partitions(cache)] == [0, 1]
    cache.update(update_metadata(state(leader=LEADER_DURING_DELETE)), 0)
    assert [one.partition for one in partitions(cache)] == [1]
    cache.update(update_metadata(state(OTHER, leader=LEADER_DURING_DELETE)), 0)

    assert cache.metadata(["orders"]).topics == (TopicMetadata(3, "orders", ()),)
    assert cache.metadata([]).topics == ()
    assert cache.partition(ORDERS) is None


def test_removing_what_is_not_known_is_no_matter() -> None:
    """Neither partition nor topic."""
    cache = filled(update_metadata(state()))

    cache.update(update_metadata(state(OTHER, leader=-2), state(TopicPartition("x", 0), leader=-2)), 0)

    assert [one.partition for one in partitions(cache)] == [0]


def test_an_older_leader_epoch_does_not_replace_a_newer_one() -> None:
    """The first copy of a request that was sent twice can arrive after later requests (K29)."""
    cache = filled(update_metadata(state(leader=2, epoch=5)))

    cache.update(update_metadata(state(leader=1, epoch=4), state(OTHER)), 0)

    assert [one.leader for one in partitions(cache)] == [2, 1]


def test_the_same_leader_epoch_brings_a_new_isr() -> None:
    """Leaders change the ISR within one leader epoch."""
    cache = filled(update_metadata(state(epoch=5)))

    cache.update(update_metadata(state(epoch=5, isr=(1,), version=1)), 0)

    assert partitions(cache)[0].isr == (1,)


def test_a_later_controller_is_believed_though_the_leader_epoch_is_lower() -> None:
    """The topic may have been deleted and created again while this broker was disconnected."""
    cache = filled(update_metadata(state(leader=2, epoch=5, decided=3)))

    cache.update(update_metadata(state(leader=1, epoch=0, decided=4), epoch=4), 0)

    assert partitions(cache)[0].leader == 1


def test_once_registered_anew_the_next_word_on_each_partition_is_believed() -> None:
    """Only the next state: later ones are compared again."""
    cache = filled(update_metadata(state(leader=2, epoch=5), state(OTHER, leader=2, epoch=5)))
    cache.mark_unconfirmed()

    assert [one.leader for one in partitions(cache)] == [2, 2]
    cache.update(update_metadata(state(leader=1, epoch=1)), 0)
    cache.update(update_metadata(state(leader=2, epoch=0)), 0)
    assert [one.leader for one in partitions(cache)] == [1, 2]


def test_age_and_controller_are_those_of_the_last_update() -> None:
    """The controller has an address only where it is a live broker."""
    cache = MetadataCache()
    cache.update(update_metadata(epoch=4), now_ms=1_000)

    assert (cache.age_ms(1_000), cache.age_ms(3_500)) == (0, 2_500)
    assert (cache.controller_id, cache.controller_epoch, cache.controller) == (9, 4, None)
    cache.update(update_metadata(live=(9,), epoch=5), now_ms=4_000)
    assert (cache.controller_epoch, cache.age_ms(4_001), cache.controller) == (5, 1, broker(9))


def offsets(number: int, leader: int) -> UpdateMetadataRequest:
    return update_metadata(state(TopicPartition(OFFSETS_TOPIC, number), leader))


@pytest.mark.parametrize(("group", "leader"), [("g5", 1), ("g4", 2), ("polygenelubricants", 1)])
def test_a_group_belongs_to_a_partition_of_the_offsets_topic(group: str, leader: int) -> None:
    """By Java's hash of its name, where the smallest int (the third's) counts as 0."""
    cache = filled(offsets(0, 1), offsets(1, 2))

    assert cache.coordinator(group, 2) == FindCoordinatorResponse(0, leader, f"host{leader}", 9000 + leader)


def test_a_negative_hash_counts_by_its_distance_from_zero() -> None:
    """As since 0.8.2 (KAFKA-1469): clearing its sign bit instead gives another partition of three."""
    assert abs(java_hash("gkdual")) % 3 != (java_hash("gkdual") & 0x7FFFFFFF) % 3
    cache = filled(offsets(0, 1), offsets(1, 2), offsets(2, 3))

    assert cache.coordinator("gkdual", 3).broker == 1 + 1_244_253_344 % 3


def test_a_group_keeps_its_slot_while_partitions_are_unknown() -> None:
    """The number of slots was written once; a broker may not know all partitions yet."""
    cache = filled(offsets(0, 1), offsets(1, 2))

    assert [cache.coordinator(group, 50).error for group in ("g4", "g5")] == [15, 15]
    cache.update(update_metadata(state(TopicPartition(OFFSETS_TOPIC, abs(java_hash("g4")) % 50), 3)), 0)
    assert cache.coordinator("g4", 50).broker == 3


def test_without_topic_partition_or_live_leader_there_is_no_coordinator() -> None:
    """Error 15, and no address."""
    none = FindCoordinatorResponse(15, -1, "", -1)

    assert filled().coordinator("g4", 2) == none
    assert filled(offsets(1, 1)).coordinator("g5", 2) == none
    assert filled(offsets(0, 7)).coordinator("g4", 1) == none


WIRE = "kafka-0.8.2.2/wire"


def in_order(answer: MetadataResponse) -> MetadataResponse:
    """Brokers and partitions sorted: Kafka brokers list them in the order of a hash map."""
    topics = [
        TopicMetadata(
            topic.error, topic.topic, tuple(sorted(topic.partitions, key=lambda one: one.partition))
        )
        for topic in answer.topics
    ]
    return MetadataResponse(tuple(sorted(answer.brokers, key=lambda one: one.broker)), tuple(topics))


def from_tree(name: str, topic: str, *numbers: int) -> UpdateMetadataRequest:
    """The states that a controller would send for partitions and live brokers of a recorded tree."""
    nodes = {node.path: node.data for node in golden_data.trees("kafka-0.8.2.2") if name in node.file}
    replicas = Topic.decode(Topic.path(topic), nodes[Topic.path(topic)]).partitions
    states = []
    for tp in (TopicPartition(topic, number) for number in numbers):
        stored = PartitionState.decode(str(tp), nodes[PartitionState.path(tp)])
        states.append(state(tp, stored.leader, isr=stored.isr, replicas=replicas[tp.partition], epoch=9))
    live = tuple(UpdateMetadataBroker(number, "127.0.0.1", 21200 + number) for number in (1, 2, 3))
    return UpdateMetadataRequest(2, 2, tuple(states), live)


def recorded(api: Api, file: str = "") -> Iterator[Frame]:
    """The recorded frames of one API."""
    return (frame for frame in golden_data.frames(WIRE) if frame.api == api and file in frame.file)


def test_a_consumer_is_answered_as_by_a_real_broker() -> None:
    """From its controllers' requests: the ISR of orders-2 in the answer is older than the tree's.

    The last states of orders-0, -1 and -3 were sent between the recordings, and are taken from the tree.
    """
    cache = MetadataCache()
    for frame in recorded(Api.UPDATE_METADATA):
        if frame.direction == "request" and frame.broker == 2:
            request = decode_request(frame.data[4:])[1]
            assert isinstance(request, UpdateMetadataRequest)
            cache.update(request, 0)
    cache.update(from_tree("20-group-one-member", "orders", 0, 1, 3), 0)
    asked, answered = recorded(Api.METADATA, "20-consumer-metadata")
    assert decode_request(asked.data[4:])[1] == MetadataRequest.of("orders")

    theirs = decode_response(MetadataResponse, answered.data[4:])[1]

    assert cache.metadata(["orders"]) == in_order(theirs)
    assert partitions(cache)[2].isr == (2,)


def test_coordinators_are_those_that_real_brokers_named() -> None:
    """None before the offsets topic is there, then the leader of the group's partition of two."""
    frames = list(recorded(Api.FIND_COORDINATOR, "21-"))
    groups: list[str] = []
    cache = MetadataCache()
    for asked, answered in zip(frames[::2], frames[1::2], strict=True):
        request = decode_request(asked.data[4:])[1]
        assert isinstance(request, FindCoordinatorRequest)

        assert (
            cache.coordinator(request.key, 2)
            == decode_response(FindCoordinatorResponse, answered.data[4:])[1]
        )

        groups.append(request.key)
        cache.update(from_tree("25-group-member-killed", OFFSETS_TOPIC, 0, 1), 0)

    assert groups == ["g4", "g4", "g4", "gkdual", "gkonly"]


def test_dead_brokers_are_answered_as_by_a_real_broker() -> None:
    """Error 9 with one replica dead, 5 with the only one dead."""
    request, theirs = (
        frame.data[4:]
        for frame in golden_data.frames(WIRE)
        if frame.file.endswith("24-metadata-with-a-dead-broker.jsonl")
    )
    _, asked = decode_request(request)
    assert isinstance(asked, MetadataRequest)
    answered = decode_response(MetadataResponse, theirs)[1]
    cache = filled(
        UpdateMetadataRequest(
            1,
            1,
            (
                state(TopicPartition("md", 0), isr=(1,), replicas=(1, 2)),
                state(TopicPartition("md", 1), isr=(1,), replicas=(2, 1)),
                state(TopicPartition("md1", 0), leader=-1, isr=(), replicas=(2,)),
            ),
            tuple(UpdateMetadataBroker(one.broker, one.host, one.port) for one in answered.brokers),
        )
    )

    assert cache.metadata(asked.names) == in_order(answered)


def test_no_entry_of_real_controllers_is_taken_for_old() -> None:
    """In everything that was recorded, a failover and two deletions among it."""
    caches: dict[int | None, MetadataCache] = {}
    updates = 0
    for frame in golden_data.frames(WIRE):
        if (frame.api, frame.direction) == (Api.UPDATE_METADATA, "request"):
            _, request = decode_request(frame.data[4:])
            assert isinstance(request, UpdateMetadataRequest)
            cache = caches.setdefault(frame.broker, MetadataCache())
            cache.update(request, 0)
            kept = [each for each in request.partitions if each.leader != LEADER_DURING_DELETE]
            assert [cache.partition(each.topic_partition) for each in kept] == kept, frame
            updates += 1

    assert updates > 50
