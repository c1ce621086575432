"""States that no one could read, and that another client has repaired: their partitions go on at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.worlds.acls import UNREADABLE
from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers, loaded_cluster
from zkgroup.controller.machine.failover import topics
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, SetData
from zkgroup.wire.control import LeaderAndIsrRequest
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.notifications import IsrChange
from zkgroup.zookeeper.settings import OPEN_ACL

STATE = PartitionState.path(tp(0))


def broken(world: SteppedControllers, path: str = STATE) -> bytes:
    """Makes it unreadable; what it was."""
    found = world.find(path)
    assert found.data is not None
    world.write(SetData(path, b"{", found.stat.version))
    return found.data


def mend(world: SteppedControllers, data: bytes, path: str = STATE) -> None:
    world.write(SetData(path, data, world.find(path).stat.version))
    world.run()


def changed(world: SteppedControllers) -> None:
    """Another client says that the ISR has changed, so the state is read."""
    world.write(Create(IsrChange.prefix(), IsrChange((tp(0),)).encode(), sequential=True))
    world.run()


def omitted_partitions(controller: ControllerNode) -> dict[int, tuple[TopicPartition, ...]]:
    active = controller.active
    return dict(active.parts.requests.omitted_partitions)


def roles_of(world: SteppedControllers, broker: int) -> set[str]:
    """Partitions whose role a broker was sent."""
    received = world.hosts[broker].received(LeaderAndIsrRequest)
    return {str(info.topic_partition) for each in received for info in each.partitions}  # type: ignore[union-attr]


def test_a_broker_that_came_back_meanwhile_is_notified_of_it() -> None:
    """Nothing else happens to the partition: its leader waits for a follower that knows of no leader."""
    world, controller = loaded_cluster({0: (1, 2)})
    data = broken(world)
    changed(world)
    world.stop_broker(2)
    world.hosts.pop(2)
    world.start_broker(2)
    assert (controller.unreadable, roles_of(world, 2)) == ({STATE}, set())

    mend(world, data)

    assert (controller.unreadable, roles_of(world, 2)) == (set(), {"t-0"})


def test_a_leader_due_for_replacement_is_replaced_after_the_repair() -> None:
    """The leader has died, and no broker could be elected."""
    world, controller = loaded_cluster({0: (1, 2)})
    data = broken(world)
    world.stop_broker(1)
    assert controller.unreadable == {STATE}

    mend(world, data)

    assert world.state(tp(0)) == PartitionState(2, 1, (2,), 1)


def test_an_unreadable_state_at_failover_is_loaded_when_it_is_repaired() -> None:
    """And one that is repaired badly is watched on; the status names its brokers until they get it."""
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2), 1: (2, 1)})
    world.crash(world.new_controller())
    data = broken(world)
    controller = world.new_controller()
    mend(world, b"[")
    assert (controller.unreadable, roles_of(world, 3)) == ({STATE}, set())
    assert omitted_partitions(controller) == {1: (tp(0),), 2: (tp(0),)}

    mend(world, data)

    assert (controller.unreadable, omitted_partitions(controller)) == (set(), {})
    assert world.hosts[3].metadata[tp(0)] == 1


def test_a_reassignment_continues_when_the_state_is_repaired() -> None:
    """It waited for a state; no one else has a reason to check it."""
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2)})
    world.new_controller()
    data = broken(world)
    changed(world)
    request = Reassignment((Move(tp(0), (1, 3)),))
    world.write(Create(Reassignment.path(), request.encode()))
    world.run()

    mend(world, data)

    assert world.state(tp(0)).leader_epoch > 0


def test_a_state_that_another_handler_reads_first_continues_as_well() -> None:
    """Past bug: the handler that waits for the repair found nothing unreadable any more, and elected no
    leader."""
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2)})
    world.crash(world.new_controller())
    data = PartitionState.decode(STATE, broken(world))
    world.new_controller()
    world.write(Create(IsrChange.prefix(), IsrChange((tp(0),)).encode(), sequential=True))
    mend(world, replace(data, leader=-1, leader_epoch=1).encode())

    assert world.state(tp(0)).leader == 1


def test_one_that_an_acl_hides_is_read_again_after_a_while_and_keeps_no_other() -> None:
    """No watch reports another ACL, and none can be armed; one that is broken beside it has its own."""
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2), 1: (2, 1)})
    world.crash(world.new_controller())
    world.server.set_acl(STATE, UNREADABLE)
    other = PartitionState.path(tp(1))
    data = broken(world, other)
    controller = world.new_controller()
    assert controller.unreadable == {STATE, other}
    assert omitted_partitions(controller) == {1: (tp(0), tp(1)), 2: (tp(0), tp(1))}

    mend(world, data, other)
    assert controller.unreadable == {STATE}
    world.server.set_acl(STATE, *OPEN_ACL)
    world.advance(topics.HIDDEN_MS)
    assert (controller.unreadable, omitted_partitions(controller)) == (set(), {})


@pytest.mark.parametrize("is_known", [True, False])
def test_a_move_that_waited_for_its_topic_continues(is_known: bool) -> None:
    """The topic is repaired under the controller that has read it before, or under one that never could."""
    world, controller = loaded_cluster({0: (1, 2)})
    path = Topic.path("t")
    data = broken(world, path)
    world.run()
    if not is_known:
        world.crash(controller)
        world.new_controller()
    world.write(Create(Reassignment.path(), Reassignment((Move(tp(0), (2,)),)).encode()))
    world.run()
    assert world.server.find(Reassignment.path()) is not None

    mend(world, data, path)

    assert world.server.find(Reassignment.path()) is None
    assert world.state(tp(0)).isr == (2,)
