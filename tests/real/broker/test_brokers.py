"""Brokers of ours, their controller among them, on a real server behind a network that can be broken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.real.broker.server_brokers import QUICK, Cluster
from tests.waiting import PATIENCE_S, becomes, eventually
from tests.worlds.broker_requests import plain
from tests.worlds.other_clients import end_session, witness_on
from zkgroup.broker.broker import Broker
from zkgroup.broker.machine.events import (
    BrokerEffect,
    BrokerEvent,
    BrokerMachineConfig,
    Failed,
    Prepared,
    Registered,
    Serving,
)
from zkgroup.broker.machine.machine import BrokerMachine
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import BrokerIdInUseError, ForeignBrokersError
from zkgroup.model.ports import Clock
from zkgroup.model.requests import Connected, Create, SessionEvent
from zkgroup.runtime.loop import MachineLoop
from zkgroup.testing import FakeClock
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import BrokerRegistration, Endpoint, Topic
from zkgroup.znodes.cluster import ClusterId, common_parents, later_parents
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.znodes.notifications import CHANGE_AGE_MAX_MS, ConfigChange
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.client import SystemClock

PATH = BrokerRegistration.path(1)


@pytest.fixture
def cluster(zk_server: Any, witness: Blocking) -> Iterator[Cluster]:
    """No brokers yet, on a tree of its own."""
    cluster = Cluster(zk_server.address, witness)
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def behind(zk_chaos_server: ChaosZooKeeper, witness: Blocking) -> Iterator[tuple[Cluster, ChaosZooKeeper]]:
    """The same behind a network that can be broken."""
    cluster = Cluster(zk_chaos_server.address, witness)
    try:
        yield cluster, zk_chaos_server
    finally:
        zk_chaos_server.heal()
        cluster.close()


def test_a_broker_makes_chroot_and_parents(zk_server: Any) -> None:
    """The chroot level by level, then all that any tool looks for; null, as Kafka's."""
    address = zk_server.address + "/kafka/west"
    with Broker(address, broker=1, settings=QUICK) as broker:
        broker.wait_registered(PATIENCE_S)
        with witness_on(address) as zk:
            found = zk.read_many([*common_parents(), *later_parents()])
            made = zk.read(ClusterId.path())

    assert all(znode is not None and znode.data is None for znode in found.values())
    assert len(ClusterId.decode(made.path, made.data).id) == 22


@pytest.mark.parametrize("version", [1, 4, 5])
def test_a_registration_is_ephemeral_and_says_where_the_broker_is(cluster: Cluster, version: int) -> None:
    """Host, port, `jmx_port`, and the time as a text; gone when the broker is."""
    cluster.add(1, settings=BrokerSettings(registration_version=version))
    znode = cluster.zk.read(PATH)
    found = cluster.registration(1)
    assert znode.stat.ephemeral_owner
    assert znode.stat.czxid == cluster.brokers[1].epoch
    assert (found.host, found.port) == cluster.brokers[1].serving
    assert (found.version, found.jmx_port) == (version, -1)
    assert f'"timestamp":"{found.timestamp_ms}"' in (znode.data or b"").decode()
    cluster.brokers[1].close()

    assert cluster.find(PATH) is None


@pytest.mark.parametrize("data", [None, b""])
def test_null_and_empty_parents_and_markers_are_alike(cluster: Cluster, data: bytes | None) -> None:
    """Every parent is made by somebody else before, and so is the marker of a deletion."""
    for path in (*common_parents(), *later_parents()):
        cluster.zk.multi(Create(path, data))
    cluster.add(1)
    cluster.create_topic("t", (1,))
    eventually(lambda: cluster.state("t"))
    cluster.zk.multi(Create(TopicDeletion.path("t"), data))
    becomes(lambda: cluster.zk.exists(TopicDeletion.path("t")), None)

    assert cluster.zk.exists(Topic.path("t")) is None
    assert cluster.told[1].of("none")


