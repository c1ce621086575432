"""When a log rolls, and which segments retention deletes."""

from __future__ import annotations

import pytest

from zkgroup.broker.log.log_config import LogConfig, count_deletable, should_roll
from zkgroup.errors import ConfigError


@pytest.mark.parametrize(
    ("size", "added", "age_ms", "rolls"),
    [
        (0, 500, None, False),
        (0, 1, 9_999, False),
        (60, 40, None, False),
        (60, 41, None, True),
        (60, 1, 1_000, False),
        (60, 1, 1_001, True),
    ],
)
def test_rolling(size: int, added: int, age_ms: int | None, rolls: bool) -> None:
    """An empty segment takes any batch; else size and time decide."""
    assert should_roll(LogConfig(segment_bytes=100, segment_ms=1_000), size, added, age_ms) is rolls


@pytest.mark.parametrize(
    ("retention_bytes", "retention_ms", "high_watermark", "deleted"),
    [
        (-1, -1, 40, 0),
        (1_000, -1, 40, 0),
        (300, -1, 40, 1),
        (299, -1, 40, 1),
        (200, -1, 40, 2),
        (0, -1, 40, 4),
        (0, -1, 29, 2),
        (0, -1, 0, 0),
        (-1, 500, 40, 0),
        (-1, 99, 40, 1),
        (-1, 79, 40, 2),
        (-1, 0, 40, 2),
        (300, 79, 40, 2),
    ],
)
def test_retention(retention_bytes: int, retention_ms: int, high_watermark: int, deleted: int) -> None:
    """Four segments of 100 bytes and ten records, with times 100, 80 and 0 ms ago, and the last one none."""
    newest = [900, 920, 1_000, -1]
    config = LogConfig(retention_bytes=retention_bytes, retention_ms=retention_ms)
    found = count_deletable(
        config, [100] * 4, [10, 20, 30, 40], high_watermark, 1_000, lambda number: newest[number]
    )
    assert found == deleted


@pytest.mark.parametrize("segment_bytes", [13, 1 << 31])
def test_a_segment_that_no_index_can_express_is_refused(segment_bytes: int) -> None:
    """Its positions are int32."""
    with pytest.raises(ConfigError, match=r"segment\.bytes: expected 14 to 2147483647"):
        LogConfig(segment_bytes=segment_bytes)
