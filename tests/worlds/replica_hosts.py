"""Replica hosts for tests: both that are shipped, behind one way to make, restart and lose them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from zkgroup.broker.directory import DirectoryReplicaHost
from zkgroup.broker.memory_host import MemoryPlace, MemoryReplicaHost
from zkgroup.broker.replica_host import ReplicaHost, ReplicaView
from zkgroup.broker.replication.epochs import Epochs
from zkgroup.model import TopicPartition
from zkgroup.wire.error_codes import ErrorCode
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


class Hosts(Protocol):
    """Makes the hosts of brokers; a broker's host finds what its last one left."""

    def open(self, broker: int) -> ReplicaHost: ...

    def lose(self, broker: int) -> None:
        """What a closed host has left behind is gone."""
        ...

    def epochs(self, broker: int) -> Epochs:
        """The leader epochs that a broker's log of `TP` is marked with."""
        ...

    def lines(self, broker: int) -> list[bytes]:
        """The lines that a broker has of `TP`, whatever its role."""
        ...


class MemoryHosts:
    """Hosts in memory."""

    def __init__(self) -> None:
        self._places: dict[int, MemoryPlace] = {}

    def open(self, broker: int) -> ReplicaHost:
        return MemoryReplicaHost(broker, self._places.setdefault(broker, MemoryPlace()))

    def lose(self, broker: int) -> None:
        self._places[broker].lose()

    def epochs(self, broker: int) -> Epochs:
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

    def open(self, broker: int) -> ReplicaHost:
        return DirectoryReplicaHost(broker, self.base / str(broker), "cluster")

    def lose(self, broker: int) -> None:
        shutil.rmtree(self.base / str(broker), ignore_errors=True)

    def epochs(self, broker: int) -> Epochs:
        text = (self.base / str(broker) / TP.topic / f"{TP.partition}.epochs").read_text()
        starts = [tuple(map(int, line.split())) for line in text.splitlines()]
        epochs = Epochs()
        for leader_epoch, offset in starts:
            epochs = epochs.begin(leader_epoch, offset)
        return epochs

    def lines(self, broker: int) -> list[bytes]:
        path = self.base / str(broker) / TP.topic / f"{TP.partition}.jsonl"
        return path.read_bytes().splitlines() if path.exists() else []


def append(host: ReplicaHost, leader_epoch: int, *lines: bytes) -> AppendLinesResponse:
    return host.append(AppendLinesRequest(TP.topic, TP.partition, leader_epoch, 1, lines))


def fetch(
    host: ReplicaHost,
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


def changes_of(host: ReplicaHost) -> Callable[[], int]:
    """Counts what a host tells its listener of `TP` from now on."""
    told: list[TopicPartition] = []
    host.listen(told.append)
    return lambda: told.count(TP)


def pair(one: ReplicaHost, two: ReplicaHost, leader_epoch: int = 0) -> None:
    """Broker 1 leads and broker 2 follows, both in the ISR."""
    assert one.become_leader(TP, leader_epoch, (1, 2), {1, 2}) is ErrorCode.NONE
    assert two.become_follower(TP, leader_epoch) is ErrorCode.NONE


def end(host: ReplicaHost) -> int | None:
    return host.log_end_offset(TP)


def watermark(host: ReplicaHost) -> int | None:
    return host.high_watermark(TP)


def view(host: ReplicaHost) -> ReplicaView:
    seen = host.view(TP)
    assert seen is not None
    return seen


def asked(host: ReplicaHost) -> FetchLinesRequest:
    """What a follower asks next."""
    request = host.next_fetch(TP, broker_epoch=0, max_bytes=100, max_wait_ms=7)
    assert request is not None
    return request
