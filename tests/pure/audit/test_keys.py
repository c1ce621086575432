"""Rules see what they need whoever brings their rows together."""

from __future__ import annotations

import pytest

from zkgroup.audit.findings.engine import RULES
from zkgroup.audit.inputs.events import Event, Keys, Op
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
