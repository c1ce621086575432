"""The invariants of brokers and controllers: a cluster by the recipes holds, each broken rule is named."""

from __future__ import annotations

import pytest

from tests.worlds.cluster_history import OPERATOR, TOPIC, TP, ClusterHistory, broken
from zkgroup.history import Change, Refusal
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Move, Reassignment, TopicDeletion
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.controller import Controller, ControllerEpoch
from zkgroup.znodes.stray_replicas import UnhostedTopic, unhosted_topics_path

SAFETY = {"S11", "S12", "S13", "S14", "S15", "S16", "S17"}


def asked(*target: int) -> ClusterHistory:
    """A cluster in which somebody has asked for a move to these brokers."""
    world = ClusterHistory()
    world.ask_move(*target)
    return world


def test_a_cluster_by_the_recipes_holds() -> None:
    """Elections, a move, a deletion of a broker's session: nothing is held against it."""
    world = ClusterHistory()
    world.move(4, 2, 3)
    world.expire(100)
    world.elect(2)
    world.state(200, 2, 4, (2, 3))
    report = world.check(quiet_from_ms=world.ms)

    assert report.violations == ()
    assert report.decided == SAFETY | {"L6", "L7"}
    figures = report.figures
    assert (figures.elections, figures.moves_begun, figures.moves_ended) == (2, 1, 1)
    assert (figures.leader_changes, figures.foreign_writes, figures.isr_writes) == (2, 0, 1)


# --- S11 --------------------------------------------------------------------------------------------


def test_s11_a_write_after_controller_has_gone() -> None:
    """Also before a successor is elected."""
    world = ClusterHistory()
    world.expire(100)
    world.state(100, 2, 1, (2, 3))

    assert broken(world.check()) == {"S11"}


def test_s11_a_write_under_anothers_rule() -> None:
    """An old controller's session that still writes, at the epoch of its successor."""
    world = ClusterHistory()
    world.put(100, "delete", Controller.path())
    world.elect(2)
    world.state(100, 2, 1, (1, 2, 3), epoch=2)

    assert broken(world.check()) == {"S11"}


@pytest.mark.parametrize("epoch", [1, 3])
def test_s11_epochs_are_consecutive_and_won_once(epoch: int) -> None:
    """None is left out, and none is won again."""
    world = ClusterHistory()
    world.put(100, "delete", Controller.path())
    world.elect(2, epoch=epoch)

    assert broken(world.check()) == {"S11"}


def test_s11_an_epoch_of_ours_has_a_record() -> None:
    """`/controller_epoch` raised by a controller of ours without a history record."""
    world = ClusterHistory()
    world.put(100, "set", ControllerEpoch.path(), ControllerEpoch(2).encode())

    assert broken(world.check()) == {"S11"}


def test_s11_nobody_takes_off_anothers_controller() -> None:
    """K2."""
    world = ClusterHistory()
    world.put(200, "delete", Controller.path())

    assert broken(world.check()) == {"S11"}


def test_s11_the_leader_writes_its_isr_and_another_broker_does_not() -> None:
    """A follower's session changes the ISR of a partition that it does not lead."""
    world = ClusterHistory()
    world.state(100, 1, 0, (1, 2))
    assert world.check().holds

    world.state(300, 1, 0, (1,))
    assert broken(world.check()) == {"S11"}


def test_a_real_controllers_writes_are_counted() -> None:
    """K3: it writes without a fence, which no recipe of ours can keep it from."""
    world = ClusterHistory()
    world.register(9, session=950, extensions={})
    world.state(950, 2, 1, (1, 2, 3))
    report = world.check()

    assert report.holds
    assert report.figures.foreign_writes == 1


@pytest.mark.parametrize("path", [PartitionState.path(TP), ControllerEpoch.path()])
def test_what_cannot_be_read_is_looked_at_by_its_path(path: str) -> None:
    """Past bug: the checker itself failed. People and tools write what nobody can read."""
    world = ClusterHistory()
    world.write(0, Change("set", path, b"{", version=5))

    report = world.check()
    assert report.holds
    assert report.figures.foreign_writes == (path == PartitionState.path(TP))


