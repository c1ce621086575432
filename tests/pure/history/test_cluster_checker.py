"""The invariants of brokers and controllers: a correct cluster violates none, each fault violates its own."""

from __future__ import annotations

import pytest

from tests.pure.history.cluster_history import OPERATOR, TOPIC, TP, ClusterHistory, broken
from zkgroup.history import Change, TransactionRefusal
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Move, Reassignment, TopicDeletion
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.stray_replicas import UnhostedTopic, unhosted_topics_path

SAFETY = {"S11", "S12", "S13", "S14", "S15", "S16", "S17"}


def asked(*target: int) -> ClusterHistory:
    """A cluster with a requested reassignment to these brokers."""
    world = ClusterHistory()
    world.ask_move(*target)
    return world


def test_a_correct_cluster_violates_nothing() -> None:
    """Elections, a reassignment and the end of a broker's session are no violation."""
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


def test_s11_a_write_after_the_controller_znode_is_gone() -> None:
    """The write is a violation even before a successor is elected."""
    world = ClusterHistory()
    world.expire(100)
    world.state(100, 2, 1, (2, 3))

    assert broken(world.check()) == {"S11"}


def test_s11_a_write_while_another_session_is_controller() -> None:
    """A former controller's session writes in the epoch of its successor."""
    world = ClusterHistory()
    world.put(100, "delete", ControllerRegistration.path())
    world.elect(2)
    world.state(100, 2, 1, (1, 2, 3), epoch=2)

    assert broken(world.check()) == {"S11"}


@pytest.mark.parametrize("epoch", [1, 3])
def test_s11_epochs_are_consecutive_and_won_once(epoch: int) -> None:
    """No epoch is skipped, and none is won twice."""
    world = ClusterHistory()
    world.put(100, "delete", ControllerRegistration.path())
    world.elect(2, epoch=epoch)

    assert broken(world.check()) == {"S11"}


def test_s11_an_epoch_of_a_zkgroup_controller_has_a_record() -> None:
    """A zkgroup controller raises `/controller_epoch` without a history record."""
    world = ClusterHistory()
    world.put(100, "set", ControllerEpoch.path(), ControllerEpoch(2).encode())

    assert broken(world.check()) == {"S11"}


def test_s11_deleting_another_controllers_znode() -> None:
    """K2."""
    world = ClusterHistory()
    world.put(200, "delete", ControllerRegistration.path())

    assert broken(world.check()) == {"S11"}


def test_s11_the_leader_writes_its_isr_and_another_broker_does_not() -> None:
    """A follower's session changes the ISR of a partition that another broker leads."""
    world = ClusterHistory()
    world.state(100, 1, 0, (1, 2))
    assert world.check().holds

    world.state(300, 1, 0, (1,))
    assert broken(world.check()) == {"S11"}


def test_writes_of_a_kafka_controller_are_counted() -> None:
    """Kafka's controller writes without a fence; its writes are no violation (K3)."""
    world = ClusterHistory()
    world.register(9, session=950, extensions={})
    world.state(950, 2, 1, (1, 2, 3))
    report = world.check()

    assert report.holds
    assert report.figures.foreign_writes == 1


@pytest.mark.parametrize("path", [PartitionState.path(TP), ControllerEpoch.path()])
def test_unreadable_znodes_do_not_stop_the_checker(path: str) -> None:
    """Past bug: the checker failed on data that it could not decode."""
    world = ClusterHistory()
    world.write(0, Change("set", path, b"{", version=5))

    report = world.check()
    assert report.holds
    assert report.figures.foreign_writes == (path == PartitionState.path(TP))


def test_s11_an_unreadable_epoch_of_a_zkgroup_controller() -> None:
    """The session that holds `/controller` writes data that is no epoch."""
    world = ClusterHistory()
    world.write(100, Change("set", ControllerEpoch.path(), b"{", version=5))

    assert broken(world.check()) == {"S11"}


def test_fenced_writes_are_counted() -> None:
    """A refused write is no violation; the report counts it."""
    world = ClusterHistory()
    refused = TransactionRefusal(ControllerEpoch.path(), "BadVersion")
    world.write(100, world.state_change(1, 1, (1,)), refused=refused)
    figures = world.check().figures

    assert (figures.refused_writes, figures.fenced_writes) == (1, 1)


def test_s12_a_new_leader_has_a_new_epoch() -> None:
    """A new leader with the leader epoch of the one before it is a violation."""
    world = ClusterHistory()
    world.state(100, 2, 0, (1, 2, 3))

    assert broken(world.check()) == {"S12"}


def test_s12_a_falling_leader_epoch() -> None:
    """The leader epoch goes back under the same leader."""
    world = ClusterHistory()
    world.state(100, 1, 2, (1, 2, 3))
    world.state(100, 1, 1, (1, 2, 3))

    assert broken(world.check()) == {"S12"}


