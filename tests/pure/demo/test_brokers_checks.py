"""The checks of `zkgroup demo brokers`: each kind of fault fails its check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.worlds.cluster_history import OPERATOR, TOPIC, TP, ClusterHistory
from zkgroup.demo.brokers.checks import (
    MUST_DECIDE,
    Acknowledged,
    ClusterEvidence,
    CompletedReassignment,
    ControllerTerm,
    InterruptedReassignment,
    LogSummary,
    at_rest_from,
    check_brokers,
    records_of,
    summarise,
)
from zkgroup.history import ClusterFigures, ClusterReport, Violation, check_cluster
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.controller import ControllerRecord, ControllerRegistration

KEPT = {0: (b"a", b"b", b"b"), 1: (b"c",)}
ACKNOWLEDGED = (
    Acknowledged(0, 0, 0, b"a"),
    Acknowledged(1, 0, 2, b"b", may_be_repeated=True),
    Acknowledged(2, 1, 0, b"c"),
)
LOG = LogSummary(
    controller_epochs=(ControllerTerm(1, 1), ControllerTerm(2, 3)),
    completed=(
        CompletedReassignment(TopicPartition("t", 0), "done", 1),
        CompletedReassignment(TopicPartition("t", 1), "done", 2),
    ),
    least_replicas={0: 3, 1: 3},
)
EVERY_RECORD = "every record was acknowledged once"
THERE = "every acknowledged record is at its offset in the final leader's log"
ONE = "one controller an epoch"
REPLICAS = "no partition had fewer replicas than it should"
FINISHED = "the next controller finished the move"
VERIFIED = "reassign verify: every replica is where the plan puts it"
STUCK = "nothing is stuck"
CHECKER = "the checker finds nothing (S11 to S17, L6, L7)"


def verdict(
    *violations: Violation,
    decided: frozenset[str] = MUST_DECIDE,
    damage: tuple[str, ...] = (),
    **figures: int,
) -> ClusterReport:
    counted = {
        "transactions": 50,
        "elections": 3,
        "leader_changes": 8,
        "moves_ended": 2,
        "isr_writes": 9,
        "acknowledged_records": 3,
    }
    return ClusterReport(violations, decided, ClusterFigures(**(counted | figures)), damage)


def evidence(**changes: Any) -> ClusterEvidence:
    """The evidence of a run without faults."""
    right = ClusterEvidence(
        lines=3,
        acknowledged=ACKNOWLEDGED,
        kept=KEPT,
        replication=3,
        log=LOG,
        reported_epochs=(ControllerTerm(1, 1), ControllerTerm(2, 3)),
        verdict=verdict(),
        interrupted=InterruptedReassignment(asked=2, open_at_the_kill=1, epoch=1),
        verified=(("t-0", "done"), ("t-1", "done")),
        stuck=(),
    )
    return replace(right, **changes)


def failed(found: ClusterEvidence) -> list[tuple[str, str]]:
    return [(check.statement, check.evidence) for check in check_brokers(found) if not check.holds]


def test_right_run_passes_every_check() -> None:
    """Records that are in the log twice are no fault: each is acknowledged at one place."""
    assert failed(evidence()) == []
    assert len(check_brokers(evidence())) == 8


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ({0: KEPT[0][:2], 1: KEPT[1]}, "2 in 2 logs of 3 records; not at 0:2"),
        ({0: (b"a", b"b", b"x"), 1: KEPT[1]}, "2 in 2 logs of 4 records; not at 0:2"),
        ({0: KEPT[0]}, "2 in 1 logs of 3 records; not at 1:0"),
    ],
    ids=["cut off", "another record", "no file"],
)
def test_missing_acknowledged_record_is_named(kept: dict[int, tuple[bytes, ...]], text: str) -> None:
    """The record is cut off, replaced by another, or its final leader has no file."""
    assert failed(evidence(kept=kept)) == [(THERE, text)]


def test_run_without_acknowledged_records_proves_nothing() -> None:
    """With no acknowledged record the check fails."""
    assert [statement for statement, _ in failed(evidence(acknowledged=(), lines=0))] == [THERE]


@pytest.mark.parametrize(
    ("acknowledged", "text"),
    [
        (ACKNOWLEDGED[:2], "2 of 3; not that of line 3"),
        ((*ACKNOWLEDGED, Acknowledged(1, 0, 1, b"b")), "3 of 3; 1 of them twice"),
    ],
    ids=["not acknowledged", "twice"],
)
def test_record_that_was_not_acknowledged_once_is_named(
    acknowledged: tuple[Acknowledged, ...], text: str
) -> None:
    """Each record has one acknowledgement."""
    assert failed(evidence(acknowledged=acknowledged)) == [(EVERY_RECORD, text)]


@pytest.mark.parametrize(
    ("controller_epochs", "reported_epochs", "text"),
    [
        ((ControllerTerm(1, 1), ControllerTerm(2, 3)), (ControllerTerm(2, 4),), "epoch 2: brokers 3 and 4"),
        (
            (ControllerTerm(1, 1), ControllerTerm(2, 3), ControllerTerm(2, 4)),
            (),
            "epoch 2: brokers 3 and 4, epoch 2 was won 2 times",
        ),
        ((ControllerTerm(1, 1), ControllerTerm(2, 3), ControllerTerm(2, 3)), (), "epoch 2 was won 2 times"),
        ((ControllerTerm(1, 1), ControllerTerm(3, 3)), (), "epoch 2 belongs to no broker"),
        ((ControllerTerm(1, 1),), (ControllerTerm(2, 3),), "epoch 2 has no record"),
    ],
    ids=["by its own account", "two records", "the same broker", "a gap", "without a record"],
)
def test_two_controllers_in_an_epoch_are_named(
    controller_epochs: tuple[ControllerTerm, ...], reported_epochs: tuple[ControllerTerm, ...], text: str
) -> None:
    """ZooKeeper's records and the brokers' reports both count."""
    found = evidence(log=replace(LOG, controller_epochs=controller_epochs), reported_epochs=reported_epochs)

    assert failed(found) == [(ONE, text)]


def test_log_without_a_controller_proves_nothing() -> None:
    """At least one controller must have been elected."""
    found = evidence(log=replace(LOG, controller_epochs=()), reported_epochs=())

    assert failed(found) == [(ONE, "0 epochs ()")]


def test_replica_too_few_is_named() -> None:
    """A replica list that was too short once is named, even if it grew again."""
    found = evidence(log=replace(LOG, least_replicas={0: 3, 1: 2}))

    assert failed(found) == [(REPLICAS, "fewer than 3: partition 1 had 2")]


@pytest.mark.parametrize(
    ("log", "interrupted", "text"),
    [
        (LOG, InterruptedReassignment(2, 0, 1), "nothing was open any more when it died"),
        (LOG, InterruptedReassignment(2, 2, 1), "2 were open when it died, 1 have ended since"),
        (
            replace(
                LOG, completed=(*LOG.completed, CompletedReassignment(TopicPartition("t", 2), "dropped", 2))
            ),
            InterruptedReassignment(2, 1, 1),
            "not done: t-2 dropped",
        ),
    ],
    ids=["too late", "never ended", "dropped"],
)
def test_move_that_was_not_open_or_that_no_later_controller_ended_is_named(
    log: LogSummary, interrupted: InterruptedReassignment, text: str
) -> None:
    """Reassignments open at the controller's death have to end as done, under a later controller."""
    assert failed(evidence(log=log, interrupted=interrupted)) == [(FINISHED, text)]


