"""Unhosted topics: created without brokers, with partitions to share and no records (ADR 0029).

The mark is below `/zkgroup`, which Kafka does not read; the topic's own znode is as Kafka has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.json_fields import read_object, write_object
from zkgroup.znodes.paths import zkgroup_path

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
