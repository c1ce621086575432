"""The replicas of one broker, over the log directory that keeps their lines.

A broker speaks to ZooKeeper, to the controller and over the network; its `ReplicaManager` keeps lines, and
knows of them where they end, which leader epoch they are from and how far followers have come.

* Blocking, and called from one thread at a time (`ReplicaExecutor`). No method waits for another broker or
  for a line to come, only for the disk. Waiting (`max_wait_ms`, acks=all) is the caller's, notified by
  `listen` when to ask again.
* What a peer, a client or the disk does wrong is an answer, never an exception. A partition whose files fail
  has no role from then on (`ReplicaView.failure`, `reopen`); the other partitions go on.
  `IllegalTransitionError` is a mistake of the caller.
* Offsets are counts of lines from 0. Leader epochs never go down for a partition: `ControlRequestHandler`
  refuses earlier ones (partition error 13) before the manager is asked.
* Time is the caller's, but for that of a failure, which is for people. A follower has caught up at this
  moment where a fetch's offset is at least the `log_end_offset` of its answer; how long ago that was decides
  about the lag.

Sources: KIP-101 and KIP-279 (leader epochs), KIP-595 (the diverging answer);
kafka/server/ReplicaManager.scala @0.8.2.2; kafka/cluster/Partition.scala@2.8.2 for the high watermark and the
ISR.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from types import TracebackType

from zkgroup.broker.log.line_log import LogDir
from zkgroup.broker.replicas.replica import FollowerState, Replica, no_append, no_fetch
from zkgroup.broker.replicas.replica_view import Failure, ReplicaView, Role
from zkgroup.errors import ConfigError, ReplicaStorageError
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
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


class ReplicaManager:
    """The replicas of one broker. The module says what holds for all methods."""

    def __init__(self, broker: int, log_dir: LogDir, wall_ms: Callable[[], int] | None = None) -> None:
        """
        Args:
            broker: its id.
            log_dir: keeps the lines; belongs to this manager until `close`.
            wall_ms: the time of a failure, in epoch milliseconds; the system's clock by default.
        """
        self.broker = broker
        self._wall_ms = wall_ms or _system_wall_ms
        self._failed_at_ms: dict[TopicPartition, int] = {}
        """When each replica failed that has not been well since."""
        self._log_dir = log_dir
        self._replicas: dict[TopicPartition, Replica] = {}
        self._failures: dict[TopicPartition, str] = {}
        """Of replicas that are not open: why they have no role."""
        self._stranded: dict[TopicPartition, FollowerState] = {}
        """Of these, the followers whose files failed: `reopen` may take them up again."""
        self._broker_epochs: dict[int, int] = {}
        """The latest incarnation of each follower that has fetched."""
        self._listeners: list[Callable[[TopicPartition], None]] = []
        self._failure_listeners: list[Callable[[TopicPartition, str], None]] = []

    @property
    def folder_id(self) -> str | None:
        """The uuid of the folder that keeps the lines; None where they are kept in memory."""
        return self._log_dir.folder_id

    # --- what the controller says -----------------------------------------------------------------

    def become_leader(
        self,
        topic_partition: TopicPartition,
        leader_epoch: int,
        replicas: Collection[int],
        isr: Collection[int],
    ) -> ErrorCode:
        """Starts a term. What followers had reached is forgotten; `isr` is counted as by `set_isr`.

        `replicas` and `isr` are broker ids, this one among them. Again at the epoch of the present term: only
        `replicas` and `isr` are taken over.

        Returns NONE, or KAFKA_STORAGE_ERROR (56), and the replica has no role: the files cannot be used, or
        lines are missing that it must have, as it has none at an epoch above 0 or fewer than it once knew to
        be below the high watermark. The controller takes such a replica for offline.
        """
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
        """Ends what it did before. Nothing is cut: what diverges is found out by fetching.

        The caller then fetches for it: `next_fetch`, sends it to the leader, `take`.
        Returns NONE, or KAFKA_STORAGE_ERROR where the files cannot be used.
        """
        self._stranded.pop(topic_partition, None)
        with self._changing(topic_partition):
            replica = self._known(topic_partition) or self._made(topic_partition, leader_epoch)
            return replica.follow(leader_epoch)
        return ErrorCode.KAFKA_STORAGE_ERROR

    def stop(self, topic_partition: TopicPartition) -> None:
        """Ends the role; the lines stay. Without effect for an unknown partition."""
        self._failures.pop(topic_partition, None)
        self._failed_at_ms.pop(topic_partition, None)
        self._stranded.pop(topic_partition, None)
        if (replica := self._replicas.get(topic_partition)) is not None:
            with self._changing(topic_partition):
                replica.stop()

    def delete(self, topic_partition: TopicPartition) -> ErrorCode:
        """Stops it and removes all that there is of it, in memory and on disk; also one that is not known.

        Returns NONE, or KAFKA_STORAGE_ERROR where it cannot be put aside.
        """
        self.stop(topic_partition)
        with self._changing(topic_partition):
            if (replica := self._replicas.pop(topic_partition, None)) is not None:
                replica.close()
            self._log_dir.delete(_named(topic_partition))
            return ErrorCode.NONE
        return ErrorCode.KAFKA_STORAGE_ERROR

    # --- what a leader does -----------------------------------------------------------------------

    def set_replicas(
        self, topic_partition: TopicPartition, leader_epoch: int, replicas: Collection[int]
    ) -> None:
        """Goes on leading with these `replicas`, this broker among them; what is known of those that stay is
        kept, and so is the maximal ISR.

        Without effect where this host does not lead at that epoch.
        """
        if (replica := self._replicas.get(topic_partition)) is not None:
            with self._changing(topic_partition):
                replica.set_replicas(leader_epoch, replicas)

    def set_isr(self, topic_partition: TopicPartition, leader_epoch: int, isr: Collection[int]) -> None:
        """Sets the maximal ISR, for which the high watermark waits: the union of the stored ISR and of each
        ISR that is proposed or whose fate is not known. Call it before a proposal is sent, and again when its
        fate is known.

        Without effect where this host does not lead at that epoch.
        """
        if (replica := self._replicas.get(topic_partition)) is not None:
            with self._changing(topic_partition):
                replica.set_maximal_isr(leader_epoch, isr)

    def append(self, request: AppendLinesRequest) -> AppendLinesResponse:
        """Appends lines as one batch, all or none of them, and answers at once, as for acks=1.

        acks=all: hold the answer back until `high_watermark` has reached `base_offset` plus the number of
        lines, and put the new one in. Answer 6, with `base_offset`, if it no longer `keeps` them before.
        Whether enough replicas are in sync (19, 20) is for the caller to see (`maximal_isr_size`).
        Errors: 3 no replica of that name here, 6 no leader, 74 and 75 another term, 87 no lines, one with
        a newline in it, or more bytes of them than an answer can carry (`BATCH_BYTES_MAX`). 6 comes with a
        `base_offset` where the files failed meanwhile: the lines may be there.
        """
        topic_partition = TopicPartition(request.topic, request.partition)
        if (replica := self._replicas.get(topic_partition)) is None:
            return no_append(self._absence(topic_partition))
        end_offset = replica.end_offset
        with self._changing(topic_partition):
            return replica.append(request)
        return AppendLinesResponse(ErrorCode.NOT_LEADER_FOR_PARTITION, end_offset, -1)

    def maximal_isr_size(self, topic_partition: TopicPartition) -> int | None:
        """How many replicas the high watermark waits for, this one included; None where it does not lead."""
        replica = self._replicas.get(topic_partition)
        return None if replica is None else replica.maximal_isr_size

    def keeps(self, topic_partition: TopicPartition, leader_epoch: int, end_offset: int) -> bool:
        """Whether this replica leads, and its line before `end_offset` is the one of that epoch.

        An epoch and an offset name one line, so those are the lines that were appended, also where the
        replica leads in a later term by now.
        """
        replica = self._replicas.get(topic_partition)
        return replica is not None and replica.keeps(leader_epoch, end_offset)

    def fetch(self, request: FetchLinesRequest, *, held: bool = False) -> FetchLinesResponse:
        """Answers a follower or a consumer at once; `max_wait_ms` is left to the caller, who may ask again
        when `listen` calls, and answers what it has when the time is over.

        `held`: asked again so; nothing has been answered to this request yet. A follower joins the ISR after
        an answer, and what was held back is none.

        A follower's fetch says how far it has come, and is counted. A consumer gets lines below the high
        watermark; at or past it none. Whole batches, as they were appended, at least one even where it is
        larger than `max_bytes` or `FETCH_BYTES_MAX`; a consumer's first may begin before
        `offset`. An observer gets the offsets of this replica, whatever its role.
        Errors: 1 a consumer's offset below 0 or past the log end offset, 3, 6, 74, 75, and 77 for a
        follower's older incarnation (a smaller broker epoch than one seen from it), or one outside the ISR
        that has more lines of this term than this leader: they can be of a former topic of that name.
        """
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
        """What to ask the leader next; None where the replica does not follow."""
        replica = self._replicas.get(topic_partition)
        return None if replica is None else replica.next_fetch(broker_epoch, max_bytes, max_wait_ms)

    def take(self, request: FetchLinesRequest, response: FetchLinesResponse) -> bool:
        """Takes the leader's answer in: appends its batches, or cuts back what diverges.

        Returns whether to ask again at once; False: wait a little first (an error, a wrong checksum, an
        answer that the replica will not follow, which `ReplicaView.failure` then explains). An answer to a
        request that is not the replica's present position in its present term changes nothing.
        """
        topic_partition = TopicPartition(request.topic, request.partition)
        if (replica := self._replicas.get(topic_partition)) is None:
            return True
        with self._changing(topic_partition):
            return replica.take(request, response)
        return False

    def reopen(self, topic_partition: TopicPartition) -> bool:
        """Opens the files of a follower that have failed anew, and has it follow on in the same term.

        A leader is not taken up so: had its files lost lines that a follower has, others would take their
        offsets in the same term. Reads the files from end to end, so the caller leaves time in between.
        Returns whether it follows again; False also for a replica that has not failed.
        """
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
        """Those that have a role or lines here, ordered."""
        return tuple(sorted({*self._replicas, *self._log_dir.partitions()}))

    def view(self, topic_partition: TopicPartition) -> ReplicaView | None:
        """None for one that is not here."""
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
        """Every replica that has failed and got no other role since."""
        found = {tp: why for tp, one in self._replicas.items() if (why := one.failure) is not None}
        found |= self._failures
        return {tp: Failure(found[tp], self._failed_at_ms[tp]) for tp in sorted(found)}

    def log_end_offset(self, topic_partition: TopicPartition) -> int | None:
        """Offset that the next line will get; None for one that is not here."""
        view = self.view(topic_partition)
        return None if view is None else view.log_end_offset

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        """The first offset that consumers may not read yet; None for a partition that is not here."""
        view = self.view(topic_partition)
        return None if view is None else view.high_watermark

    def caught_up(self, topic_partition: TopicPartition, broker: int) -> bool:
        """Whether this replica leads and the broker's has come far enough to join the ISR."""
        replica = self._replicas.get(topic_partition)
        return replica is not None and replica.has_caught_up(broker)

    def listen(self, listener: Callable[[TopicPartition], None]) -> None:
        """Has `listener` called when the role, log end offset or high watermark of a partition has changed.

        Called within the call that changed it, on its thread, after the change. It must only take note.
        """
        self._listeners.append(listener)

    def listen_to_failures(self, listener: Callable[[TopicPartition, str], None]) -> None:
        """Has `listener` called as by `listen` when the files of a replica that leads have failed, with why.

        Not where `become_leader` answers 56: the controller knows of that.
        """
        self._failure_listeners.append(listener)

    def close(self) -> None:
        """Ends all roles and closes the files. May be called twice; nothing else may be called then."""
        replicas, self._replicas = self._replicas, {}
        for replica in replicas.values():
            replica.close()
        self._failures.clear()
        self._log_dir.close()

    # --- opening and failing ----------------------------------------------------------------------

    def _known(self, topic_partition: TopicPartition) -> Replica | None:
        """The replica if there is one, opened where it was not."""
        if (replica := self._replicas.get(topic_partition)) is not None:
            return replica
        lines = self._log_dir.open(_named(topic_partition))
        if lines is None:
            return None
        return self._enter(topic_partition, Replica(self.broker, topic_partition, lines))

    def _made(self, topic_partition: TopicPartition, leader_epoch: int) -> Replica:
        """A replica without lines. In the first term of a partition nothing can be missing in it."""
        lines = self._log_dir.create(_named(topic_partition), high_watermark=0 if leader_epoch == 0 else None)
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
        if topic_partition in self._failures or (replica is not None and replica.failure is not None):
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
    """Around what may change a replica. Listeners are notified of what has changed; where the lines cannot be
    kept, the replica is put away."""

    def __init__(self, host: ReplicaManager, topic_partition: TopicPartition, is_answered: bool) -> None:
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
