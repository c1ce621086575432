"""Records below `/zkgroup` of stray replicas (K16, K20) and of unhosted topics (ADR 0029).

Kafka does not read `/zkgroup`. Stray replicas are copies that brokers may still have of partitions that are
not assigned to them: they remain from a reassignment, or from a deletion that did not wait for their broker.
`AbandonedReplicas` is the form of earlier versions. An unhosted topic was created without brokers: it has
partitions to share and no records; its own znode is as Kafka has it.
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
    """Its children are what brokers may still have; its data says how far records of moves were brought over
    (`MovesBroughtOver`)."""
    return f"{zkgroup_path()}/strays"


class StrayTopic(NamedTuple):
    """Partitions of one topic."""

    topic: str
    czxid: int
    """Of the topic's znode: tells it from another one of the same name."""
    partitions: tuple[int, ...]
    """In ascending order."""
    epoch: int
    """Of the controller that recorded them, or that deleted their topic."""


@dataclass(frozen=True, slots=True)
class StrayReplicas:
    """`/zkgroup/strays/<broker>`: what a broker may still have and has no place for. Persistent.

    `{"version":1,"topics":[{"topic":"orders","czxid":"12","partitions":[0,1],"epoch":7}]}`. Set in the
    transaction that ends a move, and before that which deletes a topic; what the broker has deleted goes,
    and the znode with the last of it. Where there is more than one znode should hold, `<broker>-1` and
    further ones have the rest.
    """

    topics: tuple[StrayTopic, ...]

    @staticmethod
    def path(broker: int, part: int = 0) -> str:
        return f"{stray_replicas_path()}/{broker}" + (f"-{part}" if part else "")

    @classmethod
    def place_of(cls, name: str) -> tuple[int, int] | None:
        """Broker and part of a child, or None for a foreign name."""
        first, dash, second = name.partition("-")
        broker, part = decimal(first, _NUMBERS), decimal(second, _NUMBERS) if dash else 0
        if broker is None or part is None or cls.path(broker, part) != f"{stray_replicas_path()}/{name}":
            return None
        return broker, part

    def encode(self) -> bytes:
        """Raises ConfigError for names and numbers that there cannot be, and for more than a znode holds."""
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
    """The data of `/zkgroup/strays`: up to which record of a move nothing is left to be recorded there.

    `{"version":1,"moves":"399"}`. Controllers of earlier versions kept what moves had left behind in the
    records of their ends (`/zkgroup/reassignments/done-<n>`) alone.
    """

    moves: int
    """Number of the last of them; -1 for none."""

    @staticmethod
    def path() -> str:
        return stray_replicas_path()

    def encode(self) -> bytes:
        return write_object({"version": 1, "moves": str(self.moves)})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """None has been brought over where there is no data."""
        if not data:
            return cls(-1)
        return cls(integer_text_of(path, read_object(path, data, "how far moves are recorded"), "moves"))


PREFIX: Final = "replicas-"
_ABANDONED_NUMBERS: Final = range(INT32[-1] + 1)


def abandoned_replicas_path() -> str:
    """Its children are the topics that were deleted without a broker, and that broker."""
    return f"{zkgroup_path()}/abandoned"


@dataclass(frozen=True, slots=True)
class AbandonedReplicas:
    """`/zkgroup/abandoned/replicas-<n>`: what a broker may have of a deleted topic. Persistent, sequential.

    `{"version":1,"topic":"orders","broker":3,"partitions":[0,1],"epoch":7}`, made in the transaction that
    deletes the topic by controllers of earlier versions. While it stands no zkgroup controller makes the
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
    """Its children are the topics that were made without brokers.

    Whoever makes topics or elects a controller makes it. A topic that is older tells by its look alone.
    """
    return f"{zkgroup_path()}/unhosted"


@dataclass(frozen=True, slots=True)
class UnhostedTopic:
    """`/zkgroup/unhosted/<t>`: no broker hosts this topic, whatever its replica lists say. Persistent.

    `{"version":1}`, made in the transaction that makes the topic, so that its `czxid` is the topic's: one
    with a lower `czxid` is of an earlier topic of that name, and says nothing. It goes with the topic, or
    when a reassignment or `topic alter` names brokers.
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
    """What tells whether a topic is hosted, beside lists and states; each a `czxid`, but for `written`."""

    made: int
    """Of the topic."""
    written: int
    """Its `mzxid`."""
    mark: int | None
    """None where there is no mark."""
    marks: int | None
    """Of the parent of all marks."""
    broker: int | None
    """Of the registration of broker 0; None where it is not registered."""


def may_be_unhosted(topic: Topic) -> bool:
    """Whether its replica lists are those of a topic that was made without brokers."""
    return bool(topic.partitions) and set(topic.partitions.values()) == {PLACEHOLDER}


def is_unhosted(signs: Signs) -> bool:
    """Whether a topic that may be unhosted, and of which no partition has a state, is.

    A topic that was written last when the tree knew no marks is, too, unless broker 0 was there: then
    somebody has given it to that broker, and no controller has come to it.
    """
    if signs.mark is not None and signs.mark >= signs.made:
        return True
    if signs.marks is not None and signs.marks < signs.written:
        return False
    return signs.broker is None or signs.broker > signs.written
