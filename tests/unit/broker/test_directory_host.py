"""`DirectoryReplicaHost`: its files, what it makes of them after a crash, and whose folder it is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.replica_hosts import TP, append, end, fetch, pair, text_of, view, watermark
from zkgroup.broker.directory import DirectoryReplicaHost, Flush, partition_files
from zkgroup.broker.directory.index import ENTRY
from zkgroup.broker.directory.open_files import OpenFiles
from zkgroup.broker.memory_host import replicate
from zkgroup.broker.replica_host import ReplicaHost, Role
from zkgroup.broker.replication.crc32c import crc32c
from zkgroup.consumer.sources.files import FileSource
from zkgroup.errors import ConfigError, ConflictError
from zkgroup.model import TopicPartition
from zkgroup.wire.error_codes import ErrorCode
from zkgroup.wire.replica_host import AppendLinesRequest

BATCHES = ((b"a", b"bb"), (b"", b"ccc"), (b"d", b"e", b"f" * 40))
"""The last one in a second term."""
ENDS = (0, 2, 4, 7)
FILES = ("jsonl", "index", "epochs", "high-watermark")


def path_of(folder: Path, ending: str) -> Path:
    return folder / TP.topic / f"{TP.partition}.{ending}"


def write_batches(folder: Path) -> None:
    """A folder that a broker has left in order."""
    host = DirectoryReplicaHost(1, folder)
    host.become_leader(TP, 0, (1, 2), {1})
    append(host, 0, *BATCHES[0])
    append(host, 0, *BATCHES[1])
    host.become_leader(TP, 3, (1, 2), {1})
    append(host, 3, *BATCHES[2])
    host.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written") / "broker"
    write_batches(folder)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return shutil.copytree(written, tmp_path / "broker")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[DirectoryReplicaHost]:
    made = DirectoryReplicaHost(1, tmp_path / "fresh")
    yield made
    made.close()


def all_lines(host: ReplicaHost) -> bytes:
    """Of a replica, as a follower of the next term would get them."""
    host.become_leader(TP, 9, (1, 2), {1})
    return text_of(fetch(host, 0, replica=2, leader_epoch=9))


def open_files() -> int:
    """Of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def expected(batches: int) -> bytes:
    return b"".join(line + b"\n" for batch in BATCHES[:batches] for line in batch)


# --- files ----------------------------------------------------------------------------------------


def test_the_files_are_what_the_package_says(written: Path) -> None:
    """Lines, index, epochs and high watermark; nothing else is in the folder."""
    assert sorted(path.name for path in written.iterdir()) == ["lock", "meta.json", "orders"]
    assert sorted(path.name for path in (written / "orders").iterdir()) == sorted(f"0.{e}" for e in FILES)
    assert path_of(written, "jsonl").read_bytes() == expected(3)
    entries = [*ENTRY.iter_unpack(path_of(written, "index").read_bytes())]
    assert [entry[:5] for entry in entries] == [
        (0, 2, 0, 0, crc32c(b"a\nbb\n")),
        (2, 2, 5, 0, crc32c(b"\nccc\n")),
        (4, 3, 10, 3, crc32c(b"d\ne\n" + b"f" * 40 + b"\n")),
    ]
    assert all(crc32c(ENTRY.pack(*entry)[:-4]) == entry[5] for entry in entries)
    assert path_of(written, "epochs").read_text() == "0 0\n3 4\n"
    assert path_of(written, "high-watermark").read_text() == "0000000000000000007\n"


def test_meta_says_whose_folder_it_is(tmp_path: Path) -> None:
    """Cluster, broker and a uuid, which is the incarnation and stays."""
    host = DirectoryReplicaHost(4, tmp_path / "b", "cluster")
    host.close()
    again = DirectoryReplicaHost(4, tmp_path / "b", "cluster")
    again.close()

    meta = json.loads((tmp_path / "b" / "meta.json").read_text())
    assert meta == {"version": 1, "cluster_id": "cluster", "broker": 4, "folder": host.incarnation}
    assert again.incarnation == host.incarnation


