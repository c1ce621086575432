"""Sessions that make and drop ephemerals."""

from __future__ import annotations

from tests.worlds.audit_log import AuditLog
from zkgroup.audit.findings.sessions import ephemeral_churn

A, B = 0xA, 0xB


def churn(log: AuditLog, session: int, times: int, every_ms: int) -> list[int]:
    """Claims and releases in turn; the zxids of both."""
    zxids = []
    for _ in range(times):
        zxids.append(log.claim("g", ("t", 0), "g_a-0", session))
        zxids.append(log.release("g", ("t", 0), session))
        log.wait(every_ms)
    return zxids


def test_creates_and_deletes_beyond_the_bound_are_found() -> None:
    """Both count."""
    log = AuditLog()
    zxids = churn(log, A, times=60, every_ms=60_000)

    (found,) = log.find(ephemeral_churn, per_hour=100)

    assert (found.severity, found.session) == ("warning", A)
    assert (found.from_zxid, found.to_zxid) == (zxids[0], zxids[-1])
    assert found.detail == "session 0xa created and deleted ephemerals 120 times in 59.0 min"


def test_fewer_or_persistent_ones_are_not() -> None:
    """Commits are no ephemerals; a default rebalance is far below the bound."""
    log = AuditLog()
    churn(log, A, times=49, every_ms=60_000)
    for number in range(200):
        log.commit("g", ("t", 0), number, B)
        log.create(f"/persistent/{number}", session=B)

    assert log.find(ephemeral_churn, per_hour=100) == []
    assert log.find(ephemeral_churn) == []


def test_a_session_with_brief_ephemerals_is_reported() -> None:
    """One without any is a tool, and one that lives on may have just begun."""
    log = AuditLog()
    opened = log.open(A)
    log.join("g", "g_a", A)
    log.wait(3_000)
    closed = log.close(A)
    log.open(B)
    log.close(B)
    log.come("g", "g_d", 0xD)

    (found,) = log.find(ephemeral_churn)

    assert (found.severity, found.from_zxid, found.to_zxid) == ("info", opened, closed)
    assert found.detail == "member g_a (session 0xa) lived for 3.0 s and made 1 ephemeral"


def test_a_session_of_a_minute_is_not_short() -> None:
    """The bound itself is long enough."""
    log = AuditLog()
    log.come("g", "g_a", A)
    log.wait(60_000)
    log.close(A)

    assert log.find(ephemeral_churn) == []
