"""Input and output of a placement: brokers, racks, replica lists, plans and their figures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from zkgroup.errors import PlacementError
from zkgroup.model import TopicPartition

RackMode = Literal["enforced", "disabled", "safe"]
"""What the racks of the brokers mean (RackAwareMode in kafka/admin/RackAwareMode.scala@0.10.0.0).

`enforced`: some brokers with a rack and some without is an error. `safe`: racks are ignored then.
`disabled`: they are always ignored.
"""

Replicas = Mapping[TopicPartition, tuple[int, ...]]
"""Partition to replica list, the preferred leader first."""


@dataclass(frozen=True, slots=True, order=True)
class Broker:
    """A broker that may be given replicas."""

    id: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """Where Kafka's algorithm begins; Kafka itself draws both numbers at random, each below N brokers."""

    index: int = 0
    """Position, in the ordered list of brokers, of the first replica of partition 0."""
    shift: int = 0
    """Distance of the second replica from the first, less one."""

    @classmethod
    def fixed(cls, index: int) -> Start:
        """Kafka's `fixedStartIndex`: one number for both."""
        return cls(index, index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The replica lists of one topic's new partitions."""

    replicas: Mapping[int, tuple[int, ...]]
    """Partition number to replica list; for a topic that grows, the new partitions only."""
    order: tuple[int, ...]
    """The brokers as they were dealt from."""
    start: Start
    rack_aware: bool
    notes: tuple[str, ...] = ()
    """Why the result is as it is, where that is not plain; one sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """Where everything is now. What a plan is made from."""

    replicas: Replicas
    brokers: tuple[Broker, ...]
    """Registered brokers that may hold replicas. One that is only named in replica lists counts as gone."""
    sizes: Mapping[TopicPartition, int] | None = None
    """Bytes of one replica of each partition; None where they are not known."""
    in_sync: Mapping[TopicPartition, Collection[int]] | None = None
    """The ISR of each partition; None where it is not known, which trusts every registered broker."""
    rack_mode: RackMode = "enforced"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaChange:
    """What a plan does to one partition."""

    topic_partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    reason: str
    """In words, for the operator: which replica goes where and why."""

    @property
    def added(self) -> tuple[int, ...]:
        """Brokers that get a copy: each one is a move of data."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def dropped(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def leader_changes(self) -> bool:
        """Whether another replica becomes the preferred leader."""
        return self.before[:1] != self.after[:1]


class Load(NamedTuple):
    """What one broker carries."""

    replicas: int
    leaders: int
    """Partitions whose preferred leader it is."""
    bytes: int | None
    """Of its replicas; None where sizes are not known."""
    leader_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """How evenly a placement lies on the registered brokers."""

    loads: Mapping[int, Load]
    """Every registered broker, by id."""
    replica_spread: int
    """Most less least replicas of a broker."""
    leader_spread: int
    byte_spread: int | None
    """The same in bytes of replicas; None where sizes are not known."""
    leader_byte_spread: int | None
    racks_missing: int
    """Racks that partitions could have a replica in, for their number of replicas, and have not; summed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A set of changes, with its price and its reasons. Nothing has been done."""

    intent: str
    """What was asked for: `decommission 3`."""
    changes: tuple[ReplicaChange, ...]
    """Partitions that change, in order; the others are not named."""
    before: Skew
    after: Skew
    moves: int
    """Replicas that are copied to another broker."""
    bytes: int | None
    """Bytes that are copied; None where sizes are not known."""
    leader_changes: int
    least_moves: int
    """No plan of the same effect has fewer moves than this. Equal to `moves`: proven to be the fewest."""
    notes: tuple[str, ...] = field(default=())
    """What the operator should know: what could not be done, and what stands in the way."""

    @property
    def target(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The replica lists to ask for; only of partitions that change."""
        return {change.topic_partition: change.after for change in self.changes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Changes that may run at the same time. The next phase begins when all of them are done."""

    changes: tuple[ReplicaChange, ...]
    moves: int
    bytes: int | None


def racks_in_use(brokers: Collection[Broker], mode: RackMode) -> dict[int, str]:
    """Broker to rack; empty where racks do not count.

    Raises PlacementError where only some brokers have a rack and the mode is `enforced`.
    """
    racks = {broker.id: broker.rack for broker in brokers if broker.rack is not None}
    if mode == "disabled" or not racks:
        return {}
    if without := sorted(broker.id for broker in brokers if broker.rack is None):
        if mode == "enforced":
            raise PlacementError(
                f"{brokers_named(without, 'has', 'have')} no rack and others have: "
                "give all of them one, or ignore the racks"
            )
        return {}
    return racks


def racks_of(replicas: Iterable[int], racks: Mapping[int, str]) -> set[str]:
    """The racks that a replica list is in; a broker that is gone is in none."""
    return {racks[broker] for broker in replicas if broker in racks}


def racks_wanted(factor: int, racks: Mapping[int, str]) -> int:
    """How many racks a partition of so many replicas should be in; 0 where racks do not count."""
    return min(factor, len(set(racks.values())))


def count(number: int, noun: str) -> str:
    """`1 replica`, `2 replicas`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def brokers_named(brokers: Collection[int], one: str = "", many: str = "") -> str:
    """`broker 77`, `brokers 77, 78`; with the verbs `is` and `are`: `broker 77 is`, `brokers 77, 78 are`."""
    noun, verb = ("broker", one) if len(brokers) == 1 else ("brokers", many)
    return f"{noun} {', '.join(map(str, brokers))} {verb}".rstrip()
