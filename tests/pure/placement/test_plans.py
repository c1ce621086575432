"""The four plans: the replicas that they move and leave, and the requests that they refuse."""

from __future__ import annotations

import doctest
from dataclasses import replace as replaced

import pytest

from tests.pure.placement.snapshots import Lists, leaders, lists_after, replicas, snapshot, tp
from zkgroup import placement
from zkgroup.errors import NotFoundError, PlacementError, PlanRefusedError
from zkgroup.model import TopicPartition
from zkgroup.placement import ClusterSnapshot, balance, decommission, replace, set_rf

RING: Lists = [(1, 2), (2, 3), (3, 4), (4, 1)]
RACKS = {1: "a", 2: "b", 3: "a", 4: "b", 5: "c", 6: "c"}


def test_decommission_moves_what_the_broker_holds_and_nothing_else() -> None:
    """The others keep their positions; the result is as even as can be."""
    plan = decommission(snapshot(RING, [1, 2, 3, 4]), [4])

    assert plan.intent == "decommission 4"
    assert set(plan.target) == {tp(2), tp(3)}
    assert (plan.moves, plan.least_moves) == (2, 2)
    assert sorted(replicas(plan).items()) == [(1, 3), (2, 3), (3, 2), (4, 0)]
    assert sorted(leaders(plan).values()) == [0, 1, 1, 2]


def test_decommission_says_why_each_partition_changes() -> None:
    """The replica, its target with racks, the leader, and the cause."""
    before = snapshot([(1, 2)], {1: "a", 2: "b", 3: "a"})

    (change,) = decommission(before, [1]).changes

    assert (change.before, change.after) == ((1, 2), (2, 3))
    assert (change.added, change.dropped, change.leader_changes) == ((3,), (1,), True)
    assert change.reason == "1 (a) -> 3 (a), leader 1 -> 2: 1 is decommissioned"


def test_decommission_keeps_the_racks() -> None:
    """A replica of rack b goes to another rack than its partition is in, though a broker is emptier there."""
    before = snapshot([(1, 2), (1, 4), (5, 4)], RACKS)

    plan = decommission(before, [2])

    assert plan.target[tp(0)][1] in (4, 5, 6)  # never 3, which is in the rack of 1
    assert plan.after.racks_missing == 0


def test_decommission_of_a_broker_that_is_gone() -> None:
    """Its replicas are moved too; those of another missing broker stay, with a note."""
    before = snapshot([(8, 1), (9, 2)], [1, 2, 3])

    plan = decommission(before, [9])

    assert set(plan.target) == {tp(1)}
    assert plan.notes == ("broker 8 is not registered and keeps its 1 replica: `decommission 8` moves them",)


def test_decommission_by_size_places_the_largest_first() -> None:
    """Two brokers share the replicas of the third: 8 on one, 5 and 4 on the other."""
    before = snapshot([(3,), (3,), (3,)], [1, 2, 3], sizes=[4, 8, 5])

    plan = decommission(before, [3])

    assert sorted(load.bytes or 0 for load in plan.after.loads.values()) == [0, 8, 9]
    assert plan.bytes == 17


def test_decommission_that_is_an_error() -> None:
    """An unknown broker, no broker, or all of them."""
    before = snapshot(RING, [1, 2, 3, 4])

    with pytest.raises(NotFoundError, match="broker 7 is neither registered nor in any replica list"):
        decommission(before, [7])
    with pytest.raises(PlacementError, match="no broker was named"):
        decommission(before, [])
    with pytest.raises(PlacementError, match="no broker would be left"):
        decommission(before, [1, 2, 3, 4])


def test_decommission_is_refused_where_too_few_brokers_stay() -> None:
    """Each topic is named once, in what to do first: all others keep their replicas."""
    wide = {TopicPartition(topic, n): (1, 2, 3) for topic in ("u", "three") for n in range(50)}
    before = replaced(
        snapshot([(1, 2), (3,)], [1, 2, 3]), replicas={**wide, tp(0): (1, 2), tp(1): (3,)}, in_sync=None
    )

    with pytest.raises(PlanRefusedError) as refused:
        decommission(before, [3])
    reduced = set_rf(before, 2, topics=["three", "u"])

    (reason,) = refused.value.reasons
    assert reason.startswith("2 topics have more replicas than the 2 remaining brokers; ")
    assert reason.endswith("`zkgroup plan set-rf 2 --topic three --topic u` first")
    assert {change.topic_partition for change in reduced.changes} == set(wide)
    decommission(replaced(before, replicas={**before.replicas, **reduced.target}), [3])


