"""A claim that outlived the registration of its member."""

from __future__ import annotations

from tests.pure.audit.groups import alone
from tests.worlds.audit_log import AuditLog, owner
from zkgroup.audit.findings.ownership import orphan_owner_interval

T0 = ("t", 0)
REGISTRATION = "/consumers/g/ids/g_a"


def test_the_time_between_the_ends_of_registration_and_claim_is_reported() -> None:
    """A claim released 250 ms after its registration went is an error over just these 250 ms."""
    log = alone(1)
    gone = log.leave("g", "g_a", 1)
    log.wait(250)
    released = log.release("g", T0, 1)

    (found,) = log.find(orphan_owner_interval)

    assert (found.severity, found.from_zxid, found.to_zxid) == ("error", gone, released)
    assert found.to_ms - found.from_ms == 250


def test_one_that_comes_back_under_its_claims_ends_the_time() -> None:
    """A member that registers again while its claim stands ends the interval there."""
    log = alone(1)
    gone = log.leave("g", "g_a", 1)
    back = log.join("g", "g_a", 1)
    log.passes(60_000)

    assert log.told(orphan_owner_interval, "from_zxid", "to_zxid") == [(gone, back)]


def test_one_that_stands_at_the_end_needs_ten_seconds() -> None:
    """An interval that the history cuts off is info for ten seconds and an error after them."""
    log = alone(1)
    log.leave("g", "g_a", 1)
    log.passes(10_000)
    assert [found.severity for found in log.find(orphan_owner_interval)] == ["info"]

    log.passes(1)
    assert [found.severity for found in log.find(orphan_owner_interval)] == ["error"]


def test_what_goes_in_one_transaction_has_not_outlived() -> None:
    """The end of a session, a leave in one multi, and a registration that is renewed in one."""
    log = alone(1)
    log.multi(1, log.deletion(REGISTRATION), log.creation(REGISTRATION, "{}", ephemeral=True))
    log.multi(1, log.deletion(REGISTRATION), log.deletion(owner("g", T0)))
    assert log.find(orphan_owner_interval) == []

    for with_lists in (False, True):
        log = AuditLog(with_lists=with_lists)
        log.come("g", "g_a", 1)
        log.claim("g", T0, "g_a-0", 1)
        log.expire(1)
        assert log.find(orphan_owner_interval) == []


def test_another_member_of_the_same_client_does_not_stand_in() -> None:
    """Members that share a client share its session: the name tells whose claim it is."""
    log = alone(1)
    log.join("g", "g_b", 1)
    gone = log.leave("g", "g_a", 1)
    released = log.release("g", T0, 1)

    assert log.told(orphan_owner_interval, "from_zxid", "to_zxid") == [(gone, released)]
