"""An old owner that commits after the new one has claimed."""

from __future__ import annotations

from tests.worlds.audit_log import AuditLog
from zkgroup.audit.findings.ownership import double_ownership

T0 = ("t", 0)


def _two(value: int = 5) -> AuditLog:
    """Member a owns the partition in session 1, member b is registered in session 2."""
    log = AuditLog()
    log.topic("t", 1)
    log.open(1)
    log.open(2)
    log.join("g", "g_a", 1)
    log.join("g", "g_b", 2)
    log.claim("g", T0, "g_a-0", 1)
    log.commit("g", T0, value, 1)
    return log


def test_commits_of_one_whose_claim_was_deleted_are_an_error_up_to_the_last() -> None:
    """The put-out owner's commits are one error, from the next one's claim to the last of the commits."""
    log = _two()
    log.release("g", T0, 2)
    claimed = log.claim("g", T0, "g_b-0", 2)
    log.wait(100)
    log.commit("g", T0, 6, 1)
    log.commit("g", T0, 7, 2)
    log.wait(100)
    last = log.commit("g", T0, 8, 1)

    (found,) = log.find(double_ownership)

    assert (found.severity, found.from_zxid, found.to_zxid, found.session) == ("error", claimed, last, 1)
    assert found.to_ms - found.from_ms == 200


def test_a_member_that_was_paused_past_its_session_is_known_again_in_its_next_one() -> None:
    """A member that expired and registered anew is still the old owner when it commits under the next one."""
    log = _two()
    log.expire(1)
    claimed = log.claim("g", T0, "g_b-0", 2)
    log.come("g", "g_a", 3)
    last = log.commit("g", T0, 6, 3)

    assert log.told(double_ownership, "from_zxid", "to_zxid", "session") == [(claimed, last, 3)]


def test_each_new_owner_has_its_own_row() -> None:
    """Commits under two claims of others, one after the other, are two rows."""
    log = _two()
    log.release("g", T0, 2)
    first = log.claim("g", T0, "g_b-0", 2)
    in_first = log.commit("g", T0, 6, 1)
    log.release("g", T0, 2)
    second = log.claim("g", T0, "g_b-0", 2)
    in_second = log.commit("g", T0, 7, 1)

    found = log.find(double_ownership)

    assert [(each.from_zxid, each.to_zxid) for each in found] == [(first, in_first), (second, in_second)]


def test_an_owner_that_released_and_commits_late_was_not_displaced() -> None:
    """A JVM member commits just after its own release: that is zombie_commit's."""
    log = _two()
    log.release("g", T0, 1)
    log.claim("g", T0, "g_b-0", 2)
    log.commit("g", T0, 6, 1)

    assert log.find(double_ownership) == []


def test_commits_before_the_next_claim_and_after_an_own_one_are_none() -> None:
    """An old owner that commits before anybody claims, or claims and releases by itself, is none."""
    log = _two()
    log.release("g", T0, 2)
    log.commit("g", T0, 6, 1)
    log.claim("g", T0, "g_a-0", 1)
    log.commit("g", T0, 7, 1)
    log.release("g", T0, 1)
    log.claim("g", T0, "g_b-0", 2)
    log.commit("g", T0, 8, 2)

    assert log.find(double_ownership) == []


def test_the_bump_of_a_claim_is_no_commit() -> None:
    """A claim of ours writes the offset that it found, as a fence; that is no commit of an old owner."""
    log = _two()
    log.release("g", T0, 2)
    log.claim_ours("g", T0, "g_b-0", 2, value=5)
    log.release("g", T0, 1)
    log.claim_ours("g", T0, "g_a-0", 1, value=5)

    assert log.find(double_ownership) == []


def test_what_it_says() -> None:
    """How often the old owner committed, how long after the claim, and whose that was."""
    log = _two()
    log.release("g", T0, 2)
    log.claim("g", T0, "g_b-0", 2)
    log.wait(100)
    log.commit("g", T0, 6, 1)

    (found,) = log.find(double_ownership)
    assert found.detail == "'g_a-0' committed once, up to 100 ms after 'g_b-0' of session 0x2 had claimed"
    log.wait(100)
    log.commit("g", T0, 7, 1)
    (found,) = log.find(double_ownership)
    assert found.detail.startswith("'g_a-0' committed 2 times, up to 200 ms after")


def test_an_owner_that_reclaimed_and_released_was_not_displaced() -> None:
    """An own claim makes good for the one that was lost; the release after it is polite."""
    log = _two()
    log.release("g", T0, 2)
    log.claim("g", T0, "g_a-0", 1)
    log.release("g", T0, 1)
    log.claim("g", T0, "g_b-0", 2)
    log.commit("g", T0, 6, 1)

    assert log.find(double_ownership) == []


def test_an_owner_that_closed_or_released_before_expiry_was_not_displaced() -> None:
    """Only an expiry takes a claim from a member that does not know of it."""
    closed = _two()
    closed.close(1)
    closed.claim("g", T0, "g_b-0", 2)
    closed.open(3)
    closed.join("g", "g_a", 3)
    closed.commit("g", T0, 6, 3)
    released = _two()
    released.release("g", T0, 1)
    released.claim("g", T0, "g_b-0", 2)
    released.commit("g", T0, 6, 1)
    released.expire(1)

    assert closed.find(double_ownership) == []
    assert released.find(double_ownership) == []
