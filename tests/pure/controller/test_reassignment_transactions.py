"""The transactions of a move, on a server in memory."""

from __future__ import annotations

from functools import partial

import pytest

from tests.worlds.controller_clusters import broker, cluster, new_controller, tp
from zkgroup.controller.machine.context import Brokers, ControllerContext, LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.fenced_writes import Fence, Write, single, size_of
from zkgroup.controller.machine.pending_deletes import StrayRecords
from zkgroup.controller.machine.reassignment import transactions
from zkgroup.controller.machine.reassignment.steps import Shrink, WriteUnion
from zkgroup.controller.machine.reassignment.transactions import (
    Completion,
    can_read_moves_in_topics,
    shrink,
    write_unions,
)
from zkgroup.errors import ConfigError, ConflictError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, Create, Delete, SetData
from zkgroup.testing import MemoryZooKeeper
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.reassignment_records import FinishedReassignment
from zkgroup.zookeeper.blocking import Blocking

REQUEST = "/admin/reassign_partitions"
finish = partial(transactions.finish, record=lambda left: StrayRecords().change())
"""Where no broker has left anything behind."""
UNION = WriteUnion((3, 1, 2), adding=(3,), removing=(1, 2))


def done(number: int, target: Brokers = (3,), name: str = "t") -> Completion:
    """A move from 1,2 that has come to its end."""
    return Completion(tp(number, name), target, (1, 2), "done", "moved")


class Tree:
    """A server with topics `t` (0, 1, 2) and `u` (0), a request for all, and a controller's context."""

    def __init__(self, zk: Blocking) -> None:
        self.zk = zk
        self.fence: Fence = new_controller(zk)
        self.context: ControllerContext = cluster({"t": {0: (3, 1), 1: (3, 2), 2: (1, 2)}, "u": {0: (1, 2)}})
        self.context.topic_czxids["t"] = 7
        self.request: dict[TopicPartition, Brokers] = dict.fromkeys(self.context.partitions(), (3,))
        zk.create_missing("/admin", "/brokers", "/brokers/topics", "/zkgroup", "/zkgroup/reassignments")
        moves = tuple(Move(each, target) for each, target in self.request.items())
        zk.multi(Create(REQUEST, Reassignment(moves).encode()))
        for name in self.context.topics:
            seen = self.context.topic(name)
            assert seen is not None
            zk.multi(Create(Topic.path(name), seen.topic.encode()), Create(Topic.partitions_path(name), None))
        for each in self.context.partitions():
            state = PartitionState(3, 0, (3,), 1)
            zk.multi(
                Create(Topic.partition_path(each), None), Create(PartitionState.path(each), state.encode())
            )
            self.context.state_seen(each, LeaderIsrAndControllerEpoch(state, 0))

    def send(self, write: Write) -> None:
        """Behind the fence."""
        self.zk.multi(*single(self.fence, write).request.operations)

    def finish(self, *completions: Completion) -> None:
        """All in one write, with the request's version 0."""
        finishing = finish(self.context, completions, self.request, 0, 1)
        assert finishing.left == ()
        self.send(finishing.write)

    def replicas(self, name: str) -> dict[int, Brokers]:
        """As stored."""
        return dict(Topic.decode("", self.zk.read(Topic.path(name)).data).partitions)

    def records(self) -> list[FinishedReassignment]:
        """In the order written."""
        names, _ = self.zk.children("/zkgroup/reassignments")
        paths = [f"/zkgroup/reassignments/{name}" for name in sorted(names)]
        return [FinishedReassignment.decode(path, self.zk.read(path).data) for path in paths]


