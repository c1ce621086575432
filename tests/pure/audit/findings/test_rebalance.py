"""One row a rebalance, with its cause and its cost in words."""

from __future__ import annotations

from tests.pure.audit.groups import T, shared
from zkgroup.audit.findings.rebalances import rebalance


def test_each_rebalance_is_reported_with_cause_moves_and_the_time_without_owner() -> None:
    """Each rebalance is an info row: cause, length, members, moves, longest time without owner."""
    first, second = shared().find(rebalance)

    assert first.detail == "join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved"
    assert second.detail == (
        "join (g_b); 300 ms; 2 members then; 4 partitions touched, 2 moved; without owner up to 300 ms"
    )
    assert {found.severity for found in (first, second)} == {"info"}
    assert (second.group, second.topic, second.to_zxid) == ("g", None, shared().zxid)


def test_unowned_partitions_and_a_missing_cause_are_reported() -> None:
    """A release that nothing set off is told as without cause, and what is left unowned is counted."""
    log = shared()
    log.wait(10_000)
    log.release("g", T[0], 1)

    found = log.find(rebalance)[-1]

    assert found.detail == (
        "no cause in the log; 0 ms; 2 members then; 1 partition touched, 0 moved; 1 without owner at its end"
    )


def test_the_quiet_that_ends_one_can_be_set() -> None:
    """A release 2 s later is part of the same rebalance, and with `quiet_ms=1000` one of its own."""
    log = shared()
    log.wait(2_000)
    log.release("g", T[0], 1)

    assert len(log.find(rebalance)) == 2
    assert len(log.find(rebalance, quiet_ms=1_000)) == 3
