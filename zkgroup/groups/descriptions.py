"""Results of the reads of a group, as typed values: the keys are those of the JSON documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from zkgroup.groups.ensemble import AsOf
from zkgroup.groups.lag_verdict import LagVerdict
from zkgroup.model import TopicPartition

Evidence = Literal["record", "reset", "owner"]
"""How the writer of an offset is known. `record`: the member has written who it is with its commit. `reset`:
an operator's command has. `owner`: it is the partition's owner, which has claimed it before the write."""

Protocol = Literal["zookeeper", "coordinator"]
"""The protocol by which the members of a group join it."""


class GroupState(Enum):
    """The state of a group, for an operator."""

    EMPTY = "empty"
    """No member is registered, and the group is not frozen."""
    STABLE = "stable"
    """Every partition of every subscribed topic is owned by the thread that it is assigned to, or waits for a
    member that is away."""
    REBALANCING = "rebalancing"
    """Wrong, and something changed less than 10 s ago or between two reads; or between two steps of a
    rebalance with `rebalance_moves_max`."""
    INCONSISTENT = "inconsistent"
    """Wrong, and nothing changes."""
    FROZEN = "frozen"
    """An operator has frozen it: nothing moves but by leaving and death."""


class ProblemKind(Enum):
    """The kinds of problems of a group, in the order in which they are reported."""

    PERSISTENT_ZNODE = "persistent_znode"
    """A registration, owner or view is persistent, so it ends with no session."""
    UNREADABLE_TOPIC = "unreadable_topic"
    """The znode of a subscribed topic cannot be read."""
    UNREADABLE_REGISTRATION = "unreadable_registration"
    """The registration of a member cannot be read."""
    UNSUPPORTED_SUBSCRIPTION = "unsupported_subscription"
    """A subscription cannot be evaluated, so no assignment is expected."""
    ASSIGNORS_DIFFER = "assignors_differ"
    """Members publish no strategy that all have, or different `exclude_internal_topics`."""
    UNKNOWN_ASSIGNOR = "unknown_assignor"
    """The members use a strategy of their own that is not installed here, so no assignment is expected."""
    MEMBER_DISAGREES = "member_disagrees"
    """A member published another assignment for this generation."""
    UNREADABLE_OWNER = "unreadable_owner"
    """An owner znode cannot be read."""
    OWNER_OF_UNKNOWN_PARTITION = "owner_of_unknown_partition"
    """A partition that the topic does not have, or no partition number, has an owner."""
    OWNER_OF_UNSUBSCRIBED_TOPIC = "owner_of_unsubscribed_topic"
    """A partition has an owner, and no member subscribes to its topic."""
    OWNER_NOT_MEMBER = "owner_not_member"
    """The owner, a thread id or the id of a member alone, is not registered, or its znode belongs to another
    session."""
    WRONG_OWNER = "wrong_owner"
    """The owner is not the thread that the assignment names."""
    UNOWNED = "unowned"
    """A partition of a subscribed topic has no owner."""
    FROZEN = "frozen"
    """A partition has no owner until the freeze of its group ends. Or a member does not obey the freeze, or
    its marker cannot be read."""
    AWAY = "away"
    """A partition has no owner and waits for a static member, until its grace ends."""
    RESTART_GRACE_VOID = "restart_grace_void"
    """No grace of a static member holds, because this registered member does not know static members."""
    UNREADABLE_OFFSET = "unreadable_offset"
    """An offset znode cannot be read, or its name is no partition number."""
    UNREADABLE_GROUP = "unreadable_group"
    """Kafka's protocol: header, members or slot of the group cannot be read."""
    UNREADABLE_MEMBER = "unreadable_member"
    """Kafka's protocol: subscription or assignment of a member cannot be read."""
    SLOT_NOT_LED = "slot_not_led"
    """Kafka's protocol: the group has members, and no broker of zkgroup leads its slot."""
    COORDINATOR_SILENT = "coordinator_silent"
    """Kafka's protocol: the broker that leads the slot does not answer for the group."""
    NOT_STABLE = "not_stable"
    """Kafka's protocol: the coordinator reports a rebalance."""
    STORED_GROUP_DIFFERS = "stored_group_differs"
    """Kafka's protocol: the coordinator reports other members or another generation than ZooKeeper has."""
    MARKER_WITHOUT_MEMBERS = "marker_without_members"
    """Kafka's protocol: the marker keeps ZooKeeper consumers out, and the group has no members."""
    MEMBERS_WITHOUT_MARKER = "members_without_marker"
    """Kafka's protocol: the group has members, and no marker keeps ZooKeeper consumers out."""
    ZOOKEEPER_MEMBER = "zookeeper_member"
    """Kafka's protocol: a ZooKeeper consumer is registered as well, and consumes partitions a second time."""
    ASSIGNED_TWICE = "assigned_twice"
    """Kafka's protocol: a partition is assigned to more than one member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is not as it should be, and where."""

    kind: ProblemKind
    """The kind of problem."""
    topic: str | None = None
    """The topic; None if the problem is not about one topic."""
    partition: int | None = None
    """The partition number; None if the problem is not about one partition."""
    expected: str | None = None
    """The value that should be there; None if that is not known."""
    found: str | None = None
    """The value that is there; None for nothing."""
    since_ms: int | None = None
    """The time since which it is so, where the znodes show it."""
    detail: str = ""
    """For a person: the znode, who holds it, what follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeDescription:
    """A freeze of a group: nothing moves but by leaving and death."""

    reason: str
    """The reason that the operator gave."""
    until_ms: int | None
    """The end by ZooKeeper's clock, in epoch milliseconds; None if it cannot be read."""
    by: str
    """The user who did it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member of a group and what it owns."""

    member: str
    """The member id: `<group>_<consumer id>`, or as a coordinator gives it to a client."""
    session_id: int | None
    """Id of the ZooKeeper session that owns the registration; None for a client of a coordinator, and for a
    static member that is away."""
    threads: Mapping[str, int]
    """Evaluated topics; empty where the subscription cannot be read or evaluated. A client has one thread."""
    pattern: str | None
    """`static`, `white_list` or `black_list`; None if the registration cannot be read, and for a client."""
    subscription: Mapping[str, int]
    """The registration's own entry: topics, or one regular expression. The topics of a client."""
    registered_at_ms: int | None
    """Creation of the registration, by the server's clock, in epoch milliseconds; None for a client, and for
    a member that is away."""
    kind: Literal["zkgroup", "jvm", "unknown", "client"]
    """`zkgroup` (has the key of zkgroup), `jvm` (bytes as Kafka 0.8-0.9 writes them), `unknown`, or `client`:
    of Kafka's group protocol, through a coordinator."""
    host: str | None
    """The host, from the member id or the registration; None if neither has one. The address of a client."""
    agrees: bool | None
    """True if its published result equals the computed one; None where there is none for this
    snapshot."""
    client_id: str | None = None
    """The `client.id` of a client; None for other members."""
    instance_id: str | None = None
    """The `group.instance.id` of a static client; None for others."""
    away_until_ms: int | None = None
    """The end of the grace of a static member that is away, in epoch milliseconds: its partitions wait for
    it. None for others, and as long as no member has noticed that it is away; it has no session then."""
    pid: int | None = None
    """The process id; None where the registration has none, and for a client."""
    version: str | None = None
    """The version of zkgroup that wrote the registration; None for other members."""
    capacity: int | None = None
    """The `capacity` of its settings; None where it is not set."""
    rack: str | None = None
    """The `client_rack` of its settings; None where it is not set, and for a client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """A partition of a group: its owner, its committed offset and its lag."""

    topic_partition: TopicPartition
    """The partition."""
    owner: str | None
    """Thread id in the owner znode; its raw text where that is none, as the member id that some clients write
    there. The member id of a client of a coordinator."""
    member: str | None
    """The member that owns it; None if there is no owner, or the znode cannot be read."""
    expected_owner: str | None
    """The thread id that the assignment names; None if there is none, in a group of Kafka's protocol, and
    where the owner is another client's that writes its id without a thread."""
    owned_since_ms: int | None
    """Creation of the owner znode, in epoch milliseconds of the server; None without one."""
    token: int | None
    """The fencing token: the owner znode's `czxid`. None without an owner znode."""
    offset: int | None
    """The committed offset; None if there is none, for a stored -1, or if it cannot be read."""
    committed_at_ms: int | None
    """None where the last write was a claim: that is no commit."""
    log_end_offset: int | None
    """The offset that the next record will get; None if no source reported it."""
    lag: int | None
    """Log end offset minus committed offset, at least 0; None if one of them is unknown."""
    problem: ProblemKind | None
    """The first problem of the partition; None for none."""
    verdict: LagVerdict | None = None
    """Whether its consumer keeps up, by the last reads; None while they are too few to know it. One read
    knows only that a partition without lag is `ok`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group with its members, partitions and problems."""

    as_of: AsOf
    """The moment at which the group was read."""
    group: str
    """The group."""
    state: GroupState
    """The state of the group."""
    assignor: str | None
    """The assignment strategy; None if there are no members."""
    generation: int | None
    """The `pzxid` of `ids`, which grows with each member that joins or leaves; None if there is no `ids`."""
    members: tuple[MemberDescription, ...]
    """The members, by id."""
    partitions: tuple[PartitionDescription, ...]
    """Partitions of subscribed topics and all with an owner or an offset, by topic and number."""
    problems: tuple[Problem, ...]
    """Everything that is wrong, in the order of `ProblemKind`."""
    protocol: Protocol = "zookeeper"
    """`zookeeper`: the members register in ZooKeeper. `coordinator`: they join through a broker, with Kafka's
    group protocol. Of a group without members: what it had last."""
    protocol_state: str | None = None
    """Kafka's word for the state of a coordinator's group; None if its coordinator has not reported it,
    and for a group of ZooKeeper consumers."""
    group_generation: int | None = None
    """The generation that the coordinator counts; None for a group of ZooKeeper consumers."""
    persistent: tuple[str, ...] = ()
    """Paths of registrations, owners and views that are persistent, so that they end with no session."""
    frozen: FreezeDescription | None = None
    """The freeze that stands; None for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """One row of `group list`."""

    group: str
    """The group."""
    state: GroupState
    """The state of the group."""
    members: int
    """The number of its members."""
    topics: tuple[str, ...]
    """Topics that are subscribed to, or have an owner or an offset."""
    partitions: int
    """As many as `describe` has rows: of subscribed topics, and all that have an owner or an offset."""
    unowned: int
    """Number of partitions of subscribed topics that have no owner, and wait for no member that is away."""
    lag: int | None
    """The sum of all known lags, in offsets; None if none is known."""
    protocol: Protocol = "zookeeper"
    """As in `GroupDescription`."""
    protocol_state: str | None = None
    """As in `GroupDescription`."""
    persistent: tuple[str, ...] = ()
    """As in `GroupDescription`."""
    verdict: LagVerdict | None = None
    """The worst verdict of its partitions; None if that of one is unknown and none is worse than `ok`."""
    frozen: FreezeDescription | None = None
    """The freeze that stands; None for none."""
    away: int = 0
    """Number of partitions of subscribed topics that have no owner and wait for members that are away."""
    away_until_ms: int | None = None
    """The latest end of a grace, in epoch milliseconds; None as long as no absence has been noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The findings of `group verify`."""

    as_of: AsOf
    """The moment at which the group was read."""
    group: str
    """The group."""
    problems: tuple[Problem, ...]
    """Everything that is wrong, in the order of `ProblemKind`; empty if it has converged."""

    frozen: FreezeDescription | None = None
    """The freeze that stands; None for none."""

    @property
    def converged(self) -> bool:
        """Returns whether there is no problem."""
        return not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewRow:
    """The thread that owns a partition now, and the one that would; None: no thread."""

    topic_partition: TopicPartition
    """The partition."""
    now: str | None
    """Thread id of the present owner; None for none."""
    then: str | None
    """Thread id of the owner after the change; None for none."""

    @property
    def step(self) -> str | None:
        """`moves`, `assigned` (not owned now), `released` (owned no more), None where it stays."""
        if self.now == self.then:
            return None
        return "assigned" if self.now is None else "released" if self.then is None else "moves"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The ownership that a change of the group would lead to; nothing is changed."""

    as_of: AsOf
    """The moment at which the group was read."""
    group: str
    """The group."""
    assignor: str
    """The assignment strategy that was used."""
    partitions: tuple[PreviewRow, ...]
    """Partitions that have an owner now or would have one, by topic and number."""
    moves: int
    """Partitions whose owning thread would be another than now; new and freed ones do not count."""
    notes: tuple[str, ...]
    """Warnings for the operator, one sentence each; empty for none."""

    def count_of(self, step: str) -> int:
        """Partitions with this step."""
        return sum(row.step == step for row in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDescription:
    """One row of `offsets show`."""

    topic_partition: TopicPartition
    """The partition."""
    offset: int | None
    """The committed offset; None for a stored -1, or if it cannot be read."""
    version: int
    """Data version of the offset znode."""
    committed_at_ms: int | None
    """Time of the commit, by the server's clock, in epoch milliseconds; None if its last write was a
    claim."""
    owner: str | None
    """The thread id in the owner znode, or the member id of a client; None if the partition has no owner."""
    log_end_offset: int | None
    """The offset that the next record will get; None if no source reported it."""
    lag: int | None
    """Log end offset minus committed offset, at least 0; None if one of them is unknown."""
    written_by: str | None = None
    """The member that committed the offset, or the user who reset it; None if it is not known, or was not
    asked for."""
    written_at_ms: int | None = None
    """The time of that commit or reset, by the server's clock, in epoch milliseconds."""
    written_host: str | None = None
    """The host of that member."""
    written_version: str | None = None
    """The version of zkgroup of that member; None for others."""
    written_evidence: Evidence | None = None
    """How it is known."""
