"""Drawn ACLs, and requests of clients that have them: Kafka's answers beside those of zkgroup's guards.

The requests change nothing, whoever sends them. So each is also sent by a super user, and handlers that
answer as the super user was answered, behind guards, have to give what Kafka gave to the client.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from random import Random
from typing import Any

from tests.worlds.broker_requests import leader_and_isr, state, stop_replica, update_metadata
from tests.worlds.guarded_handlers import HOST, GuardedHandlers
from tests.worlds.wire_requests import REQUESTS, decode_request, encode_response
from zkgroup.errors import UnencodableError
from zkgroup.security.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermission,
    AclSettings,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from zkgroup.wire import acls, admin_apis, control, groups, log_dirs, metadata, quotas, records, users
from zkgroup.wire.messages import Request, decode_response, encode_request

USERS = {"alice": "a", "bob": "b", "admin": "c"}
"""With their passwords; the last one is a super user."""
HERE = "127.0.0.1"
"""The address of the clients."""
TOPICS = ("mine", "mine.a", "theirs")
"""Those that exist, with one partition each."""
GROUPS = ("mine", "theirs")
"""Those that exist, with offsets of all topics."""
ABSENT = ("mine.none", "theirs.none")
"""Topics and groups that do not exist."""
NO_PARTITION = 9
IN_EACH = 20
"""Requests for each set of ACLs."""


@dataclass(frozen=True)
class Case:
    """ACLs, and requests of the latest ones: who sends, and the frame."""

    acls: tuple[AclBinding, ...]
    requests: tuple[tuple[str, bytes], ...]


def drawn(count: int, seed: int) -> Iterator[Case]:
    """So many cases; each kind of request comes as often as the others."""
    draw = Random(seed)
    kinds: list[Any] = []
    for _ in range(count):
        requests = []
        for _ in range(IN_EACH):
            kinds = kinds or draw.sample(KINDS, len(KINDS))
            user = draw.choice(("alice", "alice", "alice", "bob"))
            requests.append((user, _encoded(draw, kinds.pop()(draw))))
        bindings = tuple(dict.fromkeys(_binding(draw) for _ in range(draw.randint(0, 12))))
        yield Case(bindings, tuple(requests))


def _encoded(draw: Random, request: Request) -> bytes:
    """In one of the versions that can say it."""
    versions = request.VERSIONS
    if isinstance(request, admin_apis.CreateTopicsRequest | groups.OffsetCommitRequest):
        versions = versions[1:]  # the first one knows no `validate_only`, and no generation
    for version in draw.sample(versions, len(versions)):
        with suppress(UnencodableError):
            return encode_request(request, 7, "drawn", version=version)
    raise AssertionError(request)


def _binding(draw: Random) -> AclBinding:
    kinds = (ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)
    kind = draw.choice((*kinds, *kinds, ResourceType.TRANSACTIONAL_ID))
    pattern_type = draw.choice((PatternType.LITERAL, PatternType.PREFIXED))
    name = draw.choice(("mine", "mine", "mine.a", "theirs", "mine.none", "*", "*"))
    if pattern_type is PatternType.PREFIXED:
        name = draw.choice(("m", "mine", "mine.", "t", "theirs.n"))
    if kind is ResourceType.CLUSTER:
        name, pattern_type = CLUSTER_NAME, PatternType.LITERAL
    return AclBinding(
        ResourcePattern(kind, name, pattern_type),
        AccessControlEntry(
            draw.choice(("User:alice", "User:alice", "User:bob", "User:*")),
            draw.choice(("*", "*", HERE, "10.9.9.9")),
            draw.choice((*SUPPORTED_OPERATIONS[kind], AclOperation.ALL)),
            draw.choice((AclPermission.ALLOW,) * 3 + (AclPermission.DENY,)),
        ),
    )


def _some(draw: Random, names: Sequence[str], *, twice: bool = False) -> list[str]:
    """`twice`: one name may come twice."""
    found = draw.sample(names, draw.randint(1, min(len(names), 4)))
    return [*found, found[0]] if twice and draw.random() < 0.2 else found


def _topics(draw: Random) -> list[str]:
    return _some(draw, (*TOPICS, *ABSENT))


def _produce(draw: Random) -> Request:
    part = (records.ProducedPartition(NO_PARTITION, b""),)
    return records.ProduceRequest(1, 1000, tuple(records.ProducedTopic(one, part) for one in _topics(draw)))


def _fetch(draw: Random) -> Request:
    """Of a consumer or a follower, without a session."""
    topics = tuple(records.FetchTopic(one, (records.FetchPartition(0, 0, 100),)) for one in _topics(draw))
    return records.FetchRequest(draw.choice((-1, -1, 7)), 0, 0, topics)


def _list_offsets(draw: Random) -> Request:
    part = (records.ListOffsetsPartition(0, -1),)
    return records.ListOffsetsRequest(-1, tuple(records.ListOffsetsTopic(one, part) for one in _topics(draw)))


def _delete_records(draw: Random) -> Request:
    part = (records.DeletedPartition(NO_PARTITION, 0),)
    return records.DeleteRecordsRequest(
        tuple(records.DeletedTopicRecords(one, part) for one in _topics(draw)), 1000
    )


def _epochs(draw: Random) -> Request:
    part = (records.EpochPartition(0, -1, 0),)
    return records.OffsetForLeaderEpochRequest(
        tuple(records.EpochTopic(one, part) for one in _topics(draw)), replica_id=-1
    )


def _init_producer_id(draw: Random) -> Request:
    """The timeout of a transaction is refused."""
    return records.InitProducerIdRequest(draw.choice((None, None, "mine", "theirs")), 2**31 - 1)


def _metadata(draw: Random) -> Request:
    topics = draw.choice((None, _topics(draw), _topics(draw)))
    named = None if topics is None else metadata.MetadataRequest.of(*topics).topics
    return metadata.MetadataRequest(
        named,
        include_cluster_authorized_operations=draw.random() < 0.5,
        include_topic_authorized_operations=draw.random() < 0.5,
    )


def _control(draw: Random) -> Request:
    """All of a controller of long ago, or about an unknown broker."""
    partition = state()
    return draw.choice(
        (
            leader_and_isr(partition, epoch=0),
            stop_replica(partition.topic_partition, epoch=0),
            update_metadata(partition, epoch=0),
            control.ControlledShutdownRequest(9),
        )
    )


def _group(draw: Random) -> str:
    return draw.choice((*GROUPS, *ABSENT))


def _membership(draw: Random) -> Request:
    """Of a member that is not known."""
    group, protocol = _group(draw), draw.choice(("range", "range", None))
    join = groups.JoinGroupRequest(
        group=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="m",
        protocol_type="consumer",
        protocols=(groups.JoinProtocol(name="range", metadata=b"x"),),
    )
    return draw.choice(
        (
            join,
            groups.SyncGroupRequest(
                group=group, generation=1, member_id="m", protocol_type="consumer", protocol=protocol
            ),
            groups.HeartbeatRequest(group=group, generation=1, member_id="m"),
            groups.LeaveGroupRequest(
                group=group, member_id="m", members=(groups.LeavingMember(member_id="m"),)
            ),
        )
    )


def _commit(draw: Random) -> Request:
    """Of a generation that never was."""
    offset = groups.OffsetToCommit(partition=0, offset=5, metadata="")
    return groups.OffsetCommitRequest(
        group=_group(draw),
        generation=5,
        member_id="m",
        topics=tuple(groups.TopicToCommit(topic=one, partitions=(offset,)) for one in _topics(draw)),
    )


def _fetch_offsets(draw: Random) -> Request:
    named = tuple(groups.OffsetFetchTopic(topic=one, partitions=(0, 1)) for one in _topics(draw))
    return groups.OffsetFetchRequest(group=_group(draw), topics=draw.choice((None, named, named)))


def _delete_offsets(draw: Random) -> Request:
    part = (groups.OffsetDeletePartition(partition=NO_PARTITION),)
    return groups.OffsetDeleteRequest(
        group=_group(draw),
        topics=tuple(groups.OffsetDeleteTopic(topic=one, partitions=part) for one in _topics(draw)),
    )


def _of_groups(draw: Random) -> Request:
    named = tuple(_some(draw, (*GROUPS, *ABSENT)))
    return draw.choice(
        (
            groups.DescribeGroupsRequest(groups=named, include_authorized_operations=draw.random() < 0.5),
            groups.ListGroupsRequest(),
            groups.DeleteGroupsRequest(groups=tuple(_some(draw, ABSENT))),
            metadata.FindCoordinatorRequest(named[0], draw.choice((0, 0, 1))),
        )
    )


def _change_topics(draw: Random) -> Request:
    absent = tuple(_some(draw, ABSENT))
    return draw.choice(
        (
            admin_apis.CreateTopicsRequest(
                topics=tuple(
                    admin_apis.CreatableTopic(topic=one, partitions=1, replication_factor=1)
                    for one in _some(draw, (*TOPICS, *ABSENT), twice=True)
                ),
                validate_only=True,
            ),
            admin_apis.DeleteTopicsRequest(
                topics=tuple(admin_apis.DeleteTopicState(topic=one) for one in absent),
                topic_names=absent,
                timeout_ms=1000,
            ),
            admin_apis.CreatePartitionsRequest(
                topics=tuple(
                    admin_apis.GrownTopic(topic=one, count=3)
                    for one in _some(draw, (*TOPICS, *ABSENT), twice=True)
                ),
                timeout_ms=1000,
                validate_only=True,
            ),
        )
    )


def _configs(draw: Random) -> Request:
    brokers = draw.choice(((), ((admin_apis.BROKER_RESOURCE, "1"),)))
    named = [*((admin_apis.TOPIC_RESOURCE, one) for one in _topics(draw)), *brokers]
    value = admin_apis.ConfigValue(name="retention.ms", value="5")
    operation = admin_apis.ConfigOperation(name="retention.ms", operation=0, value="5")
    return draw.choice(
        (
            admin_apis.DescribeConfigsRequest(
                resources=tuple(
                    admin_apis.ConfigResource(kind=kind, name=name, keys=("retention.ms",))
                    for kind, name in named
                )
            ),
            admin_apis.AlterConfigsRequest(
                resources=tuple(
                    admin_apis.AlteredResource(kind=kind, name=name, configs=(value,)) for kind, name in named
                ),
                validate_only=True,
            ),
            admin_apis.IncrementalAlterConfigsRequest(
                resources=tuple(
                    admin_apis.ChangedResource(kind=kind, name=name, configs=(operation,))
                    for kind, name in named
                ),
                validate_only=True,
            ),
        )
    )


def _partitions(draw: Random) -> Request:
    topics = _topics(draw)
    named = tuple(admin_apis.TopicPartitions(topic=one, partitions=(0, NO_PARTITION)) for one in topics)
    moved = (admin_apis.ReassignedPartition(partition=NO_PARTITION, replicas=(1,)),)
    parts = tuple(log_dirs.LogDirTopic(one, (0,)) for one in topics)
    return draw.choice(
        (
            admin_apis.ElectLeadersRequest(topics=named, timeout_ms=1000),
            admin_apis.AlterPartitionReassignmentsRequest(
                topics=tuple(admin_apis.ReassignedTopic(topic=one, partitions=moved) for one in topics)
            ),
            admin_apis.ListPartitionReassignmentsRequest(topics=draw.choice((None, named))),
            log_dirs.DescribeLogDirsRequest(parts),
            log_dirs.AlterReplicaLogDirsRequest((log_dirs.AlteredLogDir("/no-folder", parts),)),
        )
    )


def _users(draw: Random) -> Request:
    part = quotas.QuotaEntityPart(entity_type="user", entity_name="a")
    return draw.choice(
        (
            users.DescribeUserScramCredentialsRequest(users=(users.UserName(user="a"),)),
            users.AlterUserScramCredentialsRequest(
                deletions=(users.CredentialDeletion(user="b", mechanism=1),), upsertions=()
            ),
            quotas.DescribeClientQuotasRequest(components=(), strict=False),
            quotas.AlterClientQuotasRequest(
                entries=(quotas.QuotaAlteration(entity=(part,), operations=()),), validate_only=True
            ),
        )
    )


def _of_acls(draw: Random) -> Request:
    """An ACL of a cluster of another name cannot be made; those of eve do not exist."""
    creation = acls.AclCreation(
        resource_type=4, resource_name="x", principal="User:eve", host="*", operation=7, permission=3
    )
    wanted = acls.AclFilterFields(resource_type=1, principal="User:eve", operation=1, permission=1)
    return draw.choice(
        (
            acls.DescribeAclsRequest(resource_type=1, pattern_type=3, operation=1, permission=1),
            acls.CreateAclsRequest(creations=(creation, creation)),
            acls.DeleteAclsRequest(filters=(wanted, wanted)),
        )
    )


def _describe_cluster(draw: Random) -> Request:
    return metadata.DescribeClusterRequest(include_cluster_authorized_operations=draw.random() < 0.7)


KINDS = (
    *(_produce, _fetch, _fetch, _list_offsets, _delete_records, _epochs, _init_producer_id),
    *(_metadata, _metadata, _metadata, _control, _membership, _membership, _commit, _fetch_offsets),
    *(_fetch_offsets, _delete_offsets, _of_groups, _of_groups, _of_groups, _change_topics, _change_topics),
    *(_configs, _configs, _partitions, _partitions, _users, _of_acls, _describe_cluster),
)


def differences(row: Any) -> list[str]:
    """Where a client is answered otherwise than by Kafka, in a recorded row.

    `acls`: type, name, type of pattern, principal, host, operation, permission; `exchanges`: who has sent,
    the frame, what the super user got for it, and what the client got.
    """
    given: dict[ResourcePattern, list[AccessControlEntry]] = {}
    for words in row["acls"]:
        pattern, entry = binding_of(words)
        host = HOST if entry.host == HERE else entry.host
        given.setdefault(pattern, []).append(entry._replace(host=host))
    answers: dict[str, Any] = {}
    guarded = GuardedHandlers(answers=lambda request: _part(answers["whole"], request))
    settings = AclSettings(super_users=frozenset({"User:admin"}), allow_if_no_acl=row["open"])
    guarded.authorizer.cache.settings = settings
    guarded.authorizer.change(given)
    found = []
    for user, *frames in row["exchanges"]:
        sent, whole, came = map(bytes.fromhex, frames)
        header, request = decode_request(sent[4:])
        kind, version = REQUESTS[header.api_key].RESPONSE, header.version
        _, answers["whole"] = decode_response(kind, whole[4:], version=version)
        _, expected = decode_response(kind, came[4:], version=version)
        written = encode_response(guarded.ask(request, user, version=version), 7, version=version)
        _, answer = decode_response(kind, written[4:], version=version)
        if (ours := plain(answer)) != (theirs := plain(expected)):
            found.append(f"{user} {version} {request}:\nKafka {theirs}\nours  {ours}\n{row['acls']}")
    return found


def binding_of(words: Sequence[str]) -> AclBinding:
    kind, name, pattern_type, principal, host, operation, permission = words
    return AclBinding(
        ResourcePattern(ResourceType[kind], name, PatternType[pattern_type]),
        AccessControlEntry(principal, host, AclOperation[operation], AclPermission[permission]),
    )


def words_of(binding: AclBinding) -> list[str]:
    (kind, name, pattern_type), (principal, host, operation, permission) = binding
    return [kind.name, name, pattern_type.name, principal, host, operation.name, permission.name]


def _part(whole: Any, request: Any) -> Any:
    """The rows of an answer that a request names; all of them where it names none."""
    for parts, rows in (("topic_names", "topics"), ("topics", "topics"), ("resources",) * 2, ("groups",) * 2):
        if getattr(request, parts, None) and isinstance(getattr(whole, rows, None), tuple):
            names = {_key(one) for one in getattr(request, parts)}
            return replace(whole, **{rows: tuple(one for one in getattr(whole, rows) if _key(one) in names)})
        if (
            getattr(request, parts, None) == ()
            and parts != "topic_names"
            and request.API != metadata.Api.METADATA
        ):
            return replace(whole, **{rows: ()})
    return whole


def _key(row: Any) -> Any:
    """What a row is about: a topic, a group, or a resource with a configuration."""
    if isinstance(row, str):
        return row
    return getattr(row, "topic", None) or getattr(row, "group", None) or (row.kind, row.name)


def refusals(row: Any) -> Iterator[list[str]]:
    """For each request of a row what is refused and what is listed, as the client was told."""
    for user, *frames in row["exchanges"]:
        sent, _, came = map(bytes.fromhex, frames)
        header, request = decode_request(sent[4:])
        if getattr(request, "transactional_id", None) or getattr(request, "key_type", 0):
            continue  # zkgroup has no transactions
        kind, version = REQUESTS[header.api_key], header.version
        _, answer = decode_response(kind.RESPONSE, came[4:], version=version)
        yield [
            f"{user}: {kind.__name__} {version} {sent.hex()}",
            *sorted(_told(answer, isinstance(answer, _LISTS))),
        ]


def _told(row: Any, is_list: bool, path: str = "") -> Iterator[str]:
    if (error := getattr(row, "error", 0)) in _REFUSED:
        yield f"{path}: {error}"
    for one in fields(row):
        value = getattr(row, one.name)
        if one.name == "authorized_operations":
            yield f"{path}: may {value}"
        if isinstance(value, tuple) and value and is_dataclass(value[0]):
            for number, each in enumerate(value):
                name = next((str(getattr(each, key)) for key in _NAMES if hasattr(each, key)), str(number))
                if is_list and not path and not name.startswith("__"):
                    yield name
                if not name.startswith("__"):
                    yield from _told(each, is_list, f"{path}/{name}")


_LISTS = (metadata.MetadataResponse, groups.ListGroupsResponse, groups.OffsetFetchResponse)
_NAMES = ("topic", "group", "name", "partition", "user")
_REFUSED = (29, 30, 31, 53)
_TEXT = re.compile(r"Request Request\(.* is not authorized\.")
_OWN = ("producer_id", "throttle_ms")


def plain(answer: Any) -> Any:
    """An answer with its rows in one order, and without what differs from one request to the next."""
    if not is_dataclass(answer):
        return answer
    found = {}
    for one in fields(answer):
        value = getattr(answer, one.name)
        if isinstance(value, tuple):
            value = tuple(sorted(map(plain, value), key=repr))
        elif isinstance(value, str) and one.name == "error_message":
            value = _TEXT.sub("Cluster authorization failed.", value)
        found[one.name] = 0 if one.name in _OWN else value
    return replace(answer, **found)
