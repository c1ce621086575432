"""Preferred leaders: on request, and by themselves."""

from __future__ import annotations

import pytest

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers, loaded_cluster
from zkgroup.controller.machine.events import ControlRequest
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.wire.control import LeaderAndIsrRequest
from zkgroup.znodes.admin_requests import Move, PreferredElection, Reassignment
from zkgroup.znodes.notifications import IsrChange

FIRST_MS, INTERVAL_MS = 5_000, 300_000


def tilted(partitions: int = 4, **settings: object) -> tuple[SteppedControllers, ControllerNode]:
    """Topic `t`, with preferred leader 1, led by 2 since broker 1 was away; all are in sync again."""
    world, controller = loaded_cluster(
        dict.fromkeys(range(partitions), (1, 2, 3)), **{"auto_rebalance": False, **settings}
    )
    world.stop_broker(1)
    world.start_broker(1)
    for number in range(partitions):
        assert world.state(tp(number)).leader == 2
        world.set_state(tp(number), isr=(2, 3, 1))
    return world, controller


def ask(world: SteppedControllers, *partitions: TopicPartition) -> None:
    """As Kafka's tool does."""
    world.server.put(PreferredElection.path(), PreferredElection(partitions).encode())
    world.run()


def leaders(world: SteppedControllers, partitions: int = 4) -> list[int]:
    return [world.state(tp(number)).leader for number in range(partitions)]


def is_open(world: SteppedControllers) -> bool:
    """Whether the request is still there."""
    return world.server.find(PreferredElection.path()) is not None


def test_a_request_moves_all_leaders_and_goes() -> None:
    """By the ISR as it is now, though its change was not reported (K30)."""
    world, _ = tilted()
    ask(world, tp(0), tp(1), tp(2))

    assert not is_open(world)
    assert leaders(world) == [1, 1, 1, 2]
    assert world.state(tp(0)).isr == (2, 3, 1)
    assert all(host.metadata[tp(0)] == 1 for host in world.hosts.values())
    received = _last(world.hosts[1].received(LeaderAndIsrRequest))
    assert [(info.partition, info.leader) for info in received.partitions] == [(0, 1), (1, 1), (2, 1)]
    ask(world, tp(3))
    assert leaders(world) == [1, 1, 1, 1]


def _last(requests: list[ControlRequest]) -> LeaderAndIsrRequest:
    assert isinstance(requests[-1], LeaderAndIsrRequest)
    return requests[-1]


def test_unknown_partitions_keep_no_request_and_hinder_no_other() -> None:
    """Unknown topics and numbers beside partitions that can be elected (K18)."""
    world, controller = tilted()
    ask(world, tp(0, "nobody"), tp(0), tp(17), tp(1))

    assert not is_open(world)
    assert leaders(world) == [1, 1, 2, 2]
    assert controller.notes("election.preferred")[-1]["unknown"] == ("nobody-0", "t-17")


def test_what_fails_keeps_no_request() -> None:
    """One not in sync, one that is led so already, one that is being deleted."""
    world, controller = tilted()
    ask(world, tp(3))
    world.set_state(tp(0), isr=(2, 3))
    world.hosts[3].silent = True
    world.make_topic("v", {0: (1, 3)})
    world.run()
    world.mark("v")
    before = world.state(tp(3))
    ask(world, tp(0), tp(1), tp(3), tp(0, "v"))

    assert not is_open(world)
    assert leaders(world) == [2, 1, 2, 1]
    assert world.state(tp(3)) == before
    note = controller.notes("election.preferred")[-1]
    assert note["failed"] == {"t-0": "the preferred replica 1 is not in sync; in sync are 2, 3"}
    assert (note["elected"], note["unneeded"], note["unknown"]) == (1, 1, ("v-0",))


@pytest.mark.parametrize("data", [b"", b"not JSON", b'{"version":1,"partitions":[]}'])
def test_a_request_that_says_nothing_goes_too(data: bytes) -> None:
    """Else no other could ever be made."""
    world, _ = tilted()
    world.server.put(PreferredElection.path(), data)
    world.run()

    assert not is_open(world)
    assert leaders(world) == [2, 2, 2, 2]


def test_a_request_found_at_a_failover_is_carried_out() -> None:
    """The next controller does it; so it is too after a crash in the middle."""
    world, controller = tilted()
    world.crash(controller)
    ask(world, tp(0), tp(1))
    assert is_open(world)
    second = world.new_controller()
    assert not is_open(world)
    assert leaders(world) == [1, 1, 2, 2]
    world.server.put(PreferredElection.path(), PreferredElection((tp(2), tp(3))).encode())
    assert world.run_until_written(second, 1)
    world.crash(second)
    world.new_controller()

    assert not is_open(world)
    assert leaders(world) == [1, 1, 1, 1]


