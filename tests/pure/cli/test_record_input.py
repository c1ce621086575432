"""Records out of lines: what `zkgroup produce` reads."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zkgroup_cli.member_events import RECORD
from zkgroup_cli.record_input import LINE_BYTES_MAX, LineSplitter, json_record, raw_record

from zkgroup.clients.producer import NewRecord
from zkgroup.errors import ConfigError
from zkgroup.sources.port import Record

READ = json_record(None, None)


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_lines_do_not_depend_on_where_the_stream_is_cut(data: bytes, cuts: list[int]) -> None:
    """A newline ends a line, and so does the end of the stream."""
    splitter, lines, bounds = LineSplitter("file"), list[bytes](), sorted({0, *cuts, len(data)})
    for start, end in itertools.pairwise(bounds):
        lines += splitter.feed(data[start:end])
    lines += splitter.finish()

    assert lines == (data.split(b"\n")[:-1] if data.endswith(b"\n") or not data else data.split(b"\n"))
    assert splitter.number == len(lines)


def test_a_line_without_an_end_is_named_before_it_fills_the_memory() -> None:
    """By name and number."""
    splitter = LineSplitter("orders.txt")
    assert list(splitter.feed(b"a\n")) == [b"a"]
    with pytest.raises(ConfigError, match=rf"^orders\.txt:2: expected at most {LINE_BYTES_MAX} bytes"):
        list(splitter.feed(b"x" * (LINE_BYTES_MAX + 1)))


@pytest.mark.parametrize(
    ("line", "key"),
    [(b'{"k":"ada"}', b"ada"), (b'{"k": 7}', b"7"), (b'{"k":{"b":1,"a":2}}', b'{"a":2,"b":1}')],
)
def test_a_field_is_the_key(line: bytes, key: bytes) -> None:
    """Texts as they are, other values as JSON in one form; the value is the line as it is."""
    assert raw_record(None, "k")(line) == NewRecord(line, key)
    object_ = json.dumps({"value": line.decode(), "key": "other"}).encode()
    assert json_record(4, "k")(object_) == NewRecord(line, key, partition=4)


@pytest.mark.parametrize("line", [b"", b"nonsense", b"[1]", b'{"n":1}', b'{"k":null}', b"\xff"])
def test_lines_without_the_field(line: bytes) -> None:
    """The error has what was expected and found."""
    with pytest.raises(ConfigError, match="expected a JSON object with 'k', found"):
        raw_record(None, "k")(line)


def test_a_raw_line_is_the_value_byte_for_byte() -> None:
    """No key, no headers."""
    assert raw_record(2, None)(b"\xff\x00\r") == NewRecord(b"\xff\x00\r", partition=2)


@given(
    st.none() | st.binary(max_size=9),
    st.none() | st.binary(max_size=9),
    st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5)), max_size=3),
    st.none() | st.integers(0, 4_000_000_000_000),
    st.integers(0, 9),
)
def test_what_consume_prints_is_the_same_record_again(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes]],
    timestamp_ms: int | None,
    partition: int,
) -> None:
    """Key, value, headers, time and partition survive, whatever the bytes."""
    record = Record("orders", partition, 9, key, value, timestamp_ms, tuple(headers), 0, 3)
    line = json.dumps(RECORD.json(record, "2026-01-01T00:00:00.000Z")).encode()

    assert READ(line) == NewRecord(value, key, tuple(headers), timestamp_ms, partition)


def test_other_events_and_empty_lines_have_no_record() -> None:
    """So the output of `consume` can be piped as it is."""
    assert READ(b'{"event":"state","before":"new"}') is None
    assert READ(b"  ") is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"value": "a", "timestamp": 7}, NewRecord(b"a", timestamp_ms=7)),
        ({"value": "a", "timestamp": "1970-01-01T00:00:00.007Z"}, NewRecord(b"a", timestamp_ms=7)),
        ({"key": "k"}, NewRecord(None, b"k")),
        ({"value": "a", "headers": {"h": "v"}}, NewRecord(b"a", headers=(("h", b"v"),))),
        ({"value_base64": "/w==", "value": None}, NewRecord(b"\xff")),
    ],
)
def test_forms_that_people_write(line: object, expected: NewRecord) -> None:
    """Times as numbers or text, headers as one object, keys that are left out."""
    assert READ(json.dumps(line).encode()) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"nonsense", "expected a JSON object, found no JSON"),
        (b"[1]", "expected a JSON object, found \\[1\\]"),
        (b'{"value": 1}', "value: expected text or null, found 1"),
        (b'{"key": {"a": 1}}', "key: expected text or null, found"),
        (b'{"value_base64": "*"}', "value_base64: expected base64"),
        (b'{"value": "a", "partition": -1}', "partition: expected a number from 0 up, found -1"),
        (b'{"value": "a", "partition": true}', "partition: expected a number from 0 up, found true"),
        (b'{"value": "a", "timestamp": "soon"}', "timestamp: 'soon' is no time"),
        (b'{"value": "a", "timestamp": 1.5}', "timestamp: expected a number from 0 up, found 1.5"),
        (b'{"value": "a", "headers": "h"}', "headers: expected a list of objects"),
        (b'{"value": "a", "headers": [{"key": 7, "value": "v"}]}', "headers: expected text as `key`"),
        (b'{"value": "a", "headers": [{"key": "h", "value": null}]}', "headers: 'h' has no value"),
    ],
)
def test_a_line_that_is_no_record_names_what_is_wrong(line: bytes, message: str) -> None:
    """Before anything of it is sent."""
    with pytest.raises(ConfigError, match=message):
        READ(line)
