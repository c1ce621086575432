"""The slots of group coordinators under an active controller: elections, replicas, deletion (recipes 20)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

import pytest

from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers
from zkgroup.controller.machine.context import Brokers
from zkgroup.controller.machine.failover.slots import more_replicas
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.wire.control import StopReplicaRequest
from zkgroup.znodes.admin_requests import Move, PreferredElection, Reassignment, TopicDeletion
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotConfig


def slot(number: int) -> TopicPartition:
    return TopicPartition(OFFSETS_TOPIC, number)


def cluster(
    partitions: Mapping[int, Brokers],
    brokers: Brokers = (1, 2, 3),
    *,
    has_slots: bool = True,
    **settings: object,
) -> tuple[SteppedControllers, ControllerNode]:
    """zkgroup brokers with `__consumer_offsets` under an active controller."""
    world = SteppedControllers((), **settings)
    for id_ in brokers:
        world.start_broker(id_, is_zkgroup=True, run=False)
    if has_slots:
        world.server.put(SlotConfig.path(), SlotConfig(len(partitions)).encode())
    world.make_topic(OFFSETS_TOPIC, partitions)
    return world, world.new_controller()


def lists(world: SteppedControllers) -> dict[int, Brokers]:
    return dict(Topic.decode("/t", world.find(Topic.path(OFFSETS_TOPIC)).data).partitions)


def leaders_follow(world: SteppedControllers) -> None:
    """Each leader adds its live replicas to the ISR, as it does once they have fetched."""
    for number, replicas in lists(world).items():
        state = world.state(slot(number))
        live = tuple(each for each in replicas if world.hosts[each].incarnation)
        if state.leader in live and set(state.isr) != set(live):
            world.set_state(slot(number), isr=live)
            world.write(Create("/isr_change_notification/isr_change_", _changed(number), sequential=True))
    world.run()


def _changed(number: int) -> bytes:
    text = f'{{"version":1,"partitions":[{{"topic":"{OFFSETS_TOPIC}","partition":{number}}}]}}'
    return text.encode()


def test_any_live_replica_may_lead() -> None:
    """The ISR is that of its leader alone, which stops: the others have the same log, an empty one."""
    world, controller = cluster({0: (1, 2, 3)})
    world.set_state(slot(0), isr=(1,))

    world.stop_broker(1)

    assert world.state(slot(0)) == PartitionState(2, 1, (2, 3), 1)
    assert controller.active.parts.events.blocked == {}


def test_a_topic_without_slots_is_a_topic_like_any_other() -> None:
    """Brokers of Kafka keep offsets in it: only the ISR has them."""
    world, _ = cluster({0: (1, 2, 3)}, has_slots=False)
    world.set_state(slot(0), isr=(1,))

    world.stop_broker(1)

    assert world.state(slot(0)).leader == -1


def test_the_topic_has_slots_from_the_moment_their_number_is_written() -> None:
    """With the topic, as `claim_slots` does it in a cluster that was Kafka's."""
    world, _ = cluster({0: (1, 2, 3)}, has_slots=False)
    world.set_state(slot(0), isr=(1,))
    world.stop_broker(1)
    world.server.put(SlotConfig.path(), SlotConfig(1).encode())

    world.grow(OFFSETS_TOPIC, {0: (1, 2, 3)})
    world.run()

    assert world.state(slot(0)).leader == 2


def test_a_new_controller_elects_for_the_slots_too() -> None:
    """It reads their number before it elects."""
    world, controller = cluster({0: (1, 2, 3)})
    world.set_state(slot(0), isr=(1,))
    world.crash(controller)
    world.stop_broker(1, run=False)

    world.new_controller()

    assert world.state(slot(0)).leader == 2


def led_by_2(world: SteppedControllers, controller: ControllerNode) -> None:
    """A new controller finds `__consumer_offsets-0` led by broker 2, alone in the ISR."""
    world.crash(controller)
    world.set_state(slot(0), leader=2, isr=(2,), leader_epoch=3)
    world.new_controller()


