"""Folders with logs alone, or with snapshots alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.worlds.golden_data import FOLDER
from tests.worlds.server_history import ServerHistory
from zkgroup.errors import NotFoundError
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.names import list_files


def test_logs_alone(tmp_path: Path) -> None:
    """From logs alone the tree is replayed, a time finds its zxid, and both digests are checked."""
    world = ServerHistory()
    world.create("/a")
    world.create("/b")
    world.log(tmp_path)
    history = History(tmp_path)

    assert "/b" in history.tree_at().tree
    assert history.zxid_at(world.ms) == 2
    assert history.verify().digests_checked == 2


def test_snapshots_alone(tmp_path: Path) -> None:
    """A snapshot alone gives its tree and verifies; without records no time finds a zxid."""
    world = ServerHistory()
    world.create("/a")
    world.snapshot(tmp_path, 1)
    history = History(tmp_path)

    assert "/a" in history.tree_at().tree
    assert list_files(tmp_path).logs_within(0) == ()
    assert history.verify().is_right
    with pytest.raises(NotFoundError):
        history.zxid_at(world.ms)


def test_the_newest_of_snapshots_alone_is_the_last_tree(tmp_path: Path) -> None:
    """The older one is known to have ended, by the name of the next one, but no log leads on from it."""
    for name in ("snapshot.100.gz", "snapshot.352.gz"):
        shutil.copy(FOLDER / "kafka-0.8.2.2" / "zookeeper-3.4.6" / "version-2" / name, tmp_path)
    history = History(tmp_path)

    assert history.tree_at().account.snapshot_zxid == 0x352
    assert history.tree_at(zxid=0x351).account.snapshot_zxid == 0x100
