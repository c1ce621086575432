"""Which controller is active, on a real server behind a network that can be broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.real.controller.server_controllers import ElectorThread
from tests.waiting import eventually
from tests.worlds.clients import opener
from tests.worlds.controller_clusters import Writer, fails
from tests.worlds.stepped_electors import NextWork, WorkingElector
from tests.worlds.stores import Before
from zkgroup.controller.machine.controller_election.elector import ElectorState
from zkgroup.controller.machine.events import Resigned
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.controller.machine.settings import ElectorConfig
from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.requests import (
    Connected,
    Create,
    Delete,
    Multi,
    Operation,
    Read,
    ReadDone,
    Request,
    SetData,
    Suspended,
)
from zkgroup.runtime.procedures import Procedure, write
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.conformance import Caller, Target
from zkgroup.znodes.brokers import BrokerRegistration, broker_ids_path, brokers_path
from zkgroup.znodes.controller import ControllerEpoch, ControllerRecord, ControllerRegistration
from zkgroup.zookeeper import ClientSettings
from zkgroup.zookeeper.client import SystemClock

CONTROLLER, EPOCH = ControllerRegistration.path(), ControllerEpoch.path()
CLOCK = SystemClock()


class RecordingElector(ElectorThread):
    """An elector that notes the events of its sessions."""

    def __init__(
        self,
        address: str,
        broker: int,
        work: NextWork,
        prepare: Callable[[], Procedure[None]] | None,
        before: Before | None,
    ) -> None:
        self.broker = broker
        config = ElectorConfig(broker=broker, takeover_grace_ms=300)
        connection = ClientSettings(session_timeout_ms=20_000)
        super().__init__(address, connection, WorkingElector(config, work, prepare), before)
        self.events: list[str] = []
        self.client.listen(lambda event: self.events.append(type(event).__name__))

    @property
    def is_active(self) -> bool:
        return self.machine.election.is_active

    @property
    def may_send(self) -> bool:
        """Asked in the machine's own thread, where its clock is that of a step."""
        return self.ask(lambda: self.machine.election.may_send)

    @property
    def resignations(self) -> list[str]:
        return [effect.reason for effect in self.effects if isinstance(effect, Resigned)]


class Cluster:
    """Electors behind the network, and another client that reads and writes past it."""

    def __init__(self, chaos: ChaosZooKeeper, witness: Caller) -> None:
        self.chaos, self.witness = chaos, witness
        self.nodes: list[RecordingElector] = []

    def add(
        self,
        broker: int,
        *,
        work: NextWork = lambda election: None,
        prepare: Callable[[], Procedure[None]] | None = None,
        before: Before | None = None,
    ) -> RecordingElector:
        node = RecordingElector(self.chaos.address, broker, work, prepare, before)
        self.nodes.append(node)
        node.start()
        return node

    def find(self, path: str) -> Znode | None:
        self.witness.catch_up()
        return self.witness.ask(Read(path), ReadDone).znode

    def stat(self, path: str) -> ZnodeStat:
        znode = self.find(path)
        assert znode is not None, path
        return znode.stat

    def epoch(self) -> tuple[int, int]:
        znode = self.find(EPOCH)
        assert znode is not None
        return ControllerEpoch.decode(EPOCH, znode.data).epoch, znode.stat.version

    def bump(self) -> None:
        value, version = self.epoch()
        self.witness.write(SetData(EPOCH, ControllerEpoch(value + 1).encode(), version))

    def controller(self, epoch: int = 1) -> RecordingElector:
        """The one that rules in this epoch."""
        eventually(lambda: [n for n in self.nodes if n.elections and n.elections[-1].epoch == epoch])
        (controller,) = [n for n in self.nodes if n.elections and n.elections[-1].epoch == epoch]
        return controller


@pytest.fixture
def cluster(zk_chaos_server: ChaosZooKeeper) -> Iterator[Cluster]:
    """No electors yet."""
    chaos = zk_chaos_server
    with Target(opener(chaos.direct_address)) as target:
        cluster = Cluster(chaos, target.connect(20_000))
        try:
            yield cluster
        finally:
            for node in cluster.nodes:
                node.close()


def test_one_of_many_wins_and_the_next_has_the_next_epoch(cluster: Cluster) -> None:
    """Five electors; sessions end, one election each, epochs without a gap."""
    for broker in range(5):
        cluster.add(broker)
    for epoch in (1, 2, 3):
        controller = cluster.controller(epoch)
        found = cluster.find(CONTROLLER)
        assert found is not None
        assert ControllerRegistration.decode(CONTROLLER, found.data).broker == controller.broker
        assert controller.elections[-1].czxid == found.stat.czxid
        assert cluster.epoch() == (epoch, epoch)
        cluster.chaos.expire_session(found.stat.ephemeral_owner)
    cluster.controller(4)

    assert sum(len(node.elections) for node in cluster.nodes) == 4


def test_an_epoch_raised_before_the_election_arrives_refuses_it(cluster: Cluster) -> None:
    """Between read and multi; no `/controller` is left, nor a record of that epoch."""
    left: list[Znode | None] = []

    def before(request: Request) -> None:
        if _writes(request, CONTROLLER, Create) and not left:
            cluster.bump()
            left.append(None)
        elif len(left) == 1:
            left.append(cluster.find(CONTROLLER))

    node = cluster.add(1, before=before)
    cluster.controller(2)

    assert left == [None, None]
    assert [each.fence for each in node.elections] == [Fence(2, 2)]
    assert node.elections[0].foreign_epoch == 1
    assert cluster.find(ControllerRecord.path(1)) is None


