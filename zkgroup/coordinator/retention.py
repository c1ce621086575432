"""The topics that a group subscribes to, the expiry of its offsets, and its end.

Source: kafka/coordinator/group/GroupMetadata.scala@2.8.2 (removeExpiredOffsets, computeSubscribedTopics),
KIP-211.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from zkgroup.assignment import consumer_protocol
from zkgroup.assignment.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from zkgroup.coordinator.group import ConsumerGroupState, GroupMetadata
from zkgroup.errors import CorruptFrameError
from zkgroup.model import TopicPartition
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata


def subscribed_topics(group: GroupMetadata) -> frozenset[str] | None:
    """The topics of all members, by their metadata for the selected protocol; None where they are unknown.

    Only OffsetDelete and the retention ask for them: what cannot be read changes nothing for the members.
    """
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


def expired_offsets(
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    subscribed: Collection[str] | None,
    now_ms: int,
    retention_ms: int,
) -> frozenset[TopicPartition]:
    """The partitions whose offsets are to be deleted.

    An empty group keeps its offsets for the retention from the time when it became empty; a group that only
    stores offsets, from their commits; a group of consumers, from their commits as well, but only those of
    topics that no member subscribes to. `subscribed` is None where a member's subscription cannot be
    read: then nothing expires. A commit that is being written keeps its partition.
    """
    since_ms: int | None = None
    spared: Collection[str] = ()
    if group.protocol_type is not None:
        if group.state is ConsumerGroupState.EMPTY:
            since_ms = group.state_timestamp_ms
        elif group.protocol_type == CONSUMER_PROTOCOL_TYPE and subscribed is not None:
            spared = subscribed
        else:
            return frozenset()

    def is_expired(offset: OffsetAndMetadata) -> bool:
        if offset.expire_timestamp_ms is not None:
            return now_ms >= offset.expire_timestamp_ms
        base_ms = offset.commit_timestamp_ms if since_ms is None else since_ms
        return now_ms - base_ms >= retention_ms

    return frozenset(
        each
        for each, offset in offsets.items()
        if each.topic not in spared and each not in group.pending_commits and is_expired(offset)
    )


def is_over(group: GroupMetadata, has_offsets: bool) -> bool:
    """Returns whether a group is to be deleted, without members and offsets. Pending ids do not keep it."""
    return group.state is ConsumerGroupState.EMPTY and not has_offsets and not group.pending_commits
