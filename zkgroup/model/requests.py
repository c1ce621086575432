"""Requests to ZooKeeper, their outcomes, Stats and session events, as plain values.

The pure machines emit requests as effects and receive outcomes as events. `zkgroup.zookeeper` executes them
on a real server, `zkgroup.testing` on one in memory. Every request has exactly one outcome. Paths are
absolute and relative to the client's chroot.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from zkgroup.model.values import quick_init


class Code(Enum):
    """The reason why the server refused an operation (KeeperException.Code, ZooKeeper 3.9)."""

    NO_NODE = "NoNode"
    NODE_EXISTS = "NodeExists"
    BAD_VERSION = "BadVersion"
    NOT_EMPTY = "NotEmpty"
    NO_CHILDREN_FOR_EPHEMERALS = "NoChildrenForEphemerals"
    NO_AUTH = "NoAuth"
    INVALID_ACL = "InvalidACL"
    BAD_ARGUMENTS = "BadArguments"
    READ_ONLY = "ReadOnly"
    QUOTA_EXCEEDED = "QuotaExceeded"
    OTHER = "Other"


@dataclass(frozen=True, slots=True)
class Create:
    """Create a leaf with its final data. Parents are not made."""

    path: str
    data: bytes | None
    ephemeral: bool = False
    sequential: bool = False


@quick_init
@dataclass(frozen=True, slots=True)
class SetData:
    """Replaces the data of a znode."""

    path: str
    """The path of the znode."""
    data: bytes
    """The new data."""
    version: int
    """Expected data version. -1 (any) only where another operation of the transaction is the fence, as the
    slot's check is for commits, and for an operator's changes with `--force`.
    """


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int
    """Expected data version; -1 requires only that the znode exists."""


Operation = Create | SetData | Delete | Check


@dataclass(frozen=True, slots=True)
class Multi:
    """One transaction: all operations or none."""

    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class CreateMissing:
    """Create persistent znodes with null data, in this order, where they do not exist yet."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadMany:
    """Unwatched bulk read of data and Stat: multiReads, or pipelined reads on a 3.4 server.

    The reads are not atomic: very many paths are several packets, and on 3.4 each path is one. They are done
    in this order on every server.
    """

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListMany:
    """Unwatched bulk read of children names."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadAcls:
    """Unwatched bulk read of ACL and Stat, pipelined one by one: multiRead has no such operation."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetAcls:
    """Set ACLs, pipelined one by one: no transaction has such an operation. Each is done or refused alone."""

    changes: tuple[AclChange, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """Read data and Stat of one znode; with `watch`, arm a watch for its change or deletion."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class ListChildren:
    """Read the names of the children and the Stat; with `watch`, arm a watch for their change."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Exists:
    """Read the Stat of a znode or None; with `watch`, arm a watch for its creation, change or deletion."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Sync:
    """Let this connection's server catch up with the leader before later reads."""

    path: str


Request = (
    Multi | CreateMissing | ReadMany | ListMany | ReadAcls | SetAcls | Read | ListChildren | Exists | Sync
)


@dataclass(frozen=True, slots=True)
class MultiDone:
    """The transaction was applied."""

    stats: tuple[ZnodeStat | None, ...]
    """One for each operation: the new Stat for a SetData, None otherwise."""
    zxid: int | None
    """The transaction's id, if the reply contains it."""
    created: tuple[str, ...] = ()
    """Paths of the Create operations, in order (they differ from those asked for if sequential)."""


@dataclass(frozen=True, slots=True)
class MultiRefused:
    """Nothing was applied; `index` is the operation that the server refused."""

    index: int
    code: Code


@dataclass(frozen=True, slots=True)
class CreateMissingDone:
    """Every path exists now."""


@dataclass(frozen=True, slots=True)
class ReadManyDone:
    znodes: tuple[Znode | Code | None, ...]
    """One for each path: the znode, None if it does not exist, a Code if it may not be read."""


@dataclass(frozen=True, slots=True)
class ListManyDone:
    children: tuple[tuple[str, ...] | Code | None, ...]


@dataclass(frozen=True, slots=True)
class ReadAclsDone:
    acls: tuple[ZnodeAcl | Code | None, ...]


@dataclass(frozen=True, slots=True)
class SetAclsDone:
    stats: tuple[ZnodeStat | Code | None, ...]
    """One for each change: the new Stat, None if there is no such znode, a Code if it was refused."""


@dataclass(frozen=True, slots=True)
class ReadDone:
    """`znode` is None if it does not exist; a watch is then armed for its creation."""

    znode: Znode | None


@dataclass(frozen=True, slots=True)
class ListChildrenDone:
    """`stat` is None if the parent does not exist; a watch is then armed for its creation."""

    children: tuple[str, ...]
    stat: ZnodeStat | None


@dataclass(frozen=True, slots=True)
class ExistsDone:
    stat: ZnodeStat | None


@dataclass(frozen=True, slots=True)
class SyncDone:
    pass


@dataclass(frozen=True, slots=True)
class Refused:
    """The server refused a request other than a Multi, with an error that is not "no such znode"."""

    code: Code
    path: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No reply came: a write may or may not have been applied. Resolve it by reading back."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """The request was not sent: no connection, another session, or too big. A write is not applied."""

    reason: str
    too_big: bool = False


Outcome = (
    MultiDone
    | MultiRefused
    | CreateMissingDone
    | ReadManyDone
    | ListManyDone
    | ReadAclsDone
    | SetAclsDone
    | ReadDone
    | ListChildrenDone
    | ExistsDone
    | SyncDone
    | Refused
    | Unanswered
    | NotSent
)


@dataclass(frozen=True, slots=True)
class Session:
    """One ZooKeeper session of a client, from its first connection to its end."""

    incarnation: int
    """Number of the session of this client object, from 1. A request names the one that it is for."""
    session_id: int
    timeout_ms: int
    """The timeout that the server granted, not the one requested."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The session is connected (for the first time or again). All watches armed earlier are gone."""

    session: Session


@dataclass(frozen=True, slots=True)
class Suspended:
    """The connection is lost; the session may still live. Nothing can be submitted now."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class Lost:
    """The client has given the session up. No later request for this incarnation reaches a server."""

    incarnation: int
    reason: str
    fatal: Exception | None = None
    """Set when the client gives up for good (refused credentials, no chroot, closed): no session follows."""


SessionEvent = Connected | Suspended | Lost


class ZnodeStat(NamedTuple):
    """The eleven fields of ZooKeeper's Stat, in wire order (zookeeper.jute, `Stat`).

    A tuple rather than a dataclass: bulk reads make tens of thousands of them.
    """

    czxid: int
    """Transaction that created the znode."""
    mzxid: int
    """Transaction that last set its data."""
    ctime: int
    """Creation time, epoch milliseconds by the leader's clock."""
    mtime: int
    """Time of the last data change, epoch milliseconds by the leader's clock."""
    version: int
    """Number of data changes; a re-created znode starts again at 0."""
    cversion: int
    """Number of child creations and deletions."""
    aversion: int
    """Number of ACL changes."""
    ephemeral_owner: int
    """Session id of the owner; 0 for a persistent znode."""
    data_length: int
    """Bytes of data."""
    children_count: int
    """Number of children."""
    pzxid: int
    """Transaction that last created or deleted a child."""


STAT_NAMES: Final = (
    "czxid",
    "mzxid",
    "ctime",
    "mtime",
    "version",
    "cversion",
    "aversion",
    "ephemeralOwner",
    "dataLength",
    "numChildren",
    "pzxid",
)
"""The names of the fields of ZnodeStat in ZooKeeper's own tools, in the same order."""


class AclEntry(NamedTuple):
    """One entry of an ACL: `perms` are bits (read 1, write 2, create 4, delete 8, admin 16)."""

    perms: int
    scheme: str
    id: str


class AclChange(NamedTuple):
    """The new ACL of a znode."""

    path: str
    acl: tuple[AclEntry, ...]
    """Of the scheme `auth` an entry stands for the identities of the client."""
    version: int = -1
    """Expected ACL version (`aversion`), -1 for any."""


class ZnodeAcl(NamedTuple):
    """The ACL of a znode, and its Stat at the same moment.

    From 3.5.5 on, a server masks the ids of digest entries for a client without the admin permission.
    """

    acl: tuple[AclEntry, ...]
    stat: ZnodeStat


class Znode(NamedTuple):
    """A znode as read: `data` is None if the server stores null, which is not the empty string."""

    path: str
    """The path of the znode."""
    data: bytes | None
    """The data; None if the server stores null, which is not the empty string."""
    stat: ZnodeStat
    """Its Stat: versions, zxids and times."""
