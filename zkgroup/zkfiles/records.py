"""The contents of a transaction log and of a snapshot as plain values, with their zxids and lifetimes.

A zxid has the leader's epoch in the upper half, a count within it in the lower. An ephemeralOwner shows how a
znode ends: with a session, as a container, after a time to live, or never. Whether a server takes owners from
0xff00... on for times to live depends on a setting that no file holds (`extendedTypesEnabled`). A session id
of server 255 has parts of a clock in the 16 bits below the top byte, a time to live has zeros there, so these
distinguish them. Before 3.6 the record of a session's end does not name its ephemerals; `Ephemerals` does.

Sources: zookeeper.jute, DataTree.java and FileTxnLog.java of ZooKeeper 3.4 to 3.9, EphemeralType.java of 3.9.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import Final, Literal, NamedTuple

from zkgroup.model.requests import AclEntry as AclEntry
from zkgroup.model.requests import ZnodeStat


class TransactionType(IntEnum):
    """The type numbers of ZooDefs.OpCode that reach a log."""

    CLOSE_SESSION = -11
    CREATE_SESSION = -10
    ERROR = -1
    CREATE = 1
    DELETE = 2
    SET_DATA = 5
    SET_ACL = 7
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21


CREATES = frozenset(
    (
        TransactionType.CREATE,
        TransactionType.CREATE2,
        TransactionType.CREATE_CONTAINER,
        TransactionType.CREATE_TTL,
    )
)
DELETES = frozenset((TransactionType.DELETE, TransactionType.DELETE_CONTAINER))
SETS = frozenset((TransactionType.SET_DATA, TransactionType.RECONFIG))


Acl = tuple[AclEntry, ...]


class TreeDigest(NamedTuple):
    """The sum over the whole tree that a server of 3.6 or later writes behind each transaction."""

    version: int
    value: int
    """Unsigned, below 2**64."""


class Operation(NamedTuple):
    """One change of the tree, or the error in its place inside a multi that failed.

    `type` is a number of TransactionType, or another one that a later server may write.
    Fields that a type does not have are None.
    """

    type: int
    path: str | None = None
    data: bytes | None = None
    acl: Acl | None = None
    version: int | None = None
    """The version after a set or setACL; of a check, the version that was expected, plus one."""
    is_ephemeral: bool = False
    parent_cversion: int | None = None
    """The parent's count of creates after a create; None in records from before 3.4."""
    ttl_ms: int | None = None
    error: int | None = None
    """The code of KeeperException, of an error."""


class Transaction(NamedTuple):
    """One record of a log.

    A multi has its operations in order, any other transaction one, createSession and closeSession none.
    """

    zxid: int
    session: int
    """The session in signed 64 bits, as in ZooKeeper's own tools; 0 for requests of a server itself."""
    cxid: int
    """The client's number of the request; 0 where a closeSession is an expiry."""
    time_ms: int
    """The time since 1970 by the leader's clock, which can step back."""
    type: int
    operations: tuple[Operation, ...] = ()
    timeout_ms: int | None = None
    """The session timeout that a createSession granted."""
    closed_paths: tuple[str, ...] | None = None
    """The ephemerals that go with a closeSession from 3.6 on; None where the record has no list."""
    digest: TreeDigest | None = None
    """The tree's digest after this transaction; None before 3.6, with digests off, and for errors."""
    offset: int = 0
    """The place of the record's checksum in the (uncompressed) file."""

    @property
    def is_applied(self) -> bool:
        """True if it changed the tree: it is no error, nor a multi with a failed operation."""
        return self.type != TransactionType.ERROR and all(
            operation.type != TransactionType.ERROR for operation in self.operations
        )


class StoredStat(NamedTuple):
    """StatPersisted: the 60 bytes of a znode's history, in the order in which a snapshot has them."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    """The creates below it. A client sees `2 * cversion - children`."""
    aversion: int
    ephemeral_owner: int
    pzxid: int

    def shown(self, children: int, size: int) -> ZnodeStat:
        """As a client sees it, of a znode with so many children, and so many bytes of data."""
        count = 2 * self.cversion - children
        return ZnodeStat(*self[:5], count, self.aversion, self.ephemeral_owner, size, children, self.pzxid)


class StoredZnode(NamedTuple):
    """One znode of a snapshot. The root's path is `/`, though the file has it empty."""

    path: str
    data: bytes | None
    acl: Acl | None
    """The ACL; None where the file's table lacks its number (ZOOKEEPER-4689)."""
    stat: StoredStat


