"""Owners that gave a partition up without a commit."""

from __future__ import annotations

from tests.worlds.audit_log import START_MS, AuditLog, offset, owner
from zkgroup.audit.findings.offsets import no_commit_at_handover

A, B = 0xA, 0xB
T0 = ("t", 0)


def test_an_owner_that_never_committed_in_over_a_minute_is_reported() -> None:
    """However its ownership ended."""
    log = AuditLog()
    log.join("g", "g_a", A)
    claimed = log.claim_ours("g", T0, "g_a-0", A)
    log.wait(60_001)
    released = log.release("g", T0, A)

    (found,) = log.find(no_commit_at_handover)

    assert (found.severity, found.session) == ("info", A)
    assert (found.from_zxid, found.to_zxid) == (claimed, released)
    assert (found.from_ms, found.to_ms) == (START_MS, START_MS + 60_001)
    assert found.detail == (
        "owned for 60.0 s by member g_a (session 0xa) without a commit; there was no offset at the end"
    )


def test_one_commit_is_enough_even_with_the_release() -> None:
    """In the transaction of the release, too; not one by another session."""
    log = AuditLog()
    log.claim_ours("g", T0, "g_a-0", A)
    log.wait(90_000)
    log.multi(A, log.setting(offset("g", T0), "4"), log.deletion(owner("g", T0)))
    log.claim_ours("g", T0, "g_b-0", B, value=4)
    log.commit("g", T0, 5, A)
    log.wait(90_000)
    log.release("g", T0, B)

    assert [each.session for each in log.find(no_commit_at_handover)] == [B]


def test_short_ownerships_and_open_ones_are_not() -> None:
    """A minute by default; nobody was handed over to yet."""
    log = AuditLog()
    log.claim("g", T0, "g_a-0", A)
    log.wait(60_000)
    log.release("g", T0, A)
    log.claim("g", T0, "g_b-0", B)
    log.passes(600_000)

    assert log.find(no_commit_at_handover) == []
    assert [each.session for each in log.find(no_commit_at_handover, owned_ms=59_999)] == [A]


def test_of_an_owner_from_before_the_log_only_the_log_counts() -> None:
    """What it committed before is not known."""
    log = AuditLog(zxid=100)
    log.seed(owner("g", T0), "g_a-0", zxid=5, session=A, ms=START_MS - 900_000)
    start = log.create("/start")
    log.wait(50_000)
    log.release("g", T0, A)

    assert log.find(no_commit_at_handover) == []
    (found,) = log.find(no_commit_at_handover, owned_ms=40_000)
    assert (found.from_zxid, found.from_ms) == (start, START_MS)


def test_the_commit_of_one_owner_does_not_excuse_the_next() -> None:
    """Each ownership is asked by itself."""
    log = AuditLog()
    log.claim("g", T0, "g_a-0", A)
    log.commit("g", T0, 3, A)
    log.wait(90_000)
    log.release("g", T0, A)
    log.claim("g", T0, "g_a-0", A)
    log.wait(90_000)
    log.release("g", T0, A)

    (found,) = log.find(no_commit_at_handover)
    assert found.detail.endswith("without a commit; the offset was 3 at the end")


def test_an_owner_of_the_snapshot_that_the_log_saw_commit_is_excused() -> None:
    """One that only released what it had in the snapshot is not."""
    log = AuditLog(zxid=100)
    for number in (0, 1):
        log.seed(owner("g", ("t", number)), "g_a-0", zxid=5 + number, session=A)
    log.create("/start")
    log.commit("g", T0, 3, A)
    log.wait(90_000)
    log.release("g", T0, A)
    log.release("g", ("t", 1), A)

    assert [each.partition for each in log.find(no_commit_at_handover)] == [1]
