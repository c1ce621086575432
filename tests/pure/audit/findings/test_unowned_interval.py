"""Times in which nobody owned a partition that a member wanted."""

from __future__ import annotations

from tests.pure.audit.groups import alone
from zkgroup.audit.findings.ownership import unowned_interval

T0 = ("t", 0)


def test_only_a_gap_over_the_bound_is_reported() -> None:
    """1,001 ms from release to claim are a warning, 1,000 ms are not, unless `longest_ms` is less."""
    log = alone(1)
    freed = log.release("g", T0, 1)
    log.wait(1_001)
    taken = log.claim("g", T0, "g_a-0", 1)
    log.release("g", T0, 1)
    log.wait(1_000)
    log.claim("g", T0, "g_a-0", 1)

    (found,) = log.find(unowned_interval)

    assert (found.severity, found.from_zxid, found.to_zxid) == ("warning", freed, taken)
    assert found.to_ms - found.from_ms == 1_001
    assert len(log.find(unowned_interval, longest_ms=999)) == 2


def test_it_lasts_to_the_end_without_a_claim() -> None:
    """A released partition that nobody claims again is told without an end."""
    log = alone(1)
    freed = log.release("g", T0, 1)
    log.passes(1_001)

    (found,) = log.find(unowned_interval)

    assert (found.from_zxid, found.to_zxid, found.to_ms) == (freed, None, None)


def test_only_the_time_counts_in_which_a_member_wants_the_topic() -> None:
    """With no member, or one that wants another topic, time does not count; it does from the join on."""
    log = alone(1)
    log.expire(1)
    log.wait(60_000)
    log.come("g", "g_other", 2, {"other": 1})
    log.wait(60_000)
    joined = log.come("g", "g_b", 3)
    log.wait(2_000)
    taken = log.claim("g", T0, "g_b-0", 3)

    assert log.told(unowned_interval, "from_zxid", "to_zxid") == [(joined, taken)]


def test_a_wildcard_wants_what_it_matches() -> None:
    """A white list whose pattern matches the topic wants it, so that its unowned time counts."""
    log = alone(1)
    log.open(2)
    log.create(
        "/consumers/g/ids/g_w",
        '{"version":1,"subscription":{"t.*":1},"pattern":"white_list"}',
        2,
        ephemeral=True,
    )
    freed = log.expire(1)
    log.wait(2_000)
    taken = log.claim("g", T0, "g_w-0", 2)

    assert log.told(unowned_interval, "from_zxid", "to_zxid") == [(freed, taken)]


def test_missing_topics_and_partitions_are_not_subscribed() -> None:
    """Partition 9 of a topic with one, and a deleted topic, lack no owner."""
    log = alone(1)
    log.claim("g", ("t", 9), "g_a-0", 1)
    log.release("g", ("t", 9), 1)
    log.delete("/brokers/topics/t")
    log.release("g", T0, 1)
    log.passes(60_000)

    assert log.find(unowned_interval) == []


def test_what_it_says() -> None:
    """Who had it before, and who came: the next owner, nobody, or nobody that wanted it."""
    log = alone(1)
    log.release("g", T0, 1)
    log.wait(2_000)
    log.claim("g", T0, "g_a-0", 1)
    log.release("g", T0, 1)
    log.wait(2_000)
    log.leave("g", "g_a", 1)
    log.wait(2_000)
    log.join("g", "g_a", 1)
    log.passes(3_000)

    assert [found.detail for found in log.find(unowned_interval)] == [
        "no member owned it for 2.0 s: 'g_a-0' before, then 'g_a-0'",
        "no member owned it for 2.0 s: 'g_a-0' before, until no member subscribed to it any more",
        "no member owned it for 3.0 s: 'g_a-0' before, no owner until the end",
    ]


def test_of_a_long_gap_a_short_demand_is_not_enough() -> None:
    """The bound is for the time in which a member wanted the topic, and that was one second."""
    log = alone(1)
    log.release("g", T0, 1)
    log.wait(1_000)
    log.leave("g", "g_a", 1)
    log.passes(60_000)

    assert log.find(unowned_interval) == []
