"""Makes the data sources known to a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from zkgroup.audit.spark.session import PUSHDOWN
from zkgroup.audit.spark.snapshot_source import FilteringSnapshotSource, SnapshotSource
from zkgroup.audit.spark.tree_source import TreeSource
from zkgroup.audit.spark.txnlog_source import FilteringLogSource, LogSource


def register(spark: SparkSession) -> None:
    """`spark.read.format("zookeeper-snapshot")`, `"zookeeper-txnlog"` and `"zookeeper-tree"`.

    Readers that filter are taken where the session pushes filters down (`session.PUSHDOWN`), for where it
    does not, Spark refuses them. Call it again when that setting was changed.
    """
    pushes_down = str(spark.conf.get(PUSHDOWN, "false")).lower() == "true"
    logs = FilteringLogSource if pushes_down else LogSource
    snapshots = FilteringSnapshotSource if pushes_down else SnapshotSource
    for source in (logs, snapshots, TreeSource):
        spark.dataSource.register(source)
