"""CRC-32C: the published values, another implementation, every length."""

from __future__ import annotations

from itertools import pairwise

import pytest
from kafka.record._crc32c import crc as crc_of_kafka_python

from zkgroup.wire.crc32c import BLOCK_BYTES, FOLDS, SHORT_BYTES, crc32c, python_crc32c


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_published_values(data: bytes, expected: int) -> None:
    """RFC 3720, appendix B.4, and the check value of the catalogues."""
    assert crc32c(data) == python_crc32c(data) == expected
    assert crc32c(memoryview(data)) == python_crc32c(memoryview(data)) == expected


def test_every_length_as_another_implementation() -> None:
    """Around each place where a block is folded, and where a second block begins."""
    folded = [left // 8 + more for left in FOLDS for more in (-1, 0, 1)]
    data = bytes((7 * i + 3 * (i >> 8)) & 0xFF for i in range(BLOCK_BYTES + 1))

    for length in (*range(200), *folded, BLOCK_BYTES, BLOCK_BYTES + 1):
        assert (length, python_crc32c(data[:length])) == (length, crc_of_kafka_python(data[:length]))


def test_blocks_can_be_folded() -> None:
    """From the longest block to what the table does, each fold reaches the next."""
    assert 2 * FOLDS[0] - 31 >= BLOCK_BYTES * 8
    assert all(longer <= 2 * shorter - 31 for longer, shorter in pairwise(FOLDS))
    assert FOLDS[-1] == SHORT_BYTES * 8
