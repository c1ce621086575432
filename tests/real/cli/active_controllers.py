"""A zkgroup controller without brokers, on a real server."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from tests.waiting import PATIENCE_S, becomes, happened
from zkgroup.controller.machine.controller_election.elector import ElectorState
from zkgroup.controller.machine.events import ControllerEffect, Elected
from zkgroup.controller.machine.machine import ControllerMachine
from zkgroup.controller.machine.settings import ElectorConfig
from zkgroup.runtime.loop import MachineLoop
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.client import SystemClock

STAND_BACK_MS = 600_000
"""Time for which one that has resigned does not stand for election."""


class Controllers:
    """Candidates, each in its own thread and session; they end with the block."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._clock = SystemClock()  # a command waits for them, and cannot move a clock meanwhile
        self._running: list[tuple[MachineLoop[object, ControllerEffect], ZooKeeperClient]] = []
        self.crashed: list[BaseException] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for loop, client in self._running:
            loop.post(loop.stop)
            assert loop.join(PATIENCE_S)
            client.close()
        assert not self.crashed

    def add(self, broker: int) -> None:
        """Returns once it has been elected, or watches another active controller."""
        client = ZooKeeperClient(self._address, ClientSettings(session_timeout_ms=60_000))
        elected = threading.Event()

        def perform(effect: ControllerEffect) -> None:
            if isinstance(effect, Elected):
                elected.set()

        candidate = ControllerMachine(ElectorConfig(broker=broker, takeover_grace_ms=STAND_BACK_MS))
        loop: MachineLoop[object, ControllerEffect] = MachineLoop(
            candidate,
            client,
            self._clock,
            perform=perform,
            after_step=lambda: None,
            on_crash=self.crashed.append,
            name=f"candidate-{broker}",
        )
        self._running.append((loop, client))
        loop.listen()
        loop.start()
        if len(self._running) == 1:
            happened(elected)
        else:
            becomes(lambda: candidate.election.stage, ElectorState.WATCHING)
