"""Every row of the tables of controller.md 4.4 and 4.5, and what recipes 17 adds to them."""

from __future__ import annotations

import pytest

from zkgroup.controller.machine import open_reassignments
from zkgroup.controller.machine.open_reassignments import Stage
from zkgroup.controller.machine.reassignment.steps import (
    Announce,
    Complete,
    Decision,
    DeleteReplicas,
    Lead,
    Shrink,
    Situation,
    Wait,
    WriteUnion,
    decide,
)

OLD, NEW = (1, 2, 3), (4, 5, 6)
UNION = (4, 5, 6, 1, 2, 3)
ALL = frozenset(UNION)

BEGIN = Situation(NEW, OLD, leader=1, isr=OLD, stage=Stage.PLAN, live=ALL)
"""1,2,3 to 4,5,6: the example of the table."""


def at(stage: Stage, **changes: object) -> Decision:
    """What is decided in the example at a stage."""
    return decide(BEGIN._replace(stage=stage, **changes))


def waiting(decision: Decision) -> tuple[str, Stage]:
    """Why, and where it stays."""
    assert isinstance(decision.step, Wait)
    assert decision.stage is decision.then
    return decision.step.reason, decision.then


def test_every_step_of_the_table_in_its_order() -> None:
    """Steps 1, 2, 4, 7, 8, 9, 10: what each leaves behind is what the next begins with."""
    first = decide(BEGIN)
    assert first == (WriteUnion(UNION, adding=NEW, removing=OLD), Stage.PLAN, Stage.PLAN)

    second = at(first.then, replicas=UNION)
    assert second == (Announce(UNION), Stage.ANNOUNCE, Stage.CATCH_UP)

    third = at(second.then, replicas=UNION)
    assert waiting(third) == ("waits for replicas to be in sync: brokers 4, 5, 6", Stage.CATCH_UP)
    fourth = at(third.then, replicas=UNION, isr=(1, 2, 3, 4, 6))
    assert waiting(fourth) == ("waits for replicas to be in sync: broker 5", Stage.CATCH_UP)

    seventh = at(fourth.then, replicas=UNION, isr=UNION)
    assert seventh == (Lead(4, UNION), Stage.LEAD, Stage.SHRINK)

    eighth = at(seventh.then, replicas=UNION, isr=UNION, leader=4)
    assert eighth == (Shrink(NEW, needed=True, drop=OLD), Stage.SHRINK, Stage.DELETE)

    ninth = at(eighth.then, replicas=UNION, isr=NEW, leader=4, drop=OLD)
    assert ninth == (DeleteReplicas(OLD), Stage.DELETE, Stage.FINISH)

    tenth = at(ninth.then, replicas=UNION, isr=NEW, leader=4, drop=OLD)
    assert tenth == (Complete("done", "moved"), Stage.FINISH, Stage.PLAN)


@pytest.mark.parametrize(
    ("left_behind", "expected"),
    [
        ({}, WriteUnion(UNION, NEW, OLD)),
        ({"replicas": UNION}, Announce(UNION)),
        ({"replicas": UNION, "isr": (1, 2, 3, 4)}, Announce(UNION)),
        ({"replicas": UNION, "isr": UNION}, Lead(4, UNION)),
        ({"replicas": UNION, "isr": UNION, "leader": 5}, Lead(5, UNION)),
        ({"replicas": UNION, "isr": NEW, "leader": 4}, Lead(4, NEW)),
        ({"replicas": NEW, "isr": NEW, "leader": 4}, Complete("done", "")),
    ],
    ids=["0", "1", "2-3", "4-6", "7", "8-9", "10"],
)
def test_a_successor_continues_from_what_it_finds(left_behind: dict[str, object], expected: object) -> None:
    """The crash table: the row names the step after which the predecessor ended."""
    step = at(Stage.PLAN, **left_behind).step

    if isinstance(expected, Complete):
        assert isinstance(step, Complete)
        assert step.outcome == expected.outcome
    else:
        assert step == expected


def test_another_order_of_the_same_replicas_is_a_move_without_copies() -> None:
    """Steps 7 (bump), 8 (the checks alone) and 10, as real Kafka writes it."""
    order = BEGIN._replace(target=(2, 1, 3))

    seventh = decide(order)
    assert seventh == (Lead(1, OLD), Stage.LEAD, Stage.SHRINK)
    eighth = decide(order._replace(stage=seventh.then))
    assert eighth == (Shrink(OLD, needed=False, drop=()), Stage.SHRINK, Stage.DELETE)
    last = decide(order._replace(stage=eighth.then))
    assert last == (Complete("done", "moved"), Stage.FINISH, Stage.PLAN)


