"""Topics under an active controller, ISRs that leaders change, the status, and an epoch that is raised."""

from __future__ import annotations

import pytest

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers, loaded_cluster
from zkgroup.controller.machine.machine import ControllerMachine
from zkgroup.controller.machine.settings import ControllerAddress, ElectorConfig
from zkgroup.model.requests import Create, Delete, ReadMany, SetData
from zkgroup.testing.memory_zookeeper import ServerStep
from zkgroup.wire.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.controller import ControllerStatus
from zkgroup.znodes.notifications import IsrChange


def topic_of(world: SteppedControllers, name: str) -> Topic:
    return Topic.decode(Topic.path(name), world.find(Topic.path(name)).data)


def test_a_new_topic_gets_its_states_and_its_brokers_their_roles() -> None:
    """Every partition has a state, sent to its replicas, and all know who leads."""
    world = SteppedControllers()
    world.new_controller()
    world.make_topic("t", {0: (1, 2), 1: (3, 1)})
    world.run()

    assert world.state(tp(0)) == PartitionState(1, 0, (1, 2), 1)
    assert world.state(tp(1)) == PartitionState(3, 0, (3, 1), 1)
    for host in world.hosts.values():
        assert host.metadata == {tp(0): 1, tp(1): 3}
    assert {each for host in world.hosts.values() for each in host.logs} == {tp(0), tp(1)}


def test_a_state_that_is_there_already_fails_its_partition_alone() -> None:
    """It is left as it is; one of Kafka is then taken over by zkgroup (recipes 13)."""
    world = SteppedControllers()
    controller = world.new_controller()
    here = PartitionState(2, 5, (2,), 1)
    world.write(
        Create(Topic.path("t"), Topic({0: (1, 2), 1: (1, 2)}).encode()),
        Create(Topic.partitions_path("t"), None),
        Create(Topic.partition_path(tp(0)), None),
        Create(PartitionState.path(tp(0)), here.encode()),
    )
    world.run()

    assert world.state(tp(0)) == here
    assert world.state(tp(1)) == PartitionState(1, 0, (1, 2), 1)
    assert world.hosts[3].metadata == {tp(0): 2, tp(1): 1}
    assert controller.active.parts.events.blocked == {}


def test_a_state_that_appears_before_the_write_fails_its_partition_alone() -> None:
    """Between the reading and the write, by a Kafka controller that lost its znode."""
    world = SteppedControllers()
    controller = world.new_controller()
    world.make_topic("t", {0: (1, 2), 1: (1, 2), 2: (1, 2)})
    world.until_asked(controller, PartitionState.path(tp(0)))
    zombie = PartitionState(2, 0, (2, 1), 0)
    world.write(
        Create(Topic.partitions_path("t"), None),
        Create(Topic.partition_path(tp(1)), None),
        Create(PartitionState.path(tp(1)), zombie.encode()),
    )
    world.run()

    assert world.state(tp(1)) == zombie
    assert [world.state(tp(number)).leader for number in (0, 2)] == [1, 1]
    assert [each["partition"] for each in controller.notes("state.exists")] == ["t-1"]


def test_growth_leaves_the_old_partitions_as_they_are() -> None:
    """The new ones are made; for known ones the context wins (recipes 15)."""
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2)})
    world.new_controller()
    world.grow("t", {0: (3, 1), 1: (2, 3)})
    world.run()

    assert topic_of(world, "t").partitions == {0: (1, 2), 1: (2, 3)}
    assert world.state(tp(0)) == PartitionState(1, 0, (1, 2), 1)
    assert world.state(tp(1)) == PartitionState(2, 0, (2, 3), 1)


