"""Records below `/zkgroup` of stray replicas (left by deletions: K16, K20) and of unhosted topics (ADR 0029).

Kafka does not read `/zkgroup`. Stray replicas are copies that brokers may still have of partitions that are
not assigned to them: they remain from a reassignment, or from a deletion that did not wait for their broker.
`AbandonedReplicas` is the form of earlier versions. An unhosted topic was created without brokers: it has
partitions to assign and no records; its topic znode is the same as Kafka's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.ids import sequence_of, sequential, validate_topic
from zkgroup.znodes.json_fields import (
    INT32,
    INT64,
    check_number,
    check_size,
    check_text,
    decimal,
    integer_of,
    integer_text_of,
    is_integer,
    read_object,
    show,
    text_of,
    write_object,
)
from zkgroup.znodes.paths import zkgroup_path

_NUMBERS: Final = range(INT32[-1] + 1)


def stray_replicas_path() -> str:
    """Its children are the stray replicas of brokers; its data is `MovesBroughtOver`."""
    return f"{zkgroup_path()}/strays"


class StrayTopic(NamedTuple):
    """Partitions of one topic."""

    topic: str
    czxid: int
    """czxid of the topic's znode, which differs for another topic of the same name."""
    partitions: tuple[int, ...]
    """In ascending order."""
    epoch: int
    """Epoch of the controller that recorded them, or that deleted their topic."""


@dataclass(frozen=True, slots=True)
class StrayReplicas:
    """`/zkgroup/strays/<broker>`: the stray replicas that a broker may still have. Persistent.

    `{"version":1,"topics":[{"topic":"orders","czxid":"12","partitions":[0,1],"epoch":7}]}`. Set in the
    transaction that ends a reassignment, and before one that deletes a topic. Replicas that the broker has
    deleted are removed, and the znode with the last one. If there are too many for one znode, `<broker>-1`
    and further ones have the rest.
    """

    topics: tuple[StrayTopic, ...]

    @staticmethod
    def path(broker: int, part: int = 0) -> str:
        return f"{stray_replicas_path()}/{broker}" + (f"-{part}" if part else "")

    @classmethod
    def place_of(cls, name: str) -> tuple[int, int] | None:
        """Broker and part in the name of a child; None for another name."""
        first, dash, second = name.partition("-")
        broker, part = decimal(first, _NUMBERS), decimal(second, _NUMBERS) if dash else 0
        if broker is None or part is None or cls.path(broker, part) != f"{stray_replicas_path()}/{name}":
            return None
        return broker, part

    def encode(self) -> bytes:
        """Raises ConfigError for invalid names and numbers, and for too much data."""
        topics = [
            {
                "topic": check_text("topic", each.topic),
                "czxid": str(each.czxid),
                "partitions": [check_number("partition", number) for number in each.partitions],
                "epoch": check_number("controller epoch", each.epoch),
            }
            for each in self.topics
        ]
        return check_size("stray replicas", write_object({"version": 1, "topics": topics}))

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "stray replicas")
        topics = fields.get("topics")
        if not isinstance(topics, list):
            raise CorruptZnodeError(path, "a list in 'topics'", show(topics))
        return cls(tuple(_topic(path, each) for each in topics))


def _topic(path: str, fields: object) -> StrayTopic:
    if not isinstance(fields, Mapping):
        raise CorruptZnodeError(path, "objects in 'topics'", show(fields))
    numbers = fields.get("partitions")
    if not isinstance(numbers, list) or not all(is_integer(each, _NUMBERS) for each in numbers):
        raise CorruptZnodeError(path, "a list of partitions in 'partitions'", show(numbers))
    return StrayTopic(
        topic=text_of(path, fields, "topic"),
        czxid=integer_text_of(path, fields, "czxid", INT64),
        partitions=tuple(sorted(set(numbers))),
        epoch=integer_of(path, fields, "epoch", _NUMBERS),
    )


