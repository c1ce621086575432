"""Which request a frame holds."""

from __future__ import annotations

from collections.abc import Mapping

from zkgroup.errors import UnsupportedRequestError
from zkgroup.wire.control import (
    ControlledShutdownRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import Request, RequestHeader, decode_part, decode_rest
from zkgroup.wire.metadata import FindCoordinatorRequest, MetadataRequest
from zkgroup.wire.records import FetchRequest, ListOffsetsRequest, ProduceRequest
from zkgroup.wire.replica_host import AppendLinesRequest, FailedReplicasRequest, FetchLinesRequest

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
        AppendLinesRequest,
        FetchLinesRequest,
        FailedReplicasRequest,
    )
}
"""Every request that can be read, by API key."""


def decode_request(payload: bytes) -> tuple[RequestHeader, Request]:
    """Header and body of a request, from a frame without its size.

    The header's first fields are the same in all its versions, so an unknown API can be named.

    Raises:
        UnsupportedRequestError: an API or version that is not spoken here; Kafka closes the connection.
        CorruptFrameError: the bytes are not what they should be.
    """
    start, _ = decode_part(RequestHeader, 0, payload, 0)
    kind = REQUESTS.get(start.api_key)
    if kind is None or start.version not in kind.VERSIONS:
        raise UnsupportedRequestError(start.api_key, start.version, start.correlation_id)
    header, at = decode_part(RequestHeader, kind.header_version(start.version), payload, 0)
    return header, decode_rest(kind, header.version, payload, at)
