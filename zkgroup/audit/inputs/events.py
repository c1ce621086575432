"""The rows that all findings are made from, one for each change in the order of zxid and place; their keys.

A rule gets the rows of one key: of a group, of its partition, a topic, a session, or of all. In one process
rows come from `zkgroup.zkfiles`, in Spark from Parquet; findings are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from zkgroup.errors import NotFoundError
from zkgroup.model.text import named
from zkgroup.zkfiles.records import Acl, StoredZnode, inside_path, lifetime_of
from zkgroup.zkfiles.tree import Tree
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.consumers import group_path
from zkgroup.znodes.paths import Kind, PathKind, path_kind

OPS: Final = ("create", "delete", "set", "setACL", "check", "createSession", "closeSession", "error")
CREATE, DELETE, SET, SET_ACL, CHECK, CREATE_SESSION, CLOSE_SESSION, ERROR = range(8)
LIFETIMES: Final = (None, "session", "container", "ttl")
OF_SESSION: Final = 1
"""The code of an ephemeral in the column of lifetimes."""
NODE_EXISTS: Final = -110
"""The error of a create whose znode exists."""


Op = Literal["create", "delete", "set", "setACL", "check", "createSession", "closeSession", "error"]
Lifetime = Literal["session", "container", "ttl"]

SINGLE = -1
"""`sub` of an operation outside a multi, and of a seed."""


class Seen(NamedTuple):
    """What consecutive snapshots of a series have of a path, all of them the same."""

    state: StoredZnode | None
    """None where the path was not there. Its `cversion` counts creates only, as a server stores it."""
    first: int
    last: int
    """Numbers of snapshots, from 0 in the order of their zxids. A run ends before one in which the path is
    unknown."""


States = Mapping[str, Sequence[Seen]]
"""By path, or by a name in it, the runs in order."""


class Event(NamedTuple):
    """One operation. A multi or a close has a row for each; those of a failed multi are not applied.

    A history begins with seeds: each znode of the snapshot it starts from, as a create at its czxid with the
    data and version that the snapshot has; and each of its sessions, as a createSession at zxid 0.
    """

    zxid: int
    sub: int
    """Place in its multi or close, from 0; -1 for an operation outside a multi, and for seeds."""
    time_ms: int
    """The leader's clock, since 1970. For durations only: it can step back."""
    session: int
    """The session of the request. A seed has its ephemeralOwner, or 0: snapshots do not have the writer."""
    cxid: int
    """The client's number of the request; 0 for a closeSession that is an expiry, and for its deletes."""
    op: Op
    path: str
    """Empty where there is none: sessions, and single requests that failed."""
    data: bytes | None = None
    version: int | None = None
    ephemeral: Lifetime | None = None
    timeout_ms: int | None = None
    error: int | None = None
    applied: bool = True
    seed: bool = False
    synthetic: bool = False
    """A deletion that no record names: an ephemeral that went with its session, before 3.6."""
    acl: Acl | None = None
    """The ACL of create and setACL. None in a seed whose ACL the snapshot lacks, or where none was read."""
    mtime_ms: int | None = None
    """The time of the last write of a seed's data; `time_ms` is that of its creation."""


def seeds_of(tree: Tree, chroot: str = "") -> Iterator[Event]:
    """The sessions of a tree, and its znodes by zxid and path, without those outside a chroot."""
    for session, timeout_ms in sorted(tree.sessions.items()):
        yield Event(0, SINGLE, 0, session, 0, "createSession", "", timeout_ms=timeout_ms, seed=True)
    znodes = (one for path in tree.paths() if (one := tree.stored(path)) is not None)
    for znode in sorted(znodes, key=lambda each: (each.stat.czxid, each.path)):
        path = inside_path(znode.path, chroot)
        if path is not None and path != "/":
            yield seed_of(znode, path)


