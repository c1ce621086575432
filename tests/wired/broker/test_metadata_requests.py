"""What clients learn from a broker: ApiVersions, Metadata, DescribeCluster and FindCoordinator."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from kafka import KafkaConsumer

from tests.worlds import golden_data
from tests.worlds.broker_requests import ORDERS, brokers, live_brokers, state, update_metadata
from tests.worlds.serving import CLUSTER_ID, Client, ScriptedHost, Served, on_a_loop, served
from zkgroup.broker.server.connection_choice import Peer
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.metadata_requests import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, SlotSource
from zkgroup.model import TopicPartition
from zkgroup.wire.control import UpdateMetadataBroker, UpdateMetadataRequest, UpdateMetadataResponse
from zkgroup.wire.messages import Api, ErrorCode, decode_response, encode_request
from zkgroup.wire.metadata import (
    NO_OPERATIONS,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    PartitionMetadata,
    RequestedTopic,
    TopicMetadata,
)
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

RECORDED = golden_data.packed_frames("group-protocol/frames.jsonl.gz")
NAMED = ApiVersionsRequest("a-client", "1.2.3")


async def informed(broker: Served, *updates: UpdateMetadataRequest) -> Client:
    """A client of a broker that has received these requests of a controller."""
    client = await broker.client()
    for update in updates:
        assert await client.ask(update, UpdateMetadataResponse) == UpdateMetadataResponse(0)
    return client


@on_a_loop
@pytest.mark.parametrize("version", range(4))
async def test_what_is_listed_is_served(version: int) -> None:
    """Every API of Kafka with its versions, by key ascending; not zkgroup's own APIs."""
    async with served(ScriptedHost()) as broker:
        client = await broker.client()

        answer = await client.ask(NAMED, ApiVersionsResponse, version)

        assert (answer.error, answer.supported_features, answer.finalized_features) == (0, (), ())
        keys = [api.api_key for api in answer.apis]
        assert keys == sorted(key for key in broker.service.table.requests)
        assert {ApiVersion(18, 0, 3), ApiVersion(3, 0, 11), ApiVersion(10, 0, 3)} <= set(answer.apis)
        for api in answer.apis:
            assert range(api.first, api.last + 1) == broker.service.table.requests[api.api_key].VERSIONS
        await client.close()


@on_a_loop
async def test_an_unknown_version_of_api_versions_is_answered_as_by_kafka() -> None:
    """KIP-511: error 35 in version 0, with ApiVersions alone; the connection goes on."""
    answers = {
        (frame.version, frame.correlation_id): frame.data
        for frame in RECORDED
        if (frame.api, frame.direction) == (Api.API_VERSIONS, "response")
        and frame.version > 3
        and "minimum" not in frame.file  # there a proxy answered
    }
    assert {version for version, _ in answers} == {4, 9}
    async with served() as broker:
        client = await broker.client()
        for (version, number), data in answers.items():
            asked = next(
                frame
                for frame in RECORDED
                if (frame.api, frame.version, frame.direction) == (Api.API_VERSIONS, version, "request")
            )
            client.writer.write(asked.data[:8] + number.to_bytes(4, "big") + asked.data[12:])

            assert await client.frame() == data[4:]
        assert (await client.ask(NAMED, ApiVersionsResponse, 3)).error == 0
        await client.close()


@on_a_loop
@pytest.mark.parametrize("software", ["", "-a", "a b", "a/b"])
async def test_a_client_without_a_proper_name_has_error_42(software: str) -> None:
    """From version 3 on, which names the client; the connection goes on."""
    async with served() as broker:
        client = await broker.client()
        for request in (ApiVersionsRequest(software, "1"), ApiVersionsRequest("a", software)):
            assert await client.ask(request, ApiVersionsResponse, 3) == ApiVersionsResponse(42, ())
        assert (await client.ask(NAMED, ApiVersionsResponse, 3)).error == 0
        await client.close()


def as_ours(answer: MetadataResponse) -> MetadataResponse:
    """An answer of Kafka without topic ids, and with partitions sorted: they come in the order of a map."""
    topics = tuple(
        TopicMetadata(
            topic.error,
            topic.topic,
            tuple(sorted(topic.partitions, key=lambda one: one.partition)),
            is_internal=topic.is_internal,
        )
        for topic in answer.topics
    )
    return replace(answer, topics=topics, cluster_id=answer.cluster_id and CLUSTER_ID)


