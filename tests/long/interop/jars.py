"""Real Kafka releases, with the ZooKeeper servers they carry: folders of jars, fetched once through Maven.

    python -m tests.long.interop.jars 0.8.2.2                      print the folder
    python -m tests.long.interop.jars 0.8.2.2 CLASS ARGUMENT...    run a class in the foreground

Useful classes: `kafka.Kafka`, `kafka.admin.TopicCommand`, `kafka.tools.ConsumerOffsetChecker`,
`kafka.tools.ExportZkOffsets`, `org.apache.zookeeper.server.quorum.QuorumPeerMain`. The cache is
`$REAL_KAFKA_HOME`, by default `~/.cache/real-kafka`. Java 17 runs all of them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LOG4J = """\
log4j.rootLogger=${real.kafka.log}, A
log4j.appender.A=org.apache.log4j.ConsoleAppender
log4j.appender.A.target=System.err
log4j.appender.A.layout=org.apache.log4j.PatternLayout
log4j.appender.A.layout.ConversionPattern=[%d] %p %m (%c)%n
"""

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>real-kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_{scala}</artifactId><version>{version}</version></dependency>
{more}<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-log4j12</artifactId><version>1.7.30</version></dependency>
</dependencies></project>
"""

TOOLS = """\
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version></dependency>
"""
"""In 3.x more and more command-line tools have an artifact of their own."""

TOOLS_ALONE = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>real-kafka-tools</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
</dependencies></project>
"""
"""The artifact without what it depends on: the jars of the release have that."""


APPLICATIONS = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>real-kafka-applications</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-file</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
"""
"""Kafka Streams, and Connect with its connectors of files."""


class MissingToolError(Exception):
    """Kafka's releases are not available here; the message names the missing tool or has Maven's output."""


def cache() -> Path:
    """The folder of the jars and the compiled classes; outside the repository."""
    return Path(os.environ.get("REAL_KAFKA_HOME") or Path.home() / ".cache" / "real-kafka")


def require(*tools: str) -> None:
    """Raises MissingToolError naming the tools that are not on the PATH."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise MissingToolError(f"{' and '.join(missing)} not found on the PATH")


def kafka_jars(version: str) -> Path:
    """The folder with the jars of a release (0.8.2.2, 0.9.0.1, ...), which is complete or does not exist."""
    return _fetched(f"Kafka {version}", cache() / version, _pom(version))


def tools_jars(version: str) -> Path:
    """The folder with the jar of the verifiable producer; in 3.x that of the release has it."""
    if version.startswith("3."):
        return kafka_jars(version)
    return _fetched(
        f"the tools of Kafka {version}", cache() / f"{version}-tools", TOOLS_ALONE.format(version=version)
    )


def applications_jars(version: str) -> Path:
    """The folder with the jars of Kafka Streams and Connect (3.x)."""
    pom = APPLICATIONS.format(version=version)
    return _fetched(f"Streams and Connect of Kafka {version}", cache() / f"{version}-applications", pom)


def _fetched(what: str, folder: Path, pom: str) -> Path:
    if folder.is_dir():
        return folder
    require("mvn", "java")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Path(folder.parent, f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process fetches, and others wait for it
        return folder if folder.is_dir() else _copied(what, folder, pom)


def _copied(what: str, folder: Path, pom: str) -> Path:
    with tempfile.TemporaryDirectory(prefix=".fetch.", dir=folder.parent) as scratch:
        Path(scratch, "pom.xml").write_text(pom, encoding="utf-8")
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            raise MissingToolError(f"Maven cannot fetch {what}: {done.stdout.strip()[-600:]}")
        jars = Path(scratch, "jars")
        Path(jars, "log4j.properties").write_text(LOG4J, encoding="utf-8")
        jars.rename(folder)
    return folder


def _pom(version: str) -> str:
    more = TOOLS.format(version=version) if version.startswith("3.") else ""
    return POM.format(version=version, scala=_scala(version), more=more)


def _scala(version: str) -> str:
    """The Scala version for which a release is built and that Maven has."""
    if version.startswith(("0.", "1.")):
        return "2.11"
    return "2.12" if version.startswith(("2.0.", "2.1.", "2.2.", "2.3.")) else "2.13"


def compiled(source: Path, classpath: str) -> Path:
    """The folder with the classes of one Java file, compiled once for each content and classpath."""
    require("javac")
    digest = hashlib.sha256(source.read_bytes() + classpath.encode()).hexdigest()[:16]
    folder = cache() / f"classes-{source.stem}-{digest}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".classes.", dir=folder.parent) as scratch:
            classes = Path(scratch, "classes")
            command = [
                "javac",
                "-nowarn",
                "-encoding",
                "UTF-8",
                "-cp",
                classpath,
                "-d",
                str(classes),
                str(source),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"javac {source.name}: {done.stderr.strip()[-600:]}")
            if not folder.exists():
                classes.rename(folder)
    return folder


def java(
    classpath: str, main: str, *arguments: str, heap_mb: int = 128, log: Path | None = None
) -> list[str]:
    """The command line of a small JVM that starts fast: serial collector, first compiler, no verifier."""
    logging = [f"-Dlog4j.configuration=file:{log}", "-Dreal.kafka.log=WARN"] if log else []
    small = [f"-Xmx{heap_mb}m", "-Xss256k", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    small += ["-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"]
    return ["java", *small, *logging, "-cp", classpath, main, *arguments]


def kafka(
    version: str, main: str, *arguments: str, heap_mb: int = 128, classes: Path | None = None
) -> list[str]:
    """The command line of a class of a release, with our own classes before its jars."""
    jars = kafka_jars(version)
    classpath = f"{classes}:{jars}/*" if classes else f"{jars}/*"
    return java(classpath, main, *arguments, heap_mb=heap_mb, log=jars / "log4j.properties")


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if len(sys.argv) == 2:
        print(kafka_jars(sys.argv[1]))
        return
    command = kafka(sys.argv[1], *sys.argv[2:])
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
