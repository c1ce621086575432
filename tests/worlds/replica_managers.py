"""Replica managers for tests, over both kinds of log directories, with one way to start and lose them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from tests.worlds.batches import records_of
from zkgroup.broker.log.checkpoints import LEADER_EPOCHS, decode_leader_epochs
from zkgroup.broker.log.data_dir import DataDir, stored_records
from zkgroup.broker.log.disk_storage import DiskStorage
from zkgroup.broker.log.leader_epochs import LeaderEpochs
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.log.storage import Flush, MemoryStorage, Storage
from zkgroup.broker.replica_view import AppendResult, FollowerId, ReplicaView
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.record_batch import all_records, read_header
from zkgroup.wire.records import NO_EPOCH, NO_EPOCH_END, EpochEnd, FetchedPartition, FetchPartition

TP = TopicPartition("orders", 0)
EVERYTHING = 1 << 30


def in_memory(broker: int) -> ReplicaManager:
    """A replica manager whose records are lost when it is closed."""
    return over(broker, MemoryStorage())


def over(broker: int, storage: MemoryStorage, wall_ms: Callable[[], int] = lambda: 1_000) -> ReplicaManager:
    """A replica manager of the logs that another one has left in a storage."""
    return ReplicaManager(broker, DataDir.in_memory(LogConfig(), wall_ms, storage), wall_ms)


def on_disk(
    broker: int, folder: str | Path, cluster_id: str | None = None, flush: Flush = Flush.NONE
) -> ReplicaManager:
    """A replica manager over a broker's folder."""
    config = LogConfig(flush=flush)
    data_dir = DataDir.on_disk(folder, broker, cluster_id, config, lambda: 1_000)
    return ReplicaManager(broker, data_dir, lambda: 1_000)


class Hosts(Protocol):
    """Creates the replica managers of brokers; a broker's next one reads what its last one left."""

    def open(self, broker: int) -> ReplicaManager: ...

    def lose(self, broker: int) -> None:
        """Deletes what a closed replica manager has left."""
        ...

    def epochs(self, broker: int) -> LeaderEpochs:
        """The leader epochs recorded in a broker's log of `TP`."""
        ...

    def records(self, broker: int) -> list[bytes]:
        """The records in a broker's log of `TP`, as a leader or as a follower."""
        ...

    def first_offset(self, broker: int) -> int:
        """The offset of the first of these records; 0 with none."""
        ...


class MemoryHosts:
    """Replica managers in memory."""

    def __init__(self) -> None:
        self._storages: dict[int, MemoryStorage] = {}

    def open(self, broker: int) -> ReplicaManager:
        return over(broker, self._storages.setdefault(broker, MemoryStorage()))

    def lose(self, broker: int) -> None:
        self._storages[broker].lose()

    def epochs(self, broker: int) -> LeaderEpochs:
        return _epochs_in(self._storages[broker])

    def records(self, broker: int) -> list[bytes]:
        return values_in(stored_records(self._storages[broker], TP))

    def first_offset(self, broker: int) -> int:
        return _first_offset(stored_records(self._storages[broker], TP))


class DirectoryHosts:
    """Replica managers in folders below one folder."""

    def __init__(self, base: Path) -> None:
        self.base = base

    def open(self, broker: int) -> ReplicaManager:
        return on_disk(broker, self.base / str(broker), "cluster")

    def lose(self, broker: int) -> None:
        shutil.rmtree(self.base / str(broker), ignore_errors=True)

    def epochs(self, broker: int) -> LeaderEpochs:
        return _epochs_in(DiskStorage(self.base / str(broker)))

    def records(self, broker: int) -> list[bytes]:
        return records_on_disk(self.base / str(broker), TP)

    def first_offset(self, broker: int) -> int:
        return _first_offset(stored_records(DiskStorage(self.base / str(broker)), TP))


def _first_offset(records: bytes) -> int:
    return read_header(records).base_offset if records else 0


def _epochs_in(storage: Storage) -> LeaderEpochs:
    return decode_leader_epochs(storage.read_all(f"{TP}/{LEADER_EPOCHS}") or b"")


def records_on_disk(folder: Path, tp: TopicPartition) -> list[bytes]:
    """The records of a partition in a broker's data folder."""
    return values_in(stored_records(DiskStorage(folder), tp))


def values_in(records: bytes) -> list[bytes]:
    """The records of record batches."""
    return list(_values_in(bytes(records)))


@lru_cache(maxsize=64)
def _values_in(records: bytes) -> tuple[bytes, ...]:
    """Replicas of one partition mostly hold the same bytes, and a schedule reads them after each step."""
    return tuple(record.value or b"" for record in all_records(records))


