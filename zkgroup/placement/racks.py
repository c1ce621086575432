"""Which racks count, and how many a partition should be in.

The rule is Kafka's (KIP-36): while a rack has no replica of a partition, no other rack gets a second one. So
a partition of f replicas is in min(f, K) of K racks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from zkgroup.errors import PlacementError
from zkgroup.placement.values import Broker, RackMode
from zkgroup.placement.words import brokers_named


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
