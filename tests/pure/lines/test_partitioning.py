"""Where lines with keys go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as theirs

from zkgroup.errors import ConfigError
from zkgroup.lines.partitioning import key_of, murmur2, partition_of_key


@pytest.mark.parametrize(
    ("text", "expected"), [("21", -973932308), ("foobar", -790332482), ("abc", 479470107)]
)
def test_murmur2_is_kafkas(text: str, expected: int) -> None:
    """Vectors of org.apache.kafka.common.utils.UtilsTest."""
    assert murmur2(text.encode()) == expected % 2**32


@given(st.binary(max_size=40))
def test_murmur2_is_that_of_kafka_python(data: bytes) -> None:
    """For any bytes; and the partition is one of those there are."""
    assert murmur2(data) == theirs(data) % 2**32
    assert partition_of_key(data, (3, 5, 9)) in (3, 5, 9)


@pytest.mark.parametrize(
    ("line", "key"),
    [(b'{"k":"ada"}', b"ada"), (b'{"k": 7}', b"7"), (b'{"k":{"b":1,"a":2}}', b'{"a":2,"b":1}')],
)
def test_keys_of_lines(line: bytes, key: bytes) -> None:
    """Texts as they are, other values as JSON in one form."""
    assert key_of(line, "k") == key


@pytest.mark.parametrize("line", [b"", b"nonsense", b"[1]", b'{"n":1}', b'{"k":null}', b"\xff"])
def test_lines_without_a_key(line: bytes) -> None:
    """Said, with what was expected."""
    with pytest.raises(ConfigError, match="expected a JSON object with 'k', found"):
        key_of(line, "k")
