"""Rules see what they need whoever brings their rows together."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from tests.worlds.golden_data import FOLDER
from zkgroup.audit.engine import bounds_of, find_all, order
from zkgroup.audit.events import Event
from zkgroup.audit.fact_builder import facts_of
from zkgroup.audit.findings import RULES
from zkgroup.audit.key_rows import KeyRows
from zkgroup.audit.keys import Key
from zkgroup.audit.points_in_time import PointInTime
from zkgroup.audit.rules import Finding
from zkgroup.audit.sources import open_source


@pytest.mark.parametrize("from_zxid", [0, 0x8E], ids=hex)
@pytest.mark.parametrize("name", ["zookeeper-3.4.6", "zookeeper-3.9.4", "zookeeper-3.4.6-incidents"])
def test_rows_sorted_key_by_key_give_the_same_findings(name: str, from_zxid: int) -> None:
    """As Spark does it: rows arrive in any order, and only zxid and place in the transaction sort them."""
    start = PointInTime(zxid=from_zxid) if from_zxid else None
    events = list(open_source([FOLDER / "kafka-0.8.2.2" / name / "version-2"]).rows(start).events())
    facts, bounds = facts_of(events), bounds_of(RULES, {})
    shuffled = random.Random(4).sample(events, len(events))
    found: list[Finding] = []
    for rule in RULES:
        by_key: defaultdict[Key, list[Event]] = defaultdict(list)
        for event in shuffled:
            if (key := rule.keys.key(event)) is not None:
                by_key[key].append(event)
        for key, rows in by_key.items():
            ordered = KeyRows(sorted(rows, key=lambda row: (row.zxid, row.sub)))
            found += rule.find(ordered, key, facts, bounds[rule.name])

    assert found
    assert sorted(found, key=order) == sorted(find_all(RULES, events, facts, bounds), key=order)