def test_partitions_that_a_tool_leaves_out_are_written_back() -> None:
    """controller.md 5.4: removal is not supported; what a tool does not know of a topic is kept."""
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2), 1: (2, 1)})
    path = Topic.path("t")
    znode = world.find(path)
    theirs = Topic({0: (1, 2), 1: (2, 1)}, 3, {}, {}, "A" * 22)
    world.write(SetData(path, theirs.encode(), znode.stat.version))
    world.new_controller()
    world.grow("t", {0: (1, 2), 2: (3, 1)})
    world.run()

    found = topic_of(world, "t")
    assert found.partitions == {0: (1, 2), 1: (2, 1), 2: (3, 1)}
    assert found.topic_id == "A" * 22
    assert world.state(tp(2)).leader == 3


def test_a_leader_on_no_replica_list_gives_way_to_the_last_one_on_it() -> None:
    """A tool wrote the lists of an old read while no controller was active: nothing has the right ones any
    more. Past bug: the leader stayed, in an ISR without it.
    """
    world = SteppedControllers()
    world.write(
        Create(Topic.path("t"), Topic({0: (3, 1)}).encode()),
        Create(Topic.partitions_path("t"), None),
        Create(Topic.partition_path(tp(0)), None),
        Create(PartitionState.path(tp(0)), PartitionState(2, 5, (2, 3), 0).encode()),
    )
    world.new_controller()
    world.stop_broker(3)
    assert (world.state(tp(0)).leader, world.state(tp(0)).isr) == (-1, (3,))
    world.start_broker(3)

    assert (world.state(tp(0)).leader, world.state(tp(0)).isr) == (3, (3,))


def test_a_key_that_cannot_be_written_again_is_named() -> None:
    """A 64-bit number would kill readers of 0.8.2.2: the lists stay as the tool wrote them."""
    world, controller = loaded_cluster({0: (1, 2)})
    path = Topic.path("t")
    data = b'{"version":1,"partitions":{"0":[2,1],"1":[3,1]},"big":99999999999}'
    world.write(SetData(path, data, world.find(path).stat.version))
    world.run()

    assert set(controller.active.context.unreadable) == {path}
    assert world.state(tp(1)) == PartitionState(3, 0, (3, 1), 1)


@pytest.mark.parametrize("before", [True, False], ids=["found at the take-over", "made under the rule"])
@pytest.mark.parametrize("replicas", ["[1,1]", "[2,3,2]", "[-1,2]"])
def test_replica_lists_that_no_state_can_be_made_of_pass_their_topic_over(
    replicas: str, before: bool
) -> None:
    """Written by hand: no controller ends over it, and the list can be repaired."""
    world = SteppedControllers()
    path, data = Topic.path("t"), f'{{"version":1,"partitions":{{"0":[1,2],"1":{replicas}}}}}'.encode()
    if before:
        world.write(Create(path, data))
    controller = world.new_controller()
    if not before:
        world.write(Create(path, data))
    world.make_topic("u", {0: (2, 1)})
    world.run()

    assert controller.notes("handler.failed") == []
    assert "different brokers from 0 on" in controller.active.context.unreadable[path]
    assert world.state(tp(0, "u")) == PartitionState(2, 0, (2, 1), 1)

    world.write(SetData(path, Topic({0: (1, 2), 1: (3, 2)}).encode(), world.find(path).stat.version))
    world.run()

    assert controller.active.context.unreadable == {}
    assert [world.state(tp(number)).leader for number in (0, 1)] == [1, 3]


def test_a_topic_that_others_have_removed_is_forgotten() -> None:
    """A znode that goes without a request to delete it."""
    world, controller = loaded_cluster({0: (1, 2)})
    state, parent, parents = (
        PartitionState.path(tp(0)),
        Topic.partition_path(tp(0)),
        Topic.partitions_path("t"),
    )
    world.write(*(Delete(path, -1) for path in (state, parent, parents, Topic.path("t"))))
    world.run()

    assert "t" not in controller.active.context.topics
    world.make_topic("u", {0: (1, 2)})
    world.run()
    assert world.state(tp(0, "u")).leader == 1


