"""Forced deletions that meet Kafka controllers, unreadable znodes, crashes and missing answers (K20)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.pure.controller.forced import forced, received, records
from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import (
    SteppedControllers,
    is_gone,
    left_of,
    loses_answer,
    rounds,
    two_topic_cluster,
)
from zkgroup.controller.machine.deletion.stray_replicas import ABANDONED_AGAIN_MS
from zkgroup.model.requests import Create
from zkgroup.testing.memory_zookeeper import Fault
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.stray_replicas import AbandonedReplicas, StrayReplicas


def kafka_controller_elected(world: SteppedControllers) -> None:
    """A Kafka controller, of the next epoch, and its end."""
    path = ControllerEpoch.path()
    znode = world.find(path)
    epoch = ControllerEpoch.decode(path, znode.data).epoch + 1
    world.server.put(ControllerRegistration.path(), ControllerRegistration(2, 0).encode())
    world.server.put(path, ControllerEpoch(epoch).encode())
    for number in (0, 1):
        state = PartitionState.path(tp(number))
        if world.server.find(state) is not None:
            world.set_state(tp(number), controller_epoch=epoch)
    world.server.remove(ControllerRegistration.path())


def test_what_a_kafka_controller_has_given_the_broker_is_not_deleted() -> None:
    """It knows no records, and made the broker a replica of the new topic: there may be records of that."""
    world, controller = forced()
    world.make_topic("t", {1: (2, 3), 0: (1, 2)})
    world.run()
    world.crash(controller)
    kafka_controller_elected(world)
    world.start_broker(3, run=False)
    world.hosts[3].logs.add(tp(1))
    before = len(received(world, 3))
    controller = world.new_controller()

    assert "delete" not in received(world, 3)[before:]
    assert tp(1) in world.hosts[3].logs
    assert received(world, 3)[-1] == "replica"
    assert records(world) == []
    assert controller.notes("replicas_of_deleted_topic.assigned")


def test_what_a_kafka_controller_has_given_the_broker_it_leads_at_once() -> None:
    """It alone is in sync, so where it were still held at the first election, that would fail."""
    world, controller = forced()
    world.make_topic("t", {1: (2, 3)})
    world.run()
    world.crash(controller)
    kafka_controller_elected(world)
    world.set_state(tp(1), leader=-1, isr=(3,))
    world.start_broker(3, run=False)
    world.hosts[3].logs.add(tp(1))
    controller = world.new_controller()

    assert (world.state(tp(1)).leader, world.state(tp(1)).isr) == (3, (3,))
    assert controller.notes("election.failed") == []


def test_what_a_kafka_controller_has_left_alone_is_deleted() -> None:
    """It was active since, but there is no topic of the name: whatever the broker has is of the old one."""
    world, controller = forced()
    world.crash(controller)
    kafka_controller_elected(world)
    world.start_broker(3, run=False)
    world.new_controller()

    assert is_gone(world)
    assert records(world) == []


def test_a_record_that_cannot_be_read_is_named_and_stops_nothing() -> None:
    """The others are carried out."""
    world, controller = forced()
    world.server.put(AbandonedReplicas.path(77), b"{}")
    world.server.put(StrayReplicas.path(4), b"{")
    world.crash(controller)
    world.start_broker(3, run=False)
    controller = world.new_controller()

    active = controller.active
    assert set(active.context.unreadable) == {AbandonedReplicas.path(77), StrayReplicas.path(4)}
    assert tp(1) not in world.hosts[3].logs


def test_nothing_is_deleted_while_the_replicas_of_a_new_topic_are_unknown() -> None:
    """Its znode cannot be read: the broker may be in its ISR. When it can, the broker is asked."""
    world, controller = forced()
    world.make_topic("t", {1: (2, 3)})
    world.run()
    world.crash(controller)
    good = world.find(Topic.path("t")).data
    world.server.put(Topic.path("t"), b"{")
    world.start_broker(3, run=False)
    before = len(received(world, 3))
    world.new_controller()
    assert received(world, 3)[before:] == []
    assert good is not None
    world.server.put(Topic.path("t"), good)
    world.run()
    world.advance(ABANDONED_AGAIN_MS + 1_000, 5_000)

    assert received(world, 3)[before:] == ["delete", "replica"]
    assert records(world) == []


def test_a_record_taken_off_by_hand_holds_no_replica() -> None:
    """An operator knows better; the controller finds out when it would take it off itself."""
    world, _ = forced()
    world.make_topic("t", {1: (2, 3)})
    world.run()
    world.delete(StrayReplicas.path(3))
    world.start_broker(3)

    assert received(world, 3)[-1] == "replica"


def test_data_of_others_in_a_request_names_no_partition() -> None:
    """Kafka's later tools leave null; what is no JSON of zkgroup concerns no one."""
    for data in (None, b"", b"x", b"{}", b'{"version":1}'):
        world, _ = two_topic_cluster()
        world.stop_broker(3)
        world.write(Create(TopicDeletion.path("t"), data))
        world.run()
        assert Topic.path("t") in left_of(world, "t")


