"""Moves on a real server: what stands there after each step, and what another controller makes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

import pytest

from tests.real.controller.server_controllers import RunningController, ServerControllers
from tests.waiting import becomes, eventually, happened
from tests.worlds.clients import opener
from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import Host
from zkgroup.admin.reassign.cancellation import cancel as cancel_moves
from zkgroup.admin.reassign.cancellation import plan_cancel
from zkgroup.admin.reassign.submission import plan_reassignment
from zkgroup.controller.machine.context import Brokers
from zkgroup.controller.machine.events import ControlRequest
from zkgroup.errors import ConflictError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.model.requests import (
    Check,
    Create,
    CreateMissing,
    CreateMissingDone,
    Delete,
    Multi,
    Read,
    ReadDone,
    Request,
    SetData,
)
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.conformance import Target
from zkgroup.wire.control import LeaderAndIsrRequest, PartitionStateInfo
from zkgroup.wire.messages import Response
from zkgroup.znodes.admin_requests import Move, Reassignment, TopicDeletion
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.reassignment_records import FinishedReassignment, finished_reassignments_path
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.client import SystemClock

REQUEST = Reassignment.path()
PARENTS = ("/admin", "/admin/delete_topics", "/config", "/config/topics", "/config/changes")
Stood = tuple[Brokers, int, Brokers, int]


class Leading(Host):
    """A broker that, while it leads, takes every replica of the list it was sent into the ISR."""

    def __init__(self, id_: int, country: Moving) -> None:
        super().__init__(id_)
        self._country = country

    def take(self, request: ControlRequest) -> Response:
        response = super().take(request)
        if isinstance(request, LeaderAndIsrRequest):
            for info in request.partitions:
                if info.leader == self.id_:
                    self._country.leads(info)
        return response


class Moving(ServerControllers):
    """Brokers 1 to 6, whose followers catch up at once unless they are told to wait."""

    def __init__(self, address: str, target: Target) -> None:
        super().__init__(address, target.connect(20_000))
        self._hand = target.connect(20_000)
        self.holds_back: set[int] = set()
        self._led: dict[TopicPartition, PartitionStateInfo] = {}
        self.witness.ask(CreateMissing(PARENTS), CreateMissingDone)
        for id_ in range(1, 7):
            self.hosts[id_] = Leading(id_, self)

    def leads(self, info: PartitionStateInfo) -> None:
        """In the thread of the controller that has sent it, so with a client of its own."""
        self._led[info.topic_partition] = info
        self.catch_up(info.topic_partition)

    def catch_up(self, each: TopicPartition) -> None:
        """The leader's write of the ISR, with the version that it was sent: refused where that is old."""
        info = self._led[each]
        ready = [id_ for id_ in info.replicas if id_ not in info.isr and id_ not in self.holds_back]
        if not ready:
            return
        isr = (*info.isr, *ready)
        state = PartitionState(info.leader, info.leader_epoch, isr, info.controller_epoch)
        write = SetData(PartitionState.path(each), state.encode(), info.zk_version)
        self._hand.submit(Multi((write,))).outcome()

    def release(self) -> None:
        """Who was held back catches up."""
        self.holds_back.clear()
        for each in list(self._led):
            self.catch_up(each)

    def stood(self) -> Stood:
        """Replica list, leader, ISR and leader epoch of `t-0`, as the hand sees them."""
        self._hand.catch_up()
        topic = self._hand.ask(Read(Topic.path("t")), ReadDone).znode
        state = self._hand.ask(Read(PartitionState.path(tp(0))), ReadDone).znode
        assert topic is not None
        assert state is not None
        now = PartitionState.decode(state.path, state.data)
        lists = Topic.decode(topic.path, topic.data).partitions
        return lists[0], now.leader, now.isr, now.leader_epoch

    def request(self, targets: Mapping[TopicPartition, Brokers]) -> None:
        moves = tuple(Move(each, target) for each, target in targets.items())
        self.write(Create(REQUEST, Reassignment(moves).encode()))

    def change(self, targets: Mapping[TopicPartition, Brokers]) -> None:
        """A zkgroup tool changes the running request."""
        znode = self._hand.ask(Read(REQUEST), ReadDone).znode
        assert znode is not None
        now = {**Reassignment.decode(REQUEST, znode.data).targets, **targets}
        moves = tuple(Move(each, target) for each, target in now.items())
        self._hand.write(SetData(REQUEST, Reassignment(moves).encode(), znode.stat.version))

    def lists(self) -> Mapping[int, Brokers]:
        znode = self.find(Topic.path("t"))
        assert znode is not None
        return Topic.decode(znode.path, znode.data).partitions

    def await_end(self) -> None:
        becomes(lambda: self.find(REQUEST), None)

    def records(self) -> list[FinishedReassignment]:
        parent = finished_reassignments_path()
        found = [self.find(f"{parent}/{name}") for name in sorted(self.children(parent))]
        return [FinishedReassignment.decode(each.path, each.data) for each in found if each is not None]


