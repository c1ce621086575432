"""Replica managers for tests: over both log directories, behind one way to make, restart and lose them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from zkgroup.broker.log.leader_epochs import LeaderEpochs
from zkgroup.broker.log.line_log import MemoryLogDir
from zkgroup.broker.log.log_dir import DiskLogDir
from zkgroup.broker.log.partition_files import Flush
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.replica_view import ReplicaView
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.replica_host import (
    CONSUMER,
    NO_BROKER_EPOCH,
    NO_EPOCH,
    AppendLinesRequest,
    AppendLinesResponse,
    FetchLinesRequest,
    FetchLinesResponse,
)

TP = TopicPartition("orders", 0)
EVERYTHING = 1 << 30


def in_memory(broker: int) -> ReplicaManager:
    """A manager whose lines nobody finds after it."""
    return ReplicaManager(broker, MemoryLogDir())


def on_disk(
    broker: int, folder: str | Path, cluster_id: str | None = None, flush: Flush = Flush.NONE
) -> ReplicaManager:
    """A manager over a broker's folder."""
    return ReplicaManager(broker, DiskLogDir(folder, broker, cluster_id, flush))


class Hosts(Protocol):
    """Makes the hosts of brokers; a broker's host finds what its last one left."""

    def open(self, broker: int) -> ReplicaManager: ...

    def lose(self, broker: int) -> None:
        """What a closed host has left behind is gone."""
        ...

    def epochs(self, broker: int) -> LeaderEpochs:
        """The leader epochs that a broker's log of `TP` is marked with."""
        ...

    def lines(self, broker: int) -> list[bytes]:
        """The lines that a broker has of `TP`, whatever its role."""
        ...


class MemoryHosts:
    """Hosts in memory."""

    def __init__(self) -> None:
        self._places: dict[int, MemoryLogDir] = {}

    def open(self, broker: int) -> ReplicaManager:
        return ReplicaManager(broker, self._places.setdefault(broker, MemoryLogDir()))

    def lose(self, broker: int) -> None:
        self._places[broker].lose()

    def epochs(self, broker: int) -> LeaderEpochs:
        log = self._places[broker].open(TP)
        assert log is not None
        return log.epochs

    def lines(self, broker: int) -> list[bytes]:
        log = self._places[broker].open(TP)
        batches = () if log is None else log.read(0, log.end_offset, EVERYTHING)
        return b"".join(batch.lines for batch in batches).splitlines()


class DirectoryHosts:
    """Hosts in folders below one."""

    def __init__(self, base: Path) -> None:
        self.base = base

    def open(self, broker: int) -> ReplicaManager:
        return on_disk(broker, self.base / str(broker), "cluster")

    def lose(self, broker: int) -> None:
        shutil.rmtree(self.base / str(broker), ignore_errors=True)

    def epochs(self, broker: int) -> LeaderEpochs:
        text = (self.base / str(broker) / TP.topic / f"{TP.partition}.epochs").read_text()
        starts = [tuple(map(int, line.split())) for line in text.splitlines()]
        epochs = LeaderEpochs()
        for leader_epoch, offset in starts:
            epochs = epochs.begin(leader_epoch, offset)
        return epochs

    def lines(self, broker: int) -> list[bytes]:
        path = self.base / str(broker) / TP.topic / f"{TP.partition}.jsonl"
        return path.read_bytes().splitlines() if path.exists() else []


def replicate(
    leader: ReplicaManager,
    follower: ReplicaManager,
    topic_partition: TopicPartition,
    *,
    until: int | None = None,
    broker_epoch: int = 0,
) -> bool:
    """What a follower's fetches do, without a network in between, batch by batch: up to the leader's end, or
    until `until` lines are there.

    The leader knows afterwards how far the follower has come. Returns whether it came that far.
    """
    while True:
        request = follower.next_fetch(topic_partition, broker_epoch=broker_epoch, max_bytes=1, max_wait_ms=0)
        if request is None:
            return False
        response = leader.fetch(request)
        if until is not None and request.offset >= until and response.diverging is None:
            return response.error == 0
        if not follower.take(request, response):
            return False
        if response.diverging is None and request.offset >= response.log_end_offset:
            return until is None


def append(host: ReplicaManager, leader_epoch: int, *lines: bytes) -> AppendLinesResponse:
    return host.append(AppendLinesRequest(TP.topic, TP.partition, leader_epoch, 1, lines))


def fetch(
    host: ReplicaManager,
    offset: int,
    *,
    replica: int = CONSUMER,
    leader_epoch: int = NO_EPOCH,
    last_fetched_epoch: int = NO_EPOCH,
    broker_epoch: int = NO_BROKER_EPOCH,
    max_bytes: int = EVERYTHING,
    held: bool = False,
) -> FetchLinesResponse:
    return host.fetch(
        FetchLinesRequest(
            replica_id=replica,
            broker_epoch=broker_epoch,
            topic=TP.topic,
            partition=TP.partition,
            leader_epoch=leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
            offset=offset,
            max_bytes=max_bytes,
            max_wait_ms=0,
        ),
        held=held,
    )


def text_of(response: FetchLinesResponse) -> bytes:
    return b"".join(batch.lines for batch in response.batches)


def changes_of(host: ReplicaManager) -> Callable[[], int]:
    """Counts what a host tells its listener of `TP` from now on."""
    told: list[TopicPartition] = []
    host.listen(told.append)
    return lambda: told.count(TP)


def pair(one: ReplicaManager, two: ReplicaManager, leader_epoch: int = 0) -> None:
    """Broker 1 leads and broker 2 follows, both in the ISR."""
    assert one.become_leader(TP, leader_epoch, (1, 2), {1, 2}) is ErrorCode.NONE
    assert two.become_follower(TP, leader_epoch) is ErrorCode.NONE


def end(host: ReplicaManager) -> int | None:
    return host.log_end_offset(TP)


def watermark(host: ReplicaManager) -> int | None:
    return host.high_watermark(TP)


def view(host: ReplicaManager) -> ReplicaView:
    seen = host.view(TP)
    assert seen is not None
    return seen


def asked(host: ReplicaManager) -> FetchLinesRequest:
    """What a follower asks next."""
    request = host.next_fetch(TP, broker_epoch=0, max_bytes=100, max_wait_ms=7)
    assert request is not None
    return request
