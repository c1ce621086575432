"""The ways to bring rows together: by group, its partition, topic, session, or all in one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from zkgroup.audit.inputs.events import Event
from zkgroup.errors import NotFoundError
from zkgroup.model.text import named
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.consumers import group_path
from zkgroup.znodes.paths import Kind, PathKind, path_kind

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """A way to bring rows together: a row for which `key` gives None is for none of them.

    A key depends only on the row's path, its operation, and whether it was applied or is a seed; that of
    BY_SESSION on the session.
    """

    name: str
    key: Callable[[Event], Key | None]
    kinds: frozenset[Kind] | None = None
    """Of rows of other kinds of paths it gives None; None where it may give a key of any."""


def _applied(name: str, kinds: Sequence[Kind], key: Callable[[PathKind], Key]) -> Keys:
    def of(event: Event) -> Key | None:
        place = path_kind(event.path)
        return key(place) if event.applied and place.kind in kinds else None

    return Keys(name, of, frozenset(kinds))


def _group(place: PathKind) -> Key:
    return (place.name,)


def _partition(place: PathKind) -> Key:
    return place.name, place.topic, str(place.partition)


def _decision(place: PathKind) -> Key:
    return ("topic", place.name) if place.kind in ("topic", "partition_state") else (place.kind,)


def _topic(event: Event) -> Key | None:
    place = path_kind(event.path)
    is_of_topic = place.kind in ("topic", "partition_state") or (
        place.kind == "admin" and event.path == TopicDeletion.path(place.name)
    )
    return (place.name,) if event.applied and is_of_topic else None


def _replication(event: Event) -> Key | None:
    is_broker = event.applied and path_kind(event.path).kind == "broker" and event.path.count("/") == 3
    return ("replication",) if is_broker or _topic(event) is not None else None


def _subtree(event: Event) -> Key | None:
    return (event.path.split("/", 2)[1],) if event.path and event.applied else None


def partition_of(key: Key) -> tuple[str, str, int]:
    """Group, topic and partition of a key of BY_GROUP_PARTITION or BY_OWNED_PARTITION."""
    return key[0], key[1], int(key[2])


_OF_GROUPS: Final = ("member", "owner", "offset", "group")

BY_GROUP = _applied("group", _OF_GROUPS, _group)
"""All applied rows at and below `/consumers/<group>`; key: the group."""
BY_GROUP_PARTITION = _applied("group_partition", ("owner", "offset"), _partition)
"""Owner and offset rows; key: group, topic, partition in decimal."""
BY_MEMBERSHIP = _applied("membership", ("member", "owner", "group"), _group)
"""The rows of BY_GROUP without offsets, which are most of them."""
BY_OWNED_PARTITION = _applied("owned_partition", ("owner",), _partition)
"""The owner rows of BY_GROUP_PARTITION."""
BY_TOPIC = Keys("topic", _topic, frozenset(("topic", "partition_state", "admin")))
"""Applied rows at and below `/brokers/topics/<topic>`, and requests to delete it; key: the topic."""
REPLICATION = Keys("replication", _replication, frozenset(("topic", "partition_state", "admin", "broker")))
"""The same of all topics, and applied rows of `/brokers/ids/<id>`; one key."""
BY_DECISION = _applied("decision", ("topic", "partition_state", "admin", "controller_epoch"), _decision)
"""The rows of what only a controller may write: by topic its replica lists and states; below `/admin`; the
epoch."""
BY_SESSION = Keys("session", lambda event: (str(event.session),) if event.session else None)
"""All rows of a session, failed ones too; key: the session in decimal."""
BY_SUBTREE = Keys("subtree", _subtree)
"""All applied rows; key: the first name of the path."""
CONTROLLER = _applied("controller", ("controller", "controller_epoch"), lambda place: ("controller",))
"""`/controller` and `/controller_epoch`; one key."""
ADMIN = _applied("admin", ("admin",), lambda place: ("admin",))
"""Below `/admin`; one key."""


def is_of_groups(place: PathKind) -> bool:
    """True if a znode belongs to some group, whose name is then that of the place."""
    return place.kind in _OF_GROUPS


def require_group(group: str | None, groups: Iterable[str]) -> None:
    """Raises NotFoundError where a group was asked for and is not among those that were."""
    names = sorted(set(groups))
    if group is not None and group not in names:
        known = named(names, most=8) or "none"
        raise NotFoundError(f"{group_path(group)}: there was no such group; those that were: {known}")
