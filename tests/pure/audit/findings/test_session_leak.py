"""Sessions that do nothing."""

from __future__ import annotations

from collections.abc import Mapping

from tests.worlds.audit_log import START_MS, AuditLog
from tests.worlds.plain_findings import find
from tests.worlds.record_by_record import events_of
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.findings.sessions import session_leak

A, B = 0x100_0000_0000_000A, -0x5F00_0000_0000_0005
DAY = 86_400_000


def found_in(log: AuditLog, sessions: Mapping[int, int]) -> list[Finding]:
    """What is found where the snapshot had these sessions, with their timeouts."""
    return find([session_leak], lambda: list(events_of(log.transactions, log.seeds, sessions=sessions)))


def test_sessions_that_own_and_write_nothing_for_days_are_found() -> None:
    """Those of the snapshot that never wrote since, and those that stopped writing."""
    log = AuditLog(zxid=100)
    start = log.open(0xC)
    log.wait(DAY)
    wrote = log.create("/something", session=A)
    log.wait(4 * DAY)
    log.create("/end", session=0xC)

    of_a, of_b = sorted(found_in(log, {A: 6000, B: 6000}), key=lambda each: each.from_zxid == start)

    assert (of_a.severity, of_a.session, of_a.from_zxid, of_a.to_zxid) == ("warning", A, wrote, None)
    assert of_a.detail == (
        "session 0x10000000000000a, issued by server 1 (1 open session of it), has no ephemeral and wrote"
        " nothing for 4.0 d"
    )
    assert (of_b.session, of_b.from_zxid, of_b.from_ms) == (B, start, START_MS)
    assert of_b.detail == (
        "session 0xa0fffffffffffffb, issued by server 160 (1 open session of it), has no ephemeral and wrote"
        " nothing for 5.0 d at least"
    )


def test_the_sessions_of_its_server_are_counted() -> None:
    """Those that live at the end, whether they leak or not; one that was closed is none."""
    log = AuditLog(zxid=100)
    log.open(A + 1)
    log.open(A + 2)
    log.close(A + 2)
    log.wait(5 * DAY)
    log.create("/end", session=A + 1)

    found = found_in(log, {A: 6000, B: 6000})[-1]

    assert found.detail.startswith(
        "session 0x10000000000000a, issued by server 1 (2 open sessions of it), has"
    )


def test_ephemerals_writes_and_ends_excuse() -> None:
    """Each by itself."""
    log = AuditLog(zxid=100)
    log.seed("/brokers/ids/1", "{}", zxid=5, session=1)
    log.come("g", "g_a", 2)
    log.close(4)
    log.wait(5 * DAY)
    log.create("/written", session=3)

    assert list(found_in(log, {1: 6000, 3: 6000, 4: 6000})) == []


def test_an_ephemeral_that_was_released_excuses_no_more() -> None:
    """It is the end that counts."""
    log = AuditLog(zxid=100)
    log.open(2)
    log.claim("g", ("t", 0), "g_a-0", 2)
    released = log.release("g", ("t", 0), 2)
    log.passes(5 * DAY)

    assert [(each.session, each.from_zxid) for each in found_in(log, {})] == [(2, released)]


def test_a_short_history_gives_no_finding() -> None:
    """Three days by default; a snapshot alone says nothing about writes."""
    short = AuditLog(zxid=100)
    short.create("/start")
    short.wait(3 * DAY)
    short.create("/end")
    alone = AuditLog()
    alone.seed("/old", zxid=1, ms=START_MS - 30 * DAY)
    alone.seed("/new", zxid=2)

    assert list(found_in(short, {A: 6000})) == []
    assert list(found_in(alone, {A: 6000})) == []
