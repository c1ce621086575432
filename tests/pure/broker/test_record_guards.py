"""What clients may do with records and metadata, as in Kafka 2.8.2: what a refused one gets."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.worlds.broker_requests import ORDERS, leader_and_isr, state, stop_replica, update_metadata
from tests.worlds.guarded_handlers import GuardedHandlers, authorizer_of, binding
from tests.worlds.serving import context_of
from zkgroup.broker.authorizer.table import guarded as guarded_table
from zkgroup.broker.server.handlers import NO_ANSWER, Answer, ApiTable, RequestContext, ServedApi
from zkgroup.broker.server.metadata_requests import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from zkgroup.model.error_codes import ErrorCode
from zkgroup.runtime.logs import PEERS
from zkgroup.wire import control, metadata, records
from zkgroup.wire.messages import Request, Response

READ = "allow alice READ topic mine"
WRITE = "allow alice WRITE topic mine"
NAMES = ("theirs", "mine", "others")
RECORDS: dict[str, Any] = {
    "produce": records.ProduceRequest(
        -1, 1000, tuple(records.ProducedTopic(name, (records.ProducedPartition(0, b""),)) for name in NAMES)
    ),
    "fetch": records.FetchRequest(
        -1, 0, 0, tuple(records.FetchTopic(name, (records.FetchPartition(0, 0, 100),)) for name in NAMES)
    ),
    "list": records.ListOffsetsRequest(
        -1,
        tuple(records.ListOffsetsTopic(name, (records.ListOffsetsPartition(0, -1),)) for name in NAMES),
    ),
    "delete": records.DeleteRecordsRequest(
        tuple(records.DeletedTopicRecords(name, (records.DeletedPartition(0, 1),)) for name in NAMES), 1000
    ),
    "epochs": records.OffsetForLeaderEpochRequest(
        tuple(records.EpochTopic(name, (records.EpochPartition(0, -1, 0),)) for name in NAMES)
    ),
}


def answer(request: Any) -> Response:
    """Each partition of a request without an error, in its order."""
    rows: dict[type[Request], Any] = {
        records.ProduceRequest: (
            records.ProduceResponse,
            lambda topic: records.ProduceTopicResult(topic, (records.ProduceResult(0, 0, 7),)),
        ),
        records.FetchRequest: (
            records.FetchResponse,
            lambda topic: records.FetchedTopic(topic, (records.FetchedPartition(0, 0, 7, records=b"x"),)),
        ),
        records.ListOffsetsRequest: (
            lambda topics: records.ListOffsetsResponse(topics=topics),
            lambda topic: records.ListedTopic(topic, (records.ListedPartition(0, 0, offset=7),)),
        ),
        records.DeleteRecordsRequest: (
            lambda topics: records.DeleteRecordsResponse(0, topics),
            lambda topic: records.DeleteRecordsTopicResult(topic, (records.DeleteRecordsResult(0, 7, 0),)),
        ),
        records.OffsetForLeaderEpochRequest: (
            lambda topics: records.OffsetForLeaderEpochResponse(topics=topics),
            lambda topic: records.EpochTopicResult(topic, (records.EpochEndResult(0, 0, 0, 7),)),
        ),
    }
    response, row = rows[type(request)]
    found: Response = response(tuple(row(each.topic) for each in request.topics))
    return found


def errors(response: Any) -> dict[str, int]:
    return {topic.topic: topic.partitions[0].error for topic in response.topics}


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("produce", WRITE),
        ("fetch", READ),
        ("list", "allow alice DESCRIBE topic mine"),
        ("delete", "allow alice DELETE topic mine"),
        ("epochs", READ),
    ],
)
def test_the_authorized_part_of_a_request_is_handled(name: str, right: str) -> None:
    """The rows keep their order, the others have error 29; another operation's right is none."""
    guarded, request = GuardedHandlers(right, answers=answer), RECORDS[name]

    response = guarded.ask(request)

    assert list(errors(response).items()) == [("theirs", 29), ("mine", 0), ("others", 29)]
    assert [topic.topic for topic in guarded.passed[0].topics] == ["mine"]
    refused = errors(GuardedHandlers("allow alice CREATE topic mine", answers=answer).ask(request))
    assert set(refused.values()) == {29}
    assert GuardedHandlers(answers=answer).ask(request, "admin") == answer(request)


