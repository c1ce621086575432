"""`zkgroup exporter` on real Kafka 0.8.2.2 and ZooKeeper 3.4.6, which has no bulk reads."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from tests.long.interop.conftest import Scene
from tests.long.interop.servers import Producer, RealBroker, RealZooKeeper
from tests.long.monitoring.prometheus import alerting, program, prometheus
from tests.pure.exporter.test_metrics import Samples, samples
from tests.waiting import PATIENCE_S, becomes, eventually
from tests.worlds.shell import Shell
from zkgroup import Admin

CHROOT = "/exporter"
WATCHED = "/prometheus"


@contextmanager
def exporting(home: Path, zookeeper: str, *options: str) -> Iterator[str]:
    """The host and port of an exporter that runs as a process."""
    words = ("exporter", "--listen", "127.0.0.1:0", "--interval", "1s", *options)
    with Shell(home, zookeeper).start(*words, fresh=True) as process:
        yield process.until_event("ready")["listen"]
        assert process.stop() == 0


@contextmanager
def exported(home: Path, zookeeper: str, *options: str) -> Iterator[Callable[[], Samples]]:
    """Reads the metrics of an exporter."""
    with exporting(home, zookeeper, *options) as listen:

        def read() -> Samples:
            with urllib.request.urlopen(f"http://{listen}/metrics", timeout=PATIENCE_S) as answer:
                return samples(answer.read())

        yield read


def test_the_lag_of_a_jvm_consumer_is_served(
    make_scene: Callable[..., Scene], producer: Producer, tmp_path: Path
) -> None:
    """It grows by the records that come while the consumer is gone, and the group is stable, then empty."""
    scene = make_scene(partitions=2)
    producer.fill(scene.topic, 2, 5)
    member = scene.start("jvm", "m")
    scene.wait_owned_by([member])
    eventually(lambda: scene.offsets() == {0: 5, 1: 5})

    def lags(found: Samples) -> list[float | None]:
        return [found.get(("zkgroup_group_lag", (scene.group, scene.topic, str(n)))) for n in range(2)]

    def state(found: Samples, name: str) -> float | None:
        return found.get(("zkgroup_group_state", (scene.group, "zookeeper", name)))

    with exported(tmp_path, scene.broker.zookeeper.address, "--include-group", scene.group) as read:
        found = eventually(read, lambda found: lags(found) == [0, 0])
        assert (state(found, "stable"), found["zkgroup_group_members", (scene.group,)]) == (1, 1)
        assert found["zkgroup_group_verdict", (scene.group, scene.topic, "0", "ok")] == 1
        assert found["zkgroup_brokers", ()] == 1
        assert found["zkgroup_zookeeper_serving", ()] == 1
        member.leave()
        producer.fill(scene.topic, 2, 3)
        found = eventually(read, lambda found: lags(found) == [3, 3])
        eventually(read, lambda found: state(found, "empty") == 1)


def test_a_killed_broker_is_missed_until_it_is_back(
    real_zookeeper: RealZooKeeper, tree: KazooClient, tmp_path: Path
) -> None:
    """Its partitions are offline and their lag is unknown; afterwards all is as before."""
    tree.ensure_path(CHROOT)
    address = real_zookeeper.address + CHROOT
    broker = RealBroker(real_zookeeper, tmp_path / "broker", 7, CHROOT)
    lag = ("zkgroup_group_lag", ("g", "orders", "0"))
    try:
        broker.wait_ready()
        with Admin(address, undo_folder=tmp_path / "undo") as admin:
            admin.create_topic("orders", partitions=1, wait_s=PATIENCE_S)
        tree.create(f"{CHROOT}/consumers/g/offsets/orders/0", b"0", makepath=True)
        with exported(tmp_path, address) as read:
            found = eventually(read, lambda found: found.get(lag) == 0)
            assert (found["zkgroup_brokers", ()], found["zkgroup_offline_partitions", ()]) == (1, 0)
            assert found["zkgroup_controller_broker", ()] == 7
            session = tree.get(f"{CHROOT}/brokers/ids/7")[1].ephemeralOwner
            broker.stop()
            real_zookeeper.end_session(session)
            found = eventually(read, lambda found: found.get(("zkgroup_brokers", ())) == 0)
            assert found["zkgroup_offline_partitions", ()] == 1
            assert ("zkgroup_controller_broker", ()) not in found
            assert lag not in found
            assert found["zkgroup_group_committed_offset", lag[1]] == 0
            broker = RealBroker(real_zookeeper, tmp_path / "broker", 7, CHROOT)
            broker.wait_ready()
            eventually(read, lambda found: found.get(lag) == 0)
    finally:
        broker.stop()


def test_alerts_of_a_lost_broker_fire_and_end(
    real_zookeeper: RealZooKeeper, tree: KazooClient, tmp_path: Path
) -> None:
    """In Prometheus, by the rules of `--rules`."""
    program("prometheus")
    tree.ensure_path(WATCHED)
    address = real_zookeeper.address + WATCHED
    broker = RealBroker(real_zookeeper, tmp_path / "broker", 7, WATCHED)
    try:
        broker.wait_ready()
        with Admin(address, undo_folder=tmp_path / "undo") as admin:
            admin.create_topic("orders", partitions=1, wait_s=PATIENCE_S)
        with exporting(tmp_path, address) as listen, prometheus(tmp_path, listen) as server:
            eventually(lambda: server.query("zkgroup_brokers == 1"))
            session = tree.get(f"{WATCHED}/brokers/ids/7")[1].ephemeralOwner
            broker.stop()
            real_zookeeper.end_session(session)
            with alerting(server, "ZkgroupBrokerGone", "ZkgroupPartitionOffline"):
                broker = RealBroker(real_zookeeper, tmp_path / "broker", 7, WATCHED)
            becomes(server.firing, set())
    finally:
        broker.stop()
