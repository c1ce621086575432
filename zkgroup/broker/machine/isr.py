"""The ISR of one partition: its leader decides which replicas are in sync, and writes the state. Pure.

Between two writes of the controller only the leader changes the ISR, by conditional writes of `state`. A
write without a reply may be applied later, so its members count for the high watermark until the znode's
version has changed. Source: kafka/cluster/Partition.scala and kafka/utils/ReplicationUtils.scala @0.8.2.2;
for the lag kafka/cluster/Replica.scala@1.1.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from zkgroup.broker.replica_view import Follower
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import (
    Code,
    Create,
    Multi,
    MultiDone,
    MultiRefused,
    NotSent,
    Outcome,
    ReadDone,
    Refused,
    SetData,
)
from zkgroup.wire.control import PartitionStateInfo
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.notifications import IsrChange

REFUSED_PAUSE_MS: Final = 1_000
REFUSED_PAUSE_MAX_MS: Final = 30_000
"""Pauses after refused writes of one partition grow between these two, in milliseconds."""


@dataclass(frozen=True, slots=True)
class IsrWrite:
    """A conditional write of `state`: the controller's state with another ISR."""

    topic_partition: TopicPartition
    state: PartitionState
    version: int
    """The expected version of the znode."""

    def request(self) -> Multi:
        """The transaction. Raises ConfigError for an invalid state (an id or epoch below 0)."""
        path = PartitionState.path(self.topic_partition)
        return Multi((SetData(path, self.state.encode(), self.version),))


class IsrOutcome(Enum):
    """The meaning of a write's or read's outcome for the ISR."""

    STORED = "stored"
    """The ISR written is in force."""
    KEPT = "kept"
    """The ISR is unchanged; a change that is still needed is proposed again."""
    READ_BACK = "read back"
    """The znode has to be read before anything else is written; the outcome goes to `Isr.read_back`."""
    ADOPTED = "adopted"
    """The znode has another ISR of the same leader epoch; it is taken over, and may be changed again."""
    UNREADABLE = "unreadable"
    """The znode is corrupt, or an ACL hides it; it is read again after half the lag limit."""
    DEPOSED = "deposed"
    """Another leader was elected since, or the partition is gone: no more writes before the next
    LeaderAndIsr.
    """


@dataclass(slots=True)
class _FollowerLag:
    """The last time at which a follower had all records of the leader."""

    caught_up_ms: int | None = None
    fetched_ms: int | None = None
    leader_end: int = 0
    """The leader's log end offset at its last fetch."""


