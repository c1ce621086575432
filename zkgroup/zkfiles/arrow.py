"""The two tables that ZooKeeper's files are read into, and batches of rows as Arrow arrays. Needs numpy.

One row of `LOG` is one operation of a transaction, one row of `SNAPSHOT` is one znode. Spark and the
documentation take the types and texts of columns from here, too. Arrays are made from numpy's or Python's
values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zkgroup.zkfiles.records import CREATES, DELETES, SETS, Acl, AclEntry, TransactionType

ColumnType = Literal["long", "int", "string", "binary", "boolean", "timestamp", "acl"]
"""`long` and `int` are signed, with 64 and 32 bits. `timestamp` is a moment: in numpy and in Python
milliseconds since 1970 as ZooKeeper has them, in Arrow microseconds in UTC. `acl` is a list of structures of
`perms` (int), `scheme` and `id` (string)."""


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: ColumnType
    nullable: bool
    meaning: str


def must(name: str, type_: ColumnType, meaning: str) -> Column:
    """A column that is never null."""
    return Column(name, type_, False, meaning)


def may(name: str, type_: ColumnType, meaning: str) -> Column:
    """A column that may be null."""
    return Column(name, type_, True, meaning)


LOG: tuple[Column, ...] = (
    must("zxid", "long", "The transaction: epoch of the leader in the upper 32 bits, its count below."),
    must("epoch", "int", "The upper 32 bits of zxid; 0 on a standalone server."),
    must("sub", "int", "Place in its multi or session close, from 0; -1 for what stands alone."),
    must("session", "long", "Who asked for it; 0 for what a server does by itself."),
    must("cxid", "int", "The client's number of the request; 0 where a closeSession is an expiry."),
    must("time", "timestamp", "The leader's clock when it prepared the request; it can step back."),
    must("type", "int", "ZooKeeper's number of the operation; inside a multi the operation's own."),
    may(
        "op",
        "string",
        "create, delete, set, setACL, check, createSession, closeSession or error; null for a type that this "
        "version does not know. An ephemeral that a closeSession lists is a delete of type -11.",
    ),
    may("path", "string", "Null for sessions, and for errors: the log does not say what was refused."),
    may(
        "parent", "string", "The path above; null for the root, where path is, and where a path has no slash."
    ),
    may("data", "binary", "create and set: the znode's bytes after it; null is not empty."),
    may("version", "int", "set and setACL: the version after it. check: the expected one, plus one."),
    may("ephemeral", "string", "create: session, container or ttl; null for a lasting znode."),
    may("ttl_ms", "long", "create of a TTL znode: how long it may stand unused."),
    may("timeout_ms", "int", "createSession: the timeout that was granted."),
    may("error", "int", "error: the code of KeeperException; 0 and -2 in a multi that failed elsewhere."),
    may("parent_cversion", "int", "create: the parent's count of creates after it; null before 3.4."),
    may("acl", "acl", "create and setACL: who may do what."),
    must("applied", "boolean", "False for errors and every row of a multi that failed."),
    may(
        "digest",
        "long",
        "The tree's digest after the whole transaction, its 64 bits taken as signed; null before 3.6, with "
        "digests off, and for errors.",
    ),
    must("file", "string", "The file as it was named to the reader."),
    must("offset", "long", "Bytes from the start of the file to the transaction's record."),
)

SNAPSHOT: tuple[Column, ...] = (
    must("snap_zxid", "long", "From the file's name: everything up to it is inside."),
    may(
        "end_zxid",
        "long",
        "Nothing after it is inside; null where the file does not say: before 3.6, with digests off, and "
        "where a server of 3.6 to 3.8 had applied nothing since it was started.",
    ),
    must("path", "string", "The root is /."),
    may("parent", "string", "The path above; null for the root."),
    must("name", "string", "The last part of path; empty for the root."),
    must("depth", "int", "Parts of path; 0 for the root."),
    may("data", "binary", "The znode's bytes; null is not empty."),
    may("acl", "acl", "Null where the file's table lacks it (ZOOKEEPER-4689)."),
    must("czxid", "long", "The transaction that created it."),
    must("mzxid", "long", "The last that set its data."),
    must("pzxid", "long", "The last that created or deleted a child."),
    must("ctime", "timestamp", "The leader's clock at czxid."),
    must("mtime", "timestamp", "The leader's clock at mzxid."),
    must("version", "int", "Sets of its data."),
    must("cversion", "int", "Creates below it. A client is shown 2 * cversion - children."),
    must("aversion", "int", "Sets of its ACL."),
    must("owner", "long", "ephemeralOwner as it is stored: a session, 0, or the mark of kind."),
    must("kind", "string", "persistent, session, container or ttl, by owner."),
    must("data_length", "int", "Bytes of data; 0 for null."),
    must("file", "string", "The file as it was named to the reader."),
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
"""The values of the column `op`, by type of transaction."""


class LeftOutWrites(NamedTuple):
    """The writes that the kernel leaves out: sets, and creates of persistent znodes, that were applied.

    All rows of some records of a batch stay: the last one, the latest one, the first one of each session, and
    all records of sessions behind the first 1,024. So the rows always show
    the beginning and end of the batch and its sessions; `Batch.records` has the rest.
    """

    front: str
    """The front of the paths that are left out; one name follows it,"""
    behind: str
    """and then this, which begins with a slash."""
    but: str | None = None
    """The front of paths that stay."""


def select(
    table: tuple[Column, ...], names: Iterable[str] | None, *, data: bool = True
) -> tuple[Column, ...]:
    """The columns of these names in this order, or all; `data` is left out where it is not wanted.

    Raises ValueError with the names that the table does not have.
    """
    known = {column.name: column for column in table}
    wanted = list(known) if names is None else list(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(f"no column {', '.join(unknown)}: there are {', '.join(known)}")
    return tuple(known[name] for name in wanted if data or name != "data")


Numbers = NDArray[Any]
Flags = NDArray[np.bool_]

_ACL_ENTRY: Final = {"perms": pa.int32(), "scheme": pa.string(), "id": pa.string()}
_ACL_FIELDS: Final = [pa.field(name, type_, nullable=False) for name, type_ in _ACL_ENTRY.items()]
_TYPES: Final[dict[ColumnType, Any]] = {
    "long": pa.int64(),
    "int": pa.int32(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "acl": pa.list_(pa.field("element", pa.struct(_ACL_FIELDS), nullable=False)),
}
_STORED: Final = _TYPES | {"timestamp": pa.int64()}
_LAST_MS: Final = (2**63 - 1) // 1000
"""The last millisecond that fits a timestamp; a file can hold later ones, a clock cannot."""


class Records(NamedTuple):
    """The records of a batch with rows that are left out, as numpy arrays."""

    rows: int
    """The number of all rows, with those that are left out."""
    zxid: Any
    session: Any
    time_ms: Any
    type: Any


@dataclass(frozen=True, slots=True)
class Batch:
    """Columns of equal length, at least one row long.

    `arrays` has a pyarrow.Array for each: a dictionary of few different values, or of the type of the schema,
    with milliseconds since 1970 for a timestamp.
    """

    columns: tuple[Column, ...]
    arrays: Mapping[str, Any]
    records: Records | None = None
    """The records; None where no row is left out."""
    is_plain: bool = False
    """True if the kernel made it: paths are ASCII and begin with a slash, and no record is of a rare kind."""

    @property
    def rows(self) -> int:
        return len(self.arrays[self.columns[0].name])


def batch_of_lists(columns: Sequence[Column], lists: Mapping[str, Sequence[Any]]) -> Batch:
    """A batch of plain values: numbers are int, `binary` bytes, `acl` a tuple of AclEntry, null None."""
    return Batch(tuple(columns), {each.name: of_values(lists[each.name], each.type) for each in columns})


def of_values(values: Sequence[Any], type_: ColumnType) -> Any:
    """An array of Python's values."""
    if type_ != "acl":
        return pa.array(values, _STORED[type_])
    # By identity: readers give one object for equal values, and hashing them would cost more.
    different = {id(acl): acl for acl in values}
    places = {number: code for code, number in enumerate(different)}
    return coded(np.array([places[id(acl)] for acl in values], np.int32), list(different.values()), type_)


