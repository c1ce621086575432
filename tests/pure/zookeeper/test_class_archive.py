"""The archive of a server's classes: which is used, which is kept. Files stand for Java and archives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zkgroup.zookeeper.embedded.class_archive import archive_options, archive_to_write, keep_archive

USES, WRITES = "-XX:SharedArchiveFile=", "-XX:ArchiveClassesAtExit="


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the archives."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "zkgroup"


class Installation:
    """A Java, the jars of a server, and the folder of a server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.java = self._file("java/bin/java")
        self._file("java/release")
        self.jars = [self._file("zookeeper.jar")]

    def _file(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        return path

    def options(self, *more: str, writes: bool = True) -> list[str]:
        found = archive_options(str(self.java), self.jars, more, self.folder if writes else None)
        return [option for option in found if option.startswith((USES, WRITES))]

    def made(self, content: bytes = b"classes") -> Path:
        """Where its server has written an archive."""
        path = archive_to_write(self.options())
        assert path is not None
        path.write_bytes(content)
        return path

    def keeps(self) -> Path:
        """The archive that is used, once one was kept."""
        keep_archive(self.made(), is_complete=True)
        (option,) = self.options()
        assert option.startswith(USES)
        return Path(option.removeprefix(USES))


@pytest.fixture
def installation(tmp_path: Path, kept: Path) -> Installation:
    return Installation(tmp_path / "installation")


def test_what_a_server_has_written_is_used_by_the_next(installation: Installation, kept: Path) -> None:
    """It is moved to the others, which only this user can read; one server of several writes it."""
    assert installation.options(writes=False) == []
    made = installation.made()
    assert made.parent == installation.folder

    used = installation.keeps()

    assert used.parent == kept
    assert used.read_bytes() == b"classes"
    assert not made.exists()
    assert list(kept.iterdir()) == [used]
    assert (kept.stat().st_mode & 0o777, used.stat().st_mode & 0o777) == (0o700, 0o600)
    assert installation.options(writes=False) == [f"{USES}{used}"]


def test_what_a_killed_server_has_written_is_deleted(installation: Installation, kept: Path) -> None:
    """It may be the half of one."""
    made = installation.made()
    keep_archive(made, is_complete=False)
    assert not made.exists()
    assert list(kept.iterdir()) == []
    keep_archive(made, is_complete=True)  # the server has written none
    assert list(kept.iterdir()) == []


def test_a_damaged_one_is_deleted_and_written_again(installation: Installation) -> None:
    """Java ends by SIGBUS with half of an archive."""
    used = installation.keeps()
    used.write_bytes(b"class")
    assert installation.options() == [f"{WRITES}{installation.made()}"]
    assert not used.exists()


def test_one_of_another_java_or_other_jars_is_not_used(installation: Installation) -> None:
    """Nor one of jars that were replaced."""
    used = installation.keeps()
    others = Installation(installation.folder.parent / "others")
    assert others.options()[0].startswith(WRITES)
    for path in (installation.jars[0], installation.java):
        before = path.stat().st_mtime_ns
        os.utime(path, ns=(before, before + 1))
        assert installation.options()[0].startswith(WRITES)
        os.utime(path, ns=(before, before))
    assert installation.options() == [f"{USES}{used}"]


def test_options_that_may_load_other_classes_go_without(installation: Installation) -> None:
    """Properties may not; another class path or collector may."""
    used = installation.keeps()
    assert installation.options("-Dzookeeper.preAllocSize=64") == [f"{USES}{used}"]
    assert installation.options("-cp", "other.jar") == []
    assert installation.options("-XX:+UseG1GC") == []


@pytest.mark.parametrize("where", ["folder", "archive"])
def test_what_others_can_write_is_not_trusted(installation: Installation, where: str) -> None:
    """The classes of an archive are code that Java runs."""
    used = installation.keeps()
    (used if where == "archive" else used.parent).chmod(0o777)
    assert not any(option.startswith(USES) for option in installation.options())


def test_where_nothing_can_be_kept_servers_start_without(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No folder for caches is no error, and neither is one that has gone since."""
    made = installation.made()
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    assert installation.options() == []
    keep_archive(made, is_complete=True)
    assert not made.exists()


def test_the_newest_twelve_are_kept(installation: Installation, kept: Path) -> None:
    """Each environment has archives of its own."""
    kept.mkdir(parents=True)
    for number in range(15):
        path = kept / f"zookeeper-{number:02}-0.jsa"
        path.touch()
        os.utime(path, (number, number))
    used = installation.keeps()
    assert {*kept.iterdir()} == {used, *(kept / f"zookeeper-{number:02}-0.jsa" for number in range(4, 15))}
