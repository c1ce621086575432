"""Handlers behind guards: what reaches them, and what the client is answered. ACLs in words."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from zkgroup.broker.authorizer.authorizer import Authorizer
from zkgroup.broker.authorizer.table import GUARDS, guarded
from zkgroup.broker.server.connection_choice import Peer
from zkgroup.broker.server.handlers import Answer, ApiTable, RequestContext, ServedApi
from zkgroup.security.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermission,
    AclSettings,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from zkgroup.testing import FakeClock
from zkgroup.wire.messages import Request, RequestHeader

HOST = "10.0.0.1"


def binding(text: str) -> AclBinding:
    """`allow alice READ topic orders`, `deny * ALL group pre...` (prefixed), `allow bob CREATE cluster`."""
    permission, user, operation, kind, name = [*text.split(), CLUSTER_NAME][:5]
    pattern_type = PatternType.PREFIXED if name.endswith("...") else PatternType.LITERAL
    resource_type, done = ResourceType.find(kind), AclOperation[operation]
    assert resource_type is not None
    return AclBinding(
        ResourcePattern(resource_type, name.removesuffix("..."), pattern_type),
        AccessControlEntry(f"User:{user}", "*", done, AclPermission[permission.upper()]),
    )


def authorizer_of(*acls: str) -> Authorizer:
    """An authorizer that has read these ACLs; `User:admin` is a super user."""
    authorizer = Authorizer(AclSettings(super_users=frozenset({"User:admin"})), FakeClock())
    entries: dict[ResourcePattern, list[AccessControlEntry]] = defaultdict(list)
    for pattern, entry in map(binding, acls):
        entries[pattern].append(entry)
    authorizer.change(entries)
    return authorizer


class GuardedHandlers:
    """The handlers of all requests with a guard; they note requests, and answer by `answers`."""

    def __init__(self, *acls: str, answers: Callable[[Any], Answer], creates_topics: bool = False) -> None:
        self.passed: list[Any] = []
        """The requests that have reached a handler."""
        self.authorizer = authorizer_of(*acls)

        async def handle(context: RequestContext, request: Request) -> Answer:
            self.passed.append(request)
            return answers(request)

        table = ApiTable(ServedApi(kind, handle) for kind in GUARDS)
        self._table = guarded(table, self.authorizer, creates_topics=creates_topics)

    def ask(self, request: Request, user: str = "alice", version: int | None = None, host: str = HOST) -> Any:
        """The answer to a request, by default of the latest version."""
        header = RequestHeader(request.API, request.VERSIONS[-1] if version is None else version, 1, "test")
        context = RequestContext(header, Peer(host, 1), principal=f"User:{user}")

        async def answered() -> Answer:
            return await self._table.respond(context, request)

        return asyncio.run(answered())
