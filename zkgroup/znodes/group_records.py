"""zkgroup's own znodes of a group, beside Kafka's: resets, assignments, views, freezes, the audit record.

Numbers that may not fit 32 bits are stored as text, so that a JVM parser that reads them does not fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Self

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition, ZnodeStat
from zkgroup.znodes.consumers import (
    Registration,
    commits_path,
    group_path,
    prepared_path,
    resets_path,
    static_path,
    views_path,
)
from zkgroup.znodes.json_fields import (
    DATA_BYTES_MAX,
    INT32,
    decimal,
    integer_text_of,
    object_of,
    read_object,
    show,
    text_of,
    write_object,
)
from zkgroup.znodes.paths import zkgroup_path


@dataclass(frozen=True, slots=True)
class Reset:
    """`/consumers/<g>/resets/<t>-<p>`: an operator's reset of an offset, for the running owner. Persistent.

    Deleted and created in the transaction that writes the offset, so that the child watch of each member on
    `resets` fires and each reset has its own `mzxid`.
    """

    offset: int
    """The new position; -1 for "none", so that the reset policy decides."""
    time_ms: int
    """Epoch milliseconds, for people."""
    by: str
    """The user who did it, for people."""

    @staticmethod
    def path(group: str, topic_partition: TopicPartition) -> str:
        return f"{resets_path(group)}/{topic_partition}"

    @staticmethod
    def partition_of(name: str) -> TopicPartition | None:
        """The partition in the name of a child of `resets`; None for another name."""
        topic, dash, number = name.rpartition("-")
        partition = decimal(number, range(INT32[-1] + 1))
        return TopicPartition(topic, partition) if dash and topic and partition is not None else None

    def encode(self) -> bytes:
        return write_object(
            {"version": 1, "offset": str(self.offset), "time": str(self.time_ms), "by": self.by}
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a reset marker")
        return cls(
            integer_text_of(path, fields, "offset"),
            integer_text_of(path, fields, "time"),
            text_of(path, fields, "by"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """`/consumers/<g>/commits/<t>-<p>`: which member has committed an offset, for people. Persistent.

    Set in the transaction that writes the offset, by members with `commit_history`. It is that of the present
    offset if both have the same `mzxid`. After that, only claims have written the offset if it is the same;
    otherwise a client that keeps no records has. Its `mtime` is the time of the commit.
    """

    offset: int
    member: str
    """The member id."""
    host: str | None
    """None if the member id contains it."""
    version: str
    """Of zkgroup."""
    token: int
    """The token of the claim that it was committed with."""

    @staticmethod
    def path(group: str, topic_partition: TopicPartition) -> str:
        return f"{commits_path(group)}/{topic_partition}"

    def encode(self) -> bytes:
        host = {} if self.host is None else {"host": self.host}
        return write_object(
            {
                "version": 1,
                "offset": str(self.offset),
                "member": self.member,
                **host,
                "zkgroup": self.version,
                "token": str(self.token),
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "the record of a commit")
        return cls(
            offset=integer_text_of(path, fields, "offset"),
            member=text_of(path, fields, "member"),
            host=text_of(path, fields, "host") if "host" in fields else None,
            version=text_of(path, fields, "zkgroup"),
            token=integer_text_of(path, fields, "token"),
        )


@dataclass(frozen=True, slots=True)
class StoredAssignment:
    """`/consumers/<g>/plan`: the assignment znode, with the previous owners for the sticky strategy.

    `{"version":1,"generation":"<pzxid>","inputs":"<hash>","owners":{topic:{partition:thread}}}`, and while
    a rebalance goes in steps, `"moving":{topic:{partition:thread}}`.
    Written by the first member that computed it, fenced by its expected data version; every sticky claim
    checks that version. Persistent.
    """

    generation: int
    """The `pzxid` of `ids` of the snapshot that it was computed from."""
    inputs: str
    owners: Mapping[TopicPartition, str]
    moving: Mapping[TopicPartition, str] = field(default_factory=dict)
    """The moves of this step of a rebalance: partition to the thread that had it; empty after the last
    one."""

    @staticmethod
    def path(group: str) -> str:
        return f"{group_path(group)}/plan"

    def encode(self) -> bytes:
        """Raises ConfigError if the assignment does not fit one request."""
        fields = {
            "version": 1,
            "generation": str(self.generation),
            "inputs": self.inputs,
            "owners": _by_topic(self.owners),
        }
        data = write_object({**fields, "moving": _by_topic(self.moving)} if self.moving else fields)
        if len(data) > DATA_BYTES_MAX:
            raise ConfigError(
                f"plan of {len(self.owners)} partitions: expected at most {DATA_BYTES_MAX} bytes,"
                f" found {len(data)}; use another strategy or shorter consumer ids"
            )
        return data

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a plan")
        return cls(
            integer_text_of(path, fields, "generation"),
            text_of(path, fields, "inputs"),
            _threads(path, object_of(path, fields, "owners")),
            _threads(path, object_of(path, fields, "moving")) if "moving" in fields else {},
        )


@dataclass(frozen=True, slots=True)
class PreparedPartitions:
    """`/consumers/<g>/prepared/<member>`: the partitions that a member is ready to take over. Ephemeral.

    `{"version":1,"generation":"<pzxid>","partitions":{topic:["0","1"]}}`. The present owners of these
    partitions watch it, and release them then.
    """

    generation: int
    """The `pzxid` of `ids` of the assignment that gives the partitions to this member."""
    partitions: frozenset[TopicPartition]

    @staticmethod
    def path(group: str, member: str) -> str:
        return f"{prepared_path(group)}/{member}"

    def encode(self) -> bytes:
        topics: dict[str, list[str]] = {}
        for tp in sorted(self.partitions):
            topics.setdefault(tp.topic, []).append(str(tp.partition))
        return write_object({"version": 1, "generation": str(self.generation), "partitions": topics})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "what a member has prepared")
        topics = object_of(path, fields, "partitions")
        partitions = []
        for topic, numbers in topics.items():
            if not isinstance(numbers, list) or not all(isinstance(number, str) for number in numbers):
                raise CorruptZnodeError(path, f"a list of partition numbers of {topic!r}", show(numbers))
            partitions += [TopicPartition(topic, _partition(path, number)) for number in numbers]
        return cls(integer_text_of(path, fields, "generation"), frozenset(partitions))


def _by_topic(threads: Mapping[TopicPartition, str]) -> dict[str, dict[str, str]]:
    topics: dict[str, dict[str, str]] = {}
    for topic, partition, thread in sorted((tp.topic, tp.partition, who) for tp, who in threads.items()):
        topics.setdefault(topic, {})[str(partition)] = thread
    return topics


def _threads(path: str, topics: Mapping[str, object]) -> dict[TopicPartition, str]:
    return {
        TopicPartition(topic, _partition(path, number)): text_of(path, partitions, number)
        for topic in topics
        for partitions in [object_of(path, topics, topic)]
        for number in partitions
    }


@dataclass(frozen=True, slots=True)
class View:
    """`/consumers/<g>/views/<member>`: hashes of a member's assignment. Ephemeral.

    `group verify` compares them to find a member that disagrees. Written with a delay, and only once the
    member is stable.
    """

    generation: int
    inputs: str
    """Digest of the input of the assignment."""
    result: str
    """Digest of the whole group's assignment."""
    took_ms: int | None = None
    """Milliseconds from the change until the member owned what it was assigned; None for unknown."""

    @staticmethod
    def path(group: str, member: str) -> str:
        return f"{views_path(group)}/{member}"

    def encode(self) -> bytes:
        fields: dict[str, object] = {
            "version": 1,
            "generation": str(self.generation),
            "inputs": self.inputs,
            "result": self.result,
        }
        if self.took_ms is not None:
            fields["took"] = str(self.took_ms)
        return write_object(fields)

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a view")
        return cls(
            integer_text_of(path, fields, "generation"),
            text_of(path, fields, "inputs"),
            text_of(path, fields, "result"),
            integer_text_of(path, fields, "took") if "took" in fields else None,
        )


