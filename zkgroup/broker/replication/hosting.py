"""The replicas of one broker, over whatever keeps their lines: what both shipped hosts are."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from types import TracebackType

from zkgroup.broker.replica_host import Failure, ReplicaView, Role
from zkgroup.broker.replication.line_log import LogPlace
from zkgroup.broker.replication.replica import Following, Replica, no_append, no_fetch
from zkgroup.errors import ConfigError, ReplicaStorageError
from zkgroup.model import TopicPartition
from zkgroup.wire.error_codes import ErrorCode
from zkgroup.wire.replica_host import (
    CONSUMER,
    NO_EPOCH,
    OBSERVER,
    AppendLinesRequest,
    AppendLinesResponse,
    FetchLinesRequest,
    FetchLinesResponse,
)
from zkgroup.znodes.ids import validate_topic

log = logging.getLogger("zkgroup.broker")


class HostedReplicas:
    """A `ReplicaHost` over a `LogPlace`. Its methods are described there."""

    def __init__(self, broker: int, place: LogPlace, wall_ms: Callable[[], int] | None = None) -> None:
        """`broker` is the id of the broker whose replicas these are; `wall_ms` tells when one has failed."""
        self.broker = broker
        self._wall_ms = wall_ms or _system_wall_ms
        self._failed_at_ms: dict[TopicPartition, int] = {}
        """When each replica failed that has not been well since."""
        self._place = place
        self._replicas: dict[TopicPartition, Replica] = {}
        self._failures: dict[TopicPartition, str] = {}
        """Of replicas that are not open: why they have no role."""
        self._stranded: dict[TopicPartition, Following] = {}
        """Of these, the followers whose files failed: `reopen` may take them up again."""
        self._broker_epochs: dict[int, int] = {}
        """The latest incarnation of each follower that has fetched."""
        self._listeners: list[Callable[[TopicPartition], None]] = []
        self._failure_listeners: list[Callable[[TopicPartition, str], None]] = []

    @property
    def incarnation(self) -> str:
        return self._place.incarnation

    # --- what the controller says -----------------------------------------------------------------

    def become_leader(
        self,
        topic_partition: TopicPartition,
        leader_epoch: int,
        replicas: Collection[int],
        isr: Collection[int],
    ) -> ErrorCode:
        self._stranded.pop(topic_partition, None)
        with self._changing(topic_partition, is_answered=True):
            replica = self._known(topic_partition)
            if replica is None and leader_epoch == 0:
                replica = self._made(topic_partition, leader_epoch)
            if replica is not None:
                return replica.lead(leader_epoch, replicas, isr)
            self._note_failure(
                topic_partition, f"cannot lead in epoch {leader_epoch}: there is nothing of it here"
            )
        return ErrorCode.KAFKA_STORAGE_ERROR

    def become_follower(self, topic_partition: TopicPartition, leader_epoch: int) -> ErrorCode:
        self._stranded.pop(topic_partition, None)
        with self._changing(topic_partition):
            replica = self._known(topic_partition) or self._made(topic_partition, leader_epoch)
            return replica.follow(leader_epoch)
        return ErrorCode.KAFKA_STORAGE_ERROR

    def stop(self, topic_partition: TopicPartition) -> None:
        self._failures.pop(topic_partition, None)
        self._failed_at_ms.pop(topic_partition, None)
        self._stranded.pop(topic_partition, None)
        if (replica := self._replicas.get(topic_partition)) is not None:
            with self._changing(topic_partition):
                replica.stop()

    def delete(self, topic_partition: TopicPartition) -> ErrorCode:
        self.stop(topic_partition)
        with self._changing(topic_partition):
            if (replica := self._replicas.pop(topic_partition, None)) is not None:
                replica.close()
            self._place.delete(_named(topic_partition))
            return ErrorCode.NONE
        return ErrorCode.KAFKA_STORAGE_ERROR

    # --- what a leader does -----------------------------------------------------------------------

    def set_replicas(
        self, topic_partition: TopicPartition, leader_epoch: int, replicas: Collection[int]
    ) -> None:
        if (replica := self._replicas.get(topic_partition)) is not None:
            with self._changing(topic_partition):
                replica.assign(leader_epoch, replicas)

    def set_isr(self, topic_partition: TopicPartition, leader_epoch: int, isr: Collection[int]) -> None:
        if (replica := self._replicas.get(topic_partition)) is not None:
            with self._changing(topic_partition):
                replica.count(leader_epoch, isr)

    def append(self, request: AppendLinesRequest) -> AppendLinesResponse:
        topic_partition = TopicPartition(request.topic, request.partition)
        if (replica := self._replicas.get(topic_partition)) is None:
            return no_append(self._absence(topic_partition))
        end_offset = replica.end_offset
        with self._changing(topic_partition):
            return replica.append(request)
        return AppendLinesResponse(ErrorCode.NOT_LEADER_FOR_PARTITION, end_offset, -1)

    def counted(self, topic_partition: TopicPartition) -> int | None:
        replica = self._replicas.get(topic_partition)
        return None if replica is None else replica.counted

    def keeps(self, topic_partition: TopicPartition, leader_epoch: int, end_offset: int) -> bool:
        replica = self._replicas.get(topic_partition)
        return replica is not None and replica.keeps(leader_epoch, end_offset)

    def fetch(self, request: FetchLinesRequest, *, held: bool = False) -> FetchLinesResponse:
        topic_partition = TopicPartition(request.topic, request.partition)
        if not self._is_latest_incarnation(request):
            return no_fetch(ErrorCode.STALE_BROKER_EPOCH)
        if (replica := self._replicas.get(topic_partition)) is None:
            return no_fetch(self._absence(topic_partition))
        with self._changing(topic_partition):
            return replica.fetch(request, held=held)
        return no_fetch(ErrorCode.NOT_LEADER_FOR_PARTITION)

    def _is_latest_incarnation(self, request: FetchLinesRequest) -> bool:
        if request.replica_id in (CONSUMER, OBSERVER):
            return True
        known = self._broker_epochs.get(request.replica_id, request.broker_epoch)
        self._broker_epochs[request.replica_id] = max(known, request.broker_epoch)
        return request.broker_epoch >= known

    def _absence(self, topic_partition: TopicPartition) -> ErrorCode:
        if topic_partition in self._failures:
            return ErrorCode.NOT_LEADER_FOR_PARTITION
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # --- what a follower does ---------------------------------------------------------------------

    def next_fetch(
        self, topic_partition: TopicPartition, *, broker_epoch: int, max_bytes: int, max_wait_ms: int
    ) -> FetchLinesRequest | None:
        replica = self._replicas.get(topic_partition)
        return None if replica is None else replica.next_fetch(broker_epoch, max_bytes, max_wait_ms)

    def take(self, request: FetchLinesRequest, response: FetchLinesResponse) -> bool:
        topic_partition = TopicPartition(request.topic, request.partition)
        if (replica := self._replicas.get(topic_partition)) is None:
            return True
        with self._changing(topic_partition):
            return replica.take(request, response)
        return False

    def reopen(self, topic_partition: TopicPartition) -> bool:
        if (stranded := self._stranded.get(topic_partition)) is None:
            return False
        with self._changing(topic_partition):
            if (replica := self._known(topic_partition)) is not None:
                return replica.follow(*stranded) is ErrorCode.NONE
            self._note_failure(topic_partition, "its files are gone")
            del self._stranded[topic_partition]
        return False

    # --- what is known ----------------------------------------------------------------------------

    def partitions(self) -> Collection[TopicPartition]:
        return tuple(sorted({*self._replicas, *self._place.partitions()}))

    def view(self, topic_partition: TopicPartition) -> ReplicaView | None:
        if (replica := self._replicas.get(topic_partition)) is not None:
            return replica.view()
        if (failure := self._failures.get(topic_partition)) is not None:
            return ReplicaView(Role.NONE, NO_EPOCH, 0, 0, -1, failure=failure)
        try:
            opened = self._known(topic_partition)
        except ReplicaStorageError as error:
            self._note_failure(topic_partition, str(error))
            return self.view(topic_partition)
        return None if opened is None else opened.view()

    def failures(self) -> Mapping[TopicPartition, Failure]:
        found = {tp: why for tp, one in self._replicas.items() if (why := one.trouble) is not None}
        found |= self._failures
        return {tp: Failure(found[tp], self._failed_at_ms[tp]) for tp in sorted(found)}

    def log_end_offset(self, topic_partition: TopicPartition) -> int | None:
        view = self.view(topic_partition)
        return None if view is None else view.log_end_offset

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        view = self.view(topic_partition)
        return None if view is None else view.high_watermark

    def caught_up(self, topic_partition: TopicPartition, broker: int) -> bool:
        replica = self._replicas.get(topic_partition)
        return replica is not None and replica.has_caught_up(broker)

    def listen(self, listener: Callable[[TopicPartition], None]) -> None:
        self._listeners.append(listener)

    def listen_to_failures(self, listener: Callable[[TopicPartition, str], None]) -> None:
        self._failure_listeners.append(listener)

    def close(self) -> None:
        replicas, self._replicas = self._replicas, {}
        for replica in replicas.values():
            replica.close()
        self._failures.clear()
        self._place.close()

    # --- opening and failing ----------------------------------------------------------------------

    def _known(self, topic_partition: TopicPartition) -> Replica | None:
        """The replica if there is one, opened where it was not."""
        if (replica := self._replicas.get(topic_partition)) is not None:
            return replica
        lines = self._place.open(_named(topic_partition))
        if lines is None:
            return None
        return self._enter(topic_partition, Replica(self.broker, topic_partition, lines))

    def _made(self, topic_partition: TopicPartition, leader_epoch: int) -> Replica:
        """A replica without lines. In the first term of a partition nothing can be missing in it."""
        lines = self._place.create(_named(topic_partition), high_watermark=0 if leader_epoch == 0 else None)
        return self._enter(topic_partition, Replica(self.broker, topic_partition, lines))

    def _enter(self, topic_partition: TopicPartition, replica: Replica) -> Replica:
        self._failures.pop(topic_partition, None)
        self._stranded.pop(topic_partition, None)
        self._replicas[topic_partition] = replica
        return replica

    def _changing(self, topic_partition: TopicPartition, *, is_answered: bool = False) -> _Change:
        return _Change(self, topic_partition, is_answered)

    def _tell(self, topic_partition: TopicPartition) -> None:
        for listener in self._listeners:
            listener(topic_partition)

    def _mark(self, topic_partition: TopicPartition) -> tuple[object, ...] | None:
        replica = self._replicas.get(topic_partition)
        return None if replica is None else replica.mark

    def _note_failure(self, topic_partition: TopicPartition, failure: str) -> None:
        log.error("%s: %s", topic_partition, failure)
        self._failures[topic_partition] = failure
        self._note_time(topic_partition)

    def _note_time(self, topic_partition: TopicPartition) -> None:
        """An attempt to go on that is in vain does not make a failure a new one."""
        replica = self._replicas.get(topic_partition)
        if topic_partition in self._failures or (replica is not None and replica.trouble is not None):
            self._failed_at_ms.setdefault(topic_partition, self._wall_ms())
        else:
            self._failed_at_ms.pop(topic_partition, None)

    def _put_away(self, topic_partition: TopicPartition, failure: str, is_answered: bool) -> None:
        led = False
        if (replica := self._replicas.pop(topic_partition, None)) is not None:
            if (following := replica.following) is not None:
                self._stranded[topic_partition] = following
            led = replica.leads
            replica.close()
        self._note_failure(topic_partition, failure)
        if led and not is_answered:
            for listener in self._failure_listeners:
                listener(topic_partition, failure)


class _Change:
    """Around what may change a replica. Listeners are told of what has changed; where the lines cannot be
    kept, the replica is put away."""

    def __init__(self, host: HostedReplicas, topic_partition: TopicPartition, is_answered: bool) -> None:
        """`is_answered`: whether the controller gets to know of a failure."""
        self._host = host
        self._topic_partition = topic_partition
        self._is_answered = is_answered
        self._before = host._mark(topic_partition)

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        failed = isinstance(error, ReplicaStorageError)
        if failed:
            self._host._put_away(self._topic_partition, str(error), self._is_answered)
        self._host._note_time(self._topic_partition)
        if self._host._mark(self._topic_partition) != self._before:
            self._host._tell(self._topic_partition)
        return failed


def _system_wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _named(topic_partition: TopicPartition) -> TopicPartition:
    """The partition, if it can name files. Raises ReplicaStorageError."""
    try:
        validate_topic(topic_partition.topic)
    except ConfigError as error:
        raise ReplicaStorageError(str(error)) from error
    if topic_partition.partition < 0:
        raise ReplicaStorageError(f"{topic_partition}: expected a partition of 0 or above")
    return topic_partition
