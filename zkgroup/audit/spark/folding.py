"""Facts and findings over rows in Spark: each key's rows are brought together and sorted.

The rules are those of the laptop (`zkgroup.audit.engine`), with the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from zkgroup.audit.events import Event
from zkgroup.audit.fact_builder import FactBuilder, is_fact
from zkgroup.audit.facts import Facts
from zkgroup.audit.findings import RULES
from zkgroup.audit.key_rows import KeyRows
from zkgroup.audit.keys import Key, Keys
from zkgroup.audit.rules import Bounds, Finding
from zkgroup.audit.spark.rows import (
    ENSEMBLE,
    EVENT_COLUMNS,
    EVENTS,
    ROWS_PER_BATCH,
    batch_of,
    event_of,
    events_in,
)
from zkgroup.zkfiles.arrow import schema

IN_ORDER: Final = ("zxid", "sub", "path", "session")
"""By zxid and place; seeds, which have no place, by path."""
_BETWEEN: Final = "\0"
"""Between the parts of a key; no path has it."""

_KEYED: Final = StructType([StructField("keys", StringType()), StructField("key", StringType()), *EVENTS])
_FINDING_TYPES: Final = {"partition": IntegerType(), "session": LongType()} | {
    name: LongType() for name in ("from_zxid", "to_zxid", "from_ms", "to_ms")
}
FINDINGS: Final = StructType(
    [StructField("ensemble", StringType())]
    + [StructField(each.name, _FINDING_TYPES.get(each.name, StringType())) for each in fields(Finding)]
)
"""The fields of a Finding, behind the name of the ensemble."""
_FINDING_NAMES: Final = tuple(each.name for each in fields(Finding))
_FINDINGS_ARROW: Final = pa.schema(
    [
        pa.field(
            each.name, {LongType(): pa.int64(), IntegerType(): pa.int32()}.get(each.dataType, pa.string())
        )
        for each in FINDINGS
    ]
)

_KEPT_ROWS: Final = 100_000
"""Rows of one key that are kept as objects, some 50 MB."""

Asked = Mapping[str, tuple[Facts, Mapping[str, Bounds], frozenset[str]]]
"""By ensemble: the facts, the bounds of each rule, and the names of the rules to ask."""


def facts_by_ensemble(events: DataFrame) -> dict[str, Facts]:
    """The facts of each ensemble, from the few rows that make them."""
    builders: dict[str, FactBuilder] = {}
    rows = events.mapInArrow(_facts_only, EVENTS).collect()
    for row in sorted(rows, key=attrgetter("ensemble", *IN_ORDER)):
        builders.setdefault(row.ensemble, FactBuilder()).see(event_of(row))
    return {ensemble: builder.facts() for ensemble, builder in builders.items()}


def _facts_only(batches: Iterable[Any]) -> Iterator[Any]:
    """What changes facts, each session's first row of a task, and the ends of the history."""
    picks: dict[str, _Ends] = {}
    for batch in batches:
        events = events_in(batch)
        chosen: dict[str, list[Event]] = {}
        for event, ensemble in zip(events, batch.column("ensemble").to_pylist(), strict=True):
            ends = picks.get(ensemble)
            if ends is None:
                ends = picks[ensemble] = _Ends()
            ends.see(event)
            if is_fact(event):
                chosen.setdefault(ensemble, []).append(event)
        for ensemble, some in chosen.items():
            yield batch_of(some, ensemble)
    for ensemble, ends in picks.items():
        some = ends.rows()
        if some:
            yield batch_of(some, ensemble)


class _Ends:
    """Rows that are no facts, but say when a history began and ended, and whose sessions it has."""

    def __init__(self) -> None:
        self._first: Event | None = None
        self._last: Event | None = None
        self._latest: Event | None = None
        self._latest_ms = 0
        self._seed: Event | None = None
        self._of_sessions: dict[int, Event] = {}

    def see(self, event: Event) -> None:
        if event.seed:
            self._seed = self._seed or event
        elif self._first is None or event[:2] < self._first[:2]:
            self._first = event
        if self._last is None or event.zxid > self._last.zxid:
            self._last = event
        time_ms = max(event.time_ms, event.mtime_ms or 0)
        if time_ms > self._latest_ms:
            self._latest, self._latest_ms = event, time_ms
        known = self._of_sessions.get(event.session)
        if known is None or event[:2] < known[:2]:
            self._of_sessions[event.session] = event

    def rows(self) -> list[Event]:
        picked = {
            id(event): event
            for event in (self._first, self._last, self._latest, self._seed, *self._of_sessions.values())
            if event is not None and not is_fact(event)
        }
        return [event._replace(data=None, acl=None) for event in picked.values()]


