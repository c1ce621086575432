"""The command line of a server: Java, the jars inside pyspark, and options that start it fast.

pyspark is located, never imported (importing it takes longer than starting the server).

The start takes, on two slow cores: with all 230 jars of pyspark on the class path 1.2-2.1 s (Log4j 2 finds
its core and configures it); with these ten, C1 only, serial collector 0.3-0.4 s. Log4j's API without its core
logs to standard error, which the launcher sends to the server's log file. With an archive of the classes
(`class_archive`) a start costs 0.57 s of CPU instead of 1.1 s.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from zkgroup.errors import EmbeddedServerError
from zkgroup.zookeeper.embedded.class_archive import archive_options

_MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_JARS = (
    "zookeeper-3",
    "zookeeper-jute",
    "slf4j-api",
    "log4j-slf4j2-impl",
    "log4j-api",
    "metrics-core",
    "snappy-java",
    "commons-io",
    "commons-cli",
    "audience-annotations",
)
_OPTIONS = (
    "-XX:TieredStopAtLevel=1",  # C2 only competes for the CPU during the first minute
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
    "-Djavax.net.ssl.trustStore=NONE",  # a quorum peer reads all authorities without use: 0.15 s of CPU
    "-Dlog4j2.simplelogLevel=INFO",
    "-Dlog4j2.simplelogShowdatetime=true",
    "-Dlog4j2.StatusLogger.level=OFF",
    "-Dzookeeper.jmx.log4j.disable=true",
)


def find_java() -> str:
    """Path of the `java` program: of JAVA_HOME, else on the PATH.

    Raises EmbeddedServerError if there is none.
    """
    home = os.environ.get("JAVA_HOME")
    java = (shutil.which("java", path=Path(home, "bin")) if home else None) or shutil.which("java")
    if java is None:
        raise EmbeddedServerError(
            "the embedded ZooKeeper needs Java 17 or later: no `java` in JAVA_HOME or on the PATH. "
            "Install one (Debian: apt install openjdk-17-jre-headless) or give the address of a running "
            "ZooKeeper instead"
        )
    return java


def find_jars() -> tuple[Path, ...]:
    """The jars that a server needs, inside the installed pyspark.

    Raises EmbeddedServerError if pyspark, or one of its jars, is not installed.
    """
    spec = find_spec("pyspark")
    places = (spec.submodule_search_locations if spec else None) or ()
    for place in places:
        folder = Path(place, "jars")
        if folder.is_dir():
            return tuple(_pick(folder, name) for name in _JARS)
    raise EmbeddedServerError(
        "the embedded ZooKeeper is taken from the jars of pyspark, which is not installed here: "
        "pip install 'zkgroup[embedded]', or give the address of a running ZooKeeper instead"
    )


def _pick(folder: Path, name: str) -> Path:
    found = sorted(path for path in folder.glob(f"{name}*.jar") if path.name[len(name)] in "-.")
    if not found:
        raise EmbeddedServerError(
            f"pyspark is installed without {name}*.jar in {folder}: "
            "reinstall it with pip install --force-reinstall 'pyspark >= 4.0, < 5'"
        )
    return found[-1]


def server_command(
    config: Path,
    *,
    heap_mb: int,
    fsync: bool,
    options: Sequence[str] = (),
    archive_folder: Path | None = None,
) -> list[str]:
    """The command that runs a server on this configuration file, in the foreground.

    `archive_folder`: where it writes an archive of its classes when it ends, unless there is one already.
    """
    java, jars = find_java(), find_jars()
    archive = archive_options(java, jars, options, archive_folder)
    durability = () if fsync else ("-Dzookeeper.forceSync=no",)
    class_path = os.pathsep.join(map(str, jars))
    flags = (f"-Xmx{heap_mb}m", *_OPTIONS, *archive, *durability, *options)
    return [java, *flags, "-cp", class_path, _MAIN_CLASS, str(config)]
