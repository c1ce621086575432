"""The event loops of the brokers of a `KafkaCluster`: they can be paused, and cut off from other brokers."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from zkgroup.errors import ZkGroupError
from zkgroup.testing.patience import PATIENCE_S


class BrokerLinks:
    """The pairs of brokers that can reach each other. Thread-safe."""

    def __init__(self) -> None:
        self._ports: dict[int, int] = {}
        """Port to broker."""
        self._isolated: set[int] = set()
        self._loops: list[BrokerLoop] = []
        self._lock = threading.Lock()

    def listens(self, broker: int, port: int) -> None:
        """Notes on which port a broker listens."""
        self._ports[port] = broker

    def add(self, loop: BrokerLoop) -> None:
        """Includes the connections of one more loop."""
        with self._lock:
            self._loops = [one for one in self._loops if not one.is_closed()] + [loop]

    def owner_of(self, port: int | None) -> int | None:
        """The broker that listens on this port."""
        return None if port is None else self._ports.get(port)

    def is_cut(self, one: int, other: int | None) -> bool:
        """Returns whether connections between two brokers are refused. A broker always reaches itself."""
        return other is not None and one != other and not self._isolated.isdisjoint((one, other))

    def is_isolated(self, broker: int) -> bool:
        """Returns whether this broker is cut off from all others."""
        return broker in self._isolated

    def isolate(self, broker: int) -> None:
        """Cuts the connections between this broker and all others, and refuses new ones."""
        self._isolated.add(broker)
        with self._lock:
            loops = list(self._loops)
        for loop in loops:
            loop.post(loop.cut)

    def heal(self, broker: int) -> None:
        """Lets this broker and the others connect again."""
        self._isolated.discard(broker)


class BrokerLoop(asyncio.SelectorEventLoop):
    """An event loop of one broker. `post` may be called from any thread."""

    def __init__(self, broker: int, links: BrokerLinks) -> None:
        super().__init__()
        self._broker = broker
        self._links = links
        self._connections: dict[asyncio.BaseTransport, int] = {}
        """Open connections to other brokers."""
        links.add(self)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **more: Any
    ) -> tuple[Any, Any]:
        """As any event loop; raises ConnectionRefusedError while the other broker cannot be reached."""
        other = self._links.owner_of(port)
        self._check(other)
        transport, protocol = await super().create_connection(protocol_factory, host, port, **more)
        if other is not None:
            self._connections = {one: to for one, to in self._connections.items() if not one.is_closing()}
            self._connections[transport] = other
        try:
            self._check(other)
        except OSError:
            transport.abort()
            raise
        return transport, protocol

    def _check(self, other: int | None) -> None:
        if self._links.is_cut(self._broker, other):
            raise ConnectionRefusedError(f"broker {self._broker} is cut off from broker {other}")

    def cut(self) -> None:
        """Closes the connections to brokers that may not be reached now."""
        for transport, other in self._connections.items():
            if self._links.is_cut(self._broker, other) and isinstance(transport, asyncio.Transport):
                transport.abort()

    def post(self, callback: Any) -> bool:
        """Calls back on the loop; False if the loop has ended."""
        try:
            self.call_soon_threadsafe(callback)
        except RuntimeError:
            return False
        return True


class BrokerLoops:
    """The loops of one broker, which stop and go on together."""

    def __init__(self, broker: int, links: BrokerLinks) -> None:
        self._broker = broker
        self._links = links
        self._loops: list[BrokerLoop] = []
        self._goes_on = threading.Event()
        self._goes_on.set()

    def make(self) -> BrokerLoop:
        """Makes one more loop; for `zkgroup.broker.Broker`."""
        loop = BrokerLoop(self._broker, self._links)
        self._loops.append(loop)
        return loop

    def pause(self) -> None:
        """Waits until every loop stands still, between two of its callbacks. Idempotent."""
        if not self._goes_on.is_set():
            return
        self._goes_on.clear()
        stands = threading.Semaphore(0)

        def stand() -> None:
            stands.release()
            self._goes_on.wait()

        for _ in [loop for loop in self._loops if loop.post(stand)]:
            if not stands.acquire(timeout=PATIENCE_S):
                self.resume()
                raise ZkGroupError(f"broker {self._broker} could not be paused within {PATIENCE_S:g} s")

    def resume(self) -> None:
        """Lets the loops go on."""
        self._goes_on.set()