def test_decommission_of_the_last_broker_of_a_rack_is_refused() -> None:
    """The partition would lose a rack; who wants that can allow it."""
    before = snapshot([(1, 2)], {1: "a", 2: "b", 3: "a"})

    with pytest.raises(PlanRefusedError) as refused:
        decommission(before, [2])
    assert refused.value.reasons == ("t-0 would be in 1 rack instead of 2: [1, 2] -> [1, 3]",)
    assert decommission(before, [2], allow={"racks"}).target == {tp(0): (1, 3)}


def test_decommission_is_refused_where_there_is_nothing_to_copy_from() -> None:
    """The only replica is on a broker that is gone, or no live one is in sync: the move would never end."""
    with pytest.raises(PlanRefusedError) as refused:
        decommission(snapshot([(9,), (9, 1)], [1, 2]), [9])
    assert refused.value.reasons == ("t-0: none of [9] is alive and in sync, there is nothing to copy from",)

    with pytest.raises(PlanRefusedError, match=r"none of \[9, 1\] is alive and in sync"):
        decommission(snapshot([(9, 1)], [1, 2], in_sync=[{9}]), [9])
    assert decommission(snapshot([(9,)], [1, 2]), [9], allow={"source"}).moves == 1


def test_replace_keeps_every_position() -> None:
    """So the new broker leads the partitions that the old one led."""
    plan = replace(snapshot(RING, [1, 2, 3, 4, 5]), {4: 5})

    assert plan.intent == "replace 4=5"
    assert plan.target == {tp(2): (3, 5), tp(3): (5, 1)}
    assert plan.moves == plan.least_moves == 2
    assert [change.reason for change in plan.changes] == [
        "4 -> 5: 4 is replaced",
        "4 -> 5, leader 4 -> 5: 4 is replaced",
    ]


def test_replace_several_at_once() -> None:
    """Each by its own; a partition on two of them changes twice."""
    plan = replace(snapshot(RING, [1, 2, 3, 4, 5, 6]), {3: 5, 4: 6})

    assert plan.target == {tp(1): (2, 5), tp(2): (5, 6), tp(3): (6, 1)}


def test_replace_by_a_broker_that_has_the_partition_already() -> None:
    """Another broker takes that replica, the emptiest; a note says so."""
    plan = replace(snapshot([(1, 2), (1, 3)], [1, 2, 3, 4]), {1: 2}, allow={"balance"})

    assert plan.target == {tp(0): (4, 2), tp(1): (2, 3)}
    assert plan.notes == (
        "1 partition on both 1 and 2, t-0 first: what 1 holds of them goes to other brokers",
    )


def test_an_empty_broker_takes_over_all_leaders_of_one() -> None:
    """Past bug: refused as uneven, where the load only changes its name."""
    plan = replace(snapshot([(1, 2), (1, 3), (1, 2), (1, 3)], [1, 2, 3, 4]), {1: 4})

    assert plan.target == {tp(0): (4, 2), tp(1): (4, 3), tp(2): (4, 2), tp(3): (4, 3)}


def test_replace_that_is_refused() -> None:
    """There is no third broker; a rack would be lost; one broker would have twice as much as the others."""
    with pytest.raises(
        PlanRefusedError, match=r"than the 1 remaining broker; `zkgroup plan set-rf 1 --topic t` first"
    ):
        replace(snapshot([(1, 2)], [1, 2]), {1: 2})
    with pytest.raises(PlanRefusedError, match=r"t-0 would be in 1 rack instead of 2: \[1, 2\] -> \[4, 2\]"):
        replace(snapshot([(1, 2)], {1: "a", 2: "b", 3: "a", 4: "b"}), {1: 4})
    with pytest.raises(PlanRefusedError) as refused:
        replace(snapshot(RING, [1, 2, 3, 4]), {1: 3})
    assert "the loads of the brokers would differ by 2 replicas instead of 0" in refused.value.reasons


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({1: 9}, "broker 9 is not registered and cannot take over"),
        ({1: 9, 2: 8}, "brokers 8, 9 are not registered and cannot take over"),
        ({1: 2, 2: 3}, "broker 2 is to be replaced and to take over"),
        ({1: 3, 2: 3}, "a broker can take the place of one other only"),
        ({}, "no broker was named"),
    ],
)
def test_replace_that_is_an_error(pairs: dict[int, int], message: str) -> None:
    """Pairs that do not fit together."""
    with pytest.raises(PlacementError, match=message):
        replace(snapshot(RING, [1, 2, 3, 4]), pairs)


def test_replace_of_an_unknown_broker_is_not_found() -> None:
    """As every other thing that is asked for by name."""
    with pytest.raises(NotFoundError, match="broker 9 is neither registered nor in any replica list"):
        replace(snapshot(RING, [1, 2, 3, 4]), {9: 1})


