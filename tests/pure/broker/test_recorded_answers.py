"""Requests of clients with drawn ACLs, as Kafka 2.8.2 answered them."""

from __future__ import annotations

import gzip
import json

from tests.worlds.drawn_acl_requests import IN_EACH, differences
from tests.worlds.golden_data import FOLDER


def test_recorded_clients_are_answered_as_by_kafka() -> None:
    """With and without `allow.everyone.if.no.acl.found`: errors, lists and authorized operations."""
    recorded = gzip.decompress((FOLDER / "security" / "requests-2.8.2.jsonl.gz").read_bytes())
    rows = [json.loads(line) for line in recorded.splitlines()]

    assert [each for row in rows for each in differences(row)] == []
    assert [len(row["exchanges"]) for row in rows] == [IN_EACH] * 20
