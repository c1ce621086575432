"""Which files are a server's is told by their names; links are left alone; ranges prune without reading."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zkgroup.errors import MissingFileError, NotZooKeeperFileError
from zkgroup.zkfiles.files import LOG, SNAPSHOT, ServerFile, list_files


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("log.1", (LOG, 1, None)),
        ("log.2000000ff", (LOG, 0x2000000FF, None)),
        ("log.1f.gz", (LOG, 0x1F, "gz")),
        ("snapshot.0", (SNAPSHOT, 0, None)),
        ("snapshot.A", (SNAPSHOT, 10, None)),
        ("snapshot.1f.gz", (SNAPSHOT, 0x1F, "gz")),
        ("snapshot.1f.snappy", (SNAPSHOT, 0x1F, "snappy")),
        *(
            (name, None)
            for name in (
                *("acceptedEpoch", "currentEpoch", "log", "log.", "log.x", "log.1.fixed", "log.1.chopped2"),
                *("snapshot.1.tmp", "snapshot.1.zip", "mylog.1", "log.-1", "log.1\n", "log.١", "log.0x1"),
                *("log.10000000000000000", "snapshot..gz", "snapshot.1.gz.gz", "Log.1"),
            )
        ),
    ],
)
def test_names(name: str, expected: tuple[str, int, str | None] | None) -> None:
    """What Util.getZxidFromName takes, with the suffixes of SnapStream, and archived logs; nothing else."""
    found = ServerFile.of(Path("/x") / name)
    assert (found and (found.kind, found.zxid, found.compression)) == expected


def folder_of(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_bytes(b"")
    return folder


def test_files_are_sorted_by_number(tmp_path: Path) -> None:
    """By text 10 would come before 9."""
    files = list_files(folder_of(tmp_path, "log.9", "log.10", "log.a", "snapshot.ff", "snapshot.8", "myid"))
    assert [each.zxid for each in files.logs] == [9, 10, 16]
    assert [each.path.name for each in files.snapshots] == ["snapshot.8", "snapshot.ff"]
    assert (files.folder, files.skipped) == (tmp_path, ())


def test_a_data_folder_stands_for_the_one_below(tmp_path: Path) -> None:
    """People name what stands in their zoo.cfg."""
    below = tmp_path / "version-2"
    below.mkdir()
    folder_of(below, "log.1")
    folder_of(tmp_path, "myid")
    files = list_files(tmp_path)
    assert (files.folder, [each.path for each in files.logs]) == (below, [below / "log.1"])


def test_a_link_to_one_below_does_not(tmp_path: Path) -> None:
    """It may lead out of what was given; whoever wants it can name it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    folder_of(outside, "log.1")
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "version-2").symlink_to(outside)
    with pytest.raises(NotZooKeeperFileError):
        list_files(folder)
    assert len(list_files(folder / "version-2").logs) == 1


def test_a_file_packed_and_plain_counts_once(tmp_path: Path) -> None:
    """An archive job was interrupted: the plain one is whole."""
    files = list_files(folder_of(tmp_path, "log.1", "log.1.gz", "log.2.gz", "snapshot.1.snappy"))
    assert [each.path.name for each in files.logs] == ["log.1", "log.2.gz"]


def test_links_folders_and_pipes_are_not_followed(tmp_path: Path) -> None:
    """They are named, so that nobody misses them without a word."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    folder = tmp_path / "version-2"
    folder.mkdir()
    folder_of(folder, "log.1")
    (folder / "log.2").symlink_to(outside)
    (folder / "log.3").mkdir()
    os.mkfifo(folder / "log.4")
    (folder / "snapshot.1").symlink_to(folder / "log.1")
    files = list_files(folder)
    assert [each.zxid for each in files.logs] == [1]
    assert [each.name for each in files.skipped] == ["log.2", "log.3", "log.4", "snapshot.1"]


def test_a_folder_without_any_or_none_at_all(tmp_path: Path) -> None:
    """The message says what was looked for and what is there."""
    with pytest.raises(NotZooKeeperFileError, match="found none"):
        list_files(tmp_path)
    with pytest.raises(MissingFileError, match="expected a folder, found nothing"):
        list_files(tmp_path / "missing")
    with pytest.raises(NotZooKeeperFileError, match="expected a folder, found a file"):
        list_files(folder_of(tmp_path, "log.1") / "log.1")
    links = tmp_path / "links"
    links.mkdir()
    (links / "log.1").symlink_to(tmp_path / "log.1")
    with pytest.raises(NotZooKeeperFileError, match=r"found none but log\.1, which is no regular file"):
        list_files(links)


def test_ranges_prune_by_name(tmp_path: Path) -> None:
    """A log reaches up to the name of the next one."""
    files = list_files(folder_of(tmp_path, "log.1", "log.10", "log.20", "snapshot.0", "snapshot.1f"))

    def logs(from_zxid: int, to_zxid: int | None = None) -> list[int]:
        return [each.zxid for each in files.logs_within(from_zxid, to_zxid)]

    assert logs(0) == [1, 0x10, 0x20]
    assert logs(0xF) == [1, 0x10, 0x20]
    assert logs(0x10) == [0x10, 0x20]
    assert logs(0x10, 0x1F) == [0x10]
    assert logs(0, 0) == []
    assert logs(0x100) == [0x20]
