"""`DiskLogDir`: its files, and whose folder it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.pure.broker.folders import FILES, expected, path_of
from tests.worlds.replica_managers import TP, append, on_disk, pair, replicate
from zkgroup.broker.log.recovery import ENTRY
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.consumer.sources.files import FileSource
from zkgroup.errors import ConfigError, ConflictError
from zkgroup.wire.crc32c import crc32c
from zkgroup.wire.messages import ErrorCode


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
    """Cluster, broker and a uuid, which stays."""
    host = on_disk(4, tmp_path / "b", "cluster")
    host.close()
    again = on_disk(4, tmp_path / "b", "cluster")
    again.close()

    meta = json.loads((tmp_path / "b" / "meta.json").read_text())
    assert meta == {"version": 1, "cluster_id": "cluster", "broker": 4, "folder": host.folder_id}
    assert again.folder_id == host.folder_id


@pytest.mark.parametrize(
    ("broker", "cluster_id", "complaint"),
    [
        (5, "cluster", r"the folder is broker 4's, not 5's"),
        (4, "other", r"the folder is of cluster cluster, not other"),
    ],
)
def test_a_folder_of_others_is_refused(tmp_path: Path, broker: int, cluster_id: str, complaint: str) -> None:
    """By id and by cluster; a broker that does not know its cluster takes what is there."""
    on_disk(4, tmp_path / "b", "cluster").close()

    with pytest.raises(ConfigError, match=complaint):
        on_disk(broker, tmp_path / "b", cluster_id)
    on_disk(4, tmp_path / "b").close()


@pytest.mark.parametrize("meta", [b"", b"{", b"[]", b'{"version":2,"folder":"f"}', b'{"version":1}'])
def test_a_meta_file_that_cannot_be_read_is_refused(tmp_path: Path, meta: bytes) -> None:
    """And left as it is."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "meta.json").write_bytes(meta)

    with pytest.raises(ConfigError, match=r"meta\.json: expected"):
        on_disk(1, tmp_path / "b")
    assert (tmp_path / "b" / "meta.json").read_bytes() == meta


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    """Somebody's files are nothing to take over."""
    (tmp_path / "orders").mkdir()

    with pytest.raises(
        ConfigError, match=r"expected an empty folder or a broker's, found orders and no meta"
    ):
        on_disk(1, tmp_path)


@pytest.mark.parametrize("name", ["missing/b", "file"])
def test_what_can_be_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    """Its parent must be there, and nothing else of that name."""
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="cannot be a broker's folder"):
        on_disk(1, tmp_path / name)


def test_only_what_a_broker_would_name_so_is_a_partition(host: ReplicaManager, tmp_path: Path) -> None:
    """`007.index` is no partition 7: that one's files have another name."""
    host.become_leader(TP, 0, (1,), {1})
    for name in ("007.index", "\u0667.index", "x.index"):
        (tmp_path / "fresh" / "orders" / name).write_bytes(b"")

    assert host.partitions() == (TP,)


def test_one_process_uses_a_folder(host: ReplicaManager, tmp_path: Path) -> None:
    """Until it closes, or dies."""
    with pytest.raises(ConflictError, match="is used by another broker"):
        on_disk(1, tmp_path / "fresh")
    host.close()

    on_disk(1, tmp_path / "fresh").close()


def test_a_file_source_reads_the_folder(host: ReplicaManager, tmp_path: Path) -> None:
    """A consumer of files sees the leader's lines at their offsets, while it appends."""
    host.become_leader(TP, 0, (1,), {1})
    append(host, 0, b'{"n": 0}', b'{"n": 1}')
    source = FileSource(tmp_path / "fresh")
    assert source.bounds(TP).end == 2

    append(host, 0, b'{"n": 2}')

    assert [(r.offset, r.value) for r in source.read(TP, 1, 10)] == [(1, b'{"n": 1}'), (2, b'{"n": 2}')]


def test_a_leaders_folder_is_lost_and_a_file_source_reads_on(tmp_path: Path) -> None:
    """What was acknowledged is in the files of the other replica, byte for byte."""
    one, two = on_disk(1, tmp_path / "1"), on_disk(2, tmp_path / "2")
    pair(one, two)
    append(one, 0, b"a", b"b")
    assert replicate(one, two, TP)
    one.close()
    shutil.rmtree(tmp_path / "1")

    assert two.become_leader(TP, 1, (1, 2), {2}) is ErrorCode.NONE
    append(two, 1, b"c")
    two.close()

    assert [r.value for r in FileSource(tmp_path / "2").read(TP, 0, 10)] == [b"a", b"b", b"c"]
