"""Moves carried out by a whole controller: what it writes and sends, and what it makes of everything odd."""

from __future__ import annotations

import pytest

from tests.pure.controller.reassignments import Cluster, ends, finished, loaded_cluster
from tests.pure.controller.replicas import Brokers
from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_electors import ElectorNode, resigned
from zkgroup.controller.machine.reassignment import rounds
from zkgroup.errors import ConfigError
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.runtime.events import LogEvent
from zkgroup.wire.control import LeaderAndIsrRequest
from zkgroup.znodes.admin_requests import Reassignment, TopicDeletion
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.reassignment_records import FINISHED_KEPT, FinishedReassignment

REQUEST = Reassignment.path()
Stood = tuple[Brokers, int, Brokers, int]


def packets(node: ElectorNode, cluster: Cluster) -> int:
    """Transactions of the node about partitions that the server has executed."""
    return sum(1 for what in cluster.said if what.startswith(f"{node.name} wrote"))


def test_the_steps_of_the_table_in_their_order() -> None:
    """The list is the target and the rest; states and lists as 4.4 has them."""
    cluster = loaded_cluster((1, 2, 3, 4, 5, 6), {0: (1, 2, 3)})
    seen: list[Stood] = []

    def look(what: str) -> None:
        state = cluster.replicas.state(tp(0))
        assert state is not None
        now = (cluster.replicas.lists("t").partitions[0], state.leader, state.isr, state.leader_epoch)
        if not seen or seen[-1] != now:
            seen.append(now)

    cluster.on_point = look
    cluster.request({tp(0): (4, 5, 6)})
    finished(cluster)

    union = (4, 5, 6, 1, 2, 3)
    whole = (1, 2, 3, 4, 5, 6)
    assert seen == [
        ((1, 2, 3), 1, (1, 2, 3), 0),  # the request is adopted
        (union, 1, (1, 2, 3), 0),
        (union, 1, (1, 2, 3), 1),
        (union, 4, whole, 2),
        (union, 4, (4, 5, 6), 3),
        ((4, 5, 6), 4, (4, 5, 6), 3),
    ]
    assert ends(cluster) == {0: ("done", "moved")}
    assert [id_ for id_, host in cluster.replicas.hosts.items() if tp(0) in host.logs] == [4, 5, 6]


@pytest.mark.parametrize(("version", "tells"), [(4, True), (3, False)])
def test_a_topic_names_its_moves_where_every_broker_can_read_it(version: int, tells: bool) -> None:
    """The keys of 2.4 stand while it moves, so that no request is needed; older brokers see none."""
    cluster = loaded_cluster((1, 2, 3), {0: (1, 2)}, version)
    cluster.replicas.holds_back.add(3)
    cluster.request({tp(0): (3, 1)})
    cluster.run(limit_ms=1_000)

    topic = cluster.replicas.lists("t")
    assert (topic.version, dict(topic.adding), dict(topic.removing)) == (
        (2, {0: (3,)}, {0: (2,)}) if tells else (1, {}, {})
    )
    cluster.replicas.holds_back.clear()
    finished(cluster)
    assert not cluster.replicas.lists("t").moving


def test_a_move_that_only_the_topic_names_is_finished() -> None:
    """Another client has deleted the request; the keys are enough (recipes 17)."""
    cluster = loaded_cluster((1, 2, 3), {0: (1, 2)})
    cluster.replicas.holds_back.add(3)
    cluster.request({tp(0): (3, 1)})
    cluster.run(limit_ms=1_000)
    cluster.world.write(Delete(REQUEST, 1))
    cluster.kill(cluster.controller)
    cluster.elector()
    cluster.replicas.holds_back.clear()
    cluster.run(lambda: cluster.records)

    assert cluster.replicas.lists("t").partitions == {0: (3, 1)}
    assert ends(cluster) == {0: ("done", "moved")}


def test_a_target_that_is_down_is_waited_for() -> None:
    """Nothing is written, the status says why, and it is done when it comes (K12)."""
    cluster = loaded_cluster((1, 2, 3), {0: (1, 2)})
    cluster.replicas.stop(3)
    cluster.rest()
    cluster.request({tp(0): (3,)})
    cluster.run(limit_ms=5_000)

    assert cluster.replicas.lists("t").partitions == {0: (1, 2)}
    assert cluster.active.parts.events.blocked["move of t-0"] == "waits for brokers that are down: broker 3"

    cluster.replicas.start(3)
    finished(cluster)
    assert cluster.replicas.lists("t").partitions == {0: (3,)}
    assert "move of t-0" not in cluster.active.parts.events.blocked