def test_set_rf_up_adds_at_the_end_and_evenly() -> None:
    """Leaders and replicas that are there stay."""
    before = snapshot(RING, [1, 2, 3, 4])

    plan = set_rf(before, 3)

    assert all(change.after[:2] == change.before for change in plan.changes)
    assert (plan.moves, plan.leader_changes, plan.after.replica_spread) == (4, 0, 0)
    assert plan.changes[0].reason.endswith("joins: 3 replicas instead of 2")


def test_set_rf_up_goes_to_racks_without_a_replica() -> None:
    """Even where another broker is emptier."""
    plan = set_rf(snapshot([(1, 2), (5, 6), (5, 6)], RACKS), 3, topics={"t"})

    assert RACKS[plan.target[tp(0)][2]] == "c"


def test_set_rf_down_drops_what_is_missed_least() -> None:
    """Gone first, then out of sync, then followers in a rack that has another, then the fullest broker."""
    assert set_rf(snapshot([(9, 1, 2)], [1, 2]), 2).target == {tp(0): (1, 2)}
    assert set_rf(snapshot([(1, 2, 3)], [1, 2, 3], in_sync=[{1, 3}]), 2).target == {tp(0): (1, 3)}
    assert set_rf(snapshot([(1, 2)], [1, 2], in_sync=[{2}]), 1).target == {tp(0): (2,)}
    assert set_rf(snapshot([(1, 2, 3)], RACKS), 2).target == {tp(0): (1, 2)}
    fullest = set_rf(snapshot([(1, 2, 3), (3,)], [1, 2, 3]), 2)
    assert fullest.target[tp(0)] == (1, 2)
    assert fullest.moves == 1  # the short list gets its second replica


def test_set_rf_touches_the_topics_named() -> None:
    """Another topic stays as it is."""
    before = ClusterSnapshot(
        replicas={tp(0, "a"): (1,), tp(0, "b"): (2,)}, brokers=snapshot([], [1, 2]).brokers
    )

    assert set(set_rf(before, 2, topics=["b"]).target) == {tp(0, "b")}


@pytest.mark.parametrize(
    ("factor", "topics", "message"),
    [
        (0, None, "set-rf 0: expected 1 to 4, the number of brokers"),
        (5, None, "set-rf 5: expected 1 to 4"),
    ],
)
def test_set_rf_that_is_an_error(factor: int, topics: list[str] | None, message: str) -> None:
    """Numbers that cannot be."""
    with pytest.raises(PlacementError, match=message):
        set_rf(snapshot(RING, [1, 2, 3, 4]), factor, topics=topics)


def test_set_rf_of_unknown_topics_is_not_found() -> None:
    """Whatever else is wrong."""
    with pytest.raises(NotFoundError, match=r"set-rf 2: there is no topic x$"):
        set_rf(snapshot(RING, [1, 2, 3, 4]), 2, topics=["x", "t"])
    with pytest.raises(NotFoundError, match=r"set-rf 9: there are no topics x, y$"):
        set_rf(snapshot(RING, []), 9, topics=["y", "x"])


def test_set_rf_without_a_broker_that_hosts_replicas_is_refused() -> None:
    """Not as a number from 1 to 0: brokers that host nothing are registered perhaps."""
    with pytest.raises(PlacementError, match="set-rf 2: no broker that hosts replicas is registered"):
        set_rf(snapshot([(9,)], []), 2)


def test_balance_with_a_new_broker_moves_its_share_only() -> None:
    """Eight replicas on five brokers: the new one needs one."""
    plan = balance(snapshot(RING, [1, 2, 3, 4, 5]))

    assert (plan.moves, plan.least_moves) == (1, 1)
    assert plan.after.replica_spread == 1


def test_balance_changes_leaders_by_order() -> None:
    """No data is copied where replicas are even and leaders are not."""
    plan = balance(snapshot([(1, 2)] * 4, [1, 2]))

    assert (plan.moves, plan.leader_changes) == (0, 2)
    assert (plan.before.leader_spread, plan.after.leader_spread) == (4, 0)
    assert {change.after for change in plan.changes} == {(2, 1)}
    assert plan.changes[0].reason == "leader 1 -> 2"


def test_balance_of_leaders_only() -> None:
    """A new broker stays empty then."""
    plan = balance(snapshot([(1, 2)] * 4, [1, 2, 3]), leaders_only=True)

    assert (plan.moves, leaders(plan)) == (0, {1: 2, 2: 2, 3: 0})


