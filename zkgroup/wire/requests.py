"""Decodes a frame into the request of its API key and version."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from zkgroup.errors import UnsupportedRequestError
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
from zkgroup.wire.codec import codec_of
from zkgroup.wire.control import (
    ControlledShutdownRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from zkgroup.wire.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from zkgroup.wire.log_dirs import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from zkgroup.wire.messages import Api, Request, RequestHeader, decode_part
from zkgroup.wire.metadata import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    FindCoordinatorRequest,
    MetadataRequest,
)
from zkgroup.wire.primitives import Read, limit_items
from zkgroup.wire.records import (
    DeleteRecordsRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)

REQUESTS: Mapping[int, type[Request]] = {
    kind.API.value: kind
    for kind in (
        ProduceRequest,
        FetchRequest,
        ListOffsetsRequest,
        MetadataRequest,
        LeaderAndIsrRequest,
        StopReplicaRequest,
        UpdateMetadataRequest,
        ControlledShutdownRequest,
        FindCoordinatorRequest,
        ApiVersionsRequest,
        InitProducerIdRequest,
        OffsetForLeaderEpochRequest,
        DeleteRecordsRequest,
        DescribeClusterRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        CreatePartitionsRequest,
        DescribeConfigsRequest,
        AlterConfigsRequest,
        IncrementalAlterConfigsRequest,
        AlterReplicaLogDirsRequest,
        DescribeLogDirsRequest,
        ElectLeadersRequest,
        AlterPartitionReassignmentsRequest,
        ListPartitionReassignmentsRequest,
        JoinGroupRequest,
        SyncGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        DescribeGroupsRequest,
        ListGroupsRequest,
        DeleteGroupsRequest,
        OffsetDeleteRequest,
    )
}
"""Every request that can be read, by API key."""

READABLE: Mapping[int, range] = {key: kind.VERSIONS for key, kind in REQUESTS.items()}
"""Versions of each request that can be read."""
VERSION_0: Mapping[int, range] = {
    key: range(1) for key in REQUESTS if key <= Api.CONTROLLED_SHUTDOWN or key == Api.FIND_COORDINATOR
}
"""The versions that Kafka 0.8.2.2 uses."""


ITEMS_MAX: Final = 100_000
"""Most items of arrays in one request, whatever its size; clients name tens of thousands of partitions.
Without a limit 100 MB of empty names took 2.8 GB, and minutes in which no other request was answered."""
CONTROL_ITEMS_MAX: Final = 250_000
"""Those of a controller's request: one of 200,000 partitions names as many."""
_START: Final = struct.Struct(">hhi")
"""The first fields of every header: API key, version, correlation id."""
_CONTROL: Final = (Api.LEADER_AND_ISR, Api.STOP_REPLICA, Api.UPDATE_METADATA)


def decode_request(
    payload: bytes, served: Mapping[int, range] = READABLE, items_max: int | None = None
) -> tuple[RequestHeader, Request]:
    """Header and body of a request, from a frame without its size.

    The header's first fields are the same in all its versions, so an unknown API can be named. Bytes behind
    the body are ignored, as Kafka does: librdkafka sends three in Metadata 9 to 11 for all topics.

    Args:
        served: versions by API key; others are refused although they can be read.
        items_max: items of its arrays; an array of numbers counts as an eighth. By default the limit of the
            API.

    Raises:
        UnsupportedRequestError: an API or version that is not served; Kafka closes the connection.
        TooManyItemsError: it has more items.
        CorruptFrameError: the bytes are not what they should be.
    """
    if len(payload) < _START.size:
        decode_part(RequestHeader, 0, payload, 0)  # raises CorruptFrameError
    api_key, version, correlation_id = _START.unpack_from(payload)
    kind: Any = REQUESTS.get(api_key)
    if kind is None or version not in served.get(api_key, ()):
        raise UnsupportedRequestError(api_key, version, correlation_id)
    if items_max is None:
        items_max = CONTROL_ITEMS_MAX if api_key in _CONTROL else ITEMS_MAX
    is_counted = len(payload) > items_max  # an item has at least one byte
    readers = _readers(kind, version, is_counted)
    header: list[RequestHeader] = []
    body: list[Request] = []
    if is_counted:
        limit_items(items_max)
    at = readers.header(payload, 0, header)
    if is_counted:
        limit_items(items_max)
    readers.body(payload, at, body)
    return header[0], body[0]


class _Readers(NamedTuple):
    """Those of one version of a request."""

    header: Read
    body: Read


@cache
def _readers(kind: Any, version: int, is_counted: bool) -> _Readers:
    header = codec_of(RequestHeader, kind.header_version(version), is_counted=is_counted)
    return _Readers(header.read, codec_of(kind, version, is_counted=is_counted).read)
