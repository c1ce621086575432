"""A broker's data folder in Kafka's layout: whose it is, that one process uses it, and the logs in it.

Sources: kafka/log/LogManager.scala, kafka/server/BrokerMetadataCheckpoint.scala @2.8.2.
"""

from __future__ import annotations

import base64
import fcntl
import os
import re
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from zkgroup.broker.log.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    CheckpointError,
    MetaProperties,
    decode_meta_properties,
    decode_offsets,
    encode_meta_properties,
    encode_offsets,
)
from zkgroup.broker.log.disk_storage import OPEN_FILES_MAX, DiskStorage, when_free
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.log.log_loader import LoadMarks, create_log, load_log
from zkgroup.broker.log.partition_log import PartitionLog, folder_of
from zkgroup.broker.log.storage import Flush, MemoryStorage, Storage, storage_errors
from zkgroup.errors import ConfigError, ConflictError, ReplicaStorageError
from zkgroup.model import TopicPartition

LOCK: Final = ".lock"
LINES_META: Final = "meta.json"
"""In the data folders of zkgroup before it had Kafka's records."""
FOLDER_NAME_MAX: Final = 255
_DELETED: Final = re.compile(r".+\.[0-9a-f]{32}-delete")


class DataDir:
    """The logs of a broker. A log is opened when it is first asked for.

    `on_disk` and `in_memory` make one. Methods raise ReplicaStorageError where files fail.
    """

    def __init__(
        self,
        storage: Storage,
        config: LogConfig,
        wall_ms: Callable[[], int],
        *,
        directory_id: str | None = None,
        lock: _Lock | None = None,
    ) -> None:
        """
        Args:
            storage: belongs to this object until `close`.
            config: the settings of all logs, until `configure`.
            wall_ms: the time, in epoch milliseconds.
            directory_id: see `folder_id`.
            lock: given up at the end.
        """
        self._storage = storage
        self._config = config
        self._config_of: Callable[[str], LogConfig] = lambda topic: config
        self._wall_ms = wall_ms
        self.folder_id = directory_id
        """The uuid of the folder; None in memory, which no later process can find again."""
        self._lock = lock
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._deleted: set[TopicPartition] = set()
        """Partitions that the checkpoints in the files still name."""
        with storage_errors("data folder"):
            names = storage.names("")
            self._was_clean = CLEAN_SHUTDOWN in names
            self._recovery_points = self._read_offsets(RECOVERY_POINTS)
            self._start_offsets = self._read_offsets(LOG_START_OFFSETS)
            self._high_watermarks = self._read_offsets(HIGH_WATERMARKS)
            if self._was_clean:
                storage.remove(CLEAN_SHUTDOWN)
                storage.flush("")
            for name in names:
                if _DELETED.fullmatch(name):
                    storage.remove(name)

    @classmethod
    def in_memory(
        cls, config: LogConfig, wall_ms: Callable[[], int], storage: MemoryStorage | None = None
    ) -> DataDir:
        """Logs in memory; with `storage`, those that another `DataDir` has left there."""
        storage = storage or MemoryStorage()
        return cls(storage, config, wall_ms, directory_id=storage.directory_id)

    @classmethod
    def on_disk(
        cls,
        folder: str | Path,
        broker: int,
        cluster_id: str | None,
        config: LogConfig,
        wall_ms: Callable[[], int],
        open_files_max: int = OPEN_FILES_MAX,
    ) -> DataDir:
        """Takes a folder for this process until `close`; a missing one is created in its parent, closed to
        users other than the owner and its group.

        `open_files_max`: most files of logs that stay open.
        Raises ConfigError where it is another broker's or cluster's, or not a broker's at all, and
        ConflictError where it is in use.
        """
        path = Path(folder)
        try:
            path.mkdir(mode=0o750, exist_ok=True)
            lock = _Lock(path)
        except OSError as error:
            raise ConfigError(f"{path} cannot be a broker's folder: {error.strerror}") from error
        try:
            storage = DiskStorage(path, open_files_max)
            directory_id = _read_or_make_meta(storage, path, broker, cluster_id)
            return cls(storage, config, wall_ms, directory_id=directory_id, lock=lock)
        except (OSError, ReplicaStorageError) as error:
            lock.close()
            raise ConfigError(f"{path} cannot be a broker's folder: {error}") from error
        except BaseException:
            lock.close()
            raise

    def configure(self, config_of: Callable[[str], LogConfig]) -> None:
        """Sets the settings of all logs by their topic, of open ones and of those that are opened later."""
        self._config_of = config_of
        for topic_partition, log in self._logs.items():
            log.config = config_of(topic_partition.topic)

    def apply_retention(self, topic_partition: TopicPartition) -> int | None:
        """Deletes old segments of an open log; see `PartitionLog.apply_retention`."""
        log = self._logs.get(topic_partition)
        return None if log is None else log.apply_retention(self._wall_ms())

    def partitions(self) -> Collection[TopicPartition]:
        """Those that have a log here, ordered."""
        with storage_errors("data folder"):
            found = (partition_of(name) for name in self._storage.names(""))
            return tuple(sorted(each for each in found if each is not None))

    def open(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The log of a replica, at its last whole batch; None where there is none."""
        if (known := self._logs.get(topic_partition)) is not None:
            return known
        marks = LoadMarks(
            self._recovery_points.get(topic_partition, 0),
            self._start_offsets.get(topic_partition, 0),
            self._was_clean,
        )
        config = self._config_of(topic_partition.topic)
        log = load_log(self._storage, topic_partition, config, marks, self._wall_ms())
        return None if log is None else self._enter(log)

    def create(self, topic_partition: TopicPartition, high_watermark: int | None) -> PartitionLog:
        """A new, empty log, with the high watermark that it keeps."""
        if topic_partition in self._deleted:
            with storage_errors(RECOVERY_POINTS):
                self._write_checkpoints()
        config = self._config_of(topic_partition.topic)
        return self._enter(create_log(self._storage, topic_partition, config, high_watermark))

    def delete(self, topic_partition: TopicPartition) -> None:
        """Removes a log; without effect where there is none. It is gone with the rename of its folder."""
        self._logs.pop(topic_partition, None)
        folder = folder_of(topic_partition)
        with storage_errors(folder):
            if folder not in self._storage.names(""):
                return
            deleted = deleted_name(topic_partition, uuid.uuid4().hex)
            self._storage.rename(folder, deleted)
            if self._config.flush is Flush.BATCH:
                self._storage.flush("")
            self._forget(topic_partition)
            self._storage.remove(deleted)

    def release(self, topic_partition: TopicPartition) -> None:
        """Forgets a log without a write, as its files have failed; `open` reads them again."""
        log = self._logs.pop(topic_partition, None)
        if log is not None:
            self._was_clean = False
            self._note(log)

    def _enter(self, log: PartitionLog) -> PartitionLog:
        topic_partition = log.topic_partition
        self._logs[topic_partition] = log

        def persist(offset: int) -> None:
            self._recovery_points[topic_partition] = offset
            self._write_offsets(RECOVERY_POINTS, self._recovery_points)

        log.persist_recovery_point = persist
        return log

    def _forget(self, topic_partition: TopicPartition) -> None:
        """Removes what the checkpoints say of a partition; from the files before there is a new one of its
        name."""
        for offsets in (self._recovery_points, self._start_offsets, self._high_watermarks):
            if offsets.pop(topic_partition, None) is not None:
                self._deleted.add(topic_partition)

    def checkpoint(self) -> None:
        """Forces rolled segments to the disk and writes Kafka's checkpoints; to be called every minute.

        Less is read after a crash then. What the checkpoints say may be old, but is never wrong.
        """
        for log in self._logs.values():
            log.flush_rolled()
        with storage_errors(RECOVERY_POINTS):
            self._write_checkpoints()

    def _write_checkpoints(self) -> None:
        for log in self._logs.values():
            self._note(log)
        self._write_offsets(RECOVERY_POINTS, self._recovery_points)
        self._write_offsets(LOG_START_OFFSETS, self._start_offsets)
        self._write_offsets(HIGH_WATERMARKS, self._high_watermarks)
        self._deleted.clear()

    def _note(self, log: PartitionLog) -> None:
        topic_partition = log.topic_partition
        self._recovery_points[topic_partition] = log.recovery_point
        self._high_watermarks[topic_partition] = min(log.kept_high_watermark or 0, log.end_offset)
        if log.start_offset > log.segments[0].base_offset:
            self._start_offsets[topic_partition] = log.start_offset
        else:
            self._start_offsets.pop(topic_partition, None)

    def _read_offsets(self, path: str) -> dict[TopicPartition, int]:
        """Nothing where the file is damaged: all is read and checked then."""
        try:
            return decode_offsets(self._storage.read_all(path) or b"0\n0\n")
        except CheckpointError:
            return {}

    def _write_offsets(self, path: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._storage.replace(path, encode_offsets(offsets), True)

    def close(self) -> None:
        """Forces all logs to the disk and marks a clean shutdown. May be called twice."""
        try:
            self._close_logs()
        finally:
            self._storage.close()
            if self._lock is not None:
                self._lock.close()

    def abandon(self) -> None:
        """Closes the files without a write, as the end of a process does: the shutdown is not clean."""
        self._logs.clear()
        self._storage.close()
        if self._lock is not None:
            self._lock.close()

    def _close_logs(self) -> None:
        logs, self._logs = self._logs, {}
        is_clean = self._was_clean or set(self.partitions()) <= logs.keys()
        for log in logs.values():
            try:
                log.close()
            except ReplicaStorageError:
                is_clean = False
            self._note(log)
        with suppress(ReplicaStorageError), storage_errors(RECOVERY_POINTS):
            self._write_checkpoints()
            if is_clean:
                self._storage.replace(CLEAN_SHUTDOWN, b"", True)


def stored_records(storage: Storage, topic_partition: TopicPartition) -> bytes:
    """The record batches in the files of a partition, also while a log uses them; to compare replicas."""
    folder = folder_of(topic_partition)
    with storage_errors(folder):
        names = [name for name in storage.names(folder) if name.endswith(".log")]
        return b"".join(storage.read_all(f"{folder}/{name}") or b"" for name in names)


def partition_of(folder: str) -> TopicPartition | None:
    """The partition whose folder has this name."""
    topic, _, partition = folder.rpartition("-")
    is_number = partition.isdecimal() and partition.isascii() and partition == str(int(partition))
    return TopicPartition(topic, int(partition)) if topic and is_number else None


def deleted_name(topic_partition: TopicPartition, unique: str) -> str:
    """Name of the folder of a partition that is being removed; the topic is shortened where it is long."""
    ending = f"-{topic_partition.partition}.{unique}-delete"
    return topic_partition.topic[: FOLDER_NAME_MAX - len(ending)] + ending


def stored_broker_id(folder: Path) -> int | None:
    """The id of the broker whose folder this is; None where no broker has used it yet. Raises ConfigError."""
    path = folder / META_PROPERTIES
    try:
        return decode_meta_properties(when_free(path.read_bytes)).broker_id
    except FileNotFoundError:
        return None
    except (OSError, CheckpointError) as error:
        raise ConfigError(f"{path}: {error}") from error


_locked: Final[set[Path]] = set()
"""Folders in use by this process. The lock file must not be opened once more: closing it there would give the
lock up."""


class _Lock:
    """The lock on a folder that a process uses, which Kafka's brokers take too."""

    def __init__(self, folder: Path) -> None:
        """Raises ConflictError where another process, or another broker in this one, has it."""
        self._folder = folder.resolve()
        if self._folder in _locked:
            raise ConflictError(f"{folder} is used by another broker")
        path = folder / LOCK
        self._file: int | None = when_free(lambda: os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            if isinstance(error, BlockingIOError | PermissionError):
                raise ConflictError(f"{folder} is used by another broker") from error
            raise
        _locked.add(self._folder)

    def close(self) -> None:
        """Lets others use it."""
        if self._file is not None:
            _locked.discard(self._folder)
            os.close(self._file)
            self._file = None


def _read_or_make_meta(storage: Storage, folder: Path, broker: int, cluster_id: str | None) -> str | None:
    """The folder's uuid. Raises ConfigError where the folder is another's."""
    names = [name for name in storage.names("") if name not in (LOCK, META_PROPERTIES + ".tmp")]
    if META_PROPERTIES not in names:
        if LINES_META in names:
            raise ConfigError(
                f"{folder}: {LINES_META} says that it holds the lines of an older zkgroup; this one keeps "
                "Kafka's records: take another folder, or move what is in it away"
            )
        if names:
            raise ConfigError(
                f"{folder}: expected an empty folder or a broker's, found {names[0]} and no {META_PROPERTIES}"
            )
        made = MetaProperties(broker, cluster_id, _new_directory_id())
        # Forced in any case: without it the folder has no owner, and no broker finds its records.
        storage.replace(META_PROPERTIES, encode_meta_properties(made), True)
        storage.flush("")
    path = folder / META_PROPERTIES
    try:
        meta = decode_meta_properties(storage.read_all(META_PROPERTIES) or b"")
    except CheckpointError as error:
        raise ConfigError(f"{path}: {error}") from error
    if meta.broker_id != broker:
        raise ConfigError(f"{path}: the folder is broker {meta.broker_id}'s, not {broker}'s")
    if None not in (cluster_id, meta.cluster_id) and meta.cluster_id != cluster_id:
        raise ConfigError(f"{path}: the folder is of cluster {meta.cluster_id}, not {cluster_id}")
    return meta.directory_id


def _new_directory_id() -> str:
    """A uuid as Kafka writes it: base64 without padding."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
