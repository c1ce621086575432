"""The topics that the members of a consumer group subscribe to, from their metadata.

Only tools and the retention ask for them: what cannot be read changes nothing for the members.
Source: clients/consumer/internals/ConsumerProtocol.java, kafka/coordinator/group/GroupMetadata.scala
(computeSubscribedTopics) @2.8.2.
"""

from __future__ import annotations

import struct
from typing import Final

from zkgroup.coordinator.group import GroupMetadata

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_VERSION_AND_COUNT: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")


def subscribed_topics(group: GroupMetadata) -> frozenset[str] | None:
    """The topics of all members, by their metadata for the selected protocol; None where they are unknown."""
    if not group.members:
        return frozenset()
    protocol = group.protocol
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE or protocol is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        found = topics_of(dict(member.protocols).get(protocol, b""))
        if found is None:
            return None
        topics |= found
    return frozenset(topics)


def topics_of(metadata: bytes) -> frozenset[str] | None:
    """The topics of one member's subscription, whatever its version; None where it cannot be read."""
    try:
        version, count = _VERSION_AND_COUNT.unpack_from(metadata)
        if version < 0 or not 0 <= count <= len(metadata):
            return None
        at, topics = _VERSION_AND_COUNT.size, set()
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, at)
            end = at + _LENGTH.size + length
            if length < 0 or end > len(metadata):
                return None
            topics.add(metadata[at + _LENGTH.size : end].decode())
            at = end
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
