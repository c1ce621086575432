"""Moves while others write, and while deletions of replicas are still on their way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from tests.pure.controller.reassignments import Cluster, ends, finished, loaded_cluster
from tests.pure.controller.replicas import WHOLE
from tests.worlds.controller_clusters import tp
from zkgroup.controller.machine.events import BrokerRequest, ChannelDown, ChannelUp
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete, SetData
from zkgroup.testing.memory_zookeeper import ServerStep
from zkgroup.testing.memory_zookeeper.tree import CreatedNode, DataSet
from zkgroup.wire.control import StopReplicaRequest
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.reassignment_records import FinishedReassignment

REQUEST = Reassignment.path()


def test_an_end_that_meets_a_changed_request_loses_no_entry() -> None:
    """The version of the request is a condition; both ends are written once."""
    cluster = loaded_cluster((1, 2, 3), {0: (1,), 1: (1,)})
    cluster.replicas.holds_back.add(3)
    node = cluster.controller
    cluster.request({tp(0): (2,), tp(1): (3,)})

    cluster.until_asked(
        node, lambda each: isinstance(each, SetData) and each.path == REQUEST and each.version > 0
    )
    cluster.change({tp(1): (1,)})
    finished(cluster)

    assert cluster.replicas.lists("t").partitions == {0: (2,), 1: (1,)}
    assert ends(cluster) == {0: ("done", "moved"), 1: ("cancelled", "asked for")}
    assert len(cluster.records) == 2


def test_an_end_is_decided_anew_once_another_write_has_met_a_changed_request() -> None:
    """A conflict reads the request again, and an end that was decided on the one before
    must not check the version of the new one."""
    cluster = loaded_cluster((1, 2, 3), {0: (1, 2), 1: (1,)})
    node = cluster.controller
    cluster.request({tp(0): (1, 2), tp(1): (3,)})

    cluster.until_asked(node, lambda each: isinstance(each, SetData) and each.path == Topic.path("t"))
    cluster.change({tp(0): (2,)})
    finished(cluster)

    assert cluster.replicas.lists("t").partitions == {0: (2,), 1: (3,)}
    assert ends(cluster) == {0: ("done", "moved"), 1: ("done", "moved")}
    assert len(cluster.records) == 2


def test_an_end_is_not_recorded_of_a_list_that_others_have_changed() -> None:
    """The list is the target already, so it is not written, and it is so when the end is (recipes 17)."""
    cluster = loaded_cluster((1, 2), {0: (1, 2)})
    node, path = cluster.controller, Topic.path("t")
    cluster.request({tp(0): (1, 2)})
    cluster.until_asked(node, lambda each: isinstance(each, Delete) and each.path == REQUEST)
    cluster.world.write(SetData(path, Topic({0: (2, 1)}).encode(), -1))
    finished(cluster)

    now, recorded = None, []
    for entry in cluster.world.server.log:
        for change in entry.changes:
            if isinstance(change, (CreatedNode, DataSet)) and change.path == path:
                now = Topic.decode(path, change.data).partitions[0]
            elif isinstance(change, CreatedNode) and change.path.startswith(FinishedReassignment.prefix()):
                recorded.append(now)
    assert recorded == [(1, 2)]


@pytest.mark.parametrize("beside", [{tp(1): (2,)}, {}], ids=["a state", "nothing"])
def test_a_list_written_without_an_answer_is_known_though_the_topic_has_grown_since(
    beside: dict[TopicPartition, tuple[int, ...]],
) -> None:
    """S16: the state beside it shows that it was written, or the list does; no older one is written."""
    cluster = loaded_cluster((1, 2, 3), {0: (1,), 1: (1, 2)})
    node, path = cluster.controller, Topic.path("t")
    cluster.request({tp(0): (3,), **beside})
    cluster.until_asked(node, lambda each: isinstance(each, SetData) and each.path == path)
    cluster.world.deliver(ServerStep("request", node.name), "lost_reply")
    found = cluster.world.find(path)
    lists = Topic.decode(path, found.data)
    assert lists.partitions[0] == (3, 1)
    grown = dataclasses.replace(lists, partitions={**lists.partitions, 2: (1,)})
    cluster.replicas.hosts[1].logs[tp(2)] = WHOLE
    cluster.world.write(SetData(path, grown.encode(), found.stat.version))
    finished(cluster)

    received = [
        Topic.decode(path, change.data).partitions[0]
        for entry in cluster.world.server.log
        for change in entry.changes
        if isinstance(change, (CreatedNode, DataSet)) and change.path == path
    ]
    assert list(dict.fromkeys(received)) == [(1,), (3, 1), (3,)]
    assert received == sorted(received, key=received.index)
    assert cluster.replicas.lists("t").partitions == {
        0: (3,),
        1: beside.get(tp(1), (1, 2)),
        2: (1,),
    }


def test_a_leader_that_drops_a_target_at_the_last_moment_is_waited_for() -> None:
    """What the record says is true when it is written (recipes 17)."""
    cluster = loaded_cluster((1, 2, 3), {0: (1,)})
    cluster.request({tp(0): (2, 3)})
    stopped = False

    def slow(what: str) -> None:
        nonlocal stopped
        state = cluster.replicas.state(tp(0))
        if not stopped and state is not None and state.isr == (2, 3) and 2 in cluster.replicas.hosts:
            copy = cluster.replicas.hosts[2].copies.get(tp(0))
            if copy is not None and copy.leader_epoch == state.leader_epoch and copy.leader == 2:
                stopped = True
                cluster.replicas.holds_back.add(3)
                assert cluster.replicas.drop(tp(0), 3)

    cluster.on_point = slow
    cluster.run(limit_ms=5_000)
    assert stopped
    assert cluster.records == []
    assert (
        cluster.active.parts.events.blocked["move of t-0"]
        == "waits for replicas to be in sync again: broker 3"
    )

    cluster.replicas.holds_back.clear()
    finished(cluster)
    state = cluster.replicas.state(tp(0))
    assert state is not None
    assert set(state.isr) == {2, 3}


def first_deletion(cluster: Cluster) -> Callable[[BrokerRequest], bool]:
    """Keeps the first StopReplica with deletion; what it is kept with the cluster."""

    def keeps(message: BrokerRequest) -> bool:
        request = message.request
        return not cluster.kept and isinstance(request, StopReplicaRequest) and request.delete

    return keeps


def test_a_deletion_that_was_sent_twice_costs_an_epoch_before_the_way_back() -> None:
    """An answer to the second copy says nothing of the first, which may still arrive (recipes 17)."""
    cluster = loaded_cluster((1, 2), {0: (1,)})
    node = cluster.controller
    cluster.request({tp(0): (2,)})
    cluster.keeps = first_deletion(cluster)
    epoch = cluster.world.epoch()[0]
    finished(cluster)
    ((_, late),) = cluster.kept
    node.loop.post(ChannelDown(1, late.incarnation))
    node.loop.post(ChannelUp(1, late.incarnation))
    cluster.run(limit_ms=2_000)
    assert cluster.world.epoch()[0] == epoch + 1
    assert cluster.controller is node

    cluster.request({tp(0): (1,)})
    finished(cluster)
    answer = cluster.replicas.obey(1, late.request)
    assert answer.error == 11
    cluster.replicas.judge()
    assert cluster.replicas.lists("t").partitions == {0: (1,)}


def test_a_replica_comes_back_only_after_its_deletion_is_answered() -> None:
    """The way back waits, and no LeaderAndIsr goes to the held replica meanwhile (recipes 17)."""
    cluster = loaded_cluster((1, 2), {0: (1,)})
    cluster.request({tp(0): (2,)})
    cluster.keeps = first_deletion(cluster)
    finished(cluster)
    cluster.request({tp(0): (1,)})
    cluster.run(limit_ms=3_000)
    assert cluster.active.parts.events.blocked["move of t-0"] == "waits for a deletion on broker 1"

    cluster.wires.extend(cluster.kept)
    finished(cluster)
    assert cluster.replicas.lists("t").partitions == {0: (1,)}


def test_a_list_that_the_former_controller_has_cut_is_made_whole_before_a_move_ends() -> None:
    """It sent the target alone (step 7) and died, then the request goes back (recipes 17)."""
    cluster = loaded_cluster((1, 2, 3), {0: (1, 2, 3)})
    cluster.request({tp(0): (1, 2)})
    cluster.run(lambda: cluster.replicas.hosts[1].copies[tp(0)].replicas == (1, 2))
    cluster.kill(cluster.controller)
    cluster.change({tp(0): (1, 2, 3)})
    cluster.elector()
    finished(cluster)
    assert cluster.replicas.hosts[1].copies[tp(0)].replicas == (1, 2, 3)

    assert cluster.replicas.drop(tp(0), 3)
    cluster.rest()
    state = cluster.replicas.state(tp(0))
    assert state is not None
    assert set(state.isr) == {1, 2, 3}


@pytest.mark.parametrize("version", [1, 4])
@pytest.mark.parametrize("is_dropped", [False, True], ids=["deleted", "dropped"])
def test_a_list_that_a_move_has_cut_is_made_whole_when_it_is_no_longer_requested(
    version: int, is_dropped: bool
) -> None:
    """Past step 7 the request is deleted by hand, or becomes one that cannot be carried out (recipes 17)."""
    cluster = loaded_cluster((1, 2, 3), {0: (1, 2, 3)}, version)
    cluster.request({tp(0): (1, 2)})
    cluster.run(lambda: cluster.replicas.hosts[1].copies[tp(0)].replicas == (1, 2))
    if is_dropped:
        empty = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[]}]}'
        cluster.world.write(SetData(REQUEST, empty, -1))
    else:
        cluster.world.write(Delete(REQUEST, -1))
    finished(cluster)
    cluster.run(limit_ms=2_000)
    whole = cluster.replicas.hosts[1].copies[tp(0)]
    assert (whole.replicas, whole.leader_epoch) == ((1, 2, 3), 2)

    assert cluster.replicas.drop(tp(0), 3)
    cluster.run(limit_ms=2_000)
    state = cluster.replicas.state(tp(0))
    assert state is not None
    assert set(state.isr) == {1, 2, 3}
    assert state.leader_epoch == 2


def test_a_list_that_was_cut_is_made_whole_where_the_next_controller_finds_nothing_to_do() -> None:
    """The request becomes one that is dropped, and who has cut the list dies before (recipes 17)."""
    cluster = loaded_cluster((1, 2, 3), {0: (1, 2, 3)})
    cluster.request({tp(0): (1, 2)})
    cluster.run(lambda: cluster.replicas.hosts[1].copies[tp(0)].replicas == (1, 2))
    cluster.kill(cluster.controller)
    twice = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}'
    cluster.world.write(SetData(REQUEST, twice, -1))
    cluster.elector()
    cluster.run(limit_ms=20_000)

    assert ends(cluster)[0][0] == "dropped"
    assert cluster.replicas.hosts[1].copies[tp(0)].replicas == (1, 2, 3)


def test_a_list_is_made_whole_once_the_deletion_of_a_replica_is_answered() -> None:
    """Taken back past step 9, the replica that is being deleted receives nothing until then (recipes 17)."""
    cluster = loaded_cluster((1, 2), {0: (1, 2)})
    cluster.keeps = first_deletion(cluster)
    cluster.request({tp(0): (1,)})
    cluster.run(lambda: cluster.kept)
    cluster.world.write(Delete(REQUEST, -1))
    cluster.run(limit_ms=2_000)
    state = cluster.replicas.state(tp(0))
    assert state is not None
    assert (state.isr, state.leader_epoch) == ((1,), 2)

    cluster.wires.extend(cluster.kept)
    cluster.run(limit_ms=2_000)
    assert cluster.replicas.lists("t").partitions == {0: (1, 2)}
    back = cluster.replicas.state(tp(0))
    assert back is not None
    assert (set(back.isr), back.leader_epoch) == ({1, 2}, 3)


def test_a_move_found_at_a_take_over_is_announced_once() -> None:
    """Steps 2, 7 and 8 cost a leader epoch each, and nothing else does."""
    cluster = loaded_cluster((1, 2, 3), {0: (1, 2)})
    cluster.replicas.holds_back.add(3)
    cluster.request({tp(0): (3, 2)})
    cluster.run(limit_ms=2_000)
    cluster.kill(cluster.controller)
    before = cluster.replicas.state(tp(0))
    cluster.elector()
    cluster.run(limit_ms=20_000)
    found = cluster.replicas.state(tp(0))
    assert before is not None
    assert found is not None
    assert (before.leader_epoch, found.leader_epoch) == (1, 2)

    cluster.replicas.holds_back.clear()
    finished(cluster)
    after = cluster.replicas.state(tp(0))
    assert after is not None
    assert after.leader_epoch == 4
