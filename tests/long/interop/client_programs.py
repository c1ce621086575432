"""Clients that run in the Python of another environment, each call in a process of its own."""

from __future__ import annotations

import importlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.long.interop.members import HERE
from tests.long.interop.record_lines import line_of, parsed
from tests.long.interop.tooled import OurBrokers
from tests.waiting import PATIENCE_S
from tests.worlds.kafka_clients import KafkaRecord
from zkgroup.model import TopicPartition

RECORDS = [
    KafkaRecord(b"a value", b"a key", timestamp_ms=1_600_000_000_000),
    KafkaRecord(None, b"no value"),
    KafkaRecord(b"", b""),
    KafkaRecord(b"two\nlines\r\n", headers=(("h", b"1"), ("h", b"2"), ("empty", b""))),
    KafkaRecord(bytes(range(256)), "schl\u00fcssel".encode(), (("\u00fc", b"\xff\x00"),), 1_800_000_000_123),
    *(KafkaRecord(b"value %d" % number, timestamp_ms=1_900_000_000_000 + number) for number in range(50)),
]
VERSIONS = {
    "kafka-python": "kafka.__version__",
    "librdkafka": "confluent_kafka.libversion()[0]",
    "aiokafka": "aiokafka.__version__",
}
"""Module and expression."""
_numbers = itertools.count(1)


def pythons(variable: str) -> list[str]:
    """This interpreter, and those of an environment variable, separated by colons."""
    return [sys.executable, *filter(None, os.environ.get(variable, "").split(":"))]


@cache
def version_of(client: str, python: str) -> str:
    """The release of a client in the environment of this Python."""
    expression = VERSIONS[client]
    module = expression.partition(".")[0]
    if python == sys.executable:
        return str(eval(expression, {module: importlib.import_module(module)}))
    command = [python, "-c", f"import {module}; print({expression})"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@dataclass(frozen=True)
class ClientProgram:
    """Producer and consumer of one release of a client."""

    python: str
    program: str
    """Name of its file in this folder."""
    folder: Path

    def sending(
        self, bootstrap: str, tp: TopicPartition, records: Iterable[KafkaRecord], *settings: str
    ) -> subprocess.Popen[str]:
        """A process that prints number and offset of each record when it is acknowledged."""
        path = self.folder / "records"
        path.write_text("".join(f"{line_of(record)}\n" for record in records), encoding="ascii")
        words = ("send", bootstrap, tp.topic, str(tp.partition), str(path), *settings)
        return subprocess.Popen(
            [self.python, str(HERE / self.program), *words], stdout=subprocess.PIPE, text=True
        )

    def send(
        self, bootstrap: str, tp: TopicPartition, records: Iterable[KafkaRecord], *settings: str
    ) -> list[int]:
        """The offsets of the records."""
        with self.sending(bootstrap, tp, records, *settings) as producer:
            try:
                printed, _ = producer.communicate(timeout=PATIENCE_S)
            finally:
                producer.kill()
        assert producer.returncode == 0
        return [offset for _, offset in sorted(map(acknowledgement, printed.splitlines()))]

    def read(self, bootstrap: str, tp: TopicPartition, offset: int, count: int) -> dict[int, KafkaRecord]:
        words = ("read", bootstrap, tp.topic, str(tp.partition), str(offset), str(count))
        done = subprocess.run(
            [self.python, str(HERE / self.program), *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return dict(map(parsed, done.stdout.splitlines()))


def acknowledgement(line: str) -> tuple[int, int]:
    """Number and offset of a record."""
    number, offset = line.split()
    return int(number), int(offset)


def new_topic(brokers: OurBrokers, *replicas: int) -> tuple[str, TopicPartition]:
    """The addresses of the brokers, and the partition of a new topic, which is served."""
    name = f"records-{next(_numbers)}"
    brokers.create(name, replicas)
    return brokers.bootstrap, TopicPartition(name, 0)