def test_the_preferred_replica_leads_outside_the_isr() -> None:
    """On request."""
    world, controller = cluster({0: (1, 2, 3)}, auto_rebalance=False)
    led_by_2(world, controller)
    assert world.state(slot(0)).leader == 2

    world.server.put(PreferredElection.path(), PreferredElection((slot(0),)).encode())
    world.run()

    assert (world.state(slot(0)).leader, set(world.state(slot(0)).isr)) == (1, {1, 2, 3})


def test_the_balance_counts_replicas_outside_the_isr() -> None:
    """Coordinators move back to a broker that has restarted, whatever the ISR is."""
    world, controller = cluster({0: (1, 2)}, (1, 2))
    led_by_2(world, controller)
    assert world.state(slot(0)).leader == 2

    world.advance(310_000)

    assert world.state(slot(0)).leader == 1


def test_a_controlled_shutdown_hands_slots_to_any_live_replica() -> None:
    """Whether it is in sync or not."""
    world, controller = cluster({0: (1, 2, 3)})
    world.set_state(slot(0), isr=(1,))

    controller.ask_shutdown(1, 1)
    world.run()

    assert [each.remaining for each in controller.shutdown_answers()] == [()]
    assert world.state(slot(0)).leader in (2, 3)
    assert 1 not in world.state(slot(0)).isr


def test_a_leader_that_has_restarted_leads_on_in_a_new_epoch() -> None:
    """It is its own live replica, in the ISR or not."""
    world, _ = cluster({0: (1, 2)}, (1, 2))
    world.set_state(slot(0), leader=1, isr=(2,), leader_epoch=3)
    world.stop_broker(1, run=False)
    world.start_broker(1, is_zkgroup=True)

    state = world.state(slot(0))
    assert state.leader in state.isr
    assert state.leader_epoch > 3


def test_a_replica_that_its_broker_may_still_delete_is_not_in_sync() -> None:
    """Its StopReplica has no answer: it would delete the replica after the election."""
    world, controller = cluster({0: (1, 2, 3)}, auto_rebalance=False)
    world.hosts[1].silent = True
    world.server.put(Reassignment.path(), Reassignment((Move(slot(0), (3,)),)).encode())
    while world.state(slot(0)).isr != (3,):
        assert world.run_until_written(controller, 1)
    assert lists(world)[0] == (1, 2, 3)

    world.stop_broker(3)

    assert controller.active.parts.pending_deletes.all_deleting() == {slot(0): {1}}
    assert (world.state(slot(0)).leader, world.state(slot(0)).isr) == (2, (2,))


def test_replica_lists_grow_when_brokers_register() -> None:
    """Up to three replicas, spread evenly, as their preferred leaders are."""
    world, _ = cluster(dict.fromkeys(range(6), (1,)), (1,))
    for id_ in (2, 3, 4):
        world.start_broker(id_, is_zkgroup=True)
        leaders_follow(world)

    assert {len(replicas) for replicas in lists(world).values()} == {3}
    assert sorted(Counter(replicas[0] for replicas in lists(world).values()).values()) == [2, 2, 2]
    assert world.server.find(Reassignment.path()) is None


def test_a_topic_without_slots_does_not_grow() -> None:
    """Its log has records."""
    world, _ = cluster({0: (1,)}, (1,), has_slots=False)

    world.start_broker(2, is_zkgroup=True)

    assert lists(world) == {0: (1,)}


def test_brokers_of_kafka_get_no_slots() -> None:
    """They coordinate no groups by them."""
    world, _ = cluster({0: (1,)}, (1,))

    world.start_broker(2)

    assert lists(world) == {0: (1,)}


def test_more_replicas_wait_for_a_reassignment() -> None:
    """Its request is that of an operator; they are requested when it has ended."""
    world, _ = cluster({0: (1,)}, (1,))
    world.make_topic("t", {0: (1,)})
    world.run()
    world.stop_broker(1)
    world.server.put(Reassignment.path(), Reassignment((Move(TopicPartition("t", 0), (2,)),)).encode())
    world.start_broker(2, is_zkgroup=True)
    world.start_broker(1, is_zkgroup=True)

    assert lists(world) == {0: (1,)}
    world.set_state(TopicPartition("t", 0), isr=(1, 2))
    world.write(
        Create(
            "/isr_change_notification/isr_change_",
            b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
            sequential=True,
        )
    )
    world.run()
    leaders_follow(world)

    assert set(lists(world)[0]) == {1, 2}


