"""What may follow what, in batches."""

from __future__ import annotations

import itertools

import pytest

from tests.worlds.controller_clusters import tp
from zkgroup.controller.machine.state_machines import (
    PARTITIONS,
    REPLICAS,
    PartitionAndReplica,
    PartitionPhase,
    PhaseTable,
    ReplicaPhase,
    partition_at_start,
)

PARTITION_RULES = """
non-existent -> new
new -> online offline
online -> online offline
offline -> online offline non-existent
"""
"""Controller.md 3.1, read from left to right."""

REPLICA_RULES = """
non-existent -> new
new -> online offline
online -> online offline
offline -> online offline deletion-started deletion-ineligible
deletion-started -> deletion-successful deletion-ineligible
deletion-successful -> non-existent
deletion-ineligible -> online offline
"""
"""Controller.md 3.2, with the later releases' way from offline to ineligible."""


def allowed(is_active: str) -> set[tuple[str, str]]:
    """Pairs of before and after."""
    lines = (line.split(" -> ") for line in is_active.strip().splitlines())
    return {(name(before), name(after)) for before, together in lines for after in together.split()}


def name(word: str) -> str:
    """As the phases are called."""
    return word if word == "non-existent" else word.replace("-", " ")


@pytest.mark.parametrize(("before", "after"), list(itertools.product(PartitionPhase, repeat=2)))
def test_partitions_follow_their_table(before: PartitionPhase, after: PartitionPhase) -> None:
    """Each pair is allowed or refused; what is refused stays as it was and is named."""
    table = PhaseTable(PARTITIONS, PartitionPhase.ONLINE)
    table.begin(tp(0), before)

    moved = table.move([tp(0)], after)

    if (before.value, after.value) in allowed(PARTITION_RULES):
        assert (moved.done, moved.illegal, table.phase(tp(0))) == ({tp(0): before}, (), after)
    else:
        assert (moved.done, table.phase(tp(0))) == ({}, before)
        assert [str(each) for each in moved.illegal] == [
            f"t-0 cannot become {after.value}: it is {before.value}"
        ]


@pytest.mark.parametrize(("before", "after"), list(itertools.product(ReplicaPhase, repeat=2)))
def test_replicas_follow_their_table(before: ReplicaPhase, after: ReplicaPhase) -> None:
    """Each pair is allowed or refused; what is refused stays as it was and is named."""
    table = PhaseTable(REPLICAS, ReplicaPhase.ONLINE)
    replica = PartitionAndReplica(tp(0), 4)
    table.begin(replica, before)

    moved = table.move([replica], after)

    if (before.value, after.value) in allowed(REPLICA_RULES):
        assert (moved.done, moved.illegal, table.phase(replica)) == ({replica: before}, (), after)
    else:
        assert (moved.done, table.phase(replica)) == ({}, before)
        assert [str(each) for each in moved.illegal] == [
            f"t-0 on broker 4 cannot become {after.value}: it is {before.value}"
        ]


def test_an_illegal_one_leaves_the_others_of_the_batch_processed() -> None:
    """Those before it and those after it."""
    table = PhaseTable(PARTITIONS, PartitionPhase.ONLINE)
    table.begin(tp(1), PartitionPhase.NON_EXISTENT)
    table.begin(tp(2), PartitionPhase.OFFLINE)

    moved = table.move([tp(0), tp(1), tp(2)], PartitionPhase.ONLINE)

    assert moved.done == {tp(0): PartitionPhase.ONLINE, tp(2): PartitionPhase.OFFLINE}
    assert moved.illegal == ("t-1 cannot become online: it is non-existent",)
    assert table.phase(tp(1)) is PartitionPhase.NON_EXISTENT


def test_what_is_forgotten_is_in_no_phase() -> None:
    """A deleted topic leaves nothing behind."""
    table = PhaseTable(PARTITIONS, PartitionPhase.ONLINE)
    table.begin(tp(0), PartitionPhase.OFFLINE)

    table.forget([tp(0), tp(1)])

    assert list(table.unusual([PartitionPhase.OFFLINE])) == []


def test_a_partition_starts_as_its_leader_does() -> None:
    """Without leader it is offline; without state it is new."""
    assert partition_at_start(None, [1]) is PartitionPhase.NEW
    assert partition_at_start(1, [1]) is PartitionPhase.ONLINE
    assert partition_at_start(2, [1]) is PartitionPhase.OFFLINE
    assert partition_at_start(-1, [1]) is PartitionPhase.OFFLINE
