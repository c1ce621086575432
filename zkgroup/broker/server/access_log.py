"""The log lines about who was refused what, and who has changed what, on the logger `zkgroup.authorizer`.

They have the words of Kafka (`logAuditMessage` in kafka/security/authorizer/AclAuthorizer.scala@2.8.2), and
the names that clients choose in quotes. What an administrator changes by a request is a line also where no
authorizer is set: a topic, a configuration, quotas, credentials, an ACL, records, a group or its offsets. A
commit is none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from zkgroup.broker.server.handlers import Answer, RequestContext, ServedApi
from zkgroup.runtime.logs import get_logger, limited
from zkgroup.security.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
    java_address,
)
from zkgroup.wire.acls import CreateAclsRequest, DeleteAclsRequest
from zkgroup.wire.admin_apis import (
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)
from zkgroup.wire.groups import DeleteGroupsRequest, OffsetDeleteRequest
from zkgroup.wire.messages import Api, ErrorCode, Request, Response
from zkgroup.wire.quotas import AlterClientQuotasRequest
from zkgroup.wire.records import DeleteRecordsRequest
from zkgroup.wire.users import AlterUserScramCredentialsRequest

_log = get_logger("zkgroup.authorizer")

_NAMES_LOGGED: Final = 3
"""Most names of one line; the number of the others follows."""
_TOPIC_KIND: Final = 2
"""`ConfigResource.Type.TOPIC` of Kafka."""


def log_access(
    context: RequestContext, operation: AclOperation, resource: str, reason: str, *, is_allowed: bool
) -> None:
    """Logs one operation, at a bounded rate for each principal.

    `reason`: why it is refused, or what has been changed.
    """
    _log.info(
        "Principal = %s is %s Operation = %s from host = %s on resource = %s for request = %s "
        "with listener = %s: %s",
        json.dumps(context.principal),
        "Allowed" if is_allowed else "Denied",
        operation.pascal,
        java_address(context.peer.host),
        resource,
        Api(context.api_key).name,
        context.listener,
        reason,
        extra=limited(f"{is_allowed} {context.principal}"),
    )


def literal(resource_type: ResourceType, names: Collection[str]) -> str:
    """Resources as Kafka writes them, with names in quotes: `Topic:LITERAL:"orders"`."""
    return f"{resource_type.pascal}:LITERAL:{_quoted(names)}"


def _quoted(names: Collection[str]) -> str:
    shown = ", ".join(json.dumps(name) for name in list(names)[:_NAMES_LOGGED])
    return f"{shown} and {len(names) - _NAMES_LOGGED} more" if len(names) > _NAMES_LOGGED else shown


class LoggedChange(NamedTuple):
    """What a request has changed, as one line names it."""

    operation: AclOperation
    resource_type: ResourceType
    name: str
    what: str


def logged(row: ServedApi[Any]) -> ServedApi[Any]:
    """The row of an API, with a line for each change that its requests make."""
    changes_of = _CHANGES.get(row.kind)
    if changes_of is None:
        return row
    handle = row.handle

    async def handle_and_log(context: RequestContext, request: Any) -> Answer:
        answer = await handle(context, request)
        if isinstance(answer, Response) and not getattr(request, "validate_only", False):
            for operation, resource_type, name, what in changes_of(request, answer):
                log_access(context, operation, literal(resource_type, [name]), what, is_allowed=True)
        return answer

    return ServedApi(row.kind, handle_and_log)


def _done(rows: Iterable[Any]) -> Iterator[Any]:
    """The rows of what was changed, or may have been."""
    return (row for row in rows if row.error in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT))


def _doubt(row: Any) -> str:
    return "" if row.error == ErrorCode.NONE else ", or will be: the request timed out"


def _on_cluster(what: str, operation: AclOperation = AclOperation.ALTER) -> LoggedChange:
    return LoggedChange(operation, ResourceType.CLUSTER, CLUSTER_NAME, what)


def _on_topic(operation: AclOperation, topic: str, what: str) -> LoggedChange:
    return LoggedChange(operation, ResourceType.TOPIC, topic, what)


def _created_topics(request: Any, answer: Any) -> Iterator[LoggedChange]:
    for row in _done(answer.topics):
        yield _on_topic(AclOperation.CREATE, row.topic, f"created{_doubt(row)}")


def _deleted_topics(request: Any, answer: Any) -> Iterator[LoggedChange]:
    for row in _done(answer.topics):
        yield _on_topic(AclOperation.DELETE, row.topic, f"deleted{_doubt(row)}")


def _grown_topics(request: Any, answer: Any) -> Iterator[LoggedChange]:
    counts = {each.topic: each.count for each in request.topics}
    for row in _done(answer.topics):
        yield _on_topic(
            AclOperation.ALTER, row.topic, f"grown to {counts[row.topic]} partitions{_doubt(row)}"
        )


def _altered_configs(request: Any, answer: Any) -> Iterator[LoggedChange]:
    names = {(each.kind, each.name): [one.name for one in each.configs] for each in request.resources}
    for row in _done(answer.resources):
        what = f"changed {_quoted(names[row.kind, row.name])}{_doubt(row)}"
        if row.kind == _TOPIC_KIND:
            yield _on_topic(AclOperation.ALTER_CONFIGS, row.name, what)
        else:
            owner = f"broker {row.name}" if row.name else "all brokers"
            yield _on_cluster(f"{owner}: {what}", AclOperation.ALTER_CONFIGS)


def _reassigned(request: Any, answer: Any) -> Iterator[LoggedChange]:
    for topic in answer.topics:
        if numbers := [row.partition for row in _done(topic.partitions)]:
            yield _on_cluster(f"changed replicas of {json.dumps(topic.topic)} {_numbers(numbers)}")


def _altered_users(request: Any, answer: Any) -> Iterator[LoggedChange]:
    for row in _done(answer.users):
        yield _on_cluster(f"user {json.dumps(row.user)}: changed credentials{_doubt(row)}")


def _altered_quotas(request: Any, answer: Any) -> Iterator[LoggedChange]:
    for row in _done(answer.entries):
        owner = ", ".join(
            f"default {part.entity_type}"
            if part.entity_name is None
            else f"{part.entity_type} {json.dumps(part.entity_name)}"
            for part in row.entity
        )
        yield _on_cluster(f"{owner}: changed quotas{_doubt(row)}", AclOperation.ALTER_CONFIGS)


def _created_acls(request: Any, answer: Any) -> Iterator[LoggedChange]:
    for acl, row in zip(request.creations, answer.results, strict=True):
        if row.error == ErrorCode.NONE:
            yield _on_cluster(f"added {_acl(acl)}")


def _deleted_acls(request: Any, answer: Any) -> Iterator[LoggedChange]:
    for result in answer.results:
        for row in _done(result.matching):
            yield _on_cluster(f"removed {_acl(row)}")


def _acl(acl: Any) -> str:
    pattern = ResourcePattern(
        ResourceType(acl.resource_type), acl.resource_name, PatternType(acl.pattern_type)
    )
    entry = AccessControlEntry(
        acl.principal, acl.host, AclOperation(acl.operation), AclPermission(acl.permission)
    )
    return f"{json.dumps(str(entry))} at {json.dumps(str(pattern))}"


def _deleted_groups(request: Any, answer: Any) -> Iterator[LoggedChange]:
    for row in _done(answer.groups):
        yield LoggedChange(AclOperation.DELETE, ResourceType.GROUP, row.group, "deleted")


def _deleted_offsets(request: Any, answer: Any) -> Iterator[LoggedChange]:
    for topic in answer.topics:
        if numbers := [row.partition for row in _done(topic.partitions)]:
            what = f"deleted offsets of {json.dumps(topic.topic)} {_numbers(numbers)}"
            yield LoggedChange(AclOperation.DELETE, ResourceType.GROUP, request.group, what)


def _deleted_records(request: Any, answer: Any) -> Iterator[LoggedChange]:
    for topic in answer.topics:
        if numbers := [row.partition for row in _done(topic.partitions)]:
            yield _on_topic(AclOperation.DELETE, topic.topic, f"deleted records of {_numbers(numbers)}")


def _numbers(partitions: Collection[int]) -> str:
    """The partitions, as `0, 3`."""
    return ", ".join(map(str, sorted(partitions)))


_CHANGES: Final[Mapping[type[Request], Callable[[Any, Any], Iterator[LoggedChange]]]] = {
    CreateTopicsRequest: _created_topics,
    DeleteTopicsRequest: _deleted_topics,
    CreatePartitionsRequest: _grown_topics,
    AlterConfigsRequest: _altered_configs,
    IncrementalAlterConfigsRequest: _altered_configs,
    AlterPartitionReassignmentsRequest: _reassigned,
    AlterUserScramCredentialsRequest: _altered_users,
    AlterClientQuotasRequest: _altered_quotas,
    CreateAclsRequest: _created_acls,
    DeleteAclsRequest: _deleted_acls,
    DeleteGroupsRequest: _deleted_groups,
    OffsetDeleteRequest: _deleted_offsets,
    DeleteRecordsRequest: _deleted_records,
}
"""The changes of a request, by its answer."""
