"""Replicas that the deletion of their topic has not waited for, as earlier versions recorded them (K20).

They are read and taken off as before; what is recorded now is in `stray_replicas`.

Below `/zkgroup`, where nobody else looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.audit import zkgroup_path
from zkgroup.znodes.ids import validate_topic
from zkgroup.znodes.json_object import (
    INT32,
    integer_of,
    is_integer,
    read_object,
    show,
    text_of,
    write_object,
)
from zkgroup.znodes.limits import check_number, check_size
from zkgroup.znodes.sequence import sequence_of, sequential

PREFIX: Final = "replicas-"
_NUMBERS: Final = range(INT32[-1] + 1)


def abandoned_replicas_path() -> str:
    """Its children are the topics that were deleted without a broker, and that broker."""
    return f"{zkgroup_path()}/abandoned"


@dataclass(frozen=True, slots=True)
class AbandonedReplicas:
    """`/zkgroup/abandoned/replicas-<n>`: what a broker may have of a deleted topic. Persistent, sequential.

    `{"version":1,"topic":"orders","broker":3,"partitions":[0,1],"epoch":7}`, made in the transaction that
    deletes the topic by controllers of earlier versions. While it stands no controller of ours makes the
    broker a replica of these partitions; it goes once the broker, back again, has deleted them.
    """

    topic: str
    broker: int
    partitions: tuple[int, ...]
    epoch: int
    """Of the controller that deleted the topic."""

    @staticmethod
    def path(sequence: int) -> str:
        return sequential(AbandonedReplicas.prefix(), sequence)

    @staticmethod
    def prefix() -> str:
        """What a sequential create is given."""
        return f"{abandoned_replicas_path()}/{PREFIX}"

    @staticmethod
    def sequence_of(name: str) -> int | None:
        """The number of a child, or None for a foreign name."""
        return sequence_of(PREFIX, name)

    @property
    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(self.topic, number) for number in self.partitions)

    def encode(self) -> bytes:
        """Raises ConfigError for no partition, and for names and numbers that there cannot be."""
        if not self.partitions:
            raise ConfigError(f"abandoned replicas of {self.topic}: expected a partition, found none")
        fields = {
            "version": 1,
            "topic": validate_topic(self.topic),
            "broker": check_number("broker", self.broker),
            "partitions": [check_number("partition", number) for number in self.partitions],
            "epoch": check_number("controller epoch", self.epoch),
        }
        return check_size(f"abandoned replicas of {self.topic}", write_object(fields))

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "abandoned replicas")
        numbers = fields.get("partitions")
        if not isinstance(numbers, list) or not all(is_integer(each, _NUMBERS) for each in numbers):
            raise CorruptZnodeError(path, "a list of partitions in 'partitions'", show(numbers))
        return cls(
            topic=text_of(path, fields, "topic"),
            broker=integer_of(path, fields, "broker", _NUMBERS),
            partitions=tuple(numbers),
            epoch=integer_of(path, fields, "epoch", _NUMBERS),
        )
