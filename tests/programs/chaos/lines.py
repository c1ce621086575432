"""Lines that are appended throughout a round with acks=all, and the outcome of each."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.programs.chaos.cluster import LINES, ChaosCluster
from tests.programs.chaos.operations import PARTITIONS
from zkgroup.admin.cluster.brokers import ClusterReader
from zkgroup.broker.log.data_dir import stored_records
from zkgroup.broker.log.storage import DiskStorage
from zkgroup.errors import ZkGroupError
from zkgroup.history import HistoryRecord
from zkgroup.lines.fetching import lines_in
from zkgroup.lines.producer import LineProducer
from zkgroup.lines.producing import Acks, Delivery, Outcome, ProducerSettings
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import BrokerRegistration

PARTS = [TopicPartition(LINES, number) for number in range(PARTITIONS)]
EVERY_S = 0.02


class Lines:
    """A producer in its own thread, past the proxies. A context manager."""

    def __init__(self, cluster: ChaosCluster) -> None:
        self.cluster = cluster
        self.acknowledged: list[Delivery] = []
        self.failed: list[Delivery] = []
        self.trouble: list[str] = []
        self._known: dict[int, BrokerRegistration] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos-lines")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Waits until every line is acknowledged or has failed. Idempotent."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        brokers = ClusterReader(self.cluster.ensemble).brokers

        def registered() -> dict[int, BrokerRegistration]:
            with suppress(ZkGroupError):
                self._known = dict(brokers())
            return self._known

        settings = ProducerSettings(acks=Acks.ALL, delivery_timeout_ms=150_000, request_timeout_ms=5_000)
        try:
            with LineProducer(registered, settings, self._told) as producer:
                number = 0
                while not self._stop.is_set():
                    producer.append(PARTS[number % PARTITIONS], b"%d" % number)
                    number += 1
                    pause_until = time.monotonic() + EVERY_S
                    while (left := pause_until - time.monotonic()) > 0:
                        producer.work(left)
        except ZkGroupError as error:
            self.trouble.append(str(error))

    def _told(self, delivery: Delivery) -> None:
        (self.acknowledged if delivery.outcome is Outcome.ACKNOWLEDGED else self.failed).append(delivery)

    # --- afterwards -------------------------------------------------------------------------------

    def records(self, folders: dict[TopicPartition, tuple[int, Path]]) -> list[HistoryRecord]:
        """The acknowledged lines, and the lines that the last leader of each partition has in its folder."""
        made: list[HistoryRecord] = []

        def add(kind: str, tp: TopicPartition, **fields: object) -> None:
            where = {"topic": tp.topic, "partition": tp.partition, **fields}
            made.append(HistoryRecord(len(made) + 1, len(made) + 1, 0, "lines", None, kind, where))

        for one in self.acknowledged:
            lines = [str(number) for number in one.numbers]
            add("append.ok", one.topic_partition, offset=one.base_offset, lines=lines)
        for tp, (broker, folder) in folders.items():
            add("lines.kept", tp, broker=broker, lines=kept(folder, tp))
        return made


def kept(folder: Path, tp: TopicPartition) -> list[str]:
    """The lines of a partition in a broker's folder."""
    return [line.decode() for line in lines_in(stored_records(DiskStorage(folder), tp))]
