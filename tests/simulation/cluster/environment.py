"""What the processes of one schedule of a cluster share: server, clock, network, files, records."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

from tests.simulation.cluster.network import ReceivingBroker, SimulatedNetwork
from tests.simulation.cluster.setup import ClusterSetup
from tests.simulation.cluster.step_checks import ClusterAudit
from tests.simulation.schedule import ScheduleRecording
from zkgroup.broker.log.storage import MemoryStorage
from zkgroup.model import TopicPartition
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper.server import MemoryZooKeeper


class ClusterEnvironment:
    """The environment of the simulated brokers and controllers of one schedule."""

    def __init__(
        self, setup: ClusterSetup, rng: random.Random, brokers: Mapping[int, ReceivingBroker]
    ) -> None:
        """`brokers`: the running ones, by id."""
        self.setup = setup
        self.rng = rng
        self.clock = FakeClock()
        self.server = MemoryZooKeeper(self.clock, stepped=True)
        self.recording = ScheduleRecording(self.clock)
        self.audit = ClusterAudit(self.server, self.clock)
        self.figures: Counter[str] = Counter()
        self.network = SimulatedNetwork(brokers)
        self.storages = {broker: MemoryStorage() for broker in setup.brokers}
        self.acked: dict[TopicPartition, dict[int, bytes]] = {}
        """Acknowledged records of each partition, for the present incarnation of its topic."""
        self.read_ends: dict[tuple[TopicPartition, int], int] = {}
        """End of what consumers have read, by partition and incarnation of its topic."""
        self.log_starts: dict[tuple[TopicPartition, int], int] = {}
        """The highest log start offset of a leader, by partition and incarnation of its topic."""
        self.unprotected: set[tuple[object, object]] = set()
        """Brokers and partitions on which records of a deleted topic may pass for the new one's, because a
        Kafka controller may have been active in between (docs/adr/0024)."""
        self._lives: dict[TopicPartition, int] = {}

    def life(self, topic: str) -> int:
        """The present incarnation of a topic: the zxid of its creation."""
        self.audit.catch_up()
        return self.audit.lives.get(topic, 0)

    def acknowledged(self, tp: TopicPartition, offset: int, values: tuple[bytes, ...]) -> None:
        """Called when a leader has acknowledged these values."""
        life = self.life(tp.topic)
        if self._lives.get(tp) != life:
            self._lives[tp], self.acked[tp] = life, {}
        self.acked[tp].update(enumerate(values, offset))
        self.figures["records acknowledged"] += len(values)

    def records_read(self, tp: TopicPartition, life: int, end: int) -> None:
        """Called when a consumer has read records up to `end`."""
        before = self.read_ends.get((tp, life), 0)
        self.read_ends[tp, life] = max(before, end)
        self.figures["records read"] += max(0, end - before)

    def deleted_below(self, tp: TopicPartition, life: int, offset: int) -> None:
        """Called when a leader has deleted the records below an offset."""
        before = self.log_starts.get((tp, life), 0)
        self.log_starts[tp, life] = max(before, offset)
        self.figures["records deleted"] += max(0, offset - before)

    def shutdown_answered(self, *, is_granted: bool) -> None:
        """Called when a controller has responded to a request for a controlled shutdown."""
        self.figures["shutdowns answered"] += 1
        self.figures["shutdowns granted"] += is_granted
