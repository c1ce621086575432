"""What a controller makes of the request, of the topics' own keys, and of changes while moves run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.worlds.controller_clusters import broker, cluster, leadership, tp
from zkgroup.controller.machine.context import Brokers, ControllerContext
from zkgroup.controller.machine.open_reassignments import OpenReassignments, ReassignmentRequest, Stage
from zkgroup.controller.machine.pending_deletes import PendingDeletes
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import PartitionState, Topic


def asked(
    moves: OpenReassignments,
    context: ControllerContext,
    targets: Mapping[TopicPartition, Brokers],
    version: int = 0,
    czxid: int = 9,
) -> list[tuple[TopicPartition, str]]:
    """Follows a request; the entries that are dropped, and why."""
    moves.request = ReassignmentRequest(targets, version, czxid)
    return [(ending.topic_partition, ending.reason) for ending in moves.follow(context)[0]]


def test_entries_that_cannot_be_carried_out_are_dropped_and_the_others_begin() -> None:
    """Each with its reason; a broker that is down is no reason."""
    context = cluster({"t": {0: (1, 2), 1: (1, 2), 2: (1, 2)}, "going": {0: (1, 2)}})
    context.deletions.add("going")
    context.brokers[8] = broker(8, role="controller")
    moves = OpenReassignments()

    dropped = asked(
        moves,
        context,
        {tp(0): (3, 77), tp(1): (), tp(5): (3,), tp(0, "none"): (3,), tp(0, "going"): (3,), tp(2): (8,)},
    )

    assert dropped == [
        (tp(1), "the replica list is empty"),
        (tp(5), "there is no such partition"),
        (tp(0, "none"), "there is no such partition"),
        (tp(0, "going"), "the topic is being deleted"),
        (tp(2), "broker 8 hosts no partitions"),
    ]
    assert list(moves) == [tp(0)]
    assert context.moves == {tp(0)}


def test_a_topic_that_cannot_be_read_is_no_missing_one() -> None:
    """Its entry stays until it can be read."""
    context = cluster({"t": {0: (1, 2)}})
    context.unreadable[Topic.path("u")] = "no JSON"
    moves = OpenReassignments()

    assert asked(moves, context, {tp(0, "u"): (3,)}) == []
    assert not moves


def test_a_move_under_way_outlives_a_request_to_delete_its_topic() -> None:
    """The deletion waits; a new controller sees by the union that it had begun."""
    context = cluster({"t": {0: (3, 1, 2), 1: (1, 2)}})
    context.deletions.add("t")

    dropped = asked(OpenReassignments(), context, {tp(0): (3,), tp(1): (3,)})

    assert dropped == [(tp(1), "the topic is being deleted")]


def test_what_is_moved_is_going_only_when_the_move_is_over() -> None:
    """Until then its partition takes part in elections, and brokers get it: the deletion waits for
    the move, which would else wait for ever for a leader."""
    context = cluster({"t": {0: (3, 1, 2), 1: (1, 2)}})
    moves = OpenReassignments()
    context.deletions.add("t")
    asked(moves, context, {tp(0): (3,)})
    assert [context.is_going(tp(number)) for number in (0, 1)] == [False, True]

    moves.ended([tp(0)], context)
    assert context.is_going(tp(0))


def test_a_move_that_no_broker_can_lead_is_no_obstacle_to_the_deletion_of_its_topic() -> None:
    """A replica in sync may be gone for good, or its log deleted already: a move of a topic that is to be
    deleted does not wait for it."""
    context = cluster({"t": {0: (3, 1), 1: (3, 1)}}, brokers=(1, 2))
    moves = OpenReassignments()
    for number, isr in enumerate([(3,), (3, 1)]):
        context.state_seen(tp(number), leadership(3, isr))
    targets = {tp(0): (3,), tp(1): (3,)}
    assert asked(moves, context, targets) == []

    context.deletions.add("t")
    assert asked(moves, context, targets, version=1) == [(tp(0), "the topic is being deleted")]
    assert context.moves == {tp(1)}


def test_another_target_is_planned_anew_and_going_back_is_a_cancellation() -> None:
    """Also between step 8 and the deletion; who was to be deleted may be wanted again (recipes 17)."""
    context = cluster({"t": {0: (1, 2)}})
    moves = OpenReassignments()
    asked(moves, context, {tp(0): (3, 4)})
    moves.reached(tp(0), Stage.DELETE, drop=(1, 2))

    asked(moves, context, {tp(0): (3, 1)}, version=1)
    assert (moves[tp(0)].stage, moves[tp(0)].drop, moves[tp(0)].is_cancelled) == (Stage.PLAN, (), False)

    asked(moves, context, {tp(0): (1, 2)}, version=2)
    assert moves[tp(0)].is_cancelled
    assert moves[tp(0)].before == (1, 2)


def test_the_other_moves_of_a_changed_request_continue() -> None:
    """A request that shrinks, or of which one entry changes, costs the others no bump."""
    context = cluster({"t": {0: (1, 2), 1: (1, 2)}})
    moves = OpenReassignments()
    asked(moves, context, {tp(0): (3,), tp(1): (3,)})
    moves.reached(tp(0), Stage.CATCH_UP)

    asked(moves, context, {tp(0): (3,)}, version=1)

    assert moves[tp(0)].stage is Stage.CATCH_UP
    assert list(moves) == [tp(0)]
    assert context.moves == {tp(0)}


def test_a_request_that_was_made_again_is_another_one() -> None:
    """Its data version is 0 as well; the czxid distinguishes it."""
    context = cluster({"t": {0: (1, 2)}})
    moves = OpenReassignments()
    asked(moves, context, {tp(0): (3,)})
    moves.reached(tp(0), Stage.CATCH_UP)

    asked(moves, context, {tp(0): (3,)}, czxid=10)

    assert moves[tp(0)].stage is Stage.PLAN


def test_a_topics_own_keys_are_a_request() -> None:
    """Found without an entry, the move is finished; with one it wins (recipes 17)."""
    context = cluster({"t": {0: (3, 1, 2), 1: (1, 2)}})
    context.topic_seen("t", Topic({0: (3, 1, 2), 1: (1, 2)}, 2, {0: (3,)}, {0: (1, 2)}), 1)
    moves = OpenReassignments()

    moves.follow(context)
    move = moves[tp(0)]
    assert (move.target, move.origin, move.asked) == ((3,), (1, 2), False)

    asked(moves, context, {tp(0): (1, 2)})
    assert (move.target, move.asked, move.is_cancelled) == ((1, 2), True, True)


def test_a_new_controller_learns_of_a_cancellation_from_the_keys() -> None:
    """The keys name the former target and where it began."""
    context = cluster({"t": {0: (3, 1, 2)}})
    context.topic_seen("t", Topic({0: (3, 1, 2)}, 2, {0: (3,)}, {0: (1, 2)}), 1)
    moves = OpenReassignments()

    asked(moves, context, {tp(0): (1, 2)})

    assert moves[tp(0)].is_cancelled


@pytest.mark.parametrize(
    ("replicas", "target", "before", "origin"),
    [
        ((1, 2), (3, 1), (1, 2), (1, 2)),
        ((3, 1, 2), (3, 1), (3, 1, 2), None),
        ((1, 2), (2, 1), (1, 2), None),
    ],
    ids=["first sight", "begun by another", "another order"],
)
def test_where_a_move_began_is_known_when_it_is_read_first_only(
    replicas: Brokers, target: Brokers, before: Brokers, origin: Brokers | None
) -> None:
    """Without keys a union does not show which of the target were there before."""
    context = cluster({"t": {0: replicas}})
    moves = OpenReassignments()
    asked(moves, context, {tp(0): target})

    assert (moves[tp(0)].before, moves[tp(0)].origin) == (before, origin)


def test_an_election_with_a_held_target_plans_again() -> None:
    """The list that was sent lacks it (recipes 17)."""
    context = cluster({"t": {0: (1, 2), 1: (1, 2)}})
    moves, pending_deletes = OpenReassignments(), PendingDeletes()
    asked(moves, context, {tp(0): (3,), tp(1): (3,)})
    for each in moves:
        moves.reached(each, Stage.CATCH_UP)
    for id_ in (1, 2, 3):
        pending_deletes.answered(id_, 1)
    pending_deletes.delete_asked(tp(0), [3])

    assert moves.interrupted([tp(0), tp(1), tp(7)], context, pending_deletes) == (tp(0),)
    assert [moves[each].stage for each in moves] == [Stage.PLAN, Stage.CATCH_UP]


@pytest.mark.parametrize(("stage", "after"), [(Stage.CATCH_UP, Stage.PLAN), (Stage.SHRINK, Stage.SHRINK)])
def test_an_old_replica_that_is_held_is_sent_the_list_again(stage: Stage, after: Stage) -> None:
    """While the target is waited for, perhaps for days, it shall follow; past step 7 it goes in any case."""
    context = cluster({"t": {0: (3, 1, 2)}})
    moves, pending_deletes = OpenReassignments(), PendingDeletes()
    asked(moves, context, {tp(0): (3,)})
    moves.reached(tp(0), stage)
    for id_ in (1, 2, 3):
        pending_deletes.answered(id_, 1)
    pending_deletes.delete_asked(tp(0), [2])
    moves.interrupted([tp(0)], context, pending_deletes)

    assert moves[tp(0)].stage is after
    assert moves.was_left_out(tp(0))
    pending_deletes.delete_answered(2, [tp(0)])
    moves.interrupted([tp(0)], context, pending_deletes)
    assert moves.was_left_out(tp(0))  # its leader passes over what has the same leader epoch
    context.state_seen(tp(0), leadership(3, (3, 1), leader_epoch=1, version=1))
    moves.interrupted([tp(0)], context, pending_deletes)
    assert moves.was_left_out(tp(0)) == (stage is Stage.SHRINK)  # past step 7 the target alone is sent
    context.topic_seen("t", Topic({0: (3,)}), 1)
    moves.ended([tp(0)], context)
    assert not moves.was_left_out(tp(0))


@pytest.mark.parametrize(("stage", "cut"), [(Stage.CATCH_UP, ()), (Stage.SHRINK, (tp(0),))])
def test_a_move_that_is_taken_back_leaves_a_cut_list_behind(
    stage: Stage, cut: tuple[TopicPartition, ...]
) -> None:
    """Past step 7; until another leader epoch was sent with the whole one, or the partition is gone."""
    context = cluster({"t": {0: (3, 1, 2)}})
    moves, pending_deletes = OpenReassignments(), PendingDeletes()
    moves.follow(context)  # at the take-over there is none
    asked(moves, context, {tp(0): (3,)})
    moves.reached(tp(0), stage)
    for id_ in (1, 2, 3):
        pending_deletes.answered(id_, 1)
    moves.interrupted([tp(0)], context, pending_deletes)
    assert moves.cut(context) == ()  # it is open: its own steps send it

    moves.request = None
    moves.follow(context)
    assert moves.cut(context) == cut
    moves.interrupted([tp(0)], context, pending_deletes)
    assert moves.cut(context) == cut
    assert moves.cut(cluster({})) == ()

    asked(moves, context, {tp(0): (3,)}, czxid=10)
    moves.reached(tp(0), stage)
    moves.interrupted([tp(0)], context, pending_deletes)
    moves.request = None
    moves.follow(context)
    context.state_seen(tp(0), leadership(3, (3, 1), leader_epoch=1, version=1))
    moves.interrupted([tp(0)], context, pending_deletes)
    assert moves.cut(context) == ()


@pytest.mark.parametrize("path", [PartitionState.path(tp(0)), Topic.path("t")], ids=["state", "topic"])
def test_a_move_that_cannot_be_read_at_the_take_over_may_be_cut_as_well(path: str) -> None:
    """Recipes 17: the former controller may have sent the target alone, in the leader epoch that is found
    when the znode is repaired: a whole list in the same one is passed over."""
    moves, pending_deletes = OpenReassignments(), PendingDeletes()
    context = cluster({} if path == Topic.path("t") else {"t": {0: (1, 2, 3)}})
    if path != Topic.path("t"):
        context.state_seen(tp(0), None)
    context.unreadable[path] = "no JSON"
    asked(moves, context, {tp(0): (1, 2)})
    for id_ in (1, 2, 3):
        pending_deletes.answered(id_, 1)
    assert moves.was_left_out(tp(0)) == (path != Topic.path("t"))

    del context.unreadable[path]
    context.topic_seen("t", Topic({0: (1, 2, 3)}), 1)
    context.state_seen(tp(0), leadership(1, (1, 2), leader_epoch=4, version=5))
    moves.follow(context)
    moves.interrupted([tp(0)], context, pending_deletes)
    assert moves.was_left_out(tp(0))

    context.state_seen(tp(0), leadership(1, (1, 2), leader_epoch=5, version=6))
    moves.interrupted([tp(0)], context, pending_deletes)
    assert not moves.was_left_out(tp(0))


def test_a_partition_without_a_state_was_sent_to_no_broker() -> None:
    """At a take-over too: its first list is whole."""
    context = cluster({"t": {0: (1, 2)}})
    context.state_seen(tp(0), None)
    moves = OpenReassignments()

    asked(moves, context, {tp(0): (2, 3)})

    assert not moves.was_left_out(tp(0))
