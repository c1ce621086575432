"""Brokers, a producer and the state of their cluster, for the demos of brokers and of the coordinator."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from zkgroup.admin.cluster.brokers import ClusterReader
from zkgroup.admin.topics.listing import TopicPartitionDescription
from zkgroup.broker.broker import Broker
from zkgroup.broker.log.checkpoints import HIGH_WATERMARK, decode_high_watermark
from zkgroup.broker.log.data_dir import stored_records
from zkgroup.broker.log.disk_storage import DiskStorage
from zkgroup.broker.replica_view import Role
from zkgroup.broker.settings import BrokerSettings
from zkgroup.broker.telemetry import BrokerListener
from zkgroup.clients import kafka_python
from zkgroup.clients.producer import DeliveryReport, NewRecord, Outcome, RecordProducer
from zkgroup.demo.flight_data import TOPIC, airport_and_delay, bundled_lines, partition_of
from zkgroup.demo.kafka_clients import KafkaClient, KafkaJars, LeftOut, console_clients, python_clients
from zkgroup.demo.processes import Child, Stopping, print_event
from zkgroup.demo.run import DemoRun
from zkgroup.errors import NotFoundError
from zkgroup.history import ClusterFigures, ClusterOptions, ClusterReport, HistoryRecord, check_cluster
from zkgroup.history.transactions import ServerTransaction, read_transactions
from zkgroup.model import TopicPartition
from zkgroup.wire.record_batch import Record, all_records
from zkgroup.znodes.admin_requests import Reassignment

REPLICATION = 3
SESSION_MS = 4_000
CLUSTER_MIN = {"elections": 1, "leader_changes": 1, "isr_writes": 1, "acknowledged_records": 1}
"""Least contents of the servers' log, by name of the cluster checker's figures."""
REST_MS = 60_000
"""Longest time for the end of a demo: on a slow machine the controller's session may expire meanwhile."""


class BrokerEventPrinter(BrokerListener):
    """Prints the broker's events to standard output."""

    def on_registered(
        self, broker: int, host: str | None, port: int, epoch: int, listeners: Mapping[str, str]
    ) -> None:
        print_event("state", state="serving")

    def on_role(self, topic_partition: TopicPartition, role: Role, leader_epoch: int | None) -> None:
        if role.value == "leader":
            topic, partition = topic_partition
            print_event("leads", topic=topic, partition=partition, leader_epoch=leader_epoch)

    def on_controller(self, epoch: int, partitions: int, load_ms: int) -> None:
        print_event("controller", epoch=epoch)


def serve(stopping: Stopping, **broker_fields: Any) -> None:
    """Serves until SIGTERM, and leaves by a controlled shutdown. Raises its failure."""
    settings = BrokerSettings(
        session_timeout_ms=SESSION_MS,
        connection_timeout_ms=20_000,
        replica_lag_time_max_ms=4_000,
        controlled_shutdown_retry_backoff_ms=500,
        auto_leader_rebalance_enable=False,
        group_initial_rebalance_delay_ms=1_000,
    )
    broker = Broker(settings=settings, listener=BrokerEventPrinter(), **broker_fields)
    try:
        broker.start()
        while not stopping.is_requested:
            time.sleep(0.2)
            broker.check()
    finally:
        broker.close()


def is_whole(one: TopicPartitionDescription) -> bool:
    """Returns whether a partition has a leader, and every replica is in sync."""
    return one.leader in (one.isr or ()) and set(one.isr or ()) == set(one.replicas)


def values_in(folder: Path, tp: TopicPartition) -> tuple[Record, ...]:
    """Every record of a replica, from a stopped broker's files; none where it has no files."""
    return tuple(all_records(stored_records(DiskStorage(folder), tp)))


