"""The port behind which the lines of partitions live: what a broker asks of whoever holds them.

The broker's shell speaks to ZooKeeper, to the controller and over the network; a host keeps lines, and knows
of them where they end, which term they are from and how far followers have come.

Contract
* Blocking, and called from one thread at a time: the caller has one thread for its host, or a lock. No method
  waits for another broker or for a line to come, only for the disk. Waiting (`max_wait_ms`, acks=all) is the
  caller's, told by `listen` when to look again.
* What a peer, a client or the disk does wrong is an answer, never an exception. A partition whose files fail
  has no role from then on (`ReplicaView.failure`, `reopen`); the other partitions go on.
  `IllegalTransitionError` is a mistake of the caller.
* Offsets are counts of lines from 0. Leader epochs never go down for a partition: the receiver refuses older
  ones (partition error 13) before the host is asked.
* Time is the caller's, but for that of a failure, which is for people. A follower has caught up at this
  moment where a fetch's offset is at least the `log_end_offset` of its answer; how long ago that was decides
  about the lag.

Sources: KIP-101 and KIP-279 (leader epochs), KIP-595 (the diverging answer);
kafka/cluster/Partition.scala@2.8.2 for the high watermark and the ISR.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, Protocol

from zkgroup.model import TopicPartition
from zkgroup.wire.error_codes import ErrorCode
from zkgroup.wire.replica_host import (
    AppendLinesRequest,
    AppendLinesResponse,
    FetchLinesRequest,
    FetchLinesResponse,
)

FETCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of batches in one answer, whatever is asked for; a larger batch comes alone. (`fetch.max.bytes` of Kafka's
brokers is 55 MiB, but they send from the page cache: an answer here stands in memory until it is taken.)"""


class Role(Enum):
    """What a replica does now."""

    LEADER = "leader"
    FOLLOWER = "follower"
    NONE = "none"
    """Stopped, failed, or not told yet since the host was opened: its lines are kept and not served."""


@dataclass(frozen=True, slots=True)
class Follower:
    """How far a follower has come, as its leader knows."""

    log_end_offset: int | None
    """None until it has fetched in this term with a log that does not diverge."""
    caught_up: bool
    """It may join the ISR: it is at the high watermark and at the start of this term, or past them, and where
    the answer to its fetch before said that the leader's log ends."""
    lost: bool
    """It fetched below the high watermark, so lines that it once acknowledged are gone. An ISR member of
    which this is true must leave the ISR at once; it is given no line before `set_isr` leaves it out."""


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """What a host knows of one partition."""

    role: Role
    leader_epoch: int
    """Of the role; -1 with none."""
    log_end_offset: int
    """Offset that the next line will get."""
    high_watermark: int
    """The first offset that consumers may not read yet. A follower's is the one its leader told last."""
    term_start: int
    """Of a leader: its log end offset when it became leader; else -1."""
    followers: Mapping[int, Follower] = field(default_factory=dict)
    """Of a leader: every other replica, by broker id."""
    failure: str | None = None
    """What keeps this replica from its role, or from its leader's lines; for people."""


class Failure(NamedTuple):
    """Why a replica has no role, or cannot go on with its leader's lines; for people."""

    reason: str
    since_ms: int
    """Epoch milliseconds."""