def test_s12_a_recreated_topic_starts_at_leader_epoch_0() -> None:
    """Leader epoch 0 is allowed where the state was deleted before."""
    world = ClusterHistory()
    world.state(100, 1, 2, (1, 2, 3))
    world.write(100, Change("delete", PartitionState.path(TP)))
    world.state(100, 2, 0, (1, 2, 3), action="create")

    assert world.check().holds


@pytest.mark.parametrize("isr", [(), (2, 3), (1, 2, 4)])
def test_s13_the_isr_is_well_formed(isr: tuple[int, ...]) -> None:
    """The ISR is not empty, has the leader, and is a subset of the replicas."""
    world = ClusterHistory()
    world.state(100, 1, 1, isr)

    assert broken(world.check()) == {"S13"}


def test_s13_the_isr_may_have_the_targets_of_a_reassignment() -> None:
    """The ISR may have a target before the replica list has it."""
    world = asked(4, 1)
    world.state(100, 1, 0, (1, 2, 3, 4))

    assert world.check().holds


def test_s13_a_replica_that_an_operator_removed_is_no_violation() -> None:
    """Kafka's tool writes the whole replica map from an old read (recipes 15)."""
    world = ClusterHistory()
    world.write(OPERATOR, world.topic_change(1, 2))
    world.state(100, 1, 1, (1, 2, 3))

    assert world.check().holds


def test_s14_a_reassignment_removed_without_a_record() -> None:
    """K12."""
    world = asked(4, 1)
    world.put(100, "delete", Reassignment.path())

    assert broken(world.check()) == {"S14"}


def test_s14_a_reassignment_recorded_as_done_too_early() -> None:
    """The record says done, but the replica list and the ISR are not there yet: both are named."""
    world = asked(4, 1)
    world.write(100, world.topic_change(4, 1, 2, 3))
    world.write(100, *world.ending(4, 1))

    (replicas, in_sync) = world.check().violations
    assert {replicas.invariant, in_sync.invariant} == {"S14"}
    assert "4, 1, 2, 3" in replicas.detail
    assert "in sync" in in_sync.detail


def test_s14_a_reassignment_ends_once_and_with_the_requested_target() -> None:
    """A second record of the same end and a record of another target are violations."""
    world = ClusterHistory()
    world.move(4, 2, 3)
    world.write(100, world.ending(4, 2, 3)[1])
    assert broken(world.check()) == {"S14"}

    world = asked(4, 1)
    world.write(100, *world.ending(3, outcome="dropped"))
    assert broken(world.check()) == {"S14"}


def test_s14_an_entry_may_be_dropped_while_the_topic_is_marked() -> None:
    """The reassignment in the topic znode ends; the later entry could not be carried out."""
    for adding, expected in (({0: (4,)}, set()), ({}, {"S14"})):
        world = ClusterHistory()
        world.move(4, 1, 2, 3)
        topic = Topic({0: (4, 1, 2, 3)}, version=2, adding=adding)
        world.write(OPERATOR, world.change("set", Topic.path(TOPIC), topic.encode()))
        world.ask_move(99)
        dropped = world.ending(99, outcome="dropped", reason="it hosts no partitions")
        done = world.ending(4, 1, 2, 3)[1]
        world.write(100, world.topic_change(4, 1, 2, 3), *dropped, done)

        assert broken(world.check()) == expected


def test_s14_a_dropped_entry_has_a_reason() -> None:
    """A record of a dropped entry without a reason is a violation."""
    world = asked(4, 1)
    world.write(100, *world.ending(4, 1, outcome="dropped", reason=""))

    assert broken(world.check()) == {"S14"}


def test_s14_an_operator_may_delete_a_request() -> None:
    """It is no end without a record; the report counts it."""
    world = asked(4, 1)
    world.put(OPERATOR, "delete", Reassignment.path())
    report = world.check()

    assert report.holds
    assert report.figures.moves_taken_away == 1


def test_s15_a_list_with_too_few_replicas() -> None:
    """The list is shorter than before and than requested, and a broker in the ISR is left out."""
    world = asked(4, 1)
    world.write(100, world.topic_change(4))

    found = [violation.invariant for violation in world.check().violations]
    assert sorted(found) == ["S13", "S15", "S15"]


def test_s16_a_replica_list_that_was_replaced_before() -> None:
    """The controller writes a replica list that it has already replaced."""
    world = asked(4, 1)
    world.write(100, world.topic_change(4, 1, 2, 3))
    world.write(100, world.topic_change(4, 1, 3, 2))
    world.write(100, world.topic_change(4, 1, 2, 3))

    assert broken(world.check()) == {"S16"}


