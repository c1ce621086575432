"""Groups of consumers that write owners in another client's format."""

from __future__ import annotations

from tests.worlds.audit_log import AuditLog, registration
from zkgroup.audit.findings.all_rules import RULES
from zkgroup.audit.findings.ownership import orphan_owner, owner_session_mismatch
from zkgroup.audit.findings.registrations import foreign_owner_format

GO = ("host:7b0cfb39-0001", "host-1")
"""Ids of consumers of kazoo-go; the second ends as a thread id does."""


def _group() -> AuditLog:
    """Two consumers, which share five partitions in their own way, and a rebalance."""
    log = AuditLog()
    log.topic("t", 5)
    for session, name in enumerate(GO, 1):
        log.come("web", name, session)
    for number in range(5):
        session = 1 if number < 4 else 2
        log.claim("web", ("t", number), GO[session - 1], session)
        log.commit("web", ("t", number), 10, session)
    log.wait(30_000)
    log.commit("web", ("t", 3), 20, 1)
    log.release("web", ("t", 3), 1)
    log.claim("web", ("t", 3), GO[1], 2)
    log.commit("web", ("t", 3), 30, 2)
    return log.passes(30_000)


def test_a_healthy_group_is_named_and_no_fault_is_found() -> None:
    """The session that claims has the registration; how they share is not judged."""
    log = _group()

    (named,) = log.find(foreign_owner_format)
    faults = [one for rule in RULES for one in log.find(rule) if one.severity != "info"]

    assert (named.severity, named.group) == ("info", "web")
    assert named.detail.startswith("5 owners are the id of a consumer alone")
    assert faults == []


def test_of_a_snapshot_it_is_the_same() -> None:
    """As a live ensemble is read."""
    log = AuditLog()
    for session, name in enumerate(GO, 1):
        log.seed(f"/consumers/web/ids/{name}", registration(), zxid=session, session=session)
        log.seed(f"/consumers/web/owners/t/{session}", name, zxid=5 + session, session=session)

    assert [one.severity for rule in RULES for one in log.find(rule)] == ["info"]


def test_another_session_or_no_registration_are_faults_still() -> None:
    """A bare id that the claiming session has not registered, and one that is gone."""
    log = _group()
    log.open(9)
    log.release("web", ("t", 0), 1)
    claimed = log.claim("web", ("t", 0), GO[0], 9)
    log.leave("web", GO[1], 2)

    assert [one.from_zxid for one in log.find(owner_session_mismatch)] == [claimed]
    orphans = {one.partition for one in log.passes(20_000).find(orphan_owner)}
    assert orphans == {3, 4}
