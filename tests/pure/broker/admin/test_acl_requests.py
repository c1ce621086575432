"""DescribeAcls, CreateAcls and DeleteAcls: the answers are those of Kafka 2.8.2."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.recorded_logins import ACLS, conversations
from tests.worlds.wire_requests import REQUESTS, decode_request
from zkgroup.broker.admin import acls
from zkgroup.broker.admin.failures import RequestPartError
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.model.error_codes import ErrorCode
from zkgroup.security.acls import AccessControlEntry, AclCache, ResourcePattern, ResourceType
from zkgroup.wire.acls import (
    AclCreation,
    AclFilterFields,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from zkgroup.wire.messages import decode_response
from zkgroup.znodes.acls import ResourceAcls

PLAIN = ResourceAcls.path(ResourcePattern(ResourceType.TOPIC, "plain"))
EVERY: dict[str, Any] = {"resource_type": 1, "pattern_type": 1, "operation": 1, "permission": 1}


@pytest.fixture
def world(cluster: MemoryCluster) -> MemoryGroups:
    return cluster.world


def _creation(name: str = "plain", user: str = "alice", pattern_type: int = 3) -> AclCreation:
    return AclCreation(
        resource_type=2,
        resource_name=name,
        pattern_type=pattern_type,
        principal=f"User:{user}",
        host="*",
        operation=3,
        permission=3,
    )


def _answered(world: MemoryGroups, request: Any) -> Any:
    """Rows in an order of their own, without texts; an ACL that cannot be has error 42, not -1."""
    if isinstance(request, DescribeAclsRequest):
        return _described(acls.describe(world.ensemble, request))
    if isinstance(request, CreateAclsRequest):
        return [row.error for row in acls.create(world.ensemble, request).results]
    return _deleted(acls.delete(world.ensemble, request).results)


def _recorded(request: Any, answer: Any) -> Any:
    if isinstance(request, DescribeAclsRequest):
        return _described(answer.resources)
    if isinstance(request, CreateAclsRequest):
        return [ErrorCode.INVALID_REQUEST if row.error == -1 else row.error for row in answer.results]
    return _deleted(answer.results)


def _described(resources: Any) -> Any:
    return sorted(
        (one.resource_type, one.resource_name, one.pattern_type, *_entry(each))
        for one in resources
        for each in one.acls
    )


def _deleted(results: Any) -> Any:
    return [
        (
            one.error,
            sorted(
                (each.error, each.resource_type, each.resource_name, each.pattern_type, *_entry(each))
                for each in one.matching
            ),
        )
        for one in results
    ]


def _entry(one: Any) -> tuple[Any, ...]:
    return one.principal, one.host, one.operation, one.permission


def test_acls_are_described_created_and_deleted_as_by_kafka(world: MemoryGroups) -> None:
    """Each recorded conversation, but that one ACL which cannot be does not refuse the others."""
    asked = 0
    for case in conversations(ACLS):
        for sent, came in case.exchanges:
            header, request = decode_request(sent[4:])
            if came is None:
                continue  # the number 0, at which Kafka closes the connection
            _, answer = decode_response(REQUESTS[header.api_key].RESPONSE, came[4:], version=header.version)
            found, expected = _answered(world, request), _recorded(request, answer)
            if case.case.startswith("bad, not alone"):
                found, expected = found[1:], expected[1:]
            assert found == expected, case.case
            asked += 1
    assert asked > 70


def test_a_change_that_meets_another_is_made_again(world: MemoryGroups) -> None:
    """As Kafka does it; what the other has written stays."""
    ensemble = world.ensemble
    acls.create(ensemble, CreateAclsRequest(creations=(_creation(user="bob"),)))
    interrupted = iter([True])
    multi = ensemble.zk.multi

    def meets(*operations: Any) -> Any:
        if next(interrupted, False):
            acls.create(ensemble, CreateAclsRequest(creations=(_creation(user="carl"),)))
        return multi(*operations)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ensemble.zk, "multi", meets)
        made = acls.create(ensemble, CreateAclsRequest(creations=(_creation(),)))

    assert [row.error for row in made.results] == [0]
    znode = world.server.find(PLAIN)
    assert znode is not None
    users = {entry.principal for entry in ResourceAcls.decode(PLAIN, znode.data).entries}
    assert users == {"User:alice", "User:bob", "User:carl"}


def test_an_acl_that_cannot_be_read_is_named(world: MemoryGroups) -> None:
    """Only requests that mean it fail, and each with the znode."""
    world.server.put(PLAIN, b"[]")
    other = _creation("other")

    made = acls.create(world.ensemble, CreateAclsRequest(creations=(_creation(), other)))
    assert [row.error for row in made.results] == [ErrorCode.UNKNOWN, ErrorCode.NONE]
    assert str(made.results[0].error_message).startswith(PLAIN)
    of_other = {**EVERY, "resource_name": "other"}
    assert len(acls.describe(world.ensemble, DescribeAclsRequest(**of_other))) == 1
    with pytest.raises(RequestPartError, match=PLAIN):
        acls.describe(world.ensemble, DescribeAclsRequest(**EVERY))
    filters = (AclFilterFields(**of_other), AclFilterFields(**EVERY))
    (row, *_) = acls.delete(world.ensemble, DeleteAclsRequest(filters=filters)).results
    assert (row.error, str(row.error_message).startswith(PLAIN)) == (ErrorCode.UNKNOWN, True)


def test_a_broker_sees_many_acls_of_one_pattern_at_a_glance(
    world: MemoryGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks on its event loop: comparing each with each, 10,000 of them would hold up every client."""
    cache, compared, context = AclCache(), [0], cast("RequestContext", None)
    request = CreateAclsRequest(creations=tuple(_creation(user=str(number)) for number in range(200)))

    def equal(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        compared[0] += 1
        return tuple.__eq__(one, other)

    async def run(act: Any) -> Any:
        done = act(world.ensemble)
        znode = world.ensemble.zk.read(PLAIN)
        assert znode is not None
        cache.change(
            ResourcePattern(ResourceType.TOPIC, "plain"),
            tuple(ResourceAcls.decode(PLAIN, znode.data).entries),
        )
        monkeypatch.setattr(AccessControlEntry, "__eq__", equal)
        return done

    async def wait(is_so: Any) -> None:
        assert is_so()

    answer = asyncio.run(acls.AclApis(run, wait, cache).create(context, request))
    assert {row.error for row in answer.results} == {ErrorCode.NONE}
    assert compared[0] <= 2 * 200
