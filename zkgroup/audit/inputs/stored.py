"""Columns from Parquet of `audit run`, and into it: operations as logs have them, and rows of the audit.

Needs numpy and pyarrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zkgroup.audit.inputs.codes import CREATE, LIFETIMES, OPS
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.rows import Columns, ColumnsBuilder, Numbers
from zkgroup.zkfiles.arrow import schema
from zkgroup.zkfiles.records import Acl, AclEntry
from zkgroup.zkfiles.schemas import Column, ColumnType

OPERATION_COLUMNS: Final = (
    *("zxid", "sub", "session", "cxid", "time", "op", "path", "data", "version", "ephemeral"),
    *("timeout_ms", "error", "acl", "applied"),
)
"""Holds what is read of the operations."""
AS_CODES: Final = ("op", "path", "ephemeral")
"""Columns with few different values, which Parquet is to give as codes."""

_TYPES: Final[dict[str, tuple[ColumnType, bool]]] = {
    "zxid": ("long", False),
    "sub": ("int", False),
    "time_ms": ("long", False),
    "session": ("long", False),
    "cxid": ("int", False),
    "op": ("string", False),
    "path": ("string", False),
    "data": ("binary", True),
    "version": ("int", True),
    "ephemeral": ("string", True),
    "timeout_ms": ("int", True),
    "error": ("int", True),
    "applied": ("boolean", False),
    "seed": ("boolean", False),
    "synthetic": ("boolean", False),
    "acl": ("acl", True),
    "mtime_ms": ("long", True),
}
ROWS: Final[tuple[Column, ...]] = tuple(
    Column(name, *_TYPES[name], "As `zkgroup.audit.inputs.events.Event` has it.") for name in Event._fields
)
"""The table of rows of the audit."""
_SCHEMA: Final = schema(ROWS)
_OP_CODES: Final[Mapping[Any, int]] = {op: code for code, op in enumerate(OPS)} | {None: -1}
_LIFETIME_CODES: Final[Mapping[Any, int]] = {lifetime: code for code, lifetime in enumerate(LIFETIMES)}


def columns_of_operations(table: Any) -> Columns:
    """Rows of a table with OPERATION_COLUMNS, in its order. Operations that no version knows are left out."""
    ops = _codes(table["op"], _OP_CODES)
    if (ops < 0).any():
        known = np.flatnonzero(ops >= 0)
        table, ops = table.take(pa.array(known)), ops[known]
    builder = ColumnsBuilder()
    version = _whole(table["version"]).cast(pa.int64())
    builder.add(
        {
            "zxid": _numbers(table["zxid"]),
            "sub": _numbers(table["sub"]),
            "time_ms": _numbers(_whole(table["time"]).cast(pa.int64())) // 1000,
            "session": _numbers(table["session"]),
            "cxid": _numbers(table["cxid"]),
            "op": ops,
            "path": _paths(table["path"]),
            "data": _whole(table["data"]),
            "version": pc.if_else(pa.array(ops == CREATE), pa.scalar(0, pa.int64()), version),
            "ephemeral": _codes(table["ephemeral"], _LIFETIME_CODES),
            "timeout_ms": _whole(table["timeout_ms"]).cast(pa.int64()),
            "error": _whole(table["error"]).cast(pa.int64()),
            "applied": _flags(table["applied"]),
            "seed": np.zeros(len(ops), np.bool_),
            "synthetic": np.zeros(len(ops), np.bool_),
            "acl": _acl_codes(builder, _whole(table["acl"])),
            "mtime_ms": pa.nulls(len(ops), pa.int64()),
        }
    )
    return builder.columns()


def columns_of_rows(table: Any) -> Columns:
    """Rows of a table with the columns of ROWS, in its order."""
    builder = ColumnsBuilder()
    part: dict[str, Any] = {
        name: _numbers(table[name]) for name in ("zxid", "sub", "time_ms", "session", "cxid")
    }
    part |= {name: _flags(table[name]) for name in ("applied", "seed", "synthetic")}
    part |= {
        name: _whole(table[name]).cast(pa.int64()) for name in ("version", "timeout_ms", "error", "mtime_ms")
    }
    part["op"] = _codes(table["op"], _OP_CODES)
    part["ephemeral"] = _codes(table["ephemeral"], _LIFETIME_CODES)
    part["path"], part["data"] = _paths(table["path"]), _whole(table["data"])
    part["acl"] = _acl_codes(builder, _whole(table["acl"]))
    builder.add(part)
    return builder.columns()


def table_of(columns: Columns) -> Any:
    """Rows as a pyarrow.Table with the columns of ROWS."""
    acls = [None if acl is None else [each._asdict() for each in acl] for acl in columns.acls]
    arrays: dict[str, Any] = {
        "op": pa.array(OPS).take(pa.array(columns.op)),
        "path": pa.array(columns.paths, pa.string()).take(pa.array(columns.path)),
        "ephemeral": pa.array(LIFETIMES, pa.string()).take(pa.array(columns.ephemeral)),
        "acl": pa.array(acls, _SCHEMA.field("acl").type).take(pa.array(columns.acl)),
    }
    for field in _SCHEMA:
        if field.name not in arrays:
            column = getattr(columns, field.name)
            arrays[field.name] = pa.array(column) if isinstance(column, np.ndarray) else column
    return pa.Table.from_arrays([arrays[field.name].cast(field.type) for field in _SCHEMA], schema=_SCHEMA)


def joined(parts: Sequence[Columns]) -> Columns:
    """Rows of several parts, one behind the other."""
    if len(parts) == 1:
        return parts[0]
    builder = ColumnsBuilder()
    for part in parts:
        builder.add_columns(part)
    return builder.columns()


def in_order(columns: Columns) -> Columns:
    """The rows by zxid and place."""
    zxid, sub = columns.zxid, columns.sub
    is_later = (zxid[1:] > zxid[:-1]) | ((zxid[1:] == zxid[:-1]) & (sub[1:] >= sub[:-1]))
    return columns if is_later.all() else columns.take(np.lexsort((sub, zxid)))


def _whole(column: Any) -> Any:
    """One array of a chunked one."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        return column.combine_chunks() if column.num_chunks else pa.array([], column.type)
    return column


