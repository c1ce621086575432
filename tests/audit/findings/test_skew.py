"""Members with very different shares, at the end."""

from __future__ import annotations

import pytest

from tests.audit.groups import T, alone, shared
from tests.audit.rows import Log
from zkgroup.audit.findings.skew import RULE


def _later(log: Log, ms: int = 10_001) -> Log:
    log.wait(ms)
    log.create(f"/mark-{log.zxid}")
    return log


def test_an_idle_member_that_the_plan_has_partitions_for_is_a_warning() -> None:
    """A member without partitions that the plan gives some is a warning, since its join."""
    log = alone()
    log.open(2)
    joined = log.join("g", "g_b", 2)

    (found,) = _later(log).find(RULE)

    assert (found.severity, found.group, found.from_zxid) == ("warning", "g", joined)
    assert found.detail == "idle, though the plan has partitions for them: g_b"


def test_shares_that_differ_more_than_the_plan_means_are_a_warning() -> None:
    """Three against one, where the plan deals out two each, is a warning with both shares."""
    log = shared()
    log.release("g", T[1], 1)
    log.claim("g", T[1], "g_b-0", 2)

    (found,) = _later(log).find(RULE)

    assert found.detail == "g_b owns 3, g_a owns 1; by the plan they would differ by 0"


def test_a_plan_that_is_uneven_by_itself_is_info() -> None:
    """Range cuts each topic by itself: the first member gets the odd one of each."""
    log = Log()
    wants = {f"t{n}": 1 for n in range(3)}
    for topic in wants:
        log.topic(topic, 1)
    for session, name in ((1, "g_a"), (2, "g_b")):
        log.open(session)
        log.join("g", name, session, wants)
    for topic in wants:
        log.claim("g", (topic, 0), "g_a-0", 1)

    (found,) = _later(log).find(RULE)

    assert (found.severity, found.detail) == (
        "info",
        "g_a owns 3, g_b owns 0, which is the plan of range: it cuts each topic by itself",
    )


def test_an_even_group_and_one_with_more_members_than_partitions_have_none() -> None:
    """Even shares are no skew, nor is one partition for two members."""
    assert _later(shared()).find(RULE) == []

    log = Log()
    log.topic("t", 1)
    for session, name in ((1, "g_a"), (2, "g_b")):
        log.open(session)
        log.join("g", name, session)
    log.claim("g", ("t", 0), "g_a-0", 1)
    assert _later(log).find(RULE) == []


@pytest.mark.parametrize(("ms", "found"), [(10_000, 0), (10_001, 1)])
def test_a_group_that_has_just_changed_is_given_ten_seconds(ms: int, found: int) -> None:
    """Ten seconds after a join the uneven shares are not told yet; a millisecond later they are."""
    log = alone()
    log.open(2)
    log.join("g", "g_b", 2)

    assert len(_later(log, ms).find(RULE)) == found


def test_where_the_plan_cannot_be_known_nothing_is_said() -> None:
    """A wildcard of Java's that we cannot evaluate, or round robin with unequal subscriptions."""
    log = alone()
    log.create("/consumers/g/ids/g_w", '{"version":1,"subscription":{"[a&&b]":1},"pattern":"white_list"}', 2)
    assert _later(log).find(RULE) == []

    log = alone(zkgroup="1", strategy="roundrobin")
    log.join("g", "g_b", 2, {"t": 1, "u": 1}, zkgroup="1", strategy="roundrobin")
    assert _later(log).find(RULE) == []
