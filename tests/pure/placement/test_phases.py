"""Plans cut into phases."""

from __future__ import annotations

import json

import pytest

from tests.pure.placement.snapshots import Lists, snapshot, tp
from zkgroup.errors import PlacementError
from zkgroup.placement import decommission, phases, validate
from zkgroup.placement.phases import PARTITIONS_MAX

ANY = ("factor", "racks", "balance", "source")


def test_no_phase_has_more_moves_than_allowed() -> None:
    """Five moves, two at a time; sizes are summed."""
    before = snapshot([(1,)] * 5, [1, 2, 3], sizes=[1, 2, 3, 4, 5])
    plan = decommission(before, [1])

    found = phases(plan, before, max_moves=2)

    assert [phase.moves for phase in found] == [2, 2, 1]
    assert sum(phase.bytes or 0 for phase in found) == plan.bytes == 15
    assert [change for phase in found for change in phase.changes] == list(plan.changes)


def test_no_broker_receives_more_than_allowed() -> None:
    """A later partition may go first when its broker is free."""
    before = snapshot([(1,), (1,), (1,)], [1, 2, 3])
    plan = validate(before, {tp(0): (2,), tp(1): (2,), tp(2): (3,)}, allow=ANY)

    found = phases(plan, before, max_moves=3, max_moves_per_broker=1)

    assert [[one.topic_partition for one in phase.changes] for phase in found] == [[tp(0), tp(2)], [tp(1)]]


def test_partitions_in_danger_come_first() -> None:
    """The fewest live replicas before all others, then those on brokers that are gone."""
    before = snapshot([(1, 2), (8, 1, 2), (9, 1)], [1, 2, 3])
    target = {tp(0): (3, 2), tp(1): (3, 1, 2), tp(2): (3, 1)}

    found = phases(validate(before, target, allow=ANY), before, max_moves=1)

    assert [phase.changes[0].topic_partition for phase in found] == [tp(2), tp(1), tp(0)]


def test_changes_that_copy_nothing_come_last() -> None:
    """In phases of their own, limited by the number of partitions alone."""
    before = snapshot([(1, 2), (1, 2), (1, 2), (1,)], [1, 2, 3])
    target = {tp(0): (2, 1), tp(1): (2, 1), tp(2): (2, 1), tp(3): (3,)}

    found = phases(validate(before, target, allow=ANY), before, max_moves=1, max_partitions=2)

    assert [(len(phase.changes), phase.moves) for phase in found] == [(1, 1), (2, 0), (1, 0)]


def test_a_partition_with_more_moves_than_allowed_goes_in_steps() -> None:
    """Never fewer replicas; each step says which it is; the last one has the list asked for."""
    before = snapshot([(1, 2, 3)], range(1, 7))
    plan = validate(before, {tp(0): (6, 5, 4)}, allow=ANY)

    found = phases(plan, before, max_moves=2)

    (first,), (second,) = (phase.changes for phase in found)
    assert (first.before, second.before) == ((1, 2, 3), first.after)
    assert (len(first.added), len(second.added), second.after) == (2, 1, (6, 5, 4))
    assert len(first.after) == 3
    assert first.reason.startswith("step 1 of 2: ")
    assert second.reason.startswith("step 2 of 2: ")


def test_steps_stay_in_as_many_racks_as_they_can() -> None:
    """A newcomer takes the place of the replica in its own rack."""
    racks = {1: "a", 2: "b", 3: "c", 4: "b", 5: "c", 6: "a"}
    before = snapshot([(1, 2, 3)], racks)
    plan = validate(before, {tp(0): (4, 5, 6)}, allow=ANY)

    found = phases(plan, before, max_moves=1)

    assert len(found) == 3
    for phase in found:
        assert {racks[broker] for broker in phase.changes[0].after} == {"a", "b", "c"}


def test_steps_of_a_partition_that_grows_or_shrinks() -> None:
    """Newcomers without a place to take join; those without a successor leave in the last step."""
    before = snapshot([(1,), (1, 2, 3)], range(1, 7))
    lists: Lists = [(1, 2, 3, 4), (4, 5)]
    plan = validate(before, {tp(0): lists[0], tp(1): lists[1]}, allow=ANY)

    found = phases(plan, before, max_moves=1)

    grown = [one.after for phase in found for one in phase.changes if one.topic_partition == tp(0)]
    assert grown == [(1, 2), (1, 2, 3), (1, 2, 3, 4)]
    shrunk = [one.after for phase in found for one in phase.changes if one.topic_partition == tp(1)]
    assert [len(lists) for lists in shrunk] == [3, 2]
    assert shrunk[-1] == (4, 5)


def test_a_phase_of_the_longest_names_fits_one_znode() -> None:
    """Just below 1 MiB by default (controller.md 1.4), with five replicas of the largest ids."""
    entry = {"topic": "x" * 255, "partition": 99_999, "replicas": [2**31 - 1] * 5}
    request = {"version": 1, "partitions": [entry] * PARTITIONS_MAX}

    assert len(json.dumps(request, separators=(",", ":"))) < 1_048_575


def test_limits_are_at_least_one() -> None:
    """Anything less would never end."""
    before = snapshot([(1,)], [1, 2])
    plan = decommission(before, [1])

    for limits in ({"max_moves": 0}, {"max_moves": 1, "max_partitions": 0}):
        with pytest.raises(PlacementError, match="every limit has to be at least 1"):
            phases(plan, before, **limits)
    with pytest.raises(PlacementError, match="at least 1"):
        phases(plan, before, max_moves=1, max_moves_per_broker=0)


def test_an_empty_plan_has_no_phases() -> None:
    """Nothing to do is done at once."""
    before = snapshot([(1,)], [1, 2])

    assert phases(validate(before, {}), before, max_moves=1) == ()