def test_s11_an_epoch_of_ours_can_be_read() -> None:
    """The holder of `/controller` writes something else."""
    world = ClusterHistory()
    world.write(100, Change("set", ControllerEpoch.path(), b"{", version=5))

    assert broken(world.check()) == {"S11"}


def test_fences_that_bite_are_counted() -> None:
    """A refused write is no violation, and the report says how many there were."""
    world = ClusterHistory()
    refused = Refusal(ControllerEpoch.path(), "BadVersion")
    world.write(100, world.state_change(1, 1, (1,)), refused=refused)
    figures = world.check().figures

    assert (figures.refused_writes, figures.fenced_writes) == (1, 1)


# --- S12, S13 ---------------------------------------------------------------------------------------


def test_s12_a_new_leader_has_a_new_epoch() -> None:
    """A leader that is not told from the one before it by its epoch."""
    world = ClusterHistory()
    world.state(100, 2, 0, (1, 2, 3))

    assert broken(world.check()) == {"S12"}


def test_s12_no_epoch_falls() -> None:
    """The leader epoch goes back under the same leader."""
    world = ClusterHistory()
    world.state(100, 1, 2, (1, 2, 3))
    world.state(100, 1, 1, (1, 2, 3))

    assert broken(world.check()) == {"S12"}


def test_s12_a_topic_made_anew_begins_anew() -> None:
    """Leader epoch 0 is right where the state was deleted before."""
    world = ClusterHistory()
    world.state(100, 1, 2, (1, 2, 3))
    world.write(100, Change("delete", PartitionState.path(TP)))
    world.state(100, 2, 0, (1, 2, 3), action="create")

    assert world.check().holds


@pytest.mark.parametrize("isr", [(), (2, 3), (1, 2, 4)])
def test_s13_the_isr_is_well_formed(isr: tuple[int, ...]) -> None:
    """Not empty, with the leader, among the replicas."""
    world = ClusterHistory()
    world.state(100, 1, 1, isr)

    assert broken(world.check()) == {"S13"}


def test_s13_a_move_brings_its_target_in() -> None:
    """The ISR may hold who is asked for before the replica list does."""
    world = asked(4, 1)
    world.state(100, 1, 0, (1, 2, 3, 4))

    assert world.check().holds


def test_s13_what_an_operator_took_out_of_the_list_is_not_ours() -> None:
    """Recipes 15: a real tool writes the whole map from an old read."""
    world = ClusterHistory()
    world.write(OPERATOR, world.topic_change(1, 2))
    world.state(100, 1, 1, (1, 2, 3))

    assert world.check().holds


# --- S14 to S16 -------------------------------------------------------------------------------------


def test_s14_a_move_does_not_go_without_a_record() -> None:
    """K12."""
    world = asked(4, 1)
    world.put(100, "delete", Reassignment.path())

    assert broken(world.check()) == {"S14"}


def test_s14_a_move_is_done_when_it_is() -> None:
    """A record says done while the list and the ISR still are those of the way: both are named."""
    world = asked(4, 1)
    world.write(100, world.topic_change(4, 1, 2, 3))
    world.write(100, *world.ending(4, 1))

    (replicas, in_sync) = world.check().violations
    assert {replicas.invariant, in_sync.invariant} == {"S14"}
    assert "4, 1, 2, 3" in replicas.detail
    assert "in sync" in in_sync.detail


def test_s14_a_move_ends_once_and_as_asked() -> None:
    """A second record of the same end, and a record of another target than was asked for."""
    world = ClusterHistory()
    world.move(4, 2, 3)
    world.write(100, world.ending(4, 2, 3)[1])
    assert broken(world.check()) == {"S14"}

    world = asked(4, 1)
    world.write(100, *world.ending(3, outcome="dropped"))
    assert broken(world.check()) == {"S14"}