def test_s16_a_list_may_return_after_a_foreign_write() -> None:
    """A tool that adds partitions writes the old list over the union (recipes 15)."""
    world = asked(4, 1)
    world.write(100, world.topic_change(4, 1, 2, 3))
    world.write(OPERATOR, world.topic_change(1, 2, 3))
    world.write(100, world.topic_change(4, 1, 2, 3))

    assert world.check().holds


def test_s16_a_controller_adds_a_replica_to_the_isr() -> None:
    """Only a leader knows which replicas have caught up."""
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
def test_s16_the_former_isr_comes_back_after_a_leader_that_could_not_serve(
    between: tuple[tuple[int, ...], ...], then: tuple[int, tuple[int, ...]], expected: set[str]
) -> None:
    """The former leader was elected as the only replica, wrote no state, and another one leads now."""
    world = asked(4, 1)
    world.state(100, 2, 1, (2,))
    for isr in between:
        world.state(200, 2, 1, isr)
    leader, isr = then
    world.state(100, leader, 2, isr)

    assert broken(world.check()) == expected


def test_s17_deleting_another_brokers_registration() -> None:
    """A process may delete its own stale registration, where the options name its sessions."""
    world = ClusterHistory()
    path = BrokerRegistration.path(3)
    world.put(250, "create", BrokerRegistration.path(7), BrokerRegistration("h", 1, 1, 0).encode(), 250)
    world.transactions.pop()
    world.register(5, session=555)
    world.put(555, "delete", path)

    assert broken(world.check()) == {"S17"}
    assert world.check(same_process=[(300, 555)]).holds


def test_s17_a_registration_ends_with_its_session() -> None:
    """A persistent registration, which no session ends, is a violation."""
    world = ClusterHistory()
    world.register(5, session=555)
    world.put(555, "create", BrokerRegistration.path(6), BrokerRegistration("h", 1, 1, 0).encode())

    assert broken(world.check()) == {"S17"}


def test_l6_there_is_a_controller_and_it_stays() -> None:
    """There is no controller at the end, or another one was elected without a cause."""
    world = ClusterHistory()
    world.put(100, "delete", ControllerRegistration.path())
    assert broken(world.check(quiet_from_ms=world.ms)) == {"L6"}

    world = ClusterHistory()
    quiet_ms = world.ms
    world.ms += 11_000
    world.put(100, "delete", ControllerRegistration.path())
    world.elect(2)
    assert broken(world.check(quiet_from_ms=quiet_ms)) == {"L6"}


def test_l7_a_reassignment_to_live_brokers_ends() -> None:
    """A reassignment to a broker that is down may stay open."""
    world = asked(4, 1)
    assert broken(world.check(quiet_from_ms=world.ms)) == {"L7"}

    world.expire(400)
    assert world.check(quiet_from_ms=world.ms).holds


def test_l7_requested_deletions_and_elections_are_done() -> None:
    """A requested deletion, and a missing leader though two replicas in sync live, are violations."""
    world = ClusterHistory()
    world.ask_deletion()
    assert broken(world.check(quiet_from_ms=world.ms)) == {"L7"}

    world = ClusterHistory()
    world.expire(100)
    world.elect(2)
    (violation,) = world.check(quiet_from_ms=world.ms).violations
    assert "2, 3 could" in violation.detail


def test_l7_every_partition_has_a_state() -> None:
    """A partition without state is a violation."""
    world = ClusterHistory()
    world.write(100, Change("delete", PartitionState.path(TP)))

    assert broken(world.check(quiet_from_ms=world.ms)) == {"L7"}


def unhosted() -> ClusterHistory:
    """A topic `work` without brokers, beside brokers 0 to 4; one transaction creates it and its mark."""
    world = ClusterHistory()
    world.put(OPERATOR, "create", unhosted_topics_path())
    world.write(
        OPERATOR,
        world.change("create", Topic.path("work"), Topic({0: (0,)}).encode()),
        world.change("create", UnhostedTopic.path("work"), UnhostedTopic().encode()),
    )
    world.register(0, 50)
    return world


def test_l7_a_topic_without_brokers_needs_no_state() -> None:
    """Its list names broker 0, which lives. Without the mark its partition needs a state."""
    world = unhosted()
    assert world.check(quiet_from_ms=world.ms).holds

    world.put(OPERATOR, "delete", UnhostedTopic.path("work"))
    (violation,) = world.check(quiet_from_ms=world.ms).violations
    assert violation.detail == "work-0 has no state, and 0 live"


def test_l7_the_deletion_of_a_topic_without_brokers_waits_for_no_broker() -> None:
    """The deletion does not wait for an absent broker 0, and a reassignment needs no replica to copy from."""
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
    """`topic alter` writes lists and mark in one transaction; then the former lists are not written back."""
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
