"""Cases that topicmappr publishes, with its result beside that of zkgroup.

From DataDog/kafka-kit: the examples of topicmappr's README, `mapper/partitions_test.go` and
`cmd/topicmappr/commands/chunked_test.go`. Where the question has one answer, both results are equal; where
there is a choice, zkgroup has no more moves and is at least as even.
"""

from __future__ import annotations

from tests.pure.placement.snapshots import Lists, leaders, lists_after, replicas, snapshot, tp
from zkgroup.placement import Plan, balance, decommission, phases, replace, set_rf, validate

TWO_BROKERS: Lists = [(1001, 1002), (1002, 1001), (1001, 1002), (1002, 1001)]
FOUR_BROKERS: Lists = [(1001, 1002), (1002, 1001), (1003, 1004, 1001), (1004, 1003, 1002)]
SKEWED: Lists = [(1001, 1002), (1002, 1001), (1003, 1004), *[(1004, 1003)] * 4]
SIZED: Lists = [(1004, 1003), (1003, 1004), (1001, 1002), (1003, 1002), (1001, 1003), (1002, 1001)]
SIZES = [1000, 1500, 2000, 2500, 2200, 4000]


def squares(loads: dict[int, int]) -> int:
    """Unevenness in one number."""
    return sum(load**2 for load in loads.values())


def assert_no_worse(ours: Plan, theirs: Plan) -> None:
    """No more moves, and at least as even in replicas and leaders."""
    assert ours.moves <= theirs.moves
    assert squares(replicas(ours)) <= squares(replicas(theirs))
    assert squares(leaders(ours)) <= squares(leaders(theirs))


def test_brokers_that_are_there_are_not_touched() -> None:
    """README, the no-op: lists on 1001 and 1002 are even as they are."""
    assert balance(snapshot(TWO_BROKERS, [1001, 1002])).changes == ()


def test_a_failed_broker_is_replaced_by_the_best_fitting_ones() -> None:
    """README: 1002 failed, 1003 and 1004 are spare. Four moves, loads 4, 2, 2, leaders 2, 1, 1, as there."""
    before = snapshot(TWO_BROKERS, [1001, 1003, 1004])
    theirs = validate(
        before,
        dict(zip(before.replicas, [(1001, 1003), (1003, 1001), (1001, 1004), (1004, 1001)], strict=True)),
    )

    ours = decommission(before, [1002])

    assert_no_worse(ours, theirs)
    assert (ours.moves, ours.leader_changes) == (4, 2)
    assert replicas(ours) == {1001: 4, 1003: 2, 1004: 2}
    assert leaders(ours) == {1001: 2, 1003: 1, 1004: 1}


def test_two_brokers_more() -> None:
    """README, --force-rebuild: two new brokers get a fair share. Four moves and all even, as there."""
    before = snapshot(TWO_BROKERS, [1001, 1002, 1003, 1004])

    ours = balance(before)

    assert (ours.moves, ours.least_moves) == (4, 4)
    assert set(replicas(ours).values()) == {2}
    assert set(leaders(ours).values()) == {1}


def test_one_broker_in_the_place_of_another() -> None:
    """README, rebuild-topics: 2 for 1, list by list."""
    before = snapshot([(0, 1), (1, 0)] * 4, [0, 2])

    assert lists_after(before, replace(before, {1: 2})) == [(0, 2), (2, 0)] * 4


def test_one_broker_leaves_and_three_join() -> None:
    """README, rebuild-map: 1007 leaves, 1003, 1004 and 1008 take its four replicas."""
    lists: Lists = [(1005, 1006), (1006, 1007), (1007, 1001), (1001, 1002)]
    lists += [(1002, 1005), (1005, 1007), (1006, 1001), (1007, 1002)]
    before = snapshot(lists, [1001, 1002, 1003, 1004, 1005, 1006, 1008])
    target = {tp(1): (1006, 1003), tp(2): (1003, 1001), tp(5): (1005, 1008), tp(7): (1004, 1002)}
    theirs = validate(before, target, leaving={1007}, allow={"balance"})

    ours = decommission(before, [1007])

    assert_no_worse(ours, theirs)
    assert ours.moves == theirs.moves == 4
    assert set(ours.target) == set(target)


def test_one_of_four_brokers_leaves() -> None:
    """TestRebuildByCount: 1004 leaves; three replicas on three brokers leave no choice of brokers."""
    before = snapshot(FOUR_BROKERS, [1001, 1002, 1003])

    ours = decommission(before, [1004])

    assert ours.moves == 2
    assert ours.target[tp(2)] == (1003, 1002, 1001)
    assert set(ours.target[tp(3)]) == {1001, 1002, 1003}
    assert sorted(leaders(ours).values()) == [1, 1, 2]