def test_balance_brings_partitions_into_more_racks() -> None:
    """First of all, with one move for each rack; a note says how much less even the result is."""
    before = snapshot([(1, 3), (2, 4)], RACKS)

    plan = balance(before)

    assert plan.moves == plan.least_moves == 2
    assert (plan.before.racks_missing, plan.after.racks_missing) == (2, 0)
    assert plan.changes[0].reason.endswith(": its replicas were in too few racks")
    assert plan.notes[0] == "partitions come into 2 racks more, summed"


def test_balance_puts_racks_before_evenness() -> None:
    """Rack b is one broker: every partition has to be on it."""
    before = snapshot([(1, 2), (2, 3), (3, 4), (1, 4)], {1: "a", 2: "a", 3: "a", 4: "b"})

    plan = balance(before)

    assert sorted(replicas(plan).items())[3] == (4, 4)
    assert plan.notes == (
        "partitions come into 2 racks more, summed",
        "the loads of the brokers would differ by 3 replicas instead of 0, for the sake of the racks",
    )


def test_balance_leaves_gone_brokers_alone() -> None:
    """Their replicas and leaderships stay, and a note names the command that moves them."""
    plan = balance(snapshot([(9, 1), (9, 1), (9, 1), (9, 1)], [1, 2]))

    assert all(9 in lists and lists[0] == 9 for lists in plan.target.values())
    assert replicas(plan) == {1: 2, 2: 2}
    assert any("`decommission 9` moves them" in note for note in plan.notes)


def test_balance_by_size_moves_a_piece_of_half_the_difference() -> None:
    """Not the count but the bytes come out even: one move, where by count it would be five."""
    plan = balance(snapshot([(1,)] * 10, [1, 2], sizes=[*[1] * 9, 10]))

    assert (plan.moves, plan.least_moves) == (1, 1)
    assert [change.topic_partition for change in plan.changes] == [tp(9)]
    assert (plan.before.byte_spread, plan.after.byte_spread) == (19, 1)


def test_balance_by_size_exchanges_where_no_single_move_helps() -> None:
    """12 and 10 on one side, 9 and 6 on the other: each is heavier than the difference of 7."""
    before = snapshot([(1,), (1,), (2,), (2,)], [1, 2], sizes=[12, 10, 9, 6])

    plan = balance(before)

    assert lists_after(before, plan) in ([(2,), (1,), (1,), (2,)], [(1,), (2,), (2,), (1,)])
    assert (plan.before.byte_spread, plan.after.byte_spread) == (7, 1)


def test_balance_by_size_leaves_small_differences() -> None:
    """Within the tolerance nothing moves."""
    uneven = snapshot([(1,), (2,), (1,)], [1, 2], sizes=[100, 100, 8])

    assert balance(uneven).changes == ()
    assert balance(snapshot([(1,), (2,)], [1, 2], sizes=[0, 0])).changes == ()


def test_balance_of_nothing() -> None:
    """No partitions is no work; no brokers is an error, as is a tolerance below 0."""
    assert balance(snapshot([], [1, 2])).changes == ()
    with pytest.raises(PlacementError, match="no broker that hosts replicas is registered"):
        balance(snapshot([(1,)], []))
    with pytest.raises(PlacementError, match="tolerance of 0 or more"):
        balance(snapshot([(1,)], [1]), tolerance=-1)


def test_racks_can_be_ignored() -> None:
    """By mode; a note says that they were ignored."""
    before = snapshot([(1, 3), (2, 4)], RACKS, rack_mode="disabled")

    plan = balance(before)

    assert plan.after.racks_missing == 0
    assert "racks were ignored" in plan.notes


@pytest.mark.parametrize(
    ("before", "message"),
    [
        (snapshot([(1, 1)], [1, 2]), r"t-0: the replica list \[1, 1\] repeats a broker"),
        (snapshot([()], [1, 2]), "t-0: the replica list is empty"),
        (snapshot([(1,), (1,)], [1], sizes=[5]), "t-1: expected its size in bytes, found None"),
        (snapshot([(1,)], [1], sizes=[-5]), "t-0: expected its size in bytes, found -5"),
        (snapshot([(1,)], {1: "a", 2: None}), "broker 2 has no rack"),
        (snapshot([(1,)], [-1]), r"brokers \[-1\]: an id is never negative"),
        (
            ClusterSnapshot(replicas={}, brokers=(*snapshot([], [1]).brokers, *snapshot([], [1]).brokers)),
            "broker 1 is named twice",
        ),
    ],
)
def test_a_snapshot_that_is_an_error(before: ClusterSnapshot, message: str) -> None:
    """The message names the partition or the broker."""
    with pytest.raises(PlacementError, match=message):
        balance(before)


def test_the_example_of_the_package_holds() -> None:
    """The docstring of `zkgroup.placement`."""
    assert doctest.testmod(placement) == doctest.TestResults(failed=0, attempted=5)
