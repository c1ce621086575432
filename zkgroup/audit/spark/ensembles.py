"""The ensembles of a job: those whose folders are converted first, and those that were converted before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from zkgroup.audit.manifest import Converted
from zkgroup.audit.progress import Progress, quiet
from zkgroup.audit.spark.conversion import Conversion
from zkgroup.audit.spark.inputs import EnsembleInput, Given, inputs_of
from zkgroup.audit.spark.storage import storage_of
from zkgroup.audit.spark.tables import Tables, is_converted
from zkgroup.errors import ConfigError
from zkgroup.zkfiles.history import History


@dataclass(frozen=True, slots=True)
class AuditedEnsemble:
    """One that is asked about."""

    name: str
    tables: Tables
    files: EnsembleInput | None
    """Its folders; None where only what was converted of it is given."""
    history: History | None
    """Of its folders, where they are on paths."""

    @property
    def converted(self) -> Converted:
        """What there is of it in the tables."""
        return self.tables.manifest.ensembles[self.name]


def opened(
    spark: SparkSession, given: Sequence[Given], output: str, chroot: str = "", progress: Progress = quiet
) -> list[AuditedEnsemble]:
    """Converts what is new in folders, into `output`; what `audit run` wrote before is taken as it is.

    Raises ConfigError for inputs and outputs that are wrong, NotZooKeeperFileError for folders.
    """
    if not given:
        raise ConfigError("expected at least one folder as input")
    inputs_of(given)  # what is wrong by its name alone is reported before any filesystem is asked
    old = [each for each in given if is_converted(storage_of(spark, each.place))]
    found = [ensemble for each in old for ensemble in _before(spark, each)]
    files = inputs_of([each for each in given if each not in old])
    if files:
        conversion = Conversion(spark, output, files, chroot)
        conversion.run(progress)
        found += [
            AuditedEnsemble(
                each.name, conversion.tables, each, History(*each.paths) if each.is_local else None
            )
            for each in files
        ]
    names = [each.name for each in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"expected each ensemble once, found {', '.join(twice)} in several inputs")
    return found


def _before(spark: SparkSession, given: Given) -> list[AuditedEnsemble]:
    tables = Tables(spark, given.place)
    known = tables.manifest.ensembles
    names = list(known) if given.name is None else [tables.manifest.named(given.place, given.name)]
    return [AuditedEnsemble(name, tables, None, None) for name in names]