def test_replicas_that_stay_keep_the_targets_order_in_the_union() -> None:
    """The target first, then the others as they were (2.4): the preferred leader is no accident (K13)."""
    overlapping = at(Stage.PLAN, target=(3, 9, 1), live=ALL | {9})

    assert overlapping.step == WriteUnion((3, 9, 1, 2), adding=(9,), removing=(2,))


def test_a_target_that_is_down_is_waited_for_before_anything_is_written() -> None:
    """Where it is so when it is read first: the list stays as it is, so nothing is left at the union
    (K12)."""
    reason, stage = waiting(at(Stage.PLAN, live=ALL - {5, 6}))

    assert (reason, stage) == ("waits for brokers that are down: brokers 5, 6", Stage.PLAN)


@pytest.mark.parametrize(
    "changes",
    [
        {"live": ALL - {5}},
        {"live": ALL - {5}, "deleting": {5}},  # ClusterSimulation(1011250): it may wait for days
        {"target": OLD, "isr": (1, 2), "cancelled": True},
        {"target": OLD, "cancelled": True},  # after step 7, whose list was the former target alone
        {"target": (2, 3), "isr": OLD, "live": {1}},  # no broker of the target can lead
    ],
)
def test_an_omitted_broker_is_sent_the_state_before_the_step_ends(changes: dict[str, object]) -> None:
    """Once it is free again, with a new leader epoch, as its leader was sent a shorter list (recipes 17)."""
    assert at(Stage.PLAN, left_out=True, **changes) == (Announce(OLD), Stage.PLAN, Stage.PLAN)
    assert not isinstance(at(Stage.PLAN, **changes).step, Announce)


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        ({}, WriteUnion(UNION, NEW, OLD)),
        ({"replicas": UNION, "isr": (1, 4)}, Announce(UNION)),
        ({"replicas": UNION, "isr": UNION}, Lead(4, UNION)),
        ({"target": (1, 2), "isr": OLD}, Lead(1, OLD)),
        ({"target": OLD, "isr": (1, 2)}, Announce(OLD)),
    ],
)
def test_an_omitted_broker_is_sent_the_state_by_the_next_steps(
    changes: dict[str, object], step: object
) -> None:
    """A move found at a take-over costs no leader epoch that its own steps do not need."""
    decision = at(Stage.PLAN, left_out=True, **changes)

    assert decision == at(Stage.PLAN, **changes)
    assert decision.step == step
    assert not (isinstance(step, Announce) and decision.then is Stage.PLAN)


def test_a_replica_under_deletion_is_announced_once() -> None:
    """All of the target is in sync and down; a list without the held one would be cut once more."""
    deleting = at(
        Stage.PLAN, left_out=True, target=(2, 3), isr=OLD, replicas=(2, 3, 1, 4), live={1}, deleting={4}
    )

    assert waiting(deleting)[1] is Stage.PLAN


def test_a_target_that_goes_down_on_the_way_is_waited_for() -> None:
    """On resumption too; the entry is never dropped for it (K12)."""
    reason, stage = waiting(at(Stage.CATCH_UP, replicas=UNION, isr=(1, 2, 3, 4), live=ALL - {6}))

    assert (reason, stage) == ("waits for brokers that are down: broker 6", Stage.CATCH_UP)


@pytest.mark.parametrize(("stage", "replicas"), [(Stage.CATCH_UP, UNION), (Stage.PLAN, OLD)])
def test_an_offline_replica_of_a_broker_that_is_up_is_named_as_that(
    stage: Stage, replicas: tuple[int, ...]
) -> None:
    """A broker that is down as well is named first."""
    isr = (1, 2, 3, 4)
    offline = waiting(at(stage, replicas=replicas, isr=isr, live=ALL - {6}, up=ALL))
    both = waiting(at(stage, replicas=replicas, isr=isr, live=ALL - {5, 6}, up=ALL - {5}))

    assert offline[0] == "waits for offline replicas, until their brokers restart: broker 6"
    assert both[0] == "waits for brokers that are down: broker 5"


def test_step_4_needs_a_live_target() -> None:
    """All in the ISR and all down: waiting, not going back to step 2, which would bump the epoch for ever."""
    dead = at(Stage.CATCH_UP, replicas=UNION, isr=UNION, live=frozenset(OLD))

    assert waiting(dead)[1] is Stage.CATCH_UP
    assert waiting(at(Stage.LEAD, replicas=UNION, isr=UNION, live=frozenset(OLD)))[1] is Stage.CATCH_UP


def test_an_unannounced_target_is_not_waited_for() -> None:
    """All in the ISR and all down, when it is read first: one that falls out has to be announced, not
    awaited."""
    dead = at(Stage.PLAN, replicas=UNION, isr=UNION, live=frozenset(OLD))
    assert waiting(dead)[1] is Stage.PLAN

    fallen = at(dead.then, replicas=UNION, isr=(1, 4, 5), live=ALL)
    assert fallen.step == Announce(UNION)


