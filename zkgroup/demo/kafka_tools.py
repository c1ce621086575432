"""Kafka's own tools, where Maven and Java are there: console clients and the dump tool.

Maven fetches the jars of one release once, into a cache of this user. `serve` is the process of a client in a
group, of Java's console consumer or one for Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from zkgroup.demo.flight_data import processed_line
from zkgroup.demo.kafka_clients import CALL_S, CLIENTS, ClientRecord, ClientWork, PythonClient
from zkgroup.demo.processes import Stopping
from zkgroup.errors import SourceError
from zkgroup.zookeeper.embedded.server import launched

RELEASE = "2.8.2"
CONSOLE = "Java console clients"
JAVA = "java"
"""Client id of Java's console consumer, which commits without metadata."""
MAVEN_S = 60.0
"""Longest wait for Maven when the demo needs its jars; it has begun with the demo."""
POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{RELEASE}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.30</version></dependency>
</dependencies></project>
"""
COPY = "-q -B dependency:copy-dependencies -DoutputDirectory=jars"
SMALL_JVM = ("-Xmx128m", "-Xss256k", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
PRODUCE = """\
--property parse.key=true --request-required-acks all --compression-codec gzip
--producer-property enable.idempotence=true --request-timeout-ms 30000 --message-send-max-retries 1000
"""
"""The console producer gives a request 1.5 s and repeats it three times, each after 0.1 s."""
READ = "--partition 0 --offset 0 --property print.key=true --property print.offset=true"
CONSUME = "--property print.partition=true --property print.offset=true"
MEMBER = {
    "auto.commit.interval.ms": 500,
    "metadata.max.age.ms": 5000,
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
}


def cached_jars() -> Path:
    """The folder of the jars; it is complete or does not exist."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "zkgroup" / f"kafka-{RELEASE}"