def test_a_target_that_dies_on_the_way_is_waited_for_by_the_next_controller_too() -> None:
    """The list is not left at the union for ever, whichever controller is active."""
    cluster = loaded_cluster((1, 2, 3, 4), {0: (1, 2)})
    cluster.replicas.holds_back.update((3, 4))
    cluster.request({tp(0): (3, 4)})
    cluster.run(limit_ms=1_000)
    cluster.replicas.stop(3)
    cluster.run(limit_ms=1_000)
    cluster.kill(cluster.controller)
    cluster.elector()
    cluster.replicas.holds_back.clear()
    cluster.run(limit_ms=5_000)

    assert cluster.replicas.lists("t").partitions == {0: (3, 4, 1, 2)}
    cluster.replicas.start(3)
    finished(cluster)
    assert cluster.replicas.lists("t").partitions == {0: (3, 4)}


@pytest.mark.parametrize("dead", [1, 2, 3, 4])
def test_a_broker_dies_and_comes_back_at_every_point(dead: int) -> None:
    """Elections come between the steps; the move ends, and nothing that was acknowledged is lost."""
    count = 60
    for point in range(1, count, 3):
        cluster = loaded_cluster((1, 2, 3, 4), {0: (1, 2)})
        cluster.points = 0

        def fail(what: str, point: int = point, cluster: Cluster = cluster) -> None:
            if cluster.points == point:
                cluster.replicas.stop(dead)

        cluster.on_point = fail
        cluster.request({tp(0): (3, 4)})
        cluster.run(lambda c=cluster: c.replicas.request() is None, limit_ms=3_000)
        if not cluster.replicas.hosts[dead].is_up:
            cluster.replicas.start(dead)
        finished(cluster)
        assert cluster.replicas.lists("t").partitions == {0: (3, 4)}
        assert [each.outcome for each in cluster.records] == ["done"]


def test_bad_entries_are_removed_and_the_others_carried_out() -> None:
    """Each with its record; also the empty list that 0.8.2.2 would have applied."""
    cluster = loaded_cluster((1, 2, 3), {0: (1, 2), 1: (1, 2), 2: (1, 2)})
    entries = (
        b'{"topic":"t","partition":0,"replicas":[3]},{"topic":"t","partition":1,"replicas":[]},'
        b'{"topic":"t","partition":2,"replicas":[1,2]},{"topic":"t","partition":9,"replicas":[3]},'
        b'{"topic":"none","partition":0,"replicas":[3],"log_dirs":["any"]}'
    )
    cluster.world.write(Create(REQUEST, b'{"version":1,"partitions":[' + entries + b"]}"))
    finished(cluster)

    received = {(each.topic_partition, each.outcome): each.reason for each in cluster.records}
    assert received == {
        (tp(1), "dropped"): "the replica list is empty",
        (tp(9), "dropped"): "there is no such partition",
        (tp(0, "none"), "dropped"): "there is no such partition",
        (tp(2), "done"): "the replica list is the target, and all of it is in sync",
        (tp(0), "done"): "moved",
    }
    assert cluster.replicas.lists("t").partitions == {0: (3,), 1: (1, 2), 2: (1, 2)}


@pytest.mark.parametrize(
    ("is_known", "deletion"), [(True, "requested"), (True, "by hand"), (False, "by hand")]
)
def test_an_entry_of_an_unreadable_topic_is_dropped_once_the_topic_is_gone(
    is_known: bool, deletion: str
) -> None:
    """Until then it waits, as the topic may have that partition. It once stayed until
    the next controller came (ClusterSimulation(1008348))."""
    cluster = loaded_cluster((1, 2), {0: (1,)})
    path, state = Topic.path("u"), PartitionState.path(tp(0, "u"))
    cluster.world.write(Create(path, Topic({0: (1,)}).encode() if is_known else b"[]"))
    cluster.run(lambda: not is_known or cluster.world.server.find(state), limit_ms=2_000)
    cluster.world.write(SetData(path, b"[]", -1))
    cluster.world.write(
        Create(REQUEST, b'{"version":1,"partitions":[{"topic":"u","partition":7,"replicas":[2]}]}')
    )
    cluster.run(limit_ms=2_000)
    assert cluster.world.server.find(REQUEST) is not None
    assert cluster.records == []

    if deletion == "requested":
        cluster.world.write(Create(TopicDeletion.path("u"), None))
    else:
        for each in sorted(cluster.world.server.tree(), reverse=True):
            if each == path or each.startswith(f"{path}/"):
                cluster.world.write(Delete(each, -1))
    finished(cluster)
    assert [(each.topic_partition, each.reason) for each in cluster.records] == [
        (tp(7, "u"), "there is no such partition")
    ]


