"""Rows of the audit (`zkgroup.audit.events`) as Spark's and Arrow's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
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
ACLS_KEPT: Final = 4_096
"""Texts of ACLs whose meaning is kept; a tree has few different ones."""

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
    "acl": ("string", True),
    "mtime_ms": ("long", True),
}
EVENT_COLUMNS: Final[tuple[Column, ...]] = tuple(
    Column(name, *_TYPES[name], "As `zkgroup.audit.events.Event` has it.") for name in Event._fields
)
ENSEMBLE: Final = Column("ensemble", "string", False, "The name that the ensemble was given.")
EVENTS: Final[StructType] = struct_of((*EVENT_COLUMNS, ENSEMBLE))
"""The fields of an Event, and whose it is.

An ACL is text here, `[{"perms":31,"scheme":"world","id":"anyone"}]`, as Spark's `to_json` writes it:
before each row that Python gets, Spark adds up the bytes of the batch, and a nested column costs more of
that than all others together.
"""

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
    data = event.data
    return event._replace(data=None if data is None else bytes(data), acl=_acl_of(event.acl))


def batch_of(events: Sequence[Event], ensemble: str) -> Any:
    """Rows as a pyarrow.RecordBatch of EVENTS."""
    columns = [list(column) for column in zip(*events, strict=True)]
    columns[_ACL_AT] = [None if acl is None else _text_of(acl) for acl in columns[_ACL_AT]]
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
    values: list[Any] = array.to_pylist()
    return list(map(_acl_of, values)) if name == "acl" else values


@lru_cache(maxsize=ACLS_KEPT)
def _acl_of(text: str | None) -> Acl | None:
    """The same text many times is one object."""
    return None if text is None else tuple(AclEntry(**entry) for entry in json.loads(text))


@lru_cache(maxsize=ACLS_KEPT)
def _text_of(acl: Acl) -> str:
    return json.dumps([entry._asdict() for entry in acl], ensure_ascii=False, separators=(",", ":"))