_AWAY_KEY: Final = "away"


@dataclass(frozen=True, slots=True)
class StaticMember:
    """`/consumers/<g>/static/<member>`: the registration of a member that comes back within a grace.

    Persistent. Written by the member in each transaction that registers it. While the member is not
    registered, the first other member that notices adds the key `away`, so that the `mtime` is the begin of
    the absence. Without data, nothing is kept for the member. Deleted with the group only: a new znode would
    begin at version 0, and a late write of an absence that is over would pass.
    """

    NOTHING: ClassVar[bytes] = b""

    registration: Registration
    is_away: bool = False
    """True if a member has noticed that it is not registered."""

    @staticmethod
    def path(group: str, member: str) -> str:
        return f"{static_path(group)}/{member}"

    @property
    def grace_ms(self) -> int:
        """Milliseconds that the absence may take."""
        return self.registration.restart_grace_ms or 0

    def encode(self) -> bytes:
        away = {_AWAY_KEY: "true"} if self.is_away else {}
        return replace(self.registration, extensions={**self.registration.extensions, **away}).encode()

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The entry. Raises CorruptZnodeError, also for one without data."""
        registration = Registration.decode(path, data)
        extensions = dict(registration.extensions)
        is_away = extensions.pop(_AWAY_KEY, None) is not None
        return cls(replace(registration, extensions=extensions), is_away)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """`/consumers/<g>/frozen`: while it stands, partitions of the group move by leaving and death alone.

    Persistent. It stands from its `ctime` for `for_ms`, by ZooKeeper's clock; a member or the coordinator
    deletes it then. Created in the transaction that sets `owners`, whose data version therefore counts the
    freezes of the group.
    """

    reason: str
    """For people."""
    by: str
    """The user who did it, for people."""
    for_ms: int
    """Milliseconds from its `ctime`."""
    allows_takeover: bool
    """True if partitions without an owner may be claimed."""

    @staticmethod
    def path(group: str) -> str:
        return f"{group_path(group)}/frozen"

    def until_ms(self, stat: ZnodeStat) -> int:
        """The end by ZooKeeper's clock, in epoch milliseconds. `stat`: of the znode."""
        return stat.ctime + self.for_ms

    def encode(self) -> bytes:
        return write_object(
            {
                "version": 1,
                "reason": self.reason,
                "by": self.by,
                "for_ms": str(self.for_ms),
                "allow_takeover": "true" if self.allows_takeover else "false",
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a freeze")
        takeover = text_of(path, fields, "allow_takeover")
        if takeover not in ("true", "false"):
            raise CorruptZnodeError(path, "allow_takeover true or false", show(takeover))
        return cls(
            reason=text_of(path, fields, "reason"),
            by=text_of(path, fields, "by"),
            for_ms=integer_text_of(path, fields, "for_ms", range(1, 2**63)),
            allows_takeover=takeover == "true",
        )


def _partition(path: str, text: str) -> int:
    number = decimal(text, range(INT32[-1] + 1))
    if number is None:
        raise CorruptZnodeError(path, "partition numbers as keys", show(text))
    return number


def audit_path() -> str:
    """The parent of the audit records, one for each group."""
    return f"{zkgroup_path()}/audit"


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """The last change of a group by an operator, so that an audit does not report it as a fault.

    Written in the transaction of the change. Persistent, one for each group; its history is in ZooKeeper's
    log.
    """

    time_ms: int
    """Epoch milliseconds, for people."""
    user: str
    command: str
    undo: str
    """Id of the undo file and number of the transaction, which identify the change."""

    @staticmethod
    def path(group: str) -> str:
        return f"{audit_path()}/{group}"

    def encode(self) -> bytes:
        return write_object(
            {
                "version": 1,
                "time": str(self.time_ms),
                "user": self.user,
                "command": self.command,
                "undo": self.undo,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "an audit record")
        return cls(
            time_ms=integer_text_of(path, fields, "time"),
            user=text_of(path, fields, "user"),
            command=text_of(path, fields, "command"),
            undo=text_of(path, fields, "undo"),
        )
