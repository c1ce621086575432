"""Brings rows together: by group, by partition of a group, by topic, by session, or all in
one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.texts import first_of
from zkgroup.errors import NotFoundError
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.consumers import group_path
from zkgroup.znodes.paths import Kind, PathKind, path_kind

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """Says how rows are brought together: a row for which `key` gives None is for none of them.

    A key depends only on the row's path, its operation, and whether it was applied or is a seed; that of
    BY_SESSION on the session.
    """

    name: str
    key: Callable[[Event], Key | None]
    kinds: frozenset[Kind] | None = None
    """Of rows of other kinds of paths it gives None; None where it may give a key of any."""


def _group(event: Event) -> Key | None:
    place = path_kind(event.path)
    return (place.name,) if event.applied and place.kind in ("member", "owner", "offset", "group") else None


def _group_partition(event: Event) -> Key | None:
    place = path_kind(event.path)
    if not event.applied or place.kind not in ("owner", "offset"):
        return None
    return place.name, place.topic, str(place.partition)


def _membership(event: Event) -> Key | None:
    place = path_kind(event.path)
    return (place.name,) if event.applied and place.kind in ("member", "owner", "group") else None


def _owned_partition(event: Event) -> Key | None:
    place = path_kind(event.path)
    if not event.applied or place.kind != "owner":
        return None
    return place.name, place.topic, str(place.partition)


def _topic(event: Event) -> Key | None:
    place = path_kind(event.path)
    if not event.applied:
        return None
    if place.kind == "admin":
        return (place.name,) if event.path == TopicDeletion.path(place.name) else None
    return (place.name,) if place.kind in ("topic", "partition_state") else None


def _replication(event: Event) -> Key | None:
    is_broker = event.applied and path_kind(event.path).kind == "broker" and event.path.count("/") == 3
    return ("replication",) if is_broker or _topic(event) is not None else None


def _decision(event: Event) -> Key | None:
    place = path_kind(event.path)
    match place.kind if event.applied else None:
        case "topic" | "partition_state":
            return "topic", place.name
        case "admin" | "controller_epoch":
            return (place.kind,)
        case _:
            return None


def _session(event: Event) -> Key | None:
    return (str(event.session),) if event.session else None


def _subtree(event: Event) -> Key | None:
    return (event.path.split("/", 2)[1],) if event.path and event.applied else None


def _controller(event: Event) -> Key | None:
    kind = path_kind(event.path).kind
    return ("controller",) if event.applied and kind in ("controller", "controller_epoch") else None


def _admin(event: Event) -> Key | None:
    return ("admin",) if event.applied and path_kind(event.path).kind == "admin" else None


def partition_of(key: Key) -> tuple[str, str, int]:
    """Group, topic and partition of a key of BY_GROUP_PARTITION or BY_OWNED_PARTITION."""
    return key[0], key[1], int(key[2])


def _kinds(*kinds: Kind) -> frozenset[Kind]:
    return frozenset(kinds)


BY_GROUP = Keys("group", _group, _kinds("member", "owner", "offset", "group"))
"""All applied rows at and below `/consumers/<group>`; key: the group."""
BY_GROUP_PARTITION = Keys("group_partition", _group_partition, _kinds("owner", "offset"))
"""Owner and offset rows; key: group, topic, partition in decimal."""
BY_MEMBERSHIP = Keys("membership", _membership, _kinds("member", "owner", "group"))
"""The rows of BY_GROUP without offsets, which are most of them."""
BY_OWNED_PARTITION = Keys("owned_partition", _owned_partition, _kinds("owner"))
"""The owner rows of BY_GROUP_PARTITION."""
BY_TOPIC = Keys("topic", _topic, _kinds("topic", "partition_state", "admin"))
"""Applied rows at and below `/brokers/topics/<topic>`, and requests to delete it; key: the topic."""
REPLICATION = Keys("replication", _replication, _kinds("topic", "partition_state", "admin", "broker"))
"""The same of all topics, and applied rows of `/brokers/ids/<id>`; one key."""
BY_DECISION = Keys("decision", _decision, _kinds("topic", "partition_state", "admin", "controller_epoch"))
"""The rows of what only a controller may write: by topic its replica lists and states; below `/admin`; the
epoch."""
BY_SESSION = Keys("session", _session)
"""All rows of a session, failed ones too; key: the session in decimal."""
BY_SUBTREE = Keys("subtree", _subtree)
"""All applied rows; key: the first name of the path."""
CONTROLLER = Keys("controller", _controller, _kinds("controller", "controller_epoch"))
"""`/controller` and `/controller_epoch`; one key."""
ADMIN = Keys("admin", _admin, _kinds("admin"))
"""Below `/admin`; one key."""


_NAMED = 8


def is_of_groups(place: PathKind) -> bool:
    """Returns whether a znode belongs to some group, whose name is then that of the place."""
    return place.kind in ("member", "owner", "offset", "group")


def require_group(group: str | None, groups: Iterable[str]) -> None:
    """Raises NotFoundError where a group was asked for and is not among those that were."""
    names = sorted(set(groups))
    if group is None or group in names:
        return
    known = first_of(names, _NAMED) or "none"
    raise NotFoundError(f"{group_path(group)}: there was no such group; those that were: {known}")
