"""A claim by a session that its member is not registered in."""

from __future__ import annotations

from tests.worlds.audit_log import AuditLog, registration
from zkgroup.audit.findings.ownership import (
    claim_stolen,
    orphan_owner,
    orphan_owner_interval,
    owner_session_mismatch,
)

T0 = ("t", 0)


def _group() -> AuditLog:
    log = AuditLog()
    log.topic("t", 1)
    log.open(1)
    log.open(2)
    log.join("g", "g_a", 1)
    return log


def test_a_claim_by_a_foreign_session_is_an_error_for_its_whole_life() -> None:
    """A claim in g_a's name from session 2, while g_a is in 1, is an error up to its release."""
    log = _group()
    claimed = log.claim("g", T0, "g_a-0", 2)
    released = log.release("g", T0, 2)

    (found,) = log.find(owner_session_mismatch)

    assert (found.severity, found.from_zxid, found.to_zxid, found.session) == ("error", claimed, released, 2)
    assert "g_a is registered in 0x1" in found.detail


def test_a_name_that_is_not_the_sessions_own_is_one_too() -> None:
    """A session registered as g_a that claims as g_b is an error that names both."""
    log = _group()
    log.claim("g", T0, "g_b-0", 1)

    (found,) = log.find(owner_session_mismatch)

    assert found.to_zxid is None
    assert "registered as g_a" in found.detail


def test_registered_too_late_and_in_another_group_do_not_count() -> None:
    """A registration in another group, or after the claim, does not make the claim the member's own."""
    log = _group()
    log.join("h", "g_c", 2)
    early = log.claim("g", T0, "g_c-0", 2)
    log.join("g", "g_c", 2)

    (found,) = log.find(owner_session_mismatch)

    assert found.from_zxid == early
    assert found.detail == "'g_c-0' was claimed by session 0x2, which registered as g_c only after that"


def test_both_findings_about_a_session_name_the_same_member() -> None:
    """One that deletes a claim, claims, and registers only then: claim_stolen calls it the member, too."""
    log = _group()
    log.claim("g", T0, "g_a-0", 1)
    log.open(9)
    log.delete("/consumers/g/owners/t/0", 9)
    log.claim("g", T0, "other-0", 9)
    log.join("g", "g_nudge", 9)

    (mismatch,) = log.find(owner_session_mismatch)
    (theft,) = log.find(claim_stolen)

    assert mismatch.detail.endswith("session 0x9, which registered as g_nudge only after that")
    assert theft.detail.endswith("was deleted by member g_nudge (session 0x9)")


def test_a_members_own_claims_are_none() -> None:
    """Claims in the member's own session are fine: another thread, ours, or a new session after an expiry."""
    log = _group()
    log.claim("g", T0, "g_a-0", 1)
    log.release("g", T0, 1)
    log.claim_ours("g", T0, "g_a-1", 1)
    log.expire(1)
    log.come("g", "g_a", 3)
    log.claim("g", T0, "g_a-0", 3)

    assert log.find(owner_session_mismatch) == []


def test_of_a_snapshot_the_sessions_are_compared_as_they_stand() -> None:
    """A registration that was renewed is younger than the claims that it keeps."""
    log = AuditLog()
    log.seed("/consumers/g/owners/t/0", "g_a-0", zxid=5, session=1)
    log.seed("/consumers/g/ids/g_a", registration(), zxid=8, session=1)
    assert log.find(owner_session_mismatch) == []

    log.seed("/consumers/g/owners/t/1", "g_a-0", zxid=6, session=2)
    assert log.told(owner_session_mismatch, "from_zxid", "partition") == [(6, 1)]


def test_an_owner_that_is_not_ephemeral_is_none() -> None:
    """Nor is its deletion a theft: `persistent_znode` names it, and to remove it is what is to be done."""
    log = AuditLog()
    log.seed("/consumers/g/owners/t/0", "g_a-0", zxid=5)
    log.seed("/consumers/g/ids/g_a", registration(), zxid=4, session=1)
    log.open(9)
    log.delete("/consumers/g/owners/t/0", 9)

    for rule in (owner_session_mismatch, claim_stolen, orphan_owner, orphan_owner_interval):
        assert log.find(rule) == []


def test_a_log_without_its_beginning_says_nothing_of_sessions_from_before() -> None:
    """A session that was open before the log may be registered: only the one opened within it is told."""
    log = AuditLog(zxid=1000)
    log.claim("g", T0, "g_a-0", 1)
    log.open(2)
    claimed = log.claim("g", ("t", 1), "g_b-0", 2)

    assert [each.from_zxid for each in log.find(owner_session_mismatch)] == [claimed]
