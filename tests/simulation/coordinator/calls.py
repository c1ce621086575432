"""Requests of simulated clients to group coordinators, on connections that break.

The requests of one client reach a broker in the order in which they were sent. One on a broken connection may
still be handled, after those of a newer connection; its answer is lost.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from tests.simulation.cluster.broker import SimulatedBroker
from tests.simulation.schedule import Action
from zkgroup.broker.groups.stored_coordinator import DROPPED, ServiceResult
from zkgroup.coordinator.events import GroupRequest
from zkgroup.testing.clock import FakeClock

DELAYS_MS: Final = (0, 300, 1_500, 4_000)
"""How late requests on broken connections arrive."""


class CallStage(Enum):
    """How far a request has come."""

    SENT = "sent"
    HANDLED = "handled"
    """The coordinator has it, and has not answered."""
    ANSWERED = "answered"


class CallingClient(Protocol):
    """The client's end of a connection."""

    name: str

    def received(self, call: ClientCall, result: ServiceResult) -> None: ...

    def disconnected(self) -> None: ...


@dataclass(eq=False)
class ClientCall:
    """One request and its answer."""

    caller: CallingClient
    process: SimulatedBroker
    request: GroupRequest
    sent_ms: int
    give_up_ms: int
    """When the client breaks the connection, because it has no answer."""
    stage: CallStage = CallStage.SENT
    result: ServiceResult | None = None
    is_lost: bool = False
    """Whether its connection is broken: nobody waits for the answer."""
    held_until_ms: int = 0
    """Until when a request on a broken connection cannot arrive."""


class ClientNetwork:
    """The connections of all clients to all brokers."""

    def __init__(self, clock: FakeClock, rng: random.Random, figures: Counter[str]) -> None:
        self._clock, self._rng, self._figures = clock, rng, figures
        self._calls: list[ClientCall] = []

    def send(
        self, caller: CallingClient, process: SimulatedBroker, request: GroupRequest, give_up_ms: int
    ) -> ClientCall:
        """Sends a request to a process that runs."""
        call = ClientCall(caller, process, request, self._clock.now_ms(), give_up_ms)
        self._calls.append(call)
        return call

    def cut(self, caller: CallingClient, *, keeps: bool = False) -> None:
        """Breaks the connections of a client. Requests on them may arrive later; with `keeps` they do."""
        found = [call for call in self._calls if call.caller is caller and not call.is_lost]
        for call in found:
            call.is_lost = True
            call.held_until_ms = self._clock.now_ms() + self._rng.choice(DELAYS_MS)
            self._figures[f"lost {call.stage.value}"] += 1
            if call.stage is not CallStage.SENT or not (keeps or self._rng.random() < 0.5):
                self._calls.remove(call)

    def process_gone(self, process: SimulatedBroker) -> None:
        """The requests to a process that has ended are lost."""
        self._calls = [call for call in self._calls if call.process is not process]

    def waits_at(self, process: SimulatedBroker) -> bool:
        """Whether requests that are not lost wait at a broker."""
        return any(
            call.process is process and call.stage is CallStage.SENT and not call.is_lost
            for call in self._calls
        )

    def busy(self) -> list[CallingClient]:
        """The clients with a request or an answer on its way."""
        return [*dict.fromkeys(call.caller for call in self._calls if not call.is_lost)]

    def steps(self, is_awake: Callable[[str], bool]) -> list[Action]:
        """Possible next events."""
        found: list[Action] = []
        connections: set[tuple[str, int, bool]] = set()
        for call in self._calls:
            connection = call.caller.name, call.process.pid, call.is_lost
            if call.held_until_ms > self._clock.now_ms():
                continue
            if call.stage is CallStage.SENT and connection not in connections:
                connections.add(connection)
                if is_awake(call.process.name):
                    found.append(lambda call=call: self._deliver(call))  # type: ignore[misc]
            elif call.stage is CallStage.ANSWERED and is_awake(call.caller.name):
                found.append(lambda call=call: self._receive(call))  # type: ignore[misc]
        return found

    def _deliver(self, call: ClientCall) -> None:
        coordinator = call.process.coordinator
        if call not in self._calls or coordinator is None or call.stage is not CallStage.SENT:
            return  # it was lost meanwhile
        call.stage = CallStage.HANDLED
        if call.is_lost:
            self._figures["late requests of clients"] += 1
            self._calls.remove(call)
            coordinator.ask(call.request, lambda result: None)
            return
        coordinator.ask(call.request, lambda result: self._answered(call, result))

    def _answered(self, call: ClientCall, result: ServiceResult) -> None:
        if call not in self._calls:
            return
        if result is DROPPED:
            self.cut(call.caller)
            call.caller.disconnected()
            return
        call.stage, call.result = CallStage.ANSWERED, result

    def _receive(self, call: ClientCall) -> None:
        if call in self._calls:
            self._calls.remove(call)
            assert call.result is not None
            call.caller.received(call, call.result)
