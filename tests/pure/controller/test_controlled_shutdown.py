"""Brokers that ask before they stop."""

from __future__ import annotations

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, Host, SteppedControllers, is_writing
from zkgroup.controller.machine.events import ShutdownAnswered, ShutdownAsked
from zkgroup.testing.memory_zookeeper import ServerStep
from zkgroup.wire.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.admin_requests import Move, Reassignment

MANY = 1000


def loaded_cluster(**topics: dict[int, tuple[int, ...]]) -> tuple[SteppedControllers, ControllerNode]:
    world = SteppedControllers(auto_rebalance=False)
    for name, partitions in topics.items():
        world.make_topic(name, partitions)
    return world, world.new_controller()


def ask(
    world: SteppedControllers, controller: ControllerNode, broker: int, request_id: int = 1
) -> ShutdownAnswered:
    """The answer to a broker that asks."""
    controller.ask_shutdown(request_id, broker)
    world.run()
    answer = controller.shutdown_answers()[-1]
    assert answer.request_id == request_id
    return answer


def since(host: Host, count: int) -> list[type]:
    """Kinds of the requests to a host after the first so many."""
    return [type(each) for each in host.requests[count:]]


def test_a_thousand_leaderships_are_handed_over() -> None:
    """None remains, what has one replica is left alone, asked again it is the same."""
    world, controller = loaded_cluster(t=dict.fromkeys(range(MANY), (1, 2)), single={0: (1,)})
    before = world.state(tp(0, "single"))
    count = len(world.hosts[1].requests)
    answer = ask(world, controller, 1)

    assert (answer.error, answer.remaining) == (ErrorCode.NONE, ())
    states = [world.state(tp(number)) for number in range(MANY)]
    assert {(state.leader, state.isr) for state in states} == {(2, (2,))}
    assert world.state(tp(0, "single")) == before
    assert since(world.hosts[1], count) == [LeaderAndIsrRequest, UpdateMetadataRequest]
    again = ask(world, controller, 1, 2)
    assert (again.error, again.remaining) == (ErrorCode.NONE, ())
    assert [world.state(tp(number)) for number in range(MANY)] == states
    assert since(world.hosts[1], count)[2:] == [StopReplicaRequest]
    ask(world, controller, 1, 3)
    assert since(world.hosts[1], count)[3:] == []


def test_what_it_follows_it_stops_and_leaves_the_isr() -> None:
    """Controller.md 5.9: StopReplica without deletion; the leader and the others are notified of the new
    ISR."""
    world, controller = loaded_cluster(t={0: (2, 1, 3)})
    count = {id_: len(host.requests) for id_, host in world.hosts.items()}
    ask(world, controller, 1)

    assert (world.state(tp(0)).leader, world.state(tp(0)).isr) == (2, (2, 3))
    assert since(world.hosts[1], count[1]) == [UpdateMetadataRequest, StopReplicaRequest]
    stop = world.hosts[1].requests[-1]
    assert isinstance(stop, StopReplicaRequest)
    assert (stop.delete, stop.partitions) == (False, (tp(0),))
    assert since(world.hosts[2], count[2]) == [LeaderAndIsrRequest, UpdateMetadataRequest]
    assert tp(0) in world.hosts[1].logs


def test_the_replica_list_decides_the_next_leader_and_the_old_one_is_sent_it() -> None:
    """The order of the list, not of the ISR; LeaderAndIsr goes to the broker that leaves as well (K26)."""
    world, controller = loaded_cluster(t={0: (1, 2, 3)})
    world.set_state(tp(0), isr=(3, 1, 2))
    count = len(world.hosts[1].requests)
    ask(world, controller, 1)

    assert (world.state(tp(0)).leader, world.state(tp(0)).isr) == (2, (3, 2))
    received = world.hosts[1].requests[count]
    assert isinstance(received, LeaderAndIsrRequest)
    assert [info.leader for info in received.partitions] == [2]


def test_what_no_other_broker_can_lead_remains() -> None:
    """Controller.md 5.9: it leads on, and the answer names it; asked again when there is another one."""
    world, controller = loaded_cluster(t={0: (1, 2), 1: (1, 3)})
    world.set_state(tp(0), isr=(1,))
    answer = ask(world, controller, 1)
    assert (answer.error, answer.remaining) == (ErrorCode.NONE, (tp(0),))
    assert (world.state(tp(0)).leader, world.state(tp(1)).leader) == (1, 3)
    world.set_state(tp(0), isr=(1, 2))
    answer = ask(world, controller, 1, 2)

    assert (answer.error, answer.remaining) == (ErrorCode.NONE, ())
    assert (world.state(tp(0)).leader, world.state(tp(0)).isr) == (2, (2,))


def test_a_broker_that_is_shutting_down_is_elected_for_nothing_until_it_is_back() -> None:
    """Controller.md 3.3: neither as the successor of another one, nor as preferred leader."""
    world, controller = loaded_cluster(t={0: (1, 2, 3), 1: (3, 2, 1)})
    ask(world, controller, 2)
    world.stop_broker(1)
    assert world.state(tp(0)).leader == 3
    world.stop_broker(2)
    world.start_broker(2)
    world.set_state(tp(0), isr=(3, 2))
    world.stop_broker(3)

    assert world.state(tp(0)).leader == 2


