"""Kafka's own clients: those for Python that are installed, and Java's where Maven and Java are there.

Each produces to one partition and reads it, and each is a member of a group (`serve`). A commit of a client
for Python has metadata, the name of the member and the token of its assignment, so ZooKeeper's log shows who
committed what. Maven fetches the jars of one release once, into a cache of this user.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from zkgroup.clients import kafka_python
from zkgroup.demo.flight_data import TOPIC, processed_line
from zkgroup.demo.processes import Stopping, print_event
from zkgroup.errors import SourceError
from zkgroup.zookeeper.embedded.server import launched

CALL_S = 60.0  # longest wait of a client for its answers
POLL_S = 0.2
COMMIT_S = 5.0  # longest wait for the answer to a commit
COMMIT_EVERY_S = 0.5
RECORDS_AT_ONCE = 500
RELEASE = "2.8.2"
CONSOLE = "Java console clients"
JAVA = "java"  # client id of Java's console consumer, which commits without metadata
MAVEN_S = 60.0  # longest wait for Maven when the demo needs its jars; it has begun with the demo
POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{RELEASE}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.30</version></dependency>
</dependencies></project>
"""
SMALL_JVM = ("-Xmx128m", "-Xss256k", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
PRODUCE = """\
--property parse.key=true --request-required-acks all --compression-codec gzip
--producer-property enable.idempotence=true --request-timeout-ms 30000 --message-send-max-retries 1000
"""
"""The console producer gives a request 1.5 s and repeats it three times, each after 0.1 s."""
MEMBER = {
    "auto.commit.interval.ms": 500,
    "metadata.max.age.ms": 5000,
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
}


class ClientRecord(NamedTuple):
    """Key and value of a record."""

    key: bytes
    value: bytes


class LeftOut(NamedTuple):
    """A client or a tool that did not take part."""

    client: str
    reason: str


@dataclass(slots=True)
class ClientWork:
    """The work of a member: its settings, its progress, and when it commits."""

    client_id: str
    group: str
    bootstrap: str
    topic: str = TOPIC
    session_timeout_ms: int = 6_000
    take: Callable[[tuple[int, int], bytes, bytes, int], object] = field(init=False)
    """Gets each record: its partition and offset, key, value, and the token of the assignment."""
    is_over: Callable[[], bool] = field(init=False)
    """True when the member is to leave."""
    stop: Callable[[], None] | None = None
    """Makes it leave, where it does not ask `is_over`."""
    idle_ms: int | None = None
    """Longest time without a record, after which Java's console consumer ends."""
    positions: dict[int, int] = field(default_factory=dict)
    """Partition to the offset of the next record."""
    _tokens: dict[int, int] = field(default_factory=dict)
    _is_committed: bool = True
    _due_s: float = 0.0
    """Earliest time of the next commit."""

    def settings(self) -> dict[str, Any]:
        """Settings that all clients have, by Java's names."""
        return {
            "client.id": self.client_id,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": self.session_timeout_ms,
            "heartbeat.interval.ms": 500,
        }

    def assigned(self, partitions: Collection[int]) -> None:
        """Begins a new assignment of these partitions; those of the one before are gone."""
        self.positions.clear()
        self._tokens.clear()
        for partition in partitions:
            self._begin(partition)

    def _begin(self, partition: int) -> int:
        """The token of a new assignment, from the clock that all processes of a machine share, in ms."""
        token = self._tokens[partition] = time.monotonic_ns() // 1_000_000
        return token

    def polls(self) -> Iterator[None]:
        """Yields for each poll, the last time when the member is to leave; a commit is due after that one."""
        while not self.is_over():
            yield
        self._is_committed, self._due_s = False, 0.0
        yield

    def process(self, partition: int, offset: int, key: bytes, value: bytes) -> None:
        """Passes a record on.

        Where no assignment is reported, a record that does not follow the one before begins a new one.
        """
        follows = partition in self._tokens and self.positions.get(partition, offset) == offset
        token = self._tokens[partition] if follows else self._begin(partition)
        self.take((partition, offset), key, value, token)
        self.positions[partition] = offset + 1
        self._is_committed = False

    def process_all(self, polled: Any) -> None:
        """Processes what a poll of kafka-python or aiokafka has returned."""
        for one in chain.from_iterable(polled.values()):
            self.process(one.partition, one.offset, one.key, one.value)

    def is_due(self) -> bool:
        """Returns whether the positions are to be committed now."""
        if self._is_committed or time.monotonic() < self._due_s:
            return False
        self._due_s, self._is_committed = time.monotonic() + COMMIT_EVERY_S, True
        return bool(self.positions)

    def committed(self) -> list[tuple[int, int, str]]:
        """Partition, position, and metadata, which name member and token, of each offset to commit."""
        return [(n, at, f"{self.client_id} {self._tokens.get(n, 0)}") for n, at in self.positions.items()]

    @contextmanager
    def committing(self, *errors: type[Exception]) -> Iterator[None]:
        """Prints the error of a commit, which is due again."""
        try:
            yield
        except errors as error:
            self.not_committed(type(error).__name__)

    def not_committed(self, error: str) -> None:
        self._is_committed = False
        print_event("not_committed", error=error)


def _settings_of(work: ClientWork, assignor: object) -> dict[str, Any]:
    """The settings as kafka-python and aiokafka name them."""
    own = {"metadata.max.age.ms": 5_000, "partition.assignment.strategy": [assignor]}
    own |= {"bootstrap.servers": work.bootstrap.split(","), "enable.auto.commit": False}
    return {name.replace(".", "_"): value for name, value in (work.settings() | own).items()}


def _listener(kind: Any, work: ClientWork, commit: Callable[[], Any]) -> Any:
    """A listener for kafka-python and aiokafka: it awaits its commit before the partitions go."""

    class Listener(kind):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            if work.positions:
                await commit()
            work.assigned(())

        async def on_partitions_assigned(self, assigned: Any) -> None:
            work.assigned([each.partition for each in assigned])

    return Listener()


def _offsets(kafka: Any, work: ClientWork, *epoch: int) -> dict[Any, Any]:
    """The positions as kafka-python and aiokafka commit them."""
    entry, tp = kafka.structs.OffsetAndMetadata, kafka.TopicPartition
    return {tp(work.topic, number): entry(at, text, *epoch) for number, at, text in work.committed()}


def _produce_kafka_python(bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> list[int]:
    """Without compression."""
    kafka = kafka_python.load("zkgroup demo brokers")
    own = {"acks": "all", "linger_ms": 5, **kafka_python.connecting()}
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap.split(","), **own)
    try:
        sent = [producer.send(topic, one.value, one.key, partition=0) for one in records]
        return [one.get(CALL_S).offset for one in sent]
    finally:
        producer.close(timeout=CALL_S)


def _consume_kafka_python(work: ClientWork) -> None:
    kafka = kafka_python.load("zkgroup demo")
    from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    errors, settings = kafka.errors, _settings_of(work, RangePartitionAssignor)
    consumer = kafka.KafkaConsumer(**settings, **kafka_python.connecting())

    async def commit() -> None:
        """For the listener: it is called on the thread that has to send its commit."""
        with work.committing(errors.KafkaError):
            await consumer.commit_async(_offsets(kafka, work, -1))

    consumer.subscribe([work.topic], listener=_listener(AsyncConsumerRebalanceListener, work, commit))
    try:
        for _ in work.polls():
            with suppress(errors.KafkaConnectionError):  # of its request for metadata, to a dead broker
                work.process_all(consumer.poll(POLL_S * 1000, max_records=RECORDS_AT_ONCE))
            if work.is_due():
                with work.committing(errors.KafkaError):
                    consumer.commit(_offsets(kafka, work, -1), timeout_ms=COMMIT_S * 1000)
    finally:
        consumer.close(autocommit=False)


def _produce_confluent_kafka(bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> list[int]:
    """librdkafka, with gzip. An error of a record is raised by `flush`."""
    from confluent_kafka import KafkaException, Producer

    settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "compression.type": "gzip"}
    producer, offsets = Producer({**settings, "enable.idempotence": True}), list[int]()

    def answered(error: object, message: Any) -> None:
        """Those of a partition come in its order."""
        if error is not None:
            raise KafkaException(error)
        offsets.append(message.offset())

    for one in records:
        producer.produce(topic, one.value, one.key, 0, on_delivery=answered)
    producer.flush(CALL_S)
    return offsets


def _consume_confluent_kafka(work: ClientWork) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    own = {
        "bootstrap.servers": work.bootstrap,
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": 5_000,
        "reconnect.backoff.max.ms": 500,
        "partition.assignment.strategy": "range",
        "log_level": 0,
    }

    def commit() -> None:
        offsets = [TopicPartition(work.topic, *one) for one in work.committed()]
        try:
            stored = consumer.commit(offsets=offsets, asynchronous=False)
            errors = [one.error for one in stored if one.error is not None]
        except KafkaException as error:
            errors = [error.args[0]]
        for name in {one.name() for one in errors}:
            work.not_committed(name)

    def assigned(_: object, partitions: Iterable[Any]) -> None:
        work.assigned([each.partition for each in partitions])

    def revoked(_: object, partitions: object) -> None:
        if work.positions:
            commit()
        work.assigned(())

    with closing(Consumer(work.settings() | own)) as consumer:
        consumer.subscribe([work.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        for _ in work.polls():
            for one in consumer.consume(RECORDS_AT_ONCE, POLL_S):
                if one.error() is None:
                    work.process(one.partition(), one.offset(), one.key(), one.value())
            if work.is_due():
                commit()


def _produce_aiokafka(bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> list[int]:
    """With gzip, in an event loop of its own."""
    from aiokafka import AIOKafkaProducer

    async def produce() -> list[int]:
        settings = {"enable_idempotence": True, "compression_type": "gzip", "linger_ms": 5}
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
            sent = [await producer.send(topic, one.value, one.key, 0) for one in records]
            return [one.offset for one in await asyncio.gather(*sent)]

    return asyncio.run(asyncio.wait_for(produce(), CALL_S))


def _consume_aiokafka(work: ClientWork) -> None:
    import aiokafka
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    async def consume() -> None:
        async def commit() -> None:
            with work.committing(aiokafka.errors.KafkaError, TimeoutError):
                await asyncio.wait_for(consumer.commit(_offsets(aiokafka, work)), COMMIT_S)

        consumer = aiokafka.AIOKafkaConsumer(**_settings_of(work, RangePartitionAssignor))
        listener = _listener(aiokafka.ConsumerRebalanceListener, work, commit)
        consumer.subscribe([work.topic], listener=listener)
        async with consumer:
            for _ in work.polls():
                wait_ms = int(POLL_S * 1000)
                work.process_all(await consumer.getmany(timeout_ms=wait_ms, max_records=RECORDS_AT_ONCE))
                if work.is_due():
                    await commit()

    asyncio.run(consume())


def cached_jars() -> Path:
    """The folder of the jars; it is complete or does not exist."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "zkgroup" / f"kafka-{RELEASE}"


def _java(main: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Starts a class of the jars; its standard output is a pipe."""
    command = [shutil.which("java") or "java", *SMALL_JVM, "-cp", f"{cached_jars()}/*", main, *arguments]
    return launched("output", command, **options)


def run_java(main: str, *arguments: str, source: bytes = b"") -> str:
    """Runs a class; returns its output. Raises SourceError with the end of what it wrote on stderr."""
    process = _java(main, *arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(source, CALL_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate()
        raise SourceError(f"java has not ended in {CALL_S:g} s") from None
    if process.returncode:
        raise SourceError(f"{main} ended with {process.returncode}: {_last_line(err or out)}")
    return out.decode(errors="replace")


def dump_segment(segment: Path) -> list[str]:
    """The lines that Kafka's dump tool prints about a segment, or its error."""
    words = ("--deep-iteration", "--print-data-log", "--files", str(segment))
    try:
        return run_java("kafka.tools.DumpLogSegments", *words).splitlines()
    except SourceError as error:
        return [str(error)]


def _produce_java(bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> None:
    """The console producer, with gzip; it prints no offsets."""
    words = f"--bootstrap-server {bootstrap} --topic {topic} {PRODUCE}".split()
    run_java("kafka.tools.ConsoleProducer", *words, source=b"".join(b"%b\t%b\n" % one for one in records))


def _consume_java(work: ClientWork) -> None:
    """The console consumer: its output is read, and SIGTERM makes it commit and leave.

    It does not report assignments: a record that does not follow the one before begins a new one.
    """
    words = f"--bootstrap-server {work.bootstrap} --topic {work.topic} --property print.key=true"
    words += " --property print.partition=true --property print.offset=true"
    words += f" --timeout-ms {work.idle_ms}" if work.idle_ms else ""
    for name, value in (work.settings() | MEMBER).items():
        words += f" --consumer-property {name}={value}"
    pipes = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with _java("kafka.tools.ConsoleConsumer", *words.split(), **pipes) as process:
        work.stop = process.terminate
        if work.is_over():
            process.terminate()
        for line in process.stdout or ():
            partition, offset, key, value = line.rstrip(b"\n").split(b"\t", 3)
            number = int(partition.removeprefix(b"Partition:"))
            work.process(number, int(offset.removeprefix(b"Offset:")), key, value)
            if work.is_over():
                process.terminate()
        errors = process.stderr.read() if process.stderr else b""
    if process.returncode and not work.is_over():
        raise SourceError(f"the console consumer ended with {process.returncode}: {_last_line(errors)}")


def _last_line(printed: bytes) -> str:
    """The last line with something in it."""
    lines = [line.strip() for line in printed.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "nothing was printed"


@dataclass(frozen=True, slots=True)
class KafkaClient:
    """One of Kafka's clients."""

    name: str
    version: str
    reason: str
    """The reason why it takes no part; empty if it does."""
    produce: Callable[[str, str, Sequence[ClientRecord]], list[int] | None]
    """Produces to partition 0 of a topic with acks=all, and returns the offsets if it knows them."""
    consume: Callable[[ClientWork], None]
    """Consumes as a member until it is to leave."""

    def read(self, bootstrap: str, topic: str, count: int) -> dict[int, ClientRecord]:
        """Reads so many records of a topic of one partition, by their offsets, in a group of its own."""
        found, until_s = dict[int, ClientRecord](), time.monotonic() + CALL_S
        name, idle_s = self.name.replace(" ", "-"), CALL_S / 2  # Java's ends itself, before `until_s`
        work = ClientWork(name, f"read-{name}", bootstrap, topic, idle_ms=int(idle_s * 1000))
        work.take = lambda at, key, value, token: found.update({at[1]: ClientRecord(key, value)})
        work.is_over = lambda: len(found) >= count or time.monotonic() > until_s
        self.consume(work)
        return found


def python_clients() -> list[KafkaClient]:
    """Those for Python, by the names of their packages."""
    return [
        _python_client("kafka-python", _produce_kafka_python, _consume_kafka_python),
        _python_client("confluent-kafka", _produce_confluent_kafka, _consume_confluent_kafka),
        _python_client("aiokafka", _produce_aiokafka, _consume_aiokafka),
    ]


def _python_client(package: str, *calls: Any) -> KafkaClient:
    try:
        return KafkaClient(package, metadata.version(package), "", *calls)
    except metadata.PackageNotFoundError:
        return KafkaClient(package, "", f"not installed: pip install {package}", *calls)


def console_clients(reason: str = "") -> KafkaClient:
    """Java's, which take no part if there is a reason."""
    return KafkaClient(CONSOLE, RELEASE, reason, _produce_java, _consume_java)


class KafkaJars:
    """The jars of Kafka's tools, which Maven fetches meanwhile, where they are not there."""

    def __init__(self) -> None:
        """Starts Maven, if there is something to fetch."""
        self.folder = cached_jars()
        self.reason = ""
        """The reason why there are none; empty while they are fetched, too."""
        self._maven: tuple[subprocess.Popen[bytes], Path] | None = None
        """Maven and its folder, until it is known how it has ended."""
        self._began_s = time.monotonic()
        needed = ["java"] if self.folder.is_dir() else ["java", "mvn"]
        if missing := [name for name in needed if shutil.which(name) is None]:
            self.reason = f"no {' and no '.join(missing)} on the PATH"
        elif not self.folder.is_dir():
            try:
                self._fetch()
            except OSError as error:
                self.reason = f"its jars cannot be fetched: {error}"

    def _fetch(self) -> None:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".fetch.", dir=self.folder.parent))
        (scratch / "pom.xml").write_text(POM, encoding="utf-8")
        maven = shutil.which("mvn") or "mvn"
        command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
        with (scratch / "log").open("wb") as log:
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
        elif not self.folder.exists():  # another process may have been faster
            (scratch / "jars").rename(self.folder)
        self.close()
        return True

    def close(self) -> None:
        """Ends Maven, and removes its folder."""
        if self._maven is not None:
            (maven, scratch), self._maven = self._maven, None
            maven.terminate()
            maven.communicate()
            shutil.rmtree(scratch, ignore_errors=True)


def serve(stopping: Stopping, client: str, work: ClientWork, output: str) -> None:
    """A client as a member of the group, until SIGTERM, on which it leaves.

    `client` is its name; `output` is the file for the processed records, one line each.
    """
    work.is_over = lambda: stopping.is_requested
    stopping.stop = lambda: work.stop and work.stop()
    with Path(output).open("ab", buffering=0) as file:
        work.take = lambda at, key, value, token: file.write(processed_line(*at, value, token))
        next(one for one in (*python_clients(), console_clients()) if one.name == client).consume(work)