def seed_of(znode: StoredZnode, path: str) -> Event:
    """The seed of a znode, with the path that clients see."""
    stat = znode.stat
    lifetime = lifetime_of(stat.ephemeral_owner)
    return Event(
        stat.czxid,
        SINGLE,
        stat.ctime,
        stat.ephemeral_owner if lifetime == "session" else 0,
        0,
        "create",
        path,
        znode.data,
        stat.version,
        lifetime,
        seed=True,
        acl=znode.acl,
        mtime_ms=stat.mtime,
    )


Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """A way to group rows by a key: rows for which `key` returns None are in no group.

    A key depends only on the row's path, its operation, and whether it was applied or is a seed; that of
    BY_SESSION on the session.
    """

    name: str
    key: Callable[[Event], Key | None]
    kinds: frozenset[Kind] | None = None
    """The kinds of paths whose rows can have a key; None for all."""
    of_path: Callable[[PathKind], Key] | None = None
    """The key of every applied row of these paths; None where it also depends on something else."""


def _applied(name: str, kinds: Sequence[Kind], key: Callable[[PathKind], Key]) -> Keys:
    def of(event: Event) -> Key | None:
        place = path_kind(event.path)
        return key(place) if event.applied and place.kind in kinds else None

    return Keys(name, of, frozenset(kinds), key)


def _group(place: PathKind) -> Key:
    return (place.name,)


def _partition(place: PathKind) -> Key:
    return place.name, place.topic, str(place.partition)


def _topic(event: Event) -> Key | None:
    place = path_kind(event.path)
    is_of_topic = place.kind in ("topic", "partition_state") or (
        place.kind == "admin" and event.path == TopicDeletion.path(place.name)
    )
    return (place.name,) if event.applied and is_of_topic else None


def _replication(event: Event) -> Key | None:
    is_broker = event.applied and path_kind(event.path).kind == "broker" and event.path.count("/") == 3
    return ("replication",) if is_broker or _topic(event) is not None else None


def partition_of(key: Key) -> tuple[str, str, int]:
    """Group, topic and partition of a key of BY_GROUP_PARTITION or BY_OWNED_PARTITION."""
    return key[0], key[1], int(key[2])


_OF_GROUPS: Final = ("member", "owner", "offset", "group")

BY_GROUP = _applied("group", _OF_GROUPS, _group)
"""All applied rows at and below `/consumers/<group>`; key: the group."""
BY_GROUP_PARTITION = _applied("group_partition", ("owner", "offset"), _partition)
"""Owner and offset rows; key: group, topic, partition in decimal."""
BY_MEMBERSHIP = _applied("membership", ("member", "owner", "group"), _group)
"""The rows of BY_GROUP without those of offsets, which are most of them."""
BY_OWNED_PARTITION = _applied("owned_partition", ("owner",), _partition)
"""The owner rows of BY_GROUP_PARTITION."""
BY_TOPIC = Keys("topic", _topic, frozenset(("topic", "partition_state", "admin")))
"""Applied rows at and below `/brokers/topics/<topic>`, and requests to delete it; key: the topic."""
REPLICATION = Keys("replication", _replication, frozenset(("topic", "partition_state", "admin", "broker")))
"""The rows of BY_TOPIC of all topics, and applied rows of `/brokers/ids/<id>`; one key."""
BY_DECISION = _applied(
    "decision",
    ("topic", "partition_state", "admin", "controller_epoch"),
    lambda place: ("topic", place.name) if place.kind in ("topic", "partition_state") else (place.kind,),
)
"""The rows of znodes that only a controller may write: replica lists and states of a topic; those below
`/admin`; the epoch."""
BY_SESSION = Keys("session", lambda event: (str(event.session),) if event.session else None)
"""All rows of a session, failed ones too; key: the session in decimal."""
BY_SUBTREE = Keys("subtree", lambda of: (of.path.split("/", 2)[1],) if of.path and of.applied else None)
"""All applied rows; key: the first name of the path."""
CONTROLLER = _applied("controller", ("controller", "controller_epoch"), lambda place: ("controller",))
"""The rows of `/controller` and `/controller_epoch`; one key."""
ADMIN = _applied("admin", ("admin",), lambda place: ("admin",))
"""The rows below `/admin`; one key."""


def is_of_groups(place: PathKind) -> bool:
    """True if a znode belongs to a group, whose name is then `place.name`."""
    return place.kind in _OF_GROUPS


def require_group(group: str | None, groups: Iterable[str]) -> None:
    """Raises NotFoundError for a group that is not among these; None is no group."""
    names = sorted(set(groups))
    if group is not None and group not in names:
        known = named(names, most=8) or "none"
        raise NotFoundError(f"{group_path(group)}: there was no such group; those that were: {known}")
