"""Input and output of the demos: flight records, the lines that members write, and the expected result."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from zkgroup.demo.processes import print_event

TOPIC = "flights"
PARTITIONS = 12
FLIGHTS_MIN = 100
PROGRESS_EVERY_S = 0.2


@dataclass(frozen=True, slots=True, order=True)
class AirportDelay:
    """Flights from one airport: how many, and their delays together, in minutes."""

    airport: str
    flights: int
    delay_sum: int

    @property
    def mean(self) -> float:
        """Mean delay in minutes; negative means early."""
        return self.delay_sum / self.flights


def bundled_lines() -> list[bytes]:
    """The records that come with the package, one JSON object each, in their order."""
    packed = files("zkgroup.demo").joinpath("data/flights.jsonl.gz").read_bytes()
    return gzip.decompress(packed).splitlines()


def airport_and_delay(line: bytes) -> tuple[str, int]:
    """The two fields that the demo computes with: origin and delay in minutes."""
    record = json.loads(line)
    return record["origin"], record["delay"]


def partition_of(airport: str, partitions: int = PARTITIONS) -> int:
    """All flights of an airport go to one partition: crc32 of its code."""
    return crc32(airport.encode("ascii")) % partitions


def write_topic(folder: Path) -> list[list[bytes]]:
    """Writes the bundled records to `<folder>/<topic>/<partition>.jsonl`, as `FileSource` reads them.

    Returns the lines of each partition, in their order; a line's index is its offset.
    """
    partitions: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for line in bundled_lines():
        partitions[partition_of(airport_and_delay(line)[0])].append(line)
    (folder / TOPIC).mkdir(parents=True)
    for number, lines in enumerate(partitions):
        (folder / TOPIC / f"{number}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    return partitions


def delays(pairs: Iterable[tuple[str, int]]) -> Mapping[str, AirportDelay]:
    """Flights and delays of each airport, from (airport, delay) pairs."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for airport, delay in pairs:
        found[airport].append(delay)
    return {name: AirportDelay(name, len(own), sum(own)) for name, own in sorted(found.items())}


def slowest(airports: Mapping[str, AirportDelay], count: int) -> list[AirportDelay]:
    """The airports with the greatest mean delay, among those with at least `FLIGHTS_MIN` flights."""
    counted = [one for one in airports.values() if one.flights >= FLIGHTS_MIN]
    return sorted(counted, key=lambda one: (-one.mean, one.airport))[:count]


class Processed(NamedTuple):
    """One record as a member processed it; `token` is the fencing token of the ownership it had."""

    partition: int
    offset: int
    airport: str
    delay: int
    token: int


@dataclass(frozen=True, slots=True)
class Reduction:
    """All files together, each record counted once."""

    processed: frozenset[tuple[int, int]]
    """Every (partition, offset) that some member processed."""
    repeated: Mapping[tuple[int, int], int]
    """Those processed more than once, with how often."""
    repeated_by: Mapping[str, int]
    """Member to the number of its records that were processed again, without the partitions in `moved`."""
    contradictions: tuple[tuple[int, int], ...]
    """Records that two lines describe differently; a correct run has none."""
    airports: Mapping[str, AirportDelay]

    @property
    def records(self) -> int:
        """Number of records that were processed."""
        return len(self.processed)

    @property
    def twice(self) -> int:
        """Number of these that were processed more than once."""
        return len(self.repeated)


class ProcessedFile:
    """The file to which a member writes one line for each record, in one write; it prints its progress."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._count = 0
        self._printed_s = 0.0

    def write(self, partition: int, offset: int, value: bytes, token: int) -> None:
        record = Processed(partition, offset, *airport_and_delay(value), token)
        os.write(self._file, json.dumps(record._asdict(), separators=(",", ":")).encode() + b"\n")
        self._count += 1
        if time.monotonic() - self._printed_s > PROGRESS_EVERY_S:
            self.report()

    def report(self) -> None:
        self._printed_s = time.monotonic()
        print_event("progress", processed=self._count)


def decode_lines(data: bytes) -> list[Processed]:
    """The records of a member's file; a last line that a SIGKILL cut off counts as not processed.

    Raises ValueError for any other line that is no record.
    """
    return [Processed(**json.loads(line)) for line in data.split(b"\n")[:-1]]


def reduce(outputs: Mapping[str, Iterable[Processed]], moved: Collection[int] = ()) -> Reduction:
    """Mean delay per airport over distinct (partition, offset), and what was processed twice.

    Of two lines for one record that with the greater token counts: its writer owned the partition later. The
    lines have to agree on everything but the token. In the partitions of `moved` a foreign writer has changed
    the offset, so no member is responsible for a repetition.
    """
    lines: defaultdict[tuple[int, int], list[tuple[Processed, str]]] = defaultdict(list)
    for member, records in outputs.items():
        for record in records:
            lines[record.partition, record.offset].append((record, member))
    repeated_by: Counter[str] = Counter()
    for (partition, _), own in lines.items():
        own.sort(key=lambda one: one[0].token)
        if partition not in moved:
            repeated_by.update(member for _, member in own[:-1])
    return Reduction(
        processed=frozenset(lines),
        repeated={place: len(own) for place, own in sorted(lines.items()) if len(own) > 1},
        repeated_by=dict(sorted(repeated_by.items())),
        contradictions=tuple(
            place for place, own in lines.items() if len({record[:4] for record, _ in own}) > 1
        ),
        airports=delays((own[-1][0].airport, own[-1][0].delay) for own in lines.values()),
    )
