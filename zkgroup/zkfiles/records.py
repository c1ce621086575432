"""The contents of a transaction log and of a snapshot, as plain values.

Sources: zookeeper.jute, DataTree.java and FileTxnLog.java of ZooKeeper 3.4 to 3.9.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from zkgroup.model.requests import AclEntry as AclEntry


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
    """One change of the tree, or what stands in its place inside a multi that failed.

    `type` is a number of TransactionType, or another one that a later server may write.
    What a type does not have is None.
    """

    type: int
    path: str | None = None
    data: bytes | None = None
    acl: Acl | None = None
    version: int | None = None
    """set and setACL: the version after it. check: the version that was expected, plus one."""
    is_ephemeral: bool = False
    parent_cversion: int | None = None
    """create: the parent's count of creates after it; None in records from before 3.4."""
    ttl_ms: int | None = None
    error: int | None = None
    """error: the code of KeeperException."""


class Transaction(NamedTuple):
    """One record of a log.

    A multi has its operations in order, any other transaction one, createSession and closeSession none.
    """

    zxid: int
    session: int
    """Signed 64 bits, as ZooKeeper's own tools take it; 0 for what a server does by itself."""
    cxid: int
    """The client's number of the request; 0 where a closeSession is an expiry."""
    time_ms: int
    """The leader's clock, since 1970; it can step back."""
    type: int
    operations: tuple[Operation, ...] = ()
    timeout_ms: int | None = None
    """createSession: the session timeout that was granted."""
    closed_paths: tuple[str, ...] | None = None
    """closeSession from 3.6 on: the ephemerals that go with it; None where the record has no list."""
    digest: TreeDigest | None = None
    """The tree's digest after this transaction; None before 3.6, with digests off, and for errors."""
    offset: int = 0
    """Bytes from the start of the (uncompressed) file to the record's checksum."""

    @property
    def is_applied(self) -> bool:
        """True if the tree took it: not an error, nor a multi of which one operation failed."""
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
    """Creates below it. A client is shown `2 * cversion - children`."""
    aversion: int
    ephemeral_owner: int
    pzxid: int


@dataclass(frozen=True, slots=True)
class StoredZnode:
    """One znode of a snapshot. The root's path is `/`, though the file has it empty."""

    path: str
    data: bytes | None
    acl: Acl | None
    """None where the file's table lacks the ACL's number (ZOOKEEPER-4689)."""
    stat: StoredStat
