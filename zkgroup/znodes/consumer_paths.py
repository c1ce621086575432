"""Paths below `/consumers`. `ids`, `owners` and `offsets` are Kafka's; the other children are ours.

Members and tools of Kafka ignore children of a group that they do not know, and a deletion of the group
takes them along. Nothing else may be put below `ids` (every child is read as a member), below `owners`
or `offsets` (every child is taken for a topic) or directly below `/consumers`.
"""

from __future__ import annotations

from functools import lru_cache

from zkgroup.model import TopicPartition

_cached = lru_cache(maxsize=1024)
"""For the parents of partitions: a batch names the same few for thousands of them."""


def consumers_path() -> str:
    """Its children are the groups."""
    return "/consumers"


def group_path(group: str) -> str:
    """Everything of one group."""
    return f"{consumers_path()}/{group}"


def ids_path(group: str) -> str:
    """Its children are the members; each of them watches it."""
    return f"{group_path(group)}/ids"


def owners_path(group: str) -> str:
    """Its children are the topics of which something was ever owned."""
    return f"{group_path(group)}/owners"


@_cached
def owners_topic_path(group: str, topic: str) -> str:
    """Its children are the owned partitions of a topic."""
    return f"{owners_path(group)}/{topic}"


def owner_path(group: str, topic_partition: TopicPartition) -> str:
    """Who owns a partition."""
    return f"{owners_topic_path(group, topic_partition.topic)}/{topic_partition.partition}"


def offsets_path(group: str) -> str:
    """Its children are the topics of which something was ever committed."""
    return f"{group_path(group)}/offsets"


@_cached
def offsets_topic_path(group: str, topic: str) -> str:
    """Its children are the partitions of a topic that have an offset."""
    return f"{offsets_path(group)}/{topic}"


def offset_path(group: str, topic_partition: TopicPartition) -> str:
    """How far a partition was consumed."""
    return f"{offsets_topic_path(group, topic_partition.topic)}/{topic_partition.partition}"


def resets_path(group: str) -> str:
    """Markers that an operator's reset leaves for running owners."""
    return f"{group_path(group)}/resets"


def views_path(group: str) -> str:
    """What each member computed, for `group verify`."""
    return f"{group_path(group)}/views"
