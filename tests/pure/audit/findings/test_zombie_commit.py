"""Commits by sessions that do not own the partition."""

from __future__ import annotations

from tests.worlds.audit_log import AuditLog, offset, owner
from zkgroup.audit.findings.offsets import zombie_commit
from zkgroup.zkfiles.records import Operation, TransactionType

A, B, TOOL = 0xA, 0xB, 0xC
T0 = ("t", 0)


def handed_over(value: int = 10) -> AuditLog:
    """A log in which a owned t-0, committed, released it, and b owns it now."""
    log = AuditLog()
    log.join("g", "g_a", A)
    log.join("g", "g_b", B)
    log.claim("g", T0, "g_a-0", A)
    log.commit("g", T0, value, A)
    log.release("g", T0, A)
    log.claim("g", T0, "g_b-0", B)
    return log


def test_a_commit_under_anothers_ownership_is_an_error() -> None:
    """Even one that repeats or raises the offset."""
    log = handed_over(10)
    repeats = log.commit("g", T0, 10, A)
    raises = log.commit("g", T0, 12, A)
    log.commit("g", T0, 13, B)

    found = log.find(zombie_commit)

    assert [(each.severity, each.from_zxid, each.session) for each in found] == [
        ("error", repeats, A),
        ("error", raises, A),
    ]
    assert (found[1].group, found[1].topic, found[1].partition) == ("g", "t", 0)
    assert found[1].detail == (
        "10 -> 12 by member g_a (session 0xa), but 'g_b-0' of member g_b (session 0xb) owned it"
    )


def test_a_commit_just_after_the_own_release_is_a_warning() -> None:
    """As JVM members do; an error once the offset falls, or the successor is there."""
    log = handed_over(10)
    log.release("g", T0, B)
    late = log.commit("g", T0, 11, B)
    fell = log.commit("g", T0, 9, B)
    log.claim("g", T0, "g_a-0", A)
    too_late = log.commit("g", T0, 12, B)

    assert log.told(zombie_commit, "severity", "from_zxid") == [
        ("warning", late),
        ("error", fell),
        ("error", too_late),
    ]


def test_a_commit_in_the_transaction_of_its_release_is_fine() -> None:
    """Ours commit before they delete the owner, in one multi."""
    log = handed_over(10)
    log.multi(B, log.setting(offset("g", T0), "11"), log.deletion(owner("g", T0)))

    assert log.find(zombie_commit) == []


def test_a_commit_behind_its_release_in_one_transaction_is_not() -> None:
    """The order inside a transaction counts."""
    log = handed_over(10)
    zxid = log.multi(B, log.deletion(owner("g", T0)), log.setting(offset("g", T0), "11"))

    assert log.told(zombie_commit, "severity", "from_zxid") == [("warning", zxid)]


def test_the_bump_of_a_claim_is_no_commit() -> None:
    """It is written by the new owner, and repeats the offset."""
    log = AuditLog()
    log.claim_ours("g", T0, "g_a-0", A)
    log.commit("g", T0, 3, A)
    log.close(A)
    log.claim_ours("g", T0, "g_b-0", B, value=3)

    assert log.find(zombie_commit) == []


def test_the_end_of_a_session_ends_its_ownership() -> None:
    """Whether the record lists what goes, or not."""
    for with_lists in (True, False):
        log = AuditLog(with_lists=with_lists)
        log.open(A)
        log.claim("g", T0, "g_a-0", A)
        log.expire(A)
        zxid = log.commit("g", T0, 3, B)

        assert log.told(zombie_commit, "severity", "from_zxid") == [("warning", zxid)]


def test_an_owner_of_the_same_text_in_another_session_is_another() -> None:
    """A JVM member adopts it, and commits for a claim that is not its own."""
    log = AuditLog()
    log.claim("g", T0, "g_d-0", A)
    log.join("g", "g_d", B)
    zxid = log.commit("g", T0, 22, B)

    assert log.told(zombie_commit, "severity", "from_zxid") == [("error", zxid)]


def test_an_operators_reset_is_information() -> None:
    """It never owns what it resets."""
    log = handed_over(10)
    zxid = log.multi(TOOL, log.setting(offset("g", T0), "4"), log.creation("/consumers/g/resets/t-0", "{}"))

    assert log.told(zombie_commit, "severity", "from_zxid") == [("info", zxid)]


def test_a_partition_without_an_owner_in_the_log_gives_no_finding() -> None:
    """Who commits by OffsetCommit v0 owns nothing, and a log may begin under an owner."""
    log = AuditLog()
    log.commit("gv0", T0, 7, A)
    log.commit("gv0", T0, 8, A)

    assert log.find(zombie_commit) == []


def test_an_owner_of_the_snapshot_owns() -> None:
    """The seed says in which session."""
    log = AuditLog(zxid=100)
    log.seed(owner("g", T0), "g_a-0", zxid=5, session=A)
    log.seed(offset("g", T0), "10", zxid=6)
    log.commit("g", T0, 11, A)
    zxid = log.commit("g", T0, 12, B)

    assert log.told(zombie_commit, "severity", "from_zxid") == [("error", zxid)]


def test_a_failed_transaction_wrote_nothing() -> None:
    """Its operations stand in the log nevertheless."""
    log = handed_over(10)
    log.multi(A, log.setting(offset("g", T0), "1"), Operation(TransactionType.ERROR, error=-101))

    assert log.find(zombie_commit) == []


def test_the_same_member_in_another_session_is_named_as_such() -> None:
    """A member took an owner with its own name for its own: both sides have that name, not that session."""
    log = AuditLog()
    log.topic("t", 1)
    log.open(0xF)
    log.claim("g", ("t", 0), "g_a-0", 0xF)
    log.come("g", "g_a", 0xA)
    log.commit("g", ("t", 0), 5, 0xA)

    (found,) = log.find(zombie_commit)

    assert found.detail == (
        "5 by member g_a (session 0xa), but 'g_a-0' of session 0xf owned it: the same member, but another"
        " session"
    )
