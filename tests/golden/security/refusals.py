"""Asks Kafka 2.8.2 what a client with few rights may not do: HOST PORT OUT.jsonl.

The broker has `AclAuthorizer`, the topics `mine` and `theirs`, and ACLs that allow `User:ANONYMOUS` every
operation on the topic and the group `mine`, and ClusterAction, without which it could not be a cluster. Lines
are as those of `by_hand.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from by_hand import frames

from zkgroup.wire import acls, admin_apis, groups, log_dirs, quotas, users
from zkgroup.wire.messages import Request, encode_request

NAMES = ("theirs", "mine", "others")


def of_groups() -> Iterator[Request]:
    yield groups.JoinGroupRequest(
        group="theirs",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=(groups.JoinProtocol(name="range", metadata=b"x"),),
    )
    named = groups.SyncGroupRequest(
        group="theirs", generation=1, member_id="m", protocol_type="consumer", protocol="range"
    )
    yield named
    yield groups.SyncGroupRequest(group="theirs", generation=1, member_id="m")
    yield groups.HeartbeatRequest(group="theirs", generation=1, member_id="m")
    yield groups.LeaveGroupRequest(
        group="theirs", member_id="m", members=(groups.LeavingMember(member_id="m"),)
    )
    yield groups.DescribeGroupsRequest(groups=NAMES, include_authorized_operations=True)
    yield groups.ListGroupsRequest()
    yield groups.DeleteGroupsRequest(groups=("theirs", "others", "theirs"))


def of_offsets(group: str) -> Iterator[Request]:
    offset = groups.OffsetToCommit(partition=0, offset=5, metadata="")
    yield groups.OffsetCommitRequest(
        group=group, topics=tuple(groups.TopicToCommit(topic=one, partitions=(offset,)) for one in NAMES)
    )
    yield groups.OffsetFetchRequest(
        group=group, topics=tuple(groups.OffsetFetchTopic(topic=one, partitions=(0,)) for one in NAMES)
    )
    partition = groups.OffsetDeletePartition(partition=0)
    yield groups.OffsetDeleteRequest(
        group=group,
        topics=tuple(groups.OffsetDeleteTopic(topic=one, partitions=(partition,)) for one in NAMES),
    )


def of_topics() -> Iterator[Request]:
    yield admin_apis.CreateTopicsRequest(
        topics=tuple(
            admin_apis.CreatableTopic(topic=one, partitions=1, replication_factor=1)
            for one in (*NAMES, "twice", "twice")
        ),
        validate_only=True,
    )
    absent = ("theirs", "others")
    yield admin_apis.DeleteTopicsRequest(
        topics=tuple(admin_apis.DeleteTopicState(topic=one) for one in absent),
        topic_names=absent,
        timeout_ms=1000,
    )
    yield admin_apis.CreatePartitionsRequest(
        topics=tuple(admin_apis.GrownTopic(topic=one, count=3) for one in (*NAMES, "twice", "twice")),
        timeout_ms=1000,
        validate_only=True,
    )
    named = admin_apis.TopicPartitions(topic="mine", partitions=(0, 1))
    yield admin_apis.ElectLeadersRequest(topics=(named,), timeout_ms=1000)
    yield admin_apis.ElectLeadersRequest(topics=None, timeout_ms=1000)
    moved = admin_apis.ReassignedPartition(partition=0, replicas=(1,))
    yield admin_apis.AlterPartitionReassignmentsRequest(
        topics=(admin_apis.ReassignedTopic(topic="mine", partitions=(moved,)),)
    )
    yield admin_apis.ListPartitionReassignmentsRequest(topics=(named,))
    yield admin_apis.ListPartitionReassignmentsRequest(topics=None)
    yield log_dirs.DescribeLogDirsRequest(None)
    yield log_dirs.AlterReplicaLogDirsRequest(
        (log_dirs.AlteredLogDir("/x", (log_dirs.LogDirTopic("mine", (0, 1)),)),)
    )


def of_configs() -> Iterator[Request]:
    resources = [*((admin_apis.TOPIC_RESOURCE, one) for one in NAMES), (admin_apis.BROKER_RESOURCE, "1")]
    loggers = [*resources, (admin_apis.BROKER_LOGGER_RESOURCE, "1")]
    yield admin_apis.DescribeConfigsRequest(
        resources=tuple(
            admin_apis.ConfigResource(kind=kind, name=name, keys=("retention.ms",)) for kind, name in loggers
        )
    )
    value = admin_apis.ConfigValue(name="retention.ms", value="5")
    yield admin_apis.AlterConfigsRequest(
        resources=tuple(
            admin_apis.AlteredResource(kind=kind, name=name, configs=(value,)) for kind, name in resources
        ),
        validate_only=True,
    )
    operation = admin_apis.ConfigOperation(name="retention.ms", operation=0, value="5")
    yield admin_apis.IncrementalAlterConfigsRequest(
        resources=tuple(
            admin_apis.ChangedResource(kind=kind, name=name, configs=(operation,)) for kind, name in loggers
        ),
        validate_only=True,
    )


def of_users() -> Iterator[Request]:
    yield users.DescribeUserScramCredentialsRequest(users=(users.UserName(user="a"),))
    deletion = users.CredentialDeletion(user="b", mechanism=1)
    upsertion = users.CredentialUpsertion(
        user="a", mechanism=1, iterations=4096, salt=b"s" * 16, salted_password=b"x" * 32
    )
    yield users.AlterUserScramCredentialsRequest(deletions=(deletion,), upsertions=(upsertion,))
    yield quotas.DescribeClientQuotasRequest(components=(), strict=False)
    part = quotas.QuotaEntityPart(entity_type="user", entity_name="a")
    yield quotas.AlterClientQuotasRequest(
        entries=(quotas.QuotaAlteration(entity=(part,), operations=()),), validate_only=True
    )
    yield acls.DescribeAclsRequest(resource_type=1, pattern_type=3, operation=1, permission=1)
    creation = acls.AclCreation(
        resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission=3
    )
    yield acls.CreateAclsRequest(creations=(creation, creation))
    every = acls.AclFilterFields(resource_type=1, operation=1, permission=1)
    yield acls.DeleteAclsRequest(filters=(every, every))


def main() -> None:
    host, port, file = sys.argv[1:]
    asked = {
        "groups": of_groups(),
        "offsets of theirs": of_offsets("theirs"),
        "offsets of mine": of_offsets("mine"),
        "topics": of_topics(),
        "configs": of_configs(),
        "users": of_users(),
    }
    rows = []
    for name, requests in asked.items():
        for request in requests:
            sent = [encode_request(request, 7, "by-hand", version=one) for one in request.VERSIONS]
            case = f"{name}: {request.API.name}"
            rows.append(json.dumps({"case": case, "frames": frames(host, int(port), sent)}) + "\n")
    Path(file).write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