def test_a_leader_of_the_target_stays_only_while_it_lives_and_is_in_sync() -> None:
    """Step 7: otherwise the first of the target that does."""
    assert at(Stage.LEAD, replicas=UNION, isr=UNION, leader=5).step == Lead(5, UNION)
    assert at(Stage.LEAD, replicas=UNION, isr=UNION, leader=5, live=ALL - {5}).step == Lead(4, UNION)
    assert at(Stage.LEAD, replicas=UNION, isr=(1, 6), leader=5).step == Lead(6, (1, 6))


def test_no_replica_leaves_the_isr_while_the_target_is_not_whole() -> None:
    """Step 8 only with a leader of the target and all of it in sync, else it plans again (recipes 17)."""
    old_leader = at(Stage.SHRINK, replicas=UNION, isr=UNION, leader=1)
    fallen = at(Stage.SHRINK, replicas=UNION, isr=(1, 4, 5), leader=4)

    assert old_leader.step == Lead(4, UNION)
    assert fallen == (Announce(UNION), Stage.ANNOUNCE, Stage.CATCH_UP)


def test_a_replica_that_an_unclean_election_elected_is_not_deleted() -> None:
    """The target could not lead, and between steps 8 and 9 one that had left the ISR was elected."""
    decision = at(Stage.DELETE, replicas=UNION, leader=2, isr=(2,), drop=OLD)

    assert decision == Decision(Announce(UNION), Stage.ANNOUNCE, Stage.CATCH_UP)
    assert at(Stage.DELETE, replicas=UNION, leader=4, isr=NEW, drop=OLD).step == DeleteReplicas(OLD)


def test_stray_replicas_in_the_isr_are_deleted_too() -> None:
    """A member that no replica list names any more still has its copy."""
    assert at(Stage.SHRINK, replicas=UNION, isr=(*UNION, 9), leader=4).step == Shrink(NEW, True, (*OLD, 9))


def test_a_target_that_falls_out_at_the_end_is_waited_for_in_place() -> None:
    """What the record says is true when it is written (recipes 17)."""
    fallen = at(Stage.FINISH, replicas=UNION, isr=(4, 5), leader=4, drop=OLD)
    assert waiting(fallen) == ("waits for replicas to be in sync again: broker 6", Stage.FINISH)

    back = at(Stage.FINISH, replicas=UNION, isr=(1, 4, 5, 6), leader=4, drop=OLD)
    assert back == (Lead(4, (1, 4, 5, 6)), Stage.LEAD, Stage.SHRINK)


@pytest.mark.parametrize("stage", [each for each in Stage if each is not Stage.PLAN])
def test_a_changed_request_is_planned_anew_at_every_stage(stage: Stage) -> None:
    """Also between step 8 and the deletion: who was to be deleted may be wanted again."""
    changed = at(stage, target=(1, 2), replicas=UNION, isr=NEW, leader=4, drop=OLD, changed=True)

    assert changed == (Announce(UNION), Stage.ANNOUNCE, Stage.CATCH_UP)


def test_a_cancelled_move_goes_back_and_drops_what_it_had_added() -> None:
    """The target is the old list; the added replicas leave the ISR and go, and the record says so (K14)."""
    back = Situation(OLD, UNION, 1, (1, 2, 3, 4), Stage.PLAN, ALL, cancelled=True)

    seventh = decide(back)
    assert seventh.step == Lead(1, (1, 2, 3, 4))
    eighth = decide(back._replace(stage=seventh.then))
    assert eighth.step == Shrink(OLD, True, NEW)
    ninth = decide(back._replace(stage=eighth.then, isr=OLD, drop=NEW))
    assert ninth.step == DeleteReplicas(NEW)
    last = decide(back._replace(stage=ninth.then, isr=OLD))
    assert last.step == Complete("cancelled", "asked for")


def test_a_move_cancelled_before_it_began_ends_at_once() -> None:
    """Nothing was written, so nothing is waited for, not even a replica that was out of sync before."""
    step = at(Stage.PLAN, target=OLD, isr=(1,), cancelled=True).step

    assert step == Complete("cancelled", "the replicas are where they were")


def test_a_request_for_what_is_already_so_is_dropped() -> None:
    """As 0.8.2.2 drops it; with all in sync it may be a predecessor's missing step 11, and is done."""
    dropped = at(Stage.PLAN, target=OLD, isr=(1, 2), live={1, 2}).step
    done = at(Stage.PLAN, target=OLD).step

    assert isinstance(dropped, Complete)
    assert isinstance(done, Complete)
    assert (dropped.outcome, done.outcome) == ("dropped", "done")