def test_brokers_never_share_an_id_that_was_given_out(zk_server: Any) -> None:
    """Five at a time; all above 1000."""
    brokers = [Broker(zk_server.address, settings=QUICK) for _ in range(5)]
    try:
        for broker in brokers:
            broker.start()
        for broker in brokers:
            broker.wait_registered(PATIENCE_S)
        ids = {broker.broker for broker in brokers}
    finally:
        for broker in brokers:
            broker.close()

    assert len(ids) == 5
    assert min(one or 0 for one in ids) > 1000


class Machine:
    """A broker's machine on a client of its own; nothing listens and nothing is hosted."""

    def __init__(self, address: str, clock: Clock | None = None) -> None:
        self.effects: list[BrokerEffect] = []
        self.sessions: list[SessionEvent] = []
        self.client = ZooKeeperClient(address, ClientSettings(session_timeout_ms=20_000))
        self.client.listen(self.sessions.append)
        self.crashed: list[BaseException] = []
        machine = BrokerMachine(BrokerMachineConfig(broker=1, new_cluster_id=bytes(16)))
        self.loop: MachineLoop[BrokerEvent, BrokerEffect] = MachineLoop(
            machine,
            self.client,
            clock or SystemClock(),
            perform=self._perform,
            after_step=lambda: None,
            on_crash=self.crashed.append,
            name="broker-1",
        )
        self.loop.listen()
        self.loop.start()

    def _perform(self, effect: BrokerEffect) -> None:
        self.effects.append(effect)
        if isinstance(effect, Prepared):
            self.loop.post(Serving(plain("h", 9092)))

    def emitted(self, kind: type[BrokerEffect]) -> list[Any]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def close(self) -> None:
        self.loop.post(self.loop.stop)
        assert self.loop.join(PATIENCE_S)
        self.client.close()
        assert not self.crashed


def test_a_foreign_owner_is_in_the_way_and_an_own_former_session_is_not(
    behind: tuple[Cluster, ChaosZooKeeper],
) -> None:
    """The old session lives on at the server for 20 s; nobody waits for it (K37)."""
    cluster, chaos = behind
    machine = Machine(chaos.address)
    try:
        eventually(lambda: machine.emitted(Registered))
        (first,) = [event.session for event in machine.sessions if isinstance(event, Connected)]
        chaos.swallow()
        machine.client.abandon(first.incarnation, "given up by its own clock")
        chaos.heal(cut=True)
        registered = eventually(lambda: machine.emitted(Registered), lambda told: len(told) == 2)
        found = cluster.zk.read(PATH).stat
        assert found.czxid == registered[1].epoch
        assert found.ephemeral_owner != first.session_id

        with pytest.raises(BrokerIdInUseError, match=f"0x{found.ephemeral_owner:x} on host h"):
            cluster.add(1)
        assert cluster.zk.read(PATH).stat == found
        assert not machine.emitted(Failed)
    finally:
        machine.close()


def test_old_notifications_are_deleted_by_ctime(cluster: Cluster) -> None:
    """Beyond 15 minutes of the servers' time; younger ones are kept."""
    clock = FakeClock()
    machine = Machine(cluster.address, clock)
    try:
        (registered,) = eventually(lambda: machine.emitted(Registered))
        since_ms = cluster.zk.read(PATH).stat.mtime
        assert cluster.zk.read(PATH).stat.czxid == registered.epoch
        cluster.zk.create_missing("/clock")
        old = _notify(cluster)
        old_ms = cluster.zk.read(old).stat.ctime
        eventually(lambda: _server_time(cluster), lambda now_ms: now_ms > old_ms + 10)
        young = _notify(cluster)
        clock.advance(old_ms + 5 - since_ms + CHANGE_AGE_MAX_MS)
        youngest = _notify(cluster)  # which has the others looked at
        becomes(lambda: cluster.zk.exists(old), None)

        assert cluster.zk.exists(young) is not None
        assert cluster.zk.exists(youngest) is not None
    finally:
        machine.close()


def _notify(cluster: Cluster) -> str:
    return cluster.zk.multi(Create(ConfigChange.prefix(), b'"t"', sequential=True)).created[0]


def _server_time(cluster: Cluster) -> int:
    """As the server writes it down now."""
    made = cluster.zk.multi(Create("/clock/t", b"", sequential=True)).created[0]
    return cluster.zk.read(made).stat.ctime


