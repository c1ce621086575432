"""A broker's folder: whose it is, that one process uses it at a time, and the partitions in it."""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from zkgroup.broker.log.partition_files import (
    Flush,
    OpenFiles,
    PartitionFiles,
    Paths,
    make_files,
    open_log,
    remove_files,
    replace,
    sync_folder,
)
from zkgroup.errors import ConfigError, ConflictError, ReplicaStorageError
from zkgroup.model import TopicPartition

META = "meta.json"
LOCK = "lock"
VERSION = 1


class DiskLogDir:
    """A `LogDir` on disk; the package says which files are in it.

    A partition is opened when it is first asked for, and read from end to end then: what does not have its
    checksum is cut off with all that follows.
    """

    def __init__(
        self, folder: str | Path, broker: int, cluster_id: str | None = None, flush: Flush = Flush.NONE
    ) -> None:
        """Takes the folder for this process until `close`; a missing one is created in its parent.

        Raises ConfigError where it is another broker's or cluster's, or not a broker's at all, and
        ConflictError where it is in use.
        """
        self._path = path = Path(folder)
        self._flush = flush
        self._open_files = OpenFiles()
        try:
            path.mkdir(exist_ok=True)
            self._lock = _take_lock(path / LOCK)
        except OSError as error:
            raise ConfigError(f"{path} cannot be a broker's folder: {error.strerror}") from error
        try:
            self._folder_id = _read_or_make_meta(path, broker, cluster_id)
            for topic_partition in tuple(self._found("deleted")):
                remove_files(self._paths(topic_partition), flush)
        except (OSError, ReplicaStorageError) as error:
            self.close()
            raise ConfigError(f"{path} cannot be a broker's folder: {error}") from error
        except BaseException:
            self.close()
            raise

    @property
    def folder_id(self) -> str | None:
        return self._folder_id

    def partitions(self) -> Collection[TopicPartition]:
        return tuple(sorted(self._found("index")))

    def open(self, topic_partition: TopicPartition) -> PartitionFiles | None:
        return open_log(self._paths(topic_partition), self._flush, self._open_files)

    def create(self, topic_partition: TopicPartition, high_watermark: int | None) -> PartitionFiles:
        paths = self._paths(topic_partition)
        make_files(paths, high_watermark, self._flush)
        made = open_log(paths, self._flush, self._open_files)
        if made is None:
            raise ReplicaStorageError(f"{paths.lines}: made, and gone")
        return made

    def delete(self, topic_partition: TopicPartition) -> None:
        remove_files(self._paths(topic_partition), self._flush)
        with suppress(OSError):  # it has other partitions, or is not there
            (self._path / topic_partition.topic).rmdir()

    def close(self) -> None:
        self._open_files.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _paths(self, topic_partition: TopicPartition) -> Paths:
        return Paths.of(self._path / topic_partition.topic, topic_partition.partition)

    def _found(self, ending: str) -> Iterator[TopicPartition]:
        for path in self._path.glob(f"*/*.{ending}"):
            if path.stem.isdecimal() and path.stem == str(int(path.stem)):
                yield TopicPartition(path.parent.name, int(path.stem))


def stored_broker_id(folder: Path) -> int | None:
    """The id of the broker whose folder this is; None where no broker has used it yet. Raises ConfigError."""
    path = folder / META
    try:
        meta = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: expected JSON, found {error}") from error
    broker = meta.get("broker") if isinstance(meta, dict) else None
    if not isinstance(broker, int):
        raise ConfigError(f"{path}: expected the id of a broker")
    return broker


def _take_lock(path: Path) -> int | None:
    """Raises ConflictError where another process, or another host in this one, has it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if isinstance(error, BlockingIOError):
            raise ConflictError(f"{path.parent} is used by another broker") from error
        raise
    return lock


def _read_or_make_meta(folder: Path, broker: int, cluster_id: str | None) -> str:
    """The folder's uuid. Raises ConfigError where the folder is another's."""
    path = folder / META
    if not path.exists():
        if others := sorted(
            entry.name for entry in folder.iterdir() if entry.name not in (LOCK, META + ".new")
        ):
            raise ConfigError(
                f"{folder}: expected an empty folder or a broker's, found {others[0]} and no {META}"
            )
        meta = {
            "version": VERSION,
            "cluster_id": cluster_id,
            "broker": broker,
            "folder": str(uuid.uuid4()),
        }
        # Forced in any case: without it the folder has no owner, and no broker finds its lines.
        replace(path, json.dumps(meta).encode() + b"\n", Flush.BATCH)
        sync_folder(folder)
    return _checked_meta(path, broker, cluster_id)


def _checked_meta(path: Path, broker: int, cluster_id: str | None) -> str:
    try:
        meta = json.loads(path.read_bytes())
    except ValueError as error:
        raise ConfigError(f"{path}: expected JSON, found {error}") from error
    name = meta.get("folder") if isinstance(meta, dict) and meta.get("version") == VERSION else None
    if not isinstance(name, str):
        raise ConfigError(f"{path}: expected version {VERSION} and the folder's uuid")
    if meta.get("broker") != broker:
        raise ConfigError(f"{path}: the folder is broker {meta.get('broker')}'s, not {broker}'s")
    if None not in (cluster_id, meta.get("cluster_id")) and meta["cluster_id"] != cluster_id:
        raise ConfigError(f"{path}: the folder is of cluster {meta['cluster_id']}, not {cluster_id}")
    return name
