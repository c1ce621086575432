"""The demo's records and the direct computation."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from zlib import crc32

import zkgroup.demo
from zkgroup.demo.flight_data import (
    PARTITIONS,
    AirportDelay,
    airport_and_delay,
    bundled_lines,
    delays,
    distribute,
    partition_of,
    write_topic,
)


def test_bundled_records_are_twenty_thousand_flights() -> None:
    """The package carries all records, each with an airport and a delay in whole minutes."""
    lines = bundled_lines()

    assert len(lines) == 20_000
    assert {type(delay) for _, delay in map(airport_and_delay, lines)} == {int}
    assert {len(airport) for airport, _ in map(airport_and_delay, lines)} == {3}


def test_bundled_records_name_their_source() -> None:
    """The data's origin and licence stand beside it."""
    text = (Path(zkgroup.demo.__file__).parent / "data" / "README.md").read_text()

    assert "Bureau of Transportation Statistics" in text
    assert "vega-datasets" in text


def test_record_goes_to_the_partition_of_its_airport() -> None:
    """The partition is the crc32 of the origin, so an airport is in one partition only."""
    assert partition_of("SFO") == crc32(b"SFO") % 12

    input_lines = distribute(bundled_lines())

    assert len(input_lines) == PARTITIONS
    assert all(
        {partition_of(airport_and_delay(line)[0]) for line in lines} == {number}
        for number, lines in enumerate(input_lines)
    )


def test_every_partition_has_records_in_their_order() -> None:
    """No record is lost or reordered by dealing, and no partition stays empty."""
    lines = bundled_lines()

    input_lines = distribute(lines)

    assert sorted(line for one in input_lines for line in one) == sorted(lines)
    assert min(map(len, input_lines)) > 0
    order = {line: place for place, line in reversed(list(enumerate(lines)))}
    assert all([*map(order.__getitem__, one)] == sorted(map(order.__getitem__, one)) for one in input_lines)


def test_topic_folder_has_a_file_for_each_partition(tmp_path: Path) -> None:
    """A line's number in its file is its offset, and every line ends with a newline."""
    write_topic(tmp_path, [[b'{"a":1}', b'{"a":2}'], []], topic="t")

    assert (tmp_path / "t" / "0.jsonl").read_bytes() == b'{"a":1}\n{"a":2}\n'
    assert (tmp_path / "t" / "1.jsonl").read_bytes() == b""


def test_delays_agree_with_another_way_to_compute_them() -> None:
    """Sum and count of one airport, computed from the file by hand."""
    packed = (Path(zkgroup.demo.__file__).parent / "data" / "flights.jsonl.gz").read_bytes()
    records = [json.loads(line) for line in gzip.decompress(packed).decode().splitlines()]
    expected = [record["delay"] for record in records if record["origin"] == "SFO"]

    found = delays(map(airport_and_delay, bundled_lines()))["SFO"]

    assert found == AirportDelay("SFO", len(expected), sum(expected))
    assert found.mean == sum(expected) / len(expected)
