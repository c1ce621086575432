"""Holds clients to their quotas: counts what each request uses, and has its connection wait.

As in Kafka since 2.0 (KIP-219) the answer is sent at once and says how long the client has to wait; so long
nothing is read of its connection. Requests of controllers and fetches of followers have no quota, if
ZooKeeper has confirmed the sender. A fetch beyond its quota has no records (`FetchHandler`).

Source: kafka/server/KafkaApis.scala@2.8.2 (`handleProduceRequest`, `handleFetchRequest`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from time import thread_time
from typing import Any, Final

from zkgroup.broker.quotas.levels import QuotaType
from zkgroup.broker.quotas.managers import QuotaManagers
from zkgroup.broker.request_time import RequestTime, Timed
from zkgroup.broker.server.connection_choice import PeerKind
from zkgroup.broker.server.handlers import Answer, RequestContext, Respond
from zkgroup.wire.admin_apis import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from zkgroup.wire.control import (
    ControlledShutdownRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import EncodedResponse, Request, Response
from zkgroup.wire.records import FetchRequest, ProduceRequest

_OF_CLUSTER: Final = (
    ControlledShutdownRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)

_COUNTED: Final = (
    ProduceRequest,
    FetchRequest,
    CreateTopicsRequest,
    CreatePartitionsRequest,
    DeleteTopicsRequest,
)
"""The requests that quotas other than that of time count or throttle."""


class Throttles:
    """Throttles the clients of a port. Used on one event loop."""

    def __init__(
        self, quotas: QuotaManagers, on_wait: Callable[[QuotaType, float], object] = lambda by, wait_s: None
    ) -> None:
        """`on_wait` is called with each wait of a client, in seconds."""
        self._quotas = quotas
        self._on_wait = on_wait

    def throttled(self, respond: Respond) -> Respond:
        """Wraps `respond`; for clients without a quota it is called as it is."""
        quotas = self._quotas

        def is_counted(context: RequestContext, request: Request) -> bool:
            client = context.user, context.client_id or ""
            if quotas.request.quota(*client) is not None:
                return True
            return isinstance(request, _COUNTED) and quotas.has_any(*client)

        def responding(context: RequestContext, request: Request) -> Awaitable[Answer]:
            if not quotas.is_limited or _is_exempt(context, request) or not is_counted(context, request):
                context.peer.time = None
                return respond(context, request)
            return self._respond(respond, context, request)

        return responding

    def first_time(self) -> RequestTime | None:
        """Where the time of decoding a connection's first request is counted: its client is not known yet."""
        return RequestTime(thread_time) if self._quotas.request.is_limited else None

    async def _respond(self, respond: Respond, context: RequestContext, request: Request) -> Answer:
        quotas, client = self._quotas, (context.user, context.client_id or "")
        time = context.peer.time
        if (time is None) != (quotas.request.quota(*client) is None):
            time = context.peer.time = RequestTime(thread_time) if time is None else None
        waits = {}
        try:
            if time is None:
                answer = await respond(context, request)
            else:
                answer = await Timed(time, lambda: respond(context, request))
            waits[_limited_by(request)] = getattr(answer, "throttle_ms", 0)
        finally:  # a client that does not wait for its answer has used as much
            now_s = asyncio.get_running_loop().time()
            now_ms = int(now_s * 1000)
            if isinstance(request, ProduceRequest):
                waits[QuotaType.PRODUCE] = quotas.produce.record(*client, context.size, now_ms)
            if time is not None and not _is_exempt(context, request):
                wait_ms = quotas.request.record(*client, time.take() * 100, now_ms)
                if not (isinstance(request, ProduceRequest) and request.acks == 0):  # as in Kafka
                    waits[QuotaType.REQUEST] = wait_ms
        by = max(waits, key=waits.__getitem__)
        if not (wait_ms := waits[by]):
            return answer
        context.peer.muted_until_s = now_s + wait_ms / 1000
        self._on_wait(by, wait_ms / 1000)
        return _with_wait(answer, wait_ms)


def _limited_by(request: Request) -> QuotaType:
    """The quota by which the handler itself has the client wait."""
    return QuotaType.FETCH if isinstance(request, FetchRequest) else QuotaType.CONTROLLER_MUTATION


def _is_exempt(context: RequestContext, request: Request) -> bool:
    """Whether it comes from a controller or a follower; by its first one ZooKeeper has confirmed it."""
    if context.peer.kind is PeerKind.CLIENT:
        return False
    return request.replica_id >= 0 if isinstance(request, FetchRequest) else isinstance(request, _OF_CLUSTER)


def _with_wait(answer: Answer, wait_ms: int) -> Answer:
    if isinstance(answer, EncodedResponse):
        answer = answer.response
    if not isinstance(answer, Response) or not hasattr(answer, "throttle_ms"):
        return answer
    told: Any = answer  # its class has the field
    changed: Response = replace(told, throttle_ms=wait_ms)
    return changed
