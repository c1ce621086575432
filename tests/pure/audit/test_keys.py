"""Rules see what they need whoever brings their rows together."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from tests.worlds.golden_data import FOLDER
from tests.worlds.plain_findings import find_all
from tests.worlds.screened_findings import events_in
from zkgroup.audit.engine import bounds_of, order
from zkgroup.audit.events import Event, Op
from zkgroup.audit.facts import facts_of
from zkgroup.audit.findings import RULES
from zkgroup.audit.keys import Key, Keys
from zkgroup.audit.points_in_time import PointInTime
from zkgroup.audit.rules import Finding, KeyRows
from zkgroup.audit.sources import open_source
from zkgroup.znodes.paths import path_kind

PATHS = [
    *("", "/", "/zookeeper", "/controller", "/controller_epoch", "/config/topics/t", "/zkgroup/audit/g"),
    *("/zkgroup/controllers/7", "/consumers/g/views/m"),
    *("/admin", "/admin/delete_topics/t", "/admin/reassign_partitions", "/brokers", "/brokers/ids/1"),
    *("/brokers/ids/1/x", "/brokers/topics/t", "/brokers/topics/t/partitions/0/state", "/consumers"),
    *("/consumers/g", "/consumers/g/ids/m", "/consumers/g/owners/t/0", "/consumers/g/offsets/t/0"),
]


@pytest.mark.parametrize(
    "keys", {rule.keys.name: rule.keys for rule in RULES}.values(), ids=lambda keys: keys.name
)
def test_keys_name_the_kinds_of_paths_that_they_can_be_of(keys: Keys) -> None:
    """Columns ask for the keys of no other path."""
    ops: tuple[Op, ...] = ("create", "delete", "set", "setACL", "error", "check")
    events = [
        Event(5, -1, 7, 1, 1, op, path, b"", applied=op != "error", seed=is_seed)
        for op in ops
        for path in PATHS
        for is_seed in (False, True)
    ]
    kinds = {path_kind(event.path).kind for event in events if keys.key(event) is not None}
    assert kinds
    assert keys.kinds is None or kinds == keys.kinds


@pytest.mark.parametrize("from_zxid", [0, 0x8E], ids=hex)
@pytest.mark.parametrize("name", ["zookeeper-3.4.6", "zookeeper-3.9.4", "zookeeper-3.4.6-incidents"])
def test_rows_sorted_key_by_key_give_the_same_findings(name: str, from_zxid: int) -> None:
    """As Spark does it: rows arrive in any order, and only zxid and place in the transaction sort them."""
    start = PointInTime(zxid=from_zxid) if from_zxid else None
    events = events_in(open_source([FOLDER / "kafka-0.8.2.2" / name / "version-2"]).rows(start))
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