def test_stuck_move_is_named() -> None:
    """Both `reassign verify` and the list of unfinished work name it."""
    found = evidence(verified=(("t-0", "done"), ("t-1", "in_progress")), stuck=("t-1 is still being moved",))

    assert failed(found) == [
        (VERIFIED, "1 of 2 moves done; t-1 in_progress"),
        (STUCK, "t-1 is still being moved"),
    ]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (verdict(Violation("S15", "too few", TP)), "50 transactions, 1 violations: S15 t-0: too few"),
        (verdict(damage=("torn",)), "50 transactions, 0 violations; damaged: torn"),
        (
            verdict(decided=MUST_DECIDE - {"L7", "records"}),
            "50 transactions, 0 violations; not decided: L7, records",
        ),
        (verdict(elections=2), "50 transactions, 0 violations; too little happened: elections: 2 of 3"),
    ],
    ids=["violation", "damage", "undecided", "nothing happened"],
)
def test_verdict_that_does_not_hold_proves_nothing(found: ClusterReport, text: str) -> None:
    """A violation, a damaged log, an undecided invariant, or a run in which too little happened."""
    assert failed(evidence(verdict=found)) == [(CHECKER, text)]


def test_summary_of_a_log_names_epochs_moves_and_the_shortest_lists() -> None:
    """The summary has the controllers' records, the reassignments' records and the shortest replica lists."""
    world = ClusterHistory()
    world.move(4, 2, 3)
    world.expire(100)
    world.elect(2)
    found = summarise(world.transactions, TOPIC)

    assert found.controller_epochs == (ControllerTerm(1, 1), ControllerTerm(2, 2))
    assert found.completed == (CompletedReassignment(TP, "done", 1),)
    assert found.least_replicas == {0: 3}


