"""The group, topic or broker that a path belongs to, for readers of logs; the root of zkgroup's znodes.

Only the form of a path is checked, not its names.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, NamedTuple

from zkgroup.model import TopicPartition

Kind = Literal[
    "member",
    "owner",
    "offset",
    "group",
    "broker",
    "topic",
    "partition_state",
    "controller",
    "controller_epoch",
    "admin",
    "config",
    "other",
]


class PathKind(NamedTuple):
    """The kind of a path. `name` is the group, topic or broker id, or the empty string."""

    kind: Kind
    name: str = ""
    topic: str = ""
    """The topic of an owner or offset."""
    partition: int = -1
    """The partition of an owner, offset or partition state."""
    member: str = ""
    """The id of a member."""


_OTHER: Final = PathKind("other")
_SINGLES: Final = {
    "/controller": PathKind("controller"),
    "/controller_epoch": PathKind("controller_epoch"),
}


@lru_cache(maxsize=1 << 18)
def path_kind(path: str) -> PathKind:
    """The kind of a path below the chroot; `other` for paths that are not Kafka's.

    A path below a group, topic or broker without a kind of its own has the kind of its parent. Results are
    cached: a log has the same paths many times.
    """
    names = path.split("/")
    if len(names) < 3:
        return _SINGLES.get(path, _OTHER)
    root = names[1]
    if root == "consumers":
        return _of_group(names)
    if root == "brokers" and len(names) > 3:
        return _of_brokers(names)
    if root in ("admin", "config"):
        return PathKind("admin" if root == "admin" else "config", names[-1])
    return _OTHER


@lru_cache(maxsize=1 << 18)
def partition_of(path: str) -> TopicPartition:
    """The partition of an owner, an offset or a partition's state. Results are cached."""
    place = path_kind(path)
    return TopicPartition(place.topic, place.partition)


def _of_group(names: list[str]) -> PathKind:
    group = names[2]
    if len(names) == 5 and names[3] == "ids":
        return PathKind("member", group, member=names[4])
    if len(names) == 6 and names[3] in ("owners", "offsets") and _is_number(names[5]):
        return PathKind("owner" if names[3] == "owners" else "offset", group, names[4], int(names[5]))
    return PathKind("group", group)


def _of_brokers(names: list[str]) -> PathKind:
    if names[2] == "ids":
        return PathKind("broker", names[3])
    if names[2] != "topics":
        return _OTHER
    if len(names) == 7 and names[4] == "partitions" and names[6] == "state" and _is_number(names[5]):
        return PathKind("partition_state", names[3], names[3], int(names[5]))
    return PathKind("topic", names[3], names[3])


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def zkgroup_path() -> str:
    """The parent of zkgroup's znodes that belong to no group."""
    return "/zkgroup"


def subtree_text(path: str, depth: int) -> str:
    """The first names of a path: `/consumers/g` of `/consumers/g/ids` at depth 2."""
    return "/".join(path.split("/")[: depth + 1]) or "/"