@dataclass(frozen=True, slots=True)
class MovesBroughtOver:
    """The data of `/zkgroup/strays`: the last finished reassignment whose stray replicas are recorded there.

    `{"version":1,"moves":"399"}`. Controllers of earlier versions recorded the stray replicas only in
    `/zkgroup/reassignments/done-<n>`.
    """

    moves: int
    """Number of that record; -1 for none."""

    @staticmethod
    def path() -> str:
        return stray_replicas_path()

    def encode(self) -> bytes:
        return write_object({"version": 1, "moves": str(self.moves)})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The number in the data; -1 if there is no data."""
        if not data:
            return cls(-1)
        return cls(integer_text_of(path, read_object(path, data, "how far moves are recorded"), "moves"))


PREFIX: Final = "replicas-"
_ABANDONED_NUMBERS: Final = range(INT32[-1] + 1)


def abandoned_replicas_path() -> str:
    """Its children are topics that were deleted without waiting for a broker, each with that broker."""
    return f"{zkgroup_path()}/abandoned"


@dataclass(frozen=True, slots=True)
class AbandonedReplicas:
    """`/zkgroup/abandoned/replicas-<n>`: replicas of a deleted topic on one broker. Persistent, sequential.

    `{"version":1,"topic":"orders","broker":3,"partitions":[0,1],"epoch":7}`, of controllers of earlier
    versions, in the transaction that deletes the topic. While it exists, no zkgroup controller assigns these
    partitions to the broker; it is deleted once the broker has registered again and deleted them.
    """

    topic: str
    broker: int
    partitions: tuple[int, ...]
    epoch: int
    """Epoch of the controller that deleted the topic."""

    @staticmethod
    def path(sequence: int) -> str:
        return sequential(AbandonedReplicas.prefix(), sequence)

    @staticmethod
    def prefix() -> str:
        """Returns the path for a sequential create."""
        return f"{abandoned_replicas_path()}/{PREFIX}"

    @staticmethod
    def sequence_of(name: str) -> int | None:
        """The number of a child, or None for a foreign name."""
        return sequence_of(PREFIX, name)

    @property
    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(self.topic, number) for number in self.partitions)

    def encode(self) -> bytes:
        """Raises ConfigError for no partition, and for invalid names and numbers."""
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
        if not isinstance(numbers, list) or not all(is_integer(each, _ABANDONED_NUMBERS) for each in numbers):
            raise CorruptZnodeError(path, "a list of partitions in 'partitions'", show(numbers))
        return cls(
            topic=text_of(path, fields, "topic"),
            broker=integer_of(path, fields, "broker", _ABANDONED_NUMBERS),
            partitions=tuple(numbers),
            epoch=integer_of(path, fields, "epoch", _ABANDONED_NUMBERS),
        )


PLACEHOLDER: Final = (0,)
"""The replica list of every partition of such a topic: Kafka's members and tools expect one."""


def unhosted_topics_path() -> str:
    """Its children are the topics that were created without brokers.

    It is created with the first topic or at the election of a controller. Older topics are recognised by
    their replica lists alone (`is_unhosted`).
    """
    return f"{zkgroup_path()}/unhosted"


@dataclass(frozen=True, slots=True)
class UnhostedTopic:
    """`/zkgroup/unhosted/<t>`: a topic without brokers, in spite of its replica lists. Persistent.

    `{"version":1}`, created in the transaction that creates the topic, so its `czxid` is the topic's: one
    with a lower `czxid` is of an earlier topic of that name, and is ignored. It is deleted with the topic, or
    when a reassignment or `topic alter` assigns brokers.
    """

    @staticmethod
    def path(topic: str) -> str:
        return f"{unhosted_topics_path()}/{topic}"

    def encode(self) -> bytes:
        return write_object({"version": 1})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        read_object(path, data, "the mark of a topic without brokers")
        return cls()


class Signs(NamedTuple):
    """The zxids that decide whether a topic is hosted, besides its lists and states."""

    made: int
    """`czxid` of the topic."""
    written: int
    """`mzxid` of the topic."""
    mark: int | None
    """`czxid` of its mark; None without one."""
    marks: int | None
    """`czxid` of the parent of all marks."""
    broker: int | None
    """`czxid` of the registration of broker 0; None if it is not registered."""


def may_be_unhosted(topic: Topic) -> bool:
    """Returns whether its replica lists are those of a topic that was created without brokers."""
    return bool(topic.partitions) and set(topic.partitions.values()) == {PLACEHOLDER}


def is_unhosted(signs: Signs) -> bool:
    """Returns whether a topic that may be unhosted, and has no partition states, is unhosted.

    So is a topic that was written last before there were any marks, unless broker 0 was registered: then it
    was assigned to that broker, and no controller has handled it yet.
    """
    if signs.mark is not None and signs.mark >= signs.made:
        return True
    if signs.marks is not None and signs.marks < signs.written:
        return False
    return signs.broker is None or signs.broker > signs.written
