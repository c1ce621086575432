"""The rows of the audit, made of the converted operations: the same that `audit.reading` makes of records."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from zkgroup.audit.spark.rows import EVENTS
from zkgroup.zkfiles.records import TransactionType


def opened_rows(
    operations: DataFrame, seeds: DataFrame, bases: Mapping[str, int], chroot: str = ""
) -> DataFrame:
    """Rows of EVENTS, in no order.

    Args:
        operations: as `conversion` stores them.
        seeds: what stood before; operations up to that zxid are left out.
        bases: the zxid of the seeds, by ensemble.
        chroot: the path that clients have as their root, without a slash at its end.
    """
    behind = f.lit(False)
    for ensemble, zxid in bases.items():
        behind = behind | ((f.col("ensemble") == ensemble) & (f.col("zxid") > zxid))
    operations = operations.where(behind & f.col("op").isNotNull())
    logged = operations.select(*_logged())
    known = logged.unionByName(seeds)
    rows = known.unionByName(_gone(known, _named(operations)))
    return _inside(rows, chroot) if chroot else rows


def _logged() -> list[SparkColumn]:
    return [
        f.col("zxid"),
        f.col("sub"),
        f.unix_millis("time").alias("time_ms"),
        f.col("session"),
        f.col("cxid"),
        f.col("op"),
        f.coalesce("path", f.lit("")).alias("path"),
        f.col("data"),
        f.when(f.col("op") == "create", f.lit(0)).otherwise(f.col("version")).alias("version"),
        f.col("ephemeral"),
        f.col("timeout_ms"),
        f.col("error"),
        f.col("applied"),
        f.lit(False).alias("seed"),
        f.lit(False).alias("synthetic"),
        f.to_json("acl").alias("acl"),
        f.lit(None).cast("long").alias("mtime_ms"),
        f.col("ensemble"),
    ]


def _named(operations: DataFrame) -> DataFrame:
    """How many paths each closeSession lists."""
    listed = (f.col("type") == int(TransactionType.CLOSE_SESSION)) & (f.col("op") == "delete")
    return (
        operations.where(listed)
        .groupBy("ensemble", f.col("zxid").alias("closed_at"))
        .agg(f.count("*").cast("int").alias("listed"))
    )


def _gone(rows: DataFrame, named: DataFrame) -> DataFrame:
    """The deletions that no record names: ephemerals that were left when the session of their create ended.

    Before 3.6 no close lists any; where one does, `named` says how many.
    """
    creates = (f.col("op") == "create") & (f.col("ephemeral") == "session")
    of_path = Window.partitionBy("ensemble", "path").orderBy("zxid", "sub")
    lives = (
        rows.where(f.col("applied") & (creates | (f.col("op") == "delete")))
        .select("ensemble", "path", "zxid", "sub", "session", "op")
        .withColumn("until", f.lead("zxid").over(of_path))
        .where(f.col("op") == "create")
        .select("ensemble", "path", f.col("zxid").alias("created_at"), "until", "session")
    )
    closes = rows.where(f.col("op") == "closeSession").select(
        "ensemble", "session", f.col("zxid").alias("closed_at"), "time_ms", "cxid"
    )
    first = Window.partitionBy("ensemble", "path", "created_at").orderBy("closed_at")
    of_close = Window.partitionBy("ensemble", "closed_at").orderBy("path")
    ended = (
        lives.join(closes, ["ensemble", "session"])
        .where(
            (f.col("closed_at") > f.col("created_at"))
            & (f.col("until").isNull() | (f.col("closed_at") < f.col("until")))
        )
        .withColumn("nth", f.row_number().over(first))
        .where(f.col("nth") == 1)
        .join(named, ["ensemble", "closed_at"], "left")
        .withColumn("place", f.row_number().over(of_close) - 1 + f.coalesce("listed", f.lit(0)))
    )
    given = {
        "zxid": f.col("closed_at"),
        "sub": f.col("place"),
        "op": f.lit("delete"),
        "applied": f.lit(True),
        "seed": f.lit(False),
        "synthetic": f.lit(True),
    }
    taken = {name: f.col(name) for name in ("time_ms", "session", "cxid", "path", "ensemble")}
    columns = {**given, **taken}
    return ended.select(
        *(
            columns.get(field.name, f.lit(None)).cast(field.dataType).alias(field.name)
            for field in EVENTS.fields
        )
    )


def _inside(rows: DataFrame, chroot: str) -> DataFrame:
    """Paths as clients of the chroot see them; others are left out, and rows without a path stay."""
    path = f.col("path")
    is_below = path.startswith(f"{chroot}/")
    is_root = path == chroot
    kept = rows.where((path == "") | is_below | (is_root & ~f.col("seed")))
    below = f.substring("path", len(chroot) + 1, 2**31 - 1)
    return kept.withColumn("path", f.when(is_below, below).when(is_root, "/").otherwise(path))