def test_a_broker_that_leaves_hands_its_leaderships_over(cluster: Cluster) -> None:
    """5.9 among brokers and a controller of ours; the controller itself leaves last but one."""
    cluster.add(1, 2, 3)
    cluster.create_topic("t", (1, 2), (2, 3), (3, 1))
    becomes(lambda: cluster.leaders(1, "t"), [1, 2, 3])
    cluster.brokers[1].close()
    becomes(lambda: cluster.leaders(2, "t"), [2, 2, 3])
    becomes(lambda: cluster.leaders(3, "t"), [2, 2, 3])

    state = eventually(lambda: cluster.state("t"), lambda state: state is not None and state.leader == 2)
    assert state is not None
    assert state.leader == 2
    assert 1 not in state.isr


def test_watches_and_connections_at_rest(cluster: Cluster, zk_server: Any) -> None:
    """3B + T + R + 6 watches as the server counts, and a connection a broker.

    Three more are for requests that Kafka does not know: to resign, unclean elections, stored plans. And each
    broker watches for the number of slots of group coordinators.
    """
    becomes(lambda: _counted(zk_server), (0, 2))
    cluster.add(1, 2, 3)
    for topic in ("t", "u"):
        cluster.create_topic(topic, (1, 2))
    eventually(lambda: cluster.state("t") and cluster.state("u"))

    at_rest = (4 * 3 + 2 + 6 + 3, 3 + 2)
    becomes(lambda: _counted(zk_server), at_rest)


def _counted(zk_server: Any) -> tuple[int, int]:
    """Watches, and connections with that of the question itself."""
    lines = dict(line.split("\t") for line in zk_server.server(0).ask("mntr").splitlines() if "\t" in line)
    return int(lines["zk_watch_count"]), int(lines["zk_num_alive_connections"])


def test_without_zookeeper_brokers_serve_on_and_converge_when_it_is_back(
    behind: tuple[Cluster, ChaosZooKeeper],
) -> None:
    """Until every session has ended: the cluster is as it was when ZooKeeper is back."""
    cluster, chaos = behind
    cluster.add(1, 2)
    cluster.create_topic("t", (1, 2), (2, 1))
    for broker in (1, 2):
        becomes(lambda broker=broker: cluster.leaders(broker, "t"), [1, 2])
    epochs = {broker: cluster.brokers[broker].epoch for broker in (1, 2)}
    chaos.cut(refuse=True)
    ephemerals = (PATH, BrokerRegistration.path(2), ControllerRegistration.path())
    port = int(chaos.direct_address.partition("/")[0].rpartition(":")[2])
    for session in {cluster.zk.read(path).stat.ephemeral_owner for path in ephemerals}:
        end_session(session, port)
    eventually(lambda: _serves(cluster) and not any(map(cluster.find, ephemerals)))
    for broker in (1, 2):
        eventually(lambda broker=broker: _serves(cluster) and cluster.told[broker].of("disconnected"))
    chaos.heal()

    eventually(lambda: all(cluster.brokers[one].epoch not in (None, epochs[one]) for one in epochs))
    eventually(lambda: cluster.find(ControllerRegistration.path()))
    for partition in (0, 1):
        becomes(lambda one=partition: sorted(cluster.isr("t", one)), [1, 2])
    eventually(lambda: cluster.leaders(1, "t"), lambda leaders: {*leaders} <= {1, 2})


def _serves(cluster: Cluster) -> bool:
    assert cluster.leaders(1, "t") == [1, 2]
    assert cluster.leaders(2, "t") == [1, 2]
    return True


def test_a_zkgroup_broker_does_not_join_brokers_of_kafka(cluster: Cluster) -> None:
    """Exit code 6, naming them (recipes 15)."""
    real = BrokerRegistration.of([Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT")], timestamp_ms=1)
    for path in common_parents():
        cluster.zk.create_missing(path)
    cluster.zk.multi(Create(BrokerRegistration.path(4), real.encode(), ephemeral=True))
    with pytest.raises(ForeignBrokersError, match="brokers of Kafka are registered: 4;"):
        cluster.add(1)
    assert cluster.find(PATH) is None
