"""DescribeLogDirs and AlterReplicaLogDirs at a broker's port: one folder, with all replicas."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.kafka_clients import KafkaPython, KafkaRecord
from tests.worlds.running_brokers import ask
from zkgroup.model import TopicPartition
from zkgroup.testing import KafkaCluster
from zkgroup.wire.log_dirs import (
    AlteredLogDir,
    AlteredReplica,
    AlteredReplicaTopic,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    LogDirTopic,
    ReplicaInLogDir,
    TopicInLogDir,
)


def _port(cluster: KafkaCluster) -> int:
    return int(cluster.address(1).rpartition(":")[2])


@pytest.mark.parametrize("version", range(3))
def test_the_folder_is_described_with_the_sizes_of_its_replicas(
    kafka_cluster: KafkaCluster, version: int
) -> None:
    """All of them, or those that are asked for; the size is that of the segments."""
    kafka_cluster.create_topic("orders", 2, replication_factor=3)
    (offset,) = KafkaPython().send(
        kafka_cluster.bootstrap_servers, TopicPartition("orders", 0), [KafkaRecord(b"1")]
    )
    assert offset == 0

    def described(*topics: LogDirTopic) -> tuple[LogDir, ...]:
        request = DescribeLogDirsRequest(topics or None)
        return ask(_port(kafka_cluster), request, DescribeLogDirsResponse, version=version).log_dirs

    (log_dir,) = described()
    orders = next(one for one in log_dir.topics if one.topic == "orders")
    sizes = {one.partition: one.size for one in orders.partitions}
    assert (log_dir.error, log_dir.path, sizes[1]) == (0, "memory", 0)
    assert sizes[0] > 60
    asked = LogDirTopic("orders", (1, 7)), LogDirTopic("absent", (0,))
    rows = TopicInLogDir("__consumer_offsets", ()), TopicInLogDir("orders", (ReplicaInLogDir(1, 0, 0),))
    assert described(*asked) == (LogDir(0, "memory", rows),)


def test_a_broker_with_files_names_its_folder(kafka_cluster_factory, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """The absolute path, as Kafka's tools print it."""
    cluster: KafkaCluster = kafka_cluster_factory(1, data=tmp_path)
    (log_dir,) = ask(_port(cluster), DescribeLogDirsRequest(), DescribeLogDirsResponse, version=1).log_dirs
    assert Path(log_dir.path).parent == tmp_path
    assert Path(log_dir.path).is_dir()


@pytest.mark.parametrize("version", range(3))
def test_replicas_stay_in_the_only_folder(kafka_cluster: KafkaCluster, version: int) -> None:
    """Error 57 for another one; 9 for a replica of other brokers, 3 for a partition that does not exist."""
    kafka_cluster.create_topic("orders", 2, replication_factor=1)
    wanted = (
        AlteredLogDir("memory", (LogDirTopic("orders", (0, 1, 2)),)),
        AlteredLogDir("/elsewhere", (LogDirTopic("clicks", (0,)),)),
    )
    request = AlterReplicaLogDirsRequest(wanted)
    found = ask(_port(kafka_cluster), request, AlterReplicaLogDirsResponse, version=version)
    assert found.topics == (
        AlteredReplicaTopic("orders", (AlteredReplica(0, 0), AlteredReplica(1, 9), AlteredReplica(2, 3))),
        AlteredReplicaTopic("clicks", (AlteredReplica(0, 57),)),
    )
