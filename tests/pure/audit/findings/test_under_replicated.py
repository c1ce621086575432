"""Replicas that are missing in the ISR, and how long."""

from __future__ import annotations

from tests.pure.audit.cluster import Cluster, state_path
from zkgroup.audit.findings.replicas import under_replicated
from zkgroup.audit.findings.rules import Finding

T0 = ("t", 0)


def placed() -> Cluster:
    log = Cluster()
    log.topic("t", {0: (1, 2, 3)})
    log.state(T0, 1, (1, 2, 3))
    return log


def intervals(log: Cluster, **bounds: float) -> list[Finding]:
    """The rows of partitions."""
    return [found for found in log.find(under_replicated, **bounds) if found.partition is not None]


def sums(log: Cluster) -> list[Finding]:
    """The rows of brokers."""
    return [found for found in log.find(under_replicated) if found.partition is None]


def test_each_missing_broker_is_reported_with_its_time() -> None:
    """One row from the first replica that fell out to the last that came back, with the time of each."""
    log = placed()
    first = log.state(T0, 1, (1, 2))
    log.wait(8_000)
    log.state(T0, 1, (1,))
    log.wait(4_000)
    log.state(T0, 1, (1, 3))
    log.wait(1_000)
    last = log.state(T0, 1, (1, 3, 2))

    (found,) = intervals(log)

    assert (found.severity, found.topic, found.partition) == ("warning", "t", 0)
    assert (found.from_zxid, found.to_zxid) == (first, last)
    assert (found.to_ms or 0) - (found.from_ms or 0) == 13_000
    assert found.detail == "replicas [1, 2, 3], not in sync: 2 for 5.0 s, 3 for 12.0 s"


def test_one_that_lasts_to_the_end() -> None:
    """A replica that is missing at the end is told with the time so far, and without an end."""
    log = placed()
    first = log.state(T0, 1, (1, 2))
    log.passes(30_000)

    (found,) = intervals(log)

    assert (found.from_zxid, found.to_zxid) == (first, None)
    assert found.detail == "replicas [1, 2, 3], not in sync: 3 for 30.0 s"


def test_shorter_than_the_bound_is_left_out() -> None:
    """A replica that is back before the bound is no finding; `least_ms` moves the bound."""
    log = placed()
    log.state(T0, 1, (1, 2))
    log.wait(9_999)
    log.state(T0, 1, (1, 2, 3))

    assert log.find(under_replicated) == []
    assert len(intervals(log, least_ms=5_000)) == 1


def test_a_longer_replica_list_is_under_replicated_until_the_new_ones_follow() -> None:
    """The first step of a move."""
    log = placed()
    first = log.topic("t", {0: (4, 1, 2, 3)}, 1)
    log.wait(20_000)
    last = log.state(T0, 1, (1, 2, 3, 4))

    assert [(each.from_zxid, each.to_zxid) for each in intervals(log)] == [(first, last)]


def test_a_topic_that_is_being_deleted_is_left_out_from_the_request_on() -> None:
    """The request to delete the topic ends the time; what the controller takes off then is not told."""
    log = placed()
    log.state(T0, 1, (1, 2))
    log.wait(12_000)
    asked = log.create("/admin/delete_topics/t")
    log.wait(60_000)
    log.state(T0, -1, ())
    log.delete(state_path(T0), 1)

    assert [(each.to_zxid, each.detail) for each in intervals(log)] == [
        (asked, "replicas [1, 2, 3], not in sync: 3 for 12.0 s")
    ]


def test_a_topic_of_the_same_name_starts_anew() -> None:
    """The time in which the topic was deleted, before it was made again, counts for nothing."""
    log = placed()
    log.state(T0, 1, (1, 2))
    log.delete(state_path(T0), 1)
    log.delete("/brokers/topics/t", 1)
    log.wait(60_000)
    log.topic("t", {0: (1, 2, 3)})
    log.state(T0, 1, (1, 2, 3))
    log.passes(60_000)

    assert log.find(under_replicated) == []


def test_a_broker_has_the_time_in_which_it_was_missing_in_any_partition() -> None:
    """Twenty seconds, of which fifteen were in two partitions at once; what is too short is not in it."""
    log = placed()
    log.topic("u", {0: (2, 3), 1: (1, 2)})
    log.state(("u", 0), 2, (2, 3))
    log.state(("u", 1), 1, (1, 2))
    log.wait(1_000)
    of_2 = log.state(T0, 1, (1, 3))
    log.wait(15_000)
    of_3 = log.state(T0, 1, (1,))
    log.state(("u", 0), 2, (2,))
    log.wait(15_000)
    log.state(T0, 1, (1, 2, 3))
    short = log.state(("u", 1), 1, (1,))
    log.wait(5_000)
    back_2 = log.state(("u", 1), 1, (1, 2))
    back_3 = log.state(("u", 0), 2, (2, 3))

    found = sums(log)

    assert short < back_2 < back_3
    assert [(each.severity, each.topic, each.session, each.from_zxid, each.to_zxid) for each in found] == [
        ("warning", None, None, of_2, short - 1),
        ("warning", None, None, of_3, back_3),
    ]
    assert [each.detail for each in found] == [
        "broker 2 was not in sync in 1 partition of 1 topic, for 30.0 s",
        "broker 3 was not in sync in 2 partitions of 2 topics, for 20.0 s",
    ]


def test_a_broker_that_is_missing_anywhere_at_the_end_has_no_end() -> None:
    """One of its partitions is enough; who is back has an end, though the partition still lacks another."""
    log = placed()
    log.state(T0, 1, (1,))
    log.wait(10_000)
    back_2 = log.state(T0, 1, (1, 2))
    log.passes(10_000)

    assert [(each.to_zxid, each.detail) for each in sums(log)] == [
        (None, "broker 3 was not in sync in 1 partition of 1 topic, for 20.0 s"),
        (back_2, "broker 2 was not in sync in 1 partition of 1 topic, for 10.0 s"),
    ]
    log.state(T0, 1, (1, 2, 3))
    assert [each.to_zxid for each in sums(log)] == [back_2, log.zxid]


def test_each_spell_of_a_partition_counts_from_its_own_beginning() -> None:
    """What was missing before it was whole again is not counted twice."""
    log = placed()
    for _ in range(2):
        log.state(T0, 1, (1, 2))
        log.wait(10_000)
        log.state(T0, 1, (1, 2, 3))
        log.wait(60_000)

    assert [each.detail for each in intervals(log)] == ["replicas [1, 2, 3], not in sync: 3 for 10.0 s"] * 2
    assert [each.detail for each in sums(log)] == [
        "broker 3 was not in sync in 1 partition of 1 topic, for 20.0 s"
    ]