def numbers(values: Any, type_: ColumnType, present: Any = None) -> Any:
    """An array from a numpy array of the type's width; a boolean has one byte.

    `present` has one byte for each row, 0 for null; None where no row is null.
    """
    if type_ == "boolean":
        return pa.Array.from_buffers(pa.uint8(), len(values), [None, pa.py_buffer(values)]).cast(pa.bool_())
    return pa.Array.from_buffers(_STORED[type_], len(values), [_bits(present), pa.py_buffer(values)])


def slices(raw: bytes, bounds: Any, type_: ColumnType, present: Any = None) -> Any:
    """An array of slices of one buffer, in its order and without overlaps; texts are UTF-8.

    `bounds` are 32-bit numbers: start and end of the first slice, of the second, and so on.
    """
    # These are offsets of an array that has the slices in its even places, the rest in the odd.
    count, buffers = len(bounds) // 2, [None, pa.py_buffer(bounds), pa.py_buffer(raw)]
    even = numbers(np.arange(0, 2 * count, 2, dtype=np.int32), "int")
    found = pa.Array.from_buffers(_TYPES[type_], 2 * count - 1, buffers).take(even)
    if present is None:
        return found
    _, offsets, values = found.buffers()
    return pa.Array.from_buffers(_TYPES[type_], count, [_bits(present), offsets, values])


