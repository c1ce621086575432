"""The inputs of a job, on this machine or behind a Hadoop URI, and its Spark session."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from zkgroup.audit.inputs.manifest import is_converted
from zkgroup.audit.inputs.opening import path_of, require_source
from zkgroup.audit.inputs.source import require_spark
from zkgroup.errors import ConfigError, NotZooKeeperFileError
from zkgroup.zkfiles.files import list_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):/")


@dataclass(frozen=True, slots=True)
class EnsembleInput:
    """The folders of one ensemble's servers: all on local or shared paths, or one at a URI."""

    name: str
    folders: tuple[str, ...]

    @property
    def is_local(self) -> bool:
        """True if every worker can open the files by their paths."""
        return not any(is_uri(folder) for folder in self.folders)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The folders on local or shared paths."""
        return tuple(Path(folder) for folder in self.folders)


def is_uri(place: str) -> bool:
    """True if Hadoop's filesystems read a place."""
    return _SCHEME.match(place) is not None


class Given(NamedTuple):
    """One input as the user typed it."""

    name: str | None
    place: str
    """An absolute path, or a URI."""


def given_of(text: str) -> Given:
    """The input in `[NAME=]PATH|URI`. Raises ConfigError for a wrong name or folder."""
    name, equals, place = text.partition("=")
    if _NAME.fullmatch(name) and place:
        return Given(name, _absolute(place))
    if not equals or "/" in name or path_of(text).exists():
        return Given(None, _absolute(text))
    if place:
        raise ConfigError(
            f"input {text!r}: expected [NAME=]FOLDER with a NAME of letters, digits, '.', '_' and '-', found "
            f"the name {name!r}"
        )
    raise ConfigError(f"input {text!r}: expected a folder after the name, found nothing")


def _absolute(place: str) -> str:
    path = path_of(place)
    return place.rstrip("/") if is_uri(str(path)) else str(path.absolute())


def matching(path: Path) -> list[Path]:
    """The paths that a glob matches, in order; the path itself where there is such a file, or it is none."""
    if path.exists() or not any(character in str(path) for character in "*?["):
        return [path]
    root = Path(path.anchor or ".")
    return sorted(root.glob(str(path).removeprefix(path.anchor)))


def require_inputs(texts: Sequence[str], output: str | None = None) -> None:
    """Checks the inputs on paths before Spark is started for them. Raises NotZooKeeperFileError.

    Snapshots that are in the output already need not be there any more.
    """
    for _, place in map(given_of, texts):
        if not is_uri(place) and not (output is not None and is_converted(path_of(output))):
            for path in matching(Path(place)) or [Path(place)]:
                require_source(path)


def require_output(output: str, texts: Sequence[str]) -> None:
    """Checks an output on a path before Spark is started for it.

    Raises ConfigError for a file, and for a folder of an input, which is never written to.
    """
    target = path_of(output)
    if is_uri(str(target)):
        return
    target = target.resolve()
    is_file = next((each for each in (target, *target.parents) if each.exists() and not each.is_dir()), None)
    if is_file is not None:
        raise ConfigError(f"output {output}: expected a folder, found a file at {is_file}")
    for _, place in map(given_of, texts):
        path = Path(place)
        if is_uri(place) or is_converted(path):
            continue
        folders = [path.resolve()]
        with suppress(NotZooKeeperFileError):  # such as exports
            folders.append(list_files(path).folder.resolve())
        if target in folders or folders[-1] in target.parents:
            raise ConfigError(f"output {output} would lie among the files that are read: name another folder")


def inputs_of(given: Sequence[Given]) -> list[EnsembleInput]:
    """The inputs of each ensemble: folders of the same name; those without a name are of `ensemble`.

    Raises ConfigError for servers of one ensemble at URIs: the record that counts among several servers is
    decided over files on paths.
    """
    folders: dict[str, list[str]] = {}
    for name, place in given:
        places = [place] if is_uri(place) else map(str, matching(Path(place)) or [Path(place)])
        folders.setdefault(name or "ensemble", []).extend(places)
    found = [EnsembleInput(name, tuple(places)) for name, places in folders.items()]
    for each in found:
        if not each.is_local and len(each.folders) > 1:
            raise ConfigError(
                f"ensemble {each.name!r}: expected one URI, or local or shared paths of its servers, found "
                f"{', '.join(each.folders)}; give each server a name of its own with NAME=URI"
            )
    return found


PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
"""True if readers may filter. Off by default, and then each query with a reader that can fails."""

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
"""The settings for one machine: no port is open to others, and the driver does all the work.

The JVM schedules and Python does the work, so long compilations in the JVM do not pay.
"""


@contextmanager
def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session with the settings of the audit, which ends with the block; `settings` replace those.

    Args:
        master: as `spark-submit` takes it; None for the one that `spark-submit` gave, else `local[*]`.

    A session that is open already is returned with the settings that can still be changed, and stays
    open. Raises ConfigError where a package is not installed, or no Java is found.
    """
    require_spark()
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    was_open = SparkSession.getActiveSession() is not None
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = "local[*]"
    chosen = dict(_ALWAYS)
    if master is not None and master.startswith("local"):
        chosen |= _LOCAL
        # Workers run the interpreter for which zkgroup is installed.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    builder = SparkSession.builder.appName("zkgroup audit")
    if master is not None:
        builder = builder.master(master)
    builder = builder.config(map={**chosen, **(settings or {})})
    try:
        spark = builder.getOrCreate()
    except PySparkException as error:
        raise ConfigError(f"Spark did not start: {error}") from error
    except Py4JJavaError as error:  # such as a master that does not reply; Java's trace has been printed
        (text, *_) = str(error.java_exception).splitlines()
        raise ConfigError(f"Spark did not start with master {master}: {text}") from error
    try:
        yield spark
    finally:
        if not was_open:
            spark.stop()
