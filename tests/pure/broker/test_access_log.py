"""What an administrator changes by a request is a line on the logger `zkgroup.authorizer`."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from zkgroup.broker.server.access_log import logged
from zkgroup.broker.server.connection_choice import Peer
from zkgroup.broker.server.handlers import Answer, RequestContext, ServedApi
from zkgroup.runtime.logs import PEERS
from zkgroup.wire import acls, admin_apis, groups, quotas, records, users
from zkgroup.wire.messages import Request, RequestHeader

ORDERS = 'Topic:LITERAL:"orders"'
CLUSTER = 'Cluster:LITERAL:"kafka-cluster"'
ACL = {
    "resource_type": 2,
    "resource_name": "orders",
    "principal": "User:bob",
    "host": "*",
    "operation": 3,
    "permission": 3,
}
OWNER = (
    quotas.QuotaEntityPart(entity_type="user", entity_name="al\nice"),
    quotas.QuotaEntityPart(entity_type="client-id", entity_name=None),
)
SHOWN_ACL = '"User:bob has ALLOW permission for operations: READ from hosts: *" at "Topic:LITERAL:orders"'
GROUP = 'Group:LITERAL:"g"'


def _configs(kind: int, name: str) -> tuple[Request, Answer]:
    values = tuple(
        admin_apis.ConfigOperation(name=each, operation=0, value="canary")
        for each in ("retention.ms", "ssl.key.password")
    )
    changed = admin_apis.ChangedResource(kind=kind, name=name, configs=values)
    result = admin_apis.AlteredResourceResult(error=0, kind=kind, name=name)
    return (
        admin_apis.IncrementalAlterConfigsRequest(resources=(changed,)),
        admin_apis.IncrementalAlterConfigsResponse(resources=(result,)),
    )


CASES: dict[str, tuple[Request, Answer, list[tuple[str, str, str]]]] = {
    "topics created, one refused": (
        admin_apis.CreateTopicsRequest(topics=()),
        admin_apis.CreateTopicsResponse(
            topics=tuple(
                admin_apis.CreatedTopic(topic=topic, error=error)
                for topic, error in (("orders", 0), ("refused", 36), ("slow", 7))
            )
        ),
        [
            ("Create", ORDERS, "created"),
            ("Create", 'Topic:LITERAL:"slow"', "created, or will be: the request timed out"),
        ],
    ),
    "topics validated": (
        admin_apis.CreateTopicsRequest(topics=(), validate_only=True),
        admin_apis.CreateTopicsResponse(topics=(admin_apis.CreatedTopic(topic="orders", error=0),)),
        [],
    ),
    "topics deleted": (
        admin_apis.DeleteTopicsRequest(timeout_ms=1),
        admin_apis.DeleteTopicsResponse(
            topics=(
                admin_apis.DeletedTopic(topic="orders", error=0),
                admin_apis.DeletedTopic(topic=None, error=100),
            )
        ),
        [("Delete", ORDERS, "deleted")],
    ),
    "a topic grown": (
        admin_apis.CreatePartitionsRequest(
            topics=(admin_apis.GrownTopic(topic="orders", count=5),), timeout_ms=1
        ),
        admin_apis.CreatePartitionsResponse(topics=(admin_apis.GrownTopicResult(topic="orders", error=0),)),
        [("Alter", ORDERS, "grown to 5 partitions")],
    ),
    "the configuration of a topic": (
        *_configs(2, "orders"),
        [("AlterConfigs", ORDERS, 'changed "retention.ms", "ssl.key.password"')],
    ),
    "the configuration of all brokers": (
        *_configs(4, ""),
        [("AlterConfigs", CLUSTER, 'all brokers: changed "retention.ms", "ssl.key.password"')],
    ),
    "replicas": (
        admin_apis.AlterPartitionReassignmentsRequest(topics=()),
        admin_apis.AlterPartitionReassignmentsResponse(
            error=0,
            topics=(
                admin_apis.ReassignedTopicResult(
                    topic="orders",
                    partitions=tuple(
                        admin_apis.ReassignedPartitionResult(partition=each, error=error)
                        for each, error in ((3, 0), (0, 0), (1, 39))
                    ),
                ),
            ),
        ),
        [("Alter", CLUSTER, 'changed replicas of "orders" 0, 3')],
    ),
    "credentials": (
        users.AlterUserScramCredentialsRequest(),
        users.AlterUserScramCredentialsResponse(
            users=(users.AlteredUser(user="alice", error=0), users.AlteredUser(user="", error=93))
        ),
        [("Alter", CLUSTER, 'user "alice": changed credentials')],
    ),
    "quotas": (
        quotas.AlterClientQuotasRequest(entries=(), validate_only=False),
        quotas.AlterClientQuotasResponse(entries=(quotas.AlteredQuotas(error=0, entity=OWNER),)),
        [("AlterConfigs", CLUSTER, 'user "al\\nice", default client-id: changed quotas')],
    ),
    "ACLs added": (
        acls.CreateAclsRequest(
            creations=(acls.AclCreation(**ACL), acls.AclCreation(**ACL | {"resource_type": 99}))
        ),
        acls.CreateAclsResponse(results=(acls.AclCreationResult(error=0), acls.AclCreationResult(error=42))),
        [
            ("Alter", CLUSTER, f"added {SHOWN_ACL}"),
        ],
    ),
    "ACLs removed": (
        acls.DeleteAclsRequest(filters=()),
        acls.DeleteAclsResponse(
            results=(acls.AclFilterResult(error=0, matching=(acls.DeletedAcl(error=0, **ACL),)),)
        ),
        [
            ("Alter", CLUSTER, f"removed {SHOWN_ACL}"),
        ],
    ),
    "groups": (
        groups.DeleteGroupsRequest(groups=("g", "h")),
        groups.DeleteGroupsResponse(
            groups=(groups.DeletedGroup(group="g", error=0), groups.DeletedGroup(group="h", error=68))
        ),
        [("Delete", GROUP, "deleted")],
    ),
    "offsets": (
        groups.OffsetDeleteRequest(group="g", topics=()),
        groups.OffsetDeleteResponse(
            error=0,
            topics=(
                groups.CommitTopicResult(
                    topic="orders",
                    partitions=(
                        groups.CommitPartitionResult(partition=1, error=0),
                        groups.CommitPartitionResult(partition=2, error=86),
                    ),
                ),
            ),
        ),
        [("Delete", GROUP, 'deleted offsets of "orders" 1')],
    ),
    "records": (
        records.DeleteRecordsRequest((), 1),
        records.DeleteRecordsResponse(
            0, (records.DeleteRecordsTopicResult("orders", (records.DeleteRecordsResult(2, 9, 0),)),)
        ),
        [("Delete", ORDERS, "deleted records of 2")],
    ),
    "closed": (admin_apis.CreateTopicsRequest(topics=()), None, []),
}


@pytest.mark.parametrize("case", CASES)
def test_each_change_is_one_line(case: str, caplog: pytest.LogCaptureFixture) -> None:
    """With principal, host, listener, operation, resource and what was changed; refused parts are none."""
    request, answer, expected = CASES[case]

    async def handle(context: RequestContext, request: Any) -> Answer:
        return answer

    row = logged(ServedApi(type(request), handle))
    context = RequestContext(
        RequestHeader(request.API, 0, 1, "c"), Peer("10.0.0.1", 5), "SECURE", "User:al\nice"
    )
    PEERS.forget()
    with caplog.at_level(logging.INFO, "zkgroup.authorizer"):
        found = asyncio.run(_awaited(row, context, request))

    assert found is answer
    assert caplog.messages == [
        f'Principal = "User:al\\nice" is Allowed Operation = {operation} from host = 10.0.0.1 on resource = '
        f"{resource} for request = {request.API.name} with listener = SECURE: {what}"
        for operation, resource, what in expected
    ]
    assert "canary" not in caplog.text


async def _awaited(row: ServedApi[Any], context: RequestContext, request: Request) -> Answer:
    return await row.handle(context, request)


def test_a_commit_is_no_line() -> None:
    """Its row is the same one, at no cost."""

    async def handle(context: RequestContext, request: Any) -> Answer:
        return None

    row = ServedApi(groups.OffsetCommitRequest, handle)

    assert logged(row) is row