def java(jars: Path | str, main: str, *arguments: str) -> list[str]:
    """The command that runs a class of the jars."""
    return [shutil.which("java") or "java", *SMALL_JVM, "-cp", f"{jars}/*", main, *arguments]


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
        self._maven: tuple[subprocess.Popen[bytes], Path] | None = None
        """Maven and its folder, until it is known how it has ended."""
        self._began_s = time.monotonic()
        needed = ["java"] if self.jars.is_dir() else ["java", "mvn"]
        if missing := [name for name in needed if shutil.which(name) is None]:
            self.reason = f"no {' and no '.join(missing)} on the PATH"
        elif not self.jars.is_dir():
            try:
                self._fetch()
            except OSError as error:
                self.reason = f"its jars cannot be fetched: {error}"

    def _fetch(self) -> None:
        self.jars.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".fetch.", dir=self.jars.parent))
        (scratch / "pom.xml").write_text(POM, encoding="utf-8")
        with (scratch / "log").open("wb") as log:
            command = [shutil.which("mvn") or "mvn", *COPY.split()]
            self._maven = launched("pid", command, cwd=scratch, stderr=log), scratch

    @property
    def is_fetching(self) -> bool:
        return self._maven is not None and self._maven[0].poll() is None

    def has_ended_in_time(self) -> bool:
        """Returns whether Maven has ended; ends it where it takes too long."""
        if self._maven is None:
            return True
        maven, scratch = self._maven
        if self.is_fetching:
            if time.monotonic() - self._began_s < MAVEN_S:
                return False
            self.reason = "Maven has not fetched Kafka's jars in time"
        elif maven.returncode:
            self.reason = f"Maven cannot fetch its jars: {_last_line((scratch / 'log').read_bytes())}"
        elif not self.jars.exists():  # another process may have been faster
            (scratch / "jars").rename(self.jars)
        self.close()
        return True

    def run(self, main: str, *arguments: str, source: Path = Path(os.devnull)) -> str:
        """Runs a class; returns its output. Raises SourceError with the end of what it wrote on stderr."""
        command = java(self.jars, main, *arguments)
        with source.open("rb") as given:
            process = launched("output", command, stdin=given, stderr=subprocess.PIPE)
        self._processes.append(process)
        try:
            out, err = process.communicate(timeout=CALL_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.communicate()
            raise SourceError(f"java has not ended in {CALL_S:g} s") from None
        if process.returncode:
            raise SourceError(f"{main} ended with {process.returncode}: {_last_line(err or out)}")
        return out.decode(errors="replace")

    def produce(self, bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> None:
        """Produces with acks=all; the console producer prints no offsets."""
        source = self._folder / "console-producer.txt"
        source.write_bytes(b"".join(b"%b\t%b\n" % one for one in records))
        words = f"--bootstrap-server {bootstrap} --topic {topic} {PRODUCE}".split()
        self.run("kafka.tools.ConsoleProducer", *words, source=source)

    def read(self, bootstrap: str, topic: str, count: int) -> dict[int, ClientRecord]:
        """Reads so many records of partition 0, by their offsets."""
        words = f"--bootstrap-server {bootstrap} --topic {topic} {READ}"
        words += f" --max-messages {count} --timeout-ms {int(CALL_S * 500)}"
        found: dict[int, ClientRecord] = {}
        for line in self.run("kafka.tools.ConsoleConsumer", *words.split()).splitlines():
            offset, key, value = line.removeprefix("Offset:").split("\t", 2)
            found[int(offset)] = ClientRecord(key.encode(), value.encode())
        return found

    def dump(self, segment: Path) -> list[str]:
        """The lines that the dump tool prints about a segment, or its error."""
        words = ("--deep-iteration", "--print-data-log", "--files", str(segment))
        try:
            return self.run("kafka.tools.DumpLogSegments", *words).splitlines()
        except SourceError as error:
            return [str(error)]

    def close(self) -> None:
        """Ends what runs, and removes Maven's folder."""
        for process in self._processes:
            process.terminate()
        if self._maven is not None:
            (maven, scratch), self._maven = self._maven, None
            maven.terminate()
            maven.communicate()
            shutil.rmtree(scratch, ignore_errors=True)


KafkaClient = PythonClient | KafkaTools


def _last_line(printed: bytes) -> str:
    """The last line with something in it."""
    lines = [line.strip() for line in printed.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "nothing was printed"


def serve(stopping: Stopping, client: str, work: ClientWork, output: str, jars: str) -> None:
    """A client as a member of the group, until SIGTERM, on which it leaves.

    `client` is its package, or `java`; `output` is the file for the processed records, one line each.
    """
    work.is_over = lambda: stopping.is_requested
    with Path(output).open("ab", buffering=0) as file:
        work.take = lambda at, key, value, token: file.write(processed_line(*at, value, token))
        if client == JAVA:
            _run_console_consumer(stopping, work, jars)
        else:
            next(one for one in CLIENTS if one.name == client).consume(work)


def _run_console_consumer(stopping: Stopping, work: ClientWork, jars: str) -> None:
    """Java's console consumer: its output is read, and SIGTERM makes it commit and leave.

    It does not report assignments: a record that does not follow the one before begins a new one.
    """
    words = f"--bootstrap-server {work.bootstrap} --topic {work.topic} {CONSUME}"
    for name, value in (work.settings() | MEMBER).items():
        words += f" --consumer-property {name}={value}"
    command = java(jars, "kafka.tools.ConsoleConsumer", *words.split())
    process = launched("output", command, stdin=subprocess.DEVNULL)
    stopping.stop = process.terminate
    if stopping.is_requested:
        process.terminate()
    assert process.stdout is not None
    for line in process.stdout:
        partition, offset, value = line.rstrip(b"\n").split(b"\t", 2)
        number = int(partition.removeprefix(b"Partition:"))
        work.process(number, int(offset.removeprefix(b"Offset:")), b"", value)
    if process.wait() and not stopping.is_requested:
        raise SourceError(f"the console consumer ended with {process.returncode}")