def test_a_follower_needs_the_right_of_brokers() -> None:
    """Else error 29 for each partition; for partitions kept in a session it has to name them again."""
    topics = RECORDS["fetch"].topics
    full = records.FetchRequest(2, 0, 0, topics, session_epoch=0)
    partial = records.FetchRequest(2, 0, 0, (), session_id=5, session_epoch=3)
    guarded = GuardedHandlers("allow alice READ topic *", answers=answer)

    assert set(errors(guarded.ask(full)).values()) == {29}
    assert guarded.ask(partial).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert guarded.passed == []
    may = GuardedHandlers("allow alice CLUSTER_ACTION cluster", answers=answer)
    assert may.ask(full) == answer(full)
    assert may.ask(RECORDS["epochs"]) == answer(RECORDS["epochs"])
    assert set(errors(may.ask(RECORDS["fetch"])).values()) == {29}


def test_records_without_an_answer() -> None:
    """With acks=0 the rest is appended, and a refusal closes the connection."""
    guarded = GuardedHandlers(WRITE, answers=lambda request: NO_ANSWER)

    whole = records.ProduceRequest(0, 0, RECORDS["produce"].topics)
    assert guarded.ask(whole) is None
    assert guarded.ask(records.ProduceRequest(0, 0, whole.topics[1:2])) is NO_ANSWER
    assert [topic.topic for each in guarded.passed for topic in each.topics] == ["mine", "mine"]


@pytest.mark.parametrize(
    ("right", "error"),
    [
        ("", 31),
        ("allow alice IDEMPOTENT_WRITE cluster", 0),
        ("allow alice WRITE topic any...", 0),
        ("allow alice READ topic any", 31),
    ],
)
def test_an_id_for_an_idempotent_producer(right: str, error: int) -> None:
    """IdempotentWrite, or Write on any topic."""
    guarded = GuardedHandlers(
        *filter(None, [right]), answers=lambda request: records.InitProducerIdResponse(0, 1, 0)
    )

    assert guarded.ask(records.InitProducerIdRequest(None, 1000)).error == error
    assert guarded.ask(records.InitProducerIdRequest("t", 1000)).error == 53


@pytest.mark.parametrize(
    ("key_type", "right", "error"),
    [
        (0, "allow alice READ group mine", 0),
        (0, "allow alice READ group other", 30),
        (1, "allow alice DESCRIBE transactionalid mine", 0),
        (1, "allow alice READ group mine", 53),
        (2, "allow alice READ group other", 0),
    ],
)
def test_finding_a_coordinator(key_type: int, right: str, error: int) -> None:
    """Needs Describe on the group or on the transactional id; another kind is the handler's matter."""
    guarded = GuardedHandlers(right, answers=lambda request: metadata.FindCoordinatorResponse(0, 1, "h", 2))

    response = guarded.ask(metadata.FindCoordinatorRequest("mine", key_type))

    assert response.error == error
    assert (response.broker, response.host, response.port) == ((-1, "", -1) if error else (1, "h", 2))
    assert (response.error_message is not None) == bool(error)


class Topics:
    """Answers Metadata of some topics; creates others where a request lets it."""

    def __init__(self, *topics: str) -> None:
        self.topics = topics

    def __call__(self, request: metadata.MetadataRequest) -> metadata.MetadataResponse:
        names = request.names or self.topics
        return metadata.MetadataResponse(
            (), tuple(metadata.TopicMetadata(self._error(request, name), name, ()) for name in names)
        )

    def _error(self, request: metadata.MetadataRequest, name: str) -> int:
        return 0 if name in self.topics else 5 if request.allow_auto_topic_creation else 3


def of(response: metadata.MetadataResponse) -> dict[str, int]:
    return {topic.topic: topic.error for topic in response.topics}


ALL = metadata.MetadataRequest(None)


def test_metadata_do_not_tell_of_topics_without_the_right() -> None:
    """Named ones have error 29, whether they exist or not; of all topics they are left out."""
    guarded = GuardedHandlers(READ, answers=Topics("mine", "theirs"))

    assert of(guarded.ask(metadata.MetadataRequest.of("theirs", "mine", "none"))) == {
        "mine": 0,
        "theirs": 29,
        "none": 29,
    }
    assert of(guarded.ask(ALL)) == {"mine": 0}
    assert of(guarded.ask(metadata.MetadataRequest(()), version=0)) == {"mine": 0}
    assert of(guarded.ask(metadata.MetadataRequest.of("theirs"), version=0)) == {"theirs": 29}


@pytest.mark.parametrize(
    ("rights", "creates", "expected"),
    [
        ([], True, {"mine": 0, "new": 29}),
        (["allow alice CREATE cluster"], True, {"mine": 0, "new": 5}),
        (["allow alice CREATE topic new"], True, {"mine": 0, "new": 5}),
        ([], False, {"mine": 0, "new": 5}),
    ],
)
def test_a_topic_is_created_for_who_may_create_it(
    rights: list[str], creates: bool, expected: dict[str, int]
) -> None:
    """Describe alone lets nobody create a topic by asking for it."""
    describe = ["allow alice DESCRIBE topic new", READ]
    guarded = GuardedHandlers(*describe, *rights, answers=Topics("mine"), creates_topics=creates)

    assert of(guarded.ask(metadata.MetadataRequest.of("mine", "new"))) == expected
    plain = metadata.MetadataRequest(
        metadata.MetadataRequest.of("new").topics, allow_auto_topic_creation=False
    )
    assert of(guarded.ask(plain)) == {"new": 3}


