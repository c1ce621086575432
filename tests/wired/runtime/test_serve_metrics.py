"""`serve_metrics`: what supervisors see of members and brokers over their lives, by HTTP and by sd_notify."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tests.waiting import PATIENCE_S, becomes, eventually, joined, next_like, next_of
from tests.worlds.public_apis import MemberWorld, settings
from tests.worlds.service_manager import service_manager
from tests.worlds.unhurried import kafka_cluster as kafka_cluster
from zkgroup import GroupMember
from zkgroup.broker import AsyncBroker, ControllerOnly, probing
from zkgroup.errors import ConfigError
from zkgroup.metrics import PrometheusMetrics, serve_metrics, systemd
from zkgroup.metrics.serving import MetricsServer
from zkgroup.testing import KafkaCluster, MemoryZooKeeper
from zkgroup.zookeeper.client import SystemClock


def get(server: MetricsServer, path: str) -> tuple[int, str]:
    assert server.address is not None
    connection = http.client.HTTPConnection(*server.address, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def state(server: MetricsServer, path: str) -> tuple[int, str]:
    """The status, and the reasons as one text."""
    status, body = get(server, path)
    found = json.loads(body)
    assert found["ok"] is (status == 200) is not bool(found["reasons"])
    return status, "; ".join(found["reasons"])


def test_a_member_over_its_life() -> None:
    """Healthy from its creation to its end, but for the time without a lease; ready with its share."""
    world, registry = MemberWorld(), CollectorRegistry()
    member = GroupMember(
        client=world.client("a"),
        group="g",
        topics=["orders"],
        settings=settings(consumer_id="a"),
        metrics=PrometheusMetrics(registry),
        clock=world.clock,
    )
    with serve_metrics(member, registry=registry) as server:
        assert state(server, "/healthz") == (200, "")
        assert state(server, "/readyz") == (503, "a member of g: not started")
        with member:
            member.wait_until_assigned(PATIENCE_S)
            assert state(server, "/readyz") == (200, "")
            assert 'zkgroup_partitions_owned{group="g",member="g_a"} 4.0' in get(server, "/metrics")[1]
            world.server.suspend("a")
            world.until(lambda: state(server, "/healthz")[0] == 503)
            assert "its lease has ended" in state(server, "/readyz")[1]
            world.server.resume("a")
            world.until(lambda: state(server, "/readyz") == (200, ""))
        assert state(server, "/healthz") == (200, "")
        assert state(server, "/readyz") == (503, "member g_a: leaves its group")
        assert get(server, "/other") == (404, "404 Not Found: there are /healthz /metrics /readyz\n")


def test_a_broker_over_its_life(kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ready once it is registered and has loaded what it leads; healthy while its threads answer."""
    broker = kafka_cluster.broker(1)
    life = broker._lifecycle
    assert life is not None
    assert life.network is not None
    assert life._controller is not None
    held = threading.Event()
    with serve_metrics(broker) as server:
        eventually(lambda: state(server, "/readyz"), (200, "").__eq__)
        life._controller.is_loading = True
        becomes(lambda: state(server, "/readyz")[1], "broker 1: is the controller, and loads the cluster")
        loading = life.network._groups.loading
        monkeypatch.setattr(life.network._groups, "loading", lambda: [3, 1])
        becomes(lambda: state(server, "/readyz")[1], "broker 1: loads the groups of 2 slots: 1, 3")
        monkeypatch.setattr(life.network._groups, "loading", loading)
        life._controller.is_loading = False
        life.thread.call(held.wait, PATIENCE_S)
        monkeypatch.setattr(probing, "ANSWER_S", 0.1)
        silent = (503, "broker 1: no answer within 0.1 s from its network")
        becomes(lambda: state(server, "/healthz"), silent)  # another part may be late as well
        held.set()
        eventually(lambda: state(server, "/healthz"), (200, "").__eq__)
        kafka_cluster.stop(1)
        assert state(server, "/healthz") == (200, "")
        assert state(server, "/readyz") == (503, "broker 1: leaves the cluster")


