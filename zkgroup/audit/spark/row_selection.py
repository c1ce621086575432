"""A part of a history in Spark: the rows from one zxid to another, behind what stood before them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, StructField, StructType

from zkgroup.audit import state_at
from zkgroup.audit.events import Event
from zkgroup.audit.groups import of_group
from zkgroup.audit.spark.folding import IN_ORDER
from zkgroup.audit.spark.rows import EVENTS, ROWS_PER_BATCH, batch_of, events_in
from zkgroup.znodes.consumers import consumers_path

_PICKLED: Final = StructType([StructField("rows", BinaryType())])
_PICKLED_ARROW: Final = pa.schema([pa.field("rows", pa.binary())])


def between(events: DataFrame, after_zxid: int | None, to_zxid: int | None) -> DataFrame:
    """The rows up to a zxid; with `after_zxid` what stood then comes as seeds in place of what made it."""
    if to_zxid is not None:
        events = events.where(f.col("seed") | (f.col("zxid") <= to_zxid))
    if after_zxid is None:
        return events
    is_before = f.col("seed") | (f.col("zxid") <= after_zxid)
    key = f.when(f.col("path") == "", f.col("session").cast("string")).otherwise(f.col("path"))
    before = (
        events.where(is_before)
        .withColumn("key", key)
        .repartition("ensemble", "key")
        .sortWithinPartitions("ensemble", "key", *IN_ORDER)
    )
    return events.where(~is_before).unionByName(before.mapInArrow(_standing, EVENTS))


def only_group(events: DataFrame, group: str) -> DataFrame:
    """The rows, without those of other groups."""
    return events.mapInArrow(_filter(group), EVENTS)


def groups_in(events: DataFrame) -> set[str]:
    """The names of all groups that were."""
    is_theirs = f.col("path").startswith(f"{consumers_path()}/")
    names = events.where(is_theirs).select(f.split("path", "/")[2].alias("group")).distinct()
    return {row.group for row in names.collect()}


def in_order(events: DataFrame) -> Iterator[Event]:
    """The rows of one ensemble on the driver, by zxid and place. Memory: some tasks' results."""
    rows = events.orderBy(*IN_ORDER).mapInArrow(_pickled, _PICKLED)
    for row in rows.toLocalIterator():
        yield from map(Event._make, pickle.loads(row.rows))  # noqa: S301 - of our own workers


def _standing(batches: Iterable[Any]) -> Iterator[Any]:
    """The seeds that the rows of a partition, which come key by key, leave behind."""
    place: tuple[str, str] | None = None
    seed: Event | None = None
    found: list[tuple[str, Event]] = []
    for batch in batches:
        places = zip(batch.column("ensemble").to_pylist(), batch.column("key").to_pylist(), strict=True)
        for here, event in zip(places, events_in(batch), strict=True):
            if here != place:
                found += _left(place, seed)
                place, seed = here, None
            if state_at.key_of(event) is not None:
                seed = state_at.after(seed, event)
        if len(found) >= ROWS_PER_BATCH:
            yield from _of_ensembles(found)
            found = []
    found += _left(place, seed)
    yield from _of_ensembles(found)


def _left(place: tuple[str, str] | None, seed: Event | None) -> list[tuple[str, Event]]:
    return [] if place is None or seed is None else [(place[0], seed)]


def _of_ensembles(found: list[tuple[str, Event]]) -> Iterator[Any]:
    for name in dict.fromkeys(name for name, _ in found):
        yield batch_of([event for of, event in found if of == name], name)


def _filter(group: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def kept(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            events = events_in(batch)
            wanted = {id(event) for event in of_group(events, group)}
            places = [place for place, event in enumerate(events) if id(event) in wanted]
            if places:
                yield batch.take(pa.array(places, pa.int32()))

    return kept


def _pickled(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        rows = pickle.dumps([tuple(event) for event in events_in(batch)])
        yield pa.RecordBatch.from_arrays([pa.array([rows], pa.binary())], schema=_PICKLED_ARROW)