def test_authorized_operations() -> None:
    """As bits, of topics and of the cluster; of the cluster none without Describe."""
    request = metadata.MetadataRequest(
        metadata.MetadataRequest.of("mine", "theirs").topics,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    guarded = GuardedHandlers(READ, answers=Topics("mine", "theirs"))

    response = guarded.ask(request, version=8)

    operations = {topic.topic: topic.authorized_operations for topic in response.topics}
    assert operations == {"mine": 1 << 3 | 1 << 8, "theirs": metadata.NO_OPERATIONS}
    assert response.authorized_operations == 0
    may = guarded.ask(request, "admin", version=8)
    assert {topic.authorized_operations for topic in may.topics} == {TOPIC_OPERATIONS}
    assert may.authorized_operations == CLUSTER_OPERATIONS


def test_authorized_operations_of_the_cluster() -> None:
    """DescribeCluster is for everybody."""
    response = metadata.DescribeClusterResponse(0, "id", 1, ())
    guarded = GuardedHandlers("allow alice ALTER cluster", answers=lambda request: response)

    asked = metadata.DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert guarded.ask(asked).authorized_operations == 1 << 7 | 1 << 8
    assert guarded.ask(asked, "bob").authorized_operations == 0
    assert guarded.ask(metadata.DescribeClusterRequest(), "bob") == response


def test_addresses_of_clients_are_compared_as_java_writes_them() -> None:
    """Those of IPv6, as Kafka's tools write them into ACLs."""
    guarded = GuardedHandlers(answers=answer)
    pattern, entry = binding(READ)
    guarded.authorizer.change({pattern: [entry._replace(host="0:0:0:0:0:0:0:1")]})

    assert errors(guarded.ask(RECORDS["fetch"], host="::1"))["mine"] == 0
    assert errors(guarded.ask(RECORDS["fetch"]))["mine"] == 29


def test_a_request_without_a_guard_is_not_served() -> None:
    """Not to a super user either."""

    class NewRequest(metadata.DescribeClusterRequest):
        """Of a later release."""

    async def handle(context: RequestContext, request: Request) -> Response:
        raise AssertionError

    table = guarded_table(ApiTable([ServedApi(NewRequest, handle)]), authorizer_of(), creates_topics=False)

    async def answered() -> Answer:
        return await table.respond(context_of(NewRequest()), NewRequest())

    assert asyncio.run(answered()) is None


@pytest.mark.parametrize(
    "request_",
    [
        leader_and_isr(state()),
        stop_replica(ORDERS, delete=True),
        update_metadata(state()),
        control.ControlledShutdownRequest(2),
    ],
)
def test_requests_of_the_cluster(request_: Any) -> None:
    """Error 31 for the request, and for each partition; a right on topics does not help."""
    guarded = GuardedHandlers("allow alice ALL topic *", answers=lambda request: NO_ANSWER)

    response = guarded.ask(request_)

    assert response.error == 31
    named = getattr(request_, "partitions", ()) if hasattr(response, "partitions") else ()
    assert [one.error for one in getattr(response, "partitions", ())] == [31] * len(named)
    assert guarded.passed == []
    assert (
        GuardedHandlers("allow alice CLUSTER_ACTION cluster", answers=lambda _: NO_ANSWER).ask(request_)
        is NO_ANSWER
    )


def test_a_refused_request_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """With principal, operation, host, resources, request, listener and reason; names in quotes; bounded."""
    PEERS.forget()
    forged = records.ListOffsetsTopic('a for request = "X\n', ())
    topics = (forged, *RECORDS["list"].topics)
    guarded = GuardedHandlers("deny alice READ topic theirs", answers=answer)

    with caplog.at_level(logging.INFO, "zkgroup.authorizer"):
        guarded.ask(records.ListOffsetsRequest(-1, topics))
        GuardedHandlers(answers=Topics("theirs")).ask(ALL)
        lines = caplog.messages.copy()
        for _ in range(100):
            guarded.ask(RECORDS["list"])

    (line,) = lines
    assert line == (
        'Principal = "User:alice" is Denied Operation = Describe from host = 10.0.0.1 on resource = '
        'Topic:LITERAL:"a for request = \\"X\\n", "theirs", "mine" and 1 more for request = LIST_OFFSETS '
        "with listener = PLAINTEXT: the resource has no ACL"
    )
    assert len(caplog.messages) == 10
