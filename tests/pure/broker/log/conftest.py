"""Both kinds of storage: what holds for logs on disk holds for those in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from zkgroup.broker.log.disk_storage import DiskStorage
from zkgroup.broker.log.storage import MemoryStorage, Storage


@pytest.fixture(params=["disk", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    made: Storage = DiskStorage(tmp_path, 8) if request.param == "disk" else MemoryStorage()
    yield made
    made.close()
