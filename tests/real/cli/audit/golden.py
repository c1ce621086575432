"""Folders of real servers for the tests of `zkgroup audit`."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

from tests.worlds.golden_data import FOLDER

V346 = FOLDER / "kafka-0.8.2.2" / "zookeeper-3.4.6"
V394 = FOLDER / "kafka-0.8.2.2" / "zookeeper-3.9.4"
INCIDENTS = FOLDER / "kafka-0.8.2.2" / "zookeeper-3.4.6-incidents"


def copy(source: Path, to: Path) -> Path:
    """A copy of the data folder, to be damaged; the path of its version-2."""
    return Path(shutil.copytree(source / "version-2", to / "version-2"))


def damaged_copy(to: Path) -> Path:
    """A copy of V394 with a flipped bit in the middle of one log."""
    folder = copy(V394, to)
    log = bytearray(gzip.decompress((folder / "log.68.gz").read_bytes()))
    log[5000] ^= 1
    (folder / "log.68.gz").unlink()
    (folder / "log.68").write_bytes(log)
    return folder
