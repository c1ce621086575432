"""Members with very different shares, at the end."""

from __future__ import annotations

import pytest

from tests.pure.audit.groups import T, alone, shared
from tests.worlds.audit_log import AuditLog
from zkgroup.audit.findings.rebalances import skew


def test_an_idle_member_that_the_plan_has_partitions_for_is_a_warning() -> None:
    """A member without partitions that is assigned some is a warning, since its join."""
    log = alone()
    joined = log.come("g", "g_b", 2)

    (found,) = log.passes(10_001).find(skew)

    assert (found.severity, found.group, found.from_zxid) == ("warning", "g", joined)
    assert found.detail == "idle, though the plan has partitions for them: g_b"


def test_shares_that_differ_more_than_the_plan_means_are_a_warning() -> None:
    """Three against one, where the plan deals out two each, is a warning with both shares."""
    log = shared()
    log.release("g", T[1], 1)
    log.claim("g", T[1], "g_b-0", 2)

    (found,) = log.passes(10_001).find(skew)

    assert found.severity == "warning"
    assert found.detail == "g_b owns 3, g_a owns 1; by the plan they would differ by 0"


def test_a_plan_that_is_uneven_by_itself_is_info() -> None:
    """Range cuts each topic by itself: the first member gets the odd one of each."""
    log = AuditLog()
    wants = {f"t{n}": 1 for n in range(3)}
    for topic in wants:
        log.topic(topic, 1)
    for session, name in ((1, "g_a"), (2, "g_b")):
        log.come("g", name, session, wants)
    for topic in wants:
        log.claim("g", (topic, 0), "g_a-0", 1)

    (found,) = log.passes(10_001).find(skew)

    assert (found.severity, found.detail) == (
        "info",
        "g_a owns 3, g_b owns 0, which is the plan of range: it cuts each topic by itself",
    )


def test_an_even_group_and_one_with_more_members_than_partitions_have_none() -> None:
    """Even shares are no skew, nor is one partition for two members."""
    assert shared().passes(10_001).find(skew) == []

    log = AuditLog()
    log.topic("t", 1)
    for session, name in ((1, "g_a"), (2, "g_b")):
        log.come("g", name, session)
    log.claim("g", ("t", 0), "g_a-0", 1)
    assert log.passes(10_001).find(skew) == []


@pytest.mark.parametrize(("ms", "found"), [(10_000, 0), (10_001, 1)])
def test_a_group_that_has_just_changed_is_given_ten_seconds(ms: int, found: int) -> None:
    """Ten seconds after a join the uneven shares are not told yet; a millisecond later they are."""
    log = alone()
    log.come("g", "g_b", 2)

    assert len(log.passes(ms).find(skew)) == found


def test_where_the_plan_cannot_be_known_nothing_is_said() -> None:
    """A wildcard of Java's that we cannot evaluate, or round robin with unequal subscriptions."""
    log = alone()
    log.create("/consumers/g/ids/g_w", '{"version":1,"subscription":{"[a&&b]":1},"pattern":"white_list"}', 2)
    assert log.passes(10_001).find(skew) == []

    log = alone(zkgroup="1", strategy="roundrobin")
    log.join("g", "g_b", 2, {"t": 1, "u": 1}, zkgroup="1", strategy="roundrobin")
    assert log.passes(10_001).find(skew) == []


def test_idle_members_beyond_three_are_a_number() -> None:
    """So that the row stays short."""
    log = AuditLog()
    log.topic("t", 6)
    for session in range(1, 7):
        log.come("g", f"g_{session}", session)
    for number in range(6):
        log.claim("g", ("t", number), "g_1-0", 1)

    (found,) = log.passes(10_001).find(skew)

    assert found.severity == "warning"
    assert found.detail.endswith("partitions for them: g_2, g_3, g_4 and 2 more")


def test_an_uneven_share_that_is_not_the_plans_is_no_info() -> None:
    """The plan gives both two each; one of them lacks one, which never_owned tells."""
    log = shared()
    log.release("g", T[3], 2)

    assert log.passes(10_001).find(skew) == []


def test_an_uneven_assignment_is_reported_for_equal_owners_only() -> None:
    """Members that want different topics are no equals; and a plan that is not carried out says nothing."""
    unequal, unfinished = AuditLog(), AuditLog()
    for log in (unequal, unfinished):
        for number in range(3):
            log.topic(f"t{number}", 1)
        log.topic("u", 1)
        for session, name in ((1, "g_a"), (2, "g_b")):
            log.open(session)
            is_other = log is unequal and session == 2
            log.join("g", name, session, {"u": 1} if is_other else {f"t{n}": 1 for n in range(3)})
    for number in range(3):
        unequal.claim("g", (f"t{number}", 0), "g_a-0", 1)
    unequal.claim("g", ("u", 0), "g_b-0", 2)
    for number in range(2):
        unfinished.claim("g", (f"t{number}", 0), "g_a-0", 1)

    assert unequal.passes(10_001).find(skew) == []
    assert unfinished.passes(10_001).find(skew) == []
    unfinished.claim("g", ("t2", 0), "g_a-0", 1)
    assert [found.severity for found in unfinished.passes(10_001).find(skew)] == ["info"]


def test_only_members_and_owners_count_as_a_change() -> None:
    """What members publish beside them goes on at rest, too."""
    log = alone()
    log.come("g", "g_b", 2)
    log.wait(10_001)
    log.create("/consumers/g/views/g_a", "{}", 1, ephemeral=True)

    assert len(log.find(skew)) == 1
