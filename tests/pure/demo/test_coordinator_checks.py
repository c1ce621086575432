"""The checks of `zkgroup demo coordinator`: each kind of fault fails its check."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zkgroup.demo.coordinator.checks import (
    COORDINATOR_MIN,
    CoordinatorEvidence,
    HandedOver,
    check_group,
    runs_of,
)
from zkgroup.demo.coordinator.stored_group import StoredCommit, StoredGeneration, StoredHistory
from zkgroup.demo.flight_data import MemberOutput, Processed, airport_and_delay, reduce
from zkgroup.history import ClusterFigures, ClusterReport, Figures, Report, Violation
from zkgroup.history.coordinator import CoordinatorReport

LINES = (b'{"origin":"SFO","delay":4}',) * 6
"""The records of the one partition; ZooKeeper members read the last two."""
BOUNDED = "nothing twice but what was not committed"
ONE_OWNER = "no two members of a generation own one partition"
OF_OWNERS = "no commit of an old generation was accepted"


def output(member: str, token: int, *offsets: int) -> MemberOutput:
    """What a member processed of the partition in one assignment."""
    records = [Processed(0, offset, *airport_and_delay(LINES[offset]), token) for offset in offsets]
    return MemberOutput(member, tuple(records), 0)


def generations(*owners: str, first: int = 1) -> tuple[StoredGeneration, ...]:
    """Generations in which the partition has these owners, one after the other."""
    return tuple(StoredGeneration(zxid, first + zxid, {0: (owner,)}) for zxid, owner in enumerate(owners))


def commit(offset: int, client: str | None, token: int, *owners: str) -> StoredCommit:
    return StoredCommit(offset, 0, offset, client, token, owners)


RIGHT = StoredHistory(
    generations=generations("a", "java", "b", "b"),
    commits=(
        commit(2, "a", 10, "a"),
        commit(3, "", 0, "java"),
        commit(4, "b", 30, "b"),
        commit(6, None, 0, "b"),
    ),
    coordinators=(1, 2),
    registrations=1,
)
OUTPUTS = (
    output("a", 10, 0, 1, 2),
    output("java", 20, 2),
    output("b", 30, 3),
    output("ada", 7, 4, 5),
)


def evidence(*outputs: MemberOutput, stored: StoredHistory = RIGHT) -> CoordinatorEvidence:
    figures = ClusterFigures(
        transactions=9, elections=1, leader_changes=1, isr_writes=1, acknowledged_records=6
    )
    return CoordinatorEvidence(
        lines=6,
        acknowledged=6,
        input_lines=(LINES,),
        outputs=outputs or OUTPUTS,
        reduction=reduce(outputs or OUTPUTS),
        stored=stored,
        handed_over=HandedOver(4, {0: 4}, {0: 4}),
        committed={0: 6},
        zookeeper_members=("ada",),
        verify_problems=(),
        members=Report((), frozenset(), Figures(records=5, claims=1, commits=1, deliveries=1)),
        cluster=ClusterReport((), frozenset(), figures),
        coordinator=CoordinatorReport((), dict.fromkeys(COORDINATOR_MIN, 1)),
    )


def failed(found: CoordinatorEvidence) -> dict[str, str]:
    return {check.statement: check.evidence for check in check_group(found) if not check.holds}


def test_right_run_passes_every_check() -> None:
    """A record that was not committed is processed twice, which is allowed."""
    assert failed(evidence()) == {}
    assert len(check_group(evidence())) == 11
    shown = {check.statement: check.evidence for check in check_group(evidence())}
    assert shown[BOUNDED] == "1 twice; 3 starts, each at the committed offset"
    assert shown["ZooKeeper members carried on at the same offsets"].startswith("2 records by ada")


def test_runs_are_in_the_order_of_the_assignments() -> None:
    """Of one member too, where it was assigned a partition again."""
    found = runs_of([output("a", 30, 4), output("b", 20, 2), output("a", 10, 0, 1)])

    assert [(run.member, run.first) for run in found] == [("a", 0), ("b", 2), ("a", 4)]


@pytest.mark.parametrize(
    ("first", "why"),
    [
        ((1, 2, 3), "b began 0 at 1, committed was 2"),
        ((), "a began 0 at 1, which was not committed"),
    ],
)
def test_a_start_elsewhere_than_at_the_committed_offset_is_named(first: tuple[int, ...], why: str) -> None:
    """Below what an earlier assignment had committed, or where nothing was committed."""
    outputs = [*OUTPUTS]
    if first:
        outputs[2] = output("b", 30, *first)
    else:
        outputs[0] = output("a", 10, 1, 2)

    assert failed(evidence(*outputs))[BOUNDED] == why


def test_a_partition_of_two_members_is_named() -> None:
    """As is a number that was given to two assignments, and one that went back."""
    two = replace(RIGHT, generations=(*RIGHT.generations, StoredGeneration(9, 9, {0: ("a", "b")})))
    again = replace(RIGHT, generations=(*RIGHT.generations, StoredGeneration(9, 4, {0: ("a",)})))
    back = replace(RIGHT, generations=(*RIGHT.generations, StoredGeneration(9, 1, {0: ("a",)})))

    assert failed(evidence(stored=two)) == {ONE_OWNER: "generation 9: 0 belongs to a and b"}
    assert failed(evidence(stored=again)) == {ONE_OWNER: "generation 4 has two assignments"}
    assert failed(evidence(stored=back)) == {ONE_OWNER: "generation 1 after 4"}


def test_too_few_generations_prove_nothing() -> None:
    """Each fault has to have caused one."""
    stored = replace(RIGHT, generations=RIGHT.generations[:3])

    assert failed(evidence(stored=stored)) == {ONE_OWNER: "too little happened: 3 generations, 1 to 3"}


@pytest.mark.parametrize(("client", "name"), [("a", "a"), ("", "Java")])
def test_a_commit_of_a_former_owner_is_named(client: str, name: str) -> None:
    """By its member; one without metadata is of Java's consumer."""
    stored = replace(RIGHT, commits=(*RIGHT.commits, commit(4, client, 10, "b")))

    assert failed(evidence(stored=stored))[OF_OWNERS] == f"zxid 0x4: 0:4 by {name}"


