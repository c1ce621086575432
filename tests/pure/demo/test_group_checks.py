"""The checks of `zkgroup demo group`: each kind of fault fails its check."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zkgroup.demo.flight_data import MemberOutput, Processed, airport_and_delay, reduce
from zkgroup.demo.group.checks import MemberEvidence, check_members, slowest
from zkgroup.history import Figures, Report, Violation
from zkgroup.model import TopicPartition

INPUT_LINES = (
    (b'{"origin":"SFO","delay":4}', b'{"origin":"SFO","delay":-2}'),
    (b'{"origin":"OAK","delay":10}',),
)


def processed(token: int = 1) -> list[Processed]:
    return [
        Processed(partition, offset, *airport_and_delay(line), token)
        for partition, lines in enumerate(INPUT_LINES)
        for offset, line in enumerate(lines)
    ]


def evidence(*outputs: MemberOutput) -> MemberEvidence:
    return MemberEvidence(
        input_lines=INPUT_LINES,
        reduction=reduce(outputs or [MemberOutput("a", tuple(processed()), 0)]),
        committed={0: 2, 1: 1},
        verdict=verdict(),
        group_problems=[],
        gone={"killed": "SIGKILL"},
    )


def verdict(violations: tuple[Violation, ...] = (), damage: tuple[str, ...] = (), **figures: int) -> Report:
    counted = {"records": 10, "claims": 24, "ownership_changes": 4, "commits": 12, "deliveries": 3}
    return Report(violations, frozenset({"S2"}), Figures(**(counted | figures)), damage)


def failed(found: MemberEvidence) -> list[tuple[str, str]]:
    return [(check.statement, check.evidence) for check in check_members(found) if not check.holds]


def test_right_run_passes_every_check() -> None:
    """A run in which everything was processed once and committed is proved."""
    assert failed(evidence()) == []
    assert len(check_members(evidence())) == 6


def test_missing_record_is_named() -> None:
    """An unprocessed record fails two checks, which name the record and the airport."""
    found = failed(evidence(MemberOutput("a", tuple(processed()[:-1]), 0)))

    assert found == [
        ("every record was processed", "2 of 3; missing 1:0"),
        ("the result equals a direct computation", "2 airports; different for OAK"),
    ]


def test_invented_record_is_named() -> None:
    """A record that was never produced is as wrong as a missing one."""
    output = MemberOutput("a", (*processed(), Processed(1, 7, "OAK", 10, 1)), 0)

    assert ("every record was processed", "3 of 3; never produced 1:7") in failed(evidence(output))


def test_wrong_value_is_named() -> None:
    """A record processed with another content than it has changes the result."""
    output = MemberOutput("a", (processed()[0]._replace(delay=5), *processed()[1:]), 0)

    assert failed(evidence(output)) == [
        ("the result equals a direct computation", "2 airports; different for SFO")
    ]


def test_records_of_the_killed_member_may_come_twice() -> None:
    """Records that it processed and could not commit are delivered again; they are counted and no fault."""
    outputs = [
        MemberOutput("killed", tuple(processed()[:2]), 0),
        MemberOutput("heir", tuple(processed(token=2)[1:]), 0),
    ]

    assert failed(evidence(*outputs)) == []
    assert "1 of killed (SIGKILL)" in [check.evidence for check in check_members(evidence(*outputs))]


def test_record_repeated_after_a_clean_move_is_a_fault() -> None:
    """A member that handed its partitions over had committed what it processed."""
    outputs = [
        MemberOutput("leaver", tuple(processed()), 0),
        MemberOutput("heir", tuple(processed(token=2)[2:]), 0),
    ]

    assert failed(evidence(*outputs)) == [
        (
            "nothing twice but what a death left open",
            "1 of leaver (handed over cleanly)",
        )
    ]


def test_record_repeated_after_a_foreign_offset_write_is_no_fault_of_a_member() -> None:
    """It is counted separately; in another partition the same repetition is a fault."""
    outputs = [
        MemberOutput("leaver", tuple(processed()), 0),
        MemberOutput("heir", tuple(processed(token=2)[2:]), 0),
    ]

    def moved(partition: int) -> MemberEvidence:
        return replace(evidence(), reduction=reduce(outputs, {partition}), moved={partition})

    statement = "nothing twice but what a death or a moved offset left open"
    assert failed(moved(1)) == []
    assert (statement, "1 of partition 1 (its offset was moved)") in [
        (check.statement, check.evidence) for check in check_members(moved(1))
    ]
    assert failed(moved(0)) == [
        (statement, "1 of leaver (handed over cleanly), 0 of partition 0 (its offset was moved)")
    ]


@pytest.mark.parametrize(
    ("change", "statement", "text"),
    [
        (
            {"committed": {0: 1, 1: None}},
            "every partition is committed to its end",
            "0 of 2 partitions; 0 at 1 of 2, 1 at None of 1",
        ),
        ({"group_problems": ["flights-3 unowned"]}, "group verify is clean", "flights-3 unowned"),
    ],
)
def test_each_other_fault_fails_its_own_check(change: dict[str, object], statement: str, text: str) -> None:
    """Offsets, history and the group's state each have a check, and nothing else fails with it."""
    found = replace(evidence(), **change)  # type: ignore[arg-type]

    assert failed(found) == [(statement, text)]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            verdict((Violation("S2", "stale commit", TopicPartition("flights", 3)),)),
            "10 events, 1 violations: S2 flights-3: stale commit",
        ),
        (verdict(damage=("not a record: '{'",)), "10 events, 0 violations; damaged: not a record: '{'"),
        (
            verdict(operations=10, unknown_outcomes=3),
            "10 events, 0 violations; 3 of 10 outcomes unknown, too many",
        ),
        (
            verdict(ownership_changes=0),
            "10 events, 0 violations; too little happened: ownership_changes: 0 of 1",
        ),
    ],
    ids=["violation", "damage", "unknown outcomes", "nothing happened"],
)
def test_history_that_does_not_hold_proves_nothing(found: Report, text: str) -> None:
    """A violation, a damaged recording, too many unknown outcomes, or a run in which no owner changed."""
    assert failed(replace(evidence(), verdict=found)) == [("no stale commit, no second owner", text)]


def test_slowest_airports_are_those_with_enough_flights() -> None:
    """One late flight does not make an airport slow."""
    airports = evidence().reduction.airports

    assert [one.airport for one in slowest(airports, count=5, flights_min=2)] == ["SFO"]
    assert [one.airport for one in slowest(airports, count=1, flights_min=1)] == ["OAK"]
