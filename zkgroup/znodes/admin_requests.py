"""Requests to the controller: reassignments, preferred and unclean elections, deletions of topics.

Each exists until the controller has executed it. Unclean elections are zkgroup's own, with a result for
each partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self, get_args

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.controller import controller_state_path
from zkgroup.znodes.ids import check_once, read_entries, validate_topic, write_entry
from zkgroup.znodes.json_fields import (
    INT32,
    INT64,
    check_brokers,
    check_number,
    check_size,
    check_text,
    decimal,
    integer_text_of,
    integers_of,
    object_of,
    read_object,
    show,
    text_of,
    write_object,
)


def admin_path() -> str:
    """The parent of the requests to the controller."""
    return "/admin"


@dataclass(frozen=True, slots=True)
class Move:
    """The target replicas of one partition in a reassignment."""

    topic_partition: TopicPartition
    """The partition."""
    replicas: tuple[int, ...]
    """Target replica list, preferred leader first.

    A tool of 0.8.2.2 can write an empty one, which is invalid.
    """

    def entry(self) -> dict[str, object]:
        """The entry in a request and in Kafka's files. Raises ConfigError for an invalid replica list."""
        entry = write_entry(self.topic_partition)
        if not self.replicas:
            raise ConfigError(f"move of {self.topic_partition}: expected replicas, found none")
        return {**entry, "replicas": check_brokers(f"move of {self.topic_partition}", self.replicas)}


def read_moves(path: str, fields: Mapping[str, object], key: str = "partitions") -> tuple[Move, ...]:
    """The moves in a list; other keys of each are ignored. Raises CorruptZnodeError."""
    return tuple(
        Move(topic_partition, integers_of(path, entry.get("replicas"), f"'replicas' of {topic_partition}"))
        for topic_partition, entry in read_entries(path, fields, key)
    )


