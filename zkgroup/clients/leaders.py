"""The leaders of partitions, as a broker of zkgroup or Kafka knows them."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import replace

from zkgroup.clients.addresses import (
    Addresses,
    BrokerAddress,
    addresses_of,
    bootstrap_addresses,
    negotiates_versions,
)
from zkgroup.clients.broker_queries import TIMEOUT_MS, QueryClient, first_answer, query
from zkgroup.errors import SourceUnavailableError
from zkgroup.model import TopicPartition
from zkgroup.security.client import BrokerAccess
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse, RequestedTopic
from zkgroup.znodes.brokers import NO_LEADER, BrokerRegistration

CREATES_BELOW = 4
"""Version of Metadata below which a broker may create a topic that is asked for by name."""


def read_leaders(
    bootstrap: Sequence[BrokerAddress],
    partitions: Collection[TopicPartition],
    timeout_ms: int = TIMEOUT_MS,
) -> tuple[dict[int, BrokerAddress], dict[TopicPartition, int | str]]:
    """The brokers, and for each partition its leader or why there is none, by the first broker that answers.

    Brokers are reached as those of `bootstrap`. Raises SourceUnavailableError where none answers,
    BrokerAuthenticationError where one refuses the login.
    """
    topics = sorted({tp.topic for tp in partitions})

    def metadata(client: QueryClient) -> Awaitable[MetadataResponse]:
        return _metadata(client, topics)

    answer = first_answer([query(broker, timeout_ms, metadata) for broker in bootstrap])
    if isinstance(answer, list):
        raise SourceUnavailableError("; ".join(answer))
    brokers = {one.broker: replace(bootstrap[0], host=one.host, port=one.port) for one in answer.brokers}
    return brokers, _leaders(answer, partitions)


def find_brokers(
    registered: Mapping[int, BrokerRegistration], access: BrokerAccess, timeout_ms: int = TIMEOUT_MS
) -> Addresses:
    """The address of each registered broker: by its registration, or as the bootstrap brokers name it.

    Raises ConfigError where several listeners of a broker fit, and what `read_leaders` raises.
    """
    if not access.bootstrap:
        return addresses_of(registered, access)
    named, _ = read_leaders(
        bootstrap_addresses(access.bootstrap, registered, access.security), (), timeout_ms
    )
    missing = "is not known to the bootstrap brokers"
    return {
        number: replace(named[number], negotiates=negotiates_versions(one)) if number in named else missing
        for number, one in registered.items()
    }


async def _metadata(client: QueryClient, topics: Sequence[str]) -> MetadataResponse:
    version = await client.version(MetadataRequest)
    named: tuple[RequestedTopic, ...] | None = tuple(RequestedTopic(topic=topic) for topic in topics)
    if version < CREATES_BELOW:
        named = () if version == 0 else None
    request = MetadataRequest(named, allow_auto_topic_creation=False)
    return await client.ask(request, MetadataResponse, version=version)


def _leaders(
    answer: MetadataResponse, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int | str]:
    known = {
        TopicPartition(topic.topic, one.partition): one.leader
        for topic in answer.topics
        for one in topic.partitions
    }
    leaders: dict[TopicPartition, int | str] = {}
    for tp in partitions:
        leader = known.get(tp)
        if leader is None:
            leaders[tp] = "the brokers have no such partition"
        else:
            leaders[tp] = "no broker leads it" if leader == NO_LEADER else leader
    return leaders
