"""What the demo of brokers sees of a cluster, and of the brokers' folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.worlds.memory_groups import MemoryGroups
from zkgroup.broker.log.checkpoints import HIGH_WATERMARK
from zkgroup.broker.log.data_dir import DataDir
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.replica_view import Role
from zkgroup.demo.brokers import worker
from zkgroup.demo.brokers.demo_cluster import (
    EMPTY_CLUSTER,
    ClusterState,
    PartitionReplicas,
    high_watermark,
    read_cluster,
    values_of,
)
from zkgroup.demo.brokers.worker import BrokerChildSettings, decode_settings, encode_settings
from zkgroup.demo.flight_data import TOPIC
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.wire.record_batch import Record, build_batch
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration

WHOLE = PartitionReplicas((1, 2, 3), 1, 0, (1, 2, 3))


def test_nothing_is_seen_where_nothing_is(world: MemoryGroups) -> None:
    """Before there is a controller, a broker and a topic."""
    assert read_cluster(world.ensemble, 2) == EMPTY_CLUSTER
    assert not EMPTY_CLUSTER.is_led


def test_cluster_is_seen_with_controller_leaders_and_moves(world: MemoryGroups) -> None:
    """A partition without state has no leader; leader -1 means none."""
    moved = TopicPartition(TOPIC, 1)
    zk = world.ensemble.zk
    zk.create_missing("/brokers", "/brokers/ids", "/brokers/topics", "/admin")
    zk.create_missing("/brokers/ids/1", "/brokers/ids/4", "/brokers/ids/odd")
    zk.multi(
        Create(ControllerRegistration.path(), ControllerRegistration(4, 1).encode()),
        Create(ControllerEpoch.path(), b"7"),
        Create(Topic.path(TOPIC), Topic({0: (1, 2), 1: (4, 1), 2: (1,)}).encode()),
        Create(Reassignment.path(), Reassignment((Move(moved, (1, 2)),)).encode()),
        Create(Topic.partitions_path(TOPIC), None),
        *(Create(Topic.partition_path(TopicPartition(TOPIC, n)), None) for n in (0, 1)),
        Create(PartitionState.path(TopicPartition(TOPIC, 0)), PartitionState(1, 5, (1, 2), 7).encode()),
        Create(PartitionState.path(moved), PartitionState(-1, 6, (4,), 7).encode()),
    )
    seen = read_cluster(world.ensemble, 3)

    assert (seen.controller, seen.controller_epoch, seen.open_moves) == (4, 7, 1)
    assert seen.registered == {1, 4}
    assert seen.partitions == {
        0: PartitionReplicas((1, 2), 1, 5, (1, 2)),
        1: PartitionReplicas((4, 1), None, 6, (4,)),
        2: PartitionReplicas((1,), None, -1, ()),
    }
    assert (seen.leads(1), seen.hosts(1), seen.in_sync(1)) == (1, 3, 1)


def test_cluster_is_whole_when_all_is_led_and_in_sync() -> None:
    """By a leader that is registered, with every replica in the ISR."""
    alive = frozenset({1, 2, 3})

    assert ClusterState(registered=alive, partitions={0: WHOLE}).is_whole
    behind = PartitionReplicas((1, 2, 3), 1, 0, (1, 2))
    assert not ClusterState(registered=alive, partitions={0: behind}).is_whole
    assert not ClusterState(registered=alive - {1}, partitions={0: WHOLE}).is_whole
    assert not ClusterState(registered=alive).is_whole


def test_files_of_a_replica_are_read(tmp_path: Path) -> None:
    """Its high watermark while it lives, its records afterwards; nothing where it has no file."""
    data_dir = DataDir.on_disk(tmp_path, 1, None, LogConfig(), lambda: 1_000)
    log = data_dir.create(TopicPartition(TOPIC, 0), 0)
    log.append_as_leader(
        build_batch([Record(n, 1, None, value) for n, value in enumerate((b"a", b"", b"b"))]), 0, 1
    )
    log.keep_high_watermark(2)
    data_dir.create(TopicPartition(TOPIC, 1), None)
    data_dir.create(TopicPartition(TOPIC, 2), 0)
    data_dir.close()
    (tmp_path / f"{TOPIC}-2" / HIGH_WATERMARK).write_text("")

    assert values_of(tmp_path, 0) == (b"a", b"", b"b")
    assert values_of(tmp_path, 1) == ()
    assert [high_watermark(tmp_path, number) for number in range(4)] == [2, 0, 0, 0]


def test_leaderships_of_a_broker_are_of_the_topics_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients create topics of their own, whose partitions have the same numbers."""
    printed = tmp_path / "printed"
    with printed.open("wb") as file:
        monkeypatch.setattr("sys.stdout", file)
        listener = worker.BrokerEventPrinter()
        listener.on_role(TopicPartition(TOPIC, 3), Role.LEADER, 0)
        listener.on_role(TopicPartition("clients", 3), Role.LEADER, 0)
        listener.on_role(TopicPartition(TOPIC, 4), Role.FOLLOWER, 0)
    child = worker.BrokerChild.__new__(worker.BrokerChild)
    child.terms = []
    for line in printed.read_bytes().splitlines():
        child.apply_event(json.loads(line))

    assert child.terms == [(TopicPartition(TOPIC, 3), 0), (TopicPartition("clients", 3), 0)]


def test_orders_of_a_broker_are_taken_as_they_were_given() -> None:
    """One line on a pipe."""
    child_settings = BrokerChildSettings(3, "127.0.0.1:2181", "folder", 4_000)

    assert encode_settings(child_settings).count(b"\n") == 1
    assert decode_settings(encode_settings(child_settings)) == child_settings
    assert child_settings.settings().session_timeout_ms == 4_000
