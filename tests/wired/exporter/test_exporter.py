"""The exporter on brokers and ZooKeeper in memory: it reads whatever happens, and serves what it knows."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer
from zkgroup_cli.commands.live import LIVE, live

from tests.pure.exporter.test_metrics import Samples, samples
from tests.waiting import PATIENCE_S, eventually, happened
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.processes import violations
from tests.worlds.stores import ServerlessStore
from tests.worlds.unhurried import unhurried
from zkgroup import Admin
from zkgroup.errors import ConfigError, StoreUnavailableError
from zkgroup.exporter import reading as readings
from zkgroup.exporter.exporter import EnsembleConnection, Exporter, ExporterSettings
from zkgroup.exporter.reading import ReadingSettings
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.reads import LogEndReader
from zkgroup.metrics.probes import not_healthy, not_ready
from zkgroup.model import TopicPartition
from zkgroup.security.client import BrokerAccess
from zkgroup.testing import ClusterSecurity, KafkaCluster, MemoryZooKeeper
from zkgroup.znodes.consumers import Offset
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.client import SystemClock
from zkgroup.zookeeper.four_letter_words import ServerStatus
from zkgroup.zookeeper.settings import Address

OFTEN_MS = 20
SOON_S = 0.5
"""Longest wait of a read for ZooKeeper, where it is away."""


def opening(zookeeper: MemoryZooKeeper) -> Callable[[], EnsembleConnection]:
    """Opens a client each time."""
    numbers = itertools.count()

    def opened() -> EnsembleConnection:
        client = zookeeper.client(f"exporter-{next(numbers)}")
        return EnsembleConnection(ensemble_on(client), lambda: None, client.close)

    return opened


def ensemble_on(store: Any) -> Ensemble:
    return Ensemble(zk=Blocking(store, timeout_s=SOON_S), clock=SystemClock())


@contextmanager
def exporting(
    connect: Callable[[], EnsembleConnection], reading: ReadingSettings | None = None, **options: Any
) -> Iterator[Exporter]:
    settings = ExporterSettings(interval_ms=OFTEN_MS, reading=reading or ReadingSettings())
    with Exporter(connect, settings, live, **options) as exporter:
        yield exporter


def get(exporter: Exporter, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*exporter.address, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def metrics(exporter: Exporter) -> Samples:
    status, body = get(exporter, "/metrics")
    assert status == 200
    return samples(body)


def commit(cluster: KafkaCluster, group: str, topic: str, partition: int, offset: int) -> None:
    path = Offset.path(group, TopicPartition(topic, partition))
    cluster.zookeeper.put(path, str(offset).encode())


def test_a_dead_leader_costs_only_its_partitions(kafka_cluster: KafkaCluster) -> None:
    """Its log ends are absent, and with them the lag; those of the others stay. Once another leads, all are
    there again. `/api/snapshot` says why something was not known; of a topic that was deleted nothing is."""
    kafka_cluster.create_topic("orders", partitions=3, replication_factor=1)
    for partition in range(3):
        kafka_cluster.wait_for_leader("orders", partition)
        commit(kafka_cluster, "g", "orders", partition, 0)
    commit(kafka_cluster, "g", "deleted", 0, 7)
    with exporting(opening(kafka_cluster.zookeeper)) as exporter:
        lags = {("zkgroup_group_lag", ("g", "orders", str(partition))): 0.0 for partition in range(3)}
        eventually(lambda: lags.items() <= metrics(exporter).items())
        assert unknown(exporter) == []
        dead = kafka_cluster.leader("orders", 1)
        assert dead is not None
        kafka_cluster.kill(dead)

        gone = ("zkgroup_group_lag", ("g", "orders", "1"))
        eventually(lambda: gone not in metrics(exporter))
        found = metrics(exporter)

        assert {key: value for key, value in found.items() if key in lags} == {
            key: value for key, value in lags.items() if key != gone
        }
        assert found["zkgroup_group_committed_offset", ("g", "orders", "1")] == 0
        assert found["zkgroup_exporter_errors_total", ()] > 0
        document = json.loads(get(exporter, "/api/snapshot")[1])
        assert not violations(document, LIVE.schema)
        assert any(
            one["reason"].startswith("log ends of 1 partition, orders-1: ") for one in document["unknown"]
        )
        kafka_cluster.restart(dead)
        eventually(lambda: lags.items() <= metrics(exporter).items())


def test_an_ensemble_that_is_away_makes_everything_unknown_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exporter neither ends nor shows what was; it stays healthy, as to restart it mends nothing. What
    servers say of themselves is shown."""
    silent = ServerStatus(server="a:1", by=None, reason="not currently serving requests")
    monkeypatch.setattr(readings, "ask_server", lambda *server, **options: silent)
    asked = ReadingSettings(servers=Address.parse("a:1,b:1"))
    world = MemoryGroups()
    world.commit("g", "orders", 0, 5)
    offset = ("zkgroup_group_committed_offset", ("g", "orders", "0"))
    reached, is_away = opening(world.server), False

    def connect() -> EnsembleConnection:
        return (
            EnsembleConnection(ensemble_on(ServerlessStore()), lambda: None, lambda: None)
            if is_away
            else reached()
        )

    with exporting(connect, reading=asked) as exporter:
        eventually(lambda: metrics(exporter).get(offset) == 5)
        is_away = True
        world.server.cut("exporter-0")

        eventually(lambda: offset not in metrics(exporter))
        found = metrics(exporter)
        assert {name for name, _ in found} == {
            "zkgroup_exporter_errors_total",
            "zkgroup_exporter_read_seconds",
            "zkgroup_zookeeper_servers",
            "zkgroup_zookeeper_serving",
        }
        assert (found["zkgroup_zookeeper_servers", ()], found["zkgroup_zookeeper_serving", ()]) == (2, 0)
        status, body = get(exporter, "/healthz")
        assert (status, json.loads(body)["ok"], json.loads(body)["is_known"]) == (200, True, False)
        document = json.loads(get(exporter, "/api/snapshot")[1])
        assert not violations(document, LIVE.schema)
        assert (document["as_of"], document["groups"], document["brokers"]) == (None, [], None)

        is_away = False
        eventually(lambda: metrics(exporter).get(offset) == 5)
    for client in list(world.server.clients.values()):
        client.close()


