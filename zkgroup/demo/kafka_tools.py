"""Kafka's own tools, where Maven and Java are there: console clients and the dump tool.

Maven fetches the jars of one release once, into a cache of this user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from zkgroup.demo.kafka_clients import CALL_S, HEARTBEAT_MS, ClientRecord, ClientWork, LeftOut
from zkgroup.errors import SourceError
from zkgroup.zookeeper.embedded.server import launched

RELEASE = "2.8.2"
CONSOLE = "Java console clients"
FETCH_S = 300.0
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
    """The jars, which Maven fetches in a thread meanwhile, and processes that run a class of them."""

    def __init__(self) -> None:
        """Starts the thread, if there is something to fetch."""
        self._processes: list[subprocess.Popen[bytes]] = []
        self._closed = False
        self._began_s = time.monotonic()
        self.jars = cached_jars()
        self.reason = ""
        """The reason why the tools take no part; empty while they are fetched, and where they are there."""
        self._thread = threading.Thread(target=self._fetch, name="demo-maven", daemon=True)
        needed = ["java"] if self.jars.is_dir() else ["java", "mvn"]
        if missing := [name for name in needed if shutil.which(name) is None]:
            self.reason = f"no {' and no '.join(missing)} on the PATH"
        elif not self.jars.is_dir():
            self._thread.start()

    @property
    def is_fetching(self) -> bool:
        return self._thread.is_alive()

    @property
    def left_out(self) -> list[LeftOut]:
        """The tools, where they do not take part."""
        return [LeftOut(f"{CONSOLE} and DumpLogSegments", self.reason)] if self.reason else []

    def has_ended_in_time(self) -> bool:
        """Returns whether Maven has ended; ends it where it takes too long."""
        if self.is_fetching and time.monotonic() - self._began_s > MAVEN_S:
            self.give_up()
        return not self.is_fetching

    def give_up(self) -> None:
        self.reason = "Maven has not fetched Kafka's jars in time"
        self._kill()

    def run(self, main: str, *arguments: str, source: Path | None = None) -> str:
        """Runs a class; returns its output. Raises SourceError with the end of what it wrote on stderr."""
        code, out, err = self._run(java(self.jars, main, *arguments), CALL_S, source)
        if code:
            raise SourceError(f"{main} ended with {code}: {_last_line(err or out)}")
        return out

    def close(self) -> None:
        self._closed = True
        self._kill()
        if self._thread.ident is not None:
            self._thread.join(KILL_WAIT_S)

    def _fetch(self) -> None:
        try:
            self.jars.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".fetch.", dir=self.jars.parent) as scratch:
                pom = Path(scratch, "pom.xml")
                pom.write_text(POM, encoding="utf-8")
                words = [_path("mvn"), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
                code, out, err = self._run([*words, "-DoutputDirectory=jars"], FETCH_S, None)
                if code:
                    self.reason = self.reason or f"Maven cannot fetch its jars: {_last_line(out or err)}"
                elif not self.jars.exists():  # another process may have been faster
                    Path(scratch, "jars").rename(self.jars)
        except (OSError, SourceError) as error:
            self.reason = self.reason or f"its jars cannot be fetched: {error}"

    def _run(self, command: Sequence[str], timeout_s: float, source: Path | None) -> tuple[int, str, str]:
        """Exit code, output and errors of a command, which ends with this process."""
        with (source or Path(os.devnull)).open("rb") as given:
            process = launched("output", command, stdin=given, stderr=subprocess.PIPE)
        self._processes.append(process)
        if self._closed:
            process.terminate()
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.communicate(timeout=KILL_WAIT_S)
            raise SourceError(f"{Path(command[0]).name} has not ended in {timeout_s:g} s") from None
        return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    def _kill(self) -> None:
        for process in self._processes:
            process.terminate()


def _last_line(text: str) -> str:
    """The last line with something in it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing was printed"


class ConsoleTools:
    """Kafka's console producer and consumer, with gzip."""

    name = CONSOLE
    version = RELEASE

    def __init__(self, tools: KafkaTools, folder: Path) -> None:
        self._tools = tools
        self._folder = folder

    def produce(self, bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> None:
        """Produces with acks=all; the console producer prints no offsets."""
        source = self._folder / "console-producer.txt"
        source.write_bytes(b"".join(b"%b\t%b\n" % one for one in records))
        words = ["--bootstrap-server", bootstrap, "--topic", topic, "--property", "parse.key=true"]
        words += ["--request-required-acks", "all", "--producer-property", "enable.idempotence=true"]
        words += ["--compression-codec", "gzip", *PATIENT]
        self._tools.run("kafka.tools.ConsoleProducer", *words, source=source)

    def read(self, bootstrap: str, topic: str, count: int) -> dict[int, ClientRecord]:
        """Reads so many records of partition 0, by their offsets."""
        words = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "0"]
        words += ["--max-messages", str(count), "--timeout-ms", str(int(CALL_S * 500))]
        words += ["--property", "print.key=true", "--property", "print.offset=true"]
        found: dict[int, ClientRecord] = {}
        for line in self._tools.run("kafka.tools.ConsoleConsumer", *words).splitlines():
            offset, key, value = line.removeprefix("Offset:").split("\t", 2)
            found[int(offset)] = ClientRecord(key.encode(), value.encode())
        return found


def run_member(work: ClientWork, topic: str, jars: str) -> None:
    """Java's console consumer as a member: its output is read, and SIGTERM makes it commit and leave.

    It does not report assignments: a record that does not follow the one before begins a new one.
    """
    properties = {
        "client.id": work.client_id,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": "500",
        "session.timeout.ms": str(work.session_timeout_ms),
        "heartbeat.interval.ms": str(HEARTBEAT_MS),
        "metadata.max.age.ms": "5000",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
    }
    words = ["--bootstrap-server", work.bootstrap, "--topic", topic, "--group", work.group]
    words += [word for item in properties.items() for word in ("--consumer-property", "=".join(item))]
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