def test_a_request_that_names_nothing_is_removed() -> None:
    """No controller of 0.8.2.2 ever does (K17)."""
    cluster = loaded_cluster((1,), {0: (1,)})
    cluster.world.write(Create(REQUEST, b'{"version":1,"partitions":[]}'))
    finished(cluster)

    assert cluster.records == []


@pytest.mark.parametrize("data", [b"", b"[]", b'{"version":1}', b'{"partitions":[{"topic":"t"}]}'])
def test_an_unreadable_request_is_reported_and_stays(data: bytes) -> None:
    """It may be of a later version; what can be read in its place is carried out."""
    cluster = loaded_cluster((1, 2), {0: (1,)})
    cluster.world.write(Create(REQUEST, data))
    cluster.run(limit_ms=2_000)

    assert REQUEST in cluster.active.context.unreadable
    assert cluster.world.find(REQUEST).data == data
    cluster.world.write(
        SetData(REQUEST, b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2]}]}', 0)
    )
    finished(cluster)
    assert cluster.replicas.lists("t").partitions == {0: (2,)}
    assert REQUEST not in cluster.active.context.unreadable


def marked_while_it_moves(target: Brokers, version: int = 4) -> Cluster:
    """A move of t-0 whose new replica 3 does not catch up, and then a request to delete the topic."""
    cluster = loaded_cluster((1, 2, 3), {0: (1, 2)}, version)
    cluster.replicas.holds_back.add(3)
    cluster.request({tp(0): target})
    cluster.run(limit_ms=1_000)
    cluster.world.write(Create(TopicDeletion.path("t"), None))
    cluster.run(limit_ms=1_000)
    return cluster


def deleted_once_moved(cluster: Cluster) -> None:
    """As soon as the new replica catches up, the move ends and then the topic goes, with every log."""
    cluster.replicas.holds_back.clear()
    cluster.run(lambda: cluster.world.server.find(TopicDeletion.path("t")) is None)
    assert ends(cluster) == {0: ("done", "moved")}
    assert cluster.world.server.find(Topic.path("t")) is None
    assert all(not host.logs for host in cluster.replicas.hosts.values())


def test_a_topic_is_deleted_after_its_move() -> None:
    """Requested while it moves, the deletion begins when the move has ended."""
    cluster = marked_while_it_moves((3, 2))
    cluster.run(limit_ms=4_000)
    assert cluster.world.server.find(Topic.path("t")) is not None
    assert cluster.active.parts.events.blocked["deletion of t"] == "waits for the reassignment of t-0"

    deleted_once_moved(cluster)


@pytest.mark.parametrize("version", [1, 4])
@pytest.mark.parametrize("target", [(3, 2), (1, 2, 3), (3, 1, 2)])
def test_a_topic_is_deleted_after_its_move_by_the_next_controller(target: Brokers, version: int) -> None:
    """It finds the marker and the move at once, and the list is that of the way already;
    of a growth it is the target's, so that nothing but the ISR shows that it has not ended."""
    cluster = marked_while_it_moves(target, version)
    cluster.kill(cluster.controller)
    cluster.elector()
    cluster.run(limit_ms=5_000)
    assert cluster.records == []
    assert cluster.world.server.find(Topic.path("t")) is not None
    assert cluster.active.parts.events.blocked["deletion of t"] == "waits for the reassignment of t-0"

    deleted_once_moved(cluster)


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("broker", [1, 2, 3])
def test_a_broker_that_starts_anew_does_not_hold_up_a_deletion_behind_its_move(
    broker: int, noticed: bool
) -> None:
    """Until the move is over another one leads, and a broker that is back, at once or
    later, is sent it again; else the deletion would wait for the move, and the move for ever."""
    cluster = marked_while_it_moves((3, 2))
    cluster.replicas.stop(broker)
    if noticed:
        cluster.run(limit_ms=1_000)
    cluster.replicas.start(broker)
    cluster.run(limit_ms=1_000)
    deleted_once_moved(cluster)


def test_many_moves_of_a_request_share_packets() -> None:
    """Recipes 16: 40 moves cost a handful of transactions and requests, not so many each."""
    lists = dict.fromkeys(range(40), (1, 2))
    cluster = loaded_cluster((1, 2, 3), lists)
    cluster.said.clear()
    cluster.request({tp(number): (2, 3) for number in lists})
    finished(cluster)

    assert set(cluster.replicas.lists("t").partitions.values()) == {(2, 3)}
    assert len(cluster.records) == 40
    assert packets(cluster.controller, cluster) <= 10
    obeyed = [what for what in cluster.said if "obeyed LeaderAndIsr" in what]
    assert len(obeyed) <= 15


