"""Batches as Arrow record batches, with the types of `schemas`. The only module here that imports pyarrow.

Needs pyarrow (the extra `audit`): importing it raises ImportError without.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from zkgroup.zkfiles.batches import Batch, Coded, FixedWidth, Same, Slices
from zkgroup.zkfiles.schemas import Column, ColumnType

_TYPES: Final[dict[ColumnType, Any]] = {
    "long": pa.int64(),
    "int": pa.int32(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "acl": pa.list_(
        pa.field(
            "element",
            pa.struct(
                [
                    pa.field("perms", pa.int32(), nullable=False),
                    pa.field("scheme", pa.string(), nullable=False),
                    pa.field("id", pa.string(), nullable=False),
                ]
            ),
            nullable=False,
        )
    ),
}
_LAST_MS: Final = (2**63 - 1) // 1000
"""The last millisecond that fits a timestamp; a file can hold more than that, a clock cannot."""


def schema(columns: Sequence[Column]) -> Any:
    """The pyarrow.Schema of these columns."""
    return pa.schema(
        [pa.field(column.name, _TYPES[column.type], nullable=column.nullable) for column in columns]
    )


def record_batch(batch: Batch) -> Any:
    """A batch as a pyarrow.RecordBatch with the types of `schema`, whatever way it was read."""
    arrays = [array_of(batch, column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema(batch.columns))


def array_of(batch: Batch, column: Column) -> Any:
    """One column of a batch as a pyarrow.Array."""
    packed, type_ = batch.packed(column.name), _TYPES[column.type]
    if isinstance(packed, Same):
        return pa.repeat(pa.scalar(packed.value, type_), batch.rows)
    if isinstance(packed, Coded):
        codes = pa.Array.from_buffers(pa.int32(), batch.rows, [None, pa.py_buffer(packed.codes)])
        return _values(packed.values, column.type).take(codes)
    if isinstance(packed, Slices):
        return _pieces(packed, batch.rows, type_)
    if isinstance(packed, FixedWidth):
        return _numbers(packed, batch.rows, column.type)
    return _values(batch[column.name], column.type)


def coded(batches: Sequence[Batch], name: str) -> tuple[Any, list[Any]]:
    """One column of batches as codes, a numpy array, and the list of different values; null is a value."""
    column = next(each for each in batches[0].columns if each.name == name)
    whole = pa.concat_arrays([array_of(batch, column) for batch in batches])
    encoded = whole.dictionary_encode("encode")
    codes = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(encoded))
    return codes, encoded.dictionary.to_pylist()


def _values(values: Sequence[Any], type_: ColumnType) -> Any:
    """Of Python's values."""
    if type_ == "acl":
        # By identity: readers give one object for what is the same many times, and hashing it costs more.
        different = {id(acl): acl for acl in values}
        codes = {number: code for code, number in enumerate(different)}
        entries = [None if acl is None else [entry._asdict() for entry in acl] for acl in different.values()]
        return pa.array(entries, _TYPES[type_]).take(pa.array([codes[id(acl)] for acl in values], pa.int32()))
    if type_ == "timestamp":
        return moments(pa.array(values, pa.int64()))
    return pa.array(values, _TYPES[type_])


def _numbers(packed: FixedWidth, rows: int, type_: ColumnType) -> Any:
    values = pa.py_buffer(packed.values)
    if type_ == "boolean":
        return pa.Array.from_buffers(pa.uint8(), rows, [_bits(packed.present, rows), values]).cast(pa.bool_())
    if type_ == "timestamp":
        return moments(pa.Array.from_buffers(pa.int64(), rows, [None, values]))
    return pa.Array.from_buffers(_TYPES[type_], rows, [_bits(packed.present, rows), values])


def moments(milliseconds: Any) -> Any:
    """Timestamps; milliseconds that do not fit become the last or first that does."""
    try:
        return milliseconds.cast(pa.timestamp("ms", tz="UTC")).cast(_TYPES["timestamp"])
    except pa.ArrowInvalid:
        fitting = [max(-_LAST_MS, min(value, _LAST_MS)) for value in milliseconds.to_pylist()]
        return pa.array(fitting, pa.timestamp("ms", tz="UTC")).cast(_TYPES["timestamp"])


def _pieces(packed: Slices, rows: int, type_: Any) -> Any:
    """The bounds are offsets of an array that has the pieces in its even places, the rest in the odd."""
    buffers = [None, pa.py_buffer(packed.bounds), pa.py_buffer(packed.raw)]
    pieces = pa.Array.from_buffers(type_, 2 * rows - 1, buffers).take(_even(rows))
    if packed.present is None:
        return pieces
    _, offsets, values = pieces.buffers()
    return pa.Array.from_buffers(type_, rows, [_bits(packed.present, rows), offsets, values])


def _even(count: int) -> Any:
    return _evens(1 << (count - 1).bit_length())[:count]


@cache
def _evens(count: int) -> Any:
    """0, 2, 4, and so on; made of a buffer, for `pyarrow.array` imports pandas where it is installed."""
    numbers = np.arange(0, 2 * count, 2, dtype=np.int32)
    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(numbers)])


def _bits(present: Any, rows: int) -> Any:
    """A bitmap of bytes that are 0 or 1."""
    if present is None:
        return None
    return (
        pa.Array.from_buffers(pa.uint8(), rows, [None, pa.py_buffer(present)]).cast(pa.bool_()).buffers()[1]
    )