def test_replicas_that_are_only_added_are_announced_and_awaited() -> None:
    """From 1 to 1,2: the union is the target, so the list alone does not say that the move is over."""
    grown = Situation((1, 2), (1, 2), 1, (1,), Stage.PLAN, frozenset({1, 2}), growing=True)

    assert decide(grown) == Decision(Announce((1, 2)), Stage.ANNOUNCE, Stage.CATCH_UP)
    assert decide(grown._replace(growing=False)).step == Announce((1, 2))
    assert decide(grown._replace(live=frozenset({1}))).step == Announce((1, 2))
    assert decide(grown._replace(isr=(1, 2))).step == Complete(
        "done", "the replica list is the target, and all of it is in sync"
    )


def test_held_replicas_are_waited_for_before_step_1_and_2() -> None:
    """A late deletion would hit a replica that has rejoined (recipes 17)."""
    assert waiting(at(Stage.PLAN, deleting={2})) == (
        "waits for a deletion on broker 2",
        Stage.PLAN,
    )
    assert waiting(at(Stage.ANNOUNCE, replicas=UNION, deleting={5}))[1] is Stage.ANNOUNCE


def test_held_replicas_that_leave_anyway_do_not_stop_the_end() -> None:
    """The target is in sync: what is being deleted is what goes."""
    assert at(Stage.PLAN, replicas=UNION, isr=UNION, deleting={2}).step == Lead(4, UNION)
    assert at(Stage.PLAN, replicas=UNION, isr=UNION, deleting={4}).step == Wait(
        "waits for a deletion on broker 4", (4,)
    )


def test_a_partition_without_leader_is_announced_once_it_has_one() -> None:
    """Elections are others' work; without one no one could catch up."""
    assert waiting(at(Stage.PLAN, replicas=UNION, leader=-1, isr=(1,)))[0] == "waits for a leader"
    assert waiting(at(Stage.PLAN, replicas=UNION, leader=-1, isr=()))[0] == "waits for a leader"


def test_from_step_7_on_brokers_are_sent_the_target() -> None:
    """By elections and for new incarnations too; before it what the topic has."""
    received = {stage: open_reassignments.sent_replicas(stage, NEW, UNION) for stage in Stage}

    late = {Stage.SHRINK, Stage.DELETE, Stage.FINISH}
    assert received == {stage: NEW if stage in late else UNION for stage in Stage}


def test_an_election_in_the_middle_with_a_held_target_plans_again() -> None:
    """The list that was sent lacks it, so it has to be sent once more with a new leader epoch."""
    assert open_reassignments.interrupted(Stage.CATCH_UP, NEW, deleting={5}) is Stage.PLAN
    assert open_reassignments.interrupted(Stage.CATCH_UP, NEW, deleting={1}) is Stage.CATCH_UP
    assert open_reassignments.interrupted(Stage.ANNOUNCE, NEW, deleting={5}) is Stage.ANNOUNCE


@pytest.mark.parametrize(
    ("target", "replicas", "going", "reason"),
    [
        ((), OLD, False, "the replica list is empty"),
        ((4, 5, 4), OLD, False, "a broker is listed twice in 4, 5, 4"),
        ((4, -1), OLD, False, "-1 is no broker"),
        (NEW, None, False, "there is no such partition"),
        (NEW, OLD, True, "the topic is being deleted"),
        ((4, 9), OLD, False, "broker 9 hosts no partitions"),
        ((9, 8), OLD, False, "brokers 9, 8 host no partitions"),
        (NEW, OLD, False, None),
        ((77,), OLD, False, None),
    ],
)
def test_entries_that_cannot_be_carried_out_are_dropped_with_a_reason(
    target: tuple[int, ...], replicas: tuple[int, ...] | None, going: bool, reason: str | None
) -> None:
    """An empty list is never applied; a broker that is down, or was never seen, is waited for."""
    assert open_reassignments.unacceptable(target, replicas, going=going, controllers=[8, 9]) == reason


def test_going_back_differs_from_going_elsewhere() -> None:
    """By where the move began, in any order, and by having been asked for something else before."""
    assert open_reassignments.is_cancellation((1, 2), {2, 1}, (3, 4))
    assert not open_reassignments.is_cancellation((1, 5), {2, 1}, (3, 4))
    assert not open_reassignments.is_cancellation((2, 1), {2, 1}, None)
    assert not open_reassignments.is_cancellation((1, 2), None, (3, 4))


def test_the_keys_of_a_topic_name_both_ends_of_a_move() -> None:
    """Without the request too: what a controller of 2.4 or later left behind is finished (recipes 17)."""
    assert open_reassignments.origin_in_topic(UNION, adding=NEW) == OLD
    assert open_reassignments.target_in_topic(UNION, removing=OLD) == NEW

    step = at(
        Stage.PLAN, target=open_reassignments.target_in_topic(UNION, OLD), replicas=UNION, isr=UNION
    ).step
    assert step == Lead(4, UNION)
