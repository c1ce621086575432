"""Owned partitions whose offset stands still."""

from __future__ import annotations

from tests.worlds.audit_log import START_MS, AuditLog, offset, owner
from zkgroup.audit.findings.offsets import stalled_offset

A = 0xA
T0, T1 = ("t", 0), ("t", 1)
MINUTE = 60_000


def test_an_owned_partition_without_a_new_offset_is_reported() -> None:
    """From its last change; commits that repeat the offset are none."""
    log = AuditLog()
    log.join("g", "g_a", A)
    log.claim("g", T0, "g_a-0", A)
    log.claim("g", T1, "g_a-0", A)
    changed = log.commit("g", T0, 5, A)
    for _ in range(11):
        log.wait(MINUTE)
        log.commit("g", T0, 5, A)
        log.commit("g", T1, log.zxid, A)

    (found,) = log.find(stalled_offset)

    assert (found.severity, found.partition, found.session) == ("info", 0, A)
    assert (found.from_zxid, found.to_zxid) == (changed, None)
    assert found.detail == "at 5 for 11.0 min, owned by member g_a (session 0xa)"


def test_from_the_claim_where_that_came_later() -> None:
    """A new owner is given its time."""
    log = AuditLog()
    log.commit("g", T0, 5, 0xB)
    log.wait(9 * MINUTE)
    log.claim("g", T0, "g_a-0", A)
    log.passes(9 * MINUTE)

    assert log.find(stalled_offset) == []
    (found,) = log.find(stalled_offset, still_ms=8 * MINUTE)
    assert found.from_ms == START_MS + 9 * MINUTE


def test_nothing_without_an_owner_or_an_offset() -> None:
    """A partition that nobody owns stalls nobody; one without an offset may have it in Kafka."""
    log = AuditLog()
    log.commit("g", T0, 5, A)
    log.claim("g", T1, "g_a-0", A)
    log.passes(20 * MINUTE)

    assert log.find(stalled_offset) == []


def test_an_offset_of_the_snapshot_stands_since_it_was_written() -> None:
    """Not since it was created."""
    log = AuditLog(zxid=100)
    log.seed(owner("g", T0), "g_a-0", zxid=5, session=A, ms=START_MS - 60 * MINUTE)
    log.seed(offset("g", T0), "7", zxid=6, ms=START_MS - 60 * MINUTE, mtime_ms=START_MS - 9 * MINUTE)
    log.create("/start")

    assert log.find(stalled_offset) == []
    log.passes(2 * MINUTE)
    (found,) = log.find(stalled_offset)
    assert found.from_ms == START_MS - 9 * MINUTE


def test_a_seed_is_no_claim_though_it_was_made_with_its_owner() -> None:
    """Both in one transaction, and the offset was written since."""
    log = AuditLog(zxid=100)
    log.seed(owner("g", T0), "g_a-0", zxid=5, session=A, ms=START_MS - 60 * MINUTE)
    log.seed(offset("g", T0), "7", zxid=5, ms=START_MS - 60 * MINUTE, mtime_ms=START_MS - MINUTE)
    log.create("/start")

    assert log.find(stalled_offset) == []
