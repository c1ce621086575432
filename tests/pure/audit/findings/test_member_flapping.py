"""Members that come and go."""

from __future__ import annotations

from tests.worlds.audit_log import START_MS, AuditLog
from zkgroup.audit.findings.rebalances import member_flapping

MINUTE = 60_000


def flapping(times: int, every_ms: int, *, up_ms: int = 10_000) -> tuple[AuditLog, list[int]]:
    """A member that registers again and again, each time in a new session."""
    log, zxids = AuditLog(), []
    for number in range(times):
        session = 0xA0 + number
        log.open(session)
        zxids.append(log.join("g", "g_a", session))
        log.wait(up_ms)
        log.expire(session)
        log.wait(every_ms - up_ms)
    return log, zxids


def test_four_lives_within_an_hour_are_found() -> None:
    """With how long they lasted."""
    log, zxids = flapping(4, 10 * MINUTE)

    (found,) = log.find(member_flapping)

    assert (found.severity, found.group, found.session) == ("warning", "g", 0xA3)
    assert (found.from_zxid, found.to_zxid) == (zxids[0], zxids[-1])
    assert (found.from_ms, found.to_ms) == (START_MS, START_MS + 30 * MINUTE)
    assert found.detail == "member g_a registered 4 times within 30.0 min, for 10.0 s each (median)"


def test_three_lives_or_lives_far_apart_are_not() -> None:
    """A restart a day is none."""
    assert flapping(3, MINUTE)[0].find(member_flapping) == []
    assert flapping(8, 24 * 60 * MINUTE)[0].find(member_flapping) == []
    mixed, _ = flapping(3, MINUTE)
    mixed.wait(24 * 60 * MINUTE)
    mixed.join("g", "g_a", 0xB0)
    assert mixed.find(member_flapping) == []


def test_each_time_that_it_flapped_is_found_once() -> None:
    """However many lives; the calm between ends it."""
    log, first = flapping(9, MINUTE)
    log.wait(5 * 60 * MINUTE)
    again = []
    for number in range(5):
        log.open(0xB0 + number)
        again.append(log.join("g", "g_a", 0xB0 + number))
        log.close(0xB0 + number)

    assert log.told(member_flapping, "from_zxid", "to_zxid") == [
        (first[0], first[-1]),
        (again[0], again[-1]),
    ]


def test_many_members_that_join_once_are_not() -> None:
    """A group that starts is no flapping, nor the same name in another group."""
    log = AuditLog()
    for number in range(10):
        log.join("g", f"g_{number}", 0xA0 + number)
        log.join(f"group{number}", "same", 0xA0 + number)

    assert log.find(member_flapping) == []