@pytest.mark.parametrize(
    ("broker", "cluster_id", "complaint"),
    [
        (5, "cluster", r"the folder is broker 4's, not 5's"),
        (4, "other", r"the folder is of cluster cluster, not other"),
    ],
)
def test_a_folder_of_others_is_refused(tmp_path: Path, broker: int, cluster_id: str, complaint: str) -> None:
    """By id and by cluster; a broker that does not know its cluster takes what is there."""
    DirectoryReplicaHost(4, tmp_path / "b", "cluster").close()

    with pytest.raises(ConfigError, match=complaint):
        DirectoryReplicaHost(broker, tmp_path / "b", cluster_id)
    DirectoryReplicaHost(4, tmp_path / "b").close()


@pytest.mark.parametrize("meta", [b"", b"{", b"[]", b'{"version":2,"folder":"f"}', b'{"version":1}'])
def test_a_meta_file_that_cannot_be_read_is_refused(tmp_path: Path, meta: bytes) -> None:
    """And left as it is."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "meta.json").write_bytes(meta)

    with pytest.raises(ConfigError, match=r"meta\.json: expected"):
        DirectoryReplicaHost(1, tmp_path / "b")
    assert (tmp_path / "b" / "meta.json").read_bytes() == meta


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    """Somebody's files are nothing to take over."""
    (tmp_path / "orders").mkdir()

    with pytest.raises(
        ConfigError, match=r"expected an empty folder or a broker's, found orders and no meta"
    ):
        DirectoryReplicaHost(1, tmp_path)


@pytest.mark.parametrize("name", ["missing/b", "file"])
def test_what_can_be_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    """Its parent must be there, and nothing else of that name."""
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="cannot be a broker's folder"):
        DirectoryReplicaHost(1, tmp_path / name)


def test_one_process_uses_a_folder(host: DirectoryReplicaHost, tmp_path: Path) -> None:
    """Until it closes, or dies."""
    with pytest.raises(ConflictError, match="is used by another broker"):
        DirectoryReplicaHost(1, tmp_path / "fresh")
    host.close()

    DirectoryReplicaHost(1, tmp_path / "fresh").close()


def test_a_file_source_reads_the_folder(host: DirectoryReplicaHost, tmp_path: Path) -> None:
    """A consumer of files sees the leader's lines at their offsets, while it appends."""
    host.become_leader(TP, 0, (1,), {1})
    append(host, 0, b'{"n": 0}', b'{"n": 1}')
    source = FileSource(tmp_path / "fresh")
    assert source.bounds(TP).end == 2

    append(host, 0, b'{"n": 2}')

    assert [(r.offset, r.value) for r in source.read(TP, 1, 10)] == [(1, b'{"n": 1}'), (2, b'{"n": 2}')]


def test_a_leaders_folder_is_lost_and_a_file_source_reads_on(tmp_path: Path) -> None:
    """What was acknowledged is in the files of the other replica, byte for byte."""
    one, two = DirectoryReplicaHost(1, tmp_path / "1"), DirectoryReplicaHost(2, tmp_path / "2")
    pair(one, two)
    append(one, 0, b"a", b"b")
    assert replicate(one, two, TP)
    one.close()
    shutil.rmtree(tmp_path / "1")

    assert two.become_leader(TP, 1, (1, 2), {2}) is ErrorCode.NONE
    append(two, 1, b"c")
    two.close()

    assert [r.value for r in FileSource(tmp_path / "2").read(TP, 0, 10)] == [b"a", b"b", b"c"]


