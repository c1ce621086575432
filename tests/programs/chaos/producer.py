"""Records that are produced throughout a round with acks=all, and the outcome of each."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Self

from tests.programs.chaos.cluster import RECORDS, ChaosCluster
from tests.programs.chaos.operations import PARTITIONS
from zkgroup.admin.cluster.brokers import ClusterReader
from zkgroup.broker.log.data_dir import stored_records
from zkgroup.broker.log.disk_storage import DiskStorage
from zkgroup.clients.producer import DeliveryReport, NewRecord, Outcome, ProducerSettings, RecordProducer
from zkgroup.errors import ZkGroupError
from zkgroup.history import HistoryRecord
from zkgroup.model import TopicPartition
from zkgroup.wire.record_batch import all_records

PARTS = [TopicPartition(RECORDS, number) for number in range(PARTITIONS)]
EVERY_S = 0.02


class Produced:
    """A producer in its own thread, past the proxies. A context manager."""

    def __init__(self, cluster: ChaosCluster) -> None:
        self.cluster = cluster
        self.acknowledged: list[DeliveryReport] = []
        self.failed: list[DeliveryReport] = []
        self.trouble: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos-producer")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Waits until every record is acknowledged or has failed. Idempotent."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        settings = ProducerSettings(delivery_timeout_ms=150_000, request_timeout_ms=5_000)
        try:
            producer = RecordProducer(ClusterReader(self.cluster.ensemble), RECORDS, self._note, settings)
            try:
                number = 0
                while not self._stop.wait(EVERY_S):
                    producer.send(NewRecord(b"%d" % number, partition=number % PARTITIONS))
                    number += 1
                producer.flush()
            finally:
                producer.close()
        except ZkGroupError as error:
            self.trouble.append(str(error))

    def _note(self, delivery: DeliveryReport) -> None:
        (self.acknowledged if delivery.outcome is Outcome.ACKNOWLEDGED else self.failed).append(delivery)

    def records(self, folders: dict[TopicPartition, tuple[int, Path]]) -> list[HistoryRecord]:
        """The acknowledged records, and those that the last leader of each partition has in its folder."""
        made: list[HistoryRecord] = []

        def add(kind: str, tp: TopicPartition, **fields: object) -> None:
            where = {"topic": tp.topic, "partition": tp.partition, **fields}
            made.append(HistoryRecord(len(made) + 1, len(made) + 1, 0, "producer", None, kind, where))

        for one in self.acknowledged:
            add("append.ok", PARTS[one.partition], offset=one.offset, records=[str(one.number)])
        for tp, (broker, folder) in folders.items():
            add("records.kept", tp, broker=broker, records=kept(folder, tp))
        return made


def kept(folder: Path, tp: TopicPartition) -> list[str]:
    """The values of a partition's records in a broker's folder."""
    batches = stored_records(DiskStorage(folder), tp)
    return [(record.value or b"").decode() for record in all_records(batches)]
