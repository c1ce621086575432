"""Some rows of a table as columns: in plain lists, or packed as numpy and Arrow lay values out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from zkgroup.zkfiles.schemas import Column


class FixedWidth(NamedTuple):
    """Numbers of the column's width in the machine's byte order; a boolean is one byte."""

    values: Any
    """A numpy array."""
    present: Any = None
    """One byte for each row, 0 for null; None where no row is null."""


class Slices(NamedTuple):
    """Pieces of one buffer, in its order and apart from each other; texts are UTF-8."""

    raw: bytes
    bounds: Any
    """32-bit numbers: start and end of the first piece, of the second, and so on."""
    present: Any = None


class Coded(NamedTuple):
    """Few different values."""

    codes: Any
    """32-bit numbers, places in `values`."""
    values: tuple[Any, ...]
    """None stands for null."""


class Same(NamedTuple):
    """One value in all rows."""

    value: Any


Packed = FixedWidth | Slices | Coded | Same


class Records(NamedTuple):
    """Holds what a batch of which rows are left out says of each record that has rows: lists or numpy
    arrays."""

    rows: int
    """Of all of them, those that are left out included."""
    zxid: Any
    session: Any
    time_ms: Any
    type: Any


class Batch(Mapping[str, Sequence[Any]]):
    """Columns of equal length: names and, for each, a list of plain values, one for each row.

    Numbers are int, `binary` is bytes, `timestamp` the milliseconds since 1970, `acl` a tuple of AclEntry,
    null is None.
    """

    def __init__(
        self,
        columns: tuple[Column, ...],
        rows: int,
        lists: Mapping[str, Sequence[Any] | Same],
        records: Records | None = None,
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.records = records
        """None where no row is left out."""
        self._lists = dict(lists)

    def __iter__(self) -> Iterator[str]:
        return (column.name for column in self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> Sequence[Any]:
        values = self._lists[name]
        return [values.value] * self.rows if isinstance(values, Same) else values

    def packed(self, name: str) -> Packed | None:
        """The column as it lies packed; None where it is a list."""
        values = self._lists[name]
        return values if isinstance(values, Same) else None


class PackedBatch(Batch):
    """Columns as they lie packed; a list is made of one when it is asked for, and each time."""

    def __init__(
        self,
        columns: tuple[Column, ...],
        rows: int,
        packed: Mapping[str, Packed],
        records: Records | None = None,
    ) -> None:
        super().__init__(columns, rows, {}, records)
        self._packed = dict(packed)

    def packed(self, name: str) -> Packed:
        return self._packed[name]

    def __getitem__(self, name: str) -> Sequence[Any]:
        packed = self._packed[name]
        if isinstance(packed, Same):
            return [packed.value] * self.rows
        if isinstance(packed, Coded):
            return [packed.values[code] for code in packed.codes.tolist()]
        values: list[Any] = (
            packed.values.tolist() if isinstance(packed, FixedWidth) else self._pieces(name, packed)
        )
        if packed.present is None:
            return values
        return [value if is_there else None for value, is_there in zip(values, packed.present, strict=True)]

    def _pieces(self, name: str, packed: Slices) -> list[Any]:
        is_text = any(column.type == "string" for column in self.columns if column.name == name)
        bounds = packed.bounds.tolist()
        pieces = [packed.raw[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True)]
        return list(map(bytes.decode, pieces)) if is_text else pieces