class Stop:
    """Holds a controller before its nth transaction about a move, for the test to kill it there."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.reached = threading.Event()
        self._go_on = threading.Event()

    def __call__(self, request: Request) -> None:
        if is_about_moves(request):
            self._left -= 1
            if self._left == 0:
                self.reached.set()
                happened(self._go_on)

    def kill(self, controller: RunningController) -> None:
        """Its session ends, and only then it goes on: nothing that it asks is carried out."""
        controller.client.close()
        self._go_on.set()


def is_about_moves(request: Request) -> bool:
    """Whether it is one of the transactions of steps 1 to 11."""
    paths = {REQUEST, Topic.path("t"), PartitionState.path(tp(0))}
    return isinstance(request, Multi) and any(
        isinstance(each, (SetData, Check, Delete)) and each.path in paths for each in request.operations
    )


@pytest.fixture
def country(zk_chaos_server: ChaosZooKeeper) -> Iterator[Moving]:
    """Brokers 1 to 6 and topic `t`; no controller yet."""
    with Target(opener(zk_chaos_server.direct_address)) as target:
        country = Moving(zk_chaos_server.address, target)
        try:
            country.start_broker(1, 2, 3, 4, 5, 6)
            yield country
        finally:
            country.close()


def begun(
    country: Moving, lists: Mapping[int, Brokers], before: Callable[[Request], None] | None = None
) -> RunningController:
    """A controller that has made the states of `t`."""
    country.make_topic("t", lists)
    controller = country.new_controller()
    for number, replicas in lists.items():
        country.await_state(tp(number), leader=replicas[0])
    eventually(controller.at_rest)
    if before is not None:
        controller.client.before = before
    return controller


def test_the_table_of_4_4(country: Moving) -> None:
    """What stands after each step, in this order, with its one record."""
    seen: list[Stood] = []

    def look(request: Request) -> None:
        if is_about_moves(request):
            seen.append(country.stood())

    begun(country, {0: (1, 2, 3)}, look)
    country.request({tp(0): (4, 5, 6)})
    country.await_end()

    union = (4, 5, 6, 1, 2, 3)
    assert seen == [
        ((1, 2, 3), 1, (1, 2, 3), 0),  # the request is adopted
        ((1, 2, 3), 1, (1, 2, 3), 0),
        (union, 1, (1, 2, 3), 0),
        (union, 1, (1, 2, 3, 4, 5, 6), 1),
        (union, 4, (1, 2, 3, 4, 5, 6), 2),
        (union, 4, (4, 5, 6), 3),
    ]
    assert country.stood() == ((4, 5, 6), 4, (4, 5, 6), 3)
    (record,) = country.records()
    assert (record.before, record.target, record.outcome) == ((1, 2, 3), (4, 5, 6), "done")
    becomes(lambda: [id_ for id_, host in country.hosts.items() if tp(0) in host.logs], [4, 5, 6])


@pytest.mark.parametrize("number", range(1, 7))
def test_another_controller_ends_the_move(country: Moving, number: int) -> None:
    """Killed before its nth transaction, and so after each of steps 1 to 11."""
    stop = Stop(number)
    first = begun(country, {0: (1, 2)}, stop)
    country.request({tp(0): (2, 3)})
    happened(stop.reached)
    stop.kill(first)
    country.new_controller(101)
    country.await_end()

    replicas, leader, isr, _ = country.stood()
    assert (replicas, leader, set(isr)) == ((2, 3), 2, {2, 3})
    assert [record.outcome for record in country.records()] == ["done"]


def test_a_target_that_is_down_is_waited_for(country: Moving) -> None:
    """By the next controller too; done when it comes (K12)."""
    country.stop_broker(3)
    first = begun(country, {0: (1, 2)})
    country.request({tp(0): (3, 1)})
    becomes(lambda: first.waiting().get("move of t-0"), "waits for brokers that are down: broker 3")
    first.client.close()
    second = country.new_controller(101)
    eventually(lambda: "move of t-0" in second.waiting())
    assert country.stood()[0] == (1, 2)

    country.start_broker(3)
    country.await_end()
    assert country.stood()[0] == (3, 1)


def test_a_second_execution_is_refused_and_a_cancellation_is_not(
    country: Moving, zk_chaos_server: ChaosZooKeeper
) -> None:
    """Nothing is changed by the second; a zkgroup tool takes the first one back."""
    country.holds_back.add(3)
    begun(country, {0: (1, 2)})
    country.request({tp(0): (3, 2)})
    becomes(lambda: country.stood()[0], (3, 2, 1))
    client = ZooKeeperClient(zk_chaos_server.direct_address, ClientSettings())
    with closing(client), Blocking(client) as zk:
        zk.wait_connected()
        ensemble = Ensemble(zk, SystemClock())
        with pytest.raises(ConflictError, match="a reassignment runs already: t-0"):
            plan_reassignment(ensemble, [Move(tp(0), (4,))])
        cancel_moves(ensemble, plan_cancel(ensemble, rollback=[Move(tp(0), (1, 2))]))
    country.await_end()

    assert country.stood()[0] == (1, 2)
    assert [record.outcome for record in country.records()] == ["cancelled"]


def test_bad_entries_go_and_the_others_are_carried_out(country: Moving) -> None:
    """Unknown, empty, equal; and a request that names nothing."""
    begun(country, {0: (1, 2), 1: (1, 2)})
    entries = (
        b'{"topic":"t","partition":0,"replicas":[3]},{"topic":"t","partition":1,"replicas":[1,2]},'
        b'{"topic":"t","partition":9,"replicas":[3]},{"topic":"none","partition":0,"replicas":[]}'
    )
    country.write(Create(REQUEST, b'{"version":1,"partitions":[' + entries + b"]}"))
    country.await_end()
    assert country.lists() == {0: (3,), 1: (1, 2)}
    outcomes = {str(record.topic_partition): record.outcome for record in country.records()}
    assert outcomes == {"t-0": "done", "t-1": "done", "t-9": "dropped", "none-0": "dropped"}

    country.write(Create(REQUEST, b'{"version":1,"partitions":[]}'))
    country.await_end()
    assert len(country.records()) == 4


def test_ends_and_a_change_of_the_request_lose_nothing(country: Moving) -> None:
    """The request changes just before the end of another move is written."""
    done = threading.Event()

    def change(request: Request) -> None:
        """At the first transaction that takes an entry out."""
        if done.is_set() or not isinstance(request, Multi):
            return
        sets = (each for each in request.operations if isinstance(each, SetData) and each.path == REQUEST)
        if any(each.version for each in sets):  # the first one adopts it
            done.set()
            country.change({tp(1): (1,)})

    country.holds_back.add(3)
    begun(country, {0: (1,), 1: (1,)}, change)
    country.request({tp(0): (2,), tp(1): (3,)})
    country.await_end()

    assert done.is_set()
    assert country.lists() == {0: (2,), 1: (1,)}
    ends = sorted((record.topic_partition.partition, record.outcome) for record in country.records())
    assert ends == [(0, "done"), (1, "cancelled")]


def test_a_topic_is_deleted_after_its_move(country: Moving) -> None:
    """Requested while it moves, it begins when the move has ended."""
    country.holds_back.add(3)
    controller = begun(country, {0: (1, 2)})
    country.request({tp(0): (3, 2)})
    becomes(lambda: country.stood()[0], (3, 2, 1))
    country.write(Create(TopicDeletion.path("t"), None))
    becomes(lambda: controller.waiting().get("deletion of t"), "waits for the reassignment of t-0")
    assert country.find(Topic.path("t")) is not None

    country.release()
    becomes(lambda: country.find(TopicDeletion.path("t")), None)
    assert country.find(Topic.path("t")) is None
    assert [record.outcome for record in country.records()] == ["done"]
    assert all(tp(0) not in host.logs for host in country.hosts.values())
