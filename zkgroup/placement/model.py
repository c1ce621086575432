"""The placement model: pieces on brokers, each with a weight, which balancing shifts between brokers.

A piece is a replica in a `ReplicaPlacement`, and the leadership of a partition in a `LeaderPlacement`.
Balancing asks which piece of one broker may go to another, and shifts it. Everything is kept and iterated
in a fixed order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Protocol

from zkgroup.model import TopicPartition
from zkgroup.placement.types import racks_of, racks_wanted


class PlacementModel(Protocol):
    """What balancing needs to know."""

    loads: dict[int, int]
    """Broker to the sum of the weights on it."""

    def pieces(self, source: int) -> Iterator[TopicPartition]:
        """The pieces of a broker that may be shifted, those first that are away from home."""
        ...

    def is_stray(self, tp: TopicPartition, source: int) -> bool:
        """Whether the piece that is on `source` is away from home, or has none."""
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
    """Which brokers hold each partition.

    Args:
        replicas: where the replicas are now: the homes.
        brokers: ids of those that may be given replicas; replicas on others stay where they are.
        racks: broker to rack, empty where racks do not count.
        sizes: the weight of a replica of each partition; None weighs each as 1.
        settled: whether replicas that are at home stay there; only what was placed since may be shifted.
    """

    def __init__(
        self,
        replicas: Mapping[TopicPartition, Sequence[int]],
        brokers: Sequence[int],
        racks: Mapping[int, str],
        sizes: Mapping[TopicPartition, int] | None = None,
        *,
        settled: bool = False,
    ) -> None:
        # Sorted here, so that no answer depends on the order in which things were read.
        brokers = sorted(brokers)
        self._homes = {tp: tuple(held) for tp, held in sorted(replicas.items())}
        self._racks = racks
        self._sizes = sizes
        self._settled = settled
        self._away: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in brokers}
        self._following: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in brokers}
        self._leading: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in brokers}
        self._shut: dict[int, set[str]] = {broker: set() for broker in brokers}
        self.held = {tp: set(homes) for tp, homes in self._homes.items()}
        self.loads = dict.fromkeys(brokers, 0)
        for tp, homes in self._homes.items():
            for broker in homes:
                if broker in self.loads:
                    self._group(tp, broker)[tp] = None
                    self.loads[broker] += self.weight(tp)

    def pieces(self, source: int) -> Iterator[TopicPartition]:
        """Away from home first, then followers: leaders stay where they can."""
        if self._settled:
            return iter(self._away[source])
        return chain(self._away[source], self._following[source], self._leading[source])

    def is_stray(self, tp: TopicPartition, source: int) -> bool:
        return source not in self._homes[tp]

    def missing_homes(self, tp: TopicPartition) -> list[int]:
        return [home for home in self._homes[tp] if home in self.loads and home not in self.held[tp]]

    def weight(self, tp: TopicPartition) -> int:
        return 1 if self._sizes is None else self._sizes[tp]

    def may_shift(self, tp: TopicPartition, source: int, target: int) -> bool:
        return target not in self.held[tp] and self._rack_is_open(tp, source, target)

    def find(self, source: int, target: int) -> TopicPartition | None:
        """Racks that no piece of a broker may go to are remembered: with as many racks as replicas, most."""
        rack = self._racks.get(target, "")
        if rack in self._shut[source]:
            return None
        rack_is_open = False
        for tp in self.pieces(source):
            if self._rack_is_open(tp, source, target):
                rack_is_open = True
                if target not in self.held[tp]:
                    return tp
        if not rack_is_open and not self._settled:
            self._shut[source].add(rack)
        return None

    def price(self, tp: TopicPartition, source: int, target: int) -> int:
        homes = self._homes[tp]
        return (target not in homes) - (source not in homes)

    def shift(self, tp: TopicPartition, source: int, target: int) -> None:
        """Within a rack, what was remembered stays true: no partition came into another rack."""
        if self._racks.get(source) == self._racks.get(target):
            self._shut[target] &= self._shut[source]
        else:
            self._open(tp, target)
        self._leave(tp, source)
        self._enter(tp, target)

    def add(self, tp: TopicPartition, target: int) -> None:
        """One replica more, without a look at the racks."""
        self._open(tp, target)
        self._enter(tp, target)

    def drop(self, tp: TopicPartition, source: int) -> None:
        """One replica less."""
        self._open(tp)
        self._leave(tp, source)

    def best_target(self, tp: TopicPartition) -> int | None:
        """The broker for one replica more: of a rack without one where there is any, then the emptiest."""
        used = racks_of(self.held[tp], self._racks)
        free = (broker for broker in self.loads if broker not in self.held[tp])
        return min(free, key=lambda one: (self._racks.get(one) in used, self.loads[one], one), default=None)

    def away(self) -> int:
        """Replicas that are not where they were: the moves so far."""
        return sum(map(len, self._away.values()))

    @property
    def by_size(self) -> bool:
        return self._sizes is not None

    def lost_its_leader(self, tp: TopicPartition) -> bool:
        """Whether the preferred leader of before holds it no more."""
        return self._homes[tp][0] not in self.held[tp]

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
        """How many racks more this partition should be in."""
        held = self.held[tp]
        return max(0, racks_wanted(len(held), self._racks) - len(racks_of(held, self._racks)))

    def crowded(self, tp: TopicPartition) -> list[int]:
        """Its brokers that share a rack with another of its replicas, the most loaded first."""
        racks = [self._racks.get(broker) for broker in self.held[tp]]
        shared = [
            broker
            for broker in self.held[tp]
            if broker in self.loads and racks.count(self._racks[broker]) > 1
        ]
        return sorted(shared, key=lambda broker: (-self.loads[broker], broker))

    def _rack_is_open(self, tp: TopicPartition, source: int, target: int) -> bool:
        """Whether the partition is in as many racks afterwards as it should be, or in no fewer than now."""
        racks = self._racks
        if not racks or racks[source] == racks[target]:
            return True
        stay = [racks[broker] for broker in self.held[tp] if broker != source and broker in racks]
        after = len({*stay, racks[target]})
        return after >= min(racks_wanted(len(self.held[tp]), racks), len({*stay, racks[source]}))

    def _group(self, tp: TopicPartition, broker: int) -> dict[TopicPartition, None]:
        homes = self._homes[tp]
        if broker not in homes:
            return self._away[broker]
        return self._leading[broker] if homes[0] == broker else self._following[broker]

    def _enter(self, tp: TopicPartition, target: int) -> None:
        self.held[tp].add(target)
        self._group(tp, target)[tp] = None
        self.loads[target] += self.weight(tp)

    def _leave(self, tp: TopicPartition, source: int) -> None:
        self.held[tp].remove(source)
        if source in self.loads:
            del self._group(tp, source)[tp]
            self.loads[source] -= self.weight(tp)

    def _open(self, tp: TopicPartition, *others: int) -> None:
        """Its racks may change: what was remembered of its brokers is forgotten."""
        for broker in (*self.held[tp], *others):
            if broker in self._shut:
                self._shut[broker].clear()


class LeaderPlacement:
    """Which replica of each partition is the preferred leader; only replicas can become it.

    Args:
        leaders: the leader of each partition now; pieces that may be shifted.
        homes: the leader of each partition before the plan, where it still holds a replica.
        held: the brokers that hold each partition.
        fixed: loads of leaderships that stay as they are, by broker.
    """

    def __init__(
        self,
        leaders: Mapping[TopicPartition, int],
        homes: Mapping[TopicPartition, int],
        held: Mapping[TopicPartition, Collection[int]],
        fixed: Mapping[int, int],
        sizes: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self._homes = homes
        self._sizes = sizes
        self._led: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in sorted(fixed)}
        self._ready: dict[tuple[int, int], dict[TopicPartition, None]] = {}
        self._others = {tp: sorted(broker for broker in held[tp] if broker in fixed) for tp in leaders}
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
