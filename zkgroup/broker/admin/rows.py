"""The admin requests in the table of served APIs. Their handlers are loaded with the first such request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from zkgroup.broker.server.handlers import Answer, RequestContext, ServedApi
from zkgroup.wire.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from zkgroup.wire.admin_apis import (
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
)
from zkgroup.wire.messages import ErrorCode, Request
from zkgroup.wire.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest
from zkgroup.wire.users import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

if TYPE_CHECKING:
    from zkgroup.broker.admin.apis import AdminApis

_HANDLERS: Final[Mapping[type[Request], Callable[[AdminApis], Callable[..., Any]]]] = {
    CreateTopicsRequest: lambda apis: apis.create_topics,
    DeleteTopicsRequest: lambda apis: apis.delete_topics,
    CreatePartitionsRequest: lambda apis: apis.create_partitions,
    DescribeConfigsRequest: lambda apis: apis.describe_configs,
    AlterConfigsRequest: lambda apis: apis.alter_configs,
    IncrementalAlterConfigsRequest: lambda apis: apis.incremental_alter_configs,
    ElectLeadersRequest: lambda apis: apis.elect_leaders,
    AlterPartitionReassignmentsRequest: lambda apis: apis.alter_partition_reassignments,
    ListPartitionReassignmentsRequest: lambda apis: apis.list_partition_reassignments,
    DescribeAclsRequest: lambda apis: apis.acls.describe,
    CreateAclsRequest: lambda apis: apis.acls.create,
    DeleteAclsRequest: lambda apis: apis.acls.delete,
    DescribeClientQuotasRequest: lambda apis: apis.describe_client_quotas,
    AlterClientQuotasRequest: lambda apis: apis.alter_client_quotas,
    DescribeUserScramCredentialsRequest: lambda apis: apis.describe_user_scram_credentials,
    AlterUserScramCredentialsRequest: lambda apis: apis.alter_user_scram_credentials,
}


class AdminRows:
    """The rows of one broker. Most brokers are never asked: `zkgroup.admin` costs memory and time to load.

    Made and used on one event loop.
    """

    def __init__(self, load: Callable[[], AdminApis]) -> None:
        """`load` is called with the first request."""
        self._load = load
        self._apis: AdminApis | None = None

    def rows(self) -> Iterator[ServedApi[Any]]:
        """The rows of the table of served APIs."""
        for kind, handler_of in _HANDLERS.items():
            yield ServedApi(kind, self._handler(handler_of))

    async def create_unknown_topic(self, context: RequestContext, topic: str) -> ErrorCode:
        """See `AdminApis.create_unknown_topic`."""
        return await self._loaded().create_unknown_topic(context, topic)

    def create_offsets_topic(self) -> None:
        """Begins to write the number of slots and to create their topic; returns at once."""
        self._loaded().begin_unknown_topic(OFFSETS_TOPIC)

    def wake(self) -> None:
        """Wakes the requests that wait for their effect; to be called after each UpdateMetadata, and when
        ACLs have changed."""
        if self._apis is not None:
            self._apis.wake()

    def close(self) -> None:
        """Ends all waits; calls in progress end by themselves."""
        if self._apis is not None:
            self._apis.close()

    def _handler(self, handler_of: Callable[[AdminApis], Callable[..., Any]]) -> Callable[..., Any]:
        async def handle(context: RequestContext, request: Request) -> Answer:
            answer: Answer = await handler_of(self._loaded())(context, request)
            return answer

        return handle

    def _loaded(self) -> AdminApis:
        if self._apis is None:
            self._apis = self._load()
        return self._apis
