"""Some rows of a table as Arrow arrays, made of numpy's or of Python's values. Needs numpy and pyarrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zkgroup.zkfiles.records import Acl, AclEntry
from zkgroup.zkfiles.schemas import Column, ColumnType

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
"""The types of a Batch."""
_LAST_MS: Final = (2**63 - 1) // 1000
"""The last millisecond that fits a timestamp; a file can hold more than that, a clock cannot."""


class Records(NamedTuple):
    """The records of a batch of which rows are left out, those that have rows: numpy arrays."""

    rows: int
    """Of all of them, those that are left out included."""
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
    """None where no row is left out."""
    is_plain: bool = False
    """True if the kernel made it: paths are ASCII and begin with a slash, and no record is of a rare kind."""

    @property
    def rows(self) -> int:
        return len(self.arrays[self.columns[0].name])

    def __getitem__(self, name: str) -> list[Any]:
        """Plain values: numbers are int, `binary` is bytes, `acl` a tuple of AclEntry, null is None."""
        array = self.arrays[name]
        if name == "acl":
            acls = acls_of(array)
            return [acls[code] for code in array.indices.to_pylist()]
        values: list[Any] = array.to_pylist()
        return values


def batch_of_lists(columns: Sequence[Column], lists: Mapping[str, Sequence[Any]]) -> Batch:
    """A batch of plain values, as `Batch.__getitem__` gives them."""
    return Batch(tuple(columns), {each.name: of_values(lists[each.name], each.type) for each in columns})


def of_values(values: Sequence[Any], type_: ColumnType) -> Any:
    """An array of Python's values."""
    if type_ != "acl":
        return pa.array(values, _STORED[type_])
    # By identity: readers give one object for what is the same many times, and hashing it costs more.
    different = {id(acl): acl for acl in values}
    places = {number: code for code, number in enumerate(different)}
    return coded(np.array([places[id(acl)] for acl in values], np.int32), list(different.values()), type_)


def numbers(values: Any, type_: ColumnType, present: Any = None) -> Any:
    """An array of a numpy array of the type's width; a boolean has one byte.

    `present` has one byte for each row, 0 for null; None where no row is null.
    """
    if type_ == "boolean":
        return pa.Array.from_buffers(pa.uint8(), len(values), [None, pa.py_buffer(values)]).cast(pa.bool_())
    return pa.Array.from_buffers(_STORED[type_], len(values), [_bits(present), pa.py_buffer(values)])


def pieces(raw: bytes, bounds: Any, type_: ColumnType, present: Any = None) -> Any:
    """An array of pieces of one buffer, in its order and apart from each other; texts are UTF-8.

    `bounds` are 32-bit numbers: start and end of the first piece, of the second, and so on.
    """
    # These are offsets of an array that has the pieces in its even places, the rest in the odd.
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
    """An array that has one value in all rows."""
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
    """A bitmap of bytes that are 0 or 1."""
    return None if present is None else numbers(present, "boolean").buffers()[1]
