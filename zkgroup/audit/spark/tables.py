"""The tables that `conversion` writes, as DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from zkgroup.audit import manifest
from zkgroup.audit.manifest import Converted, Manifest
from zkgroup.audit.spark.rows import EVENTS
from zkgroup.audit.spark.schemas import ACL, struct_of
from zkgroup.audit.spark.storage import Storage
from zkgroup.audit.spark.units import OPERATIONS

OPERATIONS_FOLDER: Final = "operations"
SEEDS_FOLDER: Final = "seeds"
STORED: Final[StructType] = StructType([*struct_of(OPERATIONS), StructField("day", StringType())])
"""OPERATIONS, and the day that Parquet is partitioned by."""
_SEEDS: Final[StructType] = StructType(
    [StructField(each.name, ACL if each.name == "acl" else each.dataType) for each in EVENTS]
)
"""`rows.EVENTS`, with the ACL as the operations have it."""


def stored_seeds(seeds: DataFrame) -> DataFrame:
    """Rows of `rows.EVENTS` as they are stored."""
    return seeds.withColumn("acl", f.from_json("acl", ACL))


class Tables:
    """A folder that was converted to, or will be; `manifest` says what counts in it."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        """Raises ConfigError for a place that Spark cannot read, and a manifest that is none."""
        self._spark = spark
        self.storage = Storage(spark, place)
        self.manifest = _read(self.storage)

    def enter(self, ensembles: Mapping[str, Converted]) -> None:
        """Makes this the state of the folder; manifests before the one before it go."""
        number = self.manifest.number + 1
        self.manifest = Manifest(number, dict(ensembles))
        self.storage.write(f"{manifest.FOLDER}/{manifest.name_of(number)}", self.manifest.encode())
        self.storage.delete(f"{manifest.FOLDER}/{manifest.name_of(number - 2)}")

    def operations(self, ensembles: Iterable[str]) -> DataFrame:
        """All operations of these ensembles: STORED."""
        folders = [
            f"{OPERATIONS_FOLDER}/batch={batch}/ensemble={name}"
            for name in ensembles
            for batch in self.manifest.ensembles[name].batches
        ]
        return self._table(OPERATIONS_FOLDER, folders, STORED)

    def seeds(self, ensembles: Iterable[str]) -> DataFrame:
        """What stood before the first record, as rows of `rows.EVENTS`."""
        folders = [
            f"{SEEDS_FOLDER}/batch={batch}/ensemble={name}"
            for name in ensembles
            if (batch := self.manifest.ensembles[name].seed_batch) is not None
        ]
        return self._table(SEEDS_FOLDER, folders, _SEEDS).withColumn("acl", f.to_json("acl"))

    def _table(self, base: str, folders: Sequence[str], schema: StructType) -> DataFrame:
        if not folders:
            return self._spark.createDataFrame([], schema)
        places = [self.storage.path(folder) for folder in folders]
        table = self._spark.read.schema(schema).option("basePath", self.storage.path(base)).parquet(*places)
        return table.select(*schema.fieldNames())


def is_converted(storage: Storage) -> bool:
    """Whether a folder is one that `conversion` wrote to."""
    return manifest.newest(file.name for file in storage.files(manifest.FOLDER)) is not None


def _read(storage: Storage) -> Manifest:
    name = manifest.newest(file.name for file in storage.files(manifest.FOLDER))
    if name is None:
        return Manifest()
    file = f"{manifest.FOLDER}/{name}"
    return Manifest.decode(storage.path(file), storage.read(file))
