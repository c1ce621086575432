"""Replicas that fall out of the ISR and come back."""

from __future__ import annotations

from tests.pure.audit.cluster import Cluster, started
from zkgroup.audit.findings.replicas import isr_flapping

T0 = ("t", 0)


def placed() -> Cluster:
    log = started(1, 2, 3)
    log.topic("t", {0: (1, 2, 3)})
    log.state(T0, 1, (1, 2, 3))
    return log


def flap(log: Cluster, away_ms: int) -> tuple[int, int]:
    """Broker 3 leaves and comes back."""
    out = log.state(T0, 1, (1, 2))
    log.wait(away_ms)
    return out, log.state(T0, 1, (1, 2, 3))


def test_pairs_that_follow_each_other_are_one_finding() -> None:
    """Out and back three times, a minute apart at most, is one warning with the time away in all."""
    log = placed()
    first, _ = flap(log, 2_000)
    log.wait(30_000)
    flap(log, 3_000)
    log.wait(60_000)
    _, last = flap(log, 1_000)

    (found,) = log.find(isr_flapping)

    assert (found.severity, found.topic, found.partition) == ("warning", "t", 0)
    assert (found.from_zxid, found.to_zxid) == (first, last)
    assert found.detail == "broker 3 left the ISR and came back 3 times, away for 6.0 s"


def test_pairs_far_from_each_other_are_two() -> None:
    """More than a minute between two pairs makes two findings, and none where `pairs=2` asks for a series."""
    log = placed()
    one = flap(log, 2_000)
    log.wait(60_001)
    other = flap(log, 2_000)

    assert log.told(isr_flapping, "from_zxid", "to_zxid") == [one, other]
    assert log.find(isr_flapping, pairs=2) == []


def test_away_for_longer_than_a_minute_is_no_flapping() -> None:
    """A replica that comes back after more than a minute was away, and did not flap."""
    log = placed()
    flap(log, 60_001)

    assert log.find(isr_flapping) == []


def test_a_broker_that_was_started_again_is_none() -> None:
    """Whether the leader noticed before the session ended, or the controller after."""
    log = placed()
    log.state(T0, 1, (1, 2))
    log.expire(3)
    log.state(T0, 1, (1,))
    log.broker_comes(3, 33)
    log.expire(2)
    log.broker_comes(2, 22)
    log.state(T0, 1, (1, 3, 2))

    assert [each.detail for each in log.find(isr_flapping)] == []


def test_one_that_a_move_takes_off_and_another_brings_back_is_none() -> None:
    """A replica that leaves and returns by changes of the replica list did not flap."""
    log = placed()
    log.state(T0, 1, (1, 2), epoch=1)
    log.topic("t", {0: (1, 2)}, 1)
    log.wait(2_000)
    log.topic("t", {0: (1, 2, 3)}, 1)
    log.state(T0, 1, (1, 2, 3), epoch=1)

    assert log.find(isr_flapping) == []


def test_one_that_stays_away_is_none() -> None:
    """A replica that left the ISR and never came back is not flapping."""
    log = placed()
    log.state(T0, 1, (1, 2))

    assert log.find(isr_flapping) == []
