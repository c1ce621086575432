"""The archive of Java's classes that makes servers start faster, on real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from zkgroup.zookeeper.embedded import EmbeddedZooKeeper


def archive_options(zookeeper: EmbeddedZooKeeper) -> list[str]:
    """What is said about archives on the command line of the first server."""
    (pid,) = zookeeper.pids
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return [word for word in words if "Archive" in word]


def test_a_server_that_ends_in_order_leaves_one_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed one leaves none; the next writes it, the one after that uses it and serves; logs are clean."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept = tmp_path / "cache" / "zkgroup"
    with EmbeddedZooKeeper(fsync=False) as zookeeper:
        assert archive_options(zookeeper)[0].startswith("-XX:ArchiveClassesAtExit=")
        zookeeper.server(0).kill()
        assert list(kept.iterdir()) == []
        zookeeper.server(0).restart()
    (archive,) = kept.iterdir()

    with EmbeddedZooKeeper(data_dir=tmp_path / "data", fsync=False) as zookeeper:
        assert archive_options(zookeeper) == [f"-XX:SharedArchiveFile={archive}"]
        assert zookeeper.server(0).ask("ruok") == "imok"
        assert "[cds]" not in zookeeper.server(0).log_path.read_text()
    assert sorted(path.name for path in (tmp_path / "data" / "server-0").iterdir()) == [
        "myid",
        "version-2",
        "zoo.cfg",
        "zookeeper.log",
    ]
