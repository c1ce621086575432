"""The cluster of the demo: its processes, the state last read, and waiting for a state."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zkgroup.demo.brokers import cluster_state
from zkgroup.demo.brokers.producer import Producer
from zkgroup.demo.brokers.proof import Acknowledged
from zkgroup.demo.brokers.view import BrokerRow, ClusterView, PartitionRow
from zkgroup.demo.brokers.worker import BrokerProcess
from zkgroup.demo.flight_data import TOPIC
from zkgroup.demo.members import group_state as group_sight
from zkgroup.demo.members.worker import MemberProcess, MemberProcessSettings
from zkgroup.demo.progress import Progress
from zkgroup.groups.ensemble import Ensemble
from zkgroup.zookeeper import ClientSettings

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
    seen: cluster_state.ClusterState = cluster_state.EMPTY_CLUSTER
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
        self.seen = cluster_state.read_cluster(self.ensemble, PARTITIONS)
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
        mark = max((cluster_state.high_watermark(self.data_of(broker), number) for broker in told), default=0)
        return PartitionRow(number, one.leader, one.leader_epoch, one.isr, one.replicas, mark)
