"""K16 and K20 together: what a move has left on a broker, when its topic is deleted and made again.

Nothing in the records distinguishes one topic from the next of that name, so what is left must be deleted
before the broker has a place there again.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.pure.controller.forced import received_of, records
from tests.pure.controller.test_stray_replicas import move
from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import (
    ControllerNode,
    SteppedControllers,
    left_of,
    loaded_cluster,
    loses_answer,
    rounds,
)
from zkgroup.controller.machine.deletion.stray_replicas import AGAIN_MS
from zkgroup.model.requests import Create, SetData
from zkgroup.testing.memory_zookeeper import Fault
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.reassignment_records import (
    FINISHED_KEPT,
    FinishedReassignment,
    finished_reassignments_path,
)
from zkgroup.znodes.stray_replicas import AbandonedReplicas, stray_replicas_path


def left_behind() -> tuple[SteppedControllers, ControllerNode]:
    """`t-0` has moved from 1, 2 to 2, 3 while broker 1 was down."""
    world, controller = loaded_cluster({0: (1, 2)}, auto_rebalance=False)
    world.stop_broker(1)
    move(world, (2, 3), (2, 3))
    assert tp(0) in world.hosts[1].logs
    return world, controller


def deleted(world: SteppedControllers) -> None:
    """The topic goes; the broker is not waited for."""
    world.mark("t")
    assert left_of(world, "t") == set()


def returns_to_the_next(world: SteppedControllers) -> None:
    """Broker 1 has a place in a topic of the name, and comes back: it deletes, and only then is a replica."""
    world.make_topic("t", {0: (2, 1)})
    world.run()
    before = len(received_of(world, 1, tp(0)))
    world.start_broker(1)
    assert received_of(world, 1, tp(0))[before:] == ["delete", "replica"]
    assert records(world) == []
    assert world.state(tp(0)).leader == 2


@pytest.mark.parametrize("is_next", [False, True], ids=["the same controller", "the next"])
def test_what_a_move_has_left_behind_is_recorded_with_the_deletion(is_next: bool) -> None:
    """No list names the broker any more, so the deletion does not wait; what it has never meets the next
    topic of that name."""
    world, controller = left_behind()
    if is_next:
        world.crash(controller)
        controller = world.new_controller()
    deleted(world)

    assert controller.waiting == {}
    assert [(each.broker, each.partitions) for each in records(world)] == [(1, (0,))]
    assert controller.notes("deletion.finished") == [{"topic": "t", "without": (1,)}]
    returns_to_the_next(world)


def test_a_broker_that_returns_before_the_deletion_leaves_no_record() -> None:
    """It was asked, and has answered."""
    world, _ = left_behind()
    world.start_broker(1)
    deleted(world)

    assert records(world) == []
    assert tp(0) not in world.hosts[1].logs


def test_a_folder_that_cannot_be_deleted_is_recorded_and_holds_up_no_deletion() -> None:
    """The broker lives, and is asked until it has done it; meanwhile it has no place in the next topic."""
    world, controller = left_behind()
    world.hosts[1].refusals[tp(0)] = ErrorCode.KAFKA_STORAGE_ERROR
    world.start_broker(1)
    deleted(world)
    world.make_topic("t", {0: (1, 2)})
    world.run()
    assert world.state(tp(0)).isr == (2,)
    assert list(controller.waiting) == ["removal of t on broker 1"]
    world.hosts[1].refusals.clear()
    before = len(received_of(world, 1, tp(0)))
    world.advance(AGAIN_MS + 1_000, 5_000)

    assert received_of(world, 1, tp(0))[before:] == ["delete", "replica"]
    assert (records(world), controller.waiting) == ([], {})


def test_what_is_left_behind_is_not_what_a_deletion_waits_for() -> None:
    """Broker 1 refuses and has no place; broker 3 has one, and is down: the status names that one."""
    world, controller = left_behind()
    world.hosts[1].refusals[tp(0)] = ErrorCode.KAFKA_STORAGE_ERROR
    world.stop_broker(3)
    world.mark("t")
    world.start_broker(1)

    assert controller.waiting["deletion of t"].startswith("waits for broker 3 to be back")
    world.start_broker(3)
    assert left_of(world, "t") == set()
    assert [each.broker for each in records(world)] == [1]


def unanswered_by_the_left() -> tuple[SteppedControllers, ControllerNode]:
    """The topic is to be deleted, and broker 1 has not answered the request of the move."""
    world, controller = loaded_cluster({0: (1, 2)}, auto_rebalance=False)
    world.hosts[1].silent = True
    move(world, (2, 3), (1, 2, 3))
    world.mark("t")
    assert controller.waiting == {"deletion of t": "waits for the answer of broker 1"}
    return world, controller


def test_an_answer_that_is_on_its_way_is_waited_for() -> None:
    """What was sent to the broker before may still make it a replica: nothing does once it has answered."""
    world, controller = unanswered_by_the_left()
    world.hosts[1].silent = False
    controller.answer_all()
    world.run()

    assert left_of(world, "t") == set()
    assert tp(0) not in world.hosts[1].logs
    assert (records(world), controller.waiting) == ([], {})


def test_an_answer_that_never_comes_is_not() -> None:
    """The broker is gone, and with it its connection and all that was on it."""
    world, controller = unanswered_by_the_left()
    world.stop_broker(1)
    world.hosts[1].silent = False

    assert left_of(world, "t") == set()
    assert controller.waiting == {}
    returns_to_the_next(world)


def test_a_lost_broker_that_is_named_and_one_that_was_left_are_recorded_together() -> None:
    """The deletion is forced over broker 3, and broker 1 had a replica before it (K20)."""
    world, _ = left_behind()
    world.stop_broker(3)
    world.mark("t", 3)

    assert left_of(world, "t") == set()
    assert sorted(each.broker for each in records(world)) == [1, 3]
    world.start_broker(3, run=False)
    returns_to_the_next(world)


def test_the_same_debt_is_recorded_once() -> None:
    """The record of the move outlives the topic, so the next controller recalls it for the next topic too."""
    world, controller = left_behind()
    for _ in range(2):
        deleted(world)
        world.make_topic("t", {0: (2, 3)})
        world.run()
        world.crash(controller)
        controller = world.new_controller()
    assert [each.broker for each in records(world)] == [1]
    deleted(world)

    returns_to_the_next(world)


def test_a_debt_that_a_kafka_controller_has_outdated_is_renewed() -> None:
    """It knows no records, so an old one would not hold the broker out of a topic that names it (K20)."""
    world, controller = left_behind()
    deleted(world)
    world.make_topic("t", {0: (2, 3)})
    world.run()
    world.crash(controller)
    path = ControllerEpoch.path()
    epoch = ControllerEpoch.decode(path, world.find(path).data).epoch + 1
    world.server.put(ControllerRegistration.path(), ControllerRegistration(2, 0).encode())
    world.server.put(path, ControllerEpoch(epoch).encode())
    world.set_state(tp(0), controller_epoch=epoch)
    world.server.remove(ControllerRegistration.path())
    world.new_controller()
    deleted(world)

    assert [(each.broker, each.epoch > epoch) for each in records(world)] == [(1, True)]
    returns_to_the_next(world)


def test_strays_of_a_partition_that_is_moved_again_are_read() -> None:
    """The controller changes in the middle of the next move, which knows nothing of broker 1."""
    world, controller = left_behind()
    world.start_broker(4, run=False)
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0), (3, 4)),)).encode())
    world.run()
    world.crash(controller)
    world.new_controller()
    world.set_state(tp(0), isr=(2, 3, 4))
    world.run()
    assert world.server.find(Reassignment.path()) is None
    deleted(world)

    assert [each.broker for each in records(world)] == [1]
    returns_to_the_next(world)


def test_what_is_left_of_a_topic_that_could_not_be_read_is_recalled_when_it_can() -> None:
    """Nothing is asked of a broker while no one knows who has a place."""
    world, controller = left_behind()
    world.crash(controller)
    good = world.find(Topic.path("t")).data
    assert good is not None
    world.server.put(Topic.path("t"), b"{")
    world.new_controller()
    assert "delete" not in received_of(world, 1, tp(0))
    znode = world.find(Topic.path("t"))
    world.write(SetData(znode.path, good, znode.stat.version))
    world.run()
    world.advance(10_000)
    deleted(world)

    assert [each.broker for each in records(world)] == [1]
    returns_to_the_next(world)


def test_what_a_move_had_added_before_it_was_taken_back_is_recalled() -> None:
    """Broker 3 died while it was to become a replica, and the operator goes back to where it began (K14)."""
    world, controller = loaded_cluster({0: (2, 1)}, auto_rebalance=False)
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0), (2, 3)),)).encode())
    world.run()
    assert tp(0) in world.hosts[3].logs
    world.stop_broker(3)
    znode = world.find(Reassignment.path())
    world.write(SetData(znode.path, Reassignment((Move(tp(0), (2, 1)),)).encode(), znode.stat.version))
    world.run()
    assert world.server.find(Reassignment.path()) is None
    world.crash(controller)
    world.new_controller()
    world.start_broker(3)

    assert received_of(world, 3, tp(0))[-1] == "delete"
    assert tp(0) not in world.hosts[3].logs


def of_earlier(world: SteppedControllers) -> None:
    """As a controller of an earlier version has left it: in the records of moves alone."""
    for path in sorted(world.below(stray_replicas_path()), reverse=True):
        world.delete(path)
    for path in world.below(finished_reassignments_path()) - {finished_reassignments_path()}:
        record = FinishedReassignment.decode(path, world.find(path).data)
        world.delete(path)
        world.server.put(path, dataclasses.replace(record, czxid=None).encode())


@pytest.mark.parametrize("is_readable", [True, False])
def test_what_earlier_versions_have_left_outlives_a_thousand_moves(is_readable: bool) -> None:
    """Recipes 17: the oldest records go, once what they name is recorded elsewhere. The next controller ends
    a move before it does anything else, and perhaps while no one knows who has a place."""
    world, controller = left_behind()
    world.crash(controller)
    of_earlier(world)
    other = FinishedReassignment(tp(7, "v"), (1,), (2,), "done", "moved", 1).encode()
    for _ in range(FINISHED_KEPT + 100):
        world.write(Create(FinishedReassignment.prefix(), other, sequential=True))
    world.make_topic("u", {0: (2, 3)})
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0, "u"), (2, 3)),)).encode())
    znode = world.find(Topic.path("t"))
    if not is_readable:
        world.server.put(znode.path, b"{")
    controller = world.new_controller()
    assert world.server.find(Reassignment.path()) is None
    kept = world.below(finished_reassignments_path()) - {finished_reassignments_path()}
    assert len(kept) == (FINISHED_KEPT if is_readable else FINISHED_KEPT + 102)
    world.server.put(znode.path, znode.data or b"")
    world.crash(controller)
    world.new_controller()
    deleted(world)

    assert [each.broker for each in records(world)] == [1]
    returns_to_the_next(world)


def crashed(writes: int) -> bool:
    """The controller is gone after so many writes of the deletion; whether there were so many."""
    world, controller = left_behind()
    world.mark("t", run=False)
    was_there = world.run_until_written(controller, writes)
    world.crash(controller)
    world.new_controller()
    assert left_of(world, "t") == set()
    assert {each.broker for each in records(world)} == {1}
    returns_to_the_next(world)
    return was_there


def test_a_crash_after_any_write_of_the_deletion_loses_nothing_that_was_left() -> None:
    """Each write in turn: the record is made with the write that frees the name."""
    assert rounds(crashed) > 1


@pytest.mark.parametrize("fault", ["lost_reply", "lost_request", "late"])
def test_a_write_without_an_answer_loses_nothing_that_was_left(fault: Fault) -> None:
    """Each write of the deletion in turn is executed, or not, or later."""
    assert rounds(unanswered, fault) > 1


def unanswered(nth: int, fault: Fault) -> bool:
    """A deletion whose nth write gets no answer; whether it had that many."""
    world, controller = left_behind()
    world.mark("t", run=False)
    if not loses_answer(world, controller, nth, fault):
        return False
    assert left_of(world, "t") == set(), (fault, nth)
    assert {each.broker for each in records(world)} == {1}
    returns_to_the_next(world)
    return True


def test_the_record_of_what_was_left_names_the_topic_and_the_controller() -> None:
    """As that of a forced deletion."""
    world, controller = left_behind()
    deleted(world)

    active = controller.active
    assert records(world) == [AbandonedReplicas("t", 1, (0,), active.parts.identity.epoch)]
    assert active.features.stray_replicas._strays == {}