def test_no_error_ends_it() -> None:
    """Neither one that ends the client for good nor one that nobody has thought of: it reads again."""
    world = MemoryGroups()
    world.commit("g", "orders", 0, 5)
    faults: list[Exception] = [ZeroDivisionError("a fault"), OSError("no descriptor")]
    open_one = opening(world.server)

    def connect() -> EnsembleConnection:
        if faults:
            raise faults.pop()
        return open_one()

    with exporting(connect) as exporter:
        found = eventually(lambda: metrics(exporter), lambda found: len(found) > 2)
        assert found["zkgroup_exporter_errors_total", ()] == 2
    for client in list(world.server.clients.values()):
        client.close()


def test_one_group_is_shown_whole() -> None:
    """With members, partitions and problems, as `group describe` prints it; others only as rows."""
    world = MemoryGroups()
    world.topic("orders", 2)
    world.member("g", "m", {"orders": 1})
    world.own_as_planned("g")
    with exporting(opening(world.server)) as exporter:
        eventually(lambda: exporter.reading)
        status, body = get(exporter, "/api/snapshot?group=g")
        missing, error = get(exporter, "/api/snapshot?group=other")
    document = json.loads(body)
    assert status == 200
    assert not violations(document, LIVE.schema)
    assert [row["owner"] for row in document["group"]["partitions"]] == ["g_m-0", "g_m-0"]
    assert [(row["group"], row["verdict"]) for row in document["groups"]] == [("g", None)]
    assert (missing, json.loads(error)) == (404, {"error": "there is no group 'other', or it is not read"})
    for client in list(world.server.clients.values()):
        client.close()


def test_a_read_that_hangs_is_not_healthy(caplog: pytest.LogCaptureFixture) -> None:
    """It is the one fault that a restart mends. Before the first read ends, there is nothing to show; that it
    is ended by the close is no news."""
    going, hanging = threading.Event(), threading.Event()

    class Hanging(Blocking):
        def find(self, path: str) -> None:
            hanging.set()
            happened(going)
            raise StoreUnavailableError("closed")

    class Later(SystemClock):
        late_ms = 0

        def now_ms(self) -> int:
            return super().now_ms() + self.late_ms

    later = Later()
    ensemble = Ensemble(zk=Hanging(ServerlessStore()), clock=later)
    with exporting(lambda: EnsembleConnection(ensemble, lambda: None, going.set), clock=later) as exporter:
        happened(hanging)
        assert get(exporter, "/healthz")[0] == 200
        assert get(exporter, "/api/snapshot")[0] == 503
        assert not_ready([exporter._probe()]) == ("exporter: nothing has been read yet",)
        later.late_ms = 61_000
        status, body = get(exporter, "/healthz")
        assert (status, json.loads(body)["ok"]) == (503, False)
        assert not_healthy([exporter._probe()]) == ("exporter: a read hangs",)
    assert caplog.text == ""


