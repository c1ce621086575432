"""Topics under a ruling controller, ISRs that leaders change, the status, and an epoch that is raised."""

from __future__ import annotations

import pytest

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers, ruled
from zkgroup.controller.machine.machine import ControllerMachine
from zkgroup.controller.machine.settings import ControllerOnly, ElectorConfig
from zkgroup.model.requests import Create, Delete, ReadMany, SetData
from zkgroup.testing.memory_zookeeper import Step
from zkgroup.wire.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.controller import ControllerStatus
from zkgroup.znodes.notifications import IsrChange


def topic_of(realm: SteppedControllers, name: str) -> Topic:
    return Topic.decode(Topic.path(name), realm.find(Topic.path(name)).data)


def test_a_new_topic_gets_its_states_and_its_brokers_their_roles() -> None:
    """Controller item 50: every partition has a state, told to its replicas, and all know who leads."""
    realm = SteppedControllers()
    realm.rule()
    realm.make_topic("t", {0: (1, 2), 1: (3, 1)})
    realm.run()

    assert realm.state(tp(0)) == PartitionState(1, 0, (1, 2), 1)
    assert realm.state(tp(1)) == PartitionState(3, 0, (3, 1), 1)
    for host in realm.hosts.values():
        assert host.metadata == {tp(0): 1, tp(1): 3}
    assert {each for host in realm.hosts.values() for each in host.logs} == {tp(0), tp(1)}


def test_a_state_that_is_there_already_fails_its_partition_alone() -> None:
    """Controller item 27: it is left as it is; a foreign one then becomes ours (recipes 13)."""
    realm = SteppedControllers()
    ruler = realm.rule()
    here = PartitionState(2, 5, (2,), 1)
    realm.write(
        Create(Topic.path("t"), Topic({0: (1, 2), 1: (1, 2)}).encode()),
        Create(Topic.partitions_path("t"), None),
        Create(Topic.partition_path(tp(0)), None),
        Create(PartitionState.path(tp(0)), here.encode()),
    )
    realm.run()

    assert realm.state(tp(0)) == here
    assert realm.state(tp(1)) == PartitionState(1, 0, (1, 2), 1)
    assert realm.hosts[3].metadata == {tp(0): 2, tp(1): 1}
    assert ruler.active.ports.events.blocked == {}


def test_a_state_that_appears_before_the_write_fails_its_partition_alone() -> None:
    """Controller item 27: between the reading and the write, by a real controller that lost its znode."""
    realm = SteppedControllers()
    ruler = realm.rule()
    realm.make_topic("t", {0: (1, 2), 1: (1, 2), 2: (1, 2)})
    realm.until_asked(ruler, PartitionState.path(tp(0)))
    zombie = PartitionState(2, 0, (2, 1), 0)
    realm.write(
        Create(Topic.partitions_path("t"), None),
        Create(Topic.partition_path(tp(1)), None),
        Create(PartitionState.path(tp(1)), zombie.encode()),
    )
    realm.run()

    assert realm.state(tp(1)) == zombie
    assert [realm.state(tp(number)).leader for number in (0, 2)] == [1, 1]
    assert [each["partition"] for each in ruler.notes("state.exists")] == ["t-1"]


def test_growth_leaves_the_old_partitions_as_they_are() -> None:
    """Controller item 52: the new ones are made; for known ones the picture wins (recipes 15)."""
    realm = SteppedControllers()
    realm.make_topic("t", {0: (1, 2)})
    realm.rule()
    realm.grow("t", {0: (3, 1), 1: (2, 3)})
    realm.run()

    assert topic_of(realm, "t").partitions == {0: (1, 2), 1: (2, 3)}
    assert realm.state(tp(0)) == PartitionState(1, 0, (1, 2), 1)
    assert realm.state(tp(1)) == PartitionState(2, 0, (2, 3), 1)


def test_partitions_that_a_tool_leaves_out_are_written_back() -> None:
    """controller.md 5.4: removal is not supported; what a tool does not know of a topic is kept."""
    realm = SteppedControllers()
    realm.make_topic("t", {0: (1, 2), 1: (2, 1)})
    path = Topic.path("t")
    znode = realm.find(path)
    theirs = Topic({0: (1, 2), 1: (2, 1)}, 3, {}, {}, "A" * 22)
    realm.write(SetData(path, theirs.encode(), znode.stat.version))
    realm.rule()
    realm.grow("t", {0: (1, 2), 2: (3, 1)})
    realm.run()

    found = topic_of(realm, "t")
    assert found.partitions == {0: (1, 2), 1: (2, 1), 2: (3, 1)}
    assert found.topic_id == "A" * 22
    assert realm.state(tp(2)).leader == 3


def test_a_key_that_cannot_be_written_again_is_named() -> None:
    """A 64-bit number would kill readers of 0.8.2.2: the lists stay as the tool wrote them."""
    realm, ruler = ruled({0: (1, 2)})
    path = Topic.path("t")
    data = b'{"version":1,"partitions":{"0":[2,1],"1":[3,1]},"big":99999999999}'
    realm.write(SetData(path, data, realm.find(path).stat.version))
    realm.run()

    assert set(ruler.active.context.unreadable) == {path}
    assert realm.state(tp(1)) == PartitionState(3, 0, (3, 1), 1)


