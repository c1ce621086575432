"""The cluster of `zkgroup demo brokers`: its processes, its producer, and the state last read."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zkgroup.admin.cluster.brokers import ClusterReader
from zkgroup.broker.log.checkpoints import HIGH_WATERMARK, decode_high_watermark
from zkgroup.broker.log.data_dir import stored_records
from zkgroup.broker.log.disk_storage import DiskStorage
from zkgroup.clients.producer import DeliveryReport, NewRecord, Outcome, RecordProducer
from zkgroup.demo.brokers.checks import Acknowledged
from zkgroup.demo.brokers.view import BrokerRow, ClusterView, LedPartitionRow
from zkgroup.demo.brokers.worker import BrokerChild
from zkgroup.demo.flight_data import TOPIC, airport_and_delay, partition_of
from zkgroup.demo.group import group_state
from zkgroup.demo.group.worker import MemberChild, MemberChildSettings
from zkgroup.demo.progress import RUN_S, DemoRun
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.snapshot import decode_or_error
from zkgroup.model import TopicPartition
from zkgroup.wire.record_batch import Record, all_records
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic, broker_ids_path
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.ids import number_of
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.clock import SystemClock


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """The replicas of one partition: assigned, in sync, and the leader."""

    replicas: tuple[int, ...]
    leader: int | None
    """None where no broker leads, or no state has been written."""
    leader_epoch: int
    isr: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it has a leader and every replica is in sync."""
        return self.leader in self.isr and set(self.isr) == set(self.replicas)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The cluster as one read found it."""

    controller: int | None = None
    controller_epoch: int = 0
    registered: frozenset[int] = frozenset()
    partitions: Mapping[int, PartitionReplicas] = field(default_factory=dict)
    open_moves: int = 0
    """Entries of the reassignment znode."""

    def leads(self, broker: int) -> int:
        """Number of partitions that the broker leads."""
        return sum(one.leader == broker for one in self.partitions.values())

    def hosts(self, broker: int) -> int:
        """Number of partitions with a replica on the broker."""
        return sum(broker in one.replicas for one in self.partitions.values())

    def in_sync(self, broker: int) -> int:
        """Number of partitions whose ISR includes the broker."""
        return sum(broker in one.isr for one in self.partitions.values())

    @property
    def is_led(self) -> bool:
        """Whether a registered broker leads every partition."""
        return bool(self.partitions) and all(
            one.leader in self.registered for one in self.partitions.values()
        )

    @property
    def is_whole(self) -> bool:
        """Whether every replica of every partition is in sync."""
        return self.is_led and all(one.is_whole for one in self.partitions.values())


EMPTY_CLUSTER = ClusterState()


def read_cluster(ensemble: Ensemble, partitions: int) -> ClusterState:
    """Reads controller, brokers, the demo's topic and open reassignments, in two bulk reads."""
    zk = ensemble.zk
    states = {number: PartitionState.path(TopicPartition(TOPIC, number)) for number in range(partitions)}
    fixed = [ControllerRegistration.path(), ControllerEpoch.path(), Reassignment.path(), Topic.path(TOPIC)]
    found = zk.read_many([*fixed, *states.values()])
    names = zk.list_many([broker_ids_path()])[broker_ids_path()] or ()
    controller_znode, epoch, request, topic = (found[path] for path in fixed)
    controller = (
        decode_or_error(controller_znode, ControllerRegistration.decode).value if controller_znode else None
    )
    won = decode_or_error(epoch, ControllerEpoch.decode).value if epoch else None
    asked = decode_or_error(request, Reassignment.decode).value if request else None
    lists = decode_or_error(topic, Topic.decode).value if topic else None
    seen: dict[int, PartitionReplicas] = {}
    for number, replicas in (lists.partitions if lists else {}).items():
        znode = found.get(states.get(number, ""))
        state = decode_or_error(znode, PartitionState.decode).value if znode else None
        seen[number] = PartitionReplicas(
            replicas,
            state.leader if state and state.leader >= 0 else None,
            state.leader_epoch if state else -1,
            state.isr if state else (),
        )
    return ClusterState(
        controller=controller.broker if controller else None,
        controller_epoch=won.epoch if won else 0,
        registered=frozenset(one for name in names if (one := number_of(name)) is not None),
        partitions=seen,
        open_moves=len(asked.moves) if asked else 0,
    )


def high_watermark(folder: Path, partition: int) -> int:
    """The high watermark of a replica, from its broker's file; 0 where there is no file yet."""
    try:
        return decode_high_watermark((folder / f"{TOPIC}-{partition}" / HIGH_WATERMARK).read_bytes()) or 0
    except OSError:
        return 0