def test_a_request_of_zkgroup_that_is_broken_is_named_and_forces_nothing() -> None:
    """Until the topic is gone, by the return of the broker."""
    world, controller = two_topic_cluster()
    world.stop_broker(3)
    path = TopicDeletion.path("t")
    world.write(Create(path, b'{"zkgroup":{"without_brokers":3}}'))
    world.run()
    active = controller.active
    assert set(active.context.unreadable) == {path}
    assert left_of(world, "t")
    world.start_broker(3)
    world.mark("nobody")

    assert is_gone(world)
    assert active.context.unreadable == {}


def crashed_in_the_deletion(writes: int) -> bool:
    """The controller is gone after so many of its writes; whether there were so many."""
    world, controller = two_topic_cluster(auto_rebalance=False)
    world.stop_broker(3)
    world.mark("t", 3, run=False)
    was_there = world.run_until_written(controller, writes)
    world.crash(controller)
    world.new_controller()
    assert left_of(world, "t") == set()
    world.make_topic("t", {0: (1, 3), 1: (3, 2)})
    world.run()
    returned(world)
    return was_there


def crashed_in_the_return(writes: int) -> bool:
    """The same, while the broker is back and the name is taken."""
    world, controller = forced()
    world.make_topic("t", {0: (1, 3), 1: (3, 2)})
    world.run()
    before = len(received(world, 3))
    world.start_broker(3, run=False)
    was_there = world.run_until_written(controller, writes)
    world.crash(controller)
    world.new_controller()
    heard = received(world, 3)[before:]
    assert heard[0] == "delete"
    assert "delete" not in heard[heard.index("replica") :], "what it was given since is its own"
    assert records(world) == []
    return was_there


def returned(world: SteppedControllers) -> None:
    """Broker 3 is back: it deletes, and then it is a replica of the new topic."""
    before = len(received(world, 3))
    world.start_broker(3)
    heard = received(world, 3)[before:]
    assert (heard[0], heard[-1]) == ("delete", "replica")
    assert records(world) == []
    assert all(world.state(tp(number)).leader in (1, 2) for number in (0, 1))


@pytest.mark.parametrize("crashed", [crashed_in_the_deletion, crashed_in_the_return])
def test_a_crash_after_any_write_changes_nothing(crashed: Callable[[int], bool]) -> None:
    """Each write in turn: the next controller ends it, and old records are never met again."""
    assert rounds(crashed) > 0


@pytest.mark.parametrize("fault", ["lost_reply", "lost_request", "late"])
def test_a_write_without_an_answer_is_read_back(fault: Fault) -> None:
    """Each write of a forced deletion in turn is executed, or not, or later; the same process ends it."""
    assert rounds(unanswered, fault) > 1


def unanswered(nth: int, fault: Fault) -> bool:
    """A deletion whose nth write gets no answer; whether it had that many."""
    world, controller = two_topic_cluster(auto_rebalance=False)
    world.stop_broker(3)
    world.mark("t", 3, run=False)
    if not loses_answer(world, controller, nth, fault):
        return False
    assert left_of(world, "t") == set(), (fault, nth)
    assert {each.broker for each in records(world)} == {3}
    world.make_topic("t", {0: (1, 3), 1: (3, 2)})
    world.run()
    returned(world)
    return True


def test_a_broker_that_starts_anew_gets_deletions_that_were_not_sent_before() -> None:
    """K8: it was reached on the channel of its former incarnation, got the topic there, and what came
    after that is dropped with the channel. A topic of the same name begins at leader epoch 0 again."""
    world, _ = two_topic_cluster()
    host = world.hosts[3]
    host.silent = True
    world.make_topic("n", {0: (1, 2)})
    world.make_topic("gone", {0: (1, 2)})
    world.run()
    world.mark("gone")
    assert left_of(world, "gone") == set()
    world.stop_broker(3)
    host.metadata[tp(0, "gone")] = 1
    host.silent = False
    world.start_broker(3)

    assert tp(0, "gone") not in host.metadata
    assert host.metadata[tp(0, "n")] == 1
