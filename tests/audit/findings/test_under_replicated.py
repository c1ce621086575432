"""Replicas that are missing in the ISR, and how long."""

from __future__ import annotations

from tests.audit.cluster import Cluster, state_path
from zkgroup.audit.findings.under_replicated import RULE

T0 = ("t", 0)


def placed() -> Cluster:
    log = Cluster()
    log.topic("t", {0: (1, 2, 3)})
    log.state(T0, 1, (1, 2, 3))
    return log


def test_each_missing_broker_is_told_with_its_time() -> None:
    """One row from the first replica that fell out to the last that came back, with the time of each."""
    log = placed()
    first = log.state(T0, 1, (1, 2))
    log.wait(8_000)
    log.state(T0, 1, (1,))
    log.wait(4_000)
    log.state(T0, 1, (1, 3))
    log.wait(1_000)
    last = log.state(T0, 1, (1, 3, 2))

    (found,) = log.find(RULE)

    assert (found.severity, found.topic, found.partition) == ("warning", "t", 0)
    assert (found.from_zxid, found.to_zxid) == (first, last)
    assert (found.to_ms or 0) - (found.from_ms or 0) == 13_000
    assert found.detail == "replicas [1, 2, 3], not in sync: 2 for 5.0 s, 3 for 12.0 s"


def test_one_that_lasts_to_the_end() -> None:
    """A replica that is missing at the end is told with the time so far, and without an end."""
    log = placed()
    first = log.state(T0, 1, (1, 2))
    log.wait(30_000)
    log.open(9)

    (found,) = log.find(RULE)

    assert (found.from_zxid, found.to_zxid) == (first, None)
    assert found.detail == "replicas [1, 2, 3], not in sync: 3 for 30.0 s"


def test_shorter_than_the_bound_is_left_out() -> None:
    """A replica that is back before the bound is no finding; `least_ms` moves the bound."""
    log = placed()
    log.state(T0, 1, (1, 2))
    log.wait(9_999)
    log.state(T0, 1, (1, 2, 3))

    assert log.find(RULE) == []
    assert len(log.find(RULE, least_ms=5_000)) == 1


def test_a_longer_replica_list_is_under_replicated_until_the_new_ones_follow() -> None:
    """The first step of a move."""
    log = placed()
    first = log.topic("t", {0: (4, 1, 2, 3)}, 1)
    log.wait(20_000)
    last = log.state(T0, 1, (1, 2, 3, 4))

    assert [(each.from_zxid, each.to_zxid) for each in log.find(RULE)] == [(first, last)]


def test_a_topic_that_is_being_deleted_is_left_out_from_the_request_on() -> None:
    """The request to delete the topic ends the time; what the controller takes off then is not told."""
    log = placed()
    log.state(T0, 1, (1, 2))
    log.wait(12_000)
    asked = log.create("/admin/delete_topics/t")
    log.wait(60_000)
    log.state(T0, -1, ())
    log.delete(state_path(T0), 1)

    assert [(each.to_zxid, each.detail) for each in log.find(RULE)] == [
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
    log.wait(60_000)
    log.open(9)

    assert log.find(RULE) == []
