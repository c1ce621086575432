"""Brokers in the ISR that no replica list names."""

from __future__ import annotations

from tests.pure.audit.cluster import REASSIGN, Cluster, state_path, state_text
from zkgroup.audit.findings.replicas import isr_outside_assignment

T0 = ("t", 0)


def placed() -> Cluster:
    """A log with t-0 on brokers 1 and 2."""
    log = Cluster()
    log.topic("t", {0: (1, 2)})
    log.state(T0, 1, (1, 2))
    return log


def test_an_unassigned_replica_in_the_isr_is_an_error() -> None:
    """A broker in the ISR that the replica list lacks is an error until a state leaves it out."""
    log = placed()
    bad = log.state(T0, 1, (1, 2, 7))
    good = log.state(T0, 1, (1, 2))

    (found,) = log.find(isr_outside_assignment)

    assert (found.severity, found.from_zxid, found.to_zxid) == ("error", bad, good)
    assert found.detail == "[7] in the ISR, not in the replica list [1, 2] for 0 ms"


def test_a_replica_list_that_forgets_one_in_sync_is_too() -> None:
    """A replica list that drops a broker of the ISR is the same error, from that write on."""
    log = placed()
    bad = log.topic("t", {0: (1,)})

    assert log.told(isr_outside_assignment, "severity", "from_zxid", "to_zxid") == [("error", bad, None)]


def test_it_is_a_warning_while_the_partition_is_moved() -> None:
    """While a request moves the partition, a target in the ISR before the list names it is a warning."""
    log = placed()
    log.reassign({T0: (3,)})
    bad = log.state(T0, 1, (1, 2, 3))
    log.topic("t", {0: (3, 1, 2)}, 1)

    assert log.told(isr_outside_assignment, "severity", "from_zxid") == [("warning", bad)]


def test_it_is_an_error_if_it_outlasts_the_move() -> None:
    """Still outside the list when the request is gone: an error from the state on that brought it in."""
    log = placed()
    log.reassign({T0: (3,)})
    bad = log.state(T0, 1, (1, 2, 3))
    log.delete(REASSIGN, 1)

    assert log.told(isr_outside_assignment, "severity", "from_zxid") == [("error", bad)]


def test_a_move_that_the_topic_itself_names_counts() -> None:
    """Kafka from 2.4 on."""
    log = placed()
    topic = '{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{"0":[3]},"removing_replicas":{}}'
    log.set("/brokers/topics/t", topic, 1)
    log.state(T0, 1, (1, 2, 3))

    assert [each.severity for each in log.find(isr_outside_assignment)] == ["warning"]


def test_list_and_isr_that_change_together_agree() -> None:
    """The end of a move, as controllers of ours write it."""
    log = placed()
    log.multi(
        1,
        log.setting("/brokers/topics/t", '{"version":1,"partitions":{"0":[3]}}'),
        log.setting(state_path(T0), state_text(3, (3,), 1)),
    )

    assert log.find(isr_outside_assignment) == []


def test_what_is_not_known_contradicts_nothing() -> None:
    """Where the replica list cannot be read, no ISR is outside it."""
    log = placed()
    log.set("/brokers/topics/t", "torn", 1)
    log.state(T0, 1, (1, 2, 9))

    assert log.find(isr_outside_assignment) == []
