"""The member programs that are measured against each other, as commands."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tests.long.interop.jars import compiled, kafka, kafka_jars

HERE = Path(__file__).parent
VERSION = "0.8.2.2"


@dataclass(frozen=True)
class Side:
    """A member program. `command` takes the server, the group and the topics."""

    name: str
    module: str | None = None
    heap_mb: int = 2048
    session_ms: int = 20_000
    options: tuple[str, ...] = ()
    """More arguments of a module."""

    def command(self, zookeeper: str, group: str, topics: list[str]) -> list[str]:
        arguments = [f"zookeeper={zookeeper}", f"group={group}", f"topics={','.join(topics)}"]
        if self.module is not None:
            arguments += [f"session_ms={self.session_ms}", *self.options]
            return [sys.executable, "-m", self.module, *arguments]
        classes = compiled(HERE / "JvmGroup.java", f"{kafka_jars(VERSION)}/*")
        session = f"zookeeper.session.timeout.ms={self.session_ms}"
        command = kafka(VERSION, "JvmGroup", *arguments, session, heap_mb=self.heap_mb, classes=classes)
        if self.heap_mb > 256:  # many members in one JVM: let it compile fully
            command = [
                word for word in command if word not in ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
            ]
        return command


OURS = Side("zkgroup", "tests.programs.benchmarks.our_members")
OUR_CONSUMERS = Side("zkgroup consumers", "tests.programs.benchmarks.our_consumer", session_ms=6000)
JVM = Side("kafka-0.8.2.2")
JVM_SMALL = Side("kafka-0.8.2.2", heap_mb=64)
SET_PARTITIONER = Side("SetPartitioner", "tests.programs.benchmarks.set_partitioner")
