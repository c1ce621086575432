"""The step of `zkgroup demo brokers` in which Kafka's own clients produce to one topic and read it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zkgroup.demo.checks import CheckResult, proved
from zkgroup.demo.cluster import REPLICATION, ClusterRun, values_in
from zkgroup.demo.flight_data import listed
from zkgroup.demo.kafka_clients import CONSOLE, ClientRecord, KafkaClient, dump_segment
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, named

TOPIC = "clients"  # it has one partition, to which all clients produce at once
TP = TopicPartition(TOPIC, 0)
RECORDS = 250  # of each client; a record's key is the client's name
_BATCH = re.compile(r"baseOffset: \d+ lastOffset: \d+ count: \d+ .* isvalid: (true|false)")
_RECORD = re.compile(r"\| offset: (\d+) .* key: (.*) payload: (.*)")
_OTHER = ("Dumping ", "Starting offset: ", "Log starting offset: ")
"""Beginnings of the lines of DumpLogSegments that are no batch and no record."""


@dataclass(slots=True)
class ClientIO:
    """The records that one client had to produce to the topic, and those that it read, by their offsets."""

    client: str
    version: str
    records: Sequence[ClientRecord]
    offsets: Sequence[int] | None = None
    """The offset of each record, as it was acknowledged; None for a client that does not report them."""
    read: Mapping[int, ClientRecord] = field(default_factory=dict)
    problem: str = ""
    """The error that it raised."""

    def missing(self, log: Sequence[ClientRecord]) -> list[str]:
        """Offsets where a record is not; without offsets, whether its records are there once and in order."""
        records, offsets = list(self.records), self.offsets
        if offsets is None:
            same = [one for one in log if one.key == self.client.encode()] == records
            return [] if same else [f"not each record of {self.client}, once and in order"]
        if len(offsets) != len(records):
            return [f"{self.client}: {len(offsets)} of {len(records)} acknowledged"]
        pairs = zip(offsets, records, strict=True)
        return [f"not {self.client}'s at {at}" for at, record in pairs if log[at : at + 1] != [record]]


@dataclass(frozen=True, slots=True)
class SegmentDump:
    """A segment of the topic, as Kafka's dump tool prints it."""

    file: str
    """Broker, folder and name."""
    batches: tuple[str, ...]


@dataclass(kw_only=True)
class ClientsRun(ClusterRun):
    """A run in which Kafka's clients produce and read, and what they did is checked."""

    clients: list[ClientIO] = field(default_factory=list)
    dump: SegmentDump | None = None
    """None where Kafka's tools are not there."""
    hosts: tuple[int, ...] = ()
    """The brokers that have the clients' topic."""

    def run_clients(self) -> None:
        """All clients produce at once; then each reads everything."""
        clients = self.find_clients(f"{CONSOLE} and DumpLogSegments")
        names, count = ", ".join(client.name for client in clients), len(clients) * RECORDS
        self.headline = f"Kafka's own clients: {names}"
        self.hosts = tuple(sorted(self.registered))[:REPLICATION]
        self.admin.create_topic(TOPIC, replica_assignment=[self.hosts])
        self.log(f"topic {TOPIC}: one partition on brokers {listed(self.hosts)}")
        bootstrap = self.bootstrap()
        for number, client in enumerate(clients):
            lines = self.lines[number * RECORDS : (number + 1) * RECORDS]
            records = [ClientRecord(client.name.encode(), line) for line in lines]
            self.clients.append(ClientIO(client.name, client.version, records))

        self._call_each(clients, "offsets", lambda one, run: one.produce(bootstrap, TOPIC, run.records))
        self.log(f"{count:,} records in one partition, produced at once by {names}", "good")
        self._call_each(clients, "read", lambda one, _: one.read(bootstrap, TOPIC, count))
        self.log(f"each of these clients has read the {count:,} records", "good")

    def _call_each(
        self, clients: Sequence[KafkaClient], result: str, call: Callable[[KafkaClient, ClientIO], object]
    ) -> None:
        """Calls all clients at once, each in a thread, and waits for their results, a field of their runs."""

        def attempt(client: KafkaClient, run: ClientIO) -> None:
            try:
                setattr(run, result, call(client, run))
            except Exception as error:  # noqa: BLE001 - clients have errors of their own; a check prints it
                run.problem = run.problem or f"{type(error).__name__}: {error}"

        pairs = zip(clients, self.clients, strict=True)
        threads = [threading.Thread(target=attempt, args=pair, daemon=True) for pair in pairs]
        for thread in threads:
            thread.start()
        self.until("Kafka's clients have ended", lambda: not any(one.is_alive() for one in threads))

    def check_clients(self) -> Iterator[CheckResult]:
        """Compares the clients with the files of the brokers, which have stopped.

        Each record is in the log of each replica, and nothing else.
        """
        count = sum(len(one.records) for one in self.clients)
        faults = [f"{one.client}: {one.problem}" for one in self.clients if one.problem]
        logs: dict[int, list[ClientRecord]] = {}
        for broker in self.hosts:
            kept = values_in(self.data_of(broker), TP)
            log = logs[broker] = [ClientRecord(one.key or b"", one.value or b"") for one in kept]
            faults += [f"broker {broker}: {fault}" for one in self.clients for fault in one.missing(log)]
            faults += [f"broker {broker} has {len(log):,} records of {count:,}"] if len(log) != count else []
        proof = f"{count:,} of {counted(len(self.clients), 'client')} on {len(self.hosts)} brokers"
        statement = "every record of Kafka's clients is at its offset on every replica"
        yield proved(statement, proof, faults, bool(count and self.hosts))
        first = dict(enumerate(logs[self.hosts[0]]))
        faults = [f"{one.client}: {fault}" for one in self.clients for fault in _differences(first, one.read)]
        proof = f"{len(first):,} by {named(one.client for one in self.clients)}"
        yield proved("every client reads the same records", proof, faults, bool(first))
        if any(one.client == CONSOLE for one in self.clients):
            yield self._check_dump(first)

    def _check_dump(self, log: Mapping[int, ClientRecord]) -> CheckResult:
        """Each line has to be a valid batch, one of the records, or one that the tool always prints."""
        broker = self.hosts[0]
        segment = min((self.data_of(broker) / str(TP)).glob("*.log"))
        batches, found, faults = list[str](), dict[int, ClientRecord](), list[str]()
        for line in dump_segment(segment):
            if one := _RECORD.match(line):
                found[int(one[1])] = ClientRecord(one[2].encode(), one[3].encode())
            elif batch := _BATCH.match(line):
                batches.append(line)
                faults += [] if batch[1] == "true" else [line]
            elif line and not line.startswith(_OTHER):
                faults.append(line)
        self.dump = SegmentDump(f"broker {broker}'s {TP}/{segment.name}", tuple(batches))
        faults += _differences(log, found)
        proof = f"{len(batches)} batches, all valid, in {self.dump.file}"
        return proved("Kafka's DumpLogSegments reads the same records", proof, faults, bool(log))


def _differences(log: Mapping[int, Any], found: Mapping[int, Any]) -> list[str]:
    wrong = sorted(at for at in log.keys() | found.keys() if log.get(at) != found.get(at))
    return [f"it differs at {named(wrong)}"] if wrong else []