class Isr:
    """The ISR of one partition for as long as one LeaderAndIsr makes this broker its leader."""

    def __init__(self, broker: int, state: PartitionStateInfo, now_ms: int) -> None:
        """`state` names `broker`, the own id, as leader. Members of the ISR count as caught up now."""
        assert state.leader == broker
        self.topic_partition = state.topic_partition
        self._broker = broker
        self._replicas = state.replicas
        self._stored = PartitionState(broker, state.leader_epoch, state.isr, state.controller_epoch)
        self.version = state.zk_version
        """The last known version of the `state` znode."""
        self.knows_other_keys = False
        """True if the znode's keys that are not in LeaderAndIsr are known: then a write keeps them.

        False until the znode is read or written for the first time.
        """
        self._progress = {one: _FollowerLag() for one in state.replicas if one != broker}
        for member in state.isr:
            if member in self._progress:
                self._progress[member].caught_up_ms = now_ms
        self._in_flight: IsrWrite | None = None
        self._unconfirmed: frozenset[int] = frozenset()
        self._deposed = False
        self._is_unreadable = False
        self._refusals = 0
        """Number of writes in a row that an ACL has refused, or that are invalid."""
        self._proposed_ms = 0
        self._backoff_until_ms = 0

    def set_replicas(self, replicas: Collection[int]) -> None:
        """Sets the replicas; those that remain keep their progress."""
        self._replicas = tuple(replicas)
        self._progress = {
            one: self._progress.get(one, _FollowerLag()) for one in replicas if one != self._broker
        }

    @property
    def isr(self) -> tuple[int, ...]:
        """The last known ISR in ZooKeeper."""
        return self._stored.isr

    @property
    def leader_epoch(self) -> int:
        """The leader epoch."""
        return self._stored.leader_epoch

    @property
    def maximal_isr(self) -> frozenset[int]:
        """The ISR with each ISR that is proposed or of unknown outcome; the high watermark waits for them."""
        proposed = () if self._in_flight is None else self._in_flight.state.isr
        return self._unconfirmed.union(self.isr, proposed)

    @property
    def joining(self) -> frozenset[int]:
        """Replicas that the running write adds."""
        return frozenset() if self._in_flight is None else frozenset(self._in_flight.state.isr) - {*self.isr}

    def fetched(self, follower: int, offset: int, log_end_offset: int, now_ms: int) -> None:
        """Notes a follower's fetch from `offset`; the leader's log ends at `log_end_offset`.

        The follower has caught up now if it has all records, and had caught up at its last fetch if it has
        all records of that time: under a steady stream it is never at the very end.
        """
        progress = self._progress.get(follower)
        if progress is None:
            return
        if offset >= log_end_offset:
            progress.caught_up_ms = now_ms
        elif progress.fetched_ms is not None and offset >= progress.leader_end:
            progress.caught_up_ms = max(progress.caught_up_ms or 0, progress.fetched_ms)
        progress.fetched_ms = now_ms
        progress.leader_end = log_end_offset

    def propose(self, followers: Mapping[int, Follower], now_ms: int, lag_max_ms: int) -> IsrWrite | None:
        """The write that updates the ISR; None if it is up to date, or a write is running.

        It removes replicas that have lost records or have not caught up for longer than `lag_max_ms`, but
        never this broker. It adds replicas that have caught up within that time and may join
        (`Follower.caught_up`). If the outcome of an earlier write is unknown, the ISR is written even
        unchanged, which resolves it.

        Call it every half of the lag limit, and when a fetch shows a follower that may join or has lost
        records. The replica manager gets the `maximal_isr` before the write is sent, and again when its
        outcome is known.
        """
        if self._deposed or self._in_flight is not None or self._backs_off(now_ms, lag_max_ms // 2):
            return None
        isr = self._wanted(followers, now_ms - lag_max_ms)
        if isr == self.isr and not self._unconfirmed:
            return None
        state = replace(self._stored, isr=isr)
        self._in_flight, self._proposed_ms = IsrWrite(self.topic_partition, state, self.version), now_ms
        return self._in_flight

    def written(self, outcome: Outcome) -> IsrOutcome:
        """Takes the outcome of the write that `propose` returned."""
        write, self._in_flight = self._in_flight, None
        assert write is not None
        match outcome:
            case MultiDone(stats=(stat,)) if stat is not None:
                self._take(write.state, stat.version)
                return IsrOutcome.STORED
            case MultiRefused(code=Code.BAD_VERSION):
                self._in_flight = write
                return IsrOutcome.READ_BACK
            case MultiRefused(code=Code.NO_NODE):
                self._deposed = True
                return IsrOutcome.DEPOSED
            case NotSent():
                return IsrOutcome.KEPT
            case MultiRefused():
                return self.refused()
            case _:
                self._in_flight = write
                return IsrOutcome.READ_BACK

    def refused(self) -> IsrOutcome:
        """Delays the next write, because the proposed one is invalid or an ACL refused it.

        Followers fetch all the time, and each fetch would propose it again.
        """
        self._in_flight = None
        pause_ms = min(REFUSED_PAUSE_MS << min(self._refusals, 10), REFUSED_PAUSE_MAX_MS)
        self._backoff_until_ms = self._proposed_ms + pause_ms
        self._refusals += 1
        return IsrOutcome.KEPT

    def read_back(self, outcome: Outcome) -> IsrOutcome:
        """Takes the znode, read after a refusal or an unknown outcome, or in a new session.

        This avoids KAFKA-2729: if leader and leader epoch are the same, the stored state is taken over, also
        if another process wrote it. 0.8.2.2 continues with the version that it has, and all its writes are
        refused. An unreadable znode changes nothing: a person who repairs it may write the same state again,
        which no controller would send.
        """
        if not isinstance(outcome, ReadDone | Refused):
            return IsrOutcome.READ_BACK
        write, self._in_flight = self._in_flight, None
        proposed = () if write is None else write.state.isr
        try:
            stored, version = self._read(outcome)
        except CorruptZnodeError:
            self._unconfirmed = self._unconfirmed.union(proposed)
            self._is_unreadable = True
            return IsrOutcome.UNREADABLE
        if stored is None or not self._is_own_state(stored):
            self._unconfirmed = self._unconfirmed.union(proposed)
            self._deposed = True
            return IsrOutcome.DEPOSED
        if version == self.version:
            self._stored = replace(self._stored, extensions=stored.extensions)
            self.knows_other_keys = True
            # It was not applied, and could still be: the next successful write excludes that.
            self._unconfirmed = self._unconfirmed.union(proposed)
            return IsrOutcome.KEPT
        self._take(stored, version)
        return IsrOutcome.STORED if write is not None and stored == write.state else IsrOutcome.ADOPTED

    def _backs_off(self, now_ms: int, for_ms: int) -> bool:
        """Returns whether proposals pause after a refusal or an unreadable znode: followers fetch often."""
        if self._is_unreadable:
            self._is_unreadable, self._backoff_until_ms = False, now_ms + for_ms
        return now_ms < self._backoff_until_ms

    def _wanted(self, followers: Mapping[int, Follower], since_ms: int) -> tuple[int, ...]:
        members = [one for one in self.isr if one == self._broker or self._stays(one, followers, since_ms)]
        joining = [
            one
            for one in self._replicas
            if one not in self.isr and (one == self._broker or self._joins(one, followers, since_ms))
        ]
        return (*members, *joining)

    def _stays(self, member: int, followers: Mapping[int, Follower], since_ms: int) -> bool:
        follower = followers.get(member)
        return self._in_time(member, since_ms) and not (follower is not None and follower.lost)

    def _joins(self, replica: int, followers: Mapping[int, Follower], since_ms: int) -> bool:
        follower = followers.get(replica)
        able = follower is not None and follower.caught_up and not follower.lost
        return able and self._in_time(replica, since_ms)

    def _in_time(self, replica: int, since_ms: int) -> bool:
        progress = self._progress.get(replica)
        return (
            progress is not None and progress.caught_up_ms is not None and progress.caught_up_ms >= since_ms
        )

    def _take(self, state: PartitionState, version: int) -> None:
        """Takes a new version of the znode: writes with an earlier one cannot be applied any more."""
        self._stored, self.version = state, version
        self._unconfirmed = frozenset()
        self._refusals = 0
        self.knows_other_keys = True

    def _is_own_state(self, stored: PartitionState) -> bool:
        return (stored.leader, stored.leader_epoch) == (self._broker, self._stored.leader_epoch)

    def _read(self, outcome: ReadDone | Refused) -> tuple[PartitionState | None, int]:
        path = PartitionState.path(self.topic_partition)
        if isinstance(outcome, Refused):
            raise CorruptZnodeError(path, "a state that this broker may read", outcome.code.value)
        if outcome.znode is None:
            return None, -1
        return PartitionState.decode(path, outcome.znode.data), outcome.znode.stat.version


@dataclass(frozen=True, slots=True)
class IsrChangePropagationConfig:
    """The timing of notifications in milliseconds; the defaults are Kafka's constants."""

    every_ms: int = 2_500
    """Time between two checks."""
    quiet_ms: int = 5_000
    """Time without a change before the changes are sent."""
    waiting_max_ms: int = 60_000
    """Longest time that a change waits while others keep coming. Kafka counts from the last notification, so
    that the first change after an idle minute is sent alone."""


class IsrChangePropagation:
    """The ISR changes that the controller is not notified of yet."""

    def __init__(self, now_ms: int, timing: IsrChangePropagationConfig | None = None) -> None:
        self._timing = timing or IsrChangePropagationConfig()
        self._waiting: set[TopicPartition] = set()
        self._first_ms = self._last_ms = now_ms
        self.next_check_ms = now_ms + self._timing.every_ms
        """The time of the next call of `take_due`."""

    @property
    def waiting(self) -> frozenset[TopicPartition]:
        """Partitions whose change is not sent yet."""
        return frozenset(self._waiting)

    def changed(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Notes written ISRs, or notifications with an unknown outcome."""
        found = set(partitions)
        if not found:
            return
        if not self._waiting:
            self._first_ms = now_ms
        self._waiting |= found
        self._last_ms = now_ms

    def take_due(self, now_ms: int) -> tuple[IsrChange, ...]:
        """The notifications to create now, usually none; several if one would be too big.

        They count as sent: call `changed` again if the create failed or its outcome is unknown. A change may
        be sent twice.
        """
        timing = self._timing
        if now_ms < self.next_check_ms:
            return ()
        self.next_check_ms = now_ms + timing.every_ms
        quiet = now_ms - self._last_ms >= timing.quiet_ms
        if not self._waiting or not (quiet or now_ms - self._first_ms >= timing.waiting_max_ms):
            return ()
        due, self._waiting = self._waiting, set()
        return IsrChange.split(due)


def isr_change_request(change: IsrChange) -> Multi:
    """The create of one notification. Raises ConfigError if it is too big."""
    return Multi((Create(IsrChange.prefix(), change.encode(), sequential=True),))
