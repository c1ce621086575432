"""A source with records for tests of consumers, and the positions of delivered records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.waiting import eventually
from zkgroup.sources.memory import MemorySource
from zkgroup.sources.port import Record

Places = list[tuple[int, int]]


def filled(each: int, partitions: Iterable[int] = range(4)) -> MemorySource:
    source = MemorySource()
    for partition in partitions:
        for number in range(each):
            source.append("orders", partition, b"%d" % number)
    return source


def places(records: Iterable[Record]) -> Places:
    return sorted((record.partition, record.offset) for record in records)


def every(each: int, partitions: Iterable[int] = range(4)) -> Places:
    return [(partition, offset) for partition in partitions for offset in range(each)]


def polled(consumer: Any, count: int) -> list[Record]:
    """Polls until `count` records have come."""
    came: list[Record] = []

    def enough() -> bool:
        for records in consumer.poll(timeout_s=0.2).values():
            came.extend(records)
        return len(came) >= count

    eventually(enough, what=lambda: f"{len(came)} of {count}")
    return came
