"""What a rebalance changed, partition by partition; where one begins and ends: the table of findings."""

from __future__ import annotations

from tests.pure.audit.histories import History
from zkgroup.audit.findings.group_rebalances import QUIET_MS, group_rebalances
from zkgroup.audit.inputs.events import BY_MEMBERSHIP

SHARED = """topic t 4; come g g_a 1; 4 times (claim g t-{n} g_a-0 1); +10000; come g g_b 2;
    4 times (release g t-{n} 1); +300; 2 times (claim g t-{n} g_a-0 1); 2 times (claim g t-{n+2} g_b-0 2)"""


def test_a_join_and_what_it_moved() -> None:
    """Two of four partitions had to move, two were let go for nothing, all stood still for 300 ms."""
    history = History({})
    history.read(SHARED)
    rows = [event for event in history.log.events() if BY_MEMBERSHIP.key(event) == ("g",)]

    first, second = group_rebalances(rows, ("g",), history.log.facts(), QUIET_MS)

    assert {(each.before, each.down_ms) for each in first.changes} == {(None, None)}
    assert [(each.before, each.after, each.down_ms) for each in second.changes] == [
        ("g_a-0", "g_a-0", 300),
        ("g_a-0", "g_a-0", 300),
        ("g_a-0", "g_b-0", 300),
        ("g_a-0", "g_b-0", 300),
    ]
    assert (second.moved, second.least, [tp.partition for tp in second.retaken]) == (2, 2, [0, 1])
