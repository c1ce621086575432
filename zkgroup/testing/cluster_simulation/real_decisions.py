"""What a controller of Kafka 0.8.2.2 decides, and how it tells it: no fences, and nothing is held back."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from zkgroup.model import TopicPartition
from zkgroup.wire.control import (
    Broker,
    LeaderAndIsrRequest,
    PartitionStateInfo,
    UpdateMetadataRequest,
)
from zkgroup.znodes.brokers import NO_LEADER, PartitionState

Brokers = tuple[int, ...]


@dataclass
class Cluster:
    """What it remembers."""

    live: dict[int, int] = field(default_factory=dict)
    """Broker to the czxid of its registration."""
    topics: dict[str, dict[int, Brokers]] = field(default_factory=dict)
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    versions: dict[TopicPartition, int] = field(default_factory=dict)

    def partitions(self) -> Iterator[TopicPartition]:
        for name, lists in sorted(self.topics.items()):
            for number in sorted(lists):
                yield TopicPartition(name, number)

    def replicas(self, tp: TopicPartition) -> Brokers:
        return self.topics.get(tp.topic, {}).get(tp.partition, ())


def first_state(replicas: Brokers, live: Collection[int], epoch: int) -> PartitionState | None:
    """The first live replica leads, all live ones are in sync; None where none lives."""
    able = tuple(each for each in replicas if each in live)
    return PartitionState(able[0], 0, able, epoch) if able else None


def led_anew(
    state: PartitionState, replicas: Sequence[int], live: Collection[int], epoch: int
) -> PartitionState | None:
    """Offline selector, unclean election disabled."""
    if state.leader in live:
        return None
    in_sync = tuple(each for each in state.isr if each in live)
    leader = next((each for each in replicas if each in in_sync), None)
    if leader is None:
        return None
    return dataclasses.replace(
        state, leader=leader, isr=in_sync, leader_epoch=state.leader_epoch + 1, controller_epoch=epoch
    )


def without(state: PartitionState, broker: int, epoch: int) -> PartitionState | None:
    """The broker leaves the ISR; the last one stays, as unclean election is disabled (3.4)."""
    if broker not in state.isr:
        return None
    left = tuple(each for each in state.isr if each != broker) or state.isr
    leader = NO_LEADER if state.leader == broker else state.leader
    return dataclasses.replace(
        state, leader=leader, isr=left, leader_epoch=state.leader_epoch + 1, controller_epoch=epoch
    )


def orders_of(
    cluster: Cluster, controller: int, epoch: int, partitions: Iterable[TopicPartition], to: Collection[int]
) -> Iterator[tuple[int, LeaderAndIsrRequest]]:
    """LeaderAndIsr to each of these brokers, of what it replicates."""
    asked = list(partitions)
    for broker in sorted(to):
        infos = tuple(_infos(cluster, [tp for tp in asked if broker in cluster.replicas(tp)]))
        if infos and broker in cluster.live:
            leaders = tuple(
                _address(each) for each in sorted({i.leader for i in infos}) if each in cluster.live
            )
            yield broker, LeaderAndIsrRequest(controller, epoch, infos, leaders)


def metadata_of(
    cluster: Cluster, controller: int, epoch: int, partitions: Iterable[TopicPartition]
) -> UpdateMetadataRequest:
    """UpdateMetadata of these partitions, with the live brokers."""
    live = tuple(_address(each) for each in sorted(cluster.live))
    return UpdateMetadataRequest(controller, epoch, tuple(_infos(cluster, partitions)), live)


def _infos(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Iterator[PartitionStateInfo]:
    for tp in partitions:
        state = cluster.states.get(tp)
        if state is not None:
            yield PartitionStateInfo(
                *tp,
                state.controller_epoch,
                state.leader,
                state.leader_epoch,
                state.isr,
                cluster.versions[tp],
                cluster.replicas(tp),
            )


def _address(broker: int) -> Broker:
    return Broker(broker, f"h{broker}", 9092)
