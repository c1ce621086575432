"""One broker of a `KafkaCluster`, over all its starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from zkgroup.broker.broker import Broker
from zkgroup.broker.log.storage import MemoryStorage
from zkgroup.testing.kafka_cluster.loops import BrokerLoops
from zkgroup.zookeeper.embedded.server import ReservedPort


@dataclass
class KafkaClusterBroker:
    """One broker of a cluster, over all its starts."""

    id: int
    port: ReservedPort
    loops: BrokerLoops
    data: Path | MemoryStorage
    broker: Broker | None = None
    """None while it does not run."""
    client: str = ""
    """Name of its client in `MemoryZooKeeper`."""
    state: str = "has not been started"
    """For messages; "runs", "was killed", "was stopped", "has failed: ..."."""
    starts: int = 0
    cuts: set[str] = field(default_factory=set)
    """The fault that keeps it from ZooKeeper: "pause" or "isolate"."""

    @property
    def running(self) -> Broker | None:
        """The broker; None if it does not run, which `state` explains."""
        try:
            if self.broker is not None:
                self.broker.check()
        except Exception as error:  # noqa: BLE001 - whatever has stopped it
            self.state = f"has failed: {error}"
            return None
        return self.broker

    def bury(self) -> None:
        """Closes the broker if it has failed: from now on it is one that does not run."""
        if self.broker is not None and self.running is None:
            self.broker.close(controlled_shutdown=False)
            self.broker = None