def values_of(folder: Path, partition: int) -> tuple[bytes, ...]:
    """The value of every record of a replica, from a stopped broker's files; none where it has no files."""
    return tuple(record.value or b"" for record in values_in(folder, TopicPartition(TOPIC, partition)))


def values_in(folder: Path, tp: TopicPartition) -> tuple[Record, ...]:
    """Every record of a replica, from a stopped broker's files; none where it has no files."""
    return tuple(all_records(stored_records(DiskStorage(folder), tp)))


TURN_S = 0.05
ENDED_WAIT_S = 10.0


class Producer:
    """Produces a number of records per second in its own thread; `lift_limit` removes the limit.

    A line of the input is a value, and its airport the key.
    """

    def __init__(self, zookeeper: str, lines: Sequence[bytes], partitions: int, per_s: int) -> None:
        """Starts the thread."""
        self._zookeeper = zookeeper
        self._lines = lines
        self._records = [self._record(line, partitions) for line in lines]
        self._per_s = per_s
        self._hurried = self._stopped = False
        self.acknowledged: list[Acknowledged] = []
        """Grows while the thread runs."""
        self.bytes = 0
        """Size of the acknowledged values."""
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="demo-producer", daemon=True)
        self._thread.start()

    def lift_limit(self) -> None:
        """Sends the remaining records without a limit."""
        self._hurried = True

    @property
    def ended(self) -> bool:
        """Whether the thread has ended: every record is acknowledged, or `error` is set."""
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raises the error that ended the thread, if any."""
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Stops the thread; records not acknowledged yet are given up."""
        self._stopped = True
        self._thread.join(ENDED_WAIT_S)

    def _run(self) -> None:
        try:
            with ZooKeeperClient(self._zookeeper) as client, Blocking(client) as zk:
                zk.wait_connected()
                cluster = ClusterReader(Ensemble(zk, SystemClock()))
                producer = RecordProducer(cluster, TOPIC, self._on_delivery)
                try:
                    self._produce(producer)
                finally:
                    producer.close()
        except Exception as error:  # noqa: BLE001 - raised again by `check`
            self.error = error

    def _produce(self, producer: RecordProducer) -> None:
        began_s, sent = time.monotonic(), 0
        while len(self.acknowledged) < len(self._records) and not self._stopped:
            due = len(self._records)
            if not self._hurried:
                due = min(due, int((time.monotonic() - began_s) * self._per_s))
            for record in self._records[sent:due]:
                producer.send(record)
            sent = max(sent, due)
            producer.check()
            time.sleep(TURN_S)

    @staticmethod
    def _record(line: bytes, partitions: int) -> NewRecord:
        airport, _ = airport_and_delay(line)
        return NewRecord(line, airport.encode("ascii"), partition=partition_of(airport, partitions))

    def _on_delivery(self, delivery: DeliveryReport) -> None:
        if delivery.outcome is not Outcome.ACKNOWLEDGED:
            return
        line = self._lines[delivery.number]
        self.bytes += len(line)
        self.acknowledged.append(
            Acknowledged(delivery.number, delivery.partition, delivery.offset, line, delivery.may_be_repeated)
        )


BROKERS = (1, 2, 3, 4)
PARTITIONS = 24
REPLICATION = 3
GROUP = "demo"
READ_EVERY_S = 0.4
END_WAIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersDemoOptions:
    """Options of the demo. It always starts its own ensemble, because the checks read the servers' files."""

    keep: bool = False
    """Keep the files afterwards."""
    lines_per_s: int = 450
    """Speed of the producer, until the last reassignment is done."""
    session_timeout_ms: int = 4_000
    timeout_s: float = RUN_S


