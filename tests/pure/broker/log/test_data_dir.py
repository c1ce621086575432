"""A broker's data folder: whose it is, its checkpoints, clean and unclean ends, deletion."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.pure.broker.log.failing_storage import CountingStorage, DyingStorage, Killed
from tests.pure.broker.log.made_batches import TP, append, contents
from zkgroup.broker.log.data_dir import DataDir, deleted_name, partition_of, stored_broker_id
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.log.storage import MemoryStorage
from zkgroup.errors import ConfigError, ConflictError, ReplicaStorageError
from zkgroup.model import TopicPartition

CONFIG = LogConfig(segment_bytes=1_000, index_interval_bytes=100)
OTHER = TopicPartition("a.b-c", 12)


def on_disk(folder: Path, broker: int = 1, cluster_id: str | None = "cluster-a") -> DataDir:
    return DataDir.on_disk(folder, broker, cluster_id, CONFIG, lambda: 2_000)


def in_memory(storage: MemoryStorage) -> DataDir:
    return DataDir.in_memory(CONFIG, lambda: 2_000, storage)


Open = Callable[[], DataDir]


@pytest.fixture(params=["disk", "memory"])
def open_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the same folder each time; those that are open at the end are closed."""
    storage = MemoryStorage()
    made: list[DataDir] = []

    def opened() -> DataDir:
        made.append(on_disk(tmp_path / "data") if request.param == "disk" else in_memory(storage))
        return made[-1]

    yield opened
    for each in made:
        each.close()


def killed(data_dir: DataDir) -> None:
    """Its process has ended: what it has open is closed, and nothing is written."""
    data_dir._logs.clear()
    data_dir._storage.close()
    if data_dir._lock is not None:
        data_dir._lock.close()