def test_moves_that_end_together_are_one_write() -> None:
    """Replica lists of both topics, the request without them and their records, at once (KAFKA-6617)."""
    with Blocking(MemoryZooKeeper().client()) as zk:
        tree = Tree(zk)

        tree.finish(done(0), done(2), done(0, name="u"))

        assert tree.replicas("t") == {0: (3,), 1: (3, 2), 2: (3,)}
        assert tree.replicas("u") == {0: (3,)}
        left = Reassignment.decode(REQUEST, zk.read(REQUEST).data)
        assert left == Reassignment((Move(tp(1), (3,)),))
        assert [each.topic_partition for each in tree.records()] == [tp(0), tp(2), tp(0, "u")]
        assert tree.records()[0] == FinishedReassignment(tp(0), (1, 2), (3,), "done", "moved", 1, czxid=7)


def test_the_last_moves_take_the_request_with_them() -> None:
    """Deleted with its last entry, not before (K15, KAFKA-6193)."""
    with Blocking(MemoryZooKeeper().client()) as zk:
        tree = Tree(zk)

        tree.finish(done(0), done(1), done(2), done(0, name="u"))

        assert zk.find(REQUEST) is None


@pytest.mark.parametrize("what", ["request", "state", "topic", "controller"])
def test_an_end_that_is_no_longer_true_is_not_written(what: str) -> None:
    """Request changed, ISR changed, topic grown, or deposed: nothing at all is written (recipes 17)."""
    with Blocking(MemoryZooKeeper().client()) as zk:
        tree = Tree(zk)
        path = {
            "request": REQUEST,
            "state": PartitionState.path(tp(2)),
            "topic": Topic.path("t"),
            "controller": "/controller_epoch",
        }[what]
        before = zk.read(path)
        zk.multi(SetData(path, before.data or b"", before.stat.version))

        with pytest.raises(ConflictError, match=path):
            tree.finish(done(0), done(2))

        assert (tree.replicas("t")[2], tree.records()) == ((1, 2), [])


def test_what_is_dropped_changes_nothing_but_the_request() -> None:
    """Of a topic that there is not, of a name that cannot be, with lists that no one could write."""
    bad = {tp(5): (), tp(0, "no/topic"): (1,), tp(1, "\ud800"): (1, 1), tp(0, "u"): (-3,)}
    with Blocking(MemoryZooKeeper().client()) as zk:
        tree = Tree(zk)
        tree.request = {**bad, tp(1): (3,)}

        tree.finish(*(Completion(each, target, (), "dropped", "why") for each, target in bad.items()))

        left = Reassignment.decode(REQUEST, zk.read(REQUEST).data)
        assert left == Reassignment((Move(tp(1), (3,)),))
        assert [(each.outcome, each.target) for each in tree.records()] == [
            ("dropped", target) for target in bad.values()
        ]
        assert tree.replicas("u") == {0: (1, 2)}


def test_a_request_that_names_nothing_is_removed() -> None:
    """K17: 0.8.2.2 leaves it for ever, and no other can be made."""
    operations = finish(ControllerContext(), [], {}, 4, 1).write.operations

    assert operations == (Delete(REQUEST, 4),)


def test_more_than_one_write_holds_is_left_for_the_next() -> None:
    """As many as fit, what is dropped first; none is lost."""
    context = cluster({"t": dict.fromkeys(range(40), (3, 1))})
    completions = [done(number) for number in range(39)]
    completions.append(Completion(tp(39), (), (), "dropped", "the replica list is empty"))
    request = {each.topic_partition: each.target for each in completions}

    first = finish(context, completions, request, 0, 1, bytes_max=8_000)

    assert first.write.about[0] == tp(39)
    assert size_of(first.write.operations) <= 8_000
    about = set(first.write.about)
    assert len(about) > 5
    assert about | {each.topic_partition for each in first.left} == set(request)
    left = next(each for each in first.write.operations if isinstance(each, SetData) and each.path == REQUEST)
    assert len(Reassignment.decode(REQUEST, left.data).moves) == len(first.left) > 0