# --- after a crash --------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["jsonl", "index"])
def test_cut_at_every_byte_the_files_recover_to_the_last_good_batch(
    written: Path, tmp_path: Path, ending: str
) -> None:
    """Of the lines or of the index; then appending goes on there."""
    size = path_of(written, ending).stat().st_size
    for left in range(size + 1):
        folder = shutil.copytree(written, tmp_path / str(left))
        os.truncate(path_of(folder, ending), left)
        ends = (0, 5, 10, 55) if ending == "jsonl" else (0, 32, 64, 96)
        batches = sum(stop <= left for stop in ends[1:])
        host = DirectoryReplicaHost(1, folder)
        try:
            assert (end(host), left) == (ENDS[batches], left)
            assert path_of(folder, "jsonl").read_bytes() == expected(batches)
            assert path_of(folder, "index").stat().st_size == batches * ENTRY.size
            assert path_of(folder, "epochs").read_text() in (
                ("0 0\n3 4\n",) if batches == 3 else ("0 0\n3 4\n", "0 0\n") if batches == 2 else ("0 0\n",)
            )
        finally:
            host.close()


@pytest.mark.parametrize("ending", ["jsonl", "index"])
def test_a_byte_that_is_wrong_anywhere_ends_the_log_before_its_batch(
    written: Path, tmp_path: Path, ending: str
) -> None:
    """What stands before that batch is kept whichever byte it is."""
    starts = (0, 5, 10) if ending == "jsonl" else (0, 32, 64)
    for position in range(path_of(written, ending).stat().st_size):
        folder = shutil.copytree(written, tmp_path / str(position))
        path = path_of(folder, ending)
        data = bytearray(path.read_bytes())
        data[position] ^= 0x15
        path.write_bytes(data)
        batches = sum(start <= position for start in starts) - 1
        host = DirectoryReplicaHost(1, folder)
        try:
            assert (end(host), position) == (ENDS[batches], position)
        finally:
            host.close()


def test_lines_behind_the_index_are_cut_off(folder: Path) -> None:
    """A crash between the two writes of an append: nobody was told of those lines."""
    with path_of(folder, "jsonl").open("ab") as lines:
        lines.write(b"half\nof a ba")
    host = DirectoryReplicaHost(1, folder)

    assert all_lines(host) == expected(3)
    assert append(host, 9, b"next").base_offset == 7
    host.close()
    assert path_of(folder, "jsonl").read_bytes() == expected(3) + b"next\n"


