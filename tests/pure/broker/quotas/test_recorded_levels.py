"""Which quota holds, beside the recorded answers of the classes of Kafka 2.8.2."""

from __future__ import annotations

import gzip

from tests.worlds.drawn_quotas import differences
from tests.worlds.golden_data import FOLDER


def test_recorded_configurations_give_what_kafka_gives() -> None:
    """Drawn ones: changes of several entities in turn, with removals, and names that are encoded."""
    lines = gzip.decompress((FOLDER / "quotas" / "levels-2.8.2.jsonl.gz").read_bytes()).decode().splitlines()

    assert [each for line in lines for each in differences(line)] == []
    assert len(lines) == 40
