"""The metrics endpoint and the state-change log of a running broker, while a group rebalances."""

from __future__ import annotations

import asyncio
import logging
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, start_http_server

from tests.project import ROOT
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.group_services import GROUP, GroupClient
from zkgroup.broker import telemetry
from zkgroup.broker.broker import Broker
from zkgroup.broker.log.storage import MemoryStorage
from zkgroup.metrics import prometheus
from zkgroup.metrics.prometheus import PrometheusMetrics
from zkgroup.model import TopicPartition
from zkgroup.testing.kafka_cluster.cluster import FAST
from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
from zkgroup.wire import groups as wire
from zkgroup.wire.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC
from zkgroup.zookeeper.client import SystemClock

SESSION_MS = 30_000
SHORT_MS = 200
PREFIX = "zkgroup_broker_"
PARTITION = TopicPartition(OFFSETS_TOPIC, 0)
"""A partition that is there; its offset can be committed like that of any other."""


@contextmanager
def scraped_broker() -> Iterator[tuple[Broker, str]]:
    """A broker that is the controller of a cluster of its own, and the address of its metrics."""
    zookeeper = MemoryZooKeeper(SystemClock())
    registry = CollectorRegistry()
    server, thread = start_http_server(0, "127.0.0.1", registry=registry)
    data = MemoryStorage()
    data.directory_id = "a" * 32
    broker = Broker(
        client=zookeeper.client("broker-1"),
        broker=1,
        settings=replace(FAST, session_timeout_ms=SESSION_MS, group_min_session_timeout_ms=SHORT_MS),
        metrics=PrometheusMetrics(registry),
    )
    broker._memory = data
    try:
        broker.start()
        eventually(lambda: broker.serving)
        yield broker, f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        broker.close()
        zookeeper.close()
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)


def scrape(address: str) -> dict[str, float]:
    """Each sample of groups and requests, by name and its labels but the broker's: `group_count{Stable}`."""
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as response:
        text = response.read().decode()
    found: dict[str, float] = {}
    for name, labels, value in re.findall(rf"^{PREFIX}(\w+)(?:\{{(.*)\}})? (\S+)$", text, re.MULTILINE):
        rest = ",".join(each for key, each in re.findall(r'(\w+)="(.*?)"', labels) if key != "broker")
        found[f"{name}{{{rest}}}" if rest else name] = float(value)
    return found


async def client_of(broker: Broker) -> GroupClient:
    assert broker.serving is not None
    return GroupClient(*await asyncio.open_connection(*broker.serving))


async def rebalanced(broker: Broker) -> None:
    """Two members join one after the other and commit; then both leave, and a third one expires."""
    async with asyncio.timeout(PATIENCE_S):
        first, second = await client_of(broker), await client_of(broker)
        find = FindCoordinatorRequest(GROUP)
        while (await first.ask(find, FindCoordinatorResponse, 3)).error:
            await asyncio.sleep(0.01)
        while (joined := await first.join(session_ms=SESSION_MS)).error:  # the slot is loaded meanwhile
            await asyncio.sleep(0.01)
        leader = joined.member_id
        assert (await first.sync(leader, joined.generation, {leader: b"all"})).error == 0
        second.send_join(session_ms=SESSION_MS)
        while await first.beat(leader, joined.generation) == 0:
            await asyncio.sleep(0.01)
        again = await first.join(leader, session_ms=SESSION_MS)
        other = await second.receive(wire.JoinGroupResponse, version=3)
        assert isinstance(other, wire.JoinGroupResponse)
        assert (await first.sync(leader, again.generation, {leader: b"one"})).error == 0
        assert (await second.sync(other.member_id, again.generation)).error == 0
        committed = await first.commit(
            (PARTITION, 3), generation=again.generation, member_id=leader, version=7
        )
        assert committed == {PARTITION: 0}
        leaving = wire.LeaveGroupRequest(
            group=GROUP,
            members=tuple(wire.LeavingMember(member_id=each) for each in (other.member_id, leader)),
        )
        assert (await second.ask(leaving, wire.LeaveGroupResponse, 3)).error == 0
        assert (await second.join(session_ms=SHORT_MS)).error == 0
        await first.close()
        await second.close()


def test_the_endpoint_and_the_log_show_a_rebalance(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Groups by state, rebalances by reason, times of joins, heartbeats, expiries, commits and loads."""
    monkeypatch.setattr(telemetry, "COUNT_EVERY_MS", 20)
    caplog.set_level(logging.INFO, "zkgroup.state_change")
    with scraped_broker() as (broker, address):
        asyncio.run(rebalanced(broker))
        found = eventually(
            lambda: scrape(address),
            lambda found: found.get("group_members_removed_total{session}"),
            what="the session of the third member is over",
        )
        eventually(lambda: scrape(address), lambda found: found["group_count{Empty}"] == 1)

    assert {key for key in found if key.startswith("group_count")} == {
        f"group_count{{{state}}}"
        for state in ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
    }
    assert found["group_rebalances_total{join}"] == 3
    assert found["group_rebalances_total{leave}"] == 1
    assert found["group_join_seconds_count"] >= 2
    assert found["group_join_seconds_sum"] > 0
    assert found["group_sync_seconds_count"] >= 1
    assert found["group_commits_total{stored}"] == 1
    assert found["group_load_seconds_count"] >= 1
    assert found["requests_total{Heartbeat}"] >= 1
    assert found["request_seconds_count{JoinGroup}"] >= 3
    assert found["request_seconds_count{SyncGroup}"] == 3
    logged = [record.getMessage() for record in caplog.records if record.name == "zkgroup.state_change"]
    states = [re.findall(r"before=(\w+) after=(\w+)", line) for line in logged if f"group={GROUP} " in line]
    assert [state for each in states for state in each][:4] == [
        ("Empty", "PreparingRebalance"),
        ("PreparingRebalance", "CompletingRebalance"),
        ("CompletingRebalance", "Stable"),
        ("Stable", "PreparingRebalance"),
    ]
    assert any(line.startswith("slot.loaded ") for line in logged)
    assert any(line.startswith(f"member_expired group={GROUP} ") for line in logged)


def test_every_metric_on_the_page_has_a_help_text() -> None:
    """`docs/operations.md` lists them; the endpoint shows the help text."""
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^(?:- |\| )`(zkgroup_\w+)`", page, re.MULTILINE))

    assert named == set(prometheus.HELP)
