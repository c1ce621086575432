"""Leaders that were not in sync when they were elected."""

from __future__ import annotations

import pytest

from tests.pure.audit.cluster import Cluster, state_path
from zkgroup.audit.findings.replicas import unclean_election
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotConfig

T0 = ("t", 0)


def placed(*replicas: int) -> Cluster:
    log = Cluster()
    log.topic("t", {0: replicas})
    log.state(T0, replicas[0], replicas)
    return log


def test_a_leader_from_outside_the_last_isr_is_an_error() -> None:
    """A new leader that the ISR before lacked is an error, with the ISR that was passed over."""
    log = placed(1, 2)
    log.state(T0, 1, (1,))
    unclean = log.state(T0, 2, (2,), epoch=1)

    (found,) = log.find(unclean_election)

    assert (found.severity, found.partition, found.from_zxid, found.to_zxid) == ("error", 0, unclean, unclean)
    assert found.detail == "broker 2 leads, in sync were [1]"


def test_it_is_so_over_a_time_without_leader_and_without_isr() -> None:
    """0.8.2.2 writes an empty ISR; what counts is the last one that was not empty."""
    log = placed(1, 2)
    log.state(T0, 1, (1,))
    log.state(T0, -1, (), epoch=1)
    unclean = log.state(T0, 2, (2,), epoch=2)

    assert [each.from_zxid for each in log.find(unclean_election)] == [unclean]


def test_the_last_in_sync_may_come_back() -> None:
    """The last broker in sync that leads again after a time without leader is no unclean leader."""
    log = placed(1, 2)
    log.state(T0, 1, (1,))
    log.state(T0, -1, (), epoch=1)
    log.state(T0, 1, (1,), epoch=2)

    assert log.find(unclean_election) == []


def test_a_single_replica_that_returns_is_not_unclean() -> None:
    """The only replica that was away and leads again lost nothing."""
    log = placed(3)
    log.state(T0, -1, (), epoch=1)
    log.state(T0, 3, (3,), epoch=2)

    assert log.find(unclean_election) == []


def test_a_topic_of_the_same_name_starts_anew() -> None:
    """A topic that was deleted and made again is not measured by the ISR of the old one."""
    log = placed(1, 2)
    log.delete(state_path(T0), 1)
    log.delete("/brokers/topics/t", 1)
    log.topic("t", {0: (3,)})
    log.state(T0, 3, (3,))

    assert log.find(unclean_election) == []


def test_a_leader_that_stays_is_not_elected() -> None:
    """It is `leader_not_in_isr`."""
    log = placed(1, 2)
    log.state(T0, 1, (2,))
    log.state(T0, 1, (2,), epoch=1)

    assert log.find(unclean_election) == []


@pytest.mark.parametrize("has_slots", [False, True])
def test_any_replica_of_a_slot_may_lead(has_slots: bool) -> None:
    """Recipes 20: the logs of zkgroup's `__consumer_offsets` are empty; those of Kafka's have the offsets."""
    log = Cluster()
    if has_slots:
        log.create(SlotConfig.path(), SlotConfig(1).encode())
    log.topic(OFFSETS_TOPIC, {0: (1, 2)})
    log.state((OFFSETS_TOPIC, 0), 1, (1,))
    log.state((OFFSETS_TOPIC, 0), 2, (2,), epoch=1)

    assert len(log.find(unclean_election)) == (not has_slots)
