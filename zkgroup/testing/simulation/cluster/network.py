"""Connections of controllers to brokers: one request in flight on each, and all their faults.

A request sent on a connection that broke may still arrive, once, at the process that it was sent to, behind
requests of newer connections. Its answer is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from zkgroup.controller.machine.requests.batch import ControlRequest
from zkgroup.wire.messages import Response


class RequestReceiver(Protocol):
    """A broker's process, as the network reaches it."""

    broker: int

    @property
    def is_listening(self) -> bool: ...

    def obey(self, request: ControlRequest) -> Response | None: ...


class RequestSender(Protocol):
    """A controller's end of its connections."""

    name: str

    def connected(self, line: BrokerConnection) -> None: ...

    def disconnected(self, line: BrokerConnection) -> None: ...

    def answered(self, line: BrokerConnection, response: Response) -> None: ...


@dataclass(eq=False)
class BrokerConnection:
    """A controller's wish to be connected to one incarnation of a broker, and the connection it has."""

    owner: RequestSender
    broker: int
    incarnation: int
    process: RequestReceiver | None = None
    """Who is at the other end; None while not connected."""
    request: ControlRequest | None = None
    """On its way to the broker."""
    response: Response | None = None
    """On its way back."""
    connection: int = 0
    """Counts its connections."""
    told: int = 0
    """The last one that its owner has heard of; what he sends is meant for that one."""
    is_open: bool = True

    def __str__(self) -> str:
        return f"{self.owner.name}->{self.broker}"


@dataclass(eq=False)
class LateRequest:
    """A request of a connection that is gone."""

    process: RequestReceiver
    request: ControlRequest
    line: str


@dataclass
class Network:
    """All connections. Every method makes one thing happen."""

    processes: Mapping[int, RequestReceiver]
    """The process that runs as each broker now."""
    point: Callable[[str, BrokerConnection], None] = lambda kind, line: None
    """Told of `sent`, `handled` and `answered` as they happen."""
    lines: list[BrokerConnection] = field(default_factory=list)
    strays: list[LateRequest] = field(default_factory=list)
    cut_off: set[tuple[str, int]] = field(default_factory=set)
    """Controller and broker that do not reach one another."""
    figures: dict[str, int] = field(default_factory=dict)

    def _count(self, what: str) -> None:
        self.figures[what] = self.figures.get(what, 0) + 1

    # --- what controllers do ------------------------------------------------------------------------

    def open(self, owner: RequestSender, broker: int, incarnation: int) -> None:
        """Connects, as soon as somebody listens."""
        for line in self._of(owner, broker):
            self._end(line)
        self.lines.append(BrokerConnection(owner, broker, incarnation))

    def close(self, owner: RequestSender, broker: int, incarnation: int) -> None:
        for line in self._of(owner, broker):
            if line.incarnation == incarnation:
                self._end(line)

    def close_all(self, owner: RequestSender) -> None:
        """The controller rules no more, or is gone. What it has sent may still arrive."""
        for line in [line for line in self.lines if line.owner is owner]:
            self._end(line)

    def send(self, owner: RequestSender, broker: int, incarnation: int, request: ControlRequest) -> None:
        """On the present connection; dropped where there is none."""
        for line in self._of(owner, broker):
            is_meant = line.incarnation == incarnation and line.told == line.connection
            if is_meant and line.process is not None:
                assert line.request is None, f"two requests in flight on {line}"
                assert line.response is None, f"two requests in flight on {line}"
                line.request = request
                self._count("sent")
                self.point("sent", line)

    def busy(self, owner: RequestSender) -> list[BrokerConnection]:
        """Connections with a request, or its answer, on the way."""
        return [
            line
            for line in self.lines
            if line.owner is owner and (line.request is not None or line.response is not None)
        ]

    def _of(self, owner: RequestSender, broker: int) -> list[BrokerConnection]:
        return [line for line in self.lines if line.owner is owner and line.broker == broker]

    def _end(self, line: BrokerConnection) -> None:
        self._stray(line)
        line.is_open = False
        self.lines.remove(line)

    def _stray(self, line: BrokerConnection) -> None:
        if line.request is not None and line.process is not None:
            self.strays.append(LateRequest(line.process, line.request, str(line)))
        line.process = line.request = line.response = None

    # --- what can happen ----------------------------------------------------------------------------

    def can_connect(self, line: BrokerConnection) -> bool:
        process = self.processes.get(line.broker)
        reaches = (line.owner.name, line.broker) not in self.cut_off
        return line.process is None and reaches and process is not None and process.is_listening

    def connect(self, line: BrokerConnection) -> None:
        if line not in self.lines or not self.can_connect(line):
            return
        line.process = self.processes[line.broker]
        line.connection += 1
        line.owner.connected(line)

    def deliver(self, line: BrokerConnection) -> None:
        """The request arrives and is obeyed; the answer is on its way."""
        request, line.request = line.request, None
        if request is None or line.process is None:
            return  # something else has happened to the connection
        line.response = line.process.obey(request)
        if line.response is None:
            line.process = None
            line.owner.disconnected(line)
            return
        self._count("handled")
        self.point("handled", line)

    def answer(self, line: BrokerConnection) -> None:
        """The answer arrives."""
        response, line.response = line.response, None
        if response is None:
            return
        line.owner.answered(line, response)
        self._count("answered")
        self.point("answered", line)

    def cut(self, line: BrokerConnection) -> None:
        """The connection breaks, whatever is on it."""
        if line.process is not None:
            self._count("cut unanswered" if line.request or line.response else "cut")
            self._stray(line)
            line.owner.disconnected(line)

    def cut_of(self, owner: RequestSender, broker: int) -> None:
        """`cut` of the connection between these two, if there is one."""
        for line in self._of(owner, broker):
            self.cut(line)

    def arrive(self, stray: LateRequest) -> None:
        """A late copy is obeyed; nobody hears of it."""
        if stray not in self.strays:
            return
        self.strays.remove(stray)
        if stray.process is self.processes.get(stray.process.broker):
            self._count("strays")
            stray.process.obey(stray.request)

    def process_gone(self, process: RequestReceiver) -> None:
        """Its connections break, and what was on its way to it is lost."""
        for line in [line for line in self.lines if line.process is process]:
            line.process = line.request = line.response = None
            line.owner.disconnected(line)
        self.strays = [stray for stray in self.strays if stray.process is not process]

    def steps(self, may_act: Callable[[object], bool]) -> list[Callable[[], None]]:
        """Everything that can happen now; `may_act` says of a process whether it is awake."""
        found: list[Callable[[], None]] = []
        for line in self.lines:
            if line.request is not None:
                if may_act(line.process):
                    found.append(lambda line=line: self.deliver(line))  # type: ignore[misc]
            elif line.response is not None:
                found.append(lambda line=line: self.answer(line))  # type: ignore[misc]
            elif line.process is None and self.can_connect(line):
                found.append(lambda line=line: self.connect(line))  # type: ignore[misc]
        able = [stray for stray in self.strays if may_act(stray.process)]
        found += [lambda stray=stray: self.arrive(stray) for stray in able]  # type: ignore[misc]
        return found