def coded(codes: Any, values: Sequence[Any], type_: ColumnType) -> Any:
    """An array of few different values: `codes` are 32-bit numbers, places in `values`."""
    if type_ == "acl":
        values = [None if acl is None else [entry._asdict() for entry in acl] for acl in values]
    indices = pa.Array.from_buffers(pa.int32(), len(codes), [None, pa.py_buffer(codes)])
    return pa.DictionaryArray.from_arrays(indices, pa.array(values, _TYPES[type_]))


def same(value: Any, type_: ColumnType, rows: int) -> Any:
    """An array with one value in all rows."""
    return pa.repeat(pa.scalar(value, _STORED[type_]), rows)


def acls_of(array: Any) -> list[Acl | None]:
    """The different values of a column of ACLs."""
    return [
        None if entries is None else tuple(AclEntry(**entry) for entry in entries)
        for entries in array.dictionary.to_pylist()
    ]


def schema(columns: Sequence[Column]) -> Any:
    """The pyarrow.Schema of these columns."""
    return pa.schema(
        [pa.field(column.name, _TYPES[column.type], nullable=column.nullable) for column in columns]
    )


def record_batch(batch: Batch) -> Any:
    """A batch as a pyarrow.RecordBatch with the types of `schema`."""
    arrays = []
    for column in batch.columns:
        array = batch.arrays[column.name]
        if pa.types.is_dictionary(array.type):
            array = array.dictionary.take(array.indices)
        arrays.append(moments(array) if column.type == "timestamp" else array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema(batch.columns))


def moments(milliseconds: Any) -> Any:
    """Timestamps; milliseconds that do not fit become the last or first that does."""
    try:
        return milliseconds.cast(pa.timestamp("ms", tz="UTC")).cast(_TYPES["timestamp"])
    except pa.ArrowInvalid:
        fitting = [max(-_LAST_MS, min(value, _LAST_MS)) for value in milliseconds.to_pylist()]
        return pa.array(fitting, pa.timestamp("ms", tz="UTC")).cast(_TYPES["timestamp"])


def _bits(present: Any) -> Any:
    return None if present is None else numbers(present, "boolean").buffers()[1]