def test_a_source_that_cannot_be_opened_costs_the_log_ends_until_it_is_there() -> None:
    """Past bug: where its folder was not mounted, nothing was known of any group, as without ZooKeeper."""
    zookeeper, is_there = MemoryZooKeeper(), threading.Event()
    zookeeper.put(Offset.path("g", TopicPartition("orders", 0)), b"5")

    @contextmanager
    def log_ends(ensemble: Ensemble) -> Iterator[LogEndReader]:
        if not is_there.is_set():
            raise ConfigError("/records: no folder")
        yield lambda partitions: dict.fromkeys(partitions, 7)

    lag = ("zkgroup_group_lag", ("g", "orders", "0"))
    with exporting(opening(zookeeper), log_ends=log_ends) as exporter:
        eventually(lambda: exporter.reading)
        found = metrics(exporter)
        assert (lag in found, found["zkgroup_group_committed_offset", lag[1]]) == (False, 5)
        assert unknown(exporter) == ["/records: no folder"]
        is_there.set()
        eventually(lambda: metrics(exporter).get(lag) == 2)
        assert unknown(exporter) == []


def test_a_closed_cluster_tells_what_the_user_may_know(
    kafka_cluster_factory: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    """Log ends and members need rights at the brokers, offsets do not. A login that is refused costs the same
    and is told. It is known until when the broker's certificate is valid."""
    security = ClusterSecurity(
        users={"ada": "a", "root": "r"}, mechanism="SCRAM-SHA-512", authorizer=True, super_users=["root"]
    )
    cluster = kafka_cluster_factory(1, security=security, settings=unhurried())
    cluster.create_topic("orders")
    commit(cluster, "g", "orders", 0, 0)
    options = cluster.client_security("root").kafka_python_options()
    consumer = KafkaConsumer("orders", bootstrap_servers=cluster.bootstrap_servers, group_id="k", **options)
    eventually(lambda: (consumer.poll(10), consumer.assignment())[1])
    reached = opening(cluster.zookeeper)

    def connect(password: str | None = None) -> EnsembleConnection:
        access = BrokerAccess(security=cluster.client_security("ada", password=password))
        opened = reached()
        return opened._replace(ensemble=replace(opened.ensemble, access=access))

    lag, members = ("zkgroup_group_lag", ("g", "orders", "0")), ("zkgroup_group_members", ("k",))
    with (
        exporting(connect) as exporter,
        Admin(client=cluster.zookeeper.client("admin"), undo_folder=tmp_path) as admin,
    ):
        eventually(lambda: exporter.reading)
        assert {reason.partition("its broker")[0] for reason in unknown(exporter)} == {
            "log ends of 1 partition, orders-0: not authorized: ",
            "what the coordinator of k reports is not known: not authorized: ",
        }
        found = metrics(exporter)
        assert (lag in found, found["zkgroup_group_committed_offset", lag[1]]) == (False, 0)
        admin.add_acls("User:ada", "describe", topics=["orders"], groups=["k"])
        eventually(lambda: unknown(exporter) == [])
        found = metrics(exporter)
        assert (found[lag], found[members]) == (0, 1)
    assert found["zkgroup_certificate_expiry_timestamp_seconds", ("broker 1",)] > time.time()
    with exporting(lambda: connect("guessed")) as exporter:
        eventually(lambda: exporter.reading)
        found = metrics(exporter)
        assert ["ada" in reason for reason in unknown(exporter)] == [True, True]
    consumer.close()
    assert (lag in found, found["zkgroup_group_committed_offset", lag[1]], found[members]) == (False, 0, 1)


def unknown(exporter: Exporter) -> list[str]:
    return [one["reason"] for one in json.loads(get(exporter, "/api/snapshot")[1])["unknown"]]
