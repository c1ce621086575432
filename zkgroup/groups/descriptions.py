"""Results of the reads of a group, as typed values: the keys are those of the JSON documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from zkgroup.groups.ensemble import AsOf
from zkgroup.model import TopicPartition


class GroupState(Enum):
    """What an operator sees of a group."""

    EMPTY = "empty"
    """No member is registered."""
    STABLE = "stable"
    """Every partition of every subscribed topic is owned by the thread that the plan names."""
    REBALANCING = "rebalancing"
    """Wrong, and something changed less than 10 s ago or between two reads."""
    INCONSISTENT = "inconsistent"
    """Wrong, and nothing changes."""


class ProblemKind(Enum):
    """What can be wrong with a group, in the order in which it is reported."""

    UNREADABLE_TOPIC = "unreadable_topic"
    UNREADABLE_REGISTRATION = "unreadable_registration"
    UNSUPPORTED_SUBSCRIPTION = "unsupported_subscription"
    ASSIGNORS_DIFFER = "assignors_differ"
    MEMBER_DISAGREES = "member_disagrees"
    UNREADABLE_OWNER = "unreadable_owner"
    OWNER_OF_UNKNOWN_PARTITION = "owner_of_unknown_partition"
    OWNER_OF_UNSUBSCRIBED_TOPIC = "owner_of_unsubscribed_topic"
    OWNER_NOT_MEMBER = "owner_not_member"
    WRONG_OWNER = "wrong_owner"
    UNOWNED = "unowned"
    UNREADABLE_OFFSET = "unreadable_offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is not as it should be, and where."""

    kind: ProblemKind
    topic: str | None = None
    partition: int | None = None
    expected: str | None = None
    found: str | None = None
    since_ms: int | None = None
    """Since when, where the znodes show it."""
    detail: str = ""
    """For a person: the znode, who holds it, what follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member of a group and what it owns."""

    member: str
    session_id: int
    threads: Mapping[str, int]
    """Evaluated topics; empty where the subscription cannot be read or evaluated."""
    pattern: str | None
    subscription: Mapping[str, int]
    """The registration's own entry: topics, or one regular expression."""
    registered_at_ms: int
    kind: Literal["zkgroup", "jvm", "unknown"]
    """`zkgroup` (has the key of zkgroup), `jvm` (bytes as Kafka 0.8-0.9 writes them) or `unknown`."""
    host: str | None
    agrees: bool | None
    """Whether its published result equals the computed one; None where there is none for this snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """A partition of a group: its owner, its committed offset and its lag."""

    topic_partition: TopicPartition
    owner: str | None
    """Thread id in the owner znode; its raw text where that is none."""
    member: str | None
    expected_owner: str | None
    owned_since_ms: int | None
    token: int | None
    offset: int | None
    committed_at_ms: int | None
    """None where the last write was a claim: that is no commit."""
    log_end_offset: int | None
    lag: int | None
    problem: ProblemKind | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group with its members, partitions and problems."""

    as_of: AsOf
    group: str
    state: GroupState
    assignor: str | None
    generation: int | None
    members: tuple[MemberDescription, ...]
    partitions: tuple[PartitionDescription, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """One row of `group list`."""

    group: str
    state: GroupState
    members: int
    topics: tuple[str, ...]
    """Subscribed to, or with an owner or an offset."""
    partitions: int
    """As many as `describe` has rows: of subscribed topics, and all that have an owner or an offset."""
    unowned: int
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What `group verify` found."""

    as_of: AsOf
    group: str
    problems: tuple[Problem, ...]

    @property
    def converged(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewRow:
    """The thread that owns a partition now, and the one that would; None: no thread."""

    topic_partition: TopicPartition
    now: str | None
    then: str | None

    @property
    def step(self) -> str | None:
        """`moves`, `assigned` (not owned now), `released` (owned no more), None where it stays."""
        if self.now == self.then:
            return None
        return "assigned" if self.now is None else "released" if self.then is None else "moves"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What the group's ownership would become; nothing is changed."""

    as_of: AsOf
    group: str
    assignor: str
    partitions: tuple[PreviewRow, ...]
    moves: int
    """Partitions whose owning thread would be another than now; new and freed ones do not count."""
    notes: tuple[str, ...]

    def count_of(self, step: str) -> int:
        """Partitions with this step."""
        return sum(row.step == step for row in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDescription:
    """One row of `offsets show`."""

    topic_partition: TopicPartition
    offset: int | None
    version: int
    committed_at_ms: int | None
    owner: str | None
    log_end_offset: int | None
    lag: int | None
