"""A claim that somebody else deleted."""

from __future__ import annotations

import pytest

from tests.worlds.audit_log import AuditLog, owner
from zkgroup.audit.findings.ownership import claim_stolen

T0 = ("t", 0)


def _group(*, with_lists: bool = False) -> AuditLog:
    log = AuditLog(with_lists=with_lists)
    log.open(1)
    log.open(2)
    log.join("g", "g_a", 1)
    log.claim("g", T0, "g_a-0", 1)
    return log


def test_a_deletion_by_another_session_is_an_error_where_it_happened() -> None:
    """An owner that another session deletes is an error at that zxid; the detail names who lost it."""
    log = _group()
    stolen = log.release("g", T0, 2)

    (found,) = log.find(claim_stolen)

    assert (found.severity, found.from_zxid, found.to_zxid, found.session) == ("error", stolen, stolen, 2)
    assert "member g_a (session 0x1)" in found.detail


def test_one_multi_that_takes_it_over_is_found_too() -> None:
    """A multi that deletes a foreign owner and makes its own in its place has stolen it as well."""
    log = _group()
    path = owner("g", T0)
    taken = log.multi(2, log.deletion(path), log.creation(path, "g_x-0", ephemeral=True))

    assert [each.from_zxid for each in log.find(claim_stolen)] == [taken]


@pytest.mark.parametrize("with_lists", [False, True])
@pytest.mark.parametrize("expired", [False, True])
def test_releases_and_ends_of_sessions_are_none(*, with_lists: bool, expired: bool) -> None:
    """A member's own releases, and owners that go with its session, listed there or not, are no theft."""
    log = _group(with_lists=with_lists)
    log.release("g", T0, 1)
    log.claim_ours("g", T0, "g_a-0", 1)
    log.close(1, expired=expired)

    assert log.find(claim_stolen) == []
