"""Partitions that no broker was sent: their first leader epoch is sent before another one is decided (ADR
0018)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import SteppedControllers
from zkgroup.wire.control import LeaderAndIsrRequest
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import PartitionState

Told = list[tuple[int, int]]


def received(world: SteppedControllers, broker: int) -> Told:
    """(leader, leader epoch) of each LeaderAndIsr that named `t-0`."""
    requests = world.hosts[broker].received(LeaderAndIsrRequest)
    return [
        (info.leader, info.leader_epoch)
        for request in requests
        if isinstance(request, LeaderAndIsrRequest)
        for info in request.partitions
        if info.topic_partition == tp(0)
    ]


def born_unheard(*kafka: int) -> SteppedControllers:
    """`t` has its first state, broker 3 leads it, and the controller died before it notified anybody."""
    world = SteppedControllers(())
    for id_ in (1, 2, 3):
        world.start_broker(id_, is_zkgroup=id_ not in kafka, run=False)
    controller = world.new_controller()
    world.make_topic("t", {0: (3, 1, 2)})
    assert world.run_until_written(controller, 1)
    assert world.state(tp(0)) == PartitionState(3, 0, (3, 1, 2), 1)
    world.crash(controller)
    assert [received(world, id_) for id_ in (1, 2, 3)] == [[], [], []]
    return world


def test_a_broker_that_was_there_gets_the_first_leader_epoch_and_then_the_election() -> None:
    """Both in this order, on the same connection; the broker that died gets the present leader epoch
    alone."""
    world = born_unheard()
    world.stop_broker(3, run=False)
    world.new_controller()

    assert world.state(tp(0)) == PartitionState(1, 1, (1, 2), 2)
    assert received(world, 1) == received(world, 2) == [(3, 0), (1, 1)]
    world.start_broker(3, is_zkgroup=True)
    assert received(world, 3) == [(1, 1)]


def test_a_move_that_has_not_begun_changes_nothing_of_it() -> None:
    """Its request alone reaches no broker: the first leader epoch is still the only one."""
    world = born_unheard()
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0), (2, 3)),)).encode())
    world.stop_broker(3, run=False)
    world.new_controller()

    assert received(world, 1)[0] == received(world, 2)[0] == (3, 0)
    world.start_broker(3, is_zkgroup=True)
    assert world.state(tp(0)).leader in (1, 2)


def test_a_leader_that_has_restarted_gets_no_request_to_lead_in_it() -> None:
    """Its folder may be another one: it may have led for long, and what it had is gone."""
    world = born_unheard()
    world.stop_broker(3, run=False)
    world.start_broker(3, is_zkgroup=True, run=False)
    world.new_controller()

    assert received(world, 1)[:2] == received(world, 2)[:2] == [(3, 0), (3, 1)]
    assert received(world, 3) == [(3, 1)]


def _restarted(world: SteppedControllers) -> None:
    for id_ in (1, 2):
        world.stop_broker(id_, run=False)
        world.start_broker(id_, is_zkgroup=True, run=False)


def _written(world: SteppedControllers) -> None:
    world.set_state(tp(0), isr=(3, 1))
    world.set_state(tp(0), isr=(3, 1, 2))


def _moving(world: SteppedControllers) -> None:
    """Step 1 of a move is written: 2 is in no ISR, and the partition may be full of records."""
    world.grow("t", {0: (2, 3, 1)})
    path = PartitionState.path(tp(0))
    world.delete(path)
    world.server.put(path, PartitionState(3, 0, (3, 1), 1).encode())


def _both(world: SteppedControllers) -> None:
    """One of them was restarted, and is the one that was there of another such partition."""
    world.stop_broker(2, run=False)
    world.start_broker(2, is_zkgroup=True, run=False)
    controller = world.new_controller()
    world.make_topic("u", {0: (3, 2)})
    assert world.run_until_written(controller, 1)
    world.crash(controller)
    for host in world.hosts.values():
        host.requests.clear()


@pytest.mark.parametrize(
    ("happening", "kafka", "never"),
    [
        (_restarted, (), {1, 2}),
        (_written, (), {1, 2}),
        (_moving, (), {2}),
        (lambda world: None, (1, 2), {1, 2}),
        (_both, (), {1, 2}),
    ],
    ids=["restarted", "written", "moving", "kafka", "both"],
)
def test_a_replica_that_may_be_empty_never_gets_the_first_leader_epoch(
    happening: Callable[[SteppedControllers], object], kafka: tuple[int, ...], never: set[int]
) -> None:
    """replica-host.md rule 4: the request for epoch 0 is what makes a replica that may lead with nothing."""
    world = born_unheard(*kafka)
    happening(world)
    world.stop_broker(3, run=False)
    world.new_controller()

    assert world.state(tp(0)).leader_epoch > 0
    assert all(received(world, id_) for id_ in never)
    assert all(epoch > 0 for id_ in never for _, epoch in received(world, id_))
