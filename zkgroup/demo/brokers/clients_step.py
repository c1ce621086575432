"""The step of `zkgroup demo brokers` in which Kafka's own clients produce to one topic and read it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from zkgroup.admin.cluster.brokers import ClusterReader
from zkgroup.admin.topics import creation
from zkgroup.clients import kafka_python
from zkgroup.demo.brokers import kafka_clients, kafka_tools
from zkgroup.demo.brokers.client_checks import (
    ClientEvidence,
    ClientRecord,
    ClientRun,
    LeftOut,
    SegmentDump,
)
from zkgroup.demo.brokers.demo_cluster import READ_EVERY_S, REPLICATION, DemoCluster, values_in
from zkgroup.demo.brokers.kafka_clients import KafkaClient
from zkgroup.demo.brokers.kafka_tools import ConsoleTools, KafkaTools
from zkgroup.demo.progress import DemoRun
from zkgroup.errors import SourceError
from zkgroup.model import TopicPartition

TOPIC = "clients"
"""It has one partition, to which all clients produce at once."""
TP = TopicPartition(TOPIC, 0)
RECORDS = 250
"""Of each client; a record's key is the client's name."""
MAVEN_S = 60.0
"""Longest wait for Maven, which began with the demo."""

ResultT = TypeVar("ResultT")


def wait_for_maven(run: DemoRun[Any], tools: KafkaTools) -> None:
    """Waits until Kafka's jars are there; ends Maven where it takes too long."""
    if not tools.is_fetching:
        return
    run.headline = f"Maven fetches Kafka {kafka_tools.RELEASE}, once"
    run.log(f"{run.headline}, into {tools.jars}")
    until_s = time.monotonic() + MAVEN_S
    run.until("Maven has ended", lambda: not tools.is_fetching or time.monotonic() > until_s, READ_EVERY_S)
    if tools.is_fetching:
        tools.give_up()


class _Call(Generic[ResultT]):
    """A call of a client, in a thread of its own."""

    def __init__(self, name: str, call: Callable[[], ResultT]) -> None:
        self._call = call
        self.result: ResultT | None = None
        self.problem = ""
        """The class and the text of the error that it raised."""
        self._thread = threading.Thread(target=self._run, name=f"demo-{name}", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except Exception as error:  # noqa: BLE001 - clients have errors of their own; a check prints it
            self.problem = f"{type(error).__name__}: {error}"


class ClientsStep:
    """Runs the clients at a cluster, and collects the evidence for `check_clients`."""

    def __init__(self, stage: DemoCluster, tools: KafkaTools) -> None:
        self._stage = stage
        self._tools = tools
        self._replicas: tuple[int, ...] = ()
        self._runs: list[ClientRun] = []
        self._left_out: list[LeftOut] = []

    def run(self) -> None:
        """All clients produce at once; then each reads everything."""
        stage = self._stage
        clients = self._clients()
        names = ", ".join(client.name for client in clients)
        stage.headline = f"Kafka's own clients: {names}"
        self._create_topic()
        bootstrap = ",".join(kafka_python.addresses_of(ClusterReader(stage.ensemble).brokers().values()))
        given = {client.name: self._records(number, client) for number, client in enumerate(clients)}
        count = sum(map(len, given.values()))
        produced = self._call_each(
            clients, "produced", lambda client: client.produce(bootstrap, TOPIC, given[client.name])
        )
        stage.log(f"{count:,} records in one partition, produced at once by {names}", "good")
        read = self._call_each(clients, "read", lambda client: client.read(bootstrap, TOPIC, count))
        stage.log(f"each of these clients has read the {count:,} records", "good")
        self._runs = [
            ClientRun(
                client=name,
                version=client.version,
                records=given[name],
                offsets=produced[name].result,
                read=read[name].result,
                problem=produced[name].problem or read[name].problem,
            )
            for client in clients
            for name in [client.name]
        ]

    def evidence(self) -> ClientEvidence:
        """Reads the files of the brokers, which have stopped, and runs the dump tool on one of them."""
        stage = self._stage
        replicas = {
            broker: [
                ClientRecord(one.key or b"", one.value or b"") for one in values_in(stage.data_of(broker), TP)
            ]
            for broker in self._replicas
        }
        return ClientEvidence(self._runs, self._left_out, replicas, self._dump())

    def _dump(self) -> SegmentDump | None:
        if self._tools.reason:
            return None
        broker = self._replicas[0]
        segment = sorted((self._stage.data_of(broker) / str(TP)).glob("*.log"))[0]
        name = f"broker {broker}'s {TP}/{segment.name}"
        try:
            return kafka_tools.dump(self._tools, name, segment)
        except SourceError as error:
            return SegmentDump(name, (str(error),))

    def _clients(self) -> list[KafkaClient]:
        """The clients that are there; the others are named."""
        wait_for_maven(self._stage, self._tools)
        clients, self._left_out = kafka_clients.installed()
        if self._tools.reason:
            self._left_out += self._tools.left_out
        else:
            clients.append(ConsoleTools(self._tools, self._stage.folder))
        for one in self._left_out:
            self._stage.log(f"left out: {one.client} ({one.reason})")
        return clients

    def _create_topic(self) -> None:
        stage = self._stage
        self._replicas = tuple(sorted(stage.seen.registered))[:REPLICATION]
        plan = creation.plan_topic(stage.ensemble, TOPIC, partitions=1, replica_assignment=[self._replicas])
        creation.create_topic(stage.ensemble, plan)
        stage.log(f"topic {TOPIC}: one partition on brokers {', '.join(map(str, self._replicas))}")

    def _records(self, number: int, client: KafkaClient) -> list[ClientRecord]:
        lines = self._stage.lines[number * RECORDS : (number + 1) * RECORDS]
        return [ClientRecord(client.name.encode(), line) for line in lines]

    def _call_each(
        self, clients: Sequence[KafkaClient], what: str, call: Callable[[KafkaClient], ResultT]
    ) -> dict[str, _Call[ResultT]]:
        """Calls all clients at once, and waits for the end of each call."""
        calls = {client.name: _Call(client.name, partial(call, client)) for client in clients}
        self._wait(f"Kafka's clients have {what}", lambda: all(one.ended for one in calls.values()))
        return calls

    def _wait(self, what: str, reached: Callable[[], bool]) -> None:
        self._stage.until(what, reached, READ_EVERY_S)
