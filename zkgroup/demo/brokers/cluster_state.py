"""The state of the cluster as the demo shows it, read from ZooKeeper and the brokers' folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zkgroup.demo.flight_data import TOPIC
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.snapshot import decode_or_error
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic, broker_ids_path
from zkgroup.znodes.controller import Controller, ControllerEpoch
from zkgroup.znodes.ids import number_of


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
