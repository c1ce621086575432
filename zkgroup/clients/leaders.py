"""The leaders of partitions, as a broker of zkgroup or Kafka knows them."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence

from zkgroup.clients.broker_queries import TIMEOUT_MS, QueryClient, first_answer, query
from zkgroup.errors import SourceUnavailableError
from zkgroup.model import TopicPartition
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse, RequestedTopic
from zkgroup.znodes.brokers import NO_LEADER, BrokerRegistration

CREATES_BELOW = 4
"""Version of Metadata below which a broker may create a topic that is asked for by name."""


def read_leaders(
    bootstrap: Sequence[BrokerRegistration],
    partitions: Collection[TopicPartition],
    timeout_ms: int = TIMEOUT_MS,
) -> tuple[dict[int, BrokerRegistration], dict[TopicPartition, int | str]]:
    """The brokers, and for each partition its leader or why there is none, by the first broker that answers.

    `bootstrap`: all of one version. Raises SourceUnavailableError where none answers.
    """
    topics = sorted({tp.topic for tp in partitions})

    def metadata(client: QueryClient) -> Awaitable[MetadataResponse]:
        return _metadata(client, topics)

    answer = first_answer([query(broker, timeout_ms, metadata) for broker in bootstrap])
    if isinstance(answer, list):
        raise SourceUnavailableError("; ".join(answer))
    version = bootstrap[0].version
    registered = {one.broker: BrokerRegistration(one.host, one.port, version) for one in answer.brokers}
    return registered, _leaders(answer, partitions)


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