@on_a_loop
async def test_clients_are_answered_as_by_kafka_of_2_8() -> None:
    """The recorded answers of a Kafka broker in every version that clients sent, from the same cluster."""
    compared = []
    for frame in RECORDED:
        if (frame.api, frame.direction) != (Api.METADATA, "response"):
            continue
        recorded = decode_response(MetadataResponse, frame.data[4:], version=frame.version)[1]
        if any(topic.error for topic in recorded.topics):
            continue  # a topic was being created
        states = (
            state(
                TopicPartition(topic.topic, one.partition),
                one.leader,
                epoch=max(one.leader_epoch, 0),
                isr=one.isr,
                replicas=one.replicas,
            )
            for topic in recorded.topics
            for one in topic.partitions
        )
        live = tuple(UpdateMetadataBroker(one.broker, one.host, one.port) for one in recorded.brokers)
        async with served() as broker:
            client = await informed(broker, UpdateMetadataRequest(0, 1, tuple(states), live))
            names = [topic.topic for topic in recorded.topics]
            request = MetadataRequest.of(*names)

            answer = await client.ask(request, MetadataResponse, frame.version)

            if frame.version or names:
                assert answer == as_ours(recorded), frame
                compared.append(frame.version)
            await client.close()
    assert {1, 4, 5, 8, 11} <= set(compared)


@on_a_loop
async def test_null_is_all_topics_and_from_version_1_on_an_empty_list_none() -> None:
    """In version 0 an empty list is all of them."""
    async with served() as broker:
        client = await informed(broker, update_metadata(state(), state(TopicPartition("b", 0))))
        for version, topics, names in (
            (0, (), ["b", "orders"]),
            (1, (), []),
            (1, None, ["b", "orders"]),
            (11, (), []),
            (11, None, ["b", "orders"]),
        ):
            answer = await client.ask(MetadataRequest(topics), MetadataResponse, version)

            assert [topic.topic for topic in answer.topics] == names, (version, topics)
            assert answer.brokers == brokers(1, 2, 3)
        await client.close()


@on_a_loop
async def test_the_controller_is_a_live_broker() -> None:
    """The active controller; the lowest id where that has no replicas; none without a live broker."""
    async with served() as broker:
        client = await informed(broker)
        found = []
        for epoch, (sender, live) in enumerate([(4, (3, 4)), (9, (4, 3)), (9, ())], 1):
            update = UpdateMetadataRequest(sender, epoch, (), live_brokers(*live))
            await client.ask(update, UpdateMetadataResponse)
            answer = await client.ask(MetadataRequest(()), MetadataResponse, 1)
            described = await client.ask(DescribeClusterRequest(), DescribeClusterResponse)
            assert described.controller_id == answer.controller_id
            found.append(answer.controller_id)

        assert found == [4, 3, -1]
        await client.close()


@on_a_loop
async def test_replicas_that_are_not_live_are_offline() -> None:
    """From version 1 on lists are whole; version 0 leaves dead brokers out, with error 9."""
    dead, leaderless = TopicPartition("orders", 0), TopicPartition("orders", 1)
    update = update_metadata(
        state(dead, leader=1, epoch=4, isr=(1, 7), replicas=(7, 1)),
        state(leaderless, leader=7, epoch=5, isr=(7,), replicas=(7, 2)),
        live=(1, 2),
    )
    async with served() as broker:
        client = await informed(broker, update)

        (old,) = (await client.ask(MetadataRequest.of("orders"), MetadataResponse, 0)).topics
        (new,) = (await client.ask(MetadataRequest.of("orders"), MetadataResponse, 7)).topics

        assert old.partitions == (
            PartitionMetadata(9, 0, 1, (1,), (1,)),
            PartitionMetadata(5, 1, -1, (2,), ()),
        )
        assert new.partitions == (
            PartitionMetadata(0, 0, 1, (7, 1), (1, 7), leader_epoch=4, offline=(7,)),
            PartitionMetadata(5, 1, -1, (7, 2), (7,), leader_epoch=5, offline=(7,)),
        )

        await client.ask(update_metadata(live=(1, 2, 7)), UpdateMetadataResponse)
        (new,) = (await client.ask(MetadataRequest.of("orders"), MetadataResponse, 7)).topics
        assert [(one.error, one.leader, one.offline) for one in new.partitions] == [(0, 1, ()), (0, 7, ())]
        await client.close()