def test_every_crash_of_a_controller_leaves_the_replicas_to_the_next() -> None:
    """After each of its writes."""
    for writes in itertools.count(1):
        world, controller = cluster({0: (1,), 1: (1,)}, (1,))
        world.start_broker(2, is_zkgroup=True, run=False)
        is_over = not world.run_until_written(controller, writes)
        world.crash(controller)
        world.new_controller()
        leaders_follow(world)
        leaders_follow(world)
        assert [set(each) for each in lists(world).values()] == [{1, 2}] * 2, writes
        if is_over:
            return


def test_a_list_with_a_dead_broker_grows() -> None:
    """The move ends without that broker, which would never be in sync."""
    world, _ = cluster({0: (1, 4)}, (1, 4))
    world.stop_broker(4)
    for broker in (2, 3):
        world.start_broker(broker, is_zkgroup=True)
    leaders_follow(world)
    leaders_follow(world)

    assert [set(each) for each in lists(world).values()] == [{1, 2, 3}]
    assert world.server.find(Reassignment.path()) is None


RACKS = {1: "a", 2: "a", 3: "b", 4: None}


@pytest.mark.parametrize(
    ("before", "brokers", "after"),
    [
        ({0: (1,), 1: (1,), 2: (1,)}, (1, 2), {0: (2, 1), 1: (1, 2), 2: (1, 2)}),
        ({0: (1,)}, (1, 2, 3), {0: (1, 3, 2)}),
        ({0: (1, 2), 1: (1, 2)}, (1, 2), {}),
        ({0: (1, 9)}, (1, 2, 3), {0: (1, 3, 2)}),
        ({0: (9, 1)}, (1, 2), {}),
        ({0: (8, 9)}, (1, 2, 3), {}),
        ({0: (1,)}, (1,), {}),
        ({0: (2, 1, 3)}, (1, 2, 3, 4), {}),
    ],
    ids=["leaders", "racks", "enough", "dead", "dead, enough", "all dead", "alone", "three"],
)
def test_lists_that_can_be_longer(
    before: dict[int, Brokers], brokers: Brokers, after: dict[int, Brokers]
) -> None:
    """Another rack first; preferred leaders in turn; a broker that is down gives way in a list that grows."""
    racks = {broker: RACKS[broker] for broker in brokers}

    found = more_replicas({slot(number): each for number, each in before.items()}, racks, 3)

    assert found == {slot(number): each for number, each in after.items()}


def test_a_request_to_delete_the_slots_is_dropped() -> None:
    """A tool of Kafka can write it at any time; no replica is stopped, and the slots are led."""
    world, controller = cluster({0: (1, 2, 3)})

    world.mark(OFFSETS_TOPIC)

    assert world.server.find(TopicDeletion.path(OFFSETS_TOPIC)) is None
    assert [each["detail"] for each in controller.notes("deletion.dropped")] == [
        "its partitions are the slots of group coordinators"
    ]
    assert not any(host.received(StopReplicaRequest) for host in world.hosts.values())
    assert all(host.metadata == {slot(0): 1} for host in world.hosts.values())


def test_a_request_to_delete_the_slots_that_a_new_controller_finds_is_dropped() -> None:
    """It elects leaders for them all the same."""
    world, controller = cluster({0: (1, 2, 3)})
    world.crash(controller)
    world.mark(OFFSETS_TOPIC, run=False)
    world.stop_broker(1, run=False)

    world.new_controller()

    assert world.server.find(TopicDeletion.path(OFFSETS_TOPIC)) is None
    assert world.state(slot(0)).leader == 2


def test_partitions_that_a_tool_adds_are_taken_off_again() -> None:
    """Groups find their slot by the number that was written once."""
    world, _ = cluster({0: (1, 2, 3)})

    world.grow(OFFSETS_TOPIC, {0: (1, 2, 3), 1: (1, 2, 3)})
    world.run()

    assert lists(world) == {0: (1, 2, 3)}
    assert world.server.find(PartitionState.path(slot(1))) is None
