"""Kafka's tools with `--bootstrap-server`, which know only the brokers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.long.interop.jars import java, kafka_jars, tools_jars
from tests.long.interop.releases import NEWEST
from tests.long.interop.toolbox import Printed, Toolbox
from tests.long.interop.tooled import OurBrokers, Row
from tests.waiting import PATIENCE_S, eventually

RELEASES = ("2.8.2", NEWEST)
MAINS = {
    "topics": ("kafka.admin.TopicCommand", "org.apache.kafka.tools.TopicCommand"),
    "configs": ("kafka.admin.ConfigCommand", "kafka.admin.ConfigCommand"),
    "offsets": ("kafka.tools.GetOffsetShell", "org.apache.kafka.tools.GetOffsetShell"),
    "reassign": (
        "kafka.admin.ReassignPartitionsCommand",
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    ),
    "elections": ("kafka.admin.LeaderElectionCommand", "org.apache.kafka.tools.LeaderElectionCommand"),
    "producer": ("kafka.tools.ConsoleProducer", "kafka.tools.ConsoleProducer"),
    "consumer": ("kafka.tools.ConsoleConsumer", "org.apache.kafka.tools.consumer.ConsoleConsumer"),
    "delete records": ("kafka.admin.DeleteRecordsCommand", "org.apache.kafka.tools.DeleteRecordsCommand"),
    "dump": ("kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments"),
    "groups": (
        "kafka.admin.ConsumerGroupCommand",
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    ),
    "verifiable producer": (
        "org.apache.kafka.tools.VerifiableProducer",
        "org.apache.kafka.tools.VerifiableProducer",
    ),
    "verifiable consumer": (
        "org.apache.kafka.tools.VerifiableConsumer",
        "org.apache.kafka.tools.VerifiableConsumer",
    ),
}
"""The class of each tool in 2.8.2 and in 3.9.1."""


@dataclass(frozen=True)
class ServedTools:
    """The tools of one release, which know only the brokers."""

    box: Toolbox
    release: str
    cluster: OurBrokers
    folder: Path

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def name(self, topic: str) -> str:
        """A topic name of this release's own."""
        return f"{topic}-{self.release.replace('.', '')}"

    def run(self, tool: str, *words: str) -> Printed:
        main = MAINS[tool][RELEASES.index(self.release)]
        printed = self.box.run(self.release, main, *self._at(tool), *words)
        assert printed.code == 0, printed.text
        return printed

    def _at(self, tool: str) -> tuple[str, ...]:
        if tool == "dump":
            return ()
        if tool == "groups":
            return "--bootstrap-server", self.bootstrap, "--timeout", "120000"  # instead of 5 s
        is_older = tool == "offsets" and self.release != NEWEST
        return "--broker-list" if is_older else "--bootstrap-server", self.bootstrap

    def refused(self, tool: str, *words: str) -> str:
        """What a tool prints that cannot do what it is asked for."""
        main = MAINS[tool][RELEASES.index(self.release)]
        return self.box.run(self.release, main, *self._at(tool), *words).text

    def shown(self, *words: str, until: Callable[[str], object]) -> str:
        """What kafka-topics prints once that is so: brokers get the controller's metadata one by one."""
        return eventually(lambda: self.refused("topics", *words), until)

    def command(self, tool: str, *words: str) -> list[str]:
        """The command line of a tool in a JVM of its own."""
        folder = kafka_jars(self.release)
        main = MAINS[tool][RELEASES.index(self.release)]
        more = tools_jars(self.release) if tool.startswith("verifiable") else folder
        command = java(f"{folder}/*:{more}/*", main, heap_mb=128, log=folder / "log4j.properties")
        return [*command, "--bootstrap-server", self.bootstrap, *words]

    def piped(self, tool: str, *words: str, stdin: bytes) -> bytes:
        """The output of a tool in a JVM of its own, which reads its standard input."""
        done = subprocess.run(
            self.command(tool, *words),
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")[-4000:]
        return done.stdout

    def create(self, topic: str, *replicas: tuple[int, ...]) -> list[Row]:
        assigned = ",".join(":".join(map(str, each)) for each in replicas)
        self.run("topics", "--create", "--topic", topic, "--replica-assignment", assigned)
        return self.cluster.wait_served(topic, len(replicas))

    def produce(self, topic: str, count: int) -> None:
        lines = "".join(f"key{number}\tvalue {number}\n" for number in range(count))
        words = ["--topic", topic, "--property", "parse.key=true", "--compression-codec", "zstd"]
        words += ["--request-timeout-ms", "60000"]  # instead of 1.5 s, after which 2.8.2 sends records twice
        self.piped("producer", *words, stdin=lines.encode())

    def file(self, name: str, document: object) -> str:
        path = self.folder / name
        path.write_text(json.dumps(document), encoding="utf-8")
        return str(path)
