"""The demo's input: flights, dealt to partitions, and what the answer has to be. Pure but for the reads."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from zlib import crc32

TOPIC = "flights"
PARTITIONS = 12


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


def deal(lines: Iterable[bytes], partitions: int = PARTITIONS) -> tuple[tuple[bytes, ...], ...]:
    """The lines of each partition, in their order; a line's place is its offset."""
    dealt: list[list[bytes]] = [[] for _ in range(partitions)]
    for line in lines:
        dealt[partition_of(airport_and_delay(line)[0], partitions)].append(line)
    return tuple(tuple(one) for one in dealt)


def write_topic(folder: Path, dealt: Sequence[Sequence[bytes]], topic: str = TOPIC) -> None:
    """Writes `<folder>/<topic>/<partition>.jsonl`, as `FileSource` reads it."""
    (folder / topic).mkdir(parents=True, exist_ok=True)
    for partition, lines in enumerate(dealt):
        (folder / topic / f"{partition}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


def delays(pairs: Iterable[tuple[str, int]]) -> Mapping[str, AirportDelay]:
    """Flights and delays of each airport, from (airport, delay) pairs."""
    flights: dict[str, int] = {}
    sums: dict[str, int] = {}
    for airport, delay in pairs:
        flights[airport] = flights.get(airport, 0) + 1
        sums[airport] = sums.get(airport, 0) + delay
    return {name: AirportDelay(name, flights[name], sums[name]) for name in sorted(flights)}