def test_a_move_named_by_the_topic_alone_ends_without_a_request() -> None:
    """Its keys (2.4) are emptied; no request is touched."""
    context = ControllerContext()
    context.topic_seen("t", Topic({0: (3, 1)}, 2, {0: (3,)}, {0: (1,)}), 6)

    write = finish(context, [done(0)], {}, None, 1).write

    topic = Topic({0: (3,)}, 2)
    assert [each for each in write.operations if not isinstance(each, Create)] == [
        SetData("/brokers/topics/t", topic.encode(), 6)
    ]


def test_the_union_is_written_with_the_keys_of_2_4_where_all_can_read_them() -> None:
    """The topic's version rises then; else the format stays. What is unknown is kept (controller.md D4)."""
    context = ControllerContext()
    context.topic_seen("t", Topic({0: (1, 2), 1: (2, 1)}, extensions={"later": 1}), 6)

    plain = write_unions(context, "t", {0: UNION}, 3, keys=False)
    received = write_unions(context, "t", {0: UNION}, 3, keys=True)

    lists = {0: (3, 1, 2), 1: (2, 1)}
    assert plain.operations == (
        Check(REQUEST, 3),
        SetData("/brokers/topics/t", Topic(lists, extensions={"later": 1}).encode(), 6),
    )
    topic = Topic(lists, 2, {0: (3,)}, {0: (1, 2)}, extensions={"later": 1})
    assert received.operations == (Check(REQUEST, 3), SetData("/brokers/topics/t", topic.encode(), 6))


def test_lists_of_one_topic_are_written_together() -> None:
    """One znode, one version: a request for all partitions of a topic is one write, not one each."""
    context = cluster({"t": {0: (1, 2), 1: (1, 2), 2: (1, 2)}})

    write = write_unions(context, "t", {0: UNION, 2: UNION}, 7, keys=True)

    topic = Topic({0: (3, 1, 2), 1: (1, 2), 2: (3, 1, 2)}, 2, {0: (3,), 2: (3,)}, {0: (1, 2), 2: (1, 2)})
    assert write == Write(
        (tp(0), tp(2)), (Check(REQUEST, 7), SetData("/brokers/topics/t", topic.encode(), 0))
    )


def test_a_topic_too_big_for_a_znode_is_refused_before_it_is_sent() -> None:
    """The union can be what makes it too big; the message says how big."""
    context = ControllerContext()
    context.topic_seen("t", Topic({number: tuple(range(10_000, 10_006)) for number in range(19_000)}), 0)
    step = WriteUnion(tuple(range(10_000, 19_000)), (), ())

    with pytest.raises(
        ConfigError, match=r"topic of 19000 partitions: expected at most 900000 bytes, found \d+"
    ):
        write_unions(context, "t", {0: step}, 0, keys=False)


def test_old_brokers_keep_moves_out_of_topics() -> None:
    """Version 4 of a registration came after them all; no one there is no one to ask."""
    assert can_read_moves_in_topics([broker(1, version=4), broker(2, version=5)])
    assert not can_read_moves_in_topics([broker(1, version=4), broker(2, version=1)])
    assert not can_read_moves_in_topics([])
    assert can_read_moves_in_topics([broker(1, version=4), broker(101, version=1, role="controller")])
    assert not can_read_moves_in_topics([broker(101, version=4, role="controller")])


def test_a_shrink_holds_the_request_and_the_state() -> None:
    """Leader epoch + 1; with no broker to remove the same two versions are checked (recipes 17)."""
    before = LeaderIsrAndControllerEpoch(PartitionState(3, 4, (3, 1), 1), 8)
    path = PartitionState.path(tp(0))

    needed = shrink(tp(0), before, Shrink((3,), True, (1,)), 2, 5)
    assert needed.operations == (
        Check(REQUEST, 2),
        SetData(path, PartitionState(3, 5, (3,), 5).encode(), 8),
    )
    assert shrink(tp(0), before, Shrink((3, 1), False, ()), 2, 5).operations == (
        Check(REQUEST, 2),
        Check(path, 8),
    )
    assert shrink(tp(0), before, Shrink((3, 1), False, ()), None, 5).operations == (Check(path, 8),)