@dataclass(kw_only=True)
class ClusterRun(DemoRun):
    """A run with brokers, a producer and the clients of Kafka."""

    java: ClassVar[Sequence[str]] = ("-Dzookeeper.preAllocSize=4096",)
    """Preallocation of a server's log in KiB: small, because the checks read the whole log."""
    broker_ids: ClassVar[Sequence[int]]

    lines: tuple[bytes, ...] = field(default_factory=lambda: tuple(bundled_lines()))
    jars: KafkaJars | None = None
    left_out: list[LeftOut] = field(default_factory=list)
    brokers: dict[int, Child] = field(default_factory=dict)
    """The newest process of each broker."""
    producer: RecordProducer | None = None
    deliveries: list[DeliveryReport] = field(default_factory=list)
    """Of every record acknowledged so far, with its line's number; it grows on the producer's thread."""
    sent: int = 0
    due: Callable[[], float] = field(init=False)
    """Number of lines that are to be sent by now."""
    controller: int | None = None
    controller_epoch: int = 0
    registered: frozenset[int] = frozenset()
    described: dict[int, TopicPartitionDescription] = field(default_factory=dict)
    """The partitions of the topic, by number."""
    open_moves: int = 0
    """Entries of the reassignment znode."""
    quiet_from_ms: int = 0
    """Time since when nothing changes, but that records are produced and consumed."""
    log_read: list[ServerTransaction] = field(default_factory=list)
    """ZooKeeper's log, until nothing changed any more."""
    values: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    """Partition to the values of the records in the log of its final leader."""
    log_figures: ClusterFigures = field(default_factory=ClusterFigures)

    @classmethod
    def require(cls) -> None:
        kafka_python.load(cls.command)

    def open(self) -> None:
        """Starts Maven and the brokers, which import their modules until they get their settings."""
        super().open()
        self.jars = KafkaJars()
        self.brokers = {broker: self.start(f"broker {broker}", "cluster") for broker in self.broker_ids}

    def close(self) -> None:
        if self.producer is not None:
            self.producer.close()
        if self.jars is not None:
            self.jars.close()
        super().close()

    @property
    def acknowledged(self) -> int:
        return len(self.deliveries)

    def read(self) -> None:
        """Reads the cluster and the members' group, and sends the lines that are due.

        Raises `RecordsNotAppendedError` if one was not acknowledged.
        """
        self.controller, self.controller_epoch, self.described = None, 0, {}
        with suppress(NotFoundError):
            found = self.admin.describe_controller()
            self.controller, self.controller_epoch = found.controller, found.epoch or 0
        with suppress(NotFoundError):
            rows = self.admin.describe_topics(TOPIC).rows
            self.described = {one.partition: one for one in rows[0].partitions}
        self.registered = frozenset(ClusterReader(self.ensemble).brokers())
        asked = self.ensemble.zk.find(Reassignment.path())
        self.open_moves = len(Reassignment.decode(asked.path, asked.data).moves) if asked else 0
        super().read()
        if self.producer is not None:
            due = self.due()
            while self.sent < due:
                line, self.sent = self.lines[self.sent], self.sent + 1
                airport, _ = airport_and_delay(line)
                number = partition_of(airport, self.partitions)
                self.producer.send(NewRecord(line, airport.encode("ascii"), partition=number))
            self.producer.check()

    def leads(self, broker: int) -> int:
        return sum(one.leader == broker for one in self.described.values())

    def is_led(self) -> bool:
        """Returns whether a registered broker leads every partition."""
        leaders = {one.leader for one in self.described.values()}
        return bool(leaders) and leaders <= self.registered

    def is_whole(self) -> bool:
        """Returns whether every replica of every partition is in sync."""
        return self.is_led() and all(map(is_whole, self.described.values()))

    def start_broker(self, broker: int) -> None:
        """Sends the broker its settings, so that it serves; one that was killed gets another process."""
        if self.brokers[broker].killed:
            self.brokers[broker] = self.start(f"broker {broker}", "cluster")
        data = str(self.data_of(broker))
        self.brokers[broker].send(address=self.zookeeper, broker=broker, data=data)

    def data_of(self, broker: int) -> Path:
        return self.folder / f"broker-{broker}"

    def create_topic(self) -> None:
        """Creates the topic on the first brokers, in turn, and waits until all replicas are in sync."""
        hosts = self.broker_ids[:REPLICATION]
        lists = [[*hosts[n % REPLICATION :], *hosts[: n % REPLICATION]] for n in range(self.partitions)]
        self.admin.create_topic(TOPIC, replica_assignment=lists)
        self.until("every partition has its replicas in sync", self.is_whole)
        self.log(f"topic {TOPIC}: {self.partitions} partitions x {REPLICATION} replicas, all in sync", "good")

    def bootstrap(self) -> str:
        return ",".join(map(str, kafka_python.addresses_of(ClusterReader(self.ensemble).brokers().values())))

    def produce(self, end: int, per_s: float) -> None:
        """Produces from now on, so many lines a second, up to the line of this number."""
        if self.producer is None:
            self.producer = RecordProducer(ClusterReader(self.ensemble), TOPIC, self._on_delivery)
        first, began_s = self.sent, time.monotonic()
        self.due = lambda: min(first + (time.monotonic() - began_s) * per_s, end)

    def _on_delivery(self, delivery: DeliveryReport) -> None:
        if delivery.outcome is Outcome.ACKNOWLEDGED:
            self.deliveries.append(delivery)

    def finish_producing(self, end: int) -> None:
        """Produces up to this line without a limit, and waits until everything is acknowledged."""
        self.produce(end, math.inf)
        self.until("every record is acknowledged", lambda: self.acknowledged == end)

    def high_watermark(self, number: int) -> int:
        """Returns that of a partition's leader, from its broker's file; 0 where there is no file yet."""
        one, mark = self.described[number], 0
        for broker in [one.leader] if one.leader in self.brokers else one.replicas:
            file = self.data_of(broker) / f"{TOPIC}-{number}" / HIGH_WATERMARK
            with suppress(FileNotFoundError):
                mark = max(mark, decode_high_watermark(file.read_bytes()) or 0)
        return mark

    def find_clients(self, java: str) -> list[KafkaClient]:
        """Waits for Kafka's jars. Returns the clients that are there; without jars `java` is left out."""
        assert self.jars is not None
        if self.jars.is_fetching:
            self.headline = "Maven fetches Kafka's jars, once"
            self.log(f"{self.headline}, into {self.jars.folder}")
        self.until("Maven has ended", self.jars.has_ended_in_time)
        known = {one.name: one for one in python_clients()} | {java: console_clients(self.jars.reason)}
        self.left_out = [LeftOut(name, one.reason) for name, one in known.items() if one.reason]
        for left in self.left_out:
            self.log(f"left out: {left.client} ({left.reason})")
        return [one for one in known.values() if not one.reason]

    def read_last(self) -> None:
        """Reads the state at the end."""
        self.headline = "the end"
        self.ensemble.zk.sync("/")
        self.refresh()

    def read_files(self) -> ClusterReport:
        """Kills the brokers, and reads and checks their files and ZooKeeper's log, up to the last read."""
        last_zxid = self.ensemble.as_of().zxid
        self.log("nothing changes any more; reading the brokers' files and ZooKeeper's own log")
        for child in self.brokers.values():
            child.kill()
        for number, one in self.described.items():
            if one.leader is not None:
                records = values_in(self.data_of(one.leader), TopicPartition(TOPIC, number))
                self.values[number] = tuple(record.value or b"" for record in records)
        logs = [self.folder / "zookeeper" / f"server-{n}" / "version-2" for n in range(self.servers)]
        self.log_read = [one for one in read_transactions(logs) if one.zxid <= last_zxid]
        options = ClusterOptions(quiet_from_ms=self.quiet_from_ms, takeover_ms=REST_MS, recovery_ms=REST_MS)
        report = check_cluster(self.log_read, list(self._records()), options)
        self.log_figures = report.figures
        return report

    def _records(self) -> Iterable[HistoryRecord]:
        """The brokers' records for the checker: the leader of each epoch, what was acknowledged, and kept."""

        def record(kind: str, **fields: object) -> HistoryRecord:
            return HistoryRecord(0, 0, 0, "demo", None, kind, {"topic": TOPIC, **fields})

        for child in self.children:
            for term in child.reported["leads"]:  # of all topics, as clients create further ones
                yield record("role.taken", **term, broker=child.name, leader=child.name)
        for one in self.deliveries:
            sent = [repr(self.lines[one.number])]
            yield record("append.ok", partition=one.partition, offset=one.offset, records=sent)
        for number, values in self.values.items():
            leader, kept = self.described[number].leader, [*map(repr, values)]
            yield record("records.kept", partition=number, broker=leader, records=kept)
