"""What moves leave behind on a broker that never comes back: it is recorded once, and read at once (K16)."""

from __future__ import annotations

import pytest

from tests.pure.controller.forced import kept
from tests.pure.controller.test_stray_replicas import asked, move
from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import (
    ControllerNode,
    SteppedControllers,
    loaded_cluster,
    loses_answer,
    rounds,
)
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Read, ReadMany, Request
from zkgroup.testing.memory_zookeeper import Fault
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.reassignment_records import finished_reassignments_path
from zkgroup.znodes.stray_replicas import MovesBroughtOver, StrayReplicas, stray_replicas_path

MOVES, AT_ONCE = 400, 20


def moved_away(world: SteppedControllers, topic: str, target: tuple[int, ...]) -> None:
    """All partitions of a topic, in one request."""
    partitions = [TopicPartition(topic, number) for number in range(AT_ONCE)]
    moves = tuple(Move(each, target) for each in partitions)
    world.server.put(Reassignment.path(), Reassignment(moves).encode())
    world.run()
    for each in partitions:
        world.set_state(each, isr=target)
    world.run()
    assert world.server.find(Reassignment.path()) is None


def asked_at_take_over(world: SteppedControllers) -> tuple[ControllerNode, list[str]]:
    """The next controller, and the znodes that it reads."""
    read: list[str] = []
    controller = world.new_elector()
    submit = controller.client.submit

    def watched(request: Request, **others: object) -> None:
        read.extend(request.paths if isinstance(request, ReadMany) else ())
        read.extend([request.path] if isinstance(request, Read) else ())
        submit(request, **others)  # type: ignore[arg-type]

    controller.client.submit = watched  # type: ignore[method-assign, assignment]
    world.advance(10_000)
    assert controller.is_active
    return controller, read


def test_four_hundred_moves_off_a_lost_broker_leave_one_record() -> None:
    """Who takes over reads that, and no record of a move twice; no one is asked anything for them."""
    world = SteppedControllers(auto_rebalance=False)
    topics = [f"t{number}" for number in range(MOVES // AT_ONCE)]
    for topic in topics:
        world.make_topic(topic, dict.fromkeys(range(AT_ONCE), (1, 2)))
    controller = world.new_controller()
    world.stop_broker(1)
    for topic in topics:
        moved_away(world, topic, (2, 3))
    left = kept(world)
    assert world.below(stray_replicas_path()) == {stray_replicas_path(), StrayReplicas.path(1)}
    assert sorted((broker, each.topic) for broker, each in left) == [(1, topic) for topic in sorted(topics)]
    assert {each.partitions for _, each in left} == {tuple(range(AT_ONCE))}

    moves = f"{finished_reassignments_path()}/"
    for again in range(3):
        world.crash(controller)
        controller, read = asked_at_take_over(world)
        assert len(controller.active.features.stray_replicas._strays) == MOVES
        assert sum(path.startswith(moves) for path in read) == (0 if again else MOVES)
        assert read.count(StrayReplicas.path(1)) == 1
    assert kept(world) == left
    assert MovesBroughtOver.decode("", world.find(stray_replicas_path()).data).moves == MOVES - 1
    assert asked(world) == 0
    world.start_broker(1)
    world.advance(10_000)
    assert world.below(stray_replicas_path()) == {stray_replicas_path()}
    assert controller.active.features.stray_replicas._strays == {}
    assert not any(each.topic in topics for each in world.hosts[1].logs)


def test_moving_there_and_back_is_recorded_once() -> None:
    """What is there need not be written again, and what has a place again does not stand there."""
    world, _ = loaded_cluster({0: (1, 2)}, auto_rebalance=False)
    world.stop_broker(1)
    for _ in range(3):
        move(world, (2, 3), (2, 3))
        assert [(broker, each.partitions) for broker, each in kept(world)] == [(1, (0,))]
        world.start_broker(1)
        world.run()
        assert kept(world) == []
        move(world, (1, 2), (1, 2, 3))
        assert kept(world) == []
        world.stop_broker(1)


def test_what_a_live_broker_has_answered_is_not_recorded_any_more() -> None:
    """Nor asked for by the next controller."""
    world, controller = loaded_cluster({0: (1, 2)}, auto_rebalance=False)
    move(world, (2, 3), (1, 2, 3))
    assert asked(world) == 1
    assert kept(world) == []
    world.crash(controller)
    world.new_controller()
    assert asked(world) == 1


def leaves(world: SteppedControllers) -> None:
    """A move away from broker 1, which is down; the new replica is in sync."""
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0), (2, 3)),)).encode())
    world.set_state(tp(0), isr=(2, 3))


def crashed(writes: int) -> bool:
    """The controller is gone after so many writes of the move; whether there were so many."""
    world, controller = loaded_cluster({0: (1, 2)}, auto_rebalance=False)
    world.stop_broker(1)
    leaves(world)
    was_there = world.run_until_written(controller, writes)
    world.crash(controller)
    goes_on(world)
    return was_there


def goes_on(world: SteppedControllers) -> None:
    """The next controller ends the move; the one after it knows what was left, and has it deleted."""
    controller = world.new_controller()
    if world.server.find(Reassignment.path()) is not None:
        world.set_state(tp(0), isr=(2, 3))
        world.run()
    assert world.server.find(Reassignment.path()) is None
    assert [(broker, each.partitions) for broker, each in kept(world)] == [(1, (0,))]
    world.crash(controller)
    world.new_controller()
    world.start_broker(1)
    assert tp(0) not in world.hosts[1].logs
    assert kept(world) == []


def test_a_crash_after_any_write_of_a_move_loses_nothing_that_is_left() -> None:
    """Each write in turn: the record is made with the one that ends the move."""
    assert rounds(crashed) > 2


def unanswered(nth: int, fault: Fault) -> bool:
    """A move whose nth write gets no answer; whether it had that many."""
    world, controller = loaded_cluster({0: (1, 2)}, auto_rebalance=False)
    world.stop_broker(1)
    leaves(world)
    if not loses_answer(world, controller, nth, fault):
        return False
    if world.server.find(Reassignment.path()) is not None:
        world.set_state(tp(0), isr=(2, 3))
        world.run()
    assert [(broker, each.partitions) for broker, each in kept(world)] == [(1, (0,))], (fault, nth)
    world.start_broker(1)
    assert tp(0) not in world.hosts[1].logs
    assert kept(world) == []
    return True


@pytest.mark.parametrize("fault", ["lost_reply", "lost_request", "late"])
def test_a_write_without_an_answer_loses_nothing_that_a_move_leaves(fault: Fault) -> None:
    """Each write of the move in turn is executed, or not, or later."""
    assert rounds(unanswered, fault) > 2


def test_what_an_operator_takes_off_is_forgotten() -> None:
    """The controller does not write it again, nor ask for it, and goes on with what comes after."""
    world, controller = loaded_cluster({0: (1, 2), 1: (1, 2)}, auto_rebalance=False)
    world.stop_broker(1)
    move(world, (2, 3), (2, 3))
    world.delete(StrayReplicas.path(1))
    world.run()
    assert controller.active.features.stray_replicas._strays == {}
    world.server.put(Reassignment.path(), Reassignment((Move(tp(1), (2, 3)),)).encode())
    world.run()
    world.set_state(tp(1), isr=(2, 3))
    world.run()

    assert [(broker, each.partitions) for broker, each in kept(world)] == [(1, (1,))]