@pytest.mark.parametrize("before", [True, False], ids=["found at the take-over", "made under the rule"])
@pytest.mark.parametrize("replicas", ["[1,1]", "[2,3,2]", "[-1,2]"])
def test_replica_lists_that_no_state_can_be_made_of_pass_their_topic_over(
    replicas: str, before: bool
) -> None:
    """Written by hand: no controller ends over it, and the list can be mended."""
    realm = SteppedControllers()
    path, data = Topic.path("t"), f'{{"version":1,"partitions":{{"0":[1,2],"1":{replicas}}}}}'.encode()
    if before:
        realm.write(Create(path, data))
    ruler = realm.rule()
    if not before:
        realm.write(Create(path, data))
    realm.make_topic("u", {0: (2, 1)})
    realm.run()

    assert ruler.notes("handler.failed") == []
    assert "different brokers from 0 on" in ruler.active.context.unreadable[path]
    assert realm.state(tp(0, "u")) == PartitionState(2, 0, (2, 1), 1)

    realm.write(SetData(path, Topic({0: (1, 2), 1: (3, 2)}).encode(), realm.find(path).stat.version))
    realm.run()

    assert ruler.active.context.unreadable == {}
    assert [realm.state(tp(number)).leader for number in (0, 1)] == [1, 3]


def test_a_topic_that_others_have_removed_is_forgotten() -> None:
    """A znode that goes without a request to delete it."""
    realm, ruler = ruled({0: (1, 2)})
    state, parent, parents = (
        PartitionState.path(tp(0)),
        Topic.partition_path(tp(0)),
        Topic.partitions_path("t"),
    )
    realm.write(*(Delete(path, -1) for path in (state, parent, parents, Topic.path("t"))))
    realm.run()

    assert "t" not in ruler.active.context.topics
    realm.make_topic("u", {0: (1, 2)})
    realm.run()
    assert realm.state(tp(0, "u")).leader == 1


def test_a_controller_that_hosts_nothing_gives_way() -> None:
    """recipes 14: in the transaction of the first state, to the least loaded broker, or it is left out."""
    realm = SteppedControllers((1, 2))
    config = ElectorConfig(broker=50, controller_only=ControllerOnly("h", 9050))
    ruler = ControllerNode(realm, "alone", ControllerMachine(config, realm.settings))
    realm.nodes.append(ruler)
    realm.run()
    realm.make_topic("a", {0: (1,)})
    realm.run()
    before = len(realm.server.log)
    realm.make_topic("t", {0: (50,), 1: (1, 50, 2)})
    realm.run()

    assert topic_of(realm, "t").partitions == {0: (2,), 1: (1, 2)}
    assert realm.state(tp(0)) == PartitionState(2, 0, (2,), 1)
    assert realm.state(tp(1)) == PartitionState(1, 0, (1, 2), 1)
    writes = [each for each in realm.server.log[before:] if "state" in str(each.changes)]
    assert len(writes) == 1
    assert Topic.path("t") in str(writes[0].changes)


# --- ISRs ------------------------------------------------------------------------------------------


def test_a_changed_isr_is_told_to_all_and_its_notification_deleted() -> None:
    """Controller item 63: also one that nobody can read."""
    realm = SteppedControllers()
    realm.make_topic("t", {0: (1, 2), 1: (2, 3)})
    realm.rule()
    for host in realm.hosts.values():
        host.requests.clear()
    realm.set_state(tp(0), isr=(1,))
    realm.write(
        Create(IsrChange.prefix(), b"?", sequential=True),
        Create(IsrChange.prefix(), IsrChange((tp(0), tp(9, "none"))).encode(), sequential=True),
    )
    realm.run()

    for host in realm.hosts.values():
        (told,) = host.requests
        assert isinstance(told, UpdateMetadataRequest)
        assert [(info.topic, info.isr) for info in told.partitions] == [("t", (1,))]
    assert realm.below("/isr_change_notification") == {"/isr_change_notification"}


# --- the status -------------------------------------------------------------------------------------


def test_the_status_says_how_far_it_is_and_what_stands_in_the_way() -> None:
    """recipes 18: at most every 5 s, only on change; unreadable znodes by path, and who waits for what."""
    realm = SteppedControllers((1,))
    realm.make_topic("t", {0: (2,)})
    realm.make_topic("u", {0: (1,)})
    ruler = realm.rule()
    realm.write(SetData(Topic.path("u"), b"{", 0))
    realm.advance(5000)

    def status() -> ControllerStatus:
        return ControllerStatus.decode("s", realm.find(ControllerStatus.path()).data)

    shown = status()
    assert (shown.broker, shown.epoch) == (ruler.broker, 1)
    assert set(shown.unreadable) == {Topic.path("u")}
    assert shown.waiting == {"leader of t-0": "no replica of 2 is live"}
    assert realm.find(ControllerStatus.path()).stat.ephemeral_owner == ruler.session_id
    version = realm.find(ControllerStatus.path()).stat.version
    realm.advance(20_000)
    assert realm.find(ControllerStatus.path()).stat.version == version
    realm.start_broker(2, run=False)
    realm.start_broker(3, run=False)
    realm.advance(5000)
    assert status().waiting == {}
    assert status().zxid > shown.zxid
    assert realm.find(ControllerStatus.path()).stat.version - version <= 2


