"""Simulated connections of controllers to brokers, with one request in flight on each, and their faults.

A request on a broken connection may still arrive, once, at the process that it was sent to, after requests of
newer connections. Its response is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from zkgroup.controller.machine.requests.batch import ControlRequest
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

    def connected(self, line: SimulatedConnection) -> None: ...

    def disconnected(self, line: SimulatedConnection) -> None: ...

    def answered(self, line: SimulatedConnection, response: Response) -> None: ...


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
    connection: int = 0
    """Number of the present connection."""
    seen_connection: int = 0
    """The last connection that the controller knows of; its requests are meant for that one."""
    is_open: bool = True

    def __str__(self) -> str:
        return f"{self.owner.name}->{self.broker}"


@dataclass(eq=False)
class LateRequest:
    """A request of a broken connection that may still arrive."""

    process: ReceivingBroker
    request: ControlRequest
    line: str


@dataclass
class SimulatedNetwork:
    """All connections. Every method performs one event."""

    processes: Mapping[int, ReceivingBroker]
    """Broker id to its running process."""
    point: Callable[[str, SimulatedConnection], None] = lambda kind, line: None
    """Called at `sent`, `handled` and `answered`."""
    lines: list[SimulatedConnection] = field(default_factory=list)
    late_requests: list[LateRequest] = field(default_factory=list)
    cut_off: set[tuple[str, int]] = field(default_factory=set)
    """Pairs of controller and broker without network between them."""
    figures: dict[str, int] = field(default_factory=dict)

    def _count(self, what: str) -> None:
        self.figures[what] = self.figures.get(what, 0) + 1

    # --- what controllers do ------------------------------------------------------------------------

    def open(self, owner: SendingController, broker: int, incarnation: int) -> None:
        """Opens a connection, which connects as soon as the broker listens."""
        for line in self._of(owner, broker):
            self._end(line)
        self.lines.append(SimulatedConnection(owner, broker, incarnation))

    def close(self, owner: SendingController, broker: int, incarnation: int) -> None:
        for line in self._of(owner, broker):
            if line.incarnation == incarnation:
                self._end(line)

    def close_all(self, owner: SendingController) -> None:
        """Closes all connections of a controller. Its requests may still arrive."""
        for line in [line for line in self.lines if line.owner is owner]:
            self._end(line)

    def send(self, owner: SendingController, broker: int, incarnation: int, request: ControlRequest) -> None:
        """Sends a request on the present connection; without one it is dropped."""
        for line in self._of(owner, broker):
            is_meant = line.incarnation == incarnation and line.seen_connection == line.connection
            if is_meant and line.process is not None:
                assert line.request is None, f"two requests in flight on {line}"
                assert line.response is None, f"two requests in flight on {line}"
                line.request = request
                self._count("sent")
                self.point("sent", line)

    def busy(self, owner: SendingController) -> list[SimulatedConnection]:
        """Connections with a request or a response in flight."""
        return [
            line
            for line in self.lines
            if line.owner is owner and (line.request is not None or line.response is not None)
        ]

    def _of(self, owner: SendingController, broker: int) -> list[SimulatedConnection]:
        return [line for line in self.lines if line.owner is owner and line.broker == broker]

    def _end(self, line: SimulatedConnection) -> None:
        self._delay(line)
        line.is_open = False
        self.lines.remove(line)

    def _delay(self, line: SimulatedConnection) -> None:
        if line.request is not None and line.process is not None:
            self.late_requests.append(LateRequest(line.process, line.request, str(line)))
        line.process = line.request = line.response = None

    # --- events ----------------------------------------------------------------------------

    def can_connect(self, line: SimulatedConnection) -> bool:
        process = self.processes.get(line.broker)
        reaches = (line.owner.name, line.broker) not in self.cut_off
        return line.process is None and reaches and process is not None and process.is_listening

    def connect(self, line: SimulatedConnection) -> None:
        if line not in self.lines or not self.can_connect(line):
            return
        line.process = self.processes[line.broker]
        line.connection += 1
        line.owner.connected(line)

    def deliver(self, line: SimulatedConnection) -> None:
        """The request arrives and is handled; the response is in flight."""
        request, line.request = line.request, None
        if request is None or line.process is None:
            return  # the connection has changed meanwhile
        line.response = line.process.handle_request(request)
        if line.response is None:
            line.process = None
            line.owner.disconnected(line)
            return
        self._count("handled")
        self.point("handled", line)

    def answer(self, line: SimulatedConnection) -> None:
        """The response arrives."""
        response, line.response = line.response, None
        if response is None:
            return
        line.owner.answered(line, response)
        self._count("answered")
        self.point("answered", line)

    def cut(self, line: SimulatedConnection) -> None:
        """The connection breaks, with the request or response on it."""
        if line.process is not None:
            self._count("cut unanswered" if line.request or line.response else "cut")
            self._delay(line)
            line.owner.disconnected(line)

    def cut_of(self, owner: SendingController, broker: int) -> None:
        """Breaks the connection between these two, if there is one."""
        for line in self._of(owner, broker):
            self.cut(line)

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
        for line in [line for line in self.lines if line.process is process]:
            line.process = line.request = line.response = None
            line.owner.disconnected(line)
        self.late_requests = [late for late in self.late_requests if late.process is not process]

    def steps(self, may_run: Callable[[object], bool]) -> list[Callable[[], None]]:
        """Possible next events; `may_run` returns whether a process is not paused."""
        found: list[Callable[[], None]] = []
        for line in self.lines:
            if line.request is not None:
                if may_run(line.process):
                    found.append(lambda line=line: self.deliver(line))  # type: ignore[misc]
            elif line.response is not None:
                found.append(lambda line=line: self.answer(line))  # type: ignore[misc]
            elif line.process is None and self.can_connect(line):
                found.append(lambda line=line: self.connect(line))  # type: ignore[misc]
        able = [late for late in self.late_requests if may_run(late.process)]
        found += [lambda late=late: self.arrive(late) for late in able]  # type: ignore[misc]
        return found
