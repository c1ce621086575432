"""Folders of a broker, written and fresh."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pure.broker.folders import write_batches
from tests.worlds.replica_managers import on_disk
from zkgroup.broker.replicas.manager import ReplicaManager


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
def host(tmp_path: Path) -> Iterator[ReplicaManager]:
    made = on_disk(1, tmp_path / "fresh")
    yield made
    made.close()