def test_the_status_of_a_former_controller_is_replaced() -> None:
    """It is of the session that made it, which may outlive the rule."""
    realm = SteppedControllers((1,))
    first = realm.rule()
    realm.bump()
    realm.run()
    second = realm.rule()
    realm.advance(6000)

    (ruler,) = [each for each in (first, second) if each.rules]
    found = realm.find(ControllerStatus.path())
    assert ControllerStatus.decode("s", found.data).epoch == 3
    assert found.stat.ephemeral_owner == ruler.session_id


def test_a_status_is_read_as_it_was_written_and_stays_small() -> None:
    """However much has gone wrong: a hundred entries of a kind, and how many are left off."""
    names = {f"/brokers/topics/{number}": "x" * 1000 for number in range(1000)}
    status = ControllerStatus(1, 2, 3, 4, names, {7: ("t-0", "t-1")}, {"leader of t-0": "nobody"})
    found = ControllerStatus.decode("s", status.encode())

    assert len(found.unreadable) == 100
    assert found.left_off == 900
    assert (found.unnamed, found.waiting) == ({7: ("t-0", "t-1")}, {"leader of t-0": "nobody"})
    assert len(status.encode()) < 100_000


# --- an epoch that is raised ------------------------------------------------------------------------


def test_a_deletion_that_was_sent_twice_is_over_only_in_a_new_epoch() -> None:
    """recipes 17: the first copy may still arrive; a broker that knows a higher epoch obeys it no more."""
    realm, ruler = ruled({0: (1, 2)})
    active = ruler.active
    realm.hosts[3].silent = True
    batch = active.ports.requests.batch()
    batch.stop_replica([3], tp(0), delete=True)
    active.ports.requests.send(batch)
    ruler.ask_shutdown(1, 99)
    realm.run()
    assert active.ports.pending_deletes.all_deleting() == {tp(0): {3}}
    realm.run()
    ruler.lose_connection(3)
    realm.run()
    realm.hosts[3].silent = False
    ruler.answer_all()
    realm.run()

    assert ruler.rules
    assert realm.epoch() == (2, 2)
    record = realm.record(2)
    assert (record.broker, record.until_ms) == (ruler.broker, None)
    first = realm.record(1)
    assert first.until_ms is not None
    kinds = [(type(each), each.controller_epoch) for each in realm.hosts[3].requests]
    assert kinds[-2:] == [(StopReplicaRequest, 1), (UpdateMetadataRequest, 2)]
    assert active.ports.pending_deletes.all_deleting() == {}
    realm.make_topic("u", {0: (1, 2)})
    realm.run()
    assert realm.state(tp(0, "u")) == PartitionState(1, 0, (1, 2), 2)


def test_a_deletion_that_a_new_role_overtakes_is_held_no_longer() -> None:
    """K28: it waits in the queue, and a LeaderAndIsr for the pair is queued; nobody will answer it."""
    realm, ruler = ruled({0: (1, 2)})
    active = ruler.active
    realm.hosts[2].silent = True
    for delete in (False, True):
        batch = active.ports.requests.batch()
        batch.stop_replica([2], tp(0), delete=delete)
        active.ports.requests.send(batch)
    ruler.ask_shutdown(1, 99)
    realm.run()
    assert active.ports.pending_deletes.all_deleting() == {tp(0): {2}}
    active.ports.pending_deletes.delete_answered(2, [tp(0)])
    batch = active.ports.requests.batch()
    batch.leader_and_isr([2], tp(0))
    active.ports.requests.send(batch)
    realm.hosts[2].silent = False
    ruler.answer_all()
    realm.run()

    deletions = [
        each for each in realm.hosts[2].requests if isinstance(each, StopReplicaRequest) and each.delete
    ]
    assert deletions == []
    assert isinstance(realm.hosts[2].requests[-2], LeaderAndIsrRequest)


def test_a_partition_that_was_seen_and_not_begun_gets_its_state_all_the_same() -> None:
    """After a missing answer all is read again: of a partition that is known by then, and has no state,
    nothing has changed."""
    realm = SteppedControllers()
    ruler = realm.rule()
    realm.make_topic("t", {0: (1, 2)})
    realm.run()
    realm.server.cut(ruler.name)
    realm.grow("t", {1: (2, 3)})
    path = PartitionState.path(tp(1))

    def reads_states() -> bool:
        flight = ruler.client.requests[0].request if ruler.client.requests else None
        return isinstance(flight, ReadMany) and path in flight.paths

    realm.run(reads_states)
    assert reads_states()
    assert tp(1) in ruler.active.context
    realm.deliver(Step("request", ruler.name), "lost_request")
    realm.advance(2_000)

    assert realm.state(tp(1)) == PartitionState(2, 0, (2, 3), 1)
