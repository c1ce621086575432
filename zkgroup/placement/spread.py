"""Kafka's own algorithms: the replica lists of a new topic, of new partitions, and of `--generate`.

The first replica of partition p goes to the broker at position
(p + start) mod N; the others follow at a distance that grows by one each time p passes a multiple of N, so
that the followers of one leader are not all on the same broker. With racks the brokers are put in an order
that alternates between racks, and a broker is passed over while its rack has a replica and another has none.
(assignReplicasToBrokers and addPartitions in kafka/admin/AdminUtils.scala@0.8.2.2 and 0.10.2.2, the same in
kafka/zk/AdminZkClient.scala@2.8.2.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from zkgroup.errors import PlacementError
from zkgroup.model import TopicPartition
from zkgroup.placement.model import Broker, RackMode, Replicas, Spread, Start, brokers_named, racks_in_use

Compat = Literal["0.8", "0.10"]
"""Release whose placement is used: `0.8` knows no racks and takes a broker id for a start."""


FIRST = Start()
"""Partition 0 begins on the first broker, its followers are the next ones."""


def spread(
    brokers: Sequence[Broker],
    partitions: int,
    replication_factor: int,
    *,
    start: Start = FIRST,
    first_partition: int = 0,
    rack_mode: RackMode = "enforced",
) -> Spread:
    """Replica lists of `partitions` partitions, numbered from `first_partition`.

    Args:
        brokers: those that may hold replicas, in any order.
        start: Kafka draws it at random; here the caller does, so that the same call gives the same answer.

    Raises:
        PlacementError: no partitions, no replicas, more replicas than brokers, a broker named twice, or
            racks that only some brokers have (`enforced`).
    """
    ordered = sorted(brokers)
    _check(ordered, partitions, replication_factor)
    racks = racks_in_use(ordered, rack_mode)
    return _spread(ordered, racks, partitions, replication_factor, start, first_partition)


def grow(
    existing: Mapping[int, tuple[int, ...]],
    brokers: Sequence[Broker],
    partitions: int,
    *,
    compat: Compat = "0.10",
    rack_mode: RackMode = "enforced",
) -> Spread:
    """Replica lists of the partitions that bring a topic to `partitions`; they follow on from partition 0.

    The start is the position of the first replica of partition 0. Kafka 0.8.2.2 takes its *broker id* for
    that position, and that of an arbitrary partition; we take partition 0's there, too.

    Raises:
        PlacementError: not more partitions than there are, partition numbers with gaps, or what `spread`
            refuses.
    """
    factor = _growth_factor(existing, partitions)
    ordered = sorted(brokers)
    first = existing[0][0]
    if compat == "0.8":
        start, racks = Start.fixed(first), dict[int, str]()
    else:
        reached = (index for index, broker in enumerate(ordered) if broker.id >= first)
        start, racks = Start.fixed(next(reached, 0)), racks_in_use(ordered, rack_mode)
    missing = partitions - len(existing)
    _check(ordered, missing, factor)
    return _spread(ordered, racks, missing, factor, start, len(existing))


def grow_by_hand(
    existing: Mapping[int, tuple[int, ...]], brokers: Sequence[Broker], lists: Sequence[tuple[int, ...]]
) -> Spread:
    """The same with lists that the user gives, of the old and the new partitions (`--replica-assignment`).

    Kafka checks only what it adds: lists given for partitions that exist are left out, whatever they say.

    Raises:
        PlacementError: also for a list that is empty, repeats a broker, names one that is not registered, or
            is longer or shorter than that of partition 0.
    """
    factor = _growth_factor(existing, len(lists))
    known = {broker.id for broker in brokers}
    added = dict(enumerate(lists[len(existing) :], len(existing)))
    for partition, replicas in added.items():
        if len(replicas) != factor or len(set(replicas)) != factor:
            raise PlacementError(
                f"partition {partition}: expected {factor} different brokers as partition 0 has, "
                f"found {list(replicas)}"
            )
        if unknown := [broker for broker in replicas if broker not in known]:
            raise PlacementError(
                f"partition {partition}: {brokers_named(unknown, 'is', 'are')} not registered"
            )
    return Spread(
        replicas=added, order=tuple(sorted(known)), start=FIRST, rack_aware=False, notes=("given by hand",)
    )


def generate(
    topics: Mapping[str, Mapping[int, tuple[int, ...]]],
    brokers: Sequence[Broker],
    *,
    starts: Mapping[str, Start] | None = None,
    compat: Compat = "0.10",
    rack_mode: RackMode = "enforced",
) -> tuple[Replicas, tuple[str, ...]]:
    """Returns what Kafka's `--generate` proposes: every topic dealt anew over `brokers`, wherever it is now.

    It keeps no replica where it is on purpose, so it moves nearly everything; plans move what they must.
    0.8.2.2 deals in the order in which the brokers are given and knows no racks (ReassignPartitionsCommand).

    Args:
        topics: each topic's present replica lists; the factor is that of its lowest partition.
        starts: where each topic begins. By default a topic begins where the one before it, by name, ended,
            so that the first broker does not get the first leader of every topic.

    Returns:
        The proposal for every partition, and notes.

    Raises:
        PlacementError: as `spread`, or partition numbers with gaps; the message names the topic.
    """
    ordered = list(brokers) if compat == "0.8" else sorted(brokers)
    racks = {} if compat == "0.8" else racks_in_use(ordered, rack_mode)
    proposed: dict[TopicPartition, tuple[int, ...]] = {}
    notes: dict[str, None] = {}
    turn = 0
    for topic, existing in sorted(topics.items()):
        try:
            factor = _factor(existing)
            _check(ordered, len(existing), factor)
        except PlacementError as error:
            raise PlacementError(f"topic {topic}: {error}") from error
        start = (starts or {}).get(topic, Start(turn % len(ordered), turn // len(ordered)))
        dealt = _spread(ordered, racks, len(existing), factor, start, 0)
        proposed |= {TopicPartition(topic, number): lists for number, lists in dealt.replicas.items()}
        notes |= dict.fromkeys(dealt.notes)
        turn += len(existing)
    return proposed, tuple(notes)


def rack_alternated(racks: Mapping[int, str]) -> list[int]:
    """Broker ids, one from each rack in turn: racks by name, brokers of a rack by id."""
    by_rack: dict[str, list[int]] = {}
    for broker, rack in sorted(racks.items(), key=lambda one: (one[1], one[0])):
        by_rack.setdefault(rack, []).append(broker)
    longest = max(map(len, by_rack.values()), default=0)
    return [ids[turn] for turn in range(longest) for ids in by_rack.values() if turn < len(ids)]


def _spread(
    ordered: Sequence[Broker],
    racks: Mapping[int, str],
    partitions: int,
    factor: int,
    start: Start,
    first_partition: int,
) -> Spread:
    order = rack_alternated(racks) if racks else [broker.id for broker in ordered]
    shift, replicas = start.shift, {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(order) == 0:
            shift += 1
        first = (partition + start.index) % len(order)
        followers = _rack_aware(order, racks, first, shift) if racks else _plain(order, first, shift)
        replicas[partition] = (order[first], *(next(followers) for _ in range(factor - 1)))
    return Spread(
        replicas=replicas,
        order=tuple(order),
        start=start,
        rack_aware=bool(racks),
        notes=tuple(_notes(ordered, racks, factor)),
    )


def _plain(order: Sequence[int], first: int, shift: int) -> Iterator[int]:
    """The other brokers, from a distance of 1 + shift on; the first one's own position is stepped over."""
    others = len(order) - 1
    for number in range(others):
        yield order[(first + 1 + (shift + number) % others) % len(order)]


