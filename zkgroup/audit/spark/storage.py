"""Files of a folder, on a path or on any filesystem that Hadoop knows, written by driver and tasks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from zkgroup.audit.inputs.stored_files import StoredFile, write_rows
from zkgroup.audit.spark.session import is_uri
from zkgroup.errors import ConfigError


class FileStatus(NamedTuple):
    """A file of a folder."""

    name: str
    bytes: int


class FolderStorage(Protocol):
    """A folder. All methods raise ConfigError where the filesystem refuses."""

    place: str
    """Without a slash at its end."""

    def path(self, name: str) -> str:
        """The place of something in the folder, as Spark takes it."""

    def files(self, name: str = "") -> list[FileStatus]:
        """The regular files of a folder by name; none where there is no such folder."""

    def read(self, name: str) -> bytes:
        """The content of a file."""

    def write(self, name: str, content: bytes) -> None:
        """Writes a file whole or not at all; it is there under its name only when it is complete."""

    def delete(self, name: str) -> None:
        """Deletes a file or folder; nothing where there is none."""

    def fetch(self, name: str, to: Path) -> None:
        """Copies a file to this machine."""


def storage_of(spark: SparkSession, place: str) -> FolderStorage:
    """A folder: a path, or a URI of a filesystem that this Spark has. Raises ConfigError for any other."""
    return HadoopStorage(spark, place) if is_uri(place) else LocalStorage(place)


class LocalStorage:
    """A folder on a local or shared path."""

    def __init__(self, place: str) -> None:
        self.place = place.rstrip("/")

    def path(self, name: str) -> str:
        return f"{self.place}/{name}" if name else self.place

    def files(self, name: str = "") -> list[FileStatus]:
        folder = Path(self.path(name))
        with _with_path(folder):
            if not folder.is_dir():
                return []
            return sorted(
                FileStatus(each.name, each.stat().st_size) for each in folder.iterdir() if each.is_file()
            )

    def read(self, name: str) -> bytes:
        with _with_path(Path(self.path(name))):
            return Path(self.path(name)).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        path = Path(self.path(name))
        with _with_path(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            staged = path.with_name(f".{path.name}.{os.getpid()}")
            staged.write_bytes(content)
            staged.replace(path)

    def delete(self, name: str) -> None:
        path = Path(self.path(name))
        with _with_path(path):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def fetch(self, name: str, to: Path) -> None:
        with _with_path(to):
            shutil.copyfile(self.path(name), to)


@contextmanager
def _with_path(path: Path) -> Iterator[None]:
    """An error of the filesystem as a `ZkGroupError`, with the path."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error


class HadoopStorage:
    """A folder behind a URI."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        self.place = place.rstrip("/")
        self._jvm: Any = spark._jvm
        configuration = spark._jsc.hadoopConfiguration()
        with _with_place(self.place):
            self._files = self._path("").getFileSystem(configuration)

    def path(self, name: str) -> str:
        return f"{self.place}/{name}" if name else self.place

    def files(self, name: str = "") -> list[FileStatus]:
        with _with_place(self.path(name)):
            if not self._files.exists(self._path(name)):
                return []
            entries = self._files.listStatus(self._path(name))
            found = [FileStatus(each.getPath().getName(), each.getLen()) for each in entries if each.isFile()]
        return sorted(found)

    def read(self, name: str) -> bytes:
        with _with_place(self.path(name)):
            stream = self._files.open(self._path(name))
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def write(self, name: str, content: bytes) -> None:
        staged = f"{name}.staged"
        with _with_place(self.path(name)):
            stream = self._files.create(self._path(staged), True)
            try:
                stream.write(bytearray(content))
            finally:
                stream.close()
            self._files.delete(self._path(name), False)
            if not self._files.rename(self._path(staged), self._path(name)):
                raise ConfigError(f"{self.path(name)}: the filesystem did not rename {staged}")

    def delete(self, name: str) -> None:
        with _with_place(self.path(name)):
            self._files.delete(self._path(name), True)

    def fetch(self, name: str, to: Path) -> None:
        with _with_place(self.path(name)):
            target = self._jvm.org.apache.hadoop.fs.Path(to.as_uri())
            self._files.copyToLocalFile(False, self._path(name), target, True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.path(name))


@contextmanager
def _with_place(place: str) -> Iterator[None]:
    """Java's error as a `ZkGroupError`, with the place."""
    try:
        yield
    except PySparkException as error:  # what pyspark has a class of its own for, such as a host that is none
        raise ConfigError(f"{place}: {error}") from error
    except Py4JJavaError as error:
        message = "it failed"
        with suppress(Exception):
            message = str(error.java_exception.toString())
        raise ConfigError(f"{place}: {message}") from error


class TaskFile(NamedTuple):
    """A file that a task made."""

    file: StoredFile
    content: bytes | None
    """None where it is in its place already; otherwise the driver puts it there."""


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The folder of the output; None for one that only Hadoop's file systems reach."""

    folder: str | None

    def write(self, table: Any, file: StoredFile) -> TaskFile:
        """Writes a table, whole or not at all. Raises ConfigError where the filesystem refuses."""
        if self.folder is None:
            stream = pa.BufferOutputStream()
            write_rows(table, stream)
            return TaskFile(file, stream.getvalue().to_pybytes())
        path = Path(self.folder, file.name)
        staged = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_rows(table, staged)
            staged.replace(path)
        except OSError as error:  # no right to, or no space
            raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
        return TaskFile(file, None)