def test_s14_an_entry_may_be_dropped_beside_what_the_topic_tells() -> None:
    """The move that was begun ends by the topic's keys; what came over it cannot be carried out."""
    for told, expected in (({0: (4,)}, set()), ({}, {"S14"})):
        world = ClusterHistory()
        world.move(4, 1, 2, 3)
        topic = Topic({0: (4, 1, 2, 3)}, version=2, adding=told)
        world.write(OPERATOR, world.change("set", Topic.path(TOPIC), topic.encode()))
        world.ask_move(99)
        dropped = world.ending(99, outcome="dropped", reason="it hosts no partitions")
        done = world.ending(4, 1, 2, 3)[1]
        world.write(100, world.topic_change(4, 1, 2, 3), *dropped, done)

        assert broken(world.check()) == expected


def test_s14_a_drop_says_why() -> None:
    """A record of a dropped entry without a reason."""
    world = asked(4, 1)
    world.write(100, *world.ending(4, 1, outcome="dropped", reason=""))

    assert broken(world.check()) == {"S14"}


def test_s14_an_operator_may_take_a_request_away() -> None:
    """It is no end that lacks its record; the report counts it."""
    world = asked(4, 1)
    world.put(OPERATOR, "delete", Reassignment.path())
    report = world.check()

    assert report.holds
    assert report.figures.moves_taken_away == 1


def test_s15_the_floor_of_replicas() -> None:
    """Fewer than before and than asked for; and somebody in sync is left out."""
    world = asked(4, 1)
    world.write(100, world.topic_change(4))

    found = [violation.invariant for violation in world.check().violations]
    assert sorted(found) == ["S13", "S15", "S15"]


def test_s16_no_list_comes_back() -> None:
    """The controller writes a replica list that it has already replaced."""
    world = asked(4, 1)
    world.write(100, world.topic_change(4, 1, 2, 3))
    world.write(100, world.topic_change(4, 1, 3, 2))
    world.write(100, world.topic_change(4, 1, 2, 3))

    assert broken(world.check()) == {"S16"}


def test_s16_what_a_foreign_hand_wrote_is_written_back() -> None:
    """Recipes 15: a tool that grows the topic writes the old list over the union."""
    world = asked(4, 1)
    world.write(100, world.topic_change(4, 1, 2, 3))
    world.write(OPERATOR, world.topic_change(1, 2, 3))
    world.write(100, world.topic_change(4, 1, 2, 3))

    assert world.check().holds


def test_s16_a_controller_takes_nobody_into_the_isr() -> None:
    """Only a leader knows who has caught up."""
    world = asked(4, 1)
    world.write(100, world.topic_change(4, 1, 2, 3))
    world.state(100, 1, 1, (1, 2, 3, 4))

    assert broken(world.check()) == {"S16"}


@pytest.mark.parametrize(
    ("between", "then", "expected"),
    [
        ((), (1, (1, 3)), set()),
        ((), (2, (2, 1)), {"S16"}),
        (((2, 3), (2,)), (1, (1, 3)), {"S16"}),
    ],
    ids=["could not serve", "leads on", "took one in"],
)
def test_s16_who_was_in_sync_before_comes_back_for_one_that_could_not_serve(
    between: tuple[tuple[int, ...], ...], then: tuple[int, tuple[int, ...]], expected: set[str]
) -> None:
    """It was elected alone, has never written its state, and another leads: nothing was taken in by it."""
    world = asked(4, 1)
    world.state(100, 2, 1, (2,))
    for isr in between:
        world.state(200, 2, 1, isr)
    leader, isr = then
    world.state(100, leader, 2, isr)

    assert broken(world.check()) == expected


# --- S17 --------------------------------------------------------------------------------------------


def test_s17_nobody_takes_another_brokers_registration() -> None:
    """Its own ghost it may take, where it is known to be its own."""
    world = ClusterHistory()
    path = BrokerRegistration.path(3)
    world.put(250, "create", BrokerRegistration.path(7), BrokerRegistration("h", 1, 1, 0).encode(), 250)
    world.transactions.pop()
    world.register(5, session=555)
    world.put(555, "delete", path)

    assert broken(world.check()) == {"S17"}
    assert world.check(same_process=[(300, 555)]).holds


def test_s17_a_registration_ends_with_its_session() -> None:
    """A registration that no session owns, so that none ends it."""
    world = ClusterHistory()
    world.register(5, session=555)
    world.put(555, "create", BrokerRegistration.path(6), BrokerRegistration("h", 1, 1, 0).encode())

    assert broken(world.check()) == {"S17"}