def test_both_kinds_at_once_are_named() -> None:
    """A ZooKeeper consumer while the marker is there; and without one nothing is shown."""
    mixed = replace(RIGHT, mixed=("zxid 0x9: demo_ada",))
    none = replace(RIGHT, registrations=0)

    assert failed(evidence(stored=mixed)) == {"one kind of members at a time": "zxid 0x9: demo_ada"}
    assert "one kind of members at a time" in failed(evidence(stored=none))


def test_clients_that_stopped_before_the_end_are_named() -> None:
    """Where the committed offset is not the end, ZooKeeper members do not carry on there either."""
    found = replace(evidence(), handed_over=HandedOver(4, {0: 3}, {0: 4}))

    assert failed(found) == {
        "the clients committed everything to its end": "0 at 3 of 4",
        "ZooKeeper members carried on at the same offsets": "0 at 4, committed was 3",
    }


def test_verdicts_of_the_checkers_count() -> None:
    """Of both, with too little that happened, and the problems of `group verify`."""
    violated = replace(evidence().cluster, violations=(Violation("S12", "two leaders"),))
    empty = Report((), frozenset(), Figures(records=5, claims=1, commits=0, deliveries=1))

    late = CoordinatorReport((Violation("S25", "a late commit"),), dict.fromkeys(COORDINATOR_MIN, 1))
    nothing = CoordinatorReport((), dict.fromkeys(COORDINATOR_MIN[1:], 1))

    assert "a late commit" in failed(replace(evidence(), coordinator=late))["the checker finds nothing"]
    assert failed(replace(evidence(), coordinator=nothing)) == {
        "the checker finds nothing": "commits of members: none"
    }
    assert "two leaders" in failed(replace(evidence(), cluster=violated))["the checker finds nothing"]
    assert failed(replace(evidence(), members=empty)) == {"the checker finds nothing": "commits: 0 of 1"}
    assert failed(replace(evidence(), acknowledged=5)) == {
        "the checker finds nothing": "acknowledged: 5 of 6"
    }
    assert failed(replace(evidence(), verify_problems=("unowned t:1",))) == {
        "group verify is clean": "unowned t:1"
    }