class ReplicaHost(Protocol):
    """The replicas of one broker. The module says what holds for all methods."""

    @property
    def incarnation(self) -> str:
        """Names what the lines are kept in: another one when that was lost (a folder's uuid)."""
        ...

    # --- what the controller says ---

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
        ...

    def become_follower(self, topic_partition: TopicPartition, leader_epoch: int) -> ErrorCode:
        """Ends what it did before. Nothing is cut: what diverges is found out by fetching.

        The caller then fetches for it: `next_fetch`, sends it to the leader, `take`.
        Returns NONE, or KAFKA_STORAGE_ERROR where the files cannot be used.
        """
        ...

    def stop(self, topic_partition: TopicPartition) -> None:
        """No role any more; the lines stay. One that is not known is no matter."""
        ...

    def delete(self, topic_partition: TopicPartition) -> ErrorCode:
        """Stops it and removes all that there is of it, in memory and on disk; also one that is not known.

        Returns NONE, or KAFKA_STORAGE_ERROR where it cannot be put aside.
        """
        ...

    # --- what a leader does ---

    def set_replicas(
        self, topic_partition: TopicPartition, leader_epoch: int, replicas: Collection[int]
    ) -> None:
        """Goes on leading with these `replicas`, this broker among them; what is known of those that stay is
        kept, and so is whom the high watermark waits for.

        Without effect where this host does not lead at that epoch.
        """
        ...

    def set_isr(self, topic_partition: TopicPartition, leader_epoch: int, isr: Collection[int]) -> None:
        """Whom the high watermark waits for: the union of the stored ISR and of each ISR that is proposed or
        whose fate is not known. Call it before a proposal is sent, and again when its fate is known.

        Without effect where this host does not lead at that epoch.
        """
        ...

    def append(self, request: AppendLinesRequest) -> AppendLinesResponse:
        """Appends lines as one batch, all or none of them, and answers at once, as for acks=1.

        acks=all: hold the answer back until `high_watermark` has reached `base_offset` plus the number of
        lines, and put the new one in. Answer 6, with `base_offset`, if it no longer `keeps` them before.
        Whether enough replicas are in sync (19, 20) is for the caller to see (`counted`).
        Errors: 3 no replica of that name here, 6 no leader, 74 and 75 another term, 87 no lines, one with
        a newline in it, or more bytes of them than an answer can carry (`BATCH_BYTES_MAX`). 6 comes with a
        `base_offset` where the files failed meanwhile: the lines may be there.
        """
        ...

    def counted(self, topic_partition: TopicPartition) -> int | None:
        """How many replicas the high watermark waits for, this one included; None where it does not lead."""
        ...

    def keeps(self, topic_partition: TopicPartition, leader_epoch: int, end_offset: int) -> bool:
        """Whether this replica leads, and its line before `end_offset` is the one of that epoch.

        An epoch and an offset name one line, so those are the lines that were appended, also where the
        replica leads in a later term by now.
        """
        ...

    def fetch(self, request: FetchLinesRequest, *, held: bool = False) -> FetchLinesResponse:
        """Answers a follower or a consumer at once; `max_wait_ms` is left to the caller, who may ask again
        when `listen` calls, and answers what it has when the time is over.

        `held`: asked again so; nothing has been answered to this request yet. A follower joins the ISR after
        an answer, and what was held back is none.

        A follower's fetch says how far it has come, and is counted. A consumer gets lines below the high
        watermark; at or past it none. Whole batches, as they were appended, at least one even where it is
        larger than `max_bytes` or `FETCH_BYTES_MAX`; a consumer's first may begin before
        `offset`. An observer is told how far this replica is, whatever its role.
        Errors: 1 a consumer's offset below 0 or past the log end offset, 3, 6, 74, 75, and 77 for a
        follower's older incarnation (a smaller broker epoch than one seen from it), or one outside the ISR
        that has more lines of this term than this leader: they can be of a former topic of that name.
        """
        ...

    # --- what a follower does ---

    def next_fetch(
        self, topic_partition: TopicPartition, *, broker_epoch: int, max_bytes: int, max_wait_ms: int
    ) -> FetchLinesRequest | None:
        """What to ask the leader next; None where the replica does not follow."""
        ...

    def take(self, request: FetchLinesRequest, response: FetchLinesResponse) -> bool:
        """Takes the leader's answer in: appends its batches, or cuts back what diverges.

        Returns whether to ask again at once; False: wait a little first (an error, a wrong checksum, an
        answer that the replica will not follow, which `ReplicaView.failure` then explains). An answer to a
        request that is not the replica's present position in its present term changes nothing.
        """
        ...

    def reopen(self, topic_partition: TopicPartition) -> bool:
        """Opens the files of a follower that have failed anew, and has it follow on in the same term.

        A leader is not taken up so: had its files lost lines that a follower has, others would take their
        offsets in the same term. Reads the files from end to end, so the caller leaves time in between.
        Returns whether it follows again; False also for a replica that has not failed.
        """
        ...

    # --- what is known ---

    def partitions(self) -> Collection[TopicPartition]:
        """Those that have a role or lines here, ordered."""
        ...

    def view(self, topic_partition: TopicPartition) -> ReplicaView | None:
        """None for one that is not here."""
        ...

    def failures(self) -> Mapping[TopicPartition, Failure]:
        """Every replica that has failed and was told nothing else since."""
        ...

    def log_end_offset(self, topic_partition: TopicPartition) -> int | None:
        """Offset that the next line will get; None for one that is not here."""
        ...

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        """The first offset that consumers may not read yet; None for a partition that is not here."""
        ...

    def caught_up(self, topic_partition: TopicPartition, broker: int) -> bool:
        """Whether this replica leads and the broker's has come far enough to join the ISR."""
        ...

    def listen(self, listener: Callable[[TopicPartition], None]) -> None:
        """Has `listener` called when the role, log end offset or high watermark of a partition has changed.

        Called within the call that changed it, on its thread, after the change. It must only take note.
        """
        ...

    def listen_to_failures(self, listener: Callable[[TopicPartition, str], None]) -> None:
        """Has `listener` called as by `listen` when the files of a replica that leads have failed, with why.

        Not where `become_leader` answers 56: the controller knows of that.
        """
        ...

    def close(self) -> None:
        """Ends all roles and lets go of the files. Twice is no matter; nothing else may be called then."""
        ...
