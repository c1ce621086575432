"""How sessions ended."""

from __future__ import annotations

import pytest

from tests.worlds.audit_log import AuditLog
from zkgroup.audit.findings.sessions import session_end

A, B = 0xA, 0xB
T0, T1 = ("t", 0), ("t", 1)


@pytest.mark.parametrize("with_lists", [True, False])
def test_an_expiry_is_reported_with_the_idle_time_and_the_removed_znodes(with_lists: bool) -> None:
    """Exactly: no client asked for it. From 3.6 on the record lists what goes."""
    log = AuditLog(with_lists=with_lists)
    log.open(A, timeout_ms=6_000)
    log.join("g", "g_a", A)
    log.claim("g", T0, "g_a-0", A)
    log.claim("g", T1, "g_a-0", A)
    log.wait(6_500)
    zxid = log.expire(A)

    (found,) = log.find(session_end)

    assert (found.severity, found.group, found.session) == ("info", "g", A)
    assert (found.from_zxid, found.to_zxid) == (zxid, zxid)
    assert found.detail == (
        "member g_a (session 0xa) expired 6.5 s after its last write (timeout 6.0 s);"
        " 3 ephemerals went with it"
    )


def test_a_member_that_comes_back_after_its_expiry_was_paused() -> None:
    """It did not know that it owned nothing any more: a warning, with the time until it knew."""
    log = AuditLog()
    log.come("g", "g_a", A)
    log.come("g", "g_b", B)
    log.expire(B)
    log.expire(A)
    log.wait(2_800)
    log.come("g", "g_a", 0xC)

    found = {each.session: each for each in log.find(session_end)}

    assert (found[A].severity, found[B].severity) == ("warning", "info")
    assert found[A].detail.endswith("1 ephemeral went with it; the member registered again 2.8 s later")


def test_a_close_after_a_long_silence_is_no_expiry() -> None:
    """A client that only read for a minute and then closed."""
    log = AuditLog()
    log.open(A, timeout_ms=6_000)
    log.join("g", "g_a", A)
    log.wait(60_000)
    log.close(A)

    (found,) = log.find(session_end)

    assert "closed 60.0 s after its last write" in found.detail


def test_a_close_that_removes_nothing_is_not_reported() -> None:
    """Every tool does so; one that expires did not mean to."""
    log = AuditLog()
    log.open(A)
    log.close(A)
    log.open(B)
    zxid = log.expire(B)

    (found,) = log.find(session_end)

    assert (found.session, found.from_zxid, found.group) == (B, zxid, None)


def test_a_living_session_and_a_release_are_no_end() -> None:
    """What a session deletes by itself did not go with it."""
    log = AuditLog()
    log.open(A)
    log.claim("g", T0, "g_a-0", A)
    log.release("g", T0, A)
    log.open(B)
    log.claim("g", T0, "g_b-0", B)
    log.close(A)

    assert log.find(session_end) == []


def test_a_session_from_before_the_log_may_have_written_nothing_in_it() -> None:
    """Its ephemerals are in the snapshot."""
    log = AuditLog(zxid=100)
    log.seed("/brokers/ids/1", "{}", zxid=5, session=A)
    log.expire(A)

    (found,) = log.find(session_end)

    assert found.detail == (
        "broker 1 (session 0xa) expired without a write in this history; 1 ephemeral went with it"
    )
