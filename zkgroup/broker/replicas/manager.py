"""The replicas of one broker, over its data directory.

A `ReplicaManager` keeps logs of record batches with their leader epochs, and the progress of followers. Other
parts of the broker connect to ZooKeeper, the controller and the network.

* It blocks for the disk only, and is called from one thread at a time (`ReplicaExecutor`). The caller waits
  for other brokers and for new records (`max_wait_ms`, acks=all); `listen` notifies it when to call again.
* An error of a peer, a client or the disk is returned as an error code, not raised. A partition whose files
  fail has no role from then on (`ReplicaView.failure`, `reopen`); the other partitions are not affected.
  `IllegalTransitionError` is a bug of the caller.
* Offsets are counts of records from 0. Leader epochs never decrease for a partition: `ControlRequestHandler`
  refuses earlier ones (partition error 13) before the manager is called.
* The caller measures the lag of followers: a follower is level with the leader if the offset of a fetch is at
  least the `log_end_offset` of its response; the lag is the time since then.

Sources: KIP-101 and KIP-279 (leader epochs), KIP-595 (the diverging epoch);
kafka/server/ReplicaManager.scala @0.8.2.2; kafka/cluster/Partition.scala@2.8.2 for the high watermark and the
ISR.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Final

from zkgroup.broker.log.data_dir import DataDir
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.replica_view import (
    FETCH_BYTES_MAX,
    AppendResult,
    FollowerId,
    ReplicaFailure,
    ReplicaView,
    Role,
)
from zkgroup.broker.replicas.replica import Replica, StrandedFollower, no_fetch
from zkgroup.errors import ReplicaStorageError
from zkgroup.model import TopicPartition
from zkgroup.runtime.logs import get_logger
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import (
    NO_EPOCH,
    EpochEndResult,
    EpochPartition,
    FetchedPartition,
    FetchPartition,
    ListedPartition,
    ListOffsetsPartition,
)
from zkgroup.wire.schema import Buffer
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC
from zkgroup.znodes.ids import is_legal

log = get_logger("zkgroup.broker")

REASON_MAX: Final = 1_000
"""Longest reason of a failure in an answer, in characters."""


class ReplicaManager:
    """The replicas of one broker. The module docstring applies to all methods."""

    def __init__(self, broker: int, data_dir: DataDir, wall_ms: Callable[[], int] | None = None) -> None:
        """
        Args:
            broker: its id.
            data_dir: keeps the logs; belongs to this manager until `close`.
            wall_ms: the time of a failure, in epoch milliseconds; the system's clock by default.
        """
        self.broker = broker
        self._wall_ms = wall_ms or (lambda: time.time_ns() // 1_000_000)
        self._failed_at_ms: dict[TopicPartition, int] = {}
        """The time of each replica's failure, in epoch milliseconds."""
        self._data_dir = data_dir
        self._replicas: dict[TopicPartition, Replica] = {}
        self._failures: dict[TopicPartition, str] = {}
        """The replicas that are not open, with the reason why they have no role."""
        self._stranded: dict[TopicPartition, StrandedFollower] = {}
        """Those of them that are followers whose files failed: `reopen` may open them again."""
        self._broker_epochs: dict[int, int] = {}
        """The latest incarnation of each follower that has fetched."""
        self._listeners: list[Callable[[TopicPartition], None]] = []
        self._failure_listeners: list[Callable[[TopicPartition, str], None]] = []

    @property
    def folder_id(self) -> str | None:
        """The uuid of the data directory; None for logs in memory."""
        return self._data_dir.folder_id

    def become_leader(
        self,
        topic_partition: TopicPartition,
        leader_epoch: int,
        replicas: Collection[int],
        isr: Collection[int],
    ) -> ErrorCode:
        """Becomes leader in a leader epoch. The followers' progress is reset; `isr` is set as by `set_isr`.

        `replicas` and `isr` are broker ids and include this broker. At the present leader epoch only
        `replicas` and `isr` are set.

        Returns NONE, or KAFKA_STORAGE_ERROR (56) and no role: the files cannot be used, or records are
        missing (no log at a leader epoch above 0, or a log that ends below its high watermark). The
        controller treats such a replica as offline. A slot of group coordinators lacks no records.
        """
        self._stranded.pop(topic_partition, None)
        with self._changing(topic_partition, is_answered=True):
            replica = self._known(topic_partition)
            if replica is None and _lacks_nothing(topic_partition, leader_epoch):
                replica = self._made(topic_partition, 0)
            if replica is not None:
                return replica.lead(leader_epoch, replicas, isr)
            self._note_failure(
                topic_partition, f"cannot lead in epoch {leader_epoch}: there is nothing of it here"
            )
        return ErrorCode.KAFKA_STORAGE_ERROR

    def become_follower(self, topic_partition: TopicPartition, leader_epoch: int) -> ErrorCode:
        """Becomes follower in a leader epoch. It truncates nothing; the next fetches find diverging records.

        The caller then fetches: it sends each `next_fetch` to the leader and passes the response to `take`.
        Returns NONE, or KAFKA_STORAGE_ERROR if the files cannot be used; `reopen` may open them later.
        """
        was = self._stranded.pop(topic_partition, None)
        level_at = None if was is None or was.leader_epoch != leader_epoch else was.level_at
        was_open = (was is not None and was.was_open) or topic_partition in self._replicas
        with self._changing(topic_partition):
            replica = self._known(topic_partition)
            if replica is None:
                complete = _lacks_nothing(topic_partition, leader_epoch)
                replica = self._made(topic_partition, 0 if complete else None)
            return replica.follow(leader_epoch, level_at)
        self._stranded[topic_partition] = StrandedFollower(leader_epoch, level_at, was_open)
        return ErrorCode.KAFKA_STORAGE_ERROR

    def stop(self, topic_partition: TopicPartition) -> None:
        """Ends the role and keeps the log. Without effect for an unknown partition."""
        self._failures.pop(topic_partition, None)
        self._failed_at_ms.pop(topic_partition, None)
        self._stranded.pop(topic_partition, None)
        if (replica := self._replicas.get(topic_partition)) is not None:
            with self._changing(topic_partition):
                replica.stop()

    def delete(self, topic_partition: TopicPartition) -> ErrorCode:
        """Stops a replica and deletes its log in memory and on disk, also for an unknown partition.

        Returns NONE, or KAFKA_STORAGE_ERROR if its folder cannot be renamed.
        """
        self.stop(topic_partition)
        with self._changing(topic_partition):
            if (replica := self._replicas.pop(topic_partition, None)) is not None:
                replica.stop()
            self._data_dir.delete(_named(topic_partition))
            return ErrorCode.NONE
        return ErrorCode.KAFKA_STORAGE_ERROR

    def set_replicas(
        self, topic_partition: TopicPartition, leader_epoch: int, replicas: Collection[int]
    ) -> None:
        """Sets the replicas of a leader, this broker among them; keeps their progress and the maximal ISR.

        Without effect if this broker does not lead at that epoch.
        """
        if (replica := self._replicas.get(topic_partition)) is not None:
            with self._changing(topic_partition):
                replica.set_replicas(leader_epoch, replicas)

    def set_isr(self, topic_partition: TopicPartition, leader_epoch: int, isr: Collection[int]) -> None:
        """Sets the maximal ISR, for which the high watermark waits.

        It is the union of the stored ISR, the proposed ISRs and the ISRs of unknown outcome. Call it before a
        proposal is sent, and again when its outcome is known. Without effect if this broker does not lead at
        that epoch.
        """
        if (replica := self._replicas.get(topic_partition)) is not None:
            with self._changing(topic_partition):
                replica.set_maximal_isr(leader_epoch, isr)

    def append(
        self, topic_partition: TopicPartition, records: Buffer, leader_epoch: int = NO_EPOCH
    ) -> AppendResult:
        """Appends record batches of a client, all or none, and returns the result at once, as for acks=1.

        For acks=all the caller waits until `high_watermark` has reached `end_offset`, also for a batch that
        an idempotent producer sends again. If the replica no longer `keeps` the records, the caller responds
        with error 6. The caller also checks whether enough replicas are in sync (19, 20; `maximal_isr_size`).
        `leader_epoch` is the one that the client expects, `NO_EPOCH` for none.
        Errors: 3 no such replica, 6 not leader, 74 and 75 another leader epoch, and those of
        `PartitionLog.append_as_leader`. Error 6 has a `base_offset` if the files failed during the append:
        the records may be in the log.
        """
        if (replica := self._replicas.get(topic_partition)) is None:
            return AppendResult(self._absence(topic_partition), message=f"{topic_partition} is not here")
        end_offset = replica.end_offset
        with self._changing(topic_partition):
            return replica.append(records, self._wall_ms(), leader_epoch)
        why = self._failures.get(topic_partition, "")
        return AppendResult(ErrorCode.NOT_LEADER_FOR_PARTITION, end_offset, message=why)

    def list_offset(
        self,
        topic_partition: TopicPartition,
        request: ListOffsetsPartition,
        replica_id: int,
        *,
        is_legacy: bool = False,
    ) -> ListedPartition:
        """The answer of ListOffsets for one partition: an offset with its leader epoch.

        -2 asks for the log start offset, -1 for the end: the high watermark for a consumer (`replica_id` -1),
        else the log end offset. Any other time asks for the first record below that end with this timestamp
        or a later one, and returns -1 with none. Replica -2 may ask a replica in any role. With
        `is_legacy`, for version 0: see `Replica.list_legacy_offsets`.
        Errors: 3, 6, 74, 75; 78 in a new leader epoch, until the high watermark has reached its start.
        """
        number = request.partition
        if (replica := self._replicas.get(topic_partition)) is None:
            return ListedPartition(number, self._absence(topic_partition))
        with self._changing(topic_partition):
            if is_legacy:
                return replica.list_legacy_offsets(request, replica_id, self._wall_ms())
            return replica.list_offset(request, replica_id)
        return ListedPartition(number, ErrorCode.NOT_LEADER_FOR_PARTITION)

    def epoch_end(self, topic_partition: TopicPartition, request: EpochPartition) -> EpochEndResult:
        """The answer of OffsetForLeaderEpoch for one partition: where a leader epoch ends in its log.

        The epoch is the latest one with records that is not later than the one asked for; -1 with offset -1
        for none, and for an epoch later than the log's last one. Errors: 3, 6, 74, 75.
        """
        if (replica := self._replicas.get(topic_partition)) is None:
            return EpochEndResult(self._absence(topic_partition), request.partition)
        return replica.epoch_end(request)

    def maximal_isr_size(self, topic_partition: TopicPartition) -> int | None:
        """Size of the maximal ISR, for which the high watermark waits; None if this replica does not lead."""
        replica = self._replicas.get(topic_partition)
        return None if replica is None else replica.maximal_isr_size

    def keeps(self, topic_partition: TopicPartition, leader_epoch: int, end_offset: int) -> bool:
        """Returns whether this replica leads, and its last record before `end_offset` is of that epoch.

        A leader epoch and an offset identify one record, so the appended records are still in the log, also
        if the replica leads in a later epoch by now.
        """
        replica = self._replicas.get(topic_partition)
        return replica is not None and replica.keeps(leader_epoch, end_offset)

    def fetch(
        self,
        topic_partition: TopicPartition,
        request: FetchPartition,
        follower: FollowerId | None = None,
        *,
        max_bytes: int = FETCH_BYTES_MAX,
        at_least_one: bool = True,
        held: bool = False,
    ) -> FetchedPartition:
        """Returns the answer to a follower, or to a consumer (None), for one partition of a Fetch at once.

        The caller handles `max_wait_ms`: it may call again when `listen` notifies it, and sends the last
        answer at the end of that time. `held`: this is such a repeated call, and no answer was sent yet. A
        follower joins the ISR only after an answer was sent to it.

        A follower's fetch updates its progress. A consumer gets record batches below the high watermark.
        Batches are whole, as they were appended; a consumer's first batch may begin before `offset`.
        `max_bytes` are left in the whole answer. `at_least_one`: at least one batch is returned, even if it
        is larger than `max_bytes`, the partition's `max_bytes` or `FETCH_BYTES_MAX`.
        Errors: 1 an offset below the log start offset, or above the log end offset; 3, 6, 74, 75; 77 for an
        earlier incarnation of a follower (its broker epoch is lower than in an earlier fetch), or for a
        follower outside the ISR that has more records of this leader epoch than this leader: they may belong
        to a deleted topic of the same name. Error 1 to a follower has this log's start offset.
        """
        if follower is not None and not self._is_latest_incarnation(follower):
            return no_fetch(request.partition, ErrorCode.STALE_BROKER_EPOCH)
        if (replica := self._replicas.get(topic_partition)) is None:
            return no_fetch(request.partition, self._absence(topic_partition))
        with self._changing(topic_partition):
            broker = None if follower is None else follower.broker
            return replica.fetch(request, broker, max_bytes, at_least_one=at_least_one, held=held)
        return no_fetch(request.partition, ErrorCode.NOT_LEADER_FOR_PARTITION)

    def delete_records(self, topic_partition: TopicPartition, offset: int) -> ErrorCode:
        """Deletes the records of a leader below an offset (-1: the high watermark); its followers follow.

        Returns NONE, 1 for an offset above the high watermark, 44 for a topic whose `cleanup.policy` lacks
        `delete`, 3 or 6 as `fetch`.
        """
        if (replica := self._replicas.get(topic_partition)) is None:
            return self._absence(topic_partition)
        with self._changing(topic_partition):
            return replica.delete_records(offset)
        return ErrorCode.NOT_LEADER_FOR_PARTITION

    def low_watermark(self, topic_partition: TopicPartition, is_live: Callable[[int], bool]) -> int | None:
        """The smallest log start offset of a leader and its live followers; None without a leader here."""
        replica = self._replicas.get(topic_partition)
        return None if replica is None else replica.low_watermark(is_live)

    def offsets(self, topic_partition: TopicPartition) -> FetchedPartition:
        """The offsets of this replica in any role, without records.

        Error 3: there is no replica; 56: it has failed, with since when and why (`failures`).
        """
        replica = self._replicas.get(topic_partition)
        reason = self._failures.get(topic_partition) or (None if replica is None else replica.failure)
        if replica is None:
            found = no_fetch(topic_partition.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            found = replica.offsets()
        if reason is None:
            return found
        return replace(
            found,
            error=ErrorCode.KAFKA_STORAGE_ERROR,
            failed_since_ms=self._failed_at_ms[topic_partition],
            failure=reason[:REASON_MAX],
        )

    def _is_latest_incarnation(self, follower: FollowerId) -> bool:
        known = self._broker_epochs.get(follower.broker, follower.broker_epoch)
        self._broker_epochs[follower.broker] = max(known, follower.broker_epoch)
        return follower.broker_epoch >= known

    def _absence(self, topic_partition: TopicPartition) -> ErrorCode:
        if topic_partition in self._failures:
            return ErrorCode.NOT_LEADER_FOR_PARTITION
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def next_fetch(self, topic_partition: TopicPartition, max_bytes: int) -> FetchPartition | None:
        """Returns the next fetch from the leader; None if the replica does not follow."""
        replica = self._replicas.get(topic_partition)
        return None if replica is None else replica.next_fetch(max_bytes)

    def take(
        self, topic_partition: TopicPartition, request: FetchPartition, response: FetchedPartition
    ) -> bool:
        """Handles the leader's answer: appends its record batches, or truncates diverging ones.

        A log that ends below the leader's log start offset is truncated fully, and starts there. The log
        start offset follows the leader's up to the high watermark.

        Returns whether to fetch again at once. After an error, a wrong checksum or an answer that the replica
        refuses (the reason is in `ReplicaView.failure`) it returns False: back off first. An answer for
        another offset or leader epoch than the present one changes nothing, nor does one to a position that
        another replica of this name has given (`next_fetch`).
        """
        if (replica := self._replicas.get(topic_partition)) is None:
            return True
        with self._changing(topic_partition):
            return replica.take(request, response)
        return False

    def reopen(self, topic_partition: TopicPartition) -> bool:
        """Opens the failed files of a follower again, and makes it follow in the same leader epoch.

        A follower whose files were never open in this process gets new ones if there are none; it may lead
        once it has caught up.

        A failed leader is not opened again: its files may have lost records that a follower has, and other
        records would get their offsets in the same leader epoch. Each call reads the files from end to end,
        so the caller waits between two calls. Returns whether the replica follows again; False also for a
        replica that has not failed.
        """
        if (stranded := self._stranded.get(topic_partition)) is None:
            return False
        leader_epoch, level_at, was_open = stranded
        with self._changing(topic_partition):
            replica = self._known(topic_partition)
            if replica is None and not was_open:
                replica = self._made(topic_partition, None)  # records may have been lost
            if replica is not None:
                return replica.follow(leader_epoch, level_at) is ErrorCode.NONE
            self._note_failure(topic_partition, "its files are gone")
            del self._stranded[topic_partition]
        return False

    def partitions(self) -> Collection[TopicPartition]:
        """The partitions with a role or a log on this broker, sorted."""
        return tuple(sorted({*self._replicas, *self._data_dir.partitions()}))

    def open_partitions(self) -> Collection[TopicPartition]:
        """The partitions whose replicas are open, sorted."""
        return tuple(sorted(self._replicas))

    def view(self, topic_partition: TopicPartition) -> ReplicaView | None:
        """The state of a replica; None if this broker has none."""
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

    def size(self, topic_partition: TopicPartition) -> int | None:
        """Bytes in the segments of a replica; None where this broker has none, or its files fail."""
        with self._changing(topic_partition):
            replica = self._known(topic_partition)
            return None if replica is None else replica.size
        return None

    def failures(self) -> Mapping[TopicPartition, ReplicaFailure]:
        """The replicas that have failed and have had no role since."""
        found = {tp: why for tp, one in self._replicas.items() if (why := one.failure) is not None}
        found |= self._failures
        return {tp: ReplicaFailure(found[tp], self._failed_at_ms[tp]) for tp in sorted(found)}

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        """The first offset that consumers may not read yet; None without a replica on this broker."""
        view = self.view(topic_partition)
        return None if view is None else view.high_watermark

    def listen(self, listener: Callable[[TopicPartition], None]) -> None:
        """Registers a listener for changes of a partition's role, its offsets, or the replicas of a leader.

        It is called on the calling thread, at the end of the call that made the change. It must only enqueue.
        """
        self._listeners.append(listener)

    def listen_to_failures(self, listener: Callable[[TopicPartition, str], None]) -> None:
        """Registers a listener for leaders whose files fail; it gets partition and reason.

        It is called as described at `listen`, but not if `become_leader` returns 56: the controller gets that
        error.
        """
        self._failure_listeners.append(listener)

    def configure_logs(self, config_of: Callable[[str], LogConfig]) -> None:
        """Sets the settings of all logs by their topic, from the next append or retention on."""
        self._data_dir.configure(config_of)

    def apply_retention(self, topic_partition: TopicPartition) -> int | None:
        """Deletes the old segments of a replica with a role, and moves its log start offset.

        Returns the new one; None if it has not moved. Like Kafka's, every replica deletes for itself, below
        its high watermark.
        """
        replica = self._replicas.get(topic_partition)
        if replica is None or replica.role is Role.NONE:
            return None
        with self._changing(topic_partition):
            return self._data_dir.apply_retention(topic_partition)
        return None

    def checkpoint(self) -> None:
        """Forces full segments to the disk and writes Kafka's checkpoint files; call it every minute.

        A start after a crash then reads less. A replica whose files fail loses its role.
        """
        for topic_partition, replica in tuple(self._replicas.items()):
            with self._changing(topic_partition):
                replica.flush_rolled()
        try:
            self._data_dir.checkpoint()
        except ReplicaStorageError as error:
            log.warning("the checkpoint files cannot be written: %s", error)

    def close(self) -> None:
        """Ends all roles and closes the files. Idempotent; no other method may be called after it."""
        self._end_roles()
        self._data_dir.close()

    def abandon(self) -> None:
        """`close` as the end of a process does it: nothing more is written, and the shutdown is not clean."""
        self._end_roles()
        self._data_dir.abandon()

    def _end_roles(self) -> None:
        replicas, self._replicas = self._replicas, {}
        for replica in replicas.values():
            replica.stop()
        self._failures.clear()

    def _known(self, topic_partition: TopicPartition) -> Replica | None:
        """The replica, opened if necessary; None if this broker has none."""
        if (replica := self._replicas.get(topic_partition)) is not None:
            return replica
        found = self._data_dir.open(topic_partition) if is_legal(topic_partition) else None
        if found is None:
            return None
        return self._enter(topic_partition, Replica(self.broker, topic_partition, found))

    def _made(self, topic_partition: TopicPartition, high_watermark: int | None) -> Replica:
        """Makes a replica with an empty log.

        In leader epoch 0 no records can be missing, and its high watermark is 0. Otherwise it has none, and
        cannot lead, until it has caught up.
        """
        made = self._data_dir.create(_named(topic_partition), high_watermark)
        return self._enter(topic_partition, Replica(self.broker, topic_partition, made))

    def _enter(self, topic_partition: TopicPartition, replica: Replica) -> Replica:
        self._failures.pop(topic_partition, None)
        self._stranded.pop(topic_partition, None)
        self._replicas[topic_partition] = replica
        return replica

    def _changing(self, topic_partition: TopicPartition, *, is_answered: bool = False) -> _Change:
        return _Change(self, topic_partition, is_answered)

    def _notify(self, topic_partition: TopicPartition) -> None:
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
        """Stores the time of a failure; a failed attempt to reopen keeps the first time."""
        replica = self._replicas.get(topic_partition)
        if topic_partition in self._failures or (replica is not None and replica.failure is not None):
            self._failed_at_ms.setdefault(topic_partition, self._wall_ms())
        else:
            self._failed_at_ms.pop(topic_partition, None)

    def _put_away(self, topic_partition: TopicPartition, failure: str, is_answered: bool) -> None:
        led = False
        if (replica := self._replicas.pop(topic_partition, None)) is not None:
            if (following := replica.following) is not None:
                self._stranded[topic_partition] = StrandedFollower(*following, was_open=True)
            led = replica.leads
            replica.stop()
        self._data_dir.release(topic_partition)
        self._note_failure(topic_partition, failure)
        if led and not is_answered:
            for listener in self._failure_listeners:
                listener(topic_partition, failure)


class _Change:
    """A context for calls that may change a replica: it notifies listeners, and closes a failed replica."""

    def __init__(self, host: ReplicaManager, topic_partition: TopicPartition, is_answered: bool) -> None:
        """`is_answered`: whether the controller gets the error of a failure."""
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
            self._host._notify(self._topic_partition)
        return failed


def _lacks_nothing(topic_partition: TopicPartition, leader_epoch: int) -> bool:
    """Returns whether an empty log has all records: in the first leader epoch, or in a slot without any."""
    return leader_epoch == 0 or topic_partition.topic == OFFSETS_TOPIC


def _named(topic_partition: TopicPartition) -> TopicPartition:
    """The partition, if it can name files. Raises ReplicaStorageError."""
    if not is_legal(topic_partition):
        raise ReplicaStorageError(f"{topic_partition}: expected a legal topic, and a partition of 0 or above")
    return topic_partition