def test_a_controller_alone_is_ready_with_a_session() -> None:
    """It is active or waits for its turn."""
    server = MemoryZooKeeper(SystemClock())
    controller = ControllerOnly(client=server.client("c"), broker=100)
    with serve_metrics(controller) as served:
        assert served.not_ready() == ("controller 100: not started",)
        with controller:
            eventually(served.not_ready, ().__eq__)
            server.suspend("c")
            eventually(served.not_ready, ("controller 100: has no ZooKeeper session",).__eq__)
            assert served.not_healthy() == ()
            server.resume("c")
            eventually(served.not_ready, ().__eq__)
        assert served.not_ready() == ("controller 100: leaves the cluster",)


def test_in_a_program_of_asyncio() -> None:
    """The server has threads of its own, and its end keeps the event loop free."""

    async def program() -> tuple[str, ...]:
        async with serve_metrics(AsyncBroker("127.0.0.1:1", broker=1), notify=False) as server:
            answer = await asyncio.to_thread(get, server, "/healthz")
            assert answer[0] == 200
            return server.not_ready()

    assert asyncio.run(program()) == ("a broker: not started",)


def test_what_cannot_be_served_is_refused() -> None:
    """A part that is none, and an address that is in use; nothing is left behind."""
    with pytest.raises(ConfigError, match="expected members, consumers and brokers of zkgroup, found 'x'"):
        serve_metrics("x")  # type: ignore[arg-type]
    with serve_metrics() as first:
        assert first.address is not None
        with pytest.raises(ConfigError, match="cannot listen there"):
            serve_metrics(port=first.address[1])


@pytest.mark.parametrize("is_abstract", [False, True], ids=["path", "abstract"])
def test_systemd_is_notified(is_abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a socket with a path or an abstract name; of the watchdog only where it asks this process."""
    path = str(tmp_path / "notify")
    world = MemberWorld()
    member = GroupMember(client=world.client("a"), group="g", topics=["orders"], settings=settings())
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{path}" if is_abstract else path)
    monkeypatch.setenv("WATCHDOG_USEC", "10000")
    monkeypatch.setattr(systemd, "PERIOD_S", 0.01)
    if is_abstract:
        monkeypatch.setenv("WATCHDOG_PID", "1")
    address = f"\0{path}" if is_abstract else path
    with service_manager(address) as notices, serve_metrics(member, port=None) as server:
        assert server.address is None
        first = next_of(notices)
        assert first[0] == "STATUS=a member of g: not started"
        assert ("WATCHDOG=1" in first) is not is_abstract
        with member:
            ready = next_like(notices, lambda found: "READY=1" in found)
            assert ready[1].endswith("stable, owns 4 partitions")
        next_like(notices, lambda found: "STOPPING=1" in found)


def test_a_manager_that_does_not_read_is_waited_for_but_not_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past bug: a process could not end as long as its manager read nothing."""
    path = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    monkeypatch.setattr(systemd, "SEND_S", 0.01)
    part = GroupMember(client=MemberWorld().client("a"), group="g", topics=["orders"], settings=settings())
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other,
    ):
        listening.bind(path)
        other.setblocking(False)
        for is_read in (True, False):
            with suppress(BlockingIOError):
                while True:
                    other.sendto(b"", path)
            server = serve_metrics(part, port=None)
            while is_read and listening.recv(4096) != b"STATUS=a member of g: not started":
                pass
            closing = threading.Thread(target=server.close, daemon=True)
            closing.start()
            joined(closing)


def test_a_manager_that_is_gone_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The service goes on; kinds of addresses that are not known are left alone."""
    for address in (str(tmp_path / "nothing"), "vsock:2:1234"):
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        with serve_metrics(port=None) as server:
            assert server.not_healthy() == ()
