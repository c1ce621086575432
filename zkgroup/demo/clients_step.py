"""The step of `zkgroup demo brokers` in which Kafka's own clients produce to one topic and read it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zkgroup.admin.topics import creation
from zkgroup.demo.cluster import REPLICATION, ClusterStage, values_in
from zkgroup.demo.kafka_clients import ClientRecord, PythonClient
from zkgroup.demo.kafka_tools import CONSOLE, KafkaTools
from zkgroup.demo.stage import CheckResult, checked, named
from zkgroup.errors import SourceError
from zkgroup.model import TopicPartition

TOPIC = "clients"
"""It has one partition, to which all clients produce at once."""
TP = TopicPartition(TOPIC, 0)
KafkaClient = PythonClient | KafkaTools
RECORDS = 250
"""Of each client; a record's key is the client's name."""
_BATCH = re.compile(r"baseOffset: \d+ lastOffset: \d+ count: (\d+) .* isvalid: (true|false)")
_PRODUCER = re.compile(r"producerId: (-?\d+)")
_RECORD = re.compile(r"\| offset: (\d+) .* key: (.*) payload: (.*)")
_OTHER = ("Dumping ", "Starting offset: ", "Log starting offset: ")
"""Beginnings of the lines of DumpLogSegments that are no batch and no record."""


@dataclass(slots=True)
class ClientRun:
    """The records that one client produced to the topic, and those that it read from there."""

    client: str
    version: str
    records: Sequence[ClientRecord]
    """The records that it had to produce, in order."""
    offsets: Sequence[int] | None = None
    """The offset of each record, as it was acknowledged; None for a client that does not report them."""
    read: Mapping[int, ClientRecord] | None = None
    """Offset to record; None where it did not get that far."""
    problem: str = ""
    """The class and the text of the error that it raised."""

    @property
    def produced(self) -> int:
        """Number of records that it had to produce."""
        return len(self.records)

    @property
    def records_read(self) -> int:
        """Number of records that it has read."""
        return len(self.read or ())


@dataclass(frozen=True, slots=True)
class SegmentDump:
    """A segment of the topic, as Kafka's dump tool prints it."""

    file: str
    """Broker, folder and name."""
    batches: tuple[str, ...]
    """The lines about batches."""

    @property
    def first_batches(self) -> tuple[str, ...]:
        """The line of the first batch of each producer, in the order of the log."""
        found: dict[str, str] = {}
        for line in self.batches:
            if match := _PRODUCER.search(line):
                found.setdefault(match[1], line)
        return tuple(found.values())