def test_summary_keeps_a_second_record_of_an_epoch_and_a_list_that_was_briefly_too_short() -> None:
    """Both are gone at the end of the log, and the summary has both."""
    world = ClusterHistory()
    path = ControllerRecord.path(1)
    world.put(100, "delete", path)
    world.put(200, "create", path, ControllerRecord(2, 200, "started", 0).encode())
    world.write(100, world.topic_change(1, 2))
    world.write(100, world.topic_change(1, 2, 3))
    found = summarise(world.transactions, TOPIC)

    assert found.controller_epochs == (ControllerTerm(1, 1), ControllerTerm(1, 2))
    assert found.least_replicas == {0: 2}


def test_summary_leaves_other_topics_out() -> None:
    """Replica lists of another topic do not count."""
    world = ClusterHistory()
    world.put(OPERATOR, "create", Topic.path("other"), Topic({0: (1,)}).encode())

    assert summarise(world.transactions, TOPIC).least_replicas == {0: 3}


@pytest.mark.parametrize(
    ("kept", "terms", "broken"),
    [
        ((b"a", b"b\xff"), [(1, TP, 0), (2, TP, 1)], set()),
        ((b"a",), [(1, TP, 0)], {"records"}),
        ((b"a", b"b\xff"), [(1, TP, 0), (2, TP, 0)], {"S12"}),
        ((b"a", b"b\xff"), [(1, TP, 0), (2, TopicPartition("clients", 0), 0)], set()),
    ],
    ids=["right", "a record is gone", "two leaders in a term", "another topic"],
)
def test_records_for_the_checker_show_lost_records_and_second_leaders(
    kept: tuple[bytes, ...], terms: list[tuple[int, TopicPartition, int]], broken: set[str]
) -> None:
    """From these records the history checker finds what the demo's own checks find, and more."""
    acknowledged = [Acknowledged(0, 0, 0, b"a"), Acknowledged(1, 0, 1, b"b\xff")]
    report = check_cluster(
        ClusterHistory().transactions, records_of(TOPIC, acknowledged, {0: kept}, {0: 1}, terms)
    )

    assert {one.invariant for one in report.violations} == broken
    assert report.figures.acknowledged_records == 2
    assert "records" in report.decided


@pytest.mark.parametrize(("after_ms", "is_well"), [(11_000, True), (61_000, False)])
def test_a_session_may_expire_while_a_demo_ends(after_ms: int, is_well: bool) -> None:
    """Another broker is controller then; the checker takes it for a fault only after a minute of rest."""
    world = ClusterHistory()
    quiet_from_ms = world.ms
    world.ms += after_ms
    world.put(100, "delete", ControllerRegistration.path())
    world.elect(2)

    report = check_cluster(world.transactions, world.records, at_rest_from(quiet_from_ms))
    assert [one.invariant for one in report.violations] == ([] if is_well else ["L6"])
