"""All requests that zkgroup reads, and what a reader of any of them finds in a frame."""

from __future__ import annotations

from collections.abc import Mapping

from zkgroup.wire import (
    acls,
    admin_apis,
    control,
    groups,
    log_dirs,
    metadata,
    quotas,
    records,
    sasl,
    users,
)
from zkgroup.wire import messages as wire
from zkgroup.wire.messages import Api, Request, RequestHeader, Response

MODULES = (acls, admin_apis, control, groups, log_dirs, metadata, quotas, records, sasl, users)
REQUESTS: Mapping[int, type[Request]] = {
    kind.API.value: kind
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Request) and kind is not Request
}
"""By API key."""
OF_0_8_2 = frozenset({*range(Api.CONTROLLED_SHUTDOWN + 1), Api.FIND_COORDINATOR})
"""Keys of the requests whose version 0 Kafka 0.8.2.2 uses."""


def decode_request(
    payload: bytes, served: Mapping[int, type[Request]] = REQUESTS, items_max: int | None = None
) -> tuple[RequestHeader, Request]:
    """As that of `zkgroup.wire.messages`, of any request."""
    return wire.decode_request(payload, served, items_max)


def encode_response(response: Response, correlation_id: int, *, version: int = 0) -> bytes:
    """A response as one frame. Raises UnencodableError."""
    return b"".join(wire.response_buffers(response, correlation_id, version=version))
