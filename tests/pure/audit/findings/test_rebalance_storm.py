"""Groups that rebalance again and again."""

from __future__ import annotations

from tests.worlds.audit_log import AuditLog
from zkgroup.audit.findings.rebalances import rebalance_storm


def _flapping(times: int, every_ms: int) -> AuditLog:
    """A member of session 1 comes and goes."""
    log = AuditLog()
    log.topic("t", 1)
    log.open(1)
    for _ in range(times):
        log.join("g", "g_a", 1)
        log.wait(every_ms // 2)
        log.leave("g", "g_a", 1)
        log.wait(every_ms - every_ms // 2)
    return log


def test_more_than_twenty_in_an_hour_are_one_row_over_all_of_them() -> None:
    """22 rebalances in an hour are one warning over all of them, with their causes counted."""
    log = _flapping(11, 300_000)

    (found,) = log.find(rebalance_storm)

    assert (found.severity, found.group) == ("warning", "g")
    assert (found.from_zxid, found.to_zxid) == (3, log.zxid)
    assert found.detail == (
        "22 rebalances, more than 20 an hour; among their causes: clean leave 11 times, join 11 times"
    )


def test_twenty_in_an_hour_are_not_too_many() -> None:
    """Twenty in an hour are allowed, and so are sixty at ten an hour."""
    assert _flapping(10, 300_000).find(rebalance_storm) == []
    assert _flapping(30, 720_000).find(rebalance_storm) == []


def test_the_bound_can_be_set_and_each_storm_has_its_row() -> None:
    """With `per_hour=4` six are a storm, and six more two hours later are another."""
    log = _flapping(3, 60_000)
    log.wait(7_200_000)
    for _ in range(3):
        log.join("g", "g_a", 1)
        log.wait(30_000)
        log.leave("g", "g_a", 1)
        log.wait(30_000)

    assert [found.detail.partition(",")[0] for found in log.find(rebalance_storm, per_hour=4)] == [
        "6 rebalances"
    ] * 2


def test_the_causes_of_a_storm_are_its_own() -> None:
    """Not those of the storm before; and rebalances without a cause are counted as such."""
    log = _flapping(3, 60_000)
    log.wait(7_200_000)
    log.join("g", "g_a", 1)
    for _ in range(6):
        log.wait(30_000)
        log.claim("g", ("t", 0), "g_a-0", 1)
        log.wait(30_000)
        log.release("g", ("t", 0), 1)

    first, second = log.find(rebalance_storm, per_hour=4)

    assert first.detail.endswith("among their causes: clean leave 3 times, join 3 times")
    assert second.detail.endswith("among their causes: no cause in the log 12 times, join 1 times")
