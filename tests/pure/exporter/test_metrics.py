"""The text that Prometheus gets: the names of the contract, unknown values absent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.project import ROOT
from tests.pure.exporter.conftest import LEADER
from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.exporter.metrics import HELP, render
from zkgroup.exporter.reading import EnsembleReading, Reader, ReadingSettings
from zkgroup.groups.lag_verdict import LagWindows
from zkgroup.model import TopicPartition
from zkgroup.zookeeper.four_letter_words import ServerStatus

Samples = Mapping[tuple[str, tuple[str, ...]], float]


def samples(text: bytes) -> Samples:
    """Name and values of the labels to the value, as Prometheus's own parser reads them."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def rendered(reading: EnsembleReading | None, errors: int = 0, now_ms: int = 0) -> Samples:
    return samples(render(reading, errors, now_ms))


def test_before_the_first_read_there_are_only_errors() -> None:
    """Everything else is unknown."""
    assert rendered(None, 3) == {("zkgroup_exporter_errors_total", ()): 3}
    away = EnsembleReading(time_ms=1, took_s=10.0, unknown=("ZooKeeper could not be reached",))
    assert rendered(away, 4) == {
        ("zkgroup_exporter_errors_total", ()): 4,
        ("zkgroup_exporter_read_seconds", ()): 10,
    }


def test_a_group_has_the_samples_of_the_contract(world: MemoryGroups) -> None:
    """State, members, unowned partitions and problems; offsets with lag and age where they are known.

    An offset of -1 is none, a partition without a log end has no lag, a claim is no commit.
    """
    MemoryCluster(world).topic("orders", (1, 2), (2, 3))
    world.member("g", "m", {"orders": 1})
    world.own("g", "orders", 0, "g_m-0")
    world.commit("g", "clicks", 0, 40)
    world.commit("g", "clicks", 1, 7)
    world.commit("g", "clicks", 2, -1)
    world.clock.advance(60_000)
    ends, sent = {TopicPartition("clicks", 0): 42}, iter((7, 12))
    reading = Reader(
        world.ensemble,
        ReadingSettings(),
        LagWindows(),
        log_ends=lambda partitions: ends,
        packets=lambda: next(sent),
    ).read()

    found = rendered(reading, now_ms=world.clock.wall_ms())

    start = "zkgroup_group_"
    of_group = {
        (name.removeprefix(start), labels[1:]): value
        for (name, labels), value in found.items()
        if name.startswith(start)
    }
    expected: dict[tuple[str, tuple[str, ...]], Any] = {
        **{("state", ("zookeeper", state)): 0 for state in ("empty", "stable", "rebalancing", "frozen")},
        ("state", ("zookeeper", "inconsistent")): 1,
        ("members", ()): 1,
        ("unowned_partitions", ()): 1,
        ("problems", ("unowned",)): 1,
        ("committed_offset", ("clicks", "0")): 40,
        ("committed_offset", ("clicks", "1")): 7,
        ("log_end_offset", ("clicks", "0")): 42,
        ("lag", ("clicks", "0")): 2,
        ("seconds_since_commit", ("clicks", "0")): 60,
        ("seconds_since_commit", ("clicks", "1")): 60,
    }
    assert of_group == expected
    assert {
        name: value for (name, labels), value in found.items() if not labels and "exporter" not in name
    } == {
        "zkgroup_brokers": 3,
        "zkgroup_controller_broker": 1,
        "zkgroup_offline_partitions": 0,
        "zkgroup_under_replicated_partitions": 0,
        "zkgroup_reassignments": 0,
    }
    assert found["zkgroup_exporter_read_packets", ()] == 5


def test_a_verdict_is_a_label(world: MemoryGroups) -> None:
    """A partition without lag is ok."""
    world.commit("g", "orders", 0, 5)
    ends = {TopicPartition("orders", 0): 5}
    reading = Reader(world.ensemble, ReadingSettings(), LagWindows(), log_ends=lambda partitions: ends).read()

    assert rendered(reading)["zkgroup_group_verdict", ("g", "orders", "0", "ok")] == 1


def test_servers_are_counted_where_they_report() -> None:
    """One server is silent: it does not serve. Of counts of the whole ensemble the largest is shown."""
    behind = ServerStatus(server="b:1", by="mntr", mode="follower", znodes=8)
    silent = ServerStatus(server="c:1", by=None, reason="refused")
    found = rendered(EnsembleReading(time_ms=1, took_s=0.0, servers=(LEADER, behind, silent)))

    assert {
        (name[8:], labels): value for (name, labels), value in found.items() if "exporter" not in name
    } == {
        ("znodes", ()): 9,
        ("zookeeper_data_bytes", ()): 70,
        ("zookeeper_servers", ()): 3,
        ("zookeeper_serving", ()): 2,
        ("zookeeper_synced_followers", ()): 1,
        ("zookeeper_watches", ("a:1",)): 3,
        ("zookeeper_connections", ("a:1",)): 2,
        ("zookeeper_latency_seconds", ("a:1",)): 0.0015,
    }


def test_names_of_groups_and_topics_are_escaped(world: MemoryGroups) -> None:
    """Clients choose them; none can forge a sample."""
    name = 'g"} 7\\x'
    world.commit(name, "orders", 0, 5)
    reading = Reader(world.ensemble, ReadingSettings(), LagWindows()).read()

    found = rendered(reading)

    assert found["zkgroup_group_committed_offset", (name, "orders", "0")] == 5
    assert found["zkgroup_group_members", (name,)] == 0


def test_every_metric_has_a_help_text_and_is_on_the_page(everything: bytes) -> None:
    """Neither names another."""
    helped = set(re.findall(r"^# HELP (\w+)", everything.decode(), re.MULTILINE))
    page = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    assert helped == {name for name, _ in samples(everything)} == set(HELP)
    assert set(re.findall(r"^\| `(zkgroup_\w+)`", page, re.MULTILINE)) == set(HELP)