@on_a_loop
async def test_unknown_topics_and_invalid_names_have_errors_of_their_own() -> None:
    """The others are answered; each name once. Internal topics are marked, also unknown ones."""
    asked = MetadataRequest.of("nosuch", "orders", "a b", "nosuch", OFFSETS_TOPIC)
    async with served() as broker:
        client = await informed(broker, update_metadata(state()))

        answer = await client.ask(asked, MetadataResponse, 11)

        assert [(topic.error, topic.topic, topic.is_internal) for topic in answer.topics] == [
            (3, "nosuch", False),
            (0, "orders", False),
            (17, "a b", False),
            (3, OFFSETS_TOPIC, True),
        ]
        await client.ask(update_metadata(state(TopicPartition(OFFSETS_TOPIC, 0))), UpdateMetadataResponse)
        answer = await client.ask(asked, MetadataResponse, 11)
        assert [(topic.error, topic.is_internal) for topic in answer.topics[2:]] == [(17, False), (0, True)]
        await client.close()


@on_a_loop
async def test_an_unknown_topic_is_created_for_a_client_that_allows_it() -> None:
    """Error 5 until it is there, in every version; not for all topics, invalid names and transactions."""
    created: list[str] = []

    async def create(context: RequestContext, topic: str) -> ErrorCode:
        created.append(topic)
        return ErrorCode.LEADER_NOT_AVAILABLE

    async with served(create_topic=create) as broker:
        client = await informed(broker, update_metadata(state()))
        for version in (0, 1, 4, 11):
            asked = MetadataRequest.of("orders", "new")
            answer = await client.ask(asked, MetadataResponse, version)
            assert [topic.error for topic in answer.topics] == [0, 5]
        assert created == ["new"] * 4

        refused = replace(MetadataRequest.of("new", "a b"), allow_auto_topic_creation=False)
        answer = await client.ask(refused, MetadataResponse, 11)
        assert [topic.error for topic in answer.topics] == [3, 17]
        answer = await client.ask(MetadataRequest.of("a b", "__transaction_state"), MetadataResponse, 11)
        assert [topic.error for topic in answer.topics] == [17, 3]
        await client.ask(MetadataRequest(None), MetadataResponse, 11)
        await client.ask(MetadataRequest(()), MetadataResponse, 0)
        assert created == ["new"] * 4

        await client.ask(update_metadata(state(TopicPartition("new", 0))), UpdateMetadataResponse)
        (topic,) = (await client.ask(MetadataRequest.of("new"), MetadataResponse, 11)).topics
        assert topic.error == 0
        await client.close()


@on_a_loop
@pytest.mark.parametrize("version", [10, 11])
async def test_topics_have_no_ids(version: int) -> None:
    """Whoever asks by id is refused, as by Kafka 2.8: error 42, and the id comes back."""
    by_id = RequestedTopic(None, topic_id=bytes(range(16)))
    async with served() as broker:
        client = await informed(broker, update_metadata(state()))

        answer = await client.ask(
            MetadataRequest((by_id, RequestedTopic("orders"))), MetadataResponse, version
        )

        assert answer.topics == (
            TopicMetadata(ErrorCode.INVALID_REQUEST, "", (), topic_id=by_id.topic_id),
            TopicMetadata(ErrorCode.INVALID_REQUEST, "orders", ()),
        )
        await client.close()


@on_a_loop
async def test_operations_are_named_where_they_are_asked_for() -> None:
    """All of them, as by a Kafka broker without an authorizer."""
    asked = MetadataRequest.of("orders")
    both = replace(
        asked, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )
    async with served() as broker:
        client = await informed(broker, update_metadata(state()))
        found = []
        for request in (asked, both):
            answer = await client.ask(request, MetadataResponse, 8)
            found.append((answer.topics[0].authorized_operations, answer.authorized_operations))

        assert found == [(NO_OPERATIONS, NO_OPERATIONS), (3576, 8096)]
        assert (TOPIC_OPERATIONS, CLUSTER_OPERATIONS) == (3576, 8096)
        await client.close()


@on_a_loop
async def test_a_cluster_is_described_by_its_live_brokers() -> None:
    """With its id and a controller."""
    async with served() as broker:
        client = await informed(broker, update_metadata(live=(2, 1)))

        answer = await client.ask(DescribeClusterRequest(), DescribeClusterResponse)

        assert answer == DescribeClusterResponse(
            0, CLUSTER_ID, 1, (ClusterBroker(1, "host1", 9001), ClusterBroker(2, "host2", 9002))
        )
        answer = await client.ask(DescribeClusterRequest(True), DescribeClusterResponse)
        assert answer.authorized_operations == CLUSTER_OPERATIONS
        await client.close()


