"""Brokers that lead less than they should, at the end."""

from __future__ import annotations

from tests.pure.audit.cluster import Cluster, started
from zkgroup.audit.findings.brokers import preferred_leader_imbalance


def led() -> Cluster:
    """Ten partitions of two topics that broker 1 should lead, and does."""
    log = started(1, 2)
    for topic in ("t", "u"):
        log.topic(topic, dict.fromkeys(range(5), (1, 2)))
        for partition in range(5):
            log.state((topic, partition), 1, (1, 2))
    return log


def test_more_than_a_tenth_away_is_a_warning() -> None:
    """One of ten not led by its first replica is allowed, two are a warning; `share` moves the bound."""
    log = led()
    log.state(("t", 0), 2, (1, 2), epoch=1)
    assert log.find(preferred_leader_imbalance) == []
    log.state(("u", 0), 2, (1, 2), epoch=1)

    (found,) = log.find(preferred_leader_imbalance)

    assert (found.severity, found.from_zxid, found.to_zxid) == ("warning", log.zxid, None)
    assert found.detail == "broker 1 does not lead 2 of 10 partitions (20%) that it should"
    assert log.find(preferred_leader_imbalance, share=0.2) == []


def test_only_the_end_counts() -> None:
    """Leaders that were elsewhere for a while and are back at the end are no finding."""
    log = led()
    for partition in range(5):
        log.state(("t", partition), 2, (1, 2), epoch=1)
    for partition in range(5):
        log.state(("t", partition), 1, (1, 2), epoch=2)

    assert log.find(preferred_leader_imbalance) == []


def test_topics_that_are_gone_or_going_do_not_count() -> None:
    """Partitions of a deleted topic, and of one whose deletion is asked for, are not counted."""
    log = led()
    log.state(("t", 0), -1, (), epoch=1)
    log.state(("t", 1), -1, (), epoch=1)
    log.create("/admin/delete_topics/t")
    log.state(("u", 0), 2, (1, 2), epoch=1)
    log.delete("/brokers/topics/u")

    assert log.find(preferred_leader_imbalance) == []


def test_a_broker_that_is_down_is_said_to_be() -> None:
    """A broker that is not registered leads nothing, and the row says that it is down."""
    log = led()
    log.expire(1)
    for partition in range(5):
        log.state(("t", partition), 2, (2,), epoch=1)

    assert [each.detail for each in log.find(preferred_leader_imbalance)] == [
        "broker 1 does not lead 5 of 10 partitions (50%) that it should; it is not registered"
    ]