def test_a_controller_that_hosts_nothing_gives_way() -> None:
    """In the transaction of the first state, to the least loaded broker, or it is left out (recipes 14)."""
    world = SteppedControllers((1, 2))
    config = ElectorConfig(broker=50, controller_only=ControllerAddress("h", 9050))
    controller = ControllerNode(world, "alone", ControllerMachine(config, world.settings))
    world.nodes.append(controller)
    world.run()
    world.make_topic("a", {0: (1,)})
    world.run()
    before = len(world.server.log)
    world.make_topic("t", {0: (50,), 1: (1, 50, 2)})
    world.run()

    assert topic_of(world, "t").partitions == {0: (2,), 1: (1, 2)}
    assert world.state(tp(0)) == PartitionState(2, 0, (2,), 1)
    assert world.state(tp(1)) == PartitionState(1, 0, (1, 2), 1)
    writes = [each for each in world.server.log[before:] if "state" in str(each.changes)]
    assert len(writes) == 1
    assert Topic.path("t") in str(writes[0].changes)


def test_a_changed_isr_is_sent_to_all_and_its_notification_deleted() -> None:
    """Also one that no one can read."""
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2), 1: (2, 3)})
    world.new_controller()
    for host in world.hosts.values():
        host.requests.clear()
    world.set_state(tp(0), isr=(1,))
    world.write(
        Create(IsrChange.prefix(), b"?", sequential=True),
        Create(IsrChange.prefix(), IsrChange((tp(0), tp(9, "none"))).encode(), sequential=True),
    )
    world.run()

    for host in world.hosts.values():
        (received,) = host.requests
        assert isinstance(received, UpdateMetadataRequest)
        assert [(info.topic, info.isr) for info in received.partitions] == [("t", (1,))]
    assert world.below("/isr_change_notification") == {"/isr_change_notification"}


def test_the_status_says_how_far_it_is_and_what_stands_in_the_way() -> None:
    """At most every 5 s, only on change; unreadable znodes by path, and who waits for what (recipes 18)."""
    world = SteppedControllers((1,))
    world.make_topic("t", {0: (2,)})
    world.make_topic("u", {0: (1,)})
    controller = world.new_controller()
    world.write(SetData(Topic.path("u"), b"{", 0))
    world.advance(5000)

    def status() -> ControllerStatus:
        return ControllerStatus.decode("s", world.find(ControllerStatus.path()).data)

    shown = status()
    assert (shown.broker, shown.epoch) == (controller.broker, 1)
    assert set(shown.unreadable) == {Topic.path("u")}
    assert shown.waiting == {"leader of t-0": "no replica of 2 is live"}
    assert world.find(ControllerStatus.path()).stat.ephemeral_owner == controller.session_id
    version = world.find(ControllerStatus.path()).stat.version
    world.advance(20_000)
    assert world.find(ControllerStatus.path()).stat.version == version
    world.start_broker(2, run=False)
    world.start_broker(3, run=False)
    world.advance(5000)
    assert status().waiting == {}
    assert status().zxid > shown.zxid
    assert world.find(ControllerStatus.path()).stat.version - version <= 2


def test_the_status_of_a_former_controller_is_replaced() -> None:
    """It is of the session that made it, which may outlive the controller."""
    world = SteppedControllers((1,))
    first = world.new_controller()
    world.bump()
    world.run()
    second = world.new_controller()
    world.advance(6000)

    (controller,) = [each for each in (first, second) if each.is_active]
    found = world.find(ControllerStatus.path())
    assert ControllerStatus.decode("s", found.data).epoch == 3
    assert found.stat.ephemeral_owner == controller.session_id


