"""Rows of the audit (`zkgroup.audit.events`) as Spark's and Arrow's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from zkgroup.audit.events import Event
from zkgroup.audit.reading import events_of
from zkgroup.audit.spark.schemas import struct_of
from zkgroup.zkfiles.arrow import schema
from zkgroup.zkfiles.records import Acl, AclEntry
from zkgroup.zkfiles.schemas import Column, ColumnType
from zkgroup.zkfiles.tree import Tree

ROWS_PER_TABLE: Final = 100_000
ROWS_PER_BATCH: Final = 16_384

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
EVENT_COLUMNS: Final[tuple[Column, ...]] = tuple(
    Column(name, *_TYPES[name], "As `zkgroup.audit.events.Event` has it.") for name in Event._fields
)
ENSEMBLE: Final = Column("ensemble", "string", False, "The name that the ensemble was given.")
EVENTS: Final[StructType] = struct_of((*EVENT_COLUMNS, ENSEMBLE))
"""The fields of an Event, and whose it is."""

_NAMES: Final = Event._fields
_ACL_AT: Final = _NAMES.index("acl")
_SCHEMA: Final = schema((*EVENT_COLUMNS, ENSEMBLE))


def events_in(batch: Any) -> list[Event]:
    """The rows of a pyarrow.RecordBatch that has the columns of Event, in any place."""
    columns = [_values(batch.column(name), name) for name in _NAMES]
    return list(map(Event._make, zip(*columns, strict=True)))


def event_of(row: Any) -> Event:
    """Of a row that was collected."""
    event = Event._make(row[name] for name in _NAMES)
    data, acl = event.data, event.acl
    return event._replace(
        data=None if data is None else bytes(data),
        acl=None if acl is None else tuple(AclEntry(*each) for each in acl),
    )


def batch_of(events: Sequence[Event], ensemble: str) -> Any:
    """Rows as a pyarrow.RecordBatch of EVENTS."""
    columns = [list(column) for column in zip(*events, strict=True)]
    columns[_ACL_AT] = [
        None if acl is None else [entry._asdict() for entry in acl] for acl in columns[_ACL_AT]
    ]
    columns.append([ensemble] * len(events))
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def seed_tables(tree: Tree, ensemble: str) -> Iterator[Any]:
    """What a history begins with, as pyarrow.Tables of EVENTS."""
    stored = (one for path in tree.paths() if (one := tree.stored(path)) is not None)
    seeds = events_of((), stored, "", tree.sessions)
    while some := list(islice(seeds, ROWS_PER_TABLE)):
        yield pa.Table.from_batches([batch_of(some, ensemble)])


def _values(array: Any, name: str) -> list[Any]:
    if name != "acl":
        values: list[Any] = array.to_pylist()
        return values
    if array.null_count == len(array):
        return [None] * len(array)
    return list(_acls(array))


def _acls(array: Any) -> Iterator[Acl | None]:
    """Of a pyarrow.ListArray; its entries are read by columns. The same ACL many times is one object."""
    fields = (array.values.field(name).to_pylist() for name in AclEntry._fields)
    entries = list(map(AclEntry._make, zip(*fields, strict=True)))
    known: dict[Acl, Acl] = {}
    bounds = array.offsets.to_pylist()
    for is_there, begin, end in zip(array.is_valid().to_pylist(), bounds, bounds[1:], strict=False):
        if is_there:
            acl = tuple(entries[begin:end])
            yield known.setdefault(acl, acl)
        else:
            yield None
