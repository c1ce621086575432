"""Leader epochs that stay or fall."""

from __future__ import annotations

from tests.pure.audit.cluster import Cluster, started, state_path, state_text
from zkgroup.audit.findings.replicas import leader_epoch_not_rising

T0 = ("t", 0)


def placed() -> Cluster:
    log = Cluster()
    log.topic("t", {0: (1, 2)})
    log.state(T0, 1, (1, 2), epoch=5)
    return log


def test_a_fall_and_a_new_leader_in_the_same_epoch_are_errors() -> None:
    """A new leader within the same leader epoch is an error, and so is a leader epoch that falls."""
    log = placed()
    stays = log.state(T0, 2, (1, 2), epoch=5)
    falls = log.state(T0, 2, (1, 2), epoch=4)

    assert log.told(leader_epoch_not_rising, "severity", "from_zxid", "detail") == [
        ("error", stays, "leader 1 became 2 within leader epoch 5"),
        ("error", falls, "leader epoch fell from 5 to 4"),
    ]


def test_isr_writes_keep_it_and_decisions_raise_it() -> None:
    """An ISR write keeps the leader epoch, a new leader raises it, by one or by more: no findings."""
    log = placed()
    log.state(T0, 1, (1,), epoch=5)
    log.state(T0, 1, (1, 2), epoch=5)
    log.state(T0, 2, (1, 2), epoch=6)
    log.state(T0, 2, (1, 2), epoch=9)

    assert log.find(leader_epoch_not_rising) == []


def test_a_topic_of_the_same_name_starts_at_0() -> None:
    """Behind a deletion of the state, leader epoch 0 is a beginning and no fall from 5."""
    log = placed()
    log.delete(state_path(T0), 1)
    log.state(T0, 2, (1, 2), epoch=0)

    assert log.find(leader_epoch_not_rising) == []


def test_a_partition_that_was_made_anew_begins_anew() -> None:
    """In one transaction, too: a new state may have a lower epoch and another leader."""
    log = started(1, 2)
    log.state(T0, 1, (1, 2), epoch=5)
    log.multi(1, log.deletion(state_path(T0)), log.creation(state_path(T0), state_text(2, (2,), 0)))

    assert log.find(leader_epoch_not_rising) == []
