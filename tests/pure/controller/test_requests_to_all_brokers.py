"""Telling every broker all that it has at once says the same as naming each partition."""

from __future__ import annotations

import random

from tests.pure.controller.test_requests import batch, build, greeted, led
from tests.worlds.controller_clusters import broker, cluster, leadership, tp
from tests.worlds.stepped_controllers import SteppedControllers
from zkgroup.controller.machine.context import Brokers, ControllerContext
from zkgroup.controller.machine.pending_deletes import PendingDeletes
from zkgroup.controller.machine.requests.batch import RequestBatch
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import PartitionState, Topic

BROKERS = (1, 2, 3, 4)


def drawn(rng: random.Random) -> tuple[ControllerContext, PendingDeletes]:
    """A cluster in which everything can be under way but a move past step 7."""
    context, pending_deletes = ControllerContext(), PendingDeletes()
    context.set_brokers({id_: broker(id_) for id_ in BROKERS if rng.random() < 0.9})
    for name in "abcdef":
        lists = {number: drawn_list(rng) for number in rng.sample(range(6), rng.randrange(1, 5))}
        context.topic_seen(name, Topic(lists), 0)
        for number, replicas in lists.items():
            each = tp(number, name)
            if rng.random() < 0.8:
                context.state_seen(each, leadership(rng.choice((-1, *replicas)), replicas, rng.randrange(3)))
            elif rng.random() < 0.5:
                context.unreadable[PartitionState.path(each)] = "no JSON"
            if rng.random() < 0.05:
                context.moves.add(each)
            if rng.random() < 0.05:
                pending_deletes.delete_asked(each, drawn_list(rng))
        if rng.random() < 0.2:
            context.deletions.add(name)
    return context, pending_deletes


def drawn_list(rng: random.Random) -> Brokers:
    return tuple(rng.sample(BROKERS, rng.randrange(1, 4)))


def naming_each(context: ControllerContext) -> RequestBatch:
    """Every partition to every replica, one after the other."""
    one = batch()
    for each in context.partitions():
        if not context.is_going(each):
            one.leader_and_isr(context.replicas(each), each)
    one.update_metadata_of_all()
    return one


def all_at_once() -> RequestBatch:
    one = batch()
    one.leader_and_isr_of_all()
    one.update_metadata_of_all()
    return one


def test_all_at_once_is_each_by_itself() -> None:
    """The same requests, and the same that cannot be named; whichever broker has received something
    before."""
    for seed in range(200):
        _compare(seed)


def _compare(seed: int) -> None:
    context, pending_deletes = drawn(random.Random(seed))
    wanted = {
        (id_, each)
        for id_ in context.live_or_shutting_down
        for each in context.on_broker(id_)
        if PartitionState.path(each) in context.unreadable and not context.is_going(each)
    }

    first = build(all_at_once(), context, pending_deletes)
    again = build(all_at_once(), greeted(context), pending_deletes)
    singly = build(naming_each(context), context, pending_deletes)

    assert first.requests == again.requests == singly.requests, seed
    omitted = {(id_, each) for id_, partitions in first.omitted_partitions.items() for each in partitions}
    assert (omitted, again.omitted_partitions) == (wanted, {}), seed
    assert set(all_at_once().led(context)) == naming_each(context).named, seed


def test_a_broker_that_was_notified_of_a_partition_of_its_own_gets_it_beside_all() -> None:
    """Also where its topic is being deleted, and where another list than the context's is sent."""
    context = cluster({"t": {0: (1, 2), 1: (2, 1)}, "gone": {0: (1, 2), 1: (1, 2)}})
    context.deletions.add("gone")
    one = all_at_once()
    one.leader_and_isr([1], tp(0, "gone"))
    one.leader_and_isr([1], tp(1), (1, 3))

    built = build(one, context)

    assert list(led(built, 1)) == [tp(0, "gone"), tp(0), tp(1)]
    assert (led(built, 1)[tp(1)].replicas, led(built, 2)[tp(1)].replicas) == ((1, 3), (2, 1))
    assert list(led(built, 2)) == [tp(0), tp(1)]


def test_a_broker_with_some_partitions_of_a_topic_gets_those_alone() -> None:
    """As many as have a state, and not the same."""
    context = cluster({"t": {0: (1,), 1: (1, 2), 2: (2,)}})
    context.state_seen(tp(0), None)

    built = build(all_at_once(), context)

    assert (list(led(built, 1)), list(led(built, 2))) == ([tp(1)], [tp(1), tp(2)])


def test_a_broker_without_replicas_gets_no_first_request() -> None:
    """Its first LeaderAndIsr is still to come; a broker for which no state can be sent has had it."""
    context = cluster({"t": {0: (1,), 1: (2,)}, "gone": {0: (3,)}})
    context.deletions.add("gone")
    context.state_seen(tp(1), None)

    built = build(all_at_once(), context)

    assert context.first_request_sent == {1: 1, 2: 1}
    assert (list(led(built, 1)), led(built, 2), led(built, 3)) == ([tp(0)], {}, {})


def test_equal_states_are_one_and_their_versions_are_their_own() -> None:
    """Read in bulk, the bytes of a state are decoded once; the version is not in them."""
    world = SteppedControllers()
    world.make_topic("t", dict.fromkeys(range(3), (1, 2)))
    first = world.new_controller()
    world.set_state(tp(2), isr=(1,))
    world.set_state(tp(2), isr=(1, 2))
    world.crash(first)

    context = world.new_controller().machine.context

    assert context is not None
    found = [context.leadership(tp(number)) for number in range(3)]
    assert found == [leadership(1, (1, 2), version=0)] * 2 + [leadership(1, (1, 2), version=2)]
    assert found[0] is found[1]
    assert {info.zk_version for info in received(world, 1, tp(2))} == {2}


def received(world: SteppedControllers, broker_id: int, topic_partition: TopicPartition) -> list[object]:
    """What the last request that names partitions has said of one."""
    named = [each for each in world.hosts[broker_id].requests if getattr(each, "partitions", ())]
    return [info for info in named[-1].partitions if info.topic_partition == topic_partition]  # type: ignore[union-attr]