@pytest.mark.parametrize("left", ["jsonl", "index"])
def test_a_replica_that_lost_acknowledged_lines_does_not_lead(folder: Path, left: str) -> None:
    """It ends below the high watermark that it keeps; as a follower it gets them again, and leads then."""
    os.truncate(path_of(folder, left), 40)
    host = DirectoryReplicaHost(1, folder)
    assert host.become_leader(TP, 4, (1, 2), {1, 2}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert "lines are lost: it ends at" in (view(host).failure or "")

    other = DirectoryReplicaHost(2, folder.parent / "2")
    other.become_leader(TP, 0, (1, 2), {2})
    append(other, 0, b"a", b"bb")
    append(other, 0, b"", b"ccc")
    other.become_leader(TP, 3, (1, 2), {2})
    append(other, 3, b"d", b"e", b"f" * 40)
    other.become_leader(TP, 5, (1, 2), {2})
    host.become_follower(TP, 5)
    assert replicate(other, host, TP)

    assert (end(host), watermark(host)) == (7, 7)
    assert host.become_leader(TP, 6, (1, 2), {1, 2}) is ErrorCode.NONE
    host.close()
    other.close()


@pytest.mark.parametrize(
    "epochs", [None, b"", b"0 0\n", b"nonsense", b"0 0\n3 4", b"0 0\n3 5\n", b"3 4\n0 0\n", b"0 0\n0 4\n"]
)
def test_epochs_are_found_again_in_the_batches(folder: Path, epochs: bytes | None) -> None:
    """Where their file is missing, damaged or does not fit them."""
    path = path_of(folder, "epochs")
    path.unlink() if epochs is None else path.write_bytes(epochs)
    host = DirectoryReplicaHost(1, folder)

    assert end(host) == 7
    assert path.read_text() == "0 0\n3 4\n"
    host.close()


def test_a_term_without_lines_is_known_after_a_restart(folder: Path) -> None:
    """Only the file of the epochs tells of it."""
    host = DirectoryReplicaHost(1, folder)
    host.become_leader(TP, 5, (1, 2), {1})
    host.close()

    again = DirectoryReplicaHost(1, folder)
    assert again.become_leader(TP, 4, (1, 2), {1}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert view(again).failure == "cannot lead in epoch 4: its lines are from epoch 5"
    again.close()
    assert path_of(folder, "epochs").read_text() == "0 0\n3 4\n5 7\n"


@pytest.mark.parametrize("text", [None, b"", b"0000000000000000007", b"-000000000000000001\n", b"x" * 20])
def test_without_its_high_watermark_a_replica_does_not_lead(folder: Path, text: bytes | None) -> None:
    """Nobody can say then what was acknowledged."""
    path = path_of(folder, "high-watermark")
    path.unlink() if text is None else path.write_bytes(text)
    host = DirectoryReplicaHost(1, folder)

    assert (end(host), watermark(host)) == (7, 0)
    assert host.become_leader(TP, 4, (1, 2), {1, 2}) is ErrorCode.KAFKA_STORAGE_ERROR
    host.close()


@pytest.mark.parametrize("made", range(len(FILES)))
def test_a_partition_whose_making_was_cut_short_is_made_again(tmp_path: Path, made: int) -> None:
    """The lines come last, so without them it was not there."""
    DirectoryReplicaHost(1, tmp_path / "b").close()
    (tmp_path / "b" / "orders").mkdir()
    for ending, text in [("index", b""), ("epochs", b""), ("high-watermark", b"0" * 19 + b"\n")][:made]:
        path_of(tmp_path / "b", ending).write_bytes(text)
    host = DirectoryReplicaHost(1, tmp_path / "b")

    assert host.view(TP) is None
    assert host.become_leader(TP, 0, (1,), {1}) is ErrorCode.NONE
    assert append(host, 0, b"a").error == ErrorCode.NONE
    host.close()


def test_a_partition_whose_lines_are_gone_is_not_a_new_one(folder: Path) -> None:
    """Its other files tell that there were some."""
    path_of(folder, "jsonl").unlink()
    host = DirectoryReplicaHost(1, folder)

    assert host.become_leader(TP, 0, (1, 2), {1, 2}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert end(host) == 0
    host.close()


@pytest.mark.parametrize("there", ["0.jsonl", "0.log"])
def test_lines_that_no_broker_wrote_are_not_touched(tmp_path: Path, there: str) -> None:
    """Without an index, or in the other form that a `FileSource` reads."""
    DirectoryReplicaHost(1, tmp_path / "b").close()
    (tmp_path / "b" / "orders").mkdir()
    (tmp_path / "b" / "orders" / there).write_bytes(b"mine\n")
    host = DirectoryReplicaHost(1, tmp_path / "b")

    assert host.become_leader(TP, 0, (1,), {1}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert host.become_follower(TP, 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert there in (view(host).failure or "")
    assert (tmp_path / "b" / "orders" / there).read_bytes() == b"mine\n"
    host.close()


@pytest.mark.parametrize("removed", [(), ("index",), ("index", "epochs", "high-watermark")])
def test_a_deletion_that_was_cut_short_is_finished(folder: Path, removed: tuple[str, ...]) -> None:
    """From the rename on the partition is gone, whatever else is still there."""
    path_of(folder, "jsonl").rename(path_of(folder, "deleted"))
    for ending in removed:
        path_of(folder, ending).unlink()

    host = DirectoryReplicaHost(1, folder)

    assert host.partitions() == ()
    assert host.view(TP) is None
    assert list((folder / "orders").iterdir()) == []
    host.close()


def test_a_deleted_partition_leaves_no_file(folder: Path) -> None:
    """Nor the folder of a topic that has no other."""
    host = DirectoryReplicaHost(1, folder)
    host.become_follower(TopicPartition("orders", 1), 0)

    assert host.delete(TP) is ErrorCode.NONE
    assert sorted(path.name for path in (folder / "orders").iterdir()) == sorted(f"1.{e}" for e in FILES)
    assert host.delete(TopicPartition("orders", 1)) is ErrorCode.NONE
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "meta.json"]
    host.close()


# --- trouble with the disk ------------------------------------------------------------------------


def test_a_disk_that_fails_ends_the_role_of_that_partition(
    host: DirectoryReplicaHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not kept is not answered; with the disk back the replica has what it had before."""
    other = TopicPartition("orders", 1)
    host.become_leader(TP, 0, (1, 2), {1})
    host.become_leader(other, 0, (1, 2), {1})
    append(host, 0, b"a")
    told: list[TopicPartition] = []
    host.listen(told.append)
    pwrite = os.pwrite
    written: list[int] = []

    def half(file: int, data: bytes, position: int) -> int:
        if written:
            raise OSError(28, "No space left on device")
        written.append(pwrite(file, bytes(data)[:2], position))
        return written[0]

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", half)
        assert append(host, 0, b"bbbb").error == ErrorCode.NOT_LEADER_FOR_PARTITION

    assert (view(host).role, told) == (Role.NONE, [TP])
    assert "No space left on device" in (view(host).failure or "")
    assert fetch(host, 0).error == ErrorCode.NOT_LEADER_FOR_PARTITION
    assert host.view(other).role is Role.LEADER  # type: ignore[union-attr]
    assert host.become_leader(TP, 1, (1, 2), {1}) is ErrorCode.NONE
    assert (end(host), text_of(fetch(host, 0))) == (1, b"a\n")


def test_a_deletion_that_fails_is_said(host: DirectoryReplicaHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """56: the controller asks again, and the rest is removed."""
    host.become_leader(TP, 0, (1,), {1})

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        assert host.delete(TP) is ErrorCode.KAFKA_STORAGE_ERROR

    assert "Operation not permitted" in (view(host).failure or "")
    assert host.delete(TP) is ErrorCode.NONE
    assert host.view(TP) is None


@pytest.mark.parametrize(("flush", "expected_syncs"), [(Flush.NONE, 0), (Flush.BATCH, 2)])
def test_flush_batch_forces_each_batch_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush: Flush, expected_syncs: int
) -> None:
    """Lines and index, before the answer; by default nothing is forced."""
    host = DirectoryReplicaHost(1, tmp_path / "b", flush=flush)
    host.become_leader(TP, 0, (1,), {1})
    synced: list[int] = []
    monkeypatch.setattr(partition_files.os, "fsync", synced.append)

    append(host, 0, b"a")

    assert len(synced) == expected_syncs
    host.close()


def test_files_of_many_partitions_are_not_all_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was not used for longest gives its files up, and gets them again."""
    monkeypatch.setattr("zkgroup.broker.directory.folder.OpenFiles", lambda: OpenFiles(maximum=2))
    host = DirectoryReplicaHost(1, tmp_path / "b")
    before = open_files()
    partitions = [TopicPartition("many", number) for number in range(5)]
    for tp in partitions:
        host.become_leader(tp, 0, (1, 2), {1, 2})
    for _ in range(2):
        for number in range(5):
            request = AppendLinesRequest("many", number, 0, 1, (b"a",))
            assert host.append(request).error == ErrorCode.NONE

    assert open_files() - before == 2 * 3
    assert [host.log_end_offset(tp) for tp in partitions] == [2] * 5
    host.close()
    assert open_files() == before - 1, "the lock too"