Lifetime = Literal["session", "container", "ttl"]

CONTAINER_OWNER: Final = -(2**63)
_TTL_BASE: Final = -(2**56)
"""0xff00000000000000 as a signed number, to which a time to live is added."""
_TTL_BITS: Final = 2**40
_CREATE_CONTAINER: Final = int(TransactionType.CREATE_CONTAINER)


def lifetime_of(owner: int) -> Lifetime | None:
    """The lifetime of a znode with this ephemeralOwner (signed); None for a persistent one."""
    if owner == 0:
        return None
    if owner == CONTAINER_OWNER:
        return "container"
    return "ttl" if _TTL_BASE <= owner < _TTL_BASE + _TTL_BITS else "session"


def owner_of(create: Operation, session: int) -> int:
    """The ephemeralOwner of a znode that this session creates."""
    if create.type == _CREATE_CONTAINER:
        return CONTAINER_OWNER
    if create.ttl_ms is not None:
        return _TTL_BASE + create.ttl_ms
    return session if create.is_ephemeral else 0


class Ephemerals:
    """The ephemerals that exist; its methods are called in the order of zxids."""

    def __init__(self) -> None:
        self._paths: dict[int, set[str]] = {}
        self.sessions: dict[str, int] = {}
        """The session of each ephemeral by its path."""

    def created(self, path: str, session: int) -> None:
        """Adds an ephemeral of a session."""
        self.deleted(path)
        self.sessions[path] = session
        self._paths.setdefault(session, set()).add(path)

    def deleted(self, path: str) -> None:
        """Removes an ephemeral; does nothing for other paths."""
        session = self.sessions.pop(path, None)
        if session is not None:
            self._paths[session].discard(path)

    def ended(self, session: int) -> list[str]:
        """Removes all ephemerals of a session; returns their paths, sorted."""
        left = sorted(self._paths.pop(session, ()))
        for path in left:
            del self.sessions[path]
        return left


FIRST_ZXIDS: Final = (1, 1 << 32 | 1)
"""The zxids of the first record ever: of a server alone, and of an ensemble's first leader."""


def epoch_of(zxid: int) -> int:
    """The epoch of the leader; 0 for a server alone."""
    return zxid >> 32


def follows(zxid: int, before: int) -> bool:
    """True if no zxid can be missing between two: each epoch counts from 1 without a gap."""
    return zxid == before + 1 or (epoch_of(zxid) > epoch_of(before) and zxid & 0xFFFFFFFF == 1)


class Hole(NamedTuple):
    """Zxids that must have existed and are in no file; both ends are missing."""

    first_missing: int
    last_missing: int

    def within(self, first: int, last: int) -> Hole | None:
        """The part from one zxid to another, both included; None for none."""
        part = Hole(max(self.first_missing, first), min(self.last_missing, last))
        return part if part.first_missing <= part.last_missing else None

    @property
    def text(self) -> str:
        """The text about the zxids that are missing."""
        if self.first_missing == self.last_missing:
            return f"zxid {self.first_missing:#x} is missing"
        return f"zxids {self.first_missing:#x} to {self.last_missing:#x} are missing"


def hole_between(before: int, zxid: int) -> Hole | None:
    """The hole between two zxids that follow each other in the files; None where nothing is missing."""
    if zxid <= before or follows(zxid, before):
        return None
    first = before + 1 if epoch_of(zxid) == epoch_of(before) else epoch_of(zxid) << 32 | 1
    return Hole(first, zxid - 1)


def inside_path(path: str, chroot: str) -> str | None:
    """A path as clients of a chroot see it; None outside of it. The empty path stays."""
    if not chroot or not path:
        return path
    if path.startswith(f"{chroot}/"):
        return path[len(chroot) :]
    return "/" if path == chroot else None


def is_below(path: str, some: Collection[str]) -> bool:
    """True if a path, or one above it, is among some."""
    while path not in some and path != "/":
        path = path.rpartition("/")[0] or "/"
    return path in some