@dataclass(kw_only=True)
class DemoCluster(DemoRun[ClusterView]):
    """The processes of one run, and the state last read."""

    options: BrokersDemoOptions
    folder: Path
    lines: tuple[bytes, ...]
    zookeeper: str = ""
    ensemble: Ensemble = field(init=False)
    brokers: dict[int, BrokerChild] = field(default_factory=dict)
    """The newest process of each broker."""
    former: list[BrokerChild] = field(default_factory=list)
    """Processes that were killed and replaced by a newer one."""
    members: list[MemberChild] = field(default_factory=list)
    producer: Producer | None = None
    seen: ClusterState = EMPTY_CLUSTER
    group: group_state.DemoGroupState = group_state.EMPTY_GROUP

    def spawn(self, broker: int) -> BrokerChild:
        """Starts a broker process that waits for its settings; the broker's earlier process has ended."""
        if broker in self.brokers:
            self.former.append(self.brokers[broker])
        made = BrokerChild(broker, self.data_of(broker), self.folder / f"broker-{broker}.log")
        self.brokers[broker] = made
        return made

    def data_of(self, broker: int) -> Path:
        """The broker's data folder."""
        return self.folder / f"broker-{broker}"

    def files_of(self, broker: int) -> list[Path]:
        """The files with records in the broker's folder."""
        return sorted(self.data_of(broker).glob(f"{TOPIC}-*/*.log"))

    def start_broker(self, broker: int) -> None:
        """Sends the broker its settings, so that it starts serving."""
        self.brokers[broker].send_settings(self.zookeeper, self.options.session_timeout_ms)
        self.log(f"broker {broker} starts (process {self.brokers[broker].pid})")

    def restart_broker(self, broker: int) -> None:
        """Restarts a broker on its old folder; returns once every replica is in sync again."""
        self.spawn(broker)
        self.start_broker(broker)
        self.headline = f"broker {broker} is back and catches up"
        self.until(f"broker {broker} is back and in sync", lambda: self.is_back(broker))
        self.log(f"broker {broker} is back; every replica is in sync", "good")

    def is_back(self, broker: int) -> bool:
        """Whether the broker is registered again and every replica is in sync."""
        return self.brokers[broker].state == "serving" and self.seen.is_whole

    def start_consumer(self, name: str) -> None:
        """Starts a consumer."""
        child_settings = MemberChildSettings(
            name=name,
            zookeeper=self.zookeeper,
            group=GROUP,
            source=None,
            output=str(self.folder / f"{name}.processed.jsonl"),
            history=str(self.folder / f"{name}.history.jsonl"),
            records_per_s=5_000,
            session_timeout_ms=6_000,
            server_tick_ms=500,
            connection=ClientSettings(),
        )
        self.members.append(MemberChild(child_settings, self.folder / f"{name}.log"))

    def stop_consumers(self) -> None:
        """Stops the consumers in order."""
        for one in self.members:
            one.terminate()
        self.until("the consumers have left", lambda: all(one.ended for one in self.members))
        for one in self.members:
            one.wait(0)
        self.refresh()

    def stop_brokers(self) -> None:
        """Stops all brokers at once; their files are complete afterwards."""
        for broker in self.brokers.values():
            if not broker.ended:
                broker.close_stdin()
        until_s = time.monotonic() + END_WAIT_S
        for broker in self.brokers.values():
            broker.wait(max(until_s - time.monotonic(), 0))
            broker.close()

    def close(self) -> None:
        """Stops every process and the producer."""
        if self.producer is not None:
            self.producer.close()
        for child in (*self.members, *self.brokers.values(), *self.former):
            child.close()

    def refresh(self) -> None:
        """Reads the cluster, the group and the processes' events, and shows them."""
        self.seen = read_cluster(self.ensemble, PARTITIONS)
        if self.members:
            self.group = group_state.read_group(self.ensemble, GROUP)
        for child in (*self.members, *self.brokers.values()):
            child.poll_events()
        self.screen.show(self.view())

    def view(self) -> ClusterView:
        """The view of what was read last."""
        return ClusterView(
            elapsed_s=self.elapsed_s,
            zookeeper=self.zookeeper,
            headline=self.headline,
            brokers=[self._row(one) for _, one in sorted(self.brokers.items())],
            partitions=[self._partition(number) for number in sorted(self.seen.partitions)],
            acknowledged=len(self.acknowledged),
            consumed=self.consumed,
            total=len(self.lines),
            open_moves=self.seen.open_moves,
            events=tuple(self.events),
        )

    @property
    def acknowledged(self) -> list[Acknowledged]:
        """Every record acknowledged so far."""
        return self.producer.acknowledged if self.producer is not None else []

    def ends(self) -> Mapping[int, int]:
        """Partition to high watermark."""
        return {number: self._partition(number).high_watermark for number in self.seen.partitions}

    @property
    def consumed(self) -> int:
        """Number of records that the group has committed."""
        return sum(value for value in self.group.offsets.values() if value > 0)

    def check(self) -> None:
        """Raises where a process ended by itself or the producer failed."""
        for child in (*self.members, *self.brokers.values()):
            child.check()
        if self.producer is not None:
            self.producer.check()

    def _row(self, process: BrokerChild) -> BrokerRow:
        broker, seen = process.broker, self.seen
        return BrokerRow(
            broker=broker,
            pid=process.pid,
            state=process.state,
            controller_epoch=seen.controller_epoch if seen.controller == broker else None,
            leads=seen.leads(broker),
            in_sync=seen.in_sync(broker),
            hosts=seen.hosts(broker),
        )

    def _partition(self, number: int) -> LedPartitionRow:
        one = self.seen.partitions[number]
        text = [one.leader] if one.leader is not None else one.replicas
        mark = max((high_watermark(self.data_of(broker), number) for broker in text), default=0)
        return LedPartitionRow(number, one.leader, one.leader_epoch, one.isr, one.replicas, mark)