def test_logs_are_there_again_after_a_clean_shutdown(open_dir: Open) -> None:
    """Records, epochs, high watermark, log start offset; a partition without records as well."""
    data_dir = open_dir()
    assert data_dir.partitions() == ()
    assert data_dir.open(TP) is None
    log = data_dir.create(TP, 0)
    data_dir.create(OTHER, None)
    for number in range(30):
        append(log, b"x" * 50, b"y", epoch=number // 10)
    log.keep_high_watermark(60)
    log.advance_start(21)
    expected = contents(log)
    data_dir.close()

    again = open_dir()
    assert again.partitions() == (OTHER, TP)
    found = again.open(TP)
    assert found is not None
    assert again.open(TP) is found
    assert contents(found) == expected
    assert (found.start_offset, found.end_offset, found.kept_high_watermark) == (21, 60, 60)
    assert found.epochs == ((1, 21), (2, 40))
    assert found.recovery_point == 60
    other = again.open(OTHER)
    assert other is not None
    assert (other.end_offset, other.kept_high_watermark) == (0, None)


def test_a_new_folder_is_closed_to_others(tmp_path: Path) -> None:
    """It has the records of everybody; the owner's group may read it, and an older folder stays as it is."""
    on_disk(tmp_path / "data").close()
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o750
    (tmp_path / "older").mkdir(mode=0o755)
    on_disk(tmp_path / "older").close()
    assert (tmp_path / "older").stat().st_mode & 0o777 == 0o755


def test_kafkas_files_after_a_clean_shutdown(tmp_path: Path) -> None:
    """Their names and their contents."""
    data_dir = on_disk(tmp_path / "data")
    log = data_dir.create(TP, 0)
    append(log, b"a", b"b")
    log.keep_high_watermark(1)
    log.advance_start(1)
    data_dir.close()
    text = {path.name: path.read_text() for path in (tmp_path / "data").iterdir() if path.is_file()}

    assert text.pop("meta.properties").splitlines()[2:] == [
        "cluster.id=cluster-a",
        "broker.id=1",
        "version=0",
    ]
    assert text == {
        ".lock": "",
        ".kafka_cleanshutdown": "",
        "recovery-point-offset-checkpoint": "0\n1\norders 0 2\n",
        "replication-offset-checkpoint": "0\n1\norders 0 1\n",
        "log-start-offset-checkpoint": "0\n1\norders 0 1\n",
    }
    assert sorted(path.name for path in (tmp_path / "data" / "orders-0").iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000002.snapshot",
        "high-watermark",
        "leader-epoch-checkpoint",
    ]
    on_disk(tmp_path / "data").close()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_while_it_is_used_it_is_not_shut_down_cleanly(open_dir: Open) -> None:
    """After the death of the process all that was acknowledged is there."""
    data_dir = open_dir()
    log = data_dir.create(TP, 0)
    append(log, b"a")
    data_dir.close()
    data_dir = open_dir()
    assert ".kafka_cleanshutdown" not in data_dir._storage.names("")
    log = data_dir.open(TP) or data_dir.create(TP, 0)
    for _ in range(30):
        append(log, b"x" * 50)
    data_dir.checkpoint()
    for _ in range(30):
        append(log, b"x" * 50)
    expected, point = contents(log), log.recovery_point
    assert 0 < point < 31
    killed(data_dir)

    again = open_dir().open(TP)
    assert again is not None
    assert contents(again) == expected
    assert again.recovery_point == point


def test_a_log_that_was_not_opened_keeps_its_recovery_point(open_dir: Open) -> None:
    """And the shutdown is not called clean for it, if the one before was not."""
    data_dir = open_dir()
    append(data_dir.create(TP, 0), b"a")
    append(data_dir.create(OTHER, 0), b"b")
    data_dir.checkpoint()
    killed(data_dir)
    data_dir = open_dir()
    assert data_dir.open(TP) is not None
    data_dir.close()

    again = open_dir()
    assert not again._was_clean
    assert [log.end_offset for log in map(again.open, (TP, OTHER)) if log] == [1, 1]
    again.close()
    last = open_dir()
    assert last._was_clean
    last.close()
    assert open_dir()._was_clean


def test_a_deleted_log_is_gone_and_a_new_one_of_its_name_is_empty(open_dir: Open) -> None:
    """The checkpoints do not speak of the former one."""
    data_dir = open_dir()
    log = data_dir.create(TP, 0)
    for _ in range(30):
        append(log, b"x" * 50)
    log.advance_start(11)
    data_dir.close()
    data_dir = open_dir()
    assert data_dir.open(TP) is not None
    data_dir.delete(TP)
    data_dir.delete(TP)
    assert data_dir.open(TP) is None
    assert data_dir.partitions() == ()
    log = data_dir.create(TP, 0)
    append(log, b"new", epoch=1)
    killed(data_dir)

    data_dir = open_dir()
    again = data_dir.open(TP)
    assert again is not None
    assert (again.start_offset, again.end_offset, again.recovery_point) == (0, 1, 0)
    data_dir.delete(TP)
    data_dir.close()
    assert open_dir().partitions() == ()


def test_a_deletion_that_was_cut_short_is_finished() -> None:
    """From the rename on the partition is gone."""
    for changes in range(4):
        storage = DyingStorage()
        data_dir = in_memory(storage)
        log = data_dir.create(TP, 0)
        append(log, b"a")
        storage.changes_left = changes
        with suppress(Killed):
            data_dir.delete(TP)
        storage.changes_left = None
        again = in_memory(storage)
        assert again.partitions() == (() if changes else (TP,))
        assert [name for name in storage.names("") if name.endswith("-delete")] == []


def test_names_of_folders() -> None:
    """Topics may have dashes and numbers; what is being deleted is no partition."""
    assert partition_of("a-1-2") == ("a-1", 2)
    for name in (
        "orders",
        "-1",
        "orders-",
        "orders-x",
        "orders-01",
        "orders--1x",
        "a-0.0f-delete",
        "a-0-stray",
    ):
        assert partition_of(name) is None
    assert deleted_name(TP, "0f" * 16) == "orders-0." + "0f" * 16 + "-delete"
    assert len(deleted_name(TopicPartition("x" * 249, 7), "0f" * 16)) == 255


def test_a_cut_lowers_the_recovery_point_before(open_dir: Open) -> None:
    """Else what is appended in its place would be trusted after a crash."""
    data_dir = open_dir()
    log = data_dir.create(TP, 0)
    for _ in range(10):
        append(log, b"x" * 50)
    data_dir.close()
    data_dir = open_dir()
    log = data_dir.open(TP) or data_dir.create(TP, 0)
    log.truncate_to(5)
    for _ in range(5):
        append(log, b"y" * 50, epoch=1)
    path = log.segments[-1].log_path
    data_dir._storage.write(path, (data_dir._storage.size(path) or 0) - 1, b"!")
    killed(data_dir)

    again = open_dir().open(TP)
    assert again is not None
    assert again.end_offset == 9


def test_a_log_whose_files_failed_is_opened_anew(open_dir: Open) -> None:
    """`release` forgets it without a write."""
    data_dir = open_dir()
    log = data_dir.create(TP, 0)
    append(log, b"a")
    data_dir.release(TP)
    data_dir.release(TP)
    again = data_dir.open(TP)
    assert again is not None
    assert again is not log
    assert again.end_offset == 1


@pytest.mark.parametrize("points", [b"", b"0\n1\norders 0\n", None])
def test_without_its_checkpoints_all_is_checked(points: bytes | None) -> None:
    """They are hints: a folder without them is the same, and takes longer to open."""
    storage = MemoryStorage()
    data_dir = in_memory(storage)
    log = data_dir.create(TP, 0)
    for _ in range(30):
        append(log, b"x" * 50)
    expected = contents(log)
    data_dir.close()
    storage.remove(".kafka_cleanshutdown")
    for name in [name for name in storage.names("") if name.endswith("checkpoint")]:
        storage.remove(name) if points is None else storage.replace(name, points, False)
    counting = CountingStorage(storage)
    again = in_memory(counting).open(TP)
    assert again is not None
    assert contents(again) == expected
    assert counting.ending(".log") >= 2 * len(expected)


def test_a_folder_belongs_to_one_broker_of_one_cluster(tmp_path: Path) -> None:
    """Its uuid stays; a cluster that is not known yet is any."""
    first = on_disk(tmp_path / "data")
    directory_id = first.folder_id
    assert directory_id is not None
    assert re.fullmatch(r"[\w-]{22}", directory_id)
    first.close()
    assert stored_broker_id(tmp_path / "data") == 1
    assert stored_broker_id(tmp_path) is None
    with pytest.raises(ConfigError, match="is broker 1's, not 2's"):
        on_disk(tmp_path / "data", broker=2)
    with pytest.raises(ConfigError, match="of cluster cluster-a, not other"):
        on_disk(tmp_path / "data", cluster_id="other")
    again = on_disk(tmp_path / "data", cluster_id=None)
    assert again.folder_id == directory_id
    again.close()
    assert in_memory(MemoryStorage()).folder_id is None


def test_a_folder_is_used_by_one_broker_at_a_time(tmp_path: Path) -> None:
    """In this process and in others, with the lock that Kafka takes too."""
    first = on_disk(tmp_path / "data")
    with pytest.raises(ConflictError, match="used by another broker"):
        on_disk(tmp_path / "data")
    probe = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    command = [sys.executable, "-c", probe, str(tmp_path / "data" / ".lock")]
    assert b"BlockingIOError" in subprocess.run(command, capture_output=True, check=False).stderr
    first.close()
    holder = probe + "; print(flush=True); input()"
    with subprocess.Popen(
        [*command[:2], holder, command[3]], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"\n"
        with pytest.raises(ConflictError, match="used by another broker"):
            on_disk(tmp_path / "data")
        other.communicate(b"\n")
    on_disk(tmp_path / "data").close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("meta.json", "meta.json says that it holds the lines of an older zkgroup"),
        ("notes.txt", "found notes.txt and no meta.properties"),
    ],
)
def test_a_folder_of_lines_or_of_something_else_is_refused(tmp_path: Path, name: str, message: str) -> None:
    """The error names what was found; nothing is touched."""
    (tmp_path / name).write_text("{}")
    with pytest.raises(ConfigError, match=message):
        on_disk(tmp_path)
    assert (tmp_path / name).read_text() == "{}"
    assert not (tmp_path / "meta.properties").exists()


@pytest.mark.parametrize("text", ["", "version=1\nnode.id=1\n", "version=0\nbroker.id=\n"])
def test_a_damaged_meta_properties_is_refused(tmp_path: Path, text: str) -> None:
    """Its owner cannot be known."""
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(ConfigError, match=r"meta\.properties: expected"):
        on_disk(tmp_path)
    with pytest.raises(ConfigError, match=r"meta\.properties: expected"):
        stored_broker_id(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """The error says which."""
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "none" / "data", tmp_path / "file"):
        with pytest.raises(ConfigError, match="cannot be a broker's folder"):
            on_disk(folder)


def test_files_that_fail_are_storage_errors(tmp_path: Path) -> None:
    """Named, so that the replica is put aside and not the broker."""
    data_dir = on_disk(tmp_path / "data")
    log = data_dir.create(TP, 0)
    append(log, b"a")
    data_dir._storage.close()
    path = tmp_path / "data" / "orders-0" / f"{0:020d}.log"
    path.unlink()
    path.mkdir()
    with pytest.raises(ReplicaStorageError, match=r"0\.log"):
        log.read(0, 1, 100)
    with pytest.raises(ReplicaStorageError, match=r"0\.log"):
        append(log, b"b")
    data_dir.close()
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
