"""An owner at the end whose member is not registered."""

from __future__ import annotations

from tests.pure.audit.groups import alone
from tests.worlds.audit_log import AuditLog
from zkgroup.audit.findings.ownership import orphan_owner

T0 = ("t", 0)


def test_an_owner_left_behind_is_an_error_from_when_its_member_went() -> None:
    """An owner that stands over ten seconds after its member unregistered is an error since then."""
    log = alone(1, owned=0)
    log.claim("g", T0, "g_a-0", 1)
    gone = log.leave("g", "g_a", 1)
    log.passes(10_001)

    (found,) = log.find(orphan_owner)

    assert (found.severity, found.from_zxid, found.to_zxid, found.session) == ("error", gone, None, 1)
    assert (found.group, found.topic, found.partition) == ("g", "t", 0)


def test_of_a_member_that_never_was_it_counts_from_the_claim() -> None:
    """An owner in the name of a member that never registered is an error since its claim."""
    log = alone(1, owned=0)
    claimed = log.claim("g", T0, "g_other-0", 1)
    log.passes(10_001)

    (found,) = log.find(orphan_owner)

    assert (found.severity, found.from_zxid) == ("error", claimed)


def test_a_history_that_ends_at_once_does_not_make_it_an_error() -> None:
    """A member may be on its way out: ten seconds are granted, or what the user says."""
    log = alone(1, owned=0)
    log.claim("g", T0, "g_a-0", 1)
    log.leave("g", "g_a", 1)
    log.passes(10_000)

    assert [found.severity for found in log.find(orphan_owner)] == ["info"]
    assert [found.severity for found in log.find(orphan_owner, grace_ms=9_999)] == ["error"]


def test_a_registered_owner_and_one_that_went_with_its_session_are_none() -> None:
    """An owner with its member registered is none, nor is one that expired along with the member."""
    log = alone(1, owned=0)
    log.claim("g", T0, "g_a-0", 1)
    log.passes(60_000)
    assert log.find(orphan_owner) == []

    log.expire(1)
    log.passes(60_000)
    assert log.find(orphan_owner) == []


def test_a_snapshot_alone_is_enough() -> None:
    """An owner without a registration in a snapshot is an error, with nothing but the snapshot."""
    log = AuditLog()
    log.seed("/consumers/g/owners/t/0", "g_a-0", zxid=7, ms=log.ms - 60_000, session=5)
    log.seed("/mark", zxid=9)

    (found,) = log.find(orphan_owner)

    assert (found.severity, found.from_zxid, found.session) == ("error", 7, 5)


def test_a_log_without_its_beginning_says_nothing_of_sessions_from_before() -> None:
    """Its member may have registered before the log begins."""
    log = AuditLog(zxid=1000)
    log.claim("g", T0, "g_a-0", 1)
    log.passes(60_000)

    assert log.find(orphan_owner) == []


def test_of_a_session_that_the_log_saw_begin_all_is_known_without_the_beginning_too() -> None:
    """Whatever it registered is in the log."""
    log = AuditLog(zxid=1000)
    log.open(1)
    claimed = log.claim("g", T0, "g_a-0", 1)
    log.passes(60_000)

    assert log.told(orphan_owner, "severity", "from_zxid") == [("error", claimed)]


def test_a_member_that_was_gone_before_the_claim_has_no_part_in_it() -> None:
    """It stands alone since the claim, not since that registration went."""
    log = alone(1, owned=0)
    log.leave("g", "g_a", 1)
    log.wait(5_000)
    claimed = log.claim("g", T0, "g_a-0", 1)
    log.passes(10_000)

    assert log.told(orphan_owner, "severity", "from_zxid") == [("info", claimed)]
