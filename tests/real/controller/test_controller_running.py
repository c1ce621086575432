"""A controller as a running process has it: elected on a real server, connected to real ports."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.waiting import PATIENCE_S, becomes, eventually, happened, joined
from tests.worlds.led_brokers import LedBroker, ask
from zkgroup.broker.controller_only import ControllerOnly
from zkgroup.broker.settings import BrokerSettings
from zkgroup.broker.telemetry import BrokerListener
from zkgroup.errors import ConflictError
from zkgroup.model.requests import Create
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.wire.control import (
    BrokerEndPoint,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from zkgroup.wire.messages import Api, ErrorCode
from zkgroup.wire.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
)
from zkgroup.wire.records import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.cluster import ClusterId
from zkgroup.zookeeper.blocking import Blocking

ALONE = 100


class RecordingListener(BrokerListener):
    """A listener that keeps what it gets."""

    def __init__(self) -> None:
        self.is_active = threading.Event()
        self.events: list[tuple[str, object]] = []

    def on_controller(self, epoch: int, partitions: int, load_ms: int) -> None:
        self.events.append(("controller", (epoch, partitions)))
        assert load_ms >= 0
        self.is_active.set()

    def on_resigned(self, reason: str) -> None:
        self.events.append(("resigned", reason))
        self.is_active.clear()


class Running:
    """One controller that hosts nothing."""

    def __init__(self, address: str, broker: int = ALONE) -> None:
        self.heard = RecordingListener()
        self.node = ControllerOnly(
            address,
            broker=broker,
            listener=self.heard,
            settings=BrokerSettings(session_timeout_ms=20_000, controller_takeover_grace_ms=50),
        )
        self.node.start()

    @property
    def address(self) -> tuple[str, int]:
        assert self.node.serving is not None
        return self.node.serving

    def wait_elected(self) -> None:
        happened(self.heard.is_active)


@pytest.fixture
def tree(zk_server: Any, witness: Blocking) -> Blocking:
    return witness


@pytest.fixture
def running(zk_server: Any) -> Iterator[Running]:
    one = Running(zk_server.address)
    try:
        yield one
    finally:
        one.node.close()


@pytest.fixture
def brokers(zk_server: Any) -> Iterator[dict[int, LedBroker]]:
    with LedBroker(zk_server.address, 1) as one, LedBroker(zk_server.address, 2) as two:
        yield {1: one, 2: two}


def create(tree: Blocking, topic: str, partitions: dict[int, tuple[int, ...]]) -> None:
    tree.create_missing("/brokers", "/brokers/topics")
    tree.multi(Create(Topic.path(topic), Topic(partitions).encode()))


def leader_of(broker: LedBroker, topic: str, partition: int) -> int | None:
    """What the broker was sent of a partition last."""
    found = None
    for request in broker.received(LeaderAndIsrRequest):
        for info in request.partitions:
            if (info.topic, info.partition) == (topic, partition):
                found = info.leader
    return found


def test_brokers_and_clients_of_the_port_learn_of_a_topic(
    running: Running, tree: Blocking, brokers: dict[int, LedBroker]
) -> None:
    """The controller itself is in no answer and in no list of brokers (recipes 14)."""
    running.wait_elected()
    create(tree, "orders", {0: (1, 2), 1: (2, 1)})
    eventually(lambda: all(leader_of(each, "orders", 1) == 2 for each in brokers.values()))

    live = tuple(BrokerEndPoint(number, one.host, one.port) for number, one in sorted(brokers.items()))
    wanted = TopicMetadata(
        0, "orders", (PartitionMetadata(0, 0, 1, (1, 2), (1, 2)), PartitionMetadata(0, 1, 2, (2, 1), (2, 1)))
    )
    everything = MetadataResponse(live, (wanted,))
    assert ask(running.address, MetadataRequest.of(), MetadataResponse) == everything
    assert ask(running.address, MetadataRequest.of("orders"), MetadataResponse) == everything
    unknown = ask(running.address, MetadataRequest.of("nope"), MetadataResponse)
    assert unknown == MetadataResponse(live, (TopicMetadata(3, "nope", ()),))
    for broker in brokers.values():
        (sent,) = (each.brokers for each in broker.received(UpdateMetadataRequest)[-1:])
        assert [(one.broker, one.host, one.port) for one in sent] == [
            (one.broker, one.host, one.port) for one in live
        ]


def test_clients_of_kafka_find_the_brokers_at_the_port(
    zk_server: Any, tree: Blocking, brokers: dict[int, LedBroker]
) -> None:
    """ApiVersions lists no requests for records; Metadata has the cluster id, and a broker as controller.

    A standby controller does not know the cluster: it closes the connection.
    """
    cluster_id = ClusterId("LAKGEDWOQC6vMVe8_FqstQ")
    tree.create_missing("/cluster")
    tree.multi(Create(ClusterId.path(), cluster_id.encode()))
    running = Running(zk_server.address)
    running.wait_elected()
    standby = Running(zk_server.address, ALONE + 1)
    assert ask(standby.address, MetadataRequest.of(), MetadataResponse, 11) is None
    standby.node.close()
    create(tree, "orders", {0: (2,)})
    becomes(lambda: leader_of(brokers[2], "orders", 0), 2)

    listed = ask(running.address, ApiVersionsRequest("test", "1"), ApiVersionsResponse, 3)
    answer = ask(running.address, MetadataRequest.of("orders"), MetadataResponse, 11)
    none = ask(running.address, MetadataRequest(()), MetadataResponse, 11)
    described = ask(running.address, DescribeClusterRequest(), DescribeClusterResponse)

    assert listed is not None
    assert {Api.METADATA, Api.API_VERSIONS} <= {each.api_key for each in listed.apis}
    assert {Api.PRODUCE, Api.FETCH}.isdisjoint({each.api_key for each in listed.apis})
    assert answer is not None
    assert [each.broker for each in answer.brokers] == [1, 2]
    assert (answer.controller_id, [each.topic for each in answer.topics]) == (1, ["orders"])
    assert none is not None
    assert none.topics == ()
    assert described is not None
    assert (described.controller_id, len(described.brokers)) == (1, 2)
    assert answer.cluster_id == described.cluster_id == cluster_id.id
    running.node.close()


def test_the_coordinator_is_the_leader_of_the_groups_partition(
    running: Running, tree: Blocking, brokers: dict[int, LedBroker]
) -> None:
    """From the context, else 15 (recipes 14)."""
    running.wait_elected()
    none = FindCoordinatorResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)
    question = FindCoordinatorRequest("g")
    assert ask(running.address, question, FindCoordinatorResponse) == none
    create(tree, "__consumer_offsets", {0: (2,)})
    becomes(lambda: leader_of(brokers[2], "__consumer_offsets", 0), 2)
    answer = ask(running.address, question, FindCoordinatorResponse)
    assert answer == FindCoordinatorResponse(0, 2, brokers[2].host, brokers[2].port)


def test_the_port_answers_what_a_broker_without_partitions_can(running: Running) -> None:
    """The control requests by controller.md 7.5; requests for records close the connection (recipes 14)."""
    running.wait_elected()
    forged = UpdateMetadataRequest(3, 5, (), ())
    update = UpdateMetadataRequest(ALONE, 1, (), ())
    older = UpdateMetadataRequest(ALONE, 0, (), ())
    leads = LeaderAndIsrRequest(ALONE, 0, (), ())
    assert ask(running.address, forged, UpdateMetadataResponse) == UpdateMetadataResponse(11)
    assert ask(running.address, update, UpdateMetadataResponse) == UpdateMetadataResponse(0)
    assert ask(running.address, older, UpdateMetadataResponse) == UpdateMetadataResponse(11)
    assert ask(running.address, leads, LeaderAndIsrResponse) == LeaderAndIsrResponse(11, ())
    fetch = FetchRequest(-1, 100, 1, (FetchTopic("orders", (FetchPartition(0, 0, 1000),)),))
    assert ask(running.address, fetch, FetchResponse) is None


def test_a_broker_that_never_answers_holds_nothing_up(
    running: Running, tree: Blocking, brokers: dict[int, LedBroker]
) -> None:
    """controller.md 10: it is sent again and again; the other has long received."""
    running.wait_elected()
    brokers[1].answers.clear()
    create(tree, "orders", {0: (2, 1)})
    becomes(lambda: leader_of(brokers[2], "orders", 0), 2)
    create(tree, "clicks", {0: (2, 1)})
    becomes(lambda: leader_of(brokers[2], "clicks", 0), 2)

    eventually(lambda: len(brokers[1].unanswered) >= 3)
    assert len(set(brokers[1].unanswered)) == 1
    assert leader_of(brokers[1], "orders", 0) is None
    brokers[1].answers.set()
    becomes(lambda: leader_of(brokers[1], "clicks", 0), 2)
    assert leader_of(brokers[1], "orders", 0) == 2


def test_a_broker_that_goes_leads_nothing_any_more(
    running: Running, tree: Blocking, brokers: dict[int, LedBroker]
) -> None:
    """Its session ends; the other replica leads, and gets that over its own connection."""
    running.wait_elected()
    create(tree, "orders", {0: (1, 2)})
    becomes(lambda: leader_of(brokers[2], "orders", 0), 1)
    brokers[1].leave()
    becomes(lambda: leader_of(brokers[2], "orders", 0), 2)


def test_a_controlled_shutdown_is_asked_for_at_the_port(
    running: Running, tree: Blocking, brokers: dict[int, LedBroker]
) -> None:
    """Leaderships move; what has one replica remains, and is not in the answer."""
    running.wait_elected()
    create(tree, "orders", {0: (1, 2), 1: (1,)})
    becomes(lambda: leader_of(brokers[1], "orders", 1), 1)
    answer = ask(running.address, ControlledShutdownRequest(1), ControlledShutdownResponse)
    assert answer == ControlledShutdownResponse(0, ())
    states = {
        number: PartitionState.decode("", tree.read(f"{Topic.path('orders')}/partitions/{number}/state").data)
        for number in (0, 1)
    }
    assert (states[0].leader, states[0].isr, states[1].leader) == (2, (2,), 1)


def test_a_standby_sends_no_metadata_and_stops_no_broker(zk_server: Any, running: Running) -> None:
    """It has no context: a client that believed an empty one would be lost."""
    running.wait_elected()
    second = Running(zk_server.address, ALONE + 1)
    try:
        assert ask(second.address, MetadataRequest.of(), MetadataResponse) is None
        stale = ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        assert ask(second.address, ControlledShutdownRequest(1), ControlledShutdownResponse) == stale
        none = FindCoordinatorResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)
        assert ask(second.address, FindCoordinatorRequest("g"), FindCoordinatorResponse) == none
        assert second.heard.events == []
        running.node.close()
        second.wait_elected()
        assert second.heard.events == [("controller", (2, 0))]
    finally:
        second.node.close()
    assert running.heard.events == [("controller", (1, 0)), ("resigned", "stopped")]


def test_an_id_in_use_ends_it_with_the_session_that_has_it(zk_server: Any, tree: Blocking) -> None:
    """A registration under its id is no lost race (recipes 14)."""
    tree.create_missing("/brokers", "/brokers/ids")
    tree.multi(Create(f"/brokers/ids/{ALONE}", b"{}", ephemeral=True))
    one = Running(zk_server.address)
    try:
        one.node.wait_connected(PATIENCE_S)
        with pytest.raises(ConflictError, match=r"/brokers/ids/100 is held by session 0x1"):
            eventually(lambda: one.node.check())
    finally:
        one.node.close()


def test_nothing_was_started_and_it_closes() -> None:
    """There is nothing to leave."""
    ControllerOnly("127.0.0.1:1", broker=ALONE).close()


def test_it_closes_in_time_while_zookeeper_is_away(zk_chaos_server: ChaosZooKeeper) -> None:
    """What stands of it ends with its session."""
    one = Running(zk_chaos_server.address)
    one.wait_elected()
    zk_chaos_server.cut(refuse=True)
    try:
        closing = threading.Thread(target=one.node.close)
        closing.start()
        joined(closing)
        assert one.heard.events[-1] == ("resigned", "stopped")
    finally:
        zk_chaos_server.heal()
