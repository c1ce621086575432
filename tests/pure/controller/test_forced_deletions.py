"""Topics that are deleted without brokers that are lost, and brokers that were lost and come back (K20)."""

from __future__ import annotations

import pytest

from tests.pure.controller.forced import forced, received, records
from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import TWO, SteppedControllers, is_gone, left_of, two_topic_cluster
from zkgroup.controller.machine.deletion.stray_replicas import ABANDONED_AGAIN_MS
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.wire.control import LeaderAndIsrRequest
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.admin_requests import Move, Reassignment, TopicDeletion
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.stray_replicas import AbandonedReplicas


def test_a_topic_goes_without_a_broker_that_is_lost() -> None:
    """The others have deleted it before; what the lost one has is remembered, and nothing is waited for."""
    world, controller = forced()

    assert all(each.topic != "t" for id_ in (1, 2) for each in world.hosts[id_].logs)
    assert records(world) == [AbandonedReplicas("t", 3, (1,), controller.machine.active.parts.identity.epoch)]  # type: ignore[union-attr]
    assert controller.waiting == {}
    assert controller.notes("deletion.finished") == [{"topic": "t", "without": (3,)}]
    assert world.state(tp(0, "u")).leader == 1


def test_a_lost_broker_that_comes_back_deletes_what_it_has() -> None:
    """Once; then nothing is remembered any more, and nothing is asked again."""
    world, _ = forced()
    world.start_broker(3)

    assert is_gone(world)
    assert records(world) == []
    assert received(world, 3)[-1] == "delete"
    before = len(world.hosts[3].requests)
    world.advance(2 * ABANDONED_AGAIN_MS, 5_000)
    assert len(world.hosts[3].requests) == before


def test_a_deletion_that_waits_can_be_forced() -> None:
    """The request is made again with the broker's name: a new child, so the controller reads it."""
    world, controller = two_topic_cluster()
    world.stop_broker(3)
    world.mark("t")
    assert "if lost: zkgroup topic delete t --without-broker 3" in controller.waiting["deletion of t"]
    path = TopicDeletion.path("t")
    world.write(Delete(path, 0), Create(path, TopicDeletion((3,)).encode()))
    world.run()

    assert left_of(world, "t") == set()
    assert [each.broker for each in records(world)] == [3]


@pytest.mark.parametrize("is_asked", [True, False], ids=["asked for", "told by the topic alone"])
def test_a_move_to_a_broker_that_is_named_ends_with_the_topic(is_asked: bool) -> None:
    """A deletion lets moves that are under way end first; this one has no end without that broker."""
    world, controller = two_topic_cluster()
    target = (*TWO[0], 3)
    if is_asked:
        world.write(Create(Reassignment.path(), Reassignment((Move(tp(0), target),)).encode()))
    else:
        world.crash(controller)
        topic = Topic(TWO | {0: target}, adding={0: (3,)}, version=2)
        world.write(SetData(Topic.path("t"), topic.encode(), world.find(Topic.path("t")).stat.version))
        controller = world.new_controller()
    world.run()
    world.stop_broker(3, run=False)
    world.mark("t")
    assert "reassignment of t-0" in controller.waiting["deletion of t"]

    path = TopicDeletion.path("t")
    world.write(Delete(path, 0), Create(path, TopicDeletion((3,)).encode()))
    world.run()

    assert left_of(world, "t") == set()
    assert world.server.find(Reassignment.path()) is None
    assert controller.waiting == {}


def test_a_broker_that_is_not_named_is_waited_for() -> None:
    """Nothing is finished before it is back; then it is the named one alone that is left."""
    world, controller = two_topic_cluster()
    for id_ in (2, 3):
        world.stop_broker(id_, run=False)
    world.run()
    world.mark("t", 3)
    assert records(world) == []
    assert controller.waiting["deletion of t"].startswith("waits for broker 2 to be back; if lost: ")
    world.start_broker(2)

    assert left_of(world, "t") == set()
    assert [each.broker for each in records(world)] == [3]


def test_a_named_broker_that_is_back_deletes_like_the_others() -> None:
    """It was restarting: nothing is recorded, since it has answered."""
    world, _ = two_topic_cluster()
    world.stop_broker(2, run=False)
    world.stop_broker(3)
    world.mark("t", 3)
    world.start_broker(3)
    world.start_broker(2)

    assert is_gone(world)
    assert records(world) == []


