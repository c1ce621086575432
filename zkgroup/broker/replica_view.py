"""Replicas as values: their role, followers and failure, and the actions of a controller. Pure."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeVar

from zkgroup.model import TopicPartition
from zkgroup.wire.control import BrokerEndPoint, PartitionStateInfo
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import NO_EPOCH, NO_OFFSET, NO_TIME, RecordError

FETCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""Most bytes of record batches in one answer, whatever the request allows; a larger batch is sent alone.

Kafka's brokers have `fetch.max.bytes` with 55 MiB, but they send from the page cache: zkgroup keeps an answer
in memory until the client has received it."""


class Role(Enum):
    """The role of a replica."""

    LEADER = "leader"
    FOLLOWER = "follower"
    NONE = "none"
    """Stopped, failed, or without a role since the manager was opened: its log is kept and not served."""


class FollowerId(NamedTuple):
    """The broker of a follower, and which incarnation of it."""

    broker: int
    broker_epoch: int
    """czxid of its registration."""


@dataclass(frozen=True, slots=True)
class Follower:
    """The progress of a follower, as its leader knows it."""

    log_end_offset: int | None
    """None until it has fetched in this leader epoch with a log that does not diverge."""
    caught_up: bool
    """True if it may join the ISR: its last fetch reached the high watermark, the start of this leader epoch,
    and the log end offset of the previous answer."""
    lost: bool
    """True if it fetched below the high watermark as an ISR member: records that it acknowledged are lost.

    It must leave the ISR at once, and gets no records until `set_isr` leaves it out."""


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """The state of a replica on one broker."""

    role: Role
    """Leader, follower, or none."""
    leader_epoch: int
    """The leader epoch of the role; -1 without a role."""
    log_end_offset: int
    """The offset of the next record."""
    high_watermark: int
    """The first offset that consumers may not read yet; a follower has it from its leader."""
    leader_epoch_start: int
    """The log end offset of a leader when it became leader; -1 for another role."""
    followers: Mapping[int, Follower] = field(default_factory=dict)
    """The other replicas of a leader, by broker id."""
    failure: str | None = None
    """The reason why this replica has no role, or cannot take its leader's records; a message for people."""


class AppendResult(NamedTuple):
    """The result of an append to one partition: Kafka's `LogAppendInfo`, or the error."""

    error: ErrorCode
    base_offset: int = NO_OFFSET
    """Offset of the first record. For a batch that an idempotent producer sends again: its first offset. With
    error 6 after a failed write: the offset that the records may have."""
    end_offset: int = NO_OFFSET
    """The offset behind the last record; with acks=all the high watermark must reach it."""
    leader_epoch: int = NO_EPOCH
    """The leader epoch of the last record."""
    log_append_time: int = NO_TIME
    """The timestamp of all records in epoch milliseconds; -1 with `CreateTime`."""
    log_start_offset: int = NO_OFFSET
    high_watermark: int = NO_OFFSET
    message: str = ""
    """With an error: the reason, a message for people."""
    record_errors: tuple[RecordError, ...] = ()
    """The records for which a batch was refused, where it was for single records."""


class ReplicaFailure(NamedTuple):
    """The reason why a replica has no role or cannot take its leader's records, and the time since then."""

    reason: str
    """A message for people."""
    since_ms: int
    """Time of the failure in epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class BecomeLeader:
    """The action to stop fetching, reset the followers' progress, and lead."""

    state: PartitionStateInfo

    @property
    def topic_partition(self) -> TopicPartition:
        return self.state.topic_partition


@dataclass(frozen=True, slots=True)
class SetReplicas:
    """The action to continue as leader, with these replicas."""

    state: PartitionStateInfo

    @property
    def topic_partition(self) -> TopicPartition:
        return self.state.topic_partition


@dataclass(frozen=True, slots=True)
class BecomeFollower:
    """The action to stop leading, and fetch from the leader."""

    state: PartitionStateInfo
    leader: BrokerEndPoint | None
    """The leader's address; None without a leader, or if the request does not name it: no fetches then."""

    @property
    def topic_partition(self) -> TopicPartition:
        return self.state.topic_partition


@dataclass(frozen=True, slots=True)
class StopReplica:
    """The action to end the role and keep the log."""

    topic_partition: TopicPartition


@dataclass(frozen=True, slots=True)
class DeleteReplica:
    """The action to end the role and delete the log, also for an unknown partition."""

    topic_partition: TopicPartition


RoleAction = BecomeLeader | BecomeFollower | StopReplica | DeleteReplica
Action = RoleAction | SetReplicas

ResponseT = TypeVar("ResponseT")
Handling = Generator[Action, int, ResponseT]
"""A request handler: it yields actions, is sent their error codes, and returns the response."""


@dataclass(frozen=True, slots=True)
class AssignedRole:
    """The role that the controller gave to one replica on this broker."""

    state: PartitionStateInfo
    """The state in the last LeaderAndIsr that was applied; its leader epoch fences later requests."""
    leads: bool
    """True if this broker leads the partition now: False after StopReplica or a failed action."""
    error: int = ErrorCode.NONE
    """The error of the action; a later controller gets it as the answer to the same leader epoch."""
    awaits_leader: bool = False
    """True if that request named no leader to fetch from; the same leader epoch may come again with one."""
