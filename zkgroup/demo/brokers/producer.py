"""The demo's producer: sends the bundled lines one by one, each until every in-sync replica has it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from zkgroup.admin.cluster.brokers import Cluster
from zkgroup.demo.brokers.proof import Acknowledged
from zkgroup.demo.flight_data import TOPIC, airport_and_delay, partition_of
from zkgroup.groups.ensemble import Ensemble
from zkgroup.lines.producer import LineProducer
from zkgroup.lines.producing import Delivery, Outcome, ProducerSettings
from zkgroup.model import TopicPartition
from zkgroup.zookeeper import ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.clock import SystemClock

TURN_S = 0.05
ENDED_WAIT_S = 10.0


class Producer:
    """Appends lines in a thread of its own, so many a second; `hurry` lifts the limit."""

    def __init__(self, zookeeper: str, lines: Sequence[bytes], partitions: int, per_s: int) -> None:
        """Begins at once."""
        self._zookeeper = zookeeper
        self._lines = lines
        self._partitions = [
            TopicPartition(TOPIC, partition_of(airport_and_delay(line)[0], partitions)) for line in lines
        ]
        self._per_s = per_s
        self._hurried = self._stopped = False
        self.acknowledged: list[Acknowledged] = []
        """Grows while it runs."""
        self.bytes = 0
        """Of those lines."""
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="demo-feed", daemon=True)
        self._thread.start()

    def hurry(self) -> None:
        """The rest as fast as it goes."""
        self._hurried = True

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to be acknowledged, or `error` says why not."""
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raises what ended it."""
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Gives up what is not acknowledged yet."""
        self._stopped = True
        self._thread.join(ENDED_WAIT_S)

    def _run(self) -> None:
        try:
            with ZooKeeperClient(self._zookeeper) as client, Blocking(client) as zk:
                zk.wait_connected()
                cluster = Cluster(Ensemble(zk, SystemClock()))
                producer = LineProducer(cluster.brokers, ProducerSettings(), self._told)
                try:
                    self._produce(producer)
                finally:
                    producer.close()
        except Exception as error:  # noqa: BLE001 - raised where the demo looks for it
            self.error = error

    def _produce(self, producer: LineProducer) -> None:
        began_s, appended = time.monotonic(), 0
        while len(self.acknowledged) < len(self._lines) and not self._stopped:
            due = len(self._lines)
            if not self._hurried:
                due = min(due, int((time.monotonic() - began_s) * self._per_s))
            for number in range(appended, due):
                producer.append(self._partitions[number], self._lines[number])
            appended = max(appended, due)
            producer.work(TURN_S)

    def _told(self, delivery: Delivery) -> None:
        if delivery.outcome is not Outcome.ACKNOWLEDGED:
            return
        for i, number in enumerate(delivery.numbers):
            line = self._lines[number]
            self.bytes += len(line) + 1
            self.acknowledged.append(
                Acknowledged(
                    number,
                    delivery.topic_partition.partition,
                    delivery.base_offset + i,
                    line,
                    delivery.may_be_repeated,
                )
            )
