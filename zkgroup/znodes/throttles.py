"""Settings that slow a reassignment down, of tools and brokers from 0.10.1 on (controller.md 4.6)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from zkgroup.errors import ConfigError
from zkgroup.znodes.json_object import INT32, show

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
"""In `/config/brokers/<id>`: bytes a second, of every broker in an old or new replica list."""

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
REPLICAS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
"""In `/config/topics/<t>`: the replicas before the move, and those that it adds."""

EVERY_REPLICA: Final = "*"

_ITEM: Final = re.compile(r"([0-9]{1,10}):([0-9]{1,10})")


def throttled_replicas(replicas: Iterable[tuple[int, int]]) -> str:
    """`<partition>:<broker>` items joined by commas, ascending: `0:1,0:2,1:3`."""
    return ",".join(f"{partition}:{broker}" for partition, broker in sorted(set(replicas)))


def parse_throttled_replicas(text: str) -> frozenset[tuple[int, int]] | None:
    """The (partition, broker) pairs, or None for `*`, every replica of the topic. Raises ConfigError."""
    if text.strip() == EVERY_REPLICA:
        return None
    pairs = set()
    for item in filter(None, (part.strip() for part in text.split(","))):
        match = _ITEM.fullmatch(item)
        if match is None or int(match[1]) not in INT32 or int(match[2]) not in INT32:
            raise ConfigError(f"throttled replicas: expected <partition>:<broker>, found {show(item)}")
        pairs.add((int(match[1]), int(match[2])))
    return frozenset(pairs)
