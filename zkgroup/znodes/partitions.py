"""Topics and the states of their partitions."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Self, TypeGuard

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.broker_paths import topics_path
from zkgroup.znodes.json_object import (
    INT32,
    decimal,
    integer_of,
    integers_of,
    object_of,
    others,
    read_object,
    show,
    text_of,
    write_object,
)
from zkgroup.znodes.limits import check_brokers, check_number, check_size

NO_LEADER: Final = -1
"""The leader of a partition without one."""

_TOPIC_KEYS: Final = ("version", "partitions", "adding_replicas", "removing_replicas", "topic_id")
_STATE_KEYS: Final = ("controller_epoch", "leader", "version", "leader_epoch", "isr")
_PLAIN_MAX: Final = 9
"""Digits that surely make a number of 32 bits."""
_TOPIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")


@dataclass(frozen=True, slots=True)
class Topic:
    """`/brokers/topics/<t>`: the partitions of a topic and the brokers that hold each. Persistent.

    Version 1: `{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}`; 2 (2.4) adds `adding_replicas` and
    `removing_replicas`, 3 (2.8) `topic_id` (kafka/zk/ZkData.scala, TopicZNode). The order of the keys of
    `partitions` has no meaning; it is kept, so that what Kafka wrote is written again as it was. Version 1
    is what a new topic gets: every Kafka reads it, and a controller of 2.8 adds the id by itself.
    """

    partitions: Mapping[int, tuple[int, ...]]
    """Partition to replica list, the preferred leader first. Numbers may have gaps."""
    version: int = 1
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Of partitions being moved: the replicas that the move brings; they stand in `partitions` already."""
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Of partitions being moved: the replicas that go when the move is done."""
    topic_id: str | None = None
    extensions: Mapping[str, object] = field(default_factory=dict)
    """Keys of others, kept by every rewrite."""

    @staticmethod
    def path(topic: str) -> str:
        return f"{topics_path()}/{topic}"

    @staticmethod
    def partitions_path(topic: str) -> str:
        return f"{Topic.path(topic)}/partitions"

    @staticmethod
    def partition_path(topic_partition: TopicPartition) -> str:
        """The parent of a partition's state."""
        return f"{Topic.partitions_path(topic_partition.topic)}/{topic_partition.partition}"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The partition numbers, ascending."""
        return tuple(sorted(self.partitions))

    @property
    def moving(self) -> tuple[int, ...]:
        """The partitions that are being moved by what the topic itself says, ascending."""
        return tuple(sorted(set(self.adding) | set(self.removing)))

    def with_replicas(
        self,
        partition: int,
        replicas: tuple[int, ...],
        adding: tuple[int, ...] = (),
        removing: tuple[int, ...] = (),
    ) -> Self:
        """The topic with another replica list for one partition, everything else as it was.

        What a move adds and removes has a place from version 2 on; in version 1 it is left out, as only the
        request in `/admin/reassign_partitions` can tell it there.
        """
        return self.with_all_replicas({partition: (replicas, adding, removing)})

    def with_all_replicas(
        self, changed: Mapping[int, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]
    ) -> Self:
        """The same for many partitions: number to replicas, and what a move adds and removes."""
        keeps = self.version > 1
        lists = {number: replicas for number, (replicas, _, _) in changed.items()}
        adding = {number: added for number, (_, added, _) in changed.items() if added and keeps}
        removing = {number: removed for number, (_, _, removed) in changed.items() if removed and keeps}
        return dataclasses.replace(
            self,
            partitions={**self.partitions, **lists},
            adding=_with(self.adding, changed, adding),
            removing=_with(self.removing, changed, removing),
        )

    def encode(self) -> bytes:
        """In the version that the value has: 1 as Kafka 0.8 writes it, 2 and 3 as Kafka 2.4 and 2.8 do.

        Raises ConfigError for numbers that are no partitions or brokers, a broker twice in one list, and a
        topic too big for one request. A replica list may be empty: a controller of 0.8.2.2 can leave one
        behind, and it must not keep the other partitions from being written.
        """
        check_number("topic version", self.version, 1)
        if self.topic_id is not None and not _TOPIC_ID.fullmatch(self.topic_id):
            raise ConfigError(f"topic id: expected 22 characters of base64url, found {show(self.topic_id)}")
        if clash := [key for key in self.extensions if key in _TOPIC_KEYS]:
            raise ConfigError(f"topic: expected keys that are not Kafka's, found {clash}")
        partitions = _replica_map("replicas", self.partitions)
        topic_id = {} if self.topic_id is None else {"topic_id": self.topic_id}
        moves = {
            key: _replica_map(key, replicas)
            for key, replicas in (("adding_replicas", self.adding), ("removing_replicas", self.removing))
            if self.version > 1 or replicas
        }
        fields = (
            {"version": 1, "partitions": partitions, **topic_id, **moves}
            if self.version == 1
            else {"partitions": partitions, **topic_id, **moves, "version": self.version}
        )
        return check_size(
            f"topic of {len(partitions)} partitions", write_object({**fields, **self.extensions})
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """Raises CorruptZnodeError, also without `partitions`: a topic can be so while it is being made."""
        fields = read_object(path, data, "a topic")
        return cls(
            partitions=_replicas(path, fields, "partitions"),
            version=_version(path, fields),
            adding=_replicas(path, fields, "adding_replicas") if "adding_replicas" in fields else {},
            removing=_replicas(path, fields, "removing_replicas") if "removing_replicas" in fields else {},
            topic_id=text_of(path, fields, "topic_id") if fields.get("topic_id") is not None else None,
            extensions=others(fields, *_TOPIC_KEYS),
        )


@dataclass(frozen=True, slots=True)
class PartitionState:
    """`/brokers/topics/<t>/partitions/<p>/state`: leader and in-sync replicas. Persistent.

    `{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}`, the same from 0.8 to 3.9,
    written by the controller and, for the ISR, by leaders (kafka/utils/ZkUtils.scala@0.8.2.2).
    """

    leader: int
    """Broker id; -1 for none."""
    leader_epoch: int
    """Grows by one with every decision of a controller; a leader's own ISR writes keep it."""
    isr: tuple[int, ...]
    """In-sync replicas; empty where a controller of 0.8.2.2 lost the last one."""
    controller_epoch: int
    """Of the controller that made the last decision, which a leader's own write repeats."""
    extensions: Mapping[str, object] = field(default_factory=dict)
    """Keys of later versions (`leader_recovery_state` of 3.2)."""

    @staticmethod
    def path(topic_partition: TopicPartition) -> str:
        partitions = Topic.partitions_path(topic_partition.topic)
        return f"{partitions}/{topic_partition.partition}/state"

    @staticmethod
    def paths(partitions: Collection[TopicPartition]) -> list[str]:
        """Of many, in their order."""
        parents = {topic: Topic.partitions_path(topic) for topic in {topic for topic, _ in partitions}}
        return [f"{parents[topic]}/{partition}/state" for topic, partition in partitions]

    @staticmethod
    def paths_of(topic: str, numbers: Collection[int]) -> list[str]:
        """Of partitions of one topic, in their order."""
        parent = Topic.partitions_path(topic)
        return [f"{parent}/{number}/state" for number in numbers]

    def encode(self) -> bytes:
        """Raises ConfigError for what is no broker or no epoch, and for a broker twice in the ISR."""
        check_number("leader", self.leader, NO_LEADER)
        check_number("leader epoch", self.leader_epoch)
        check_number("controller epoch", self.controller_epoch)
        if clash := [key for key in self.extensions if key in _STATE_KEYS]:
            raise ConfigError(f"partition state: expected keys that are not Kafka's, found {clash}")
        return write_object(
            {
                "controller_epoch": self.controller_epoch,
                "leader": self.leader,
                "version": 1,
                "leader_epoch": self.leader_epoch,
                "isr": check_brokers("isr", self.isr),
                **self.extensions,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a partition state")
        return cls(
            leader=integer_of(path, fields, "leader"),
            leader_epoch=integer_of(path, fields, "leader_epoch"),
            isr=integers_of(path, fields.get("isr"), "'isr'"),
            controller_epoch=integer_of(path, fields, "controller_epoch"),
            extensions=others(fields, *_STATE_KEYS),
        )


def _version(path: str, fields: Mapping[str, object]) -> int:
    version = integer_of(path, fields, "version") if "version" in fields else 1
    if version < 1:
        raise CorruptZnodeError(path, "version 1 or later of a topic", f"version {version}")
    return version


def _with(
    moves: Mapping[int, tuple[int, ...]], changed: Container[int], now: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    return {**{number: replicas for number, replicas in moves.items() if number not in changed}, **now}


def _replicas(path: str, fields: Mapping[str, object], key: str) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    named = object_of(path, fields, key)
    if _are_plain(named):
        return {int(text): tuple(numbers) for text, numbers in named.items()}
    for text, brokers in named.items():
        partition = decimal(text, range(INT32[-1] + 1))
        if partition is None:
            raise CorruptZnodeError(path, f"partition numbers as keys of {key!r}", show(text))
        found[partition] = integers_of(path, brokers, f"{key!r}")
    return found


def _are_plain(lists: Mapping[str, Any]) -> TypeGuard[Mapping[str, list[int]]]:
    """Whether all are lists of broker ids under partition numbers; asked of a whole topic at once.

    False may mean no more than that each has to be looked at by itself.
    """
    digits = "".join(lists)
    if not (digits.isascii() and digits.isdigit() and "" not in lists and max(map(len, lists)) <= _PLAIN_MAX):
        return False
    values = lists.values()
    if {*map(type, values)} != {list}:
        return False
    brokers = list(chain.from_iterable(values))
    return {*map(type, brokers)} == {int} and min(brokers) in INT32 and max(brokers) in INT32


def _replica_map(key: str, partitions: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    return {
        str(check_number("partition", partition)): check_brokers(f"{key} of partition {partition}", brokers)
        for partition, brokers in partitions.items()
    }
