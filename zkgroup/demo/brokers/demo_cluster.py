"""The cluster of the demo: its processes, its producer, the state last read, and waiting for a state."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zkgroup.admin.cluster.brokers import Cluster
from zkgroup.demo.brokers.proof import Acknowledged
from zkgroup.demo.brokers.view import BrokerRow, ClusterView, PartitionRow
from zkgroup.demo.brokers.worker import BrokerProcess
from zkgroup.demo.flight_data import TOPIC, airport_and_delay, partition_of
from zkgroup.demo.members import group_state as group_sight
from zkgroup.demo.members.worker import MemberProcess, MemberProcessSettings
from zkgroup.demo.progress import Progress
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.snapshot import decode_or_error
from zkgroup.lines.producer import LineProducer
from zkgroup.lines.producing import Delivery, Outcome, ProducerSettings
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic, broker_ids_path
from zkgroup.znodes.controller import Controller, ControllerEpoch
from zkgroup.znodes.ids import number_of
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.clock import SystemClock


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """One partition."""

    replicas: tuple[int, ...]
    leader: int | None
    """None where nobody leads, or no state has been written."""
    leader_epoch: int
    isr: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """It is led, and every replica is in sync."""
        return self.leader in self.isr and set(self.isr) == set(self.replicas)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """One look at the cluster."""

    controller: int | None = None
    controller_epoch: int = 0
    registered: frozenset[int] = frozenset()
    partitions: Mapping[int, PartitionReplicas] = field(default_factory=dict)
    open_moves: int = 0
    """Entries of the request."""

    def leads(self, broker: int) -> int:
        """Partitions that it leads."""
        return sum(one.leader == broker for one in self.partitions.values())

    def hosts(self, broker: int) -> int:
        """Partitions with a replica on it."""
        return sum(broker in one.replicas for one in self.partitions.values())

    def in_sync(self, broker: int) -> int:
        """Partitions in whose ISR it is."""
        return sum(broker in one.isr for one in self.partitions.values())

    @property
    def is_led(self) -> bool:
        """Every partition is led by a broker that is registered."""
        return bool(self.partitions) and all(
            one.leader in self.registered for one in self.partitions.values()
        )

    @property
    def is_whole(self) -> bool:
        """Every replica of every partition is in sync."""
        return self.is_led and all(one.is_whole for one in self.partitions.values())


EMPTY_CLUSTER = ClusterState()


def read_cluster(ensemble: Ensemble, partitions: int) -> ClusterState:
    """Controller, brokers, the demo's topic and what is being moved, in two bulk reads."""
    zk = ensemble.zk
    states = {number: PartitionState.path(TopicPartition(TOPIC, number)) for number in range(partitions)}
    fixed = [Controller.path(), ControllerEpoch.path(), Reassignment.path(), Topic.path(TOPIC)]
    found = zk.read_many([*fixed, *states.values()])
    names = zk.list_many([broker_ids_path()])[broker_ids_path()] or ()
    ruler, epoch, request, topic = (found[path] for path in fixed)
    controller = decode_or_error(ruler, Controller.decode).value if ruler else None
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
    """Of a replica, by the file that its broker keeps; 0 where it has none yet."""
    try:
        return max(int((folder / TOPIC / f"{partition}.high-watermark").read_text()), 0)
    except (OSError, ValueError):
        return 0


def lines_of(folder: Path, partition: int) -> tuple[bytes, ...]:
    """Every line that a replica holds, by the file of a broker that has ended; none where it has no file."""
    try:
        data = (folder / TOPIC / f"{partition}.jsonl").read_bytes()
    except FileNotFoundError:
        return ()
    return tuple(data.split(b"\n")[:-1])


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


BROKERS = (1, 2, 3, 4)
PARTITIONS = 24
REPLICATION = 3
GROUP = "demo"
READ_EVERY_S = 0.4
END_WAIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """How the demo runs. It always starts an ensemble of its own: the proof reads the servers' files."""

    keep: bool = False
    """Leave the files for looking around."""
    lines_per_s: int = 450
    """Speed of the producer, until the last act is over."""
    session_timeout_ms: int = 4_000
    patience_s: float = 180.0
    """Longest time for the whole run, far beyond what it needs."""


