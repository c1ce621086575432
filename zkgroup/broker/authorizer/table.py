"""The guard of each request, and the table of a broker with an authorizer."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any, Final

from zkgroup.broker.authorizer.admin_guards import ADMIN_GUARDS
from zkgroup.broker.authorizer.authorizer import Authorizer, Rights
from zkgroup.broker.authorizer.group_guards import GROUP_GUARDS
from zkgroup.broker.authorizer.guards import Handle, RequestGuard, unguarded
from zkgroup.broker.authorizer.record_guards import RECORD_GUARDS
from zkgroup.broker.server.handlers import Answer, ApiTable, RequestContext, ServedApi, given
from zkgroup.wire.messages import Request
from zkgroup.wire.metadata import ApiVersionsRequest
from zkgroup.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

GUARDS: Final[Mapping[type[Request], RequestGuard]] = {
    ApiVersionsRequest: unguarded,
    SaslHandshakeRequest: unguarded,
    SaslAuthenticateRequest: unguarded,
    **RECORD_GUARDS,
    **GROUP_GUARDS,
    **ADMIN_GUARDS,
}


def closed(rights: Rights, request: Any, handle: Handle) -> Awaitable[Answer]:
    """The guard of a request without one: the connection is closed."""
    return given(None)


def guarded(table: ApiTable, authorizer: Authorizer, *, creates_topics: bool) -> ApiTable:
    """The table with a guard before each handler.

    `creates_topics`: whether the broker creates topics that clients ask for.
    """

    def with_guard(row: ServedApi[Any]) -> ServedApi[Any]:
        guard, handle = GUARDS.get(row.kind, closed), row.handle

        def guarded_handle(context: RequestContext, request: Request) -> Awaitable[Answer]:
            rights = Rights(authorizer, context, creates_topics)
            return guard(rights, request, partial(handle, context))

        return ServedApi(row.kind, guarded_handle)

    return table.changed(with_guard)
