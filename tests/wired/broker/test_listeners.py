"""Brokers with several listeners: each client is told of the one that it came by."""

from __future__ import annotations

from tests.waiting import eventually
from tests.worlds.broker_requests import produce_request
from tests.worlds.listening_brokers import ListeningBrokers
from tests.worlds.running_brokers import ask
from tests.worlds.serving import client_of, closed, on_a_loop
from tests.worlds.wire_requests import REQUESTS
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.port import ConnectionLimits
from zkgroup.broker.server.server import BrokerServer
from zkgroup.clients.addresses import inter_broker_listener
from zkgroup.model import TopicPartition
from zkgroup.security.listeners import Listener
from zkgroup.wire.admin_apis import (
    BROKER_RESOURCE,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from zkgroup.wire.messages import Request
from zkgroup.wire.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from zkgroup.wire.records import ProduceResponse
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState

LISTENERS = {
    "listeners": "OUT://127.0.0.1:0,IN://127.0.0.1:0",
    "listener.security.protocol.map": "OUT:PLAINTEXT,IN:PLAINTEXT",
    "inter.broker.listener.name": "IN",
}
T0 = TopicPartition("t", 0)


def port(cluster: ListeningBrokers, broker: int, listener: str) -> int:
    return int(cluster.address(broker, listener).rpartition(":")[2])


def isr(cluster: ListeningBrokers) -> int:
    found = cluster.zookeeper.find(PartitionState.path(T0))
    return 0 if found is None else len(PartitionState.decode("", found.data).isr)


def test_clients_are_told_of_the_listener_that_they_came_by() -> None:
    """By Metadata, DescribeCluster and FindCoordinator; brokers reach each other by their own listener."""
    with ListeningBrokers(lambda broker: LISTENERS) as cluster:
        for listener in ("OUT", "IN"):
            check_answers(cluster, listener)
        check_registration(cluster)
        check_replication(cluster)


def check_answers(cluster: ListeningBrokers, listener: str) -> None:
    addresses, at = cluster.addresses(listener), port(cluster, 1, listener)

    metadata = ask(at, MetadataRequest.of(), MetadataResponse, version=9)
    assert {one.broker: f"{one.host}:{one.port}" for one in metadata.brokers} == addresses
    described = ask(at, DescribeClusterRequest(), DescribeClusterResponse)
    assert {one.broker: f"{one.host}:{one.port}" for one in described.brokers} == addresses

    def coordinator() -> FindCoordinatorResponse:
        return ask(at, FindCoordinatorRequest("g"), FindCoordinatorResponse, version=1)

    found = eventually(coordinator, lambda one: one.error == 0)
    assert f"{found.host}:{found.port}" == addresses[found.broker]


def check_registration(cluster: ListeningBrokers) -> None:
    """The keys of version 4; host and port are those of the first plain listener. DescribeConfigs tells the
    listener among brokers, too."""
    request = DescribeConfigsRequest(resources=(ConfigResource(kind=BROKER_RESOURCE, name="1"),))
    (row,) = ask(port(cluster, 1, "OUT"), request, DescribeConfigsResponse, version=3).resources
    assert ("inter.broker.listener.name", "IN") in {(one.name, one.value) for one in row.configs}
    path = BrokerRegistration.path(1)
    znode = cluster.zookeeper.find(path)
    assert znode is not None
    found = BrokerRegistration.decode(path, znode.data)
    out, inside = (cluster.address(1, name) for name in ("OUT", "IN"))
    assert found.version == 4
    assert found.endpoints == (f"OUT://{out}", f"IN://{inside}")
    assert found.protocols == {"OUT": "PLAINTEXT", "IN": "PLAINTEXT"}
    assert inter_broker_listener(found) == "IN"
    assert f"{found.host}:{found.port}" == out == ":".join(map(str, cluster.brokers[1].serving or ()))


def check_replication(cluster: ListeningBrokers) -> None:
    """A topic that a client creates has all its replicas in sync."""

    def leader() -> int:
        topic = ask(port(cluster, 1, "OUT"), MetadataRequest.of("t"), MetadataResponse, version=9).topics[0]
        return topic.partitions[0].leader if topic.partitions else -1

    led = eventually(leader, lambda broker: broker > 0)
    eventually(lambda: isr(cluster) == 3)
    request = produce_request(T0, -1, b"a")
    produced = ask(port(cluster, led, "OUT"), request, ProduceResponse, version=9)
    assert produced.topics[0].partitions[0].error == 0


@on_a_loop
async def test_only_connections_of_the_inter_broker_listener_do_not_count() -> None:
    """Where there are others. A client that fills its listener keeps no broker out."""

    async def respond(context: RequestContext, request: Request) -> MetadataResponse:
        return MetadataResponse((), ())

    server = BrokerServer(respond, REQUESTS, ConnectionLimits(connections_max=1), inter_broker="IN")
    opened = await server.start(
        Listener(name, "127.0.0.1", 0, "PLAINTEXT", "127.0.0.1", 0) for name in ("OUT", "IN")
    )
    out, inside = ((one.host, one.port) for one in opened)
    clients = [await client_of(address) for address in (out, inside, inside)]
    for client in clients:
        await client.ask(MetadataRequest.of(), MetadataResponse)

    assert server.connections == 3
    another = await client_of(out)
    assert await clients[0].is_closed()
    for client in (another, *clients[1:]):
        await client.ask(MetadataRequest.of(), MetadataResponse)
    await server.close()
    await closed(another, *clients)
