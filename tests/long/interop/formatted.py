"""The output of ZooKeeper's own TxnLogToolkit and SnapshotFormatter for a server's files: one JVM for all."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.long.interop.jars import compiled
from zkgroup.zookeeper.embedded.java import find_jars, find_java

_OPTIONS: Final = (
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Duser.timezone=UTC",
    "-Duser.language=en",
    "-Duser.country=US",
    "-Dlog4j2.StatusLogger.level=OFF",
)


def formatted(files: Sequence[Path]) -> dict[Path, str]:
    """The output of the tool for each file, of the ZooKeeper inside pyspark.

    Files that are gzipped are unpacked for the tools; they read snapshots that a server packed with snappy.
    Raises MissingToolError where there is no javac, CalledProcessError where a tool fails.
    """
    classpath = os.pathsep.join(map(str, find_jars()))
    classes = compiled(Path(__file__).with_name("ServerFiles.java"), classpath)
    with tempfile.TemporaryDirectory(prefix="zkgroup-formatted-") as scratch:
        places = {file: _placed(file, Path(scratch, str(number))) for number, file in enumerate(files)}
        command = [find_java(), *_OPTIONS, "-cp", f"{classes}{os.pathsep}{classpath}", "ServerFiles"]
        subprocess.run([*command, *map(str, places.values())], check=True, capture_output=True)
        return {file: Path(f"{place}.txt").read_text("utf-8", "replace") for file, place in places.items()}


def _placed(file: Path, folder: Path) -> Path:
    """A copy with the name that a server gave the file, since the tools go by names."""
    folder.mkdir()
    if file.suffix == ".gz":
        place = folder / file.stem
        place.write_bytes(gzip.decompress(file.read_bytes()))
        return place
    return Path(shutil.copy(file, folder))