def test_moves_beyond_the_watches_are_read_in_bulk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers of 0.8.2.2 report no ISR: what is not watched is read periodically."""
    monkeypatch.setattr(rounds, "WATCHED_MAX", 1)
    cluster = loaded_cluster((1, 2, 3), {0: (1,), 1: (1,)})
    cluster.replicas.holds_back.update((2, 3))
    cluster.request({tp(0): (2,), tp(1): (3,)})
    cluster.run(limit_ms=1_000)
    cluster.replicas.holds_back.remove(3)
    cluster.run(lambda: ends(cluster))

    assert ends(cluster) == {1: ("done", "moved")}


def test_the_oldest_records_go() -> None:
    """The last 1,000 are kept; a hundred more before any is deleted (recipes 17)."""
    cluster = loaded_cluster((1, 2), {0: (1,)})
    cluster.world.server.put("/zkgroup/reassignments")
    old = FinishedReassignment(tp(7), (1,), (2,), "done", "moved", 1).encode()
    for _ in range(FINISHED_KEPT + 100):
        cluster.world.write(Create(FinishedReassignment.prefix(), old, sequential=True))
    cluster.request({tp(0): (2,)})
    finished(cluster)
    cluster.run(limit_ms=1_000)

    records = cluster.records
    assert len(records) == FINISHED_KEPT
    assert records[-1].topic_partition == tp(0)


def test_a_topic_that_would_become_too_big_waits_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent that no server takes; the status says how big."""
    cluster = loaded_cluster((1, 2, 3), {0: (1, 2)})
    monkeypatch.setattr("zkgroup.znodes.brokers.check_size", _at_most(60))
    cluster.request({tp(0): (3,)})
    cluster.run(limit_ms=2_000)

    assert "expected at most 60 bytes" in cluster.active.parts.events.blocked["move of t-0"]
    assert cluster.replicas.lists("t").partitions == {0: (1, 2)}


def test_a_target_whose_replica_is_offline_is_waited_for_by_that_name() -> None:
    """Its broker is up, so the status does not call it down."""
    cluster = loaded_cluster((1, 2, 3), {0: (1, 2)})
    cluster.active.context.replica_offline(tp(0), 3)
    cluster.request({tp(0): (3,)})
    cluster.run(limit_ms=2_000)

    waits = "waits for offline replicas, until their brokers restart: broker 3"
    assert cluster.active.parts.events.blocked["move of t-0"] == waits


def _at_most(bytes_max: int) -> object:
    def check(what: str, data: bytes) -> bytes:
        if what.startswith("topic of") and len(data) > bytes_max:
            raise ConfigError(f"{what}: expected at most {bytes_max} bytes, found {len(data)}")
        return data

    return check


@pytest.mark.parametrize("path", [Topic.path("t"), PartitionState.path(tp(0))])
def test_what_cannot_be_written_again_is_reported(path: str) -> None:
    """A number of more than 32 bits that others have put there: all other moves go on."""
    cluster = Cluster((1, 2))
    cluster.replicas.topic("t", {0: (1,)})
    cluster.replicas.topic("u", {0: (1,)})
    found = cluster.world.find(path)
    assert found.data is not None
    cluster.world.write(SetData(path, found.data.replace(b"{", b'{"later":4294967296,', 1), 0))
    cluster.elector()
    cluster.request({tp(0): (2,), tp(0, "u"): (2,)})
    cluster.run(limit_ms=5_000)

    assert [record.topic_partition for record in cluster.records] == [tp(0, "u")]
    assert "later" in cluster.active.context.unreadable[path]
    assert "later" in cluster.active.parts.events.blocked["move of t-0"]
    assert resigned(cluster.controller) == []


def test_what_has_ended_is_noted_once() -> None:
    """People read the log; every end is one line."""
    cluster = loaded_cluster((1, 2), {0: (1,)})
    node = cluster.controller
    cluster.request({tp(0): (2,)})
    finished(cluster)

    ended = [
        each for each in node.effects if isinstance(each, LogEvent) and each.kind == "reassignment.ended"
    ]
    assert [dict(each.fields) for each in ended] == [
        {"partition": "t-0", "outcome": "done", "reason": "moved"}
    ]


def test_after_step_7_every_broker_is_sent_the_target() -> None:
    """Also by the first LeaderAndIsr to a target that has restarted (recipes 17)."""
    cluster = loaded_cluster((1, 2, 3), {0: (1,)})
    cluster.request({tp(0): (2, 3)})
    received: list[tuple[int, Brokers]] = []

    def look(what: str) -> None:
        for _, message in cluster.wires:
            if isinstance(message.request, LeaderAndIsrRequest):
                received.extend((each.leader_epoch, each.replicas) for each in message.request.partitions)

    cluster.on_point = look
    finished(cluster)

    assert set(received) == {(1, (2, 3, 1)), (2, (2, 3)), (3, (2, 3))}
