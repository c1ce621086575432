"""Topics that were made without brokers, under an active controller: left alone until brokers are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers, is_gone, rounds
from zkgroup.controller.machine.context import Brokers
from zkgroup.controller.machine.deletion import decision
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, ReadMany, SetData
from zkgroup.znodes.admin_requests import (
    Move,
    PreferredElection,
    Reassignment,
    UncleanElection,
    UncleanElectionDone,
)
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.reassignment_records import FinishedReassignment, finished_reassignments_path
from zkgroup.znodes.stray_replicas import UnhostedTopic, unhosted_topics_path
from zkgroup.zookeeper.settings import Acl

TWO: Mapping[int, Brokers] = {0: (0,), 1: (0,)}
MARK = UnhostedTopic.path("t")
Maker = Callable[[SteppedControllers], None]


def make(world: SteppedControllers, name: str = "t") -> None:
    """As `topic create` does where no broker is registered: topic, configuration and mark together."""
    for path in ("/zkgroup", unhosted_topics_path(), "/admin"):
        if path not in world.server.tree():
            world.write(Create(path, None))
    world.write(
        Create(TopicConfig.path(name), TopicConfig({}).encode()),
        Create(Topic.path(name), Topic(TWO).encode()),
        Create(UnhostedTopic.path(name), UnhostedTopic().encode()),
    )


def make_old(world: SteppedControllers, name: str = "t") -> None:
    """The same by a tool that knew no marks."""
    world.make_topic(name, TWO)


def alter(world: SteppedControllers, lists: Mapping[int, Brokers]) -> None:
    """As `topic alter --replica-assignment` does."""
    operations = [SetData(Topic.path("t"), Topic(lists).encode(), world.find(Topic.path("t")).stat.version)]
    gone = [Delete(MARK, 0)] if MARK in world.server.tree() else []
    world.write(*operations, *gone)


def ask(world: SteppedControllers, targets: Mapping[TopicPartition, Brokers]) -> None:
    """A request to move partitions, as every tool writes it."""
    moves = tuple(Move(each, target) for each, target in targets.items())
    if "/admin" not in world.server.tree():
        world.write(Create("/admin", None))
    world.write(Create(Reassignment.path(), Reassignment(moves).encode()))


def admit(world: SteppedControllers, path: str, permissions: str) -> None:
    """Every client may do these things with a znode, and no others."""
    world.server.set_acl(path, Acl(permissions, "world", "anyone"))


def states(world: SteppedControllers, topic: str = "t") -> dict[int, Brokers]:
    """Partition to the ISR of its state, of those that have one."""
    paths = {number: PartitionState.path(TopicPartition(topic, number)) for number in range(4)}
    tree = world.server.tree()
    return {
        number: PartitionState.decode(path, tree[path].data).isr
        for number, path in paths.items()
        if path in tree
    }


def lists(world: SteppedControllers) -> Mapping[int, Brokers]:
    return Topic.decode(Topic.path("t"), world.find(Topic.path("t")).data).partitions


def is_left_alone(world: SteppedControllers, controller: ControllerNode, topic: str = "t") -> bool:
    """No state, nothing sent of it, nothing said of it in the status, nothing counted as offline."""
    received = [each for host in world.hosts.values() for each in (*host.logs, *host.metadata)]
    figures = controller.machine.figures()
    assert figures is not None
    return (
        not states(world, topic)
        and all(each.topic != topic for each in received)
        and not any(topic in what for what in controller.active.parts.events.blocked)
        and figures.offline_partitions == 0
    )


@pytest.mark.parametrize("how", [make, make_old])
def test_it_is_unhosted_and_not_reported(how: Maker) -> None:
    """Beside brokers 1 to 3, with a mark and in a tree that knew none, at a take-over and while one is
    active.

    Broker 0, which all lists name, comes, goes and comes back, and adopts nothing.
    """
    world = SteppedControllers()
    how(world)
    controller = world.new_controller()
    assert is_left_alone(world, controller)

    world.start_broker(0)
    world.stop_broker(0)
    world.start_broker(0)
    assert is_left_alone(world, controller)
    world.crash(controller)
    assert is_left_alone(world, world.new_controller())


def test_one_that_is_made_while_a_controller_is_active_is_left_alone() -> None:
    """No broker that can hold replicas is registered when it is made; broker 0 comes after it."""
    world = SteppedControllers(())
    controller = world.new_controller()
    make(world)
    world.run()
    world.start_broker(0)

    assert is_left_alone(world, controller)
    world.server.cut(controller.name, executed=0)
    world.run()
    assert is_left_alone(world, controller)


def test_a_topic_that_is_given_to_broker_0_is_hosted_by_it() -> None:
    """It has the same lists and no mark: made beside a living broker 0, or for one that is to come."""
    world = SteppedControllers((0, 1))
    world.make_topic("t", TWO)
    controller = world.new_controller()
    assert states(world) == {0: (0,), 1: (0,)}

    world.stop_broker(0)
    world.make_topic("u", TWO)
    world.run()
    assert {what for what in controller.active.parts.events.blocked if "u-" in what} == {
        "leader of u-0",
        "leader of u-1",
    }
    world.start_broker(0)
    assert states(world, "u") == {0: (0,), 1: (0,)}


def test_the_first_controller_of_a_tree_lets_a_topic_be_born_that_waits_for_it() -> None:
    """The tree knew no marks, but broker 0 was there before the topic: another client has given it to that
    one."""
    world = SteppedControllers(())
    world.start_broker(0, run=False)
    world.make_topic("t", TWO)
    world.new_controller()

    assert states(world) == {0: (0,), 1: (0,)}


def test_a_mark_that_an_acl_hides_counts() -> None:
    """What it may say is kept to: beside broker 0 the topic is left alone, and the status names the path."""
    world = SteppedControllers((0, 1))
    make(world)
    admit(world, MARK, "cdwa")
    controller = world.new_controller()

    assert not states(world)
    assert set(controller.active.context.unreadable) == {MARK}


def test_a_mark_of_an_earlier_topic_says_nothing() -> None:
    """It is older than the topic: a controller of Kafka has deleted the former one and left it."""
    world = SteppedControllers((0, 1))
    make(world, "t")
    for path in (Topic.path("t"), TopicConfig.path("t")):
        world.delete(path)
    world.make_topic("t", TWO)
    world.new_controller()

    assert states(world) == {0: (0,), 1: (0,)}


def test_a_topic_that_a_broker_hosts_all_the_same_is_no_more_left_alone() -> None:
    """A controller of Kafka reads no marks: broker 0 was there, and states are found."""
    world = SteppedControllers((0, 1))
    make(world)
    world.write(
        Create(Topic.partitions_path("t"), None),
        Create(Topic.partition_path(tp(0)), None),
        Create(PartitionState.path(tp(0)), PartitionState(0, 0, (0,), 1).encode()),
    )
    world.new_controller()

    assert states(world) == {0: (0,), 1: (0,)}
    assert world.hosts[0].logs == {tp(0), tp(1)}


def test_it_takes_no_part_in_elections_and_does_not_tip_the_balance() -> None:
    """A request for preferred leaders goes, an unclean one says why; the partitions of others count alone."""
    world = SteppedControllers((0, 1), auto_rebalance=True, rebalance_first_ms=1_000, rebalance_percentage=40)
    make(world)
    world.make_topic("u", {0: (0, 1)})
    world.crash(world.new_controller())
    world.set_state(tp(0, "u"), leader=1, leader_epoch=1)
    controller = world.new_controller()
    world.write(Create(PreferredElection.path(), PreferredElection((tp(0), tp(1))).encode()))
    world.write(Create(UncleanElection.path(), UncleanElection((tp(0),), 0, "me").encode()))
    czxid = world.find(UncleanElection.path()).stat.czxid
    world.run()

    assert PreferredElection.path() not in world.server.tree()
    done = UncleanElectionDone.decode("", world.find(UncleanElectionDone.path(czxid)).data)
    assert [(each.verdict, each.reason) for each in done.partitions] == [
        ("refused", "no broker hosts its topic")
    ]
    world.advance(2_000)
    assert world.state(tp(0, "u")).leader == 0  # one of one is led elsewhere, not one of three
    assert is_left_alone(world, controller)


@pytest.mark.parametrize("how", [make, make_old])
def test_its_deletion_waits_for_no_broker(how: Maker) -> None:
    """Broker 0 is not there and never was: all goes at once, the mark with the topic."""
    world = SteppedControllers()
    how(world)
    world.new_controller()
    world.mark("t")

    assert is_gone(world)
    assert MARK not in world.server.tree()


def test_a_deletion_drops_a_move_that_would_give_it_brokers() -> None:
    """Both are asked for before a controller is active: the topic goes, and no request stays."""
    world = SteppedControllers()
    make(world)
    ask(world, {tp(0): (0,), tp(1): (1,)})
    world.mark("t", run=False)
    world.new_controller()

    assert is_gone(world)
    assert Reassignment.path() not in world.server.tree()


def crashed_in_a_deletion(writes: int) -> bool:
    """Its controller is gone after so many writes of a deletion; whether it had that many."""
    world = SteppedControllers()
    make(world)
    controller = world.new_controller()
    world.mark("t", run=False)
    was_there = world.run_until_written(controller, writes)
    world.crash(controller)
    world.new_controller()
    assert is_gone(world)
    assert MARK not in world.server.tree()
    return was_there


def test_a_crash_in_a_deletion_leaves_no_mark() -> None:
    """After each write in turn; there is one that matters."""
    assert rounds(crashed_in_a_deletion) >= 1


@pytest.mark.parametrize("how", [make, make_old])
def test_a_reassignment_gives_it_brokers(how: Maker) -> None:
    """The mark goes and the lists come in one fenced write; those named host it, and the move is done."""
    world = SteppedControllers()
    how(world)
    controller = world.new_controller()
    ask(world, {tp(0): (1, 2), tp(1): (3,)})
    world.run()

    assert (states(world), lists(world)) == ({0: (1, 2), 1: (3,)}, {0: (1, 2), 1: (3,)})
    assert not {MARK, Reassignment.path()} & world.server.tree().keys()
    assert world.hosts[1].logs == {tp(0)}
    assert controller.active.parts.events.blocked == {}
    records = sorted(world.below(finished_reassignments_path()) - {finished_reassignments_path()})
    ends = [FinishedReassignment.decode(path, world.find(path).data) for path in records]
    assert [(each.before, each.target, each.outcome) for each in ends] == [
        ((0,), (1, 2), "done"),
        ((0,), (3,), "done"),
    ]
    write = next(
        each
        for each in world.server.log
        if any(op.path == Topic.path("t") for op in each.operations if isinstance(op, SetData))
    )
    assert [op.path for op in write.operations][:2] == ["/controller", "/controller_epoch"]


@pytest.mark.parametrize("how", [make, make_old])
def test_broker_0_may_be_named(how: Maker) -> None:
    """The lists stay as they were; what is not named is its own as well."""
    world = SteppedControllers()
    how(world)
    controller = world.new_controller()
    world.start_broker(0)
    ask(world, {tp(0): (0,)})
    world.run()
    assert states(world) == {0: (0,), 1: (0,)}

    world.crash(controller)
    world.stop_broker(0)
    world.new_controller()
    world.start_broker(0)
    assert world.state(tp(1)).leader == 0


@pytest.mark.parametrize("how", [make, make_old])
@pytest.mark.parametrize("named", [{0: (1, 2), 1: (3,)}, {0: (0,), 1: (0,)}, {0: (1,), 1: (2,), 2: (3,)}])
def test_topic_alter_gives_it_brokers(how: Maker, named: Mapping[int, Brokers]) -> None:
    """The lists are taken as they are found, not put back; more partitions may come with them."""
    world = SteppedControllers()
    how(world)
    controller = world.new_controller()
    world.start_broker(0)
    alter(world, named)
    world.run()

    assert (states(world), lists(world)) == (named, named)
    assert controller.active.parts.events.blocked == {}


def test_topic_alter_between_the_readings_of_a_controller_is_not_undone() -> None:
    """The topic is read without brokers, the mark after it has gone: the lists are read once more."""
    world = SteppedControllers()
    controller = world.new_controller()
    make(world)

    def is_next() -> bool:
        flights = [each.request for each in controller.client.requests]
        return any(isinstance(each, ReadMany) and MARK in each.paths for each in flights)

    world.run(is_next)
    assert is_next()
    alter(world, {0: (1,), 1: (2,)})
    world.run()

    assert (states(world), lists(world)) == ({0: (1,), 1: (2,)}, {0: (1,), 1: (2,)})


def test_topic_alter_while_the_connection_is_away_is_not_undone() -> None:
    """On the new connection all is read again, and lists of known topics are put back, but not these."""
    world = SteppedControllers()
    make(world)
    controller = world.new_controller()
    world.server.cut(controller.name, executed=0)
    alter(world, {0: (1,), 1: (2,)})
    world.run()

    assert (states(world), lists(world)) == ({0: (1,), 1: (2,)}, {0: (1,), 1: (2,)})


def crashed_in_a_reassignment(writes: int, how: Maker, named: Mapping[int, Brokers]) -> bool:
    """Its controller is gone after so many writes of what a request asks for; another one ends it."""
    world = SteppedControllers()
    how(world)
    controller = world.new_controller()
    world.start_broker(0)
    ask(world, {tp(number): target for number, target in named.items()})
    was_there = world.run_until_written(controller, writes)
    world.crash(controller)
    for host in world.hosts.values():
        host.epoch = max(host.epoch, 1)
    successor = world.new_controller()
    world.advance(5_000)

    assert states(world) == named
    assert not {MARK, Reassignment.path()} & world.server.tree().keys()
    assert successor.active.parts.events.blocked == {}
    return was_there


@pytest.mark.parametrize("how", [make, make_old])
@pytest.mark.parametrize("named", [{0: (1, 2), 1: (3,)}, {0: (0,), 1: (0,)}])
def test_a_crash_between_the_steps_of_a_reassignment(how: Maker, named: Mapping[int, Brokers]) -> None:
    """The mark, the states, the end: after each of the writes in turn."""
    assert rounds(crashed_in_a_reassignment, how, named) >= 3


def test_an_acl_that_keeps_the_topic_is_reported_until_it_lets_it() -> None:
    """The write of the brokers is refused: the move waits and says why, and is done once it may be."""
    world = SteppedControllers()
    make(world)
    controller = world.new_controller()
    admit(world, Topic.path("t"), "r")
    ask(world, {tp(0): (1,), tp(1): (2,)})
    world.run()
    assert controller.active.parts.events.blocked["move of t-0"] == f"{Topic.path('t')}: refused with NoAuth"
    assert MARK in world.server.tree()

    admit(world, Topic.path("t"), "cdrwa")
    world.advance(60_000)
    assert (states(world), controller.active.parts.events.blocked) == ({0: (1,), 1: (2,)}, {})


def test_a_request_that_is_taken_away_gives_no_brokers() -> None:
    """Before its write: that checks the request, so the topic stays as it was."""
    world = SteppedControllers()
    make(world)
    controller = world.new_controller()
    ask(world, {tp(0): (1,)})
    world.until_asked(controller, Topic.path("t"))
    world.delete(Reassignment.path())
    world.run()
    world.advance(5_000)

    assert lists(world) == TWO
    assert MARK in world.server.tree()
    assert is_left_alone(world, controller)


def test_the_mark_goes_in_the_write_that_takes_the_topic_away() -> None:
    """Of one with so much below it that this goes first: without its mark broker 0 would adopt the rest."""
    below = {Topic.partition_path(tp(number)): 0 for number in range(4)}
    found = {Topic.path("t"): 0, MARK: 0, **below}
    writes = decision.remove_topic("t", range(4), found, bytes_max=200)

    assert len(writes) > 1
    assert {operation.path for operation in writes[-1].operations} >= {Topic.path("t"), MARK}


def test_it_is_no_load_of_broker_0() -> None:
    """Nor sent to it, nor moved away from it when it stops."""
    world = SteppedControllers((0, 1))
    make(world)
    world.make_topic("u", {0: (0,)})
    controller = world.new_controller()

    assert list(controller.active.context.on_broker(0)) == [tp(0, "u")]


def test_a_request_that_loses_to_topic_alter_is_carried_out_on_its_lists() -> None:
    """The write of the brokers is refused, as the topic has changed: the move begins where it is then."""
    world = SteppedControllers()
    make(world)
    controller = world.new_controller()
    ask(world, {tp(0): (1,)})
    world.until_asked(controller, Topic.path("t"))
    alter(world, {0: (1, 2), 1: (3,)})
    world.run()
    world.advance(5_000)

    assert lists(world)[1] == (3,)
    assert MARK not in world.server.tree()
    assert 1 in states(world)[0]
    assert not any(what.startswith("leader") for what in controller.active.parts.events.blocked)
