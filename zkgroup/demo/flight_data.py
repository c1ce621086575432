"""Input and output of the demos: flight records, the lines that members write, and the result of these."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

TOPIC = "flights"
PARTITIONS = 12
FLIGHTS_MIN = 100
SLOWEST = 8
Place = tuple[int, int]  # partition and offset


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


class Processed(NamedTuple):
    """One record as a member processed it; `token` is the fencing token of the ownership it had."""

    partition: int
    offset: int
    airport: str
    delay: int
    token: int


def processed_line(partition: int, offset: int, value: bytes, token: int) -> bytes:
    """The line about one record, for a member's file; it has to be written in one write."""
    record = Processed(partition, offset, *airport_and_delay(value), token)
    return json.dumps(record._asdict(), separators=(",", ":")).encode() + b"\n"


def decode_lines(data: bytes) -> list[Processed]:
    """The records of a member's file; a last line that a SIGKILL cut off counts as not processed.

    Raises ValueError for any other line that is no record.
    """
    return [Processed(**json.loads(line)) for line in data.split(b"\n")[:-1]]


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


def delays(pairs: Iterable[tuple[str, int]]) -> Mapping[str, AirportDelay]:
    """Flights and delays of each airport, from (airport, delay) pairs."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for airport, delay in pairs:
        found[airport].append(delay)
    return {name: AirportDelay(name, len(own), sum(own)) for name, own in sorted(found.items())}


@dataclass(frozen=True, slots=True)
class Reduction:
    """The result of the members' work: mean delays, from all their files together, each record counted once.

    Of two lines for one record that with the greater token counts: its writer owned the partition later. The
    lines have to agree on everything but the token.
    """

    airports: Mapping[str, AirportDelay]
    processed: frozenset[Place]
    repeated: Mapping[Place, int]
    """Those processed more than once, with how often."""
    repeated_by: Mapping[str, int]
    """Member to the number of its records that were processed again."""
    contradictions: tuple[Place, ...]
    """Records that two lines describe differently; a correct run has none."""

    @property
    def records(self) -> int:
        return len(self.processed)

    @property
    def twice(self) -> int:
        return len(self.repeated)

    @property
    def slowest(self) -> tuple[AirportDelay, ...]:
        """The airports with the greatest mean delay, among those with at least `FLIGHTS_MIN` flights."""
        counted = [one for one in self.airports.values() if one.flights >= FLIGHTS_MIN]
        return tuple(sorted(counted, key=lambda one: (-one.mean, one.airport))[:SLOWEST])


def reduce(outputs: Mapping[str, Iterable[Processed]], moved: Collection[int] = ()) -> Reduction:
    """The result of these members' work.

    In the partitions of `moved` a foreign writer has changed the offset, so no member is responsible for a
    repetition.
    """
    lines: defaultdict[Place, list[tuple[Processed, str]]] = defaultdict(list)
    for member, records in outputs.items():
        for record in records:
            lines[record.partition, record.offset].append((record, member))
    for own in lines.values():
        own.sort(key=lambda one: one[0].token)
    again = (member for place, own in lines.items() if place[0] not in moved for _, member in own[:-1])
    return Reduction(
        airports=delays((own[-1][0].airport, own[-1][0].delay) for own in lines.values()),
        processed=frozenset(lines),
        repeated={place: len(own) for place, own in sorted(lines.items()) if len(own) > 1},
        repeated_by=dict(sorted(Counter(again).items())),
        contradictions=tuple(at for at, own in lines.items() if len({one[:4] for one, _ in own}) > 1),
    )


def listed(numbers: Iterable[int], between: str = ", ") -> str:
    """All of these numbers, as of partitions, in order."""
    return between.join(map(str, sorted(numbers)))
