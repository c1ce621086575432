"""The model of a placement: brokers, racks, replica lists, and the pieces that balancing shifts.

A piece is a replica in a `ReplicaPlacement`, and the leadership of a partition in a `LeaderPlacement`. Each
has a weight. Balancing asks which piece of one broker may go to another, and shifts it. Everything is stored
and iterated in a fixed order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, NamedTuple, Protocol

from zkgroup.errors import PlacementError
from zkgroup.model import TopicPartition

RackMode = Literal["enforced", "disabled", "safe"]
"""Says what the racks of the brokers mean (RackAwareMode in kafka/admin/RackAwareMode.scala@0.10.0.0).

`enforced`: some brokers with a rack and some without is an error. `safe`: racks are ignored then.
`disabled`: they are always ignored.
"""

Replicas = Mapping[TopicPartition, tuple[int, ...]]
"""Partition to replica list, the preferred leader first."""


@dataclass(frozen=True, slots=True, order=True)
class Broker:
    """A broker that may be given replicas."""

    id: int
    """The broker id."""
    rack: str | None = None
    """The rack of the registration; None for a broker without one."""


@dataclass(frozen=True, slots=True)
class Start:
    """The start of Kafka's algorithm; Kafka draws both numbers at random, each below N brokers."""

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
    """The two numbers that the algorithm began with."""
    rack_aware: bool
    """True if the racks of the brokers were used."""
    notes: tuple[str, ...] = ()
    """The reason why the result is as it is, where that is not plain; one sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The replicas, brokers and sizes from which a plan is made."""

    replicas: Replicas
    """Partition to replica list, the preferred leader first."""
    brokers: tuple[Broker, ...]
    """Registered brokers that may hold replicas. One that is only named in replica lists counts as gone."""
    sizes: Mapping[TopicPartition, int] | None = None
    """Bytes of one replica of each partition; None where they are not known."""
    in_sync: Mapping[TopicPartition, Collection[int]] | None = None
    """The ISR of each partition; None where it is not known, which trusts every registered broker."""
    rack_mode: RackMode = "enforced"
    """True if racks are used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """A planned change of the replicas of one partition: others, or the same in another order."""

    topic_partition: TopicPartition
    """The partition."""
    before: tuple[int, ...]
    """Its replica list as it is, the preferred leader first."""
    after: tuple[int, ...]
    """Its replica list as planned, the preferred leader first."""
    reason: str = ""
    """In words, for the operator: which replica goes where and why; empty for what an operator asks for."""
    in_sync: tuple[int, ...] | None = None
    """Its in-sync replicas; None if there is no state, or it was not read."""
    unhosted: bool = False
    """No broker has it: the brokers named begin with nothing, the one in `before` included."""

    @property
    def added(self) -> tuple[int, ...]:
        """Brokers that get a copy: each one is a move of data."""
        return () if self.unhosted else tuple(broker for broker in self.after if broker not in self.before)

    @property
    def changes(self) -> bool:
        """True if there is anything to do: the order counts, the first one is the preferred leader."""
        return self.unhosted or self.before != self.after

    @property
    def dropped(self) -> tuple[int, ...]:
        """Brokers that lose their replica, in the order of `before`."""
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def leader_changes(self) -> bool:
        """Returns whether another replica becomes the preferred leader."""
        return self.before[:1] != self.after[:1]


class Load(NamedTuple):
    """The load of one broker."""

    replicas: int
    """Replicas on the broker."""
    leaders: int
    """Partitions whose preferred leader it is."""
    bytes: int | None
    """Of its replicas; None where sizes are not known."""
    leader_bytes: int | None
    """Bytes of the partitions whose preferred leader it is; None if sizes are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """Measures how evenly a placement lies on the registered brokers."""

    loads: Mapping[int, Load]
    """Every registered broker, by id."""
    replica_spread: int
    """Most replicas on one broker minus fewest."""
    leader_spread: int
    """Most preferred leaders on one broker minus fewest."""
    byte_spread: int | None
    """The same in bytes of replicas; None where sizes are not known."""
    leader_byte_spread: int | None
    """Most bytes of preferred leaders on one broker minus fewest; None if sizes are not known."""
    racks_missing: int
    """Racks that partitions could have a replica in, for their number of replicas, and have not; summed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A set of changes, with its price and its reasons. Nothing has been done."""

    intent: str
    """The request: `decommission 3`."""
    changes: tuple[PlannedMove, ...]
    """Partitions that change, in order; the others are not named."""
    before: Skew
    """The skew of the placement as it is."""
    after: Skew
    """The skew of the placement as planned."""
    moves: int
    """Replicas that are copied to another broker."""
    bytes: int | None
    """Bytes that are copied; None where sizes are not known."""
    leader_changes: int
    """Partitions that get another preferred leader."""
    least_moves: int
    """No plan of the same effect has fewer moves than this. Equal to `moves`: proven to be the fewest."""
    notes: tuple[str, ...] = field(default=())
    """Notes for the operator: what could not be done, and what stands in the way."""

    @property
    def target(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The replica lists to ask for; only of partitions that change."""
        return {change.topic_partition: change.after for change in self.changes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Changes that may run at the same time. The next phase begins when all of them are done."""

    changes: tuple[PlannedMove, ...]
    """The partitions that change, by topic and number."""
    moves: int
    """The number of replicas that are copied to another broker."""
    bytes: int | None
    """The number of bytes that are copied; None if sizes are not known."""


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
    """Returns how many racks a partition of so many replicas should be in; 0 where racks do not count."""
    return min(factor, len(set(racks.values())))


def count(number: int, noun: str) -> str:
    """`1 replica`, `2 replicas`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def brokers_named(brokers: Collection[int], one: str = "", many: str = "") -> str:
    """`broker 77`, `brokers 77, 78`; with the verbs `is` and `are`: `broker 77 is`, `brokers 77, 78 are`."""
    noun, verb = ("broker", one) if len(brokers) == 1 else ("brokers", many)
    return f"{noun} {', '.join(map(str, brokers))} {verb}".rstrip()


class PlacementModel(Protocol):
    """Holds what balancing needs to know."""

    loads: dict[int, int]
    """Broker to the sum of the weights on it."""

    def pieces(self, source: int) -> Iterator[TopicPartition]:
        """The pieces of a broker that may be shifted, those first that are away from home."""
        ...

    def is_stray(self, tp: TopicPartition, source: int) -> bool:
        """Returns whether the piece that is on `source` is away from home, or has none."""
        ...

    def missing_homes(self, tp: TopicPartition) -> list[int]:
        """Brokers that had this piece and could have it again."""
        ...

    def may_shift(self, tp: TopicPartition, source: int, target: int) -> bool: ...

    def find(self, source: int, target: int) -> TopicPartition | None:
        """The piece of `source` to shift to `target` first; None where no piece may go there."""
        ...

    def weight(self, tp: TopicPartition) -> int: ...

    def price(self, tp: TopicPartition, source: int, target: int) -> int:
        """1: one more piece is away from home; -1: one less; 0: neither."""
        ...

    def shift(self, tp: TopicPartition, source: int, target: int) -> None: ...


class ReplicaPlacement:
    """Decides which brokers hold each partition.

    Args:
        replicas: where the replicas are now: the homes.
        brokers: ids of those that may be given replicas; replicas on others stay where they are.
        racks: broker to rack, empty where racks do not count.
        sizes: the weight of a replica of each partition; None weighs each as 1.
        only_new: whether replicas that are at home stay there; only what was placed since may be shifted.
    """

    def __init__(
        self,
        replicas: Mapping[TopicPartition, Sequence[int]],
        brokers: Sequence[int],
        racks: Mapping[int, str],
        sizes: Mapping[TopicPartition, int] | None = None,
        *,
        only_new: bool = False,
    ) -> None:
        # Sorted here, so that no answer depends on the order in which things were read.
        brokers = sorted(brokers)
        self._homes = {tp: tuple(brokers) for tp, brokers in sorted(replicas.items())}
        self._racks = racks
        self._sizes = sizes
        self._only_new = only_new
        self._away: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in brokers}
        self._following: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in brokers}
        self._leading: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in brokers}
        self._shut: dict[int, set[str]] = {broker: set() for broker in brokers}
        self.brokers_of = {tp: set(homes) for tp, homes in self._homes.items()}
        self.loads = dict.fromkeys(brokers, 0)
        for tp, homes in self._homes.items():
            for broker in homes:
                if broker in self.loads:
                    self._group(tp, broker)[tp] = None
                    self.loads[broker] += self.weight(tp)

    def pieces(self, source: int) -> Iterator[TopicPartition]:
        """Away from home first, then followers: leaders stay where they can."""
        if self._only_new:
            return iter(self._away[source])
        return chain(self._away[source], self._following[source], self._leading[source])

    def is_stray(self, tp: TopicPartition, source: int) -> bool:
        return source not in self._homes[tp]

    def missing_homes(self, tp: TopicPartition) -> list[int]:
        return [home for home in self._homes[tp] if home in self.loads and home not in self.brokers_of[tp]]

    def weight(self, tp: TopicPartition) -> int:
        return 1 if self._sizes is None else self._sizes[tp]

    def may_shift(self, tp: TopicPartition, source: int, target: int) -> bool:
        return target not in self.brokers_of[tp] and self._rack_is_open(tp, source, target)

    def find(self, source: int, target: int) -> TopicPartition | None:
        """Racks that no piece of a broker may go to are remembered: with as many racks as replicas, most."""
        rack = self._racks.get(target, "")
        if rack in self._shut[source]:
            return None
        rack_is_open = False
        for tp in self.pieces(source):
            if self._rack_is_open(tp, source, target):
                rack_is_open = True
                if target not in self.brokers_of[tp]:
                    return tp
        if not rack_is_open and not self._only_new:
            self._shut[source].add(rack)
        return None

    def price(self, tp: TopicPartition, source: int, target: int) -> int:
        homes = self._homes[tp]
        return (target not in homes) - (source not in homes)

    def shift(self, tp: TopicPartition, source: int, target: int) -> None:
        """Within a rack, what was remembered stays true: no partition gets into another rack."""
        if self._racks.get(source) == self._racks.get(target):
            self._shut[target] &= self._shut[source]
        else:
            self._open(tp, target)
        self._leave(tp, source)
        self._enter(tp, target)

    def add(self, tp: TopicPartition, target: int) -> None:
        """One replica more, whatever its rack."""
        self._open(tp, target)
        self._enter(tp, target)

    def drop(self, tp: TopicPartition, source: int) -> None:
        """One replica less."""
        self._open(tp)
        self._leave(tp, source)

    def best_target(self, tp: TopicPartition) -> int | None:
        """The broker for one replica more: of a rack without one where there is any, then the emptiest."""
        used = racks_of(self.brokers_of[tp], self._racks)
        free = (broker for broker in self.loads if broker not in self.brokers_of[tp])
        return min(free, key=lambda one: (self._racks.get(one) in used, self.loads[one], one), default=None)

    def away(self) -> int:
        """Replicas that are not where they were: the moves so far."""
        return sum(map(len, self._away.values()))

    @property
    def by_size(self) -> bool:
        return self._sizes is not None

    def lost_its_leader(self, tp: TopicPartition) -> bool:
        """Returns whether the preferred leader of before holds it no more."""
        return self._homes[tp][0] not in self.brokers_of[tp]

    def closed_groups(self) -> list[list[int]]:
        """Brokers among which replicas can move: a rack's, where each partition is once in every rack."""
        racks = set(self._racks.values())
        if not racks or any(
            len(homes) != len(racks) or len(racks_of(homes, self._racks)) != len(racks)
            for homes in self._homes.values()
        ):
            return [list(self.loads)]
        return [[broker for broker in self.loads if self._racks[broker] == rack] for rack in sorted(racks)]

    def racks_missing(self, tp: TopicPartition) -> int:
        """Returns how many racks more this partition should be in."""
        brokers = self.brokers_of[tp]
        return max(0, racks_wanted(len(brokers), self._racks) - len(racks_of(brokers, self._racks)))

    def sharing_a_rack(self, tp: TopicPartition) -> list[int]:
        """Its brokers that share a rack with another of its replicas, the most loaded first."""
        racks = [self._racks.get(broker) for broker in self.brokers_of[tp]]
        shared = [
            broker
            for broker in self.brokers_of[tp]
            if broker in self.loads and racks.count(self._racks[broker]) > 1
        ]
        return sorted(shared, key=lambda broker: (-self.loads[broker], broker))

    def _rack_is_open(self, tp: TopicPartition, source: int, target: int) -> bool:
        """True if the partition is in as many racks afterwards as it should be, or in no fewer than now."""
        racks = self._racks
        if not racks or racks[source] == racks[target]:
            return True
        stay = [racks[broker] for broker in self.brokers_of[tp] if broker != source and broker in racks]
        after = len({*stay, racks[target]})
        return after >= min(racks_wanted(len(self.brokers_of[tp]), racks), len({*stay, racks[source]}))

    def _group(self, tp: TopicPartition, broker: int) -> dict[TopicPartition, None]:
        homes = self._homes[tp]
        if broker not in homes:
            return self._away[broker]
        return self._leading[broker] if homes[0] == broker else self._following[broker]

    def _enter(self, tp: TopicPartition, target: int) -> None:
        self.brokers_of[tp].add(target)
        self._group(tp, target)[tp] = None
        self.loads[target] += self.weight(tp)

    def _leave(self, tp: TopicPartition, source: int) -> None:
        self.brokers_of[tp].remove(source)
        if source in self.loads:
            del self._group(tp, source)[tp]
            self.loads[source] -= self.weight(tp)

    def _open(self, tp: TopicPartition, *others: int) -> None:
        """Its racks may change: what was remembered of its brokers is forgotten."""
        for broker in (*self.brokers_of[tp], *others):
            if broker in self._shut:
                self._shut[broker].clear()


class LeaderPlacement:
    """Decides which replica of each partition is the preferred leader; only replicas can become it.

    Args:
        leaders: the leader of each partition now; pieces that may be shifted.
        homes: the leader of each partition before the plan, where it still holds a replica.
        replicas: the brokers with a replica of each partition.
        fixed: loads of leaderships that stay as they are, by broker.
    """

    def __init__(
        self,
        leaders: Mapping[TopicPartition, int],
        homes: Mapping[TopicPartition, int],
        replicas: Mapping[TopicPartition, Collection[int]],
        fixed: Mapping[int, int],
        sizes: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self._homes = homes
        self._sizes = sizes
        self._led: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in sorted(fixed)}
        self._ready: dict[tuple[int, int], dict[TopicPartition, None]] = {}
        self._others = {tp: sorted(broker for broker in replicas[tp] if broker in fixed) for tp in leaders}
        self.loads = {broker: fixed[broker] for broker in sorted(fixed)}
        self.leaders: dict[TopicPartition, int] = {}
        for tp, leader in sorted(leaders.items()):
            self._lead(tp, leader)

    def pieces(self, source: int) -> Iterator[TopicPartition]:
        led = self._led[source]
        return chain(
            (tp for tp in led if self._homes.get(tp) != source),
            (tp for tp in led if self._homes.get(tp) == source),
        )

    def is_stray(self, tp: TopicPartition, source: int) -> bool:
        return self._homes.get(tp) != source

    def missing_homes(self, tp: TopicPartition) -> list[int]:
        home = self._homes.get(tp)
        return [] if home is None or home == self.leaders[tp] else [home]

    def weight(self, tp: TopicPartition) -> int:
        return 1 if self._sizes is None else self._sizes[tp]

    def may_shift(self, tp: TopicPartition, source: int, target: int) -> bool:
        return tp in self._ready.get((source, target), ())

    def find(self, source: int, target: int) -> TopicPartition | None:
        found = None
        for tp in self._ready.get((source, target), ()):
            if self._homes.get(tp) != source:
                return tp
            found = found or tp
        return found

    def price(self, tp: TopicPartition, source: int, target: int) -> int:
        home = self._homes.get(tp)
        return 0 if home is None else (target != home) - (source != home)

    def shift(self, tp: TopicPartition, source: int, target: int) -> None:
        del self._led[source][tp]
        for broker in self._others[tp]:
            if broker != source:
                del self._ready[source, broker][tp]
        self.loads[source] -= self.weight(tp)
        self._lead(tp, target)

    def _lead(self, tp: TopicPartition, leader: int) -> None:
        self._led[leader][tp] = None
        for broker in self._others[tp]:
            if broker != leader:
                self._ready.setdefault((leader, broker), {})[tp] = None
        self.loads[leader] += self.weight(tp)
        self.leaders[tp] = leader