def _rack_aware(order: Sequence[int], racks: Mapping[int, str], first: int, shift: int) -> Iterator[int]:
    """The same, passing over brokers that have a replica and, while a rack has none, racks that have one."""
    others, all_racks = len(order) - 1, len(set(racks.values()))
    used, used_racks = {order[first]}, {racks[order[first]]}
    step = 0
    while len(used) < len(order):
        broker = order[(first + 1 + (shift * all_racks + step) % others) % len(order)]
        step += 1
        if broker not in used and (racks[broker] not in used_racks or len(used_racks) == all_racks):
            used.add(broker)
            used_racks.add(racks[broker])
            yield broker


def _notes(ordered: Sequence[Broker], racks: Mapping[int, str], factor: int) -> Iterator[str]:
    if not racks:
        if any(broker.rack is not None for broker in ordered):
            yield "racks were ignored"
        return
    sizes = {rack: list(racks.values()).count(rack) for rack in sorted(set(racks.values()))}
    if factor > len(sizes):
        yield f"{factor} replicas in {len(sizes)} racks: every rack has one, some have more"
    if min(sizes.values()) < max(sizes.values()) and factor > 1:
        listed = ", ".join(f"{rack} {size}" for rack, size in sizes.items())
        yield f"racks of unequal size ({listed}): brokers of small racks get more replicas"


def _factor(existing: Mapping[int, tuple[int, ...]]) -> int:
    """The replication factor of a topic that exists: that of partition 0."""
    if sorted(existing) != list(range(len(existing))):
        raise PlacementError(f"partition numbers have gaps: expected 0 to n-1, found {sorted(existing)}")
    return len(existing[0]) if existing else 0


def _growth_factor(existing: Mapping[int, tuple[int, ...]], partitions: int) -> int:
    if not existing:
        raise PlacementError("a topic without partitions cannot grow")
    factor = _factor(existing)
    if factor == 0:
        raise PlacementError("partition 0 has no replicas: nothing to follow on from")
    if partitions <= len(existing):
        raise PlacementError(
            f"the number of partitions can only grow: there are {len(existing)}, {partitions} were asked for"
        )
    return factor


def _check(ordered: Sequence[Broker], partitions: int, factor: int) -> None:
    ids = [broker.id for broker in ordered]
    if twice := sorted({broker for broker in ids if ids.count(broker) > 1}):
        raise PlacementError(f"{brokers_named(twice, 'is', 'are')} named twice")
    if partitions <= 0:
        raise PlacementError(f"expected at least one partition, found {partitions}")
    if factor <= 0:
        raise PlacementError(f"expected a replication factor of at least 1, found {factor}")
    if factor > len(ids):
        raise PlacementError(f"a replication factor of {factor} needs as many brokers, there are {len(ids)}")