def findings_of(events: DataFrame, asked: Asked) -> DataFrame:
    """Rows of FINDINGS, in no order."""
    spark = events.sparkSession
    known = spark.sparkContext.broadcast(dict(asked))
    names = frozenset(name for _, _, rules in asked.values() for name in rules)
    keyed = events.mapInArrow(_keyed_by(names), _KEYED)
    together = keyed.repartition("ensemble", "keys", "key").sortWithinPartitions(
        "ensemble", "keys", "key", *IN_ORDER
    )
    return together.mapInArrow(lambda batches: _found_in(batches, known.value), FINDINGS)


def _keys_by_name(names: frozenset[str]) -> dict[str, Keys]:
    return {rule.keys.name: rule.keys for rule in RULES if rule.name in names}


def _keyed_by(names: frozenset[str]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Each row as often as there are all_keys that it has a key of."""

    def keyed(batches: Iterable[Any]) -> Iterator[Any]:
        all_keys = [(name, keys.key) for name, keys in _keys_by_name(names).items()]
        for batch in batches:
            events = events_in(batch)
            rows = pa.RecordBatch.from_arrays(
                [batch.column(field.name) for field in EVENTS], names=EVENTS.fieldNames()
            )
            for name, key_of in all_keys:
                keys = [key_of(event) for event in events]
                places = [place for place, key in enumerate(keys) if key is not None]
                if places:
                    some = rows.take(pa.array(places, pa.int32()))
                    texts = [_BETWEEN.join(key) for key in keys if key is not None]
                    yield pa.RecordBatch.from_arrays(
                        [pa.array([name] * len(places)), pa.array(texts), *some.columns],
                        schema=_KEYED_ARROW,
                    )

    return keyed


_KEYED_ARROW: Final = pa.schema(
    [
        pa.field("keys", pa.string()),
        pa.field("key", pa.string()),
        *schema((*EVENT_COLUMNS, ENSEMBLE)),
    ]
)


def _found_in(batches: Iterable[Any], asked: Asked) -> Iterator[Any]:
    """Asks the rules of the rows of a partition, which come key by key."""
    found: list[tuple[str, Finding]] = []
    for (ensemble, keys, text), pieces in _by_key(batches):
        facts, bounds, names = asked[ensemble]
        key: Key = tuple(text.split(_BETWEEN))
        rows = KeyRows(_Pieces(pieces))
        for rule in RULES:
            if rule.keys.name == keys and rule.name in names:
                of_rule = rule.find(rows, key, facts, bounds[rule.name])
                found.extend((ensemble, finding) for finding in of_rule)
        if len(found) >= ROWS_PER_BATCH:
            yield findings_batch(found)
            found = []
    if found:
        yield findings_batch(found)


def _by_key(batches: Iterable[Any]) -> Iterator[tuple[tuple[str, str, str], list[Any]]]:
    """The rows of each key, as pieces of Arrow batches."""
    pieces: list[Any] = []
    current: tuple[str, str, str] | None = None
    for batch in batches:
        places = list(
            zip(*(batch.column(name).to_pylist() for name in ("ensemble", "keys", "key")), strict=True)
        )
        start = 0
        for place, same in groupby(places):
            size = sum(1 for _ in same)
            if place != current:
                if current is not None:
                    yield current, pieces
                current, pieces = place, []
            pieces.append(batch.slice(start, size))
            start += size
    if current is not None:
        yield current, pieces


class _Pieces:
    """The rows of one key: objects where they are few, else made of Arrow again for each rule that asks."""

    def __init__(self, pieces: Sequence[Any]) -> None:
        self._pieces = pieces
        self._events: list[Event] | None = None

    def __iter__(self) -> Iterator[Event]:
        if self._events is None:
            events = (event for piece in self._pieces for event in events_in(piece))
            if sum(piece.num_rows for piece in self._pieces) > _KEPT_ROWS:
                return events
            self._events = list(events)
        return iter(self._events)


def findings_batch(found: Sequence[tuple[str, Finding]]) -> Any:
    """Findings as a pyarrow.RecordBatch of FINDINGS."""
    columns = [[ensemble for ensemble, _ in found]] + [
        [getattr(finding, name) for _, finding in found] for name in _FINDING_NAMES
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _FINDINGS_ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_FINDINGS_ARROW)


def finding_of(row: Any) -> Finding:
    """Of a row that was collected."""
    return Finding(**{name: row[name] for name in _FINDING_NAMES})