def _numbers(column: Any) -> Numbers:
    values: Numbers = column.to_numpy().astype(np.int64)
    return values


def _flags(column: Any) -> Numbers:
    values: Numbers = _whole(column).to_numpy(zero_copy_only=False)
    return values.astype(np.bool_)


def _encoded(column: Any) -> Any:
    """A column of texts as one array of codes."""
    if not pa.types.is_dictionary(column.type):
        return _whole(column).dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries()
    return _whole(column)


def _codes(column: Any, codes: Mapping[Any, int]) -> Numbers:
    array = _encoded(column)
    values = array.dictionary.to_pylist()
    known = np.array([*(codes[value] for value in values), codes.get(None, -1)], np.int8)
    found: Numbers = known[pc.fill_null(array.indices, len(values)).to_numpy(zero_copy_only=False)]
    return found


def _paths(column: Any) -> Any:
    """Codes of paths; a row without a path has the empty one."""
    array = _encoded(column)
    if not array.null_count:
        names = array.dictionary.cast(pa.string())
        return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int32()), names)
    values = array.dictionary.cast(pa.string()).to_pylist()
    empty = values.index("") if "" in values else len(values)
    names = values if empty < len(values) else [*values, ""]
    indices = pc.fill_null(array.indices.cast(pa.int32()), pa.scalar(empty, pa.int32()))
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))


def _acl_codes(builder: ColumnsBuilder, column: Any) -> Numbers:
    """Most rows have no ACL, and the others the same few."""
    codes: Numbers = np.zeros(len(column), np.int32)
    places = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    if not len(places):
        return codes
    given = column.take(pa.array(places))
    sizes = pc.list_value_length(given).to_numpy(zero_copy_only=False)
    entries = given.flatten()
    known, of_entry = _entries(entries)
    first = np.cumsum(sizes) - sizes
    single = sizes == 1
    codes[places[single]] = builder.acl_codes([(entry,) for entry in known])[of_entry[first[single]]]
    for place, start, size in zip(
        places[~single].tolist(), first[~single].tolist(), sizes[~single].tolist(), strict=True
    ):
        acl: Acl = tuple(known[code] for code in of_entry[start : start + size].tolist())
        codes[place] = builder.acl_codes([acl])[0]
    return codes


def _entries(entries: Any) -> tuple[list[AclEntry], Numbers]:
    """The different entries of lists, and the code of each."""
    fields = [_encoded(entries.field(name)) for name in ("perms", "scheme", "id")]
    perms, schemes, ids = (field.dictionary.to_pylist() for field in fields)
    perm, scheme, id_ = (field.indices.to_numpy().astype(np.int64) for field in fields)
    codes = pa.array((perm * len(schemes) + scheme) * len(ids) + id_).dictionary_encode()
    known = []
    for code in codes.dictionary.to_pylist():
        rest, of_id = divmod(code, len(ids))
        of_perms, of_scheme = divmod(rest, len(schemes))
        known.append(AclEntry(perms[of_perms], schemes[of_scheme], ids[of_id]))
    return known, codes.indices.to_numpy()
