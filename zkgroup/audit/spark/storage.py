"""Folders on the filesystems of Hadoop, and the tasks that read and write files of folders.

A task opens local and shared paths itself. Python workers have no Hadoop client, so the JVM brings them the
contents of files at URIs, and the driver writes their files there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from zkgroup.audit.inputs.converted import OpenFile, parquet_of
from zkgroup.audit.inputs.found_files import Stamp
from zkgroup.audit.inputs.manifest import Folder, StoredFile
from zkgroup.audit.inputs.source import without_collector
from zkgroup.audit.spark.session import is_uri
from zkgroup.errors import ConfigError, ZkGroupError


def folder_of(spark: SparkSession, place: str) -> Folder:
    """The folder at a path, or at a URI of a filesystem of this Spark. Raises ConfigError for others."""
    place = place.rstrip("/")
    return HadoopFolder(spark, place) if is_uri(place) else Folder(place)


class HadoopFolder(Folder):
    """A folder at a URI."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        super().__init__(place)
        self._jvm: Any = spark._jvm
        configuration = spark._jsc.hadoopConfiguration()
        with _refusals(place):
            self._files = self._path("").getFileSystem(configuration)

    def source(self, name: str) -> Any:
        return pa.BufferReader(self.read(name))

    def sizes(self, name: str = "") -> dict[str, int]:
        return {each: size for each, (_, size, _) in self.stamps(name).items()}

    def stamps(self, name: str = "") -> dict[str, Stamp]:
        """The stamps of the regular files of a folder, by name; empty where there is no such folder."""
        with _refusals(self.path(name)):
            if not self._files.exists(self._path(name)):
                return {}
            files = [each for each in self._files.listStatus(self._path(name)) if each.isFile()]
            named = {each.getPath().getName(): each for each in files}
            return {
                key: (self.path(key), each.getLen(), each.getModificationTime())
                for key, each in named.items()
            }

    def read(self, name: str) -> bytes:
        with _refusals(self.path(name)), closing(self._files.open(self._path(name))) as stream:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))

    def write(self, name: str, content: bytes) -> None:
        staged = f"{name}.staged"
        with _refusals(self.path(name)):
            with closing(self._files.create(self._path(staged), True)) as stream:
                stream.write(bytearray(content))
            self._files.delete(self._path(name), False)
            if not self._files.rename(self._path(staged), self._path(name)):
                raise ConfigError(f"{self.path(name)}: the filesystem did not rename {staged}")

    def delete(self, name: str) -> None:
        with _refusals(self.path(name)):
            self._files.delete(self._path(name), True)

    def fetch(self, name: str, to: Path) -> None:
        """Copies a file to this machine."""
        with _refusals(self.path(name)):
            target = self._jvm.org.apache.hadoop.fs.Path(to.as_uri())
            self._files.copyToLocalFile(False, self._path(name), target, True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.path(name))


@contextmanager
def _refusals(place: str) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:  # pyspark has own classes for some errors, such as a host that is none
        raise ConfigError(f"{place}: {error}") from error
    except Py4JJavaError as error:
        message = "it failed"
        with suppress(Exception):
            message = str(error.java_exception.toString())
        raise ConfigError(f"{place}: {message}") from error


class Task(Protocol):
    """The files that a task reads, by their names below a path or a URI, and the cost of the task."""

    @property
    def place(self) -> str: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def cost(self) -> int: ...


_Task = TypeVar("_Task", bound=Task)
_Result = TypeVar("_Result")


def in_tasks(
    spark: SparkSession, tasks: Sequence[_Task], do: Callable[[_Task, OpenFile], _Result]
) -> list[_Result]:
    """The results of `do` for each task, in a task of Spark each; the longest begins first.

    Raises the first error of zkgroup that ended one of them.
    """
    if not tasks:
        return []
    context = spark.sparkContext
    longest_first = sorted(range(len(tasks)), key=lambda number: tasks[number].cost, reverse=True)
    local = [number for number in longest_first if not is_uri(tasks[number].place)]
    remote = [number for number in longest_first if is_uri(tasks[number].place)]
    parts = [_with_contents(context, tasks[number], do) for number in remote]
    if local:
        paths = context.parallelize([tasks[number] for number in local], len(local))
        parts.insert(0, paths.map(partial(_by_path, do)))
    results = dict(zip([*local, *remote], context.union(parts).collect(), strict=True))
    for result in results.values():
        if isinstance(result, ZkGroupError):
            raise result
    return [results[number] for number in range(len(tasks))]


def _by_path(do: Callable[[_Task, OpenFile], _Result], task: _Task) -> _Result | ZkGroupError:
    return _tried(do, task, Folder(task.place).source)


def _tried(do: Callable[[_Task, OpenFile], _Result], task: _Task, source: OpenFile) -> _Result | ZkGroupError:
    """The result of a task, or the error that ends the job: raised there, it would be one of Java."""
    try:
        with without_collector():
            return do(task, source)
    except ZkGroupError as error:
        return error


def _with_contents(context: Any, task: _Task, do: Callable[[_Task, OpenFile], _Result]) -> Any:
    if not task.names:
        return context.parallelize([task], 1).map(partial(_by_path, do))

    def run(contents: Iterable[tuple[str, bytes]]) -> Iterator[_Result | ZkGroupError]:
        known = {
            next(name for name in task.names if path.endswith(f"/{name}")): content
            for path, content in contents
        }
        yield _tried(do, task, lambda name: pa.BufferReader(known[name]))

    places = ",".join(f"{task.place}/{name}" for name in task.names)
    return context.binaryFiles(places).coalesce(1).mapPartitions(run)


class TaskFile(NamedTuple):
    """A file that a task made."""

    file: StoredFile
    content: bytes | None
    """The content; None where the file is in its place already."""

    def placed(self, folder: Folder) -> StoredFile:
        """Writes the content to its place, where it is not yet there; returns the file."""
        if self.content is not None:
            folder.write(self.file.name, self.content)
        return self.file


def written(table: Any, file: StoredFile, output: Folder | None) -> TaskFile:
    """Writes a table in a task, whole or not at all; keeps the content for the driver if that is at a URI.

    Raises ConfigError where the filesystem refuses.
    """
    content = parquet_of(table)
    if output is None:
        return TaskFile(file, content.to_pybytes())
    output.write(file.name, content)
    return TaskFile(file, None)


def reached_by_tasks(folder: Folder) -> Folder | None:
    """The folder if tasks write to it themselves; None for one at a URI."""
    return None if isinstance(folder, HadoopFolder) else folder