# --- L6, L7 -----------------------------------------------------------------------------------------


def test_l6_somebody_rules_and_stays() -> None:
    """Nobody rules at the end, or another one came while nothing happened."""
    world = ClusterHistory()
    world.put(100, "delete", Controller.path())
    assert broken(world.check(quiet_from_ms=world.ms)) == {"L6"}

    world = ClusterHistory()
    quiet_ms = world.ms
    world.ms += 11_000
    world.put(100, "delete", Controller.path())
    world.elect(2)
    assert broken(world.check(quiet_from_ms=quiet_ms)) == {"L6"}


def test_l7_a_move_whose_targets_live_ends() -> None:
    """One to a broker that is down stays and is no failure."""
    world = asked(4, 1)
    assert broken(world.check(quiet_from_ms=world.ms)) == {"L7"}

    world.expire(400)
    assert world.check(quiet_from_ms=world.ms).holds


def test_l7_deletions_and_elections_are_carried_out() -> None:
    """At rest, a deletion that was asked for and a leader that is not elected though two in sync live."""
    world = ClusterHistory()
    world.ask_deletion()
    assert broken(world.check(quiet_from_ms=world.ms)) == {"L7"}

    world = ClusterHistory()
    world.expire(100)
    world.elect(2)
    (violation,) = world.check(quiet_from_ms=world.ms).violations
    assert "2, 3 could" in violation.detail


def test_l7_every_partition_has_a_state() -> None:
    """At rest, a partition of a topic without its state."""
    world = ClusterHistory()
    world.write(100, Change("delete", PartitionState.path(TP)))

    assert broken(world.check(quiet_from_ms=world.ms)) == {"L7"}


# --- topics without brokers ---------------------------------------------------------------------------


def unhosted() -> ClusterHistory:
    """The topic `work` next to brokers 0 to 4, made without brokers; its mark is of the same transaction."""
    world = ClusterHistory()
    world.put(OPERATOR, "create", unhosted_topics_path())
    world.write(
        OPERATOR,
        world.change("create", Topic.path("work"), Topic({0: (0,)}).encode()),
        world.change("create", UnhostedTopic.path("work"), UnhostedTopic().encode()),
    )
    world.register(0, 50)
    return world


def test_l7_a_topic_without_brokers_needs_none() -> None:
    """Broker 0, which its list names, lives. Without the mark its partition would want a state."""
    world = unhosted()
    assert world.check(quiet_from_ms=world.ms).holds

    world.put(OPERATOR, "delete", UnhostedTopic.path("work"))
    (violation,) = world.check(quiet_from_ms=world.ms).violations
    assert violation.detail == "work-0 has no state, and 0 live"


def test_l7_the_deletion_of_a_topic_without_brokers_waits_for_nobody() -> None:
    """Nor for a broker 0 that is not there; nor has a move anybody to copy from."""
    world = unhosted()
    world.expire(50)
    world.put(OPERATOR, "create", TopicDeletion.path("work"), b"")
    assert broken(world.check(quiet_from_ms=world.ms)) == {"L7"}

    world = unhosted()
    world.expire(50)
    move = Reassignment((Move(TopicPartition("work", 0), (1, 2)),))
    world.put(OPERATOR, "create", Reassignment.path(), move.encode())
    assert broken(world.check(quiet_from_ms=world.ms)) == {"L7"}


def test_an_operator_may_give_a_topic_its_first_brokers() -> None:
    """As `topic alter` does: lists and mark in one transaction, and nobody writes the former lists back."""
    world = unhosted()
    lists = Topic({0: (1, 2)}).encode()
    world.write(
        OPERATOR,
        world.change("set", Topic.path("work"), lists),
        world.change("delete", UnhostedTopic.path("work")),
    )
    state = PartitionState(1, 0, (1, 2), world.epoch)
    path = PartitionState.path(TopicPartition("work", 0))
    world.put(100, "create", path, state.encode())

    assert world.check(quiet_from_ms=world.ms).holds