def test_two_that_stop_together_do_not_hand_over_to_each_other() -> None:
    """Both asked before either was answered."""
    world, controller = loaded_cluster(t={0: (1, 2, 3), 1: (2, 1, 3)})
    controller.ask_shutdown(1, 1)
    controller.ask_shutdown(2, 2)
    world.run()

    assert [(each.request_id, each.error, each.remaining) for each in controller.shutdown_answers()] == [
        (1, 0, ()),
        (2, 0, ()),
    ]
    assert [(world.state(tp(n)).leader, world.state(tp(n)).isr) for n in (0, 1)] == [(3, (3,)), (3, (3,))]


def test_an_unregistered_broker_is_unknown() -> None:
    """Controller.md 5.9: error 8; it changes nothing."""
    world, controller = loaded_cluster(t={0: (1, 2)})
    answer = ask(world, controller, 7)

    assert (answer.error, answer.remaining) == (ErrorCode.BROKER_NOT_AVAILABLE, ())
    assert world.state(tp(0)).leader == 1


def test_a_controller_that_is_not_active_says_so() -> None:
    """Controller.md 5.9: error 11, from an elector that waits, and from one that has resigned meanwhile."""
    world, controller = loaded_cluster(t={0: (1, 2)})
    other = world.new_controller()
    assert not other.is_active
    assert ask(world, other, 1).error == ErrorCode.STALE_CONTROLLER_EPOCH
    world.bump()
    controller.ask_shutdown(5, 1)
    world.run()

    (answer,) = controller.shutdown_answers()
    assert (answer.request_id, answer.error) == (5, ErrorCode.STALE_CONTROLLER_EPOCH)
    assert world.state(tp(0)).leader == 1


def test_a_waiting_request_is_answered_once_when_the_controller_resigns() -> None:
    """Controller.md 5.9: error 11; the broker asks the next controller."""
    _, controller = loaded_cluster(t={0: (1, 2)})
    active = controller.active
    active.features.shutdowns.requested(ShutdownAsked(5, 1))
    for _ in range(2):
        active.stop()
    answers = [each for each in active.parts.core.take_effects() if isinstance(each, ShutdownAnswered)]

    assert answers == [ShutdownAnswered(5, ErrorCode.STALE_CONTROLLER_EPOCH)]


def test_topics_that_are_being_deleted_are_left_alone() -> None:
    """As from 2.1 on: they neither move nor count; this one waits for a broker that is down."""
    world, controller = loaded_cluster(t={0: (1, 2, 4)}, u={0: (1, 2)})
    world.mark("t")
    before = world.state(tp(0))
    answer = ask(world, controller, 1)

    assert (answer.error, answer.remaining) == (ErrorCode.NONE, ())
    assert world.state(tp(0)) == before
    assert world.state(tp(0, "u")).leader == 2


def test_a_topic_whose_deletion_waits_for_a_move_is_handed_over() -> None:
    """Until the move ends it is led and followed as any other."""
    world, controller = loaded_cluster(t={0: (1, 2)})
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0), (1, 4)),)).encode())
    world.run()
    world.mark("t")
    answer = ask(world, controller, 1)

    assert (answer.error, answer.remaining) == (ErrorCode.NONE, ())
    assert world.state(tp(0)).leader == 2


def test_a_missing_answer_of_zookeeper_keeps_no_broker_waiting_for_ever() -> None:
    """The write's reply is lost: it is read back, and the broker gets its answer."""
    world, controller = loaded_cluster(t={0: (1, 2)})
    controller.ask_shutdown(1, 1)
    world.run(lambda: world.asked(controller, "/brokers/topics/t/partitions/0/state") is not None)
    world.deliver(ServerStep("request", controller.name), "lost_reply")
    world.run()
    world.advance(3_000)

    (answer,) = controller.shutdown_answers()
    assert (answer.error, answer.remaining) == (ErrorCode.NONE, ())
    assert (world.state(tp(0)).leader, world.state(tp(0)).leader_epoch) == (2, 1)


def test_a_start_that_came_after_the_request_is_not_taken_for_the_one_that_asked() -> None:
    """Of K8's kind: the request waits while its broker gives up and starts anew. The new start does not stop,
    so it must not be left out of elections for as long as it lives."""
    world, controller = loaded_cluster(t={0: (2, 1)})
    world.make_topic("u", {0: (2, 3)})
    world.run(lambda: is_writing(controller))
    controller.ask_shutdown(1, 1)
    controller.loop.run_pending()
    world.stop_broker(1, run=False)
    world.start_broker(1, run=False)
    world.server.catch_up(controller.name)
    world.deliver(ServerStep("watch", controller.name))
    world.run()
    world.set_state(tp(0), isr=(2, 1))
    world.stop_broker(2)

    assert controller.shutdown_answers()[-1].error == ErrorCode.BROKER_NOT_AVAILABLE
    assert world.state(tp(0)).leader == 1


def test_a_request_before_loading_is_repeated() -> None:
    """No one knows yet which start of the broker that is."""
    world = SteppedControllers(auto_rebalance=False)
    controller = world.new_elector()
    world.run(lambda: controller.is_active)
    controller.ask_shutdown(1, 1)
    controller.loop.run_pending()

    assert [answer.error for answer in controller.shutdown_answers()] == [ErrorCode.STALE_CONTROLLER_EPOCH]
