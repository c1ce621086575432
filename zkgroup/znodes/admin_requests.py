"""Requests to the controller that stay until it has done them: `/admin/reassign_partitions` and elections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.znodes.json_object import integers_of, read_object, write_object
from zkgroup.znodes.limits import check_brokers, check_size
from zkgroup.znodes.partition_entries import check_once, read_entries, write_entry


def admin_path() -> str:
    """Parent of the requests to the controller."""
    return "/admin"


@dataclass(frozen=True, slots=True)
class Move:
    """Where one partition shall be."""

    topic_partition: TopicPartition
    replicas: tuple[int, ...]
    """Target, preferred leader first. Empty where a tool of 0.8.2.2 wrote it so: never to be applied."""

    def entry(self) -> dict[str, object]:
        """As in a request and in Kafka's files. Raises ConfigError for what no controller should be given."""
        entry = write_entry(self.topic_partition)
        if not self.replicas:
            raise ConfigError(f"move of {self.topic_partition}: expected replicas, found none")
        return {**entry, "replicas": check_brokers(f"move of {self.topic_partition}", self.replicas)}


def read_moves(path: str, fields: Mapping[str, object], key: str = "partitions") -> tuple[Move, ...]:
    """A list of moves, other keys of each passed over. Raises CorruptZnodeError."""
    return tuple(
        Move(topic_partition, integers_of(path, entry.get("replicas"), f"'replicas' of {topic_partition}"))
        for topic_partition, entry in read_entries(path, fields, key)
    )


@dataclass(frozen=True, slots=True)
class Reassignment:
    """`/admin/reassign_partitions`: the moves under way. Persistent.

    Made by a tool, shrunk by the controller, deleted with its last entry:
    `{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,1]}]}`, which is also the form
    of Kafka's files (kafka/admin/ReassignPartitionsCommand.scala@0.8.2.2).
    """

    moves: tuple[Move, ...]
    """In order. A file may name a partition twice, which is for the reader to refuse."""

    @staticmethod
    def path() -> str:
        return f"{admin_path()}/reassign_partitions"

    @property
    def targets(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Partition to target; of two entries for one partition the last counts, as it does for Kafka."""
        return {move.topic_partition: move.replicas for move in self.moves}

    def encode(self) -> bytes:
        """Exactly these keys: Kafka 2.x takes a request with any other key for none at all.

        Raises ConfigError for no entry (0.8.2.2 never removes that), a partition or broker named twice, an
        empty replica list (0.8.2.2 applies it) and more than one request can carry.
        """
        check_once("reassignment", (move.topic_partition for move in self.moves))
        fields = {"version": 1, "partitions": [move.entry() for move in self.moves]}
        return check_size(f"reassignment of {len(self.moves)} partitions", write_object(fields))

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """Other keys, `log_dirs` among them, are passed over. Raises CorruptZnodeError."""
        return cls(read_moves(path, read_object(path, data, "a reassignment")))


@dataclass(frozen=True, slots=True)
class PreferredElection:
    """`/admin/preferred_replica_election`: partitions that shall be led by their first replica. Persistent.

    `{"version":1,"partitions":[{"topic":"orders","partition":0}]}`, made by a tool, deleted by the controller
    after the attempt whatever came of it (kafka/admin/PreferredReplicaLeaderElectionCommand.scala@0.8.2.2).
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
