"""Registrations of brokers that did not last."""

from __future__ import annotations

from tests.pure.audit.cluster import Cluster, started, state_path
from zkgroup.audit.findings.brokers import broker_flapping


def test_a_short_registration_is_reported_with_the_time_away() -> None:
    """Under five minutes up is a warning that says how long, how it ended, and how long it was away."""
    log = started(1, 2)
    log.wait(299_999)
    died = log.expire(2)
    log.wait(12_000)
    up = log.broker_comes(2, 22)
    log.wait(4_000)
    left = log.close(22)
    log.passes(1_000)

    found = log.find(broker_flapping)

    assert [(each.severity, each.session, each.from_zxid, each.to_zxid) for each in found] == [
        ("warning", 2, died, up),
        ("warning", 22, left, None),
    ]
    assert [each.detail for each in found] == [
        "broker 2 was up for 5.0 min only, its session expired, away for 12.0 s; it led nothing",
        "broker 2 was up for 4.0 s only, it closed its session, away for 1.0 s and not back; it led nothing",
    ]


def test_the_topics_that_it_led_are_named() -> None:
    """What it led while it was up, lost again or not; not what it led after that, or only followed."""
    log = started(1, 2)
    log.state(("before", 0), 2, (2,))
    log.state(("before", 0), 1, (1,), epoch=1)
    log.expire(2)
    log.state(("kept", 0), 2, (1, 2))
    log.state(("gone", 0), 1, (1, 2))
    log.broker_comes(2, 22)
    log.state(("a", 1), 2, (1, 2))
    log.state(("a", 0), 2, (1, 2))
    log.state(("a", 0), 1, (1, 2), epoch=1)
    log.delete(state_path(("a", 1)), 1)
    log.state(("unreadable", 0), 2, (2,))
    log.set(state_path(("unreadable", 0)), "{", 1)
    died = log.expire(22)
    log.state(("late", 0), 2, (2,))

    first, second = log.find(broker_flapping)

    assert first.detail.endswith("; it led 1 partition of before")
    assert (second.from_zxid, second.detail.rpartition("; ")[2]) == (
        died,
        "it led 4 partitions of a, kept, unreadable",
    )


def test_of_many_topics_the_first_ones_are_named() -> None:
    """Five by name, the others by their number."""
    log = started(1, 2)
    for number in range(7):
        log.state((f"t{number}", 0), 2, (2,))
    log.expire(2)

    (found,) = log.find(broker_flapping)

    assert found.detail.endswith("; it led 7 partitions of t0, t1, t2, t3, t4 and 2 more")


def test_a_long_life_and_one_that_lasts_are_none() -> None:
    """Five minutes up are long enough, unless `short_ms` says more; a life that goes on is never short."""
    log = started(1, 2)
    log.wait(300_000)
    log.expire(2)
    log.broker_comes(2, 22)
    log.passes(5_000)

    assert log.find(broker_flapping) == []
    assert len(log.find(broker_flapping, short_ms=600_000)) == 1


def test_the_life_of_a_snapshots_broker_began_when_it_was_made() -> None:
    """A registration of the snapshot lives since it was made: ten minutes, which is no short life."""
    log = Cluster(100)
    log.seed("/brokers/ids/1", "{}", zxid=9, session=1, ms=log.ms - 600_000)
    log.expire(1)

    assert log.find(broker_flapping) == []
