"""Who may do what, beside the recorded decisions of AclAuthorizer of Kafka 2.8.2."""

from __future__ import annotations

import gzip

from tests.worlds.drawn_acls import ASKED, differences
from tests.worlds.golden_data import FOLDER


def test_recorded_acls_decide_as_in_kafka() -> None:
    """Drawn ones, which change before and between the decisions."""
    lines = gzip.decompress((FOLDER / "security" / "decisions-2.8.2.jsonl.gz").read_bytes()).decode()

    found = [each for line in lines.splitlines() for each in differences(line)]

    assert found == []
    assert lines.count('"changes"') * ASKED == 2000
