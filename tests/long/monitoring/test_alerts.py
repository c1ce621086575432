"""The alert rules in Prometheus, which scrapes the exporter of a cluster: each fires while it is true."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kafka import KafkaConsumer
from kazoo.client import KazooClient

from tests.long.monitoring.prometheus import Prometheus, alerting, program, prometheus
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.certificates import Authority
from tests.worlds.processes import Process
from tests.worlds.shell import Shell
from zkgroup import GroupMember
from zkgroup.exporter.alerts import ALERTS
from zkgroup.exporter.board import BOARD
from zkgroup.model import StaticSubscription, TopicPartition
from zkgroup.testing.plugin import ServerTree
from zkgroup.znodes.consumers import Offset, Registration
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.zookeeper.embedded.server import ReservedPort

QUICK = (
    *("--set", "zookeeper.session.timeout.ms=4s", "--set", "replica.lag.time.max.ms=2s"),
    *("--set", "offsets.topic.num.partitions=1"),
)

BEYOND = 1_000_000
"""An offset beyond all records."""


class Watched:
    """An ensemble of three with two brokers, their exporter with TLS, and Prometheus."""

    def __init__(self, ensemble: ServerTree, folder: Path, stack: ExitStack) -> None:
        self.ensemble, self.folder, self.address = ensemble, folder, ensemble.address
        self.shell = Shell(folder, self.address)
        self._stack = stack
        self.authority = Authority(folder)
        self.brokers: dict[int, Process] = {}
        self.seen: set[str] = set()
        """The alerts that have fired."""
        held = ReservedPort()
        self.listen = f"127.0.0.1:{held.number}"
        held.release()
        self.tree = KazooClient(self.address)
        self.tree.start(PATIENCE_S)
        stack.callback(self.tree.close)
        stack.callback(self.tree.stop)
        for broker in (1, 2):
            self.start_broker(broker)
        for topic, replicas in (("orders", "1,2"), ("pairs", "1:2")):
            self.shell.json("topic", "create", topic, "--replica-assignment", replicas)
        self.export(timedelta(days=2))
        self.prometheus: Prometheus = stack.enter_context(
            prometheus(folder, self.listen, self.authority.trust_store)
        )

    def start_broker(self, broker: int) -> None:
        words = ("broker", "run", "--id", str(broker), "--data", str(self.folder / f"b{broker}"), *QUICK)
        self.brokers[broker] = self._stack.enter_context(self.shell.start(*words))
        self.brokers[broker].until_event("registered")

    def kill_broker(self, broker: int) -> None:
        self.brokers[broker].stop(signal.SIGKILL)

    def export(self, valid: timedelta) -> None:
        """Starts an exporter whose certificate is valid so long."""
        key_store = self.authority.key_store("exporter", not_after=datetime.now(UTC) + valid)
        key_store.chmod(0o600)
        config = self.folder / "web.properties"
        config.write_text(f"ssl.keystore.location={key_store}\nssl.keystore.type=PEM\n")
        config.chmod(0o600)
        words = ("exporter", "--listen", self.listen, "--interval", "1s", "--web-config", str(config))
        self.exporter = self._stack.enter_context(self.shell.start(*words, "--connect-timeout", "2s"))
        self.exporter.until_event("ready")

    def member(self) -> GroupMember:
        return GroupMember(self.address, group="g", topics=["orders"])

    @property
    def bootstrap(self) -> list[str]:
        found = (json.loads(self.tree.get(f"/brokers/ids/{broker}")[0]) for broker in self.brokers)
        return [f"{broker['host']}:{broker['port']}" for broker in found]

    @contextmanager
    def alerting(self, *alerts: str) -> Iterator[None]:
        """They fire, until the body mends what is wrong."""
        with alerting(self.prometheus, *alerts):
            self.seen.update(alerts)
            yield

    def commit(self, group: str, offset: int, topic: str = "pairs", partition: int = 0) -> None:
        path = Offset.path(group, TopicPartition(topic, partition))
        self.tree.ensure_path(path)
        self.tree.set(path, str(offset).encode())

    def produce(self, records: int) -> None:
        ran = self.shell.run("produce", "pairs", stdin="x\n" * records)
        assert ran.code == 0, ran


@pytest.fixture(scope="session")
def installed() -> None:
    """Skips before servers are started for nothing."""
    program("prometheus")


@pytest.fixture
def watched(installed: None, zk_ensemble: ServerTree, tmp_path: Path) -> Iterator[Watched]:
    with ExitStack() as stack:
        yield Watched(zk_ensemble, tmp_path, stack)


def test_alerts_fire_and_end(watched: Watched) -> None:
    """All of them. Every query of the board is answered meanwhile."""
    queries = [query for panels in BOARD.values() for panel in panels for query in panel.queries.values()]
    with watched.alerting("ZkgroupCertificateExpires"):
        a_member_stops(watched)
        partitions_have_no_owner(watched)
        no_broker_is_the_controller(watched)
        consumers_do_not_keep_up(watched)
        brokers_are_gone(watched)
        for query in queries:
            watched.prometheus.query(query.replace("$instance", watched.listen).replace("$group", ".*"))
        zookeeper_is_away(watched)
        the_exporter_is_away(watched)
    assert watched.seen == {alert.name for alert in ALERTS}


def a_member_stops(watched: Watched) -> None:
    with watched.member() as first:
        first.wait_until_stable(PATIENCE_S)
        with watched.member() as second:
            second.wait_until_stable(PATIENCE_S)
            eventually(lambda: watched.prometheus.query("zkgroup_group_members == 2"))
        with watched.alerting("ZkgroupMemberStopped"):
            again = watched.member().start()
        again.close()
    eventually(lambda: watched.prometheus.query("zkgroup_group_members == 0"))
    with watched.alerting("ZkgroupMemberStopped"):
        watched.tree.delete("/consumers/g", recursive=True)


def partitions_have_no_owner(watched: Watched) -> None:
    """A member has registered, and claims nothing."""
    ghost = Registration.path("h", "h_ghost")
    wanted = Registration.of(StaticSubscription({"orders": 1}), 0)
    watched.tree.create(ghost, wanted.encode(), makepath=True)
    with watched.alerting("ZkgroupPartitionUnowned", "ZkgroupGroupInconsistent"):
        watched.tree.delete("/consumers/h", recursive=True)


def no_broker_is_the_controller(watched: Watched) -> None:
    """What stands in its znode names none."""
    path = ControllerRegistration.path()
    taking = watched.tree.transaction()
    taking.delete(path)
    taking.create(path, b"nobody", ephemeral=True)
    assert taking.commit() == [True, path]
    with watched.alerting("ZkgroupControllerMissing"):
        watched.tree.delete(path)


def consumers_do_not_keep_up(watched: Watched) -> None:
    """One commits nothing more, the other less than comes."""
    watched.commit("stuck", 0)
    slow = itertools.count()

    def firing() -> set[str]:
        watched.produce(3)
        watched.commit("slow", next(slow))
        return watched.prometheus.firing()

    eventually(firing, lambda found: {"ZkgroupConsumerStuck", "ZkgroupLagGrows"} <= found)
    with watched.alerting("ZkgroupConsumerStuck", "ZkgroupLagGrows"):
        for group in ("stuck", "slow"):
            watched.commit(group, BEYOND)


def brokers_are_gone(watched: Watched) -> None:
    """One, then the other, too, which leads the slot of a group of Kafka's protocol."""
    consumer = KafkaConsumer("orders", bootstrap_servers=watched.bootstrap, group_id="k")
    try:
        eventually(lambda: (consumer.poll(10), consumer.assignment())[1])
    finally:
        consumer.close()
    watched.commit("asking", 0, "orders", 1)
    eventually(lambda: watched.prometheus.query('zkgroup_group_lag{group="asking"}'))
    lost = ("ZkgroupBrokerGone", "ZkgroupPartitionOffline", "ZkgroupReadsIncomplete")
    watched.kill_broker(2)
    with watched.alerting(*lost, "ZkgroupReplicaOutOfSync"):
        watched.kill_broker(1)
        with watched.alerting("ZkgroupSlotWithoutLeader"):
            watched.start_broker(1)
            watched.start_broker(2)


def zookeeper_is_away(watched: Watched) -> None:
    """One server, then a second, and with it the quorum."""
    first, second = (watched.ensemble.server(number) for number in range(2))
    first.stop()
    with watched.alerting("ZkgroupZooKeeperServerAway"):
        second.stop()
        with watched.alerting("ZkgroupEnsembleAway"):
            first.spawn()
            second.spawn()


def the_exporter_is_away(watched: Watched) -> None:
    """With another certificate it comes back."""
    assert watched.exporter.stop() == 0
    with watched.alerting("ZkgroupExporterAway"):
        watched.export(timedelta(days=30))
