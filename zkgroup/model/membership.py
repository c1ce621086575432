"""Who is in a group, what each one wants, and who should own what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zkgroup.model.partitions import TopicPartition


@dataclass(frozen=True, slots=True)
class StaticSubscription:
    """Topics by name with a thread count each (>= 1)."""

    topics: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Whitelist:
    """Every topic whose whole name matches a Java regular expression."""

    expression: str
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Blacklist:
    """Every topic whose whole name does not match a Java regular expression."""

    expression: str
    threads: int = 1


Subscription = StaticSubscription | Whitelist | Blacklist


@dataclass(frozen=True, slots=True)
class EvaluatedMember:
    """A member with its subscription evaluated against the topics of the moment: input of assignors."""

    member: str
    """The consumer id string, `<group>_<...>`."""
    threads: Mapping[str, int]
    """Topic to thread count; empty for a member that wants nothing."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who should own what, for the whole group."""

    owners: Mapping[TopicPartition, str]
    """Partition to thread id (`<member>-<n>`). Partitions without a subscriber are absent."""
    notes: tuple[str, ...] = field(default=())
    """What a person should know about how it came about (ties, fallback)."""
