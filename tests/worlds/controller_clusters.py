"""Small clusters as the `ControllerContext` holds them."""

from __future__ import annotations

from collections.abc import Mapping

from tests.worlds.stepped_electors import EPOCH
from zkgroup.controller.machine.context import (
    Brokers,
    ControllerContext,
    LeaderIsrAndControllerEpoch,
    LiveBroker,
)
from zkgroup.controller.machine.controller_election.elector import FENCE_PATHS, Elector, Work
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Read, SetData
from zkgroup.runtime.procedures import Procedure, Query, ask, write
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.zookeeper.blocking import Blocking


class Writer:
    """A handler that writes as often as wanted, each time under the fence."""

    def __init__(self, wanted: int = 0) -> None:
        self.wanted = wanted

    def __call__(self, election: Elector) -> Work | None:
        won = election.won
        if not self.wanted or won is None:
            return None
        return "write", lambda: self._write(won.fence)

    def _write(self, fence: Fence) -> Procedure[None]:
        self.wanted -= 1
        yield from write([*fence.checks(), SetData("/work", b"x", 0)], FENCE_PATHS)


def fails() -> Procedure[None]:
    yield from ask(Query(Read(EPOCH)))
    raise ValueError("an unreadable znode")


def tp(partition: int, topic: str = "t") -> TopicPartition:
    """A partition."""
    return TopicPartition(topic, partition)


def broker(id_: int, epoch: int = 1, version: int = 1, role: str | None = None) -> LiveBroker:
    """A registered broker; its port shows its id."""
    extensions = {} if role is None else {"zkgroup": {"role": role}}
    registration = BrokerRegistration("h", 9000 + id_, version, 0, extensions=extensions)
    return LiveBroker(registration, epoch)


def leadership(
    leader: int, isr: Brokers, leader_epoch: int = 0, version: int = 0, epoch: int = 1
) -> LeaderIsrAndControllerEpoch:
    """A state."""
    return LeaderIsrAndControllerEpoch(PartitionState(leader, leader_epoch, isr, epoch), version)


def cluster(
    topics: Mapping[str, Mapping[int, Brokers]],
    brokers: Brokers = (1, 2, 3),
    *,
    leaders: Mapping[TopicPartition, int] | None = None,
) -> ControllerContext:
    """Brokers at epoch 1 and topics at version 0; each partition is in sync and led by its first replica."""
    picture = ControllerContext()
    picture.set_brokers({id_: broker(id_) for id_ in brokers})
    for name, partitions in topics.items():
        picture.topic_seen(name, Topic(dict(partitions)), 0)
        for number, replicas in partitions.items():
            leader = (leaders or {}).get(tp(number, name), replicas[0])
            picture.state_seen(tp(number, name), leadership(leader, replicas))
    return picture


def new_controller(zk: Blocking) -> Fence:
    """Creates `/controller` as a zkgroup controller in epoch 1 does."""
    zk.wait_connected()
    zk.create_missing("/controller_epoch")
    zk.multi(
        Create("/controller", b""), SetData("/controller", b"", 0), SetData("/controller_epoch", b"1", 0)
    )
    return Fence(epoch=1, version=1)