@dataclass
class ClientsStep:
    """Runs the clients at a cluster, and checks what they did."""

    stage: ClusterStage
    runs: list[ClientRun] = field(default_factory=list)
    dump: SegmentDump | None = None
    """None where Kafka's tools are not there."""
    replicas: tuple[int, ...] = ()

    def run(self) -> None:
        """All clients produce at once; then each reads everything."""
        stage = self.stage
        clients: list[KafkaClient] = [*stage.find_clients(f"{CONSOLE} and DumpLogSegments")]
        clients += [] if stage.tools.reason else [stage.tools]
        names = ", ".join(client.name for client in clients)
        stage.headline = f"Kafka's own clients: {names}"
        self.replicas = tuple(sorted(stage.cluster.registered))[:REPLICATION]
        plan = creation.plan_topic(stage.ensemble, TOPIC, partitions=1, replica_assignment=[self.replicas])
        creation.create_topic(stage.ensemble, plan)
        stage.log(f"topic {TOPIC}: one partition on brokers {', '.join(map(str, self.replicas))}")
        bootstrap = stage.bootstrap()
        for number, client in enumerate(clients):
            lines = stage.lines[number * RECORDS : (number + 1) * RECORDS]
            records = [ClientRecord(client.name.encode(), line) for line in lines]
            self.runs.append(ClientRun(client.name, client.version, records))
        count = sum(run.produced for run in self.runs)

        def produce(client: KafkaClient, run: ClientRun) -> None:
            run.offsets = client.produce(bootstrap, TOPIC, run.records)

        def read(client: KafkaClient, run: ClientRun) -> None:
            run.read = client.read(bootstrap, TOPIC, count)

        self._call_each(clients, produce)
        stage.log(f"{count:,} records in one partition, produced at once by {names}", "good")
        self._call_each(clients, read)
        stage.log(f"each of these clients has read the {count:,} records", "good")

    def _call_each(
        self, clients: Sequence[KafkaClient], call: Callable[[KafkaClient, ClientRun], None]
    ) -> None:
        """Calls all clients at once, each in a thread, and waits for the end of each call."""

        def run(client: KafkaClient, own: ClientRun) -> None:
            try:
                call(client, own)
            except Exception as error:  # noqa: BLE001 - clients have errors of their own; a check prints it
                own.problem = own.problem or f"{type(error).__name__}: {error}"

        threads = [
            threading.Thread(target=run, args=pair, daemon=True)
            for pair in zip(clients, self.runs, strict=True)
        ]
        for thread in threads:
            thread.start()
        self.stage.until("Kafka's clients have ended", lambda: not any(one.is_alive() for one in threads))

    def checks(self) -> list[CheckResult]:
        """Reads the files of the brokers, which have stopped, and runs the dump tool on one of them."""
        logs: dict[int, list[ClientRecord]] = {}
        for broker in self.replicas:
            kept = values_in(self.stage.data_of(broker), TP)
            logs[broker] = [ClientRecord(one.key or b"", one.value or b"") for one in kept]
        log = dict(enumerate(logs[self.replicas[0]]))
        checks = [self._check_produced(logs), self._check_read(log)]
        if not self.stage.tools.reason:
            checks.append(self._check_dump(log))
        return checks

    def _check_produced(self, logs: Mapping[int, Sequence[ClientRecord]]) -> CheckResult:
        """Compares each record with the log of each replica; nothing else may be in there."""
        faults = [f"{run.client}: {run.problem}" for run in self.runs if run.problem]
        count = sum(run.produced for run in self.runs)
        for broker, log in logs.items():
            faults += [f"broker {broker}: {one}" for run in self.runs for one in _missing(run, log)]
            if len(log) != count:
                faults.append(f"broker {broker} has {len(log):,} records of {count:,}")
        clients = f"{len(self.runs)} client{'' if len(self.runs) == 1 else 's'}"
        text = f"{count:,} of {clients} on {len(logs)} brokers"
        statement = "every record of Kafka's clients is at its offset on every replica"
        return checked(statement, faults=faults, proof=text, enough=bool(count and logs))

    def _check_read(self, log: Mapping[int, ClientRecord]) -> CheckResult:
        faults = [f"{run.client}: {one}" for run in self.runs for one in _differences(log, run.read or {})]
        text = f"{len(log):,} by {named([run.client for run in self.runs])}"
        statement = "every client reads the same records"
        return checked(statement, faults=faults, proof=text, enough=bool(log))

    def _check_dump(self, log: Mapping[int, ClientRecord]) -> CheckResult:
        """Each line has to be a valid batch, one of the records, or one that the tool always prints."""
        broker = self.replicas[0]
        segment = sorted((self.stage.data_of(broker) / str(TP)).glob("*.log"))[0]
        words = ["--deep-iteration", "--print-data-log", "--files", str(segment)]
        try:
            lines = self.stage.tools.run("kafka.tools.DumpLogSegments", *words).splitlines()
        except SourceError as error:
            lines = [str(error)]
        batches = tuple(line for line in lines if _BATCH.match(line))
        self.dump = SegmentDump(f"broker {broker}'s {TP}/{segment.name}", batches)
        found: dict[int, ClientRecord] = {}
        faults: list[str] = []
        for line in lines:
            if one := _RECORD.match(line):
                found[int(one[1])] = ClientRecord(one[2].encode(), one[3].encode())
            elif line and not line.startswith(_OTHER):
                batch = _BATCH.match(line)
                faults += [] if batch and batch[2] == "true" else [line]
        faults += _differences(log, found)
        text = f"{len(batches)} batches, all valid, in {self.dump.file}"
        statement = "Kafka's DumpLogSegments reads the same records"
        return checked(statement, faults=faults, proof=text, enough=bool(log))


def _missing(run: ClientRun, log: Sequence[ClientRecord]) -> list[str]:
    """Offsets where a record is not; without offsets, whether its records are there once and in order."""
    if run.offsets is None:
        own = {record.key for record in run.records}
        same = [record for record in log if record.key in own] == list(run.records)
        return [] if same else [f"not each record of {run.client}, once and in order"]
    if len(run.offsets) != len(run.records):
        return [f"{run.client}: {len(run.offsets)} of {len(run.records)} acknowledged"]
    pairs = zip(run.offsets, run.records, strict=True)
    return [f"not {run.client}'s at {at}" for at, record in pairs if log[at : at + 1] != [record]]


def _differences(log: Mapping[int, Any], found: Mapping[int, Any]) -> list[str]:
    wrong = sorted(at for at in log.keys() | found.keys() if log.get(at) != found.get(at))
    return [f"it differs at {named(wrong)}"] if wrong else []
