"""Folders of real servers for the tests of `zkgroup audit`."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.worlds.golden_data import FOLDER

V346 = FOLDER / "kafka-0.8.2.2" / "zookeeper-3.4.6"
V394 = FOLDER / "kafka-0.8.2.2" / "zookeeper-3.9.4"
INCIDENTS = FOLDER / "kafka-0.8.2.2" / "zookeeper-3.4.6-incidents"


def copy(source: Path, to: Path) -> Path:
    """A copy of the data folder, to be damaged; the path of its version-2."""
    return Path(shutil.copytree(source / "version-2", to / "version-2"))
