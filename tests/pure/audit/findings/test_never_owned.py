"""Partitions that members want and nobody owns, at the end."""

from __future__ import annotations

from tests.pure.audit.groups import alone
from tests.worlds.audit_log import AuditLog
from zkgroup.audit.findings.ownership import never_owned


def test_an_unclaimed_partition_is_an_error_since_its_subscription() -> None:
    """A partition unclaimed for over ten seconds is an error since the join; the plan says whose it is."""
    log = alone(3, owned=2).passes(10_001)

    (found,) = log.find(never_owned)

    assert (found.severity, found.topic, found.partition, found.from_zxid) == ("error", "t", 2, 3)
    assert "it is assigned to 'g_a-0'" in found.detail


def test_what_was_released_is_one_from_then_on() -> None:
    """A released partition counts from its release, and ten seconds of it are info."""
    log = alone(3, owned=2)
    log.wait(60_000)
    freed = log.release("g", ("t", 0), 1)
    log.passes(10_000)

    found = {each.partition: (each.severity, each.from_zxid) for each in log.find(never_owned)}

    assert found == {0: ("info", freed), 2: ("error", 3)}


def test_a_group_without_members_and_one_that_wants_nothing_lack_nothing() -> None:
    """No member left, no subscription, or a topic that is not there: nothing is missed."""
    log = alone(3, owned=2)
    log.expire(1)
    log.open(2)
    log.join("h", "h_a", 2, {})
    log.join("i", "i_a", 2, {"no-such-topic": 1})

    assert log.passes(60_000).find(never_owned) == []


def test_what_the_members_own_is_not_missing() -> None:
    """Where each wanted partition has an owner there is no finding, however long it lasts."""
    log = alone(3, owned=2)
    log.claim("g", ("t", 2), "g_a-0", 1)

    assert log.passes(60_000).find(never_owned) == []


def test_new_partitions_count_from_their_creation() -> None:
    """A partition that the topic gained counts since then, and `grace_ms` says when it is an error."""
    log = alone(3, owned=2)
    log.claim("g", ("t", 2), "g_a-0", 1)
    log.wait(60_000)
    grown = log.topic("t", 4)

    assert [(each.severity, each.from_zxid) for each in log.passes(1_000).find(never_owned)] == [
        ("info", grown)
    ]
    assert [each.severity for each in log.find(never_owned, grace_ms=500)] == ["error"]


def test_a_log_without_its_beginning_covers_only_its_own_records() -> None:
    """Without the log's beginning an unseen owner may stand: only the released partition is told."""
    log = AuditLog(zxid=1000)
    log.topic("t", 2)
    log.join("g", "g_a", 1)
    log.claim("g", ("t", 0), "g_a-0", 1)
    log.release("g", ("t", 0), 1)

    assert [each.partition for each in log.passes(60_000).find(never_owned)] == [0]
