"""Guards of the requests that change or show the cluster (kafka/server/KafkaApis.scala@2.8.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from zkgroup.broker.authorizer.authorizer import Rights
from zkgroup.broker.authorizer.guards import MESSAGES, Handle, RequestGuard, on_cluster, split
from zkgroup.broker.server.handlers import Answer
from zkgroup.model.error_codes import ErrorCode
from zkgroup.security.acls import AclOperation, ResourceType
from zkgroup.wire import acls, admin_apis, log_dirs, quotas, users
from zkgroup.wire.messages import Request, Response

_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TEXT: Final = MESSAGES[_CLUSTER]


def _named_once(names: Iterable[str]) -> set[str]:
    """Handlers refuse what is named twice, also without a right."""
    return {name for name, times in Counter(names).items() if times == 1}


async def _create_topics(rights: Rights, request: admin_apis.CreateTopicsRequest, handle: Handle) -> Answer:
    """Needs Create on the cluster or on each topic, and DescribeConfigs on it to be told its settings."""
    names = [one.topic for one in request.topics]
    if rights.may_on_cluster(AclOperation.CREATE, is_logged=False):
        refused_names = set[str]()
    else:
        refused_names = _named_once(names) - rights.allowed(AclOperation.CREATE, ResourceType.TOPIC, names)

    def refused(topic: admin_apis.CreatableTopic) -> admin_apis.CreatedTopic:
        return admin_apis.CreatedTopic(topic=topic.topic, error=_TOPIC, error_message="Authorization failed.")

    response = await split(request, handle, "topics", lambda one: one.topic not in refused_names, refused)
    if not isinstance(response, admin_apis.CreateTopicsResponse):
        return response
    shown = rights.allowed(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, names, is_logged=False)
    tried = _named_once(names) - refused_names
    rows = (
        one if one.topic in shown or (one.error and one.topic in tried) else _without_settings(one)
        for one in response.topics
    )
    return replace(response, topics=tuple(rows))


def _without_settings(topic: admin_apis.CreatedTopic) -> admin_apis.CreatedTopic:
    return replace(topic, config_error=_TOPIC, partitions=-1, replication_factor=-1, configs=())


def _delete_topics(
    rights: Rights, request: admin_apis.DeleteTopicsRequest, handle: Handle
) -> Awaitable[Answer]:
    """Needs Delete on each topic. The handler refuses topics that are named by id: there are no ids."""
    if request.topic_names:
        names: Iterable[str] = request.topic_names
        allowed = rights.allowed(AclOperation.DELETE, ResourceType.TOPIC, names)
        return split(request, handle, "topic_names", lambda name: name in allowed, _undeleted, rows="topics")
    names = [one.topic for one in request.topics if one.topic is not None]
    allowed = rights.allowed(AclOperation.DELETE, ResourceType.TOPIC, names)
    return split(
        request,
        handle,
        "topics",
        lambda one: one.topic is None or one.topic in allowed,
        lambda one: _undeleted(one.topic),
    )


def _undeleted(topic: str) -> admin_apis.DeletedTopic:
    return admin_apis.DeletedTopic(topic=topic, error=_TOPIC)


def _create_partitions(
    rights: Rights, request: admin_apis.CreatePartitionsRequest, handle: Handle
) -> Awaitable[Answer]:
    """Needs Alter on each topic."""
    names = [one.topic for one in request.topics]
    refused_names = _named_once(names) - rights.allowed(AclOperation.ALTER, ResourceType.TOPIC, names)

    def refused(topic: admin_apis.GrownTopic) -> admin_apis.GrownTopicResult:
        text = "The topic authorization is failed."
        return admin_apis.GrownTopicResult(topic=topic.topic, error=_TOPIC, error_message=text)

    return split(request, handle, "topics", lambda one: one.topic not in refused_names, refused)


def _on_configs(operation: AclOperation, refused: Callable[[Any, int], Any]) -> RequestGuard:
    """The guard of a request about configs: of a topic they need a right on it, others one on the cluster.

    `refused` makes the row of the answer for a resource and an error.
    """

    def guard(rights: Rights, request: Any, handle: Handle) -> Awaitable[Answer]:
        is_topic = {one: one.kind == admin_apis.TOPIC_RESOURCE for one in request.resources}
        names = [one.name for one in request.resources if one.kind == admin_apis.TOPIC_RESOURCE]
        topics = rights.allowed(operation, ResourceType.TOPIC, names)
        brokers = all(is_topic.values()) or rights.may_on_cluster(operation)
        return split(
            request,
            handle,
            "resources",
            lambda one: one.name in topics if is_topic[one] else brokers,
            lambda one: refused(one, _TOPIC if is_topic[one] else _CLUSTER),
        )

    return guard


def _undescribed(resource: admin_apis.ConfigResource, error: int) -> admin_apis.DescribedResource:
    text = MESSAGES[ErrorCode(error)]
    return admin_apis.DescribedResource(
        error=error, error_message=text, kind=resource.kind, name=resource.name
    )


def _unaltered(
    resource: admin_apis.AlteredResource | admin_apis.ChangedResource, error: int
) -> admin_apis.AlteredResourceResult:
    return admin_apis.AlteredResourceResult(error=error, kind=resource.kind, name=resource.name)


def _not_elected(request: admin_apis.ElectLeadersRequest) -> Response:
    """Of an election of all partitions none is named."""
    topics = (
        admin_apis.ElectionTopic(
            topic=one.topic,
            partitions=tuple(
                admin_apis.ElectionResult(partition=each, error=_CLUSTER) for each in one.partitions
            ),
        )
        for one in request.topics or ()
    )
    return admin_apis.ElectLeadersResponse(error=_CLUSTER, topics=tuple(topics))


def _not_moved(request: admin_apis.AlterPartitionReassignmentsRequest) -> Response:
    topics = (
        admin_apis.ReassignedTopicResult(
            topic=one.topic,
            partitions=tuple(
                admin_apis.ReassignedPartitionResult(
                    partition=each.partition, error=_CLUSTER, error_message=_TEXT
                )
                for each in one.partitions
            ),
        )
        for one in request.topics
    )
    return admin_apis.AlterPartitionReassignmentsResponse(
        error=_CLUSTER, error_message=_TEXT, topics=tuple(topics)
    )


def _unlisted(
    request: admin_apis.ListPartitionReassignmentsRequest,
) -> tuple[admin_apis.OngoingTopic, ...]:
    """The partitions that were asked for, without replicas, as Kafka answers."""

    def row(partition: int) -> admin_apis.OngoingReassignment:
        return admin_apis.OngoingReassignment(partition=partition, replicas=(), adding=(), removing=())

    return tuple(
        admin_apis.OngoingTopic(topic=one.topic, partitions=tuple(map(row, one.partitions)))
        for one in request.topics or ()
    )


def _users_unaltered(request: users.AlterUserScramCredentialsRequest) -> Response:
    names = dict.fromkeys(
        [*(one.user for one in request.deletions), *(one.user for one in request.upsertions)]
    )
    return users.AlterUserScramCredentialsResponse(
        users=tuple(users.AlteredUser(user=name, error=_CLUSTER, error_message=None) for name in names)
    )


def _quotas_unaltered(request: quotas.AlterClientQuotasRequest) -> Response:
    rows = (
        quotas.AlteredQuotas(error=_CLUSTER, error_message=_TEXT, entity=one.entity)
        for one in request.entries
    )
    return quotas.AlterClientQuotasResponse(entries=tuple(rows))


def _not_added(request: acls.CreateAclsRequest) -> Response:
    row = acls.AclCreationResult(error=_CLUSTER, error_message=_TEXT)
    return acls.CreateAclsResponse(results=(row,) * len(request.creations))


def _not_removed(request: acls.DeleteAclsRequest) -> Response:
    row = acls.AclFilterResult(error=_CLUSTER, error_message=_TEXT)
    return acls.DeleteAclsResponse(results=(row,) * len(request.filters))


def _replicas_unmoved(request: log_dirs.AlterReplicaLogDirsRequest) -> Response:
    topics = (
        log_dirs.AlteredReplicaTopic(
            one.topic, tuple(log_dirs.AlteredReplica(each, _CLUSTER) for each in one.partitions)
        )
        for folder in request.log_dirs
        for one in folder.topics
    )
    return log_dirs.AlterReplicaLogDirsResponse(tuple(topics))


ADMIN_GUARDS: Final[Mapping[type[Request], RequestGuard]] = {
    admin_apis.CreateTopicsRequest: _create_topics,
    admin_apis.DeleteTopicsRequest: _delete_topics,
    admin_apis.CreatePartitionsRequest: _create_partitions,
    admin_apis.DescribeConfigsRequest: _on_configs(AclOperation.DESCRIBE_CONFIGS, _undescribed),
    admin_apis.AlterConfigsRequest: _on_configs(AclOperation.ALTER_CONFIGS, _unaltered),
    admin_apis.IncrementalAlterConfigsRequest: _on_configs(AclOperation.ALTER_CONFIGS, _unaltered),
    admin_apis.ElectLeadersRequest: on_cluster(AclOperation.ALTER, _not_elected),
    admin_apis.AlterPartitionReassignmentsRequest: on_cluster(AclOperation.ALTER, _not_moved),
    admin_apis.ListPartitionReassignmentsRequest: on_cluster(
        AclOperation.DESCRIBE,
        lambda request: admin_apis.ListPartitionReassignmentsResponse(
            error=_CLUSTER, error_message=_TEXT, topics=_unlisted(request)
        ),
    ),
    users.DescribeUserScramCredentialsRequest: on_cluster(
        AclOperation.DESCRIBE,
        lambda _: users.DescribeUserScramCredentialsResponse(error=_CLUSTER, error_message=None),
    ),
    users.AlterUserScramCredentialsRequest: on_cluster(AclOperation.ALTER, _users_unaltered),
    quotas.DescribeClientQuotasRequest: on_cluster(
        AclOperation.DESCRIBE_CONFIGS,
        lambda _: quotas.DescribeClientQuotasResponse(error=_CLUSTER, error_message=None, entries=None),
    ),
    quotas.AlterClientQuotasRequest: on_cluster(AclOperation.ALTER_CONFIGS, _quotas_unaltered),
    acls.DescribeAclsRequest: on_cluster(
        AclOperation.DESCRIBE, lambda _: acls.DescribeAclsResponse(error=_CLUSTER, error_message=_TEXT)
    ),
    acls.CreateAclsRequest: on_cluster(AclOperation.ALTER, _not_added),
    acls.DeleteAclsRequest: on_cluster(AclOperation.ALTER, _not_removed),
    log_dirs.DescribeLogDirsRequest: on_cluster(
        AclOperation.DESCRIBE, lambda _: log_dirs.DescribeLogDirsResponse(())
    ),
    log_dirs.AlterReplicaLogDirsRequest: on_cluster(AclOperation.ALTER, _replicas_unmoved),
}
