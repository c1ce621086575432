"""Kafka's own tools, where Maven and Java are there: console clients and the dump tool.

Maven fetches the jars of one release once, into a cache of this user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from zkgroup.demo.kafka_clients import CALL_S, ClientRecord, ClientWork, member_settings
from zkgroup.errors import SourceError
from zkgroup.zookeeper.embedded.server import launched

RELEASE = "2.8.2"
CONSOLE = "Java console clients"
MAVEN_S = 60.0
"""Longest wait for Maven when the demo needs its jars; it has begun with the demo."""
KILL_WAIT_S = 60.0
PATIENT = ("--request-timeout-ms", "30000", "--message-send-max-retries", "1000")
"""The console producer gives a request 1.5 s and repeats it three times, each after 0.1 s."""
POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{RELEASE}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.30</version></dependency>
</dependencies></project>
"""
SMALL_JVM = ("-Xmx128m", "-Xss256k", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def cached_jars() -> Path:
    """The folder of the jars; it is complete or does not exist."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "zkgroup" / f"kafka-{RELEASE}"


def java(jars: Path | str, main: str, *arguments: str) -> list[str]:
    """The command that runs a class of the jars."""
    return [_path("java"), *SMALL_JVM, "-cp", f"{jars}/*", main, *arguments]


def _path(name: str) -> str:
    """Of a program that is on the PATH."""
    return shutil.which(name) or name


class KafkaTools:
    """Kafka's console producer and consumer, with gzip, and its dump tool: processes of Java.

    Maven fetches the jars meanwhile, where they are not there.
    """

    name = CONSOLE
    version = RELEASE

    def __init__(self, folder: Path) -> None:
        """Starts Maven, if there is something to fetch. The console producer's input goes to the folder."""
        self.jars = cached_jars()
        self.reason = ""
        """The reason why the tools take no part; empty while they are fetched, and where they are there."""
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._maven: subprocess.Popen[bytes] | None = None
        self._began_s = time.monotonic()
        needed = ["java"] if self.jars.is_dir() else ["java", "mvn"]
        if missing := [name for name in needed if shutil.which(name) is None]:
            self.reason = f"no {' and no '.join(missing)} on the PATH"
        elif not self.jars.is_dir():
            try:
                self._start_maven()
            except OSError as error:
                self.reason = f"its jars cannot be fetched: {error}"

    def _start_maven(self) -> None:
        self.jars.parent.mkdir(parents=True, exist_ok=True)
        self._scratch = tempfile.TemporaryDirectory(prefix=".fetch.", dir=self.jars.parent)
        pom = Path(self._scratch.name, "pom.xml")
        pom.write_text(POM, encoding="utf-8")
        words = [_path("mvn"), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        with pom.with_name("printed").open("wb") as printed:
            self._maven = launched("pid", [*words, "-DoutputDirectory=jars"], stderr=printed)

    @property
    def is_fetching(self) -> bool:
        return self._maven is not None and self._maven.poll() is None

    def has_ended_in_time(self) -> bool:
        """Returns whether Maven has ended; ends it where it takes too long."""
        if self.is_fetching and time.monotonic() - self._began_s < MAVEN_S:
            return False
        if self._maven is not None:
            code, fetched = self._maven.poll(), Path(self._scratch.name, "jars")
            if code is None:
                self.reason = "Maven has not fetched Kafka's jars in time"
            elif code:
                printed = fetched.with_name("printed").read_text(errors="replace")
                self.reason = f"Maven cannot fetch its jars: {_last_line(printed)}"
            elif not self.jars.exists():  # another process may have been faster
                fetched.rename(self.jars)
            self._end_maven()
        return True

    def _end_maven(self) -> None:
        if self._maven is not None:
            self._maven.terminate()
            self._maven.communicate(timeout=KILL_WAIT_S)
            self._maven = None
            self._scratch.cleanup()

    def run(self, main: str, *arguments: str, source: Path = Path(os.devnull)) -> str:
        """Runs a class; returns its output. Raises SourceError with the end of what it wrote on stderr."""
        with source.open("rb") as given:
            command = java(self.jars, main, *arguments)
            process = launched("output", command, stdin=given, stderr=subprocess.PIPE)
        self._processes.append(process)
        try:
            out, err = process.communicate(timeout=CALL_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.communicate(timeout=KILL_WAIT_S)
            raise SourceError(f"java has not ended in {CALL_S:g} s") from None
        if process.returncode:
            last = _last_line((err or out).decode(errors="replace"))
            raise SourceError(f"{main} ended with {process.returncode}: {last}")
        return out.decode(errors="replace")

    def produce(self, bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> None:
        """Produces with acks=all; the console producer prints no offsets."""
        source = self._folder / "console-producer.txt"
        source.write_bytes(b"".join(b"%b\t%b\n" % one for one in records))
        words = ["--bootstrap-server", bootstrap, "--topic", topic, "--property", "parse.key=true"]
        words += ["--request-required-acks", "all", "--producer-property", "enable.idempotence=true"]
        words += ["--compression-codec", "gzip", *PATIENT]
        self.run("kafka.tools.ConsoleProducer", *words, source=source)

    def read(self, bootstrap: str, topic: str, count: int) -> dict[int, ClientRecord]:
        """Reads so many records of partition 0, by their offsets."""
        words = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "0"]
        words += ["--max-messages", str(count), "--timeout-ms", str(int(CALL_S * 500))]
        words += ["--property", "print.key=true", "--property", "print.offset=true"]
        found: dict[int, ClientRecord] = {}
        for line in self.run("kafka.tools.ConsoleConsumer", *words).splitlines():
            offset, key, value = line.removeprefix("Offset:").split("\t", 2)
            found[int(offset)] = ClientRecord(key.encode(), value.encode())
        return found

    def close(self) -> None:
        self._end_maven()
        for process in self._processes:
            process.terminate()


def _last_line(text: str) -> str:
    """The last line with something in it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing was printed"


def run_member(work: ClientWork, jars: str) -> None:
    """Java's console consumer as a member: its output is read, and SIGTERM makes it commit and leave.

    It does not report assignments: a record that does not follow the one before begins a new one.
    """
    properties = member_settings(work) | {
        "auto.commit.interval.ms": 500,
        "metadata.max.age.ms": 5000,
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
    }
    words = ["--bootstrap-server", work.bootstrap, "--topic", work.topic]
    for name, value in properties.items():
        words += ["--consumer-property", f"{name}={value}"]
    words += ["--property", "print.partition=true", "--property", "print.offset=true"]
    command = java(jars, "kafka.tools.ConsoleConsumer", *words)
    process = launched("output", command, stdin=subprocess.DEVNULL)
    work.stopping.then(process.terminate)
    assert process.stdout is not None
    for line in process.stdout:
        partition, offset, value = line.rstrip(b"\n").split(b"\t", 2)
        number = int(partition.removeprefix(b"Partition:"))
        work.process(number, int(offset.removeprefix(b"Offset:")), value)
    if process.wait() and not work.stopping.is_requested:
        raise SourceError(f"the console consumer ended with {process.returncode}")
