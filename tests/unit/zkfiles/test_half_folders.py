"""Folders with logs alone, or with snapshots alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.zkfiles_world import World
from zkgroup.errors import NotFoundError
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.names import list_files


def test_logs_alone(tmp_path: Path) -> None:
    world = World()
    world.create("/a")
    world.create("/b")
    world.log(tmp_path)
    history = History(tmp_path)

    assert "/b" in history.tree_at().tree
    assert history.zxid_at(world.ms) == 2
    assert history.verify().digests_checked == 2


def test_snapshots_alone(tmp_path: Path) -> None:
    world = World()
    world.create("/a")
    world.snapshot(tmp_path, 1)
    history = History(tmp_path)

    assert "/a" in history.tree_at().tree
    assert list_files(tmp_path).logs_within(0) == ()
    assert history.verify().is_right
    with pytest.raises(NotFoundError):
        history.zxid_at(world.ms)


def test_the_newest_of_snapshots_alone_is_the_last_tree(tmp_path: Path) -> None:
    """The older one is known to have ended, but no log leads on from it."""
    world = World(digests=False)
    world.create("/a")
    world.snapshot(tmp_path, 1)
    world.create("/b")
    world.snapshot(tmp_path, 2)
    history = History(tmp_path)

    assert "/b" in history.tree_at().tree
    assert "/b" not in history.tree_at(zxid=1).tree
