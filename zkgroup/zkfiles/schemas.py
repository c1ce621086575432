"""The two tables that ZooKeeper's files are read into: name, type and meaning of each column.

One row of `LOG` is one operation of a transaction, one row of `SNAPSHOT` is one znode. Arrow, Spark and the
documentation take their types and texts from here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from zkgroup.zkfiles.records import CREATES, DELETES, SETS, TransactionType

ColumnType = Literal["long", "int", "string", "binary", "boolean", "timestamp", "acl"]
"""`long` and `int` are signed, of 64 and 32 bits. `timestamp` is a moment: in plain lists and in numpy the
milliseconds since 1970 as ZooKeeper has them, in Arrow microseconds in UTC. `acl` is a list of structures of
`perms` (int), `scheme` and `id` (string)."""


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: ColumnType
    nullable: bool
    meaning: str


def _column(name: str, type_: ColumnType, meaning: str) -> Column:
    return Column(name, type_, False, meaning)


def _or_null(name: str, type_: ColumnType, meaning: str) -> Column:
    return Column(name, type_, True, meaning)


LOG: tuple[Column, ...] = (
    _column("zxid", "long", "The transaction: epoch of the leader in the upper 32 bits, its count below."),
    _column("epoch", "int", "The upper 32 bits of zxid; 0 on a standalone server."),
    _column("sub", "int", "Place in its multi or session close, from 0; -1 for what stands alone."),
    _column("session", "long", "Who asked for it; 0 for what a server does by itself."),
    _column("cxid", "int", "The client's number of the request; 0 where a closeSession is an expiry."),
    _column("time", "timestamp", "The leader's clock when it prepared the request; it can step back."),
    _column("type", "int", "ZooKeeper's number of the operation; inside a multi the operation's own."),
    _or_null(
        "op",
        "string",
        "create, delete, set, setACL, check, createSession, closeSession or error; null for a type that this "
        "version does not know. An ephemeral that a closeSession lists is a delete of type -11.",
    ),
    _or_null("path", "string", "Null for sessions, and for errors: the log does not say what was refused."),
    _or_null(
        "parent", "string", "The path above; null for the root, where path is, and where a path has no slash."
    ),
    _or_null("data", "binary", "create and set: the znode's bytes after it; null is not empty."),
    _or_null("version", "int", "set and setACL: the version after it. check: the expected one, plus one."),
    _or_null("ephemeral", "string", "create: session, container or ttl; null for a lasting znode."),
    _or_null("ttl_ms", "long", "create of a TTL znode: how long it may stand unused."),
    _or_null("timeout_ms", "int", "createSession: the timeout that was granted."),
    _or_null(
        "error", "int", "error: the code of KeeperException; 0 and -2 in a multi that failed elsewhere."
    ),
    _or_null("parent_cversion", "int", "create: the parent's count of creates after it; null before 3.4."),
    _or_null("acl", "acl", "create and setACL: who may do what."),
    _column("applied", "boolean", "False for errors and every row of a multi that failed."),
    _or_null(
        "digest",
        "long",
        "The tree's digest after the whole transaction, its 64 bits taken as signed; null before 3.6, with "
        "digests off, and for errors.",
    ),
    _column("file", "string", "The file as it was named to the reader."),
    _column("offset", "long", "Bytes from the start of the file to the transaction's record."),
)

SNAPSHOT: tuple[Column, ...] = (
    _column("snap_zxid", "long", "From the file's name: everything up to it is inside."),
    _or_null(
        "end_zxid",
        "long",
        "Nothing after it is inside; null where the file does not say: before 3.6, with digests off, and "
        "where a server of 3.6 to 3.8 had applied nothing since it was started.",
    ),
    _column("path", "string", "The root is /."),
    _or_null("parent", "string", "The path above; null for the root."),
    _column("name", "string", "The last part of path; empty for the root."),
    _column("depth", "int", "Parts of path; 0 for the root."),
    _or_null("data", "binary", "The znode's bytes; null is not empty."),
    _or_null("acl", "acl", "Null where the file's table lacks it (ZOOKEEPER-4689)."),
    _column("czxid", "long", "The transaction that created it."),
    _column("mzxid", "long", "The last that set its data."),
    _column("pzxid", "long", "The last that created or deleted a child."),
    _column("ctime", "timestamp", "The leader's clock at czxid."),
    _column("mtime", "timestamp", "The leader's clock at mzxid."),
    _column("version", "int", "Sets of its data."),
    _column("cversion", "int", "Creates below it. A client is shown 2 * cversion - children."),
    _column("aversion", "int", "Sets of its ACL."),
    _column("owner", "long", "ephemeralOwner as it is stored: a session, 0, or the mark of kind."),
    _column("kind", "string", "persistent, session, container or ttl, by owner."),
    _column("data_length", "int", "Bytes of data; 0 for null."),
    _column("file", "string", "The file as it was named to the reader."),
)

OP_NAMES: dict[int, str] = {
    TransactionType.CLOSE_SESSION: "closeSession",
    TransactionType.CREATE_SESSION: "createSession",
    TransactionType.ERROR: "error",
    TransactionType.SET_ACL: "setACL",
    TransactionType.CHECK: "check",
    **dict.fromkeys(CREATES, "create"),
    **dict.fromkeys(DELETES, "delete"),
    **dict.fromkeys(SETS, "set"),
}
"""The values of the column `op`, by type."""


class LeftOutWrites(NamedTuple):
    """Writes to which the kernel gives no rows: sets, and creates of znodes that last, which were applied.

    Of a batch all rows stay of the last record, of the latest one, and of the first one of each session; and
    of all records of sessions that are found behind the first 1,024. So whatever is left out, the rows tell
    where the batch begins and ends and which sessions wrote in it; `Batch.records` tells the rest.
    """

    front: str
    """Paths begin with it; one name follows,"""
    behind: str
    """and then this, from a slash on."""
    but: str | None = None
    """Paths that begin with it stay."""


def select(
    table: tuple[Column, ...], names: Iterable[str] | None, *, data: bool = True
) -> tuple[Column, ...]:
    """The columns of these names in this order, or all; without `data` where that is not wanted.

    Raises ValueError naming what the table does not have.
    """
    known = {column.name: column for column in table}
    wanted = list(known) if names is None else list(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(f"no column {', '.join(unknown)}: there are {', '.join(known)}")
    return tuple(known[name] for name in wanted if data or name != "data")
