"""Leaders that their own state does not count as in sync."""

from __future__ import annotations

from tests.pure.audit.cluster import Cluster, state_path
from zkgroup.audit.findings.replicas import leader_not_in_isr

T0, T1 = ("t", 0), ("t", 1)


def test_a_leader_outside_the_isr_is_an_error_until_it_changes() -> None:
    """A leader outside its own ISR is an error until a state mends it, over a second such leader."""
    log = Cluster()
    log.topic("t", {0: (1, 2), 1: (1, 2)})
    log.state(T0, 1, (1, 2))
    log.state(T1, 2, (1, 2))
    bad = log.state(T0, 1, (2,))
    log.wait(3_000)
    log.state(T0, 3, (2,), epoch=1)
    log.wait(2_000)
    good = log.state(T0, 2, (2,), epoch=2)

    found = log.find(leader_not_in_isr)

    assert [(each.severity, each.topic, each.partition) for each in found] == [("error", "t", 0)]
    assert (found[0].from_zxid, found[0].to_zxid, found[0].session) == (bad, good, 1)
    assert found[0].detail == "leader 1 is not in the ISR [2] for 5.0 s"


def test_one_that_a_snapshot_shows_lasts_to_the_end() -> None:
    """Since it was last written, which is all that a snapshot says."""
    log = Cluster(100)
    log.seed("/brokers/topics/t", '{"version":1,"partitions":{"0":[1,2]}}', zxid=5, ms=log.ms - 90_000)
    state = '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[2]}'
    log.seed(state_path(T0), state, zxid=6, mtime_ms=log.ms - 60_000)
    first = log.open(1)

    (found,) = log.find(leader_not_in_isr)

    assert (found.from_zxid, found.to_zxid, found.from_ms) == (first, None, log.ms - 60_000)


def test_no_leader_and_a_state_that_cannot_be_read_are_none() -> None:
    """Leader -1 and a state that is no JSON have no leader that could be outside the ISR."""
    log = Cluster()
    log.topic("t", {0: (1, 2)})
    log.state(T0, -1, (2,))
    log.set(state_path(T0), "not JSON", 1)

    assert log.find(leader_not_in_isr) == []


def test_what_one_multi_corrects_is_no_finding() -> None:
    """Between its operations a multi may say anything."""
    log = Cluster()
    log.topic("t", {0: (1, 2)})
    log.state(T0, 1, (1, 2))
    path = state_path(T0)
    bad = '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":1,"isr":[2]}'
    log.multi(1, log.setting(path, bad), log.setting(path, bad.replace('"leader":1', '"leader":2')))

    assert log.find(leader_not_in_isr) == []