def test_an_election_whose_reply_is_lost_is_known_to_be_won(cluster: Cluster) -> None:
    """The connection is cut after the commit; a second elector comes meanwhile."""
    armed: list[object] = []

    def before(request: Request) -> None:
        if _writes(request, CONTROLLER, Create) and not armed:
            armed.append(cluster.chaos.drop_reply("multi"))

    node = cluster.add(1, before=before)
    eventually(lambda: Suspended.__name__ in node.events)
    other = cluster.add(2)
    controller = cluster.controller(1)
    eventually(lambda: controller.may_send)

    assert controller is node
    assert node.elections[0].czxid == cluster.stat(CONTROLLER).czxid
    assert cluster.epoch() == (1, 1)
    assert not other.elections
    assert not node.resignations


def test_a_controller_deleted_by_hand_is_elected_anew(cluster: Cluster) -> None:
    """The active one resigns; one of the two is active next.

    The other one may already be elected when it reads: then it finds another controller's znode.
    """
    cluster.add(1)
    cluster.add(2)
    controller = cluster.controller(1)
    cluster.witness.write(Delete(CONTROLLER, 1))
    cluster.controller(2)

    (reason,) = eventually(lambda: tuple(controller.resignations))
    assert reason in ("/controller was deleted", "/controller was replaced")
    assert sum(node.is_active for node in cluster.nodes) == 1


def test_a_controller_replaced_by_another_id_makes_the_controller_resign(cluster: Cluster) -> None:
    """Changed, not deleted (K1); what stands there is left alone."""
    node = cluster.add(1)
    cluster.controller(1)
    cluster.witness.write(
        Delete(CONTROLLER, 1), Create(CONTROLLER, ControllerRegistration(7, 0).encode(), True)
    )
    theirs = cluster.stat(CONTROLLER)
    eventually(lambda: node.resignations)
    eventually(lambda: node.machine.election.stage is ElectorState.WATCHING)

    assert node.resignations == ["/controller was replaced"]
    assert cluster.stat(CONTROLLER) == theirs


def test_a_failure_while_it_is_active_deletes_no_other_controller(cluster: Cluster) -> None:
    """An exception, and `/controller` changes hands before its deletion arrives (K2)."""
    data = ControllerRegistration(7, 0).encode()

    def before(request: Request) -> None:
        if _writes(request, CONTROLLER, Delete) and not theirs:
            cluster.witness.write(
                Delete(CONTROLLER, 1),
                Create(CONTROLLER, data, True),
                SetData(CONTROLLER, data, 0),
                SetData(EPOCH, b"2", 1),
            )
            theirs.append(cluster.stat(CONTROLLER))

    theirs: list[ZnodeStat] = []
    node = cluster.add(1, work=lambda election: ("load", fails), before=before)
    eventually(lambda: theirs and node.machine.election.stage is ElectorState.WATCHING)

    assert node.resignations == ["failed: ValueError: an unreadable znode"]
    assert cluster.stat(CONTROLLER) == theirs[0]
    assert theirs[0].version == 1


def test_after_a_bump_by_another_process_no_write_passes(cluster: Cluster) -> None:
    """The write is refused and changes nothing; the controller resigns (K3)."""
    cluster.witness.make("/work")
    work = Writer(1)
    bumped: list[bool] = []

    def before(request: Request) -> None:
        if _writes(request, "/work", SetData) and not bumped:
            bumped.append(True)
            cluster.bump()

    node = cluster.add(1, work=work, before=before)
    cluster.controller(3)

    assert len(node.resignations) == 1
    assert cluster.stat("/work").version == 0
    assert [each.epoch for each in node.elections] == [1, 3]
    assert node.elections[-1].foreign_epoch == 2


def test_a_lost_session_makes_the_controller_resign_before_the_next_one_is_used(cluster: Cluster) -> None:
    """What waits is dropped (K6), it resigns, registers, and only then stands (K5)."""
    cluster.witness.make("/work", brokers_path(), broker_ids_path())
    path = BrokerRegistration.path(1)
    work = Writer(1)
    first_use: list[list[str]] = []

    def register() -> Procedure[None]:
        data = BrokerRegistration("h", 9092, 1, 0).encode()
        yield from write([Create(path, data, ephemeral=True)], ())

    def before(request: Request) -> None:
        incarnation = cluster.nodes[0].client.incarnation
        if incarnation == 1 and _writes(request, "/work", SetData):
            cluster.chaos.expire_session(cluster.stat(CONTROLLER).ephemeral_owner)
        if incarnation == 2 and not first_use:
            first_use.append(list(node.resignations))

    node = cluster.add(1, work=work, prepare=register, before=before)
    cluster.controller(2)

    assert len(node.resignations) == 1
    assert first_use == [node.resignations]
    assert cluster.stat("/work").version == 0
    assert cluster.stat(path).czxid < cluster.stat(CONTROLLER).czxid


def test_a_short_disconnection_changes_nothing(cluster: Cluster) -> None:
    """The same session, the same epoch, and requests may be sent again."""
    cluster.add(1)
    cluster.add(2)
    controller = cluster.controller(1)
    cluster.chaos.cut()
    for node in cluster.nodes:
        eventually(lambda node=node: node.events.count(Connected.__name__) >= 2)
    eventually(lambda: controller.may_send)

    assert not any(node.resignations for node in cluster.nodes)
    assert sum(len(node.elections) for node in cluster.nodes) == 1
    assert cluster.epoch() == (1, 1)


def _writes(request: Request, path: str, kind: type[Operation]) -> bool:
    """Whether this is a transaction that does this to the path."""
    return isinstance(request, Multi) and any(
        isinstance(operation, kind) and operation.path == path for operation in request.operations
    )