def test_a_status_is_read_as_it_was_written_and_stays_small() -> None:
    """However much has gone wrong: a hundred entries of a kind, and how many are left off."""
    names = {f"/brokers/topics/{number}": "x" * 1000 for number in range(1000)}
    status = ControllerStatus(1, 2, 3, 4, names, {7: ("t-0", "t-1")}, {"leader of t-0": "nobody"})
    found = ControllerStatus.decode("s", status.encode())

    assert len(found.unreadable) == 100
    assert found.left_off == 900
    assert (found.omitted_partitions, found.waiting) == ({7: ("t-0", "t-1")}, {"leader of t-0": "nobody"})
    assert len(status.encode()) < 100_000


def test_a_deletion_that_was_sent_twice_is_over_only_in_a_new_epoch() -> None:
    """The first copy may still arrive; a broker that knows a higher epoch obeys it no more (recipes 17)."""
    world, controller = loaded_cluster({0: (1, 2)})
    active = controller.active
    world.hosts[3].silent = True
    batch = active.parts.requests.batch()
    batch.stop_replica([3], tp(0), delete=True)
    active.parts.requests.send(batch)
    controller.ask_shutdown(1, 99)
    world.run()
    assert active.parts.pending_deletes.all_deleting() == {tp(0): {3}}
    world.run()
    controller.lose_connection(3)
    world.run()
    world.hosts[3].silent = False
    controller.answer_all()
    world.run()

    assert controller.is_active
    assert world.epoch() == (2, 2)
    record = world.record(2)
    assert (record.broker, record.until_ms) == (controller.broker, None)
    first = world.record(1)
    assert first.until_ms is not None
    kinds = [(type(each), each.controller_epoch) for each in world.hosts[3].requests]
    assert kinds[-2:] == [(StopReplicaRequest, 1), (UpdateMetadataRequest, 2)]
    assert active.parts.pending_deletes.all_deleting() == {}
    world.make_topic("u", {0: (1, 2)})
    world.run()
    assert world.state(tp(0, "u")) == PartitionState(1, 0, (1, 2), 2)


def test_a_deletion_that_a_new_role_overtakes_is_held_no_longer() -> None:
    """It waits in the queue, and a LeaderAndIsr for the pair is queued; no response to it will come (K28)."""
    world, controller = loaded_cluster({0: (1, 2)})
    active = controller.active
    world.hosts[2].silent = True
    for delete in (False, True):
        batch = active.parts.requests.batch()
        batch.stop_replica([2], tp(0), delete=delete)
        active.parts.requests.send(batch)
    controller.ask_shutdown(1, 99)
    world.run()
    assert active.parts.pending_deletes.all_deleting() == {tp(0): {2}}
    active.parts.pending_deletes.delete_answered(2, [tp(0)])
    batch = active.parts.requests.batch()
    batch.leader_and_isr([2], tp(0))
    active.parts.requests.send(batch)
    world.hosts[2].silent = False
    controller.answer_all()
    world.run()

    deletions = [
        each for each in world.hosts[2].requests if isinstance(each, StopReplicaRequest) and each.delete
    ]
    assert deletions == []
    assert isinstance(world.hosts[2].requests[-2], LeaderAndIsrRequest)


def test_a_partition_that_was_seen_and_not_begun_gets_its_state_all_the_same() -> None:
    """After a missing answer all is read again: of a partition that is known by then, and has no state,
    nothing has changed."""
    world = SteppedControllers()
    controller = world.new_controller()
    world.make_topic("t", {0: (1, 2)})
    world.run()
    world.server.cut(controller.name)
    world.grow("t", {1: (2, 3)})
    path = PartitionState.path(tp(1))

    def reads_states() -> bool:
        flight = controller.client.requests[0].request if controller.client.requests else None
        return isinstance(flight, ReadMany) and path in flight.paths

    world.run(reads_states)
    assert reads_states()
    assert tp(1) in controller.active.context
    world.deliver(ServerStep("request", controller.name), "lost_request")
    world.advance(2_000)

    assert world.state(tp(1)) == PartitionState(2, 0, (2, 3), 1)
