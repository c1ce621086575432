"""Brokers that obey and note it, for a controller with real connections to real ports."""

from __future__ import annotations

import socket
import threading
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self, TypeVar

from tests.waiting import PATIENCE_S
from tests.worlds.serving import opened
from tests.worlds.wire_requests import REQUESTS
from zkgroup.broker.server.handlers import Answer, RequestContext
from zkgroup.broker.server.server import BrokerServer
from zkgroup.model.requests import Create
from zkgroup.runtime.loop import LoopThread
from zkgroup.wire.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from zkgroup.wire.messages import Request, Response, decode_response, encode_request
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking

ResponseT = TypeVar("ResponseT", bound=Response)
RequestT = TypeVar("RequestT", bound=Request)


class LedBroker(AbstractContextManager["LedBroker"]):
    """Listens, is registered, and answers everything with success."""

    def __init__(self, address: str, broker: int) -> None:
        self.broker = broker
        self.requests: list[Request] = []
        """Those that were answered."""
        self.unanswered: list[Request] = []
        self.answers = threading.Event()
        """While it is not set, no one is answered: the connection is closed instead."""
        self.answers.set()
        self._thread = LoopThread(f"led-broker-{broker}")
        self._thread.start()
        self._server = BrokerServer(self._respond, REQUESTS)
        self.host, self.port = self._thread.run(opened(self._server)).result(PATIENCE_S)
        self._client = ZooKeeperClient(address, ClientSettings(session_timeout_ms=30_000))
        zk = Blocking(self._client)
        zk.wait_connected()
        zk.create_missing("/brokers", "/brokers/ids", "/brokers/topics", "/admin", "/admin/delete_topics")
        registration = BrokerRegistration(self.host, self.port, 1, 0)
        zk.multi(Create(BrokerRegistration.path(broker), registration.encode(), ephemeral=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
        self._thread.run(self._server.close()).result(PATIENCE_S)
        assert self._thread.stop(PATIENCE_S)

    def leave(self) -> None:
        """Its registration goes; it still listens."""
        self._client.close()

    def received(self, kind: type[RequestT]) -> list[RequestT]:
        """The requests of a kind that it has answered, in order."""
        return [request for request in self.requests if isinstance(request, kind)]

    async def _respond(self, context: RequestContext, request: Request) -> Answer:
        if not self.answers.is_set():
            self.unanswered.append(request)
            return None
        self.requests.append(request)
        match request:
            case LeaderAndIsrRequest():
                done = [PartitionError(*info.topic_partition, 0) for info in request.partitions]
                return LeaderAndIsrResponse(0, tuple(done))
            case StopReplicaRequest():
                return StopReplicaResponse(0, tuple(PartitionError(*tp, 0) for tp in request.partitions))
            case UpdateMetadataRequest():
                return UpdateMetadataResponse(0)
            case _:
                return None


def ask(
    address: tuple[str, int], request: Request, kind: type[ResponseT], version: int = 0
) -> ResponseT | None:
    """The answer of a port; None where it closes the connection instead."""
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(encode_request(request, 7, "test", version=version))
        with connection.makefile("rb") as stream:
            size = stream.read(4)
            if not size:
                return None
            payload = stream.read(int.from_bytes(size, "big"))
    number, response = decode_response(kind, payload, version=version)
    assert number == 7
    return response