def test_other_numbers_of_replicas() -> None:
    """TestSetReplication: to 3 only the short lists get one more, at the end; to 2 nothing is copied."""
    before = snapshot(FOUR_BROKERS, [1001, 1002, 1003, 1004])

    more, less = set_rf(before, 3), set_rf(before, 2)

    assert (more.moves, less.moves) == (2, 0)
    assert {number: lists[:2] for number, lists in more.target.items()} == {
        tp(0): (1001, 1002),
        tp(1): (1002, 1001),
    }
    assert replicas(more) == dict.fromkeys([1001, 1002, 1003, 1004], 3)
    assert [lists[0] for lists in lists_after(before, less)] == [1001, 1002, 1003, 1004]
    assert replicas(less) == dict.fromkeys([1001, 1002, 1003, 1004], 2)


def test_a_skewed_topic_is_evened_out() -> None:
    """TestRebuildByCount, force rebuild: it deals anew with 8 moves; 2 do it."""
    before = snapshot(SKEWED, [1001, 1002, 1003, 1004])
    lists: Lists = [(1001, 1003), (1002, 1004), (1003, 1001), (1004, 1002)]
    lists += [(1001, 1002), (1002, 1004), (1003, 1001)]
    theirs = validate(before, dict(zip(before.replicas, lists, strict=True)))

    ours = balance(before)

    assert_no_worse(ours, theirs)
    assert (ours.moves, theirs.moves) == (2, 8)
    assert sorted(replicas(ours).values()) == sorted(replicas(theirs).values()) == [3, 3, 4, 4]
    assert sorted(leaders(ours).values()) == sorted(leaders(theirs).values()) == [1, 2, 2, 2]


def test_a_substitute_takes_every_place() -> None:
    """TestRebuildByCountSA: 1010 for 1002, list by list."""
    before = snapshot(
        [(1004, 1003), (1003, 1004), (1001, 1005), (1003, 1002), (1001, 1003), (1002, 1001)],
        {1001: "a", 1003: None, 1004: "a", 1005: "b", 1010: "b"},
        rack_mode="safe",
    )

    assert lists_after(before, replace(before, {1002: 1010}, allow={"balance"})) == [
        *[(1004, 1003), (1003, 1004), (1001, 1005), (1003, 1010), (1001, 1003), (1010, 1001)],
    ]


def test_by_size() -> None:
    """TestRebuildByStorageDistribution and ...Storage, sizes from 1000 to 4000: bytes copied and reached.

    topicmappr assigns all replicas anew: 5 moves for a difference of 3000 bytes, or 4 for 800. zkgroup stops
    within its tolerance.
    """
    before = snapshot(SIZED, [1001, 1002, 1003, 1004], sizes=SIZES)
    distribution: Lists = [(1003, 1001), (1004, 1002), (1004, 1003), (1002, 1003), (1003, 1004), (1001, 1002)]
    storage: Lists = [(1002, 1001), (1003, 1004), (1002, 1001), (1004, 1003), (1003, 1004), (1001, 1002)]
    theirs = [
        validate(before, dict(zip(before.replicas, lists, strict=True)), allow={"balance"})
        for lists in (distribution, storage)
    ]

    ours, closer = balance(before), balance(before, tolerance=0.05)

    assert [(one.moves, one.bytes, one.after.byte_spread) for one in theirs] == [
        (5, 8700, 3000),
        (4, 6700, 800),
    ]
    assert (ours.moves, ours.bytes, ours.after.byte_spread) == (2, 4500, 1200)
    assert closer.after.byte_spread == 200


def test_six_of_nine_brokers_leave_in_phases() -> None:
    """TestBasicChunkedDownscale: nine brokers to three in chunks; 18 moves, loads 9, 9, 9, as there."""
    lists: Lists = [tuple(10000 + (first + n) % 9 for n in range(3)) for first in range(9)]
    before = snapshot(lists, range(10000, 10009))

    ours = decommission(before, range(10003, 10009))

    assert (ours.moves, ours.leader_changes) == (18, 6)
    assert [replicas(ours)[one] for one in range(10000, 10003)] == [9, 9, 9]
    assert [leaders(ours)[one] for one in range(10000, 10003)] == [3, 3, 3]
    parts = phases(ours, before, max_moves=9)
    assert [part.moves for part in parts] == [9, 9]
