"""Groups that nobody uses."""

from __future__ import annotations

from tests.worlds.audit_log import START_MS, AuditLog, offset
from zkgroup.audit.findings.offsets import dead_group

A = 0xA
DAY = 86_400_000
T0, T1 = ("t", 0), ("t", 1)


def left() -> AuditLog:
    """A group whose only member committed and left."""
    log = AuditLog()
    for path in ("/consumers/g", "/consumers/g/ids", "/consumers/g/offsets", "/consumers/g/offsets/t"):
        log.create(path)
    log.come("g", "g_a", A)
    log.commit("g", T0, 4, A)
    log.commit("g", T1, 4, A)
    return log


def test_offsets_without_a_member_for_a_week_are_reported() -> None:
    """With what a deletion would remove."""
    log = left()
    gone = log.close(A)
    log.passes(8 * DAY)

    (found,) = log.find(dead_group)

    assert (found.severity, found.group, found.from_zxid, found.to_zxid) == ("info", "g", gone, None)
    assert found.detail == (
        "no member (1 registration in this history) and no write for 8.0 d; 6 znodes, 2 of them offsets"
    )


def test_a_living_member_or_a_recent_write_keeps_it_alive() -> None:
    """A member that only waits is one, and so is a client that commits without registering."""
    idle = left()
    idle.wait(8 * DAY)
    idle.create("/end")
    recent = left()
    recent.close(A)
    recent.wait(5 * DAY)
    recent.commit("g", T0, 5, 0xB)
    recent.wait(5 * DAY)
    recent.create("/end")

    assert idle.find(dead_group) == []
    assert recent.find(dead_group) == []
    assert len(recent.find(dead_group, idle_ms=4 * DAY)) == 1


def test_a_group_without_offsets_is_none() -> None:
    """Deleted, or never used."""
    log = left()
    log.close(A)
    log.delete(offset("g", T0))
    log.delete(offset("g", T1))
    log.passes(8 * DAY)

    assert log.find(dead_group) == []


def test_a_snapshot_alone_is_enough() -> None:
    """What counts is when an offset was written, not when it was made."""
    log = AuditLog()
    log.seed("/now", zxid=9, ms=START_MS)
    log.seed(offset("old", T0), "4", zxid=3, ms=START_MS - 30 * DAY, mtime_ms=START_MS - 20 * DAY)
    log.seed(offset("used", T0), "4", zxid=4, ms=START_MS - 30 * DAY, mtime_ms=START_MS - DAY)

    (found,) = log.find(dead_group)

    assert (found.group, found.from_ms) == ("old", START_MS - 20 * DAY)