def test_a_topic_made_again_gets_nothing_of_the_old_one() -> None:
    """The lost broker deletes before it is made a replica; until then the others lead and sync alone."""
    world, _ = forced()
    world.make_topic("t", {0: (3, 1), 1: (2, 3), 2: (3,)})
    world.run()
    assert [world.state(tp(number)).isr for number in (0, 1)] == [(1,), (2,)]
    asked = len(received(world, 3))
    world.start_broker(3)

    after = received(world, 3)[asked:]
    assert (after[0], after.count("delete")) == ("delete", 1)
    assert after[-1] == "replica"
    assert world.state(tp(2)).leader == 3
    assert world.state(tp(1)).leader_epoch == 0, "the leader has heard of all replicas in its first term"
    assert records(world) == []
    last = [each for each in world.hosts[2].requests if isinstance(each, LeaderAndIsrRequest)][-1]
    assert {info.topic_partition: info.replicas for info in last.partitions}[tp(1)] == (2, 3)


def test_a_topic_made_while_the_broker_has_not_answered_does_not_get_it() -> None:
    """It is live and silent: neither leader nor in sync, nor in any list, until what it had is gone."""
    world, controller = forced()
    world.start_broker(3, run=False).silent = True
    world.run()
    world.make_topic("t", {1: (3, 2), 0: (1, 3)})
    world.run()
    assert world.state(tp(1)).isr == (2,)
    world.hosts[3].silent = False
    controller.answer_all()
    world.run()

    assert records(world) == []
    assert received(world, 3)[-2:] == ["delete", "replica"]


def test_a_folder_that_cannot_be_deleted_is_tried_again_and_named() -> None:
    """The record stays, and with it the hold; the status says why."""
    world, controller = forced()
    world.make_topic("t", {1: (2, 3)})
    world.run()
    world.hosts[3].refusals[tp(1)] = ErrorCode.KAFKA_STORAGE_ERROR
    world.start_broker(3)
    asked = received(world, 3)
    assert "t-1 on broker 3 could not be deleted" in controller.waiting["removal of t on broker 3"]
    assert asked[-1] == "delete"
    assert len(records(world)) == 1
    world.hosts[3].refusals.clear()
    world.advance(ABANDONED_AGAIN_MS + 1_000, 5_000)

    assert received(world, 3)[len(asked) :] == ["delete", "replica"]
    assert (records(world), controller.waiting) == ([], {})


def test_a_broker_that_dies_before_it_answers_is_asked_again() -> None:
    """What it was sent went with its connection; it is back, and asked, and only then a replica."""
    world, _ = forced()
    world.make_topic("t", {1: (2, 3)})
    world.start_broker(3, run=False).silent = True
    world.run()
    assert len(records(world)) == 1
    world.stop_broker(3)
    world.hosts[3].silent = False
    world.start_broker(3)

    assert records(world) == []
    assert received(world, 3)[-2:] == ["delete", "replica"]


def test_an_empty_broker_in_its_place_settles_it() -> None:
    """It has nothing of the topic, and says so."""
    world, _ = forced()
    world.hosts[3].logs.clear()
    world.start_broker(3)

    assert records(world) == []


def test_forced_twice_both_brokers_are_remembered() -> None:
    """Two topics of one name, each deleted without another broker."""
    world, _ = forced()
    world.make_topic("t", {0: (1, 2)})
    world.run()
    world.stop_broker(2)
    world.mark("t", 2)
    assert sorted(each.broker for each in records(world)) == [2, 3]
    world.start_broker(2, run=False)
    world.start_broker(3)

    assert is_gone(world)
    assert records(world) == []


def test_forced_again_while_the_broker_still_owes_the_first() -> None:
    """The new topic names it as well, and it never came back: two records, and one return settles both."""
    world, _ = forced()
    world.make_topic("t", {1: (2, 3)})
    world.run()
    world.mark("t", 3)
    assert [each.broker for each in records(world)] == [3, 3]
    world.start_broker(3)

    assert is_gone(world)
    assert records(world) == []


def test_the_next_controller_knows_what_was_left() -> None:
    """It reads the records before it decides anything: the new topic does not get the broker unasked."""
    world, controller = forced()
    world.make_topic("t", {1: (3, 2)})
    world.run()
    world.crash(controller)
    before = len(received(world, 3))
    world.start_broker(3, run=False)
    world.new_controller()

    assert received(world, 3)[before:] == ["delete", "replica"]
    assert world.state(tp(1)).isr == (2,)
    assert records(world) == []


def test_a_move_without_a_leader_that_was_found_before_the_deletion_ends_with_the_topic() -> None:
    """Past bug: of a repaired topic the move was read first, and the deletion waited for it."""
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2)})
    controller = world.new_controller()
    world.set_state(tp(0), isr=(1,))
    world.crash(controller)
    world.stop_broker(1)
    path = Topic.path("t")
    whole = world.find(path).data or b""
    world.server.put(path, b"{")
    world.mark("t", 1, run=False)
    world.write(Create(Reassignment.path(), Reassignment((Move(tp(0), (2, 1)),)).encode()))
    world.new_controller()
    world.server.put(path, whole)
    world.advance(2 * ABANDONED_AGAIN_MS, 5_000)

    assert left_of(world, "t") == set()
    assert world.server.find(Reassignment.path()) is None
