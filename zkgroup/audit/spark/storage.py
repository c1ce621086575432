"""Small files on any filesystem that Hadoop knows, from the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from zkgroup.errors import ConfigError


class StoredFile(NamedTuple):
    """A file of a folder."""

    name: str
    bytes: int


class Storage:
    """A folder: a path, or a URI of a filesystem that this Spark has. Raises ConfigError for any other.

    All methods raise ConfigError where the filesystem refuses.
    """

    def __init__(self, spark: SparkSession, place: str) -> None:
        self.place = place.rstrip("/")
        self._jvm: Any = spark._jvm
        configuration = spark._jsc.hadoopConfiguration()
        with _with_place(self.place):
            self._files = self._path("").getFileSystem(configuration)

    def path(self, name: str) -> str:
        """The place of something in the folder, as Spark takes it."""
        return f"{self.place}/{name}" if name else self.place

    def files(self, name: str = "") -> list[StoredFile]:
        """The regular files of a folder by name; none where there is no such folder."""
        with _with_place(self.path(name)):
            if not self._files.exists(self._path(name)):
                return []
            entries = self._files.listStatus(self._path(name))
            found = [StoredFile(each.getPath().getName(), each.getLen()) for each in entries if each.isFile()]
        return sorted(found)

    def read(self, name: str) -> bytes:
        """The content of a small file."""
        with _with_place(self.path(name)):
            stream = self._files.open(self._path(name))
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def write(self, name: str, content: bytes) -> None:
        """Writes a file whole or not at all; it is there under its name only when it is complete."""
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
        """Deletes a file or folder; nothing where there is none."""
        with _with_place(self.path(name)):
            self._files.delete(self._path(name), True)

    def fetch(self, name: str, to: Path) -> None:
        """Copies a file to this machine."""
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
