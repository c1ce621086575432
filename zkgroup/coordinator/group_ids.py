"""Group ids: the ones that can be names of znodes, those that a group can be made with, and their slots."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from zkgroup.assignment.kafka_assignors import java_hash
from zkgroup.znodes.ids import is_refused_in_paths

GROUP_ID_BYTES_MAX: Final = 255
"""Longest group id, in UTF-8.

ZooKeeper sends the names of all groups in one packet, and clients refuse one above 1 MiB (`jute.maxbuffer`).
About 4,000 names of this length fit; of Kafka's longest group ids, of 32,767 bytes, 31. Offsets of a group
of ZooKeeper consumers that has a longer id are read, described and deleted all the same.
"""
GROUPS_REMEMBERED: Final = 4096
"""Groups whose slot is computed once: the hash walks over the characters of the id."""


def is_valid_group_id(group_id: str) -> bool:
    """Returns whether a group can be made with this id."""
    return is_znode_name(group_id) and len(group_id.encode()) <= GROUP_ID_BYTES_MAX


def is_znode_name(group_id: str) -> bool:
    """Returns whether ZooKeeper can have a znode of this name, and no other group could have the same."""
    return group_id not in (".", "..") and not any(
        each in "/%" or is_refused_in_paths(each) for each in group_id
    )


@lru_cache(GROUPS_REMEMBERED)
def slot_of(group_id: str, slots: int) -> int:
    """The partition of `__consumer_offsets` that a group belongs to (Java's hash, `Utils.abs`)."""
    value = java_hash(group_id)
    return 0 if value == -(2**31) else abs(value) % slots
