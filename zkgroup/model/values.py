"""Values of consumer groups (partitions, lease grants, subscriptions, members), and names of protocols.

`quick_init` makes frozen dataclasses such as these at half the cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, NamedTuple, TypeVar

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
PROTOCOLS: Final = (PLAINTEXT, SSL, "SASL_PLAINTEXT", "SASL_SSL")
"""Of listeners, in the order of their numbers (org.apache.kafka.common.security.auth.SecurityProtocol)."""


class TopicPartition(NamedTuple):
    """One partition of one topic; ordered by topic, then by number.

    A tuple rather than a dataclass: it is the key of every map of a group's assignment, and a tuple is
    hashed seven times as fast.
    """

    topic: str
    """The name of the topic."""
    partition: int
    """The partition number, from 0."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGrant:
    """The result of a claim that the server accepted: token, start position and thread of a partition."""

    topic_partition: TopicPartition
    """The claimed partition."""
    thread: int
    """Number of the owning thread (stream) of the member, from 0."""
    token: int
    """The owner znode's czxid: the fencing token. It only grows for a partition."""
    offset: int | None
    """Position to start from, written with the claim; None if no offset was ever committed."""


@dataclass(frozen=True, slots=True)
class StaticSubscription:
    """Topics by name with a thread count each (>= 1)."""

    topics: Mapping[str, int]
    """Topic to the number of threads (streams) that consume it."""


@dataclass(frozen=True, slots=True)
class Whitelist:
    """Every topic whose whole name matches a Java regular expression."""

    expression: str
    """The regular expression; `zkgroup.errors.UnsupportedRegexError` names a construct that only Java has."""
    threads: int = 1
    """Number of threads (streams) for each matching topic."""


@dataclass(frozen=True, slots=True)
class Blacklist:
    """Every topic whose whole name does not match a Java regular expression."""

    expression: str
    """The regular expression, as that of a `Whitelist`."""
    threads: int = 1
    """Number of threads (streams) for each topic that does not match."""


Subscription = StaticSubscription | Whitelist | Blacklist
"""A member subscribes to one of these (kafka/consumer/TopicCount.scala@0.8.2.2)."""


@dataclass(frozen=True, slots=True)
class EvaluatedMember:
    """A member with its subscription evaluated against the topics that exist: input of assignors."""

    member: str
    """The consumer id string, `<group>_<...>`."""
    threads: Mapping[str, int]
    """Topic to thread count; empty for a member whose subscription matches no topic."""
    capacity: int | None = None
    """How much it can take, beside the others; None if it publishes nothing."""
    rack: str | None = None
    """The rack that it publishes (Kafka's `client.rack`); None for none."""
    negotiates: bool = True
    """False for a JVM member, and for one of an earlier version: it has `range` and `roundrobin` as Kafka 0.8
    has them."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The owner of every partition, computed for the whole group."""

    owners: Mapping[TopicPartition, str]
    """Partition to thread id (`<member>-<n>`). Partitions without a subscriber are absent."""
    notes: tuple[str, ...] = field(default=())
    """Remarks for people about how it was computed (ties, fallback)."""


T = TypeVar("T")


def quick_init(kind: type[T]) -> type[T]:
    """A frozen dataclass with slots whose `__init__` sets each slot by its descriptor.

    That of `dataclasses` looks up each name again (`object.__setattr__`), which takes two thirds of its time.
    It is written out as source, too. For what is made for every request.
    """
    space: dict[str, Any] = {}
    positional: list[str] = []
    named: list[str] = []
    sets: list[str] = []
    for each in fields(kind):  # type: ignore[arg-type]
        assert each.default_factory is MISSING, f"{kind.__name__}.{each.name}: has a factory"
        space[f"set_{each.name}"] = getattr(kind, each.name).__set__
        given = each.name
        if each.default is not MISSING:
            space[f"default_{each.name}"] = each.default
            given = f"{each.name}=default_{each.name}"
        (named if each.kw_only else positional).append(given)
        sets.append(f"    set_{each.name}(self, {each.name})\n")
    given = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    exec(f"def __init__({given}):\n{''.join(sets)}", space)  # noqa: S102 - of the names of fields
    made = space["__init__"]
    former = kind.__init__
    made.__qualname__, made.__module__ = former.__qualname__, former.__module__
    made.__annotations__ = former.__annotations__
    setattr(kind, "__init__", made)  # noqa: B010 - a method, to type checkers
    return kind
