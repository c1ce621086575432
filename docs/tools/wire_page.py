"""The page of the APIs that brokers serve, from the answer of a running broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from docs.tools import markdown
from zkgroup.broker.controller_only import ControllerServer
from zkgroup.security.listeners import plaintext
from zkgroup.testing.kafka_cluster import KafkaCluster
from zkgroup.wire.messages import Request, decode_response, encode_request
from zkgroup.wire.metadata import ApiVersionsRequest, ApiVersionsResponse
from zkgroup.zookeeper.client import SystemClock

DIFFERENCES = [
    (
        "Produce",
        (
            "Versions 0 to 2 get error 43, a transactional id 53. An idempotent producer that is not known and does "
            "not begin with sequence 0 gets 59, and a duplicate older than the last five batches 46 (Kafka: "
            "accepted, 45). A batch larger than `segment.bytes` is appended (Kafka: 18). The records in a "
            "batch are examined only in topics with `cleanup.policy=compact`, and not with snappy, lz4 and zstd: "
            "records without a key get 87. Bytes behind the batch get 87 (Kafka drops what is no whole batch), null "
            "records 87 and an unknown compression 76 (Kafka: -1)."
        ),
    ),
    (
        "Fetch",
        (
            "Versions 0 to 3 get error 43 for each partition. Consumers get no session. Before version 10 they get "
            "error 76 from the first batch with zstd on; Kafka refuses topics with `compression.type=zstd`, and "
            "sends such batches of others. Replica id -2 is answered by every replica."
        ),
    ),
    (
        "FindCoordinator",
        "Groups: the leader of their [slot](../protocol/recipes.md#20-slots), or error 15. Transactions: error 53, as there are none.",
    ),
    (
        "JoinGroup, SyncGroup, LeaveGroup",
        (
            "A client gets error 23 while ZooKeeper consumers are members of its group. As in Kafka 3.9.1: an "
            "instance id that is not registered is an unknown member (25), a member that joins again changes its "
            "timeouts, and what members send each other is not read. Of strategies with equal votes the leader's "
            "first one wins. A SyncGroup that is repeated is answered, the former one with 27. A JoinGroup that is "
            "repeated replaces the former one, whose connection is closed without an answer."
        ),
    ),
    (
        "OffsetCommit, OffsetFetch",
        (
            "Versions 0 and 1 share offsets with the later ones: all are those of ZooKeeper consumers. While such "
            "consumers are members, a commit without a member gets 25, in version 0 error -1. A commit whose "
            "outcome is not known gets 15."
        ),
    ),
    (
        "DescribeGroups",
        "On request, tagged fields with the phase of a group, its generation and its timers, for zkgroup's tools.",
    ),
    (
        "DeleteGroups, OffsetDelete",
        "Errors 68 and 86 also while ZooKeeper consumers are members.",
    ),
    (
        "all requests with a group id",
        (
            "An id that no znode can have gets error 24: `.`, `..`, and any with `/`, `%`, control characters or "
            "other characters that ZooKeeper refuses (U+D800 to U+F8FF, U+FFF0 and above, as emoji). The empty id "
            "gets 24, too, also for commits, which Kafka stores; OffsetFetch finds no offset of it. So does an id of "
            "more than 255 bytes in UTF-8 in the requests that can make a group, and in those of its members: "
            "ZooKeeper sends the names of all groups in one packet of at most 1 MiB. OffsetFetch, DescribeGroups, "
            "DeleteGroups and OffsetDelete take it: ZooKeeper consumers may have such a group."
        ),
    ),
    (
        "AlterPartitionReassignments",
        (
            "A running reassignment gets further partitions and other targets, as in Kafka. Error 60 comes while a "
            "Kafka controller is active, which reads a request in ZooKeeper once, and for moves that it has begun."
        ),
    ),
    (
        "DescribeUserScramCredentials, AlterUserScramCredentials",
        (
            "Any broker answers, not only the controller. Names are decoded also where all users are described. "
            "A salt of less than 12 bytes gets 93."
        ),
    ),
    (
        "DescribeClientQuotas, AlterClientQuotas",
        (
            "Any broker alters, not only the controller. A host name gets 42: only addresses have quotas, also those "
            "of IPv6, which Kafka 2.8.2 refuses. So do a percentage or a mutation rate that is negative or not "
            "finite, and a byte rate that is no number, all of which Kafka stores. Credentials are not removed. "
            "Errors are 40 or 42 where Kafka answers -1."
        ),
    ),
    (
        "CreateAcls",
        (
            "An ACL that cannot be gets error 42, and the others are added (Kafka: -1 for all, or the connection is "
            "closed)."
        ),
    ),
    ("CreateTopics, AlterConfigs", "`cleanup.policy=compact` is taken, and every record is kept."),
    (
        "AlterConfigs, IncrementalAlterConfigs",
        (
            "Any broker changes the configs of each broker; Kafka's only its own. What a zkgroup broker reads only at "
            "its start gets 42, also where Kafka reads it again, as `listeners` or `max.connections`. A name that "
            "zkgroup brokers do not know is kept as a plug-in's and not followed, also where Kafka reads it only at "
            "its start, as `log.dir` (Kafka: 42). Of a null value AlterConfigs answers 42 (Kafka: -1)."
        ),
    ),
    (
        "CreateTopics, DescribeConfigs",
        (
            "Of a topic, `delete.retention.ms`, `file.delete.delay.ms`, `min.cleanable.dirty.ratio` and "
            "`segment.index.bytes` are shown only where they are set, and not followed."
        ),
    ),
    (
        "CreateTopics, AlterConfigs and the other requests of tools",
        "`error_message` names the znode or setting, and what was expected and found; its words are not Kafka's.",
    ),
    (
        "CreateTopics, DeleteTopics",
        "Topics have no ids: CreateTopics 7 answers zeros, and DeleteTopics 6 error 100 for any id.",
    ),
    ("DeleteTopics, CreatePartitions", "Error 17 for `__consumer_offsets`."),
    (
        "Metadata",
        (
            "Topics have no ids: zeros in version 10 and later; topics that are asked for by id get error 42. "
            "A broker that has just started closes the connection until the controller has told it the "
            "brokers; Kafka's names none, at which librdkafka gives all of them up."
        ),
    ),
]
"""What clients of Kafka notice, by API."""


def page() -> str:
    """`reference/wire.md`."""
    intro = [
        "Controller and brokers use version 0 of Kafka 0.8.2.2's control requests, so either side may be Kafka.",
        "Everything else is what Kafka 2.8.2 has, in Kafka's own frames. Tagged fields from 10000 on are zkgroup's",
        "own, so Kafka's clients skip those.",
        "",
        "A frame that ends within a field is refused, and the connection closed. Bytes behind a response are",
        "refused too; behind a request they are ignored, because librdkafka sends some.",
    ]
    return markdown.page("Served APIs", intro, *_served())


def _served() -> Iterator[list[str]]:
    """What a broker answers to ApiVersions, and a controller without a broker."""
    brokers, controllers = asyncio.run(_versions_of_broker()), asyncio.run(_versions_of_controller())
    names = {kind.API: kind.__name__ for kind in Request.__subclasses__()}
    yield [
        "As a broker answers ApiVersions, and a process with `--controller-only`. Another API or version closes the",
        "connection, except a later version of ApiVersions, which is answered with error 35 in version 0 (KIP-511).",
    ]
    rows = [
        (
            names[key].removesuffix("Request"),
            str(key),
            _range(served),
            _range(controllers.get(key)),
        )
        for key, served in brokers.items()
    ]
    yield markdown.table(["API", "key", "broker", "controller only"], rows)
    yield ["Where answers differ from those of Kafka 2.8.2:"]
    yield markdown.table(["API", "answer"], DIFFERENCES)


async def _versions_of_broker() -> Mapping[int, range]:
    with KafkaCluster(brokers=1) as cluster:
        host, _, port = cluster.bootstrap_servers.partition(":")
        return await _versions_at(host, int(port))


async def _versions_of_controller() -> Mapping[int, range]:
    server = ControllerServer(0, SystemClock())
    try:
        (opened,) = await server.open(plaintext("127.0.0.1", 0).listeners)
        return await _versions_at(opened.host, opened.port)
    finally:
        await server.close()


async def _versions_at(host: str, port: int) -> Mapping[int, range]:
    """The answer at a port."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(encode_request(ApiVersionsRequest("docs", "1"), 1, "docs", version=3))
    frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    writer.close()
    await writer.wait_closed()
    answer = decode_response(ApiVersionsResponse, frame, version=3)[1]
    return {api.api_key: range(api.first, api.last + 1) for api in answer.apis}


def _range(versions: range | None) -> str:
    if versions is None:
        return ""
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