MOST_FETCHES = 10_000
"""Of `replicate`; no log of a test has so many batches."""


def replicate(
    leader: ReplicaManager,
    follower: ReplicaManager,
    topic_partition: TopicPartition,
    *,
    until: int | None = None,
    broker_epoch: int = 0,
) -> bool:
    """Fetches for a follower, batch by batch, without a network: to the leader's end, or to offset `until`.

    The leader then knows the follower's offset. Returns whether the follower came that far. Fails if it is
    still fetching after `MOST_FETCHES`.
    """
    for _ in range(MOST_FETCHES):
        request = follower.next_fetch(topic_partition, 1)
        if request is None:
            return False
        response = leader.fetch(topic_partition, request, FollowerId(follower.broker, broker_epoch))
        agrees = response.diverging == NO_EPOCH_END and response.error != ErrorCode.OFFSET_OUT_OF_RANGE
        if until is not None and request.offset >= until and agrees:
            return response.error == 0
        if not follower.take(topic_partition, request, response):
            return False
        if agrees and request.offset >= response.log_end_offset:
            return until is None
    raise AssertionError(f"{topic_partition}: the follower still fetches, from {request.offset}")


def append(host: ReplicaManager, leader_epoch: int, *values: bytes) -> AppendResult:
    """Appends records to `TP`, as a client that expects this leader epoch."""
    return host.append(TP, records_of(values, timestamp_ms=1), leader_epoch)


def fetch(
    host: ReplicaManager,
    offset: int,
    *,
    replica: int | None = None,
    leader_epoch: int = NO_EPOCH,
    last_fetched_epoch: int = NO_EPOCH,
    broker_epoch: int = -1,
    max_bytes: int = EVERYTHING,
    held: bool = False,
) -> FetchedPartition:
    """A fetch of `TP` by the follower on broker `replica`, or by a consumer."""
    request = FetchPartition(
        TP.partition,
        offset,
        max_bytes,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=last_fetched_epoch,
    )
    return host.fetch(TP, request, None if replica is None else FollowerId(replica, broker_epoch), held=held)


def fetched(
    error: int = 0,
    high_watermark: int = -1,
    end: int = -1,
    *,
    diverging: EpochEnd = NO_EPOCH_END,
    start: int = 0,
    records: bytes = b"",
) -> FetchedPartition:
    """A leader's answer to a follower of `TP`."""
    return FetchedPartition(
        TP.partition,
        error,
        high_watermark,
        log_start_offset=start,
        diverging=diverging,
        log_end_offset=end,
        records=records,
    )


def text_of(response: FetchedPartition) -> bytes:
    return b"".join(value + b"\n" for value in values_in(bytes(response.records or b"")))


def changes_of(host: ReplicaManager) -> Callable[[], int]:
    """A counter of the changes that the replica manager reports to a listener of `TP` from now on."""
    told: list[TopicPartition] = []
    host.listen(told.append)
    return lambda: told.count(TP)


def pair(one: ReplicaManager, two: ReplicaManager, leader_epoch: int = 0) -> None:
    """Makes broker 1 the leader and broker 2 the follower, both in the ISR."""
    assert one.become_leader(TP, leader_epoch, (1, 2), {1, 2}) is ErrorCode.NONE
    assert two.become_follower(TP, leader_epoch) is ErrorCode.NONE


def end(host: ReplicaManager) -> int | None:
    return log_end_offset(host, TP)


def watermark(host: ReplicaManager) -> int | None:
    return host.high_watermark(TP)


def view(host: ReplicaManager) -> ReplicaView:
    seen = host.view(TP)
    assert seen is not None
    return seen


def asked(host: ReplicaManager) -> FetchPartition:
    """The next fetch of a follower."""
    request = host.next_fetch(TP, 100)
    assert request is not None
    return request


def answered(leader: ReplicaManager, follower: ReplicaManager) -> tuple[FetchPartition, FetchedPartition]:
    """The next fetch of a follower, and the leader's answer."""
    request = asked(follower)
    return request, leader.fetch(TP, request, FollowerId(follower.broker, 0))


def log_end_offset(host: ReplicaManager, tp: TopicPartition) -> int | None:
    """The offset of the next record; None for a partition without a replica on this broker."""
    view = host.view(tp)
    return None if view is None else view.log_end_offset


def caught_up(host: ReplicaManager, tp: TopicPartition, broker: int) -> bool:
    """Whether this replica leads, and the replica of `broker` may join the ISR."""
    view = host.view(tp)
    follower = None if view is None else view.followers.get(broker)
    return follower is not None and follower.caught_up