@dataclass(frozen=True, slots=True)
class Reassignment:
    """`/admin/reassign_partitions`: the running reassignments. Persistent.

    A tool creates it; the controller removes finished entries and deletes it with the last one:
    `{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,1]}]}`, which is also the form
    of Kafka's files (kafka/admin/ReassignPartitionsCommand.scala@0.8.2.2).
    """

    moves: tuple[Move, ...]
    """The moves in order. A file may name a partition twice, which its reader must refuse."""

    @staticmethod
    def path() -> str:
        """The path of the only request."""
        return f"{admin_path()}/reassign_partitions"

    @property
    def targets(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Partition to target replicas; of two entries for one partition the last counts, as in Kafka."""
        return {move.topic_partition: move.replicas for move in self.moves}

    def encode(self) -> bytes:
        """The JSON with exactly these keys: Kafka 2.x ignores a request with any other key.

        Raises ConfigError for no entry (0.8.2.2 never removes that), a duplicate partition or broker, an
        empty replica list (0.8.2.2 applies it) and for data too big for one request.
        """
        check_once("reassignment", (move.topic_partition for move in self.moves))
        fields = {"version": 1, "partitions": [move.entry() for move in self.moves]}
        return check_size(f"reassignment of {len(self.moves)} partitions", write_object(fields))

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The request; other keys, such as `log_dirs`, are ignored. Raises CorruptZnodeError."""
        return cls(read_moves(path, read_object(path, data, "a reassignment")))


@dataclass(frozen=True, slots=True)
class PreferredElection:
    """`/admin/preferred_replica_election`: partitions whose first replica is to lead. Persistent.

    `{"version":1,"partitions":[{"topic":"orders","partition":0}]}`, created by a tool. The controller deletes
    it after the attempt (kafka/admin/PreferredReplicaLeaderElectionCommand.scala@0.8.2.2).
    """

    partitions: tuple[TopicPartition, ...]

    @staticmethod
    def path() -> str:
        return f"{admin_path()}/preferred_replica_election"

    def encode(self) -> bytes:
        """Raises ConfigError for no partition, one named twice, and more than one request can carry."""
        check_once("preferred election", self.partitions)
        fields = {"version": 1, "partitions": [write_entry(each) for each in self.partitions]}
        return check_size(f"preferred election of {len(self.partitions)} partitions", write_object(fields))

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a preferred election")
        return cls(tuple(topic_partition for topic_partition, _ in read_entries(path, fields)))


PARTITIONS_MAX: Final = 1000
"""Most partitions of one request, so that their results fit into one record."""
REASON_MAX: Final = 200
"""Most characters of the reason for one partition; a longer one is cut when it is written."""
ELECTIONS_KEPT: Final = 100
"""Most records of finished requests."""

Verdict = Literal["unclean", "elected", "not_needed", "refused"]

_VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
_NUMBERS: Final = range(INT32[-1] + 1)


def unclean_elections_path() -> str:
    """Its children are the last requests that ended, `ELECTIONS_KEPT` of them."""
    return f"{controller_state_path()}/elected"


@dataclass(frozen=True, slots=True)
class UncleanElection:
    """`/zkgroup/controller/elect`: partitions that a live replica is to lead, in sync or not. Persistent.

    `{"version":"1","type":"unclean","partitions":[{"topic":"orders","partition":"0"}],"time":"<ms>","by":"me"}`,
    created by a tool if `/controller` is zkgroup's (its znode version is 1): Kafka's controllers do not read
    it. The controller deletes it in the transaction that creates `UncleanElectionDone`.
    """

    partitions: tuple[TopicPartition, ...]
    time_ms: int
    """Epoch milliseconds of the request."""
    by: str
    """The user who requested it, for people."""

    @staticmethod
    def path() -> str:
        return f"{controller_state_path()}/elect"

    def encode(self) -> bytes:
        """Raises ConfigError for no partition, a duplicate, more than `PARTITIONS_MAX`, and invalid names."""
        check_once("unclean election", self.partitions)
        if len(self.partitions) > PARTITIONS_MAX:
            found = len(self.partitions)
            raise ConfigError(
                f"unclean election: expected at most {PARTITIONS_MAX} partitions, found {found}"
            )
        fields = {
            "version": "1",
            "type": "unclean",
            "partitions": [_entry(each) for each in self.partitions],
            "time": str(self.time_ms),
            "by": check_text("by", self.by),
        }
        return check_size("unclean election", write_object(fields))

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The request. Raises CorruptZnodeError, also for another type of election."""
        fields = read_object(path, data, "an unclean election")
        if text_of(path, fields, "type") != "unclean":
            raise CorruptZnodeError(path, "'unclean' in 'type'", show(fields["type"]))
        return cls(
            tuple(topic_partition for topic_partition, _ in _entries(path, fields)),
            integer_text_of(path, fields, "time"),
            text_of(path, fields, "by"),
        )


@dataclass(frozen=True, slots=True)
class PartitionVerdict:
    """The result of an unclean election for one partition."""

    topic_partition: TopicPartition
    """The partition."""
    verdict: Verdict
    """`unclean`: a replica out of sync leads, acknowledged records may be lost; `elected`: a replica in sync
    leads; `not_needed`: it has a live leader; `refused`: see the reason."""
    leader: int | None
    """The present leader; None if there is none."""
    reason: str = ""
    """The reason for a refusal; empty otherwise."""


@dataclass(frozen=True, slots=True)
class UncleanElectionDone:
    """`/zkgroup/controller/elected/<czxid>`: the results of the request with this czxid. Persistent.

    The tool that made a request waits for this znode.
    """

    partitions: tuple[PartitionVerdict, ...]
    """The partitions in the order of the request; none if it could not be read."""
    epoch: int
    """Epoch of the controller that executed it."""
    time_ms: int
    """Epoch milliseconds of the end."""
    reason: str = ""
    """The reason why no election was attempted."""

    @staticmethod
    def path(czxid: int) -> str:
        """The path of the results of the request with this czxid."""
        return f"{unclean_elections_path()}/{czxid}"

    @staticmethod
    def czxid_of(name: str) -> int | None:
        """The czxid of the request, in the name of a child; None for another name."""
        return decimal(name, range(INT64[-1] + 1))

    def encode(self) -> bytes:
        """Raises ConfigError for an unknown verdict and for text that is not UTF-8."""
        fields = {
            "version": "1",
            "epoch": str(check_number("controller epoch", self.epoch)),
            "time": str(self.time_ms),
            "reason": check_text("reason", self.reason),
            "partitions": [_verdict_entry(each) for each in self.partitions],
        }
        return check_size("outcome of an unclean election", write_object(fields))

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The results. Raises CorruptZnodeError."""
        fields = read_object(path, data, "the outcome of an unclean election")
        return cls(
            tuple(_verdict(path, *entry) for entry in _entries(path, fields)),
            integer_text_of(path, fields, "epoch", INT32),
            integer_text_of(path, fields, "time"),
            text_of(path, fields, "reason"),
        )


def _entry(topic_partition: TopicPartition) -> dict[str, object]:
    partition = check_number(f"partition of {topic_partition.topic}", topic_partition.partition)
    return {"topic": validate_topic(topic_partition.topic), "partition": str(partition)}


def _entries(path: str, fields: Mapping[str, object]) -> list[tuple[TopicPartition, Mapping[str, object]]]:
    entries = fields.get("partitions")
    if not isinstance(entries, list):
        raise CorruptZnodeError(path, "a list in 'partitions'", show(entries))
    found: list[tuple[TopicPartition, Mapping[str, object]]] = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise CorruptZnodeError(path, "objects in 'partitions'", show(entry))
        topic, partition = text_of(path, entry, "topic"), integer_text_of(path, entry, "partition", _NUMBERS)
        found.append((TopicPartition(topic, partition), entry))
    return found


def _verdict_entry(each: PartitionVerdict) -> dict[str, object]:
    if each.verdict not in _VERDICTS:
        raise ConfigError(f"verdict {each.verdict!r}: expected one of {', '.join(_VERDICTS)}")
    leader = "" if each.leader is None else str(check_number("leader", each.leader))
    return {
        "topic": check_text("topic", each.topic_partition.topic),
        "partition": str(each.topic_partition.partition),
        "verdict": each.verdict,
        "leader": leader,
        "reason": check_text("reason", each.reason[:REASON_MAX]),
    }


def _verdict(path: str, topic_partition: TopicPartition, entry: Mapping[str, object]) -> PartitionVerdict:
    text = text_of(path, entry, "verdict")
    verdict = next((each for each in _VERDICTS if each == text), None)
    if verdict is None:
        raise CorruptZnodeError(path, f"one of {', '.join(_VERDICTS)} in 'verdict'", show(text))
    leader = integer_text_of(path, entry, "leader", _NUMBERS) if text_of(path, entry, "leader") else None
    return PartitionVerdict(topic_partition, verdict, leader, text_of(path, entry, "reason"))


_WITHOUT_BROKERS: Final = "without_brokers"


def delete_topics_path() -> str:
    """Its children are the topics that the controller is asked to delete."""
    return f"{admin_path()}/delete_topics"


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """`/admin/delete_topics/<t>`: a request to the controller. Persistent.

    No controller of Kafka reads the data: 0.8.2.2 writes zero bytes, later versions null. zkgroup reads
    `{"version":1,"zkgroup":{"without_brokers":[3]}}` and ignores data of any other form.
    """

    without_brokers: tuple[int, ...] = ()
    """Brokers whose response the controller does not wait for while they are not registered."""

    @staticmethod
    def path(topic: str) -> str:
        return f"{delete_topics_path()}/{topic}"

    def encode(self) -> bytes:
        """Raises ConfigError for an invalid or duplicate broker id."""
        if not self.without_brokers:
            return b""
        named = check_brokers("deletion of a topic", self.without_brokers)
        return write_object({"version": 1, "zkgroup": {_WITHOUT_BROKERS: named}})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The request. Raises CorruptZnodeError for invalid data under zkgroup's key."""
        try:
            fields = read_object(path, data, "an object, or nothing")
        except CorruptZnodeError:
            return cls()
        if "zkgroup" not in fields:
            return cls()
        return cls(
            integers_of(
                path, object_of(path, fields, "zkgroup").get(_WITHOUT_BROKERS), repr(_WITHOUT_BROKERS)
            )
        )