@dataclass(kw_only=True)
class DemoCluster(Progress[ClusterView]):
    """One run: its processes, and what was seen last."""

    options: DemoOptions
    folder: Path
    lines: tuple[bytes, ...]
    zookeeper: str = ""
    ensemble: Ensemble = field(init=False)
    brokers: dict[int, BrokerProcess] = field(default_factory=dict)
    """The latest process of each."""
    former: list[BrokerProcess] = field(default_factory=list)
    """Those that were killed and started again."""
    members: list[MemberProcess] = field(default_factory=list)
    feed: Producer | None = None
    seen: ClusterState = EMPTY_CLUSTER
    group: group_sight.GroupState = group_sight.EMPTY_GROUP

    # --- processes --------------------------------------------------------------------------------

    def spawn(self, broker: int) -> BrokerProcess:
        """A process that waits for its orders; the former one of this broker has ended."""
        if broker in self.brokers:
            self.former.append(self.brokers[broker])
        made = BrokerProcess(broker, self.data_of(broker), self.folder / f"broker-{broker}.log")
        self.brokers[broker] = made
        return made

    def data_of(self, broker: int) -> Path:
        """Its folder."""
        return self.folder / f"broker-{broker}"

    def files_of(self, broker: int) -> list[Path]:
        """The lines in its folder."""
        return sorted((self.data_of(broker) / TOPIC).glob("*.jsonl"))

    def begin(self, broker: int) -> None:
        """Lets it begin."""
        self.brokers[broker].order(self.zookeeper, self.options.session_timeout_ms)
        self.tell(f"broker {broker} starts (process {self.brokers[broker].pid})")

    def start_again(self, broker: int) -> None:
        """With the folder that it had; returns once every replica is in sync again."""
        self.spawn(broker)
        self.begin(broker)
        self.headline = f"broker {broker} is back and catches up"
        self.until(f"broker {broker} is back and in sync", lambda: self.is_back(broker))
        self.tell(f"broker {broker} is back; every replica is in sync", "good")

    def is_back(self, broker: int) -> bool:
        """It is registered anew, and nobody lacks a line."""
        return self.brokers[broker].state == "serving" and self.seen.is_whole

    def join(self, name: str) -> None:
        """A consumer starts."""
        orders = MemberProcessSettings(
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
        self.members.append(MemberProcess(orders, self.folder / f"{name}.log"))

    def part(self) -> None:
        """The consumers leave."""
        for one in self.members:
            one.ask_to_stop()
        self.until("the consumers have left", lambda: all(one.ended for one in self.members))
        for one in self.members:
            one.wait(0)
        self.look()

    def dismiss(self) -> None:
        """The brokers leave at once, all together; their files are whole afterwards."""
        for broker in self.brokers.values():
            if not broker.ended:
                broker.hang_up()
        until_s = time.monotonic() + END_WAIT_S
        for broker in self.brokers.values():
            broker.wait(max(until_s - time.monotonic(), 0))
            broker.close()

    def close(self) -> None:
        """Nothing is left running."""
        if self.feed is not None:
            self.feed.close()
        for child in (*self.members, *self.brokers.values(), *self.former):
            child.close()

    # --- looking ----------------------------------------------------------------------------------

    def look(self) -> None:
        """Reads the cluster, the group and what the processes say, and shows it."""
        self.seen = read_cluster(self.ensemble, PARTITIONS)
        if self.members:
            self.group = group_sight.read_group(self.ensemble, GROUP)
        for child in (*self.members, *self.brokers.values()):
            child.news()
        self.screen.show(self.scene())

    def scene(self) -> ClusterView:
        """The present picture."""
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
            story=tuple(self.story),
        )

    @property
    def acknowledged(self) -> list[Acknowledged]:
        """Every line that was acknowledged so far."""
        return self.feed.acknowledged if self.feed is not None else []

    def ends(self) -> Mapping[int, int]:
        """The high watermark of each partition."""
        return {number: self._partition(number).high_watermark for number in self.seen.partitions}

    @property
    def consumed(self) -> int:
        """Lines that the group has committed."""
        return sum(value for value in self.group.offsets.values() if value > 0)

    def check(self) -> None:
        """Raises where a process has ended by itself, or the producer has failed."""
        for child in (*self.members, *self.brokers.values()):
            child.check()
        if self.feed is not None:
            self.feed.check()

    def _row(self, process: BrokerProcess) -> BrokerRow:
        broker, seen = process.broker, self.seen
        return BrokerRow(
            broker=broker,
            pid=process.pid,
            state=process.state,
            rules=seen.controller_epoch if seen.controller == broker else None,
            leads=seen.leads(broker),
            in_sync=seen.in_sync(broker),
            hosts=seen.hosts(broker),
        )

    def _partition(self, number: int) -> PartitionRow:
        one = self.seen.partitions[number]
        told = [one.leader] if one.leader is not None else one.replicas
        mark = max((high_watermark(self.data_of(broker), number) for broker in told), default=0)
        return PartitionRow(number, one.leader, one.leader_epoch, one.isr, one.replicas, mark)
