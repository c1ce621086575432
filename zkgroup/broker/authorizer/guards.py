"""What a guard is: it stands before the handler of a request, and checks what the sender may do.

A guard answers a refused request itself, and passes an authorized one on as it is. Of a request about several
resources it passes the authorized part on, and adds the refused rows to the answer. So handlers know nothing
of ACLs. Which operation on which resource a request needs: kafka/server/KafkaApis.scala@2.8.2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from zkgroup.broker.authorizer.authorizer import Rights
from zkgroup.broker.server.handlers import Answer, given
from zkgroup.model.error_codes import ErrorCode
from zkgroup.security.acls import AclOperation, ResourceType
from zkgroup.wire.messages import EncodedResponse, Response

Handle = Callable[[Any], Awaitable[Answer]]
"""The handler of a request, which has its context already."""

MESSAGES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""Kafka's texts of the errors (Errors.java@2.8.2)."""


class RequestGuard(Protocol):
    """Answers a request, or passes it or a part of it on to its handler."""

    def __call__(self, rights: Rights, request: Any, handle: Handle) -> Awaitable[Answer]: ...


def unguarded(rights: Rights, request: Any, handle: Handle) -> Awaitable[Answer]:
    """The guard of what everybody may ask for."""
    return handle(request)


def on_cluster(operation: AclOperation, refused: Callable[[Any], Response]) -> RequestGuard:
    """The guard of a request that needs one right on the cluster; `refused` makes the answer without it."""

    def guard(rights: Rights, request: Any, handle: Handle) -> Awaitable[Answer]:
        return handle(request) if rights.may_on_cluster(operation) else given(refused(request))

    return guard


def on_topics(operation: AclOperation, refused: Callable[[Any], Any]) -> RequestGuard:
    """The guard of a request with `topics`, whose answer has `topics` too; each needs a right of its own.

    `refused` makes the row of the answer for a topic of the request.
    """

    def guard(rights: Rights, request: Any, handle: Handle) -> Awaitable[Answer]:
        return by_topic(operation, refused, rights, request, handle)

    return guard


def by_topic(
    operation: AclOperation, refused: Callable[[Any], Any], rights: Rights, request: Any, handle: Handle
) -> Awaitable[Answer]:
    """Passes the topics of a request on, with the row of `refused` for each topic without the right."""
    names = [each.topic for each in request.topics]
    if rights.may_on_all(operation, ResourceType.TOPIC, names):
        return handle(request)
    allowed = rights.allowed(operation, ResourceType.TOPIC, names)
    return split(request, handle, "topics", lambda each: each.topic in allowed, refused)


def split(
    request: Any,
    handle: Handle,
    parts: str,
    is_allowed: Callable[[Any], bool],
    refused: Callable[[Any], Any],
    rows: str = "",
) -> Awaitable[Answer]:
    """Passes the authorized parts of a request on, and adds the rows of the others to the answer.

    Args:
        parts: the field of the request with its parts.
        is_allowed: whether a part is authorized.
        refused: makes the row for a refused part.
        rows: the field of the answer with its rows; by default it has the name of the parts.
    """
    every = getattr(request, parts)
    kept = tuple(each for each in every if is_allowed(each))
    if len(kept) == len(every):
        return handle(request)
    others = [None if is_allowed(each) else refused(each) for each in every]
    return _merged(handle(replace(request, **{parts: kept})), rows or parts, others)


async def _merged(answer: Awaitable[Answer], field: str, others: Sequence[Any]) -> Answer:
    """The answer with the rows of refused parts.

    `others`: these, and None in place of each row of the handler. Where it has joined rows, they go last.
    """
    response = await answer
    if isinstance(response, EncodedResponse):
        response = response.response
    if not isinstance(response, Response):
        return response
    whole: Any = response
    rows = getattr(whole, field)
    if len(rows) == others.count(None):
        given_rows = iter(rows)
        merged = tuple(next(given_rows) if row is None else row for row in others)
    else:
        merged = (*rows, *(row for row in others if row is not None))
    changed: Response = replace(whole, **{field: merged})
    return changed
