"""How evenly a placement lies, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from zkgroup.model import TopicPartition
from zkgroup.placement.racks import racks_in_use, racks_of, racks_wanted
from zkgroup.placement.values import Figures, Load, Picture


def figures(
    picture: Picture, replicas: Mapping[TopicPartition, tuple[int, ...]], leaving: Collection[int] = ()
) -> Figures:
    """The loads of the registered brokers under some replica lists; spreads over those that do not leave."""
    sizes = picture.sizes
    held, led = Counter[int](), Counter[int]()
    held_bytes, led_bytes = Counter[int](), Counter[int]()
    for tp, brokers in replicas.items():
        size = sizes[tp] if sizes else 0
        for broker in brokers:
            held[broker] += 1
            held_bytes[broker] += size
        for broker in brokers[:1]:
            led[broker] += 1
            led_bytes[broker] += size
    ids = sorted(broker.id for broker in picture.brokers)
    loads = {
        broker: Load(
            held[broker],
            led[broker],
            held_bytes[broker] if sizes is not None else None,
            led_bytes[broker] if sizes is not None else None,
        )
        for broker in ids
    }
    staying = [broker for broker in ids if broker not in leaving]
    racks = racks_in_use([one for one in picture.brokers if one.id not in leaving], picture.rack_mode)
    all_racks = racks_in_use(picture.brokers, picture.rack_mode)
    return Figures(
        loads=loads,
        replica_spread=_spread(held, staying),
        leader_spread=_spread(led, staying),
        byte_spread=None if sizes is None else _spread(held_bytes, staying),
        leader_byte_spread=None if sizes is None else _spread(led_bytes, staying),
        racks_missing=sum(
            max(0, racks_wanted(len(brokers), racks) - len(racks_of(brokers, all_racks)))
            for brokers in replicas.values()
        ),
    )


def _spread(loads: Mapping[int, int], brokers: Collection[int]) -> int:
    values = [loads[broker] for broker in brokers]
    return max(values, default=0) - min(values, default=0)
