"""The connections of a real controller: a queue of requests for each broker, of which one is in flight.

Source: controller.md 7; kafka/controller/ControllerChannelManager.scala@0.8.2.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from zkgroup.controller.machine.requests import ControlRequest
from zkgroup.testing.cluster_simulation.network import Line, Network, Sends


class RealChannels:
    """Those of one controller; an answer is taken for one whatever it says."""

    def __init__(self, network: Network, owner: Sends) -> None:
        self._network = network
        self._owner = owner
        self._queues: dict[int, deque[ControlRequest]] = {}
        self._opened: dict[int, int] = {}
        self._up: set[int] = set()
        self._flying: dict[int, ControlRequest] = {}

    def close_all(self) -> None:
        self._queues.clear()
        self._opened.clear()
        self._up.clear()
        self._flying.clear()
        self._network.close_all(self._owner)

    def follow(self, live: Mapping[int, int]) -> None:
        """live: broker to the czxid of its registration."""
        for broker in self._opened.keys() - live.keys():
            self._network.close(self._owner, broker, self._opened[broker])
            self._up.discard(broker)
            self._queues.pop(broker, None)
            self._flying.pop(broker, None)
        self._opened = {broker: at for broker, at in self._opened.items() if broker in live}
        for broker, czxid in live.items():
            if broker not in self._opened:  # one that came back unseen keeps its connection (K7)
                self._opened[broker] = czxid
                self._network.open(self._owner, broker, czxid)

    def send(self, broker: int, request: ControlRequest) -> None:
        self._queues.setdefault(broker, deque()).append(request)
        self._flush(broker)

    def connected(self, line: Line) -> None:
        line.told = line.connection
        self._up.add(line.broker)
        if line.broker in self._flying:
            self._network.send(self._owner, line.broker, line.incarnation, self._flying[line.broker])
        else:
            self._flush(line.broker)

    def disconnected(self, line: Line) -> None:
        self._up.discard(line.broker)

    def answered(self, line: Line) -> None:
        self._flying.pop(line.broker, None)
        self._flush(line.broker)

    def _flush(self, broker: int) -> None:
        queue = self._queues.get(broker)
        if broker in self._up and broker not in self._flying and queue:
            self._flying[broker] = queue.popleft()
            self._network.send(self._owner, broker, self._opened[broker], self._flying[broker])