def test_a_request_that_is_replaced_meanwhile_is_carried_out_as_well() -> None:
    """The removal names the version that was read: what another client wrote since is not thrown away."""
    world, controller = tilted()
    world.server.put(PreferredElection.path(), PreferredElection((tp(0),)).encode())
    assert world.run_until_written(controller, 1)
    world.server.put(PreferredElection.path(), PreferredElection((tp(1),)).encode())
    world.run()
    world.advance(2_000)

    assert not is_open(world)
    assert leaders(world) == [1, 1, 2, 2]


def test_the_balance_is_checked_five_seconds_after_loading_and_then_at_each_interval() -> None:
    """The first time soon, then an interval after the end of the one before."""
    world = SteppedControllers(rebalance_interval_ms=INTERVAL_MS)
    world.make_topic("t", {0: (1, 2)})
    world.new_controller()
    began = world.clock.now_ms()
    tilt(world, 0)
    world.advance(FIRST_MS - 500)
    assert world.state(tp(0)).leader == 2
    world.advance(1_000)
    assert world.state(tp(0)).leader == 1
    tilt(world, 0)
    world.advance(began + FIRST_MS + INTERVAL_MS - 2_000 - world.clock.now_ms())
    assert world.state(tp(0)).leader == 2
    world.advance(4_000)

    assert world.state(tp(0)).leader == 1
    assert world.server.find(PreferredElection.path()) is None


def tilt(world: SteppedControllers, *numbers: int) -> None:
    """Broker 1 bounces; 2 leads since, and 1 is in sync again."""
    world.stop_broker(1)
    world.start_broker(1)
    for number in numbers:
        assert world.state(tp(number)).leader == 2
        world.set_state(tp(number), isr=(2, 1))
        notify(world, number)
    world.run()


def notify(world: SteppedControllers, number: int) -> None:
    """A leader reports a changed ISR."""
    world.write(Create(IsrChange.prefix(), IsrChange((tp(number),)).encode(), sequential=True))


@pytest.mark.parametrize(("count", "leads"), [(10, 2), (9, 1)])
def test_more_than_a_tenth_must_be_led_by_others(count: int, leads: int) -> None:
    """One of ten is 10 % and stays; one of nine is 11 % and is moved."""
    world = SteppedControllers()
    world.make_topic("t", dict.fromkeys(range(count), (1, 2)))
    world.new_controller()
    world.set_state(tp(0), leader=2, leader_epoch=5)
    notify(world, 0)
    world.run()
    world.advance(FIRST_MS + 1_000)

    assert world.state(tp(0)).leader == leads


def test_no_balance_while_partitions_are_moved_or_preferred_replicas_are_away() -> None:
    """A move that is open stops it; a replica that is dead or behind is passed over."""
    world = SteppedControllers(rebalance_interval_ms=10_000)
    world.make_topic("t", {0: (1, 2), 1: (1, 2)})
    world.make_topic("u", {0: (2, 3)})
    world.new_controller()
    tilt(world, 0, 1)
    world.set_state(tp(1), isr=(2,))
    notify(world, 1)
    world.hosts[1].silent = False
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0, "u"), (3, 1)),)).encode())
    world.run()
    world.advance(FIRST_MS + 1_000)
    assert leaders(world, 2) == [2, 2]
    world.set_state(tp(0, "u"), isr=(2, 3, 1))
    world.run()
    assert world.server.find(Reassignment.path()) is None
    world.advance(11_000)

    assert leaders(world, 2) == [1, 2]


def test_the_balance_reads_what_was_not_reported() -> None:
    """A leader of 0.8.2.2 takes a replica back into the ISR and notifies no one (K30)."""
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2)})
    world.new_controller()
    world.stop_broker(1)
    world.start_broker(1)
    world.set_state(tp(0), isr=(2, 1))
    world.advance(FIRST_MS + 1_000)

    assert (world.state(tp(0)).leader, world.state(tp(0)).isr) == (1, (2, 1))


def test_the_rebalance_can_be_switched_off() -> None:
    """`auto.leader.rebalance.enable`: a request is obeyed all the same."""
    world, _ = tilted()
    world.advance(FIRST_MS + 1_000)
    assert leaders(world) == [2, 2, 2, 2]
    ask(world, tp(0))
    assert leaders(world) == [1, 2, 2, 2]
