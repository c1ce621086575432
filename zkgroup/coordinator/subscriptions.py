"""The topics that the members of a consumer group subscribe to, from their metadata.

Only OffsetDelete and the retention ask for them: what cannot be read changes nothing for the members.
Source: kafka/coordinator/group/GroupMetadata.scala@2.8.2 (computeSubscribedTopics).
"""

from __future__ import annotations

from zkgroup.assignment import consumer_protocol
from zkgroup.assignment.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from zkgroup.coordinator.group import GroupMetadata
from zkgroup.errors import CorruptFrameError


def subscribed_topics(group: GroupMetadata) -> frozenset[str] | None:
    """The topics of all members, by their metadata for the selected protocol; None where they are unknown."""
    if not group.members:
        return frozenset()
    protocol = group.protocol
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE or protocol is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        try:
            topics.update(consumer_protocol.subscribed_topics(dict(member.protocols).get(protocol, b"")))
        except CorruptFrameError:
            return None
    return frozenset(topics)
