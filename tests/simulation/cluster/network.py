"""Simulated connections of controllers to brokers, with one request in flight on each, and their faults.

A request on a broken connection may still arrive, once, at the process that it was sent to, after requests of
newer connections. Its response is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from zkgroup.controller.machine.events import ControlRequest
from zkgroup.wire.messages import Response


class ReceivingBroker(Protocol):
    """The broker's end of its connections."""

    broker: int

    @property
    def is_listening(self) -> bool: ...

    def handle_request(self, request: ControlRequest) -> Response | None: ...


class SendingController(Protocol):
    """The controller's end of its connections."""

    name: str

    def connected(self, connection: SimulatedConnection) -> None: ...

    def disconnected(self, connection: SimulatedConnection) -> None: ...

    def answered(self, connection: SimulatedConnection, response: Response) -> None: ...


@dataclass(eq=False)
class SimulatedConnection:
    """A connection that a controller wants to one incarnation of a broker, and its state."""

    owner: SendingController
    broker: int
    incarnation: int
    process: ReceivingBroker | None = None
    """The process at the other end; None while not connected."""
    request: ControlRequest | None = None
    """The request in flight."""
    response: Response | None = None
    """The response in flight."""
    number: int = 0
    """Number of the present connection."""
    seen_number: int = 0
    """The last connection that the controller knows of; its requests are meant for that one."""
    is_open: bool = True

    def __str__(self) -> str:
        return f"{self.owner.name}->{self.broker}"


@dataclass(eq=False)
class LateRequest:
    """A request of a broken connection that may still arrive."""

    process: ReceivingBroker
    request: ControlRequest
    connection: str


@dataclass
class SimulatedNetwork:
    """All connections. Every method performs one event."""

    processes: Mapping[int, ReceivingBroker]
    """Broker id to its running process."""
    point: Callable[[str, SimulatedConnection], None] = lambda kind, connection: None
    """Called at `sent`, `handled` and `answered`."""
    connections: list[SimulatedConnection] = field(default_factory=list)
    late_requests: list[LateRequest] = field(default_factory=list)
    cut_off: set[tuple[str, int]] = field(default_factory=set)
    """Pairs of controller and broker without network between them."""
    figures: dict[str, int] = field(default_factory=dict)

    def _count(self, what: str) -> None:
        self.figures[what] = self.figures.get(what, 0) + 1

    def open(self, owner: SendingController, broker: int, incarnation: int) -> None:
        """Opens a connection, which connects as soon as the broker listens."""
        for connection in self._of(owner, broker):
            self._end(connection)
        self.connections.append(SimulatedConnection(owner, broker, incarnation))

    def close(self, owner: SendingController, broker: int, incarnation: int) -> None:
        for connection in self._of(owner, broker):
            if connection.incarnation == incarnation:
                self._end(connection)

    def close_all(self, owner: SendingController) -> None:
        """Closes all connections of a controller. Its requests may still arrive."""
        for connection in [connection for connection in self.connections if connection.owner is owner]:
            self._end(connection)

    def send(self, owner: SendingController, broker: int, incarnation: int, request: ControlRequest) -> None:
        """Sends a request on the present connection; without one it is dropped."""
        for connection in self._of(owner, broker):
            is_meant = connection.incarnation == incarnation and connection.seen_number == connection.number
            if is_meant and connection.process is not None:
                assert connection.request is None, f"two requests in flight on {connection}"
                assert connection.response is None, f"two requests in flight on {connection}"
                connection.request = request
                self._count("sent")
                self.point("sent", connection)

    def busy(self, owner: SendingController) -> list[SimulatedConnection]:
        """Connections with a request or a response in flight."""
        return [
            connection
            for connection in self.connections
            if connection.owner is owner
            and (connection.request is not None or connection.response is not None)
        ]

    def _of(self, owner: SendingController, broker: int) -> list[SimulatedConnection]:
        return [
            connection
            for connection in self.connections
            if connection.owner is owner and connection.broker == broker
        ]

    def _end(self, connection: SimulatedConnection) -> None:
        self._delay(connection)
        connection.is_open = False
        self.connections.remove(connection)

    def _delay(self, connection: SimulatedConnection) -> None:
        if connection.request is not None and connection.process is not None:
            self.late_requests.append(LateRequest(connection.process, connection.request, str(connection)))
        connection.process = connection.request = connection.response = None

    def can_connect(self, connection: SimulatedConnection) -> bool:
        process = self.processes.get(connection.broker)
        reaches = (connection.owner.name, connection.broker) not in self.cut_off
        return connection.process is None and reaches and process is not None and process.is_listening

    def connect(self, connection: SimulatedConnection) -> None:
        if connection not in self.connections or not self.can_connect(connection):
            return
        connection.process = self.processes[connection.broker]
        connection.number += 1
        connection.owner.connected(connection)

    def deliver(self, connection: SimulatedConnection) -> None:
        """The request arrives and is handled; the response is in flight."""
        request, connection.request = connection.request, None
        if request is None or connection.process is None:
            return  # the connection has changed meanwhile
        connection.response = connection.process.handle_request(request)
        if connection.response is None:
            connection.process = None
            connection.owner.disconnected(connection)
            return
        self._count("handled")
        self.point("handled", connection)

    def answer(self, connection: SimulatedConnection) -> None:
        """The response arrives."""
        response, connection.response = connection.response, None
        if response is None:
            return
        connection.owner.answered(connection, response)
        self._count("answered")
        self.point("answered", connection)

    def cut(self, connection: SimulatedConnection) -> None:
        """The connection breaks, with the request or response on it."""
        if connection.process is not None:
            self._count("cut unanswered" if connection.request or connection.response else "cut")
            self._delay(connection)
            connection.owner.disconnected(connection)

    def cut_of(self, owner: SendingController, broker: int) -> None:
        """Breaks the connection between these two, if there is one."""
        for connection in self._of(owner, broker):
            self.cut(connection)

    def arrive(self, late: LateRequest) -> None:
        """A late request is handled; its response is lost."""
        if late not in self.late_requests:
            return
        self.late_requests.remove(late)
        if late.process is self.processes.get(late.process.broker):
            self._count("late requests")
            late.process.handle_request(late.request)

    def process_gone(self, process: ReceivingBroker) -> None:
        """The connections of a dead process break, and late requests to it are lost."""
        for connection in [connection for connection in self.connections if connection.process is process]:
            connection.process = connection.request = connection.response = None
            connection.owner.disconnected(connection)
        self.late_requests = [late for late in self.late_requests if late.process is not process]

    def steps(self, may_run: Callable[[object], bool]) -> list[Callable[[], None]]:
        """Possible next events; `may_run` returns whether a process is not paused."""
        found: list[Callable[[], None]] = []
        for connection in self.connections:
            if connection.request is not None:
                if may_run(connection.process):
                    found.append(lambda connection=connection: self.deliver(connection))  # type: ignore[misc]
            elif connection.response is not None:
                found.append(lambda connection=connection: self.answer(connection))  # type: ignore[misc]
            elif connection.process is None and self.can_connect(connection):
                found.append(lambda connection=connection: self.connect(connection))  # type: ignore[misc]
        able = [late for late in self.late_requests if may_run(late.process)]
        found += [lambda late=late: self.arrive(late) for late in able]  # type: ignore[misc]
        return found