@on_a_loop
@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_the_coordinator_is_the_leader_of_the_slot(version: int) -> None:
    """By the number of slots that is stored; also of the group without a name."""
    hashes = {"my-group": 12, "test-consumer-group": 31, "": 0, "a/b %": None}
    led = [state(TopicPartition(OFFSETS_TOPIC, number), 1 + number % 3) for number in range(50)]
    async with served(slots=slots_are(50)) as broker:
        client = await informed(broker, update_metadata(*led, live=(1, 2, 3)))

        for group, slot in hashes.items():
            answer = await client.ask(FindCoordinatorRequest(group), FindCoordinatorResponse, version)
            assert answer.error == 0
            assert answer.error_message == (None if version == 0 else "NONE")
            assert slot is None or (answer.broker, answer.port) == (1 + slot % 3, 9001 + slot % 3)
        await client.close()


@on_a_loop
@pytest.mark.parametrize("version", [0, 3])
async def test_the_first_group_has_the_topic_created(version: int) -> None:
    """Error 15 until its slot has a live leader, as in Kafka; it is not created again."""
    begun: list[None] = []
    number: list[int | None] = [None]

    async def slots() -> int | None:
        return number[0]

    async with served(slots=slots, create_offsets_topic=lambda: begun.append(None)) as broker:
        client = await informed(broker, update_metadata(live=(1,)))
        question = FindCoordinatorRequest("my-group")
        for slots_stored, led, creations in ((None, 3, 1), (50, 3, 2), (50, 12, 2)):
            number[0] = slots_stored
            answer = await client.ask(question, FindCoordinatorResponse, version)
            assert (answer.error, answer.broker, answer.host, answer.port) == (15, -1, "", -1)
            assert answer.error_message == (None if version == 0 else "The coordinator is not available.")
            assert len(begun) == creations
            if slots_stored:
                leader = state(TopicPartition(OFFSETS_TOPIC, led), 1 if led == 12 else 7)
                await client.ask(update_metadata(leader, live=(1,)), UpdateMetadataResponse)
        assert (await client.ask(question, FindCoordinatorResponse, version)).broker == 1
        assert len(begun) == 2
        await client.close()


@on_a_loop
@pytest.mark.parametrize("version", [1, 2, 3])
async def test_transactions_have_no_coordinator(version: int) -> None:
    """Error 53, at which every client fails at once; 42 for other kinds."""
    async with served(slots=slots_are(1)) as broker:
        client = await informed(broker, update_metadata(state(TopicPartition(OFFSETS_TOPIC, 0))))
        errors = []
        for kind in (1, 2):
            answer = await client.ask(FindCoordinatorRequest("k", kind), FindCoordinatorResponse, version)
            assert (answer.broker, answer.host, answer.port) == (-1, "", -1)
            assert answer.error_message
            errors.append(answer.error)

        assert errors == [53, 42]
        await client.close()


def slots_are(number: int) -> SlotSource:
    """A known number of slots."""

    async def slots() -> int | None:
        return number

    return slots


@on_a_loop
async def test_kafka_python_bootstraps() -> None:
    """By ApiVersions, Metadata of all topics and of one."""
    orders = [state(TopicPartition("orders", number), isr=(1,), replicas=(1,)) for number in (0, 1)]
    async with served(ScriptedHost()) as broker:
        here = (UpdateMetadataBroker(1, *broker.address),)
        client = await informed(broker, UpdateMetadataRequest(1, 1, tuple(orders), here))

        def ask() -> tuple[set[str], set[int]]:
            consumer = KafkaConsumer(bootstrap_servers=str(Peer(*broker.address)))
            try:
                return consumer.topics(), consumer.partitions_for_topic("orders")
            finally:
                consumer.close()

        assert await asyncio.to_thread(ask) == ({"orders"}, {0, 1})
        await client.close()


@on_a_loop
@pytest.mark.parametrize(("api", "version"), [(Api.METADATA, 12), (Api.METADATA, -1), (99, 0), (-1, 0)])
async def test_what_is_not_served_closes_the_connection(api: int, version: int) -> None:
    """An unknown API, or an unknown version of any API but ApiVersions."""
    frame = encode_request(MetadataRequest.of("a"), 1, "test")
    changed = (api.to_bytes(2, "big", signed=True), version.to_bytes(2, "big", signed=True))
    async with served() as broker:
        client = await informed(broker, update_metadata(state(ORDERS)))
        client.writer.write(frame[:4] + b"".join(changed) + frame[8:])

        assert await client.is_closed()
        await client.close()
