"""The Spark session of a job."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from zkgroup.audit.installed import require_spark
from zkgroup.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
"""Whether readers may be asked to filter. Off by default; a reader that can then fails each query."""

_TOLD_BY_TASK: Final = re.compile(r"^zkgroup\.errors\.\w+: (.+)$", re.MULTILINE)
"""What an error of zkgroup says, in Python's traceback in Spark's error."""

_LOOPBACK: Final = "127.0.0.1"

_ALWAYS: Final[Mapping[str, str]] = {
    PUSHDOWN: "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.log.level": "ERROR",
}
"""One machine: nothing listens to others, and the driver does all the work.

The JVM schedules, and Python does the work: what the JVM compiles at length does not pay.
"""
_LOCAL_ENVIRONMENT: Final[Mapping[str, str]] = {
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": _LOOPBACK,
}
"""Workers run the interpreter for which zkgroup is installed."""


def open_session(
    master: str | None = None, *, name: str = "zkgroup audit", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with what the audit needs; `settings` win over that.

    Args:
        master: as `spark-submit` takes it; None for the one that `spark-submit` gave, else `local[*]`.

    A session that is open already is given as it is, with the settings that can still be changed. Raises
    ConfigError where something is not installed, or no Java is found.
    """
    require_spark()
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = "local[*]"
    is_local = master is not None and master.startswith("local")
    chosen = {**_ALWAYS, **(_LOCAL if is_local else {})}
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**chosen, **(settings or {})}.items():
        builder = builder.config(key, value)
    try:
        with _environment(_LOCAL_ENVIRONMENT if is_local else {}):
            return builder.getOrCreate()
    except PySparkException as error:
        raise ConfigError(f"Spark did not start: {error}") from error
    except Py4JJavaError as error:  # such as a master that does not answer; Java's trace has been printed
        (told, *_) = str(error.java_exception).splitlines()
        raise ConfigError(f"Spark did not start with master {master}: {told}") from error


@contextmanager
def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session of `open_session` that ends with the block; one that was open before stays open.

    An error of zkgroup that ended a task comes as ConfigError, with its text.
    """
    require_spark()
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    was_open = SparkSession.getActiveSession() is not None
    spark = open_session(master, settings=settings)
    try:
        yield spark
    except (PySparkException, Py4JJavaError) as error:
        told = _TOLD_BY_TASK.findall(str(error))
        if not told:
            raise
        raise ConfigError(told[-1]) from error
    finally:
        if not was_open:
            spark.stop()


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """What Spark reads from the environment only, while it starts; what the user set there stays."""
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
