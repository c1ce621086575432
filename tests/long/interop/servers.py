"""A ZooKeeper 3.4.6 and a Kafka 0.8.2.2 broker, from the same jars, as processes of their own."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Self

from kafka import KafkaProducer
from kazoo.client import KazooClient

from tests.long.interop.jars import kafka
from tests.long.interop.processes import Process
from tests.long.interop.toolbox import Toolbox
from tests.waiting import PATIENCE_S, eventually
from zkgroup.zookeeper import raw_connection
from zkgroup.zookeeper.embedded.server import ReservedPort

VERSION = "0.8.2.2"


def four_letters(port: int, word: str) -> str:
    """The answer to one of ZooKeeper's four-letter words; empty while no process listens."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
            connection.sendall(word.encode())
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
    except OSError:
        return ""
    return b"".join(parts).decode()


def opens_sessions(port: int) -> bool:
    """Whether a session can be opened. A server answers imok to ruok a moment before that."""
    try:
        return raw_connection.opens_sessions(port, 5.0)
    except OSError:
        return False


class RealZooKeeper:
    """A standalone server of 3.4.6: `tickTime=500`, sessions of 1 to 60 s."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._held = ReservedPort()
        self.port = self._held.number
        self.address = f"127.0.0.1:{self.port}"
        self.data = folder / "data"
        config = folder / "zoo.cfg"
        config.write_text(
            f"tickTime=500\ndataDir={self.data}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "maxClientCnxns=0\nmaxSessionTimeout=60000\n"
        )
        command = kafka(VERSION, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config))
        self.process = Process(command, folder / "zookeeper.log")

    def wait_ready(self) -> None:
        def ready() -> bool:
            assert self.process.running, self.process.tail()
            return opens_sessions(self.port)

        eventually(ready, what="ZooKeeper 3.4.6 opens sessions")
        self._held.release()

    def end_session(self, session: int) -> None:
        """Ends the session of a dead client at once, as the server does after the session's timeout.

        A client that knows the password of a session can take it over and close it, and 3.4.6 computes
        passwords from the session's number (`ZooKeeperServer.generatePasswd`).
        """
        client = KazooClient(self.address, client_id=(session, _password(session)), timeout=60)
        client.start(PATIENCE_S)
        client.stop()
        client.close()

    def stop(self) -> None:
        self.process.kill()
        self._held.release()


def _password(session: int) -> bytes:
    """`new Random(session ^ 0xB3415C00L).nextBytes(16)` of Java."""
    factor, mask = 0x5DEECE66D, (1 << 48) - 1
    seed = (session ^ 0xB3415C00 ^ factor) & mask
    password = b""
    for _ in range(4):
        seed = (seed * factor + 0xB) & mask
        password += (seed >> 16).to_bytes(4, "little")
    return password


class RealBroker:
    """One broker, of 0.8.2.2 by default. It is ready once it is registered: it listens by then."""

    def __init__(
        self,
        zookeeper: RealZooKeeper,
        folder: Path,
        number: int = 1,
        chroot: str = "",
        version: str = VERSION,
        **more: object,
    ) -> None:
        """`more`: settings beside or instead of the ones here, `_` for a dot."""
        folder.mkdir(parents=True, exist_ok=True)
        self.zookeeper = zookeeper
        self.number = number
        self.chroot = chroot
        self._held = ReservedPort()
        """Reserves the port until the broker listens, which takes seconds."""
        self.port = self._held.number
        self.address = f"127.0.0.1:{self.port}"
        settings = {
            "broker.id": number,
            **_listening(version, self.port),
            "zookeeper.connect": zookeeper.address + chroot,
            "zookeeper.session.timeout.ms": 60_000,
            "log.dirs": folder / "logs",
            "log.cleaner.enable": "false",
            "log.index.size.max.bytes": 1_048_576,
            "num.network.threads": 2,
            "num.io.threads": 2,
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "auto.create.topics.enable": "false",
            "delete.topic.enable": "true",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        config = folder / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.process = Process(kafka(version, "kafka.Kafka", str(config), heap_mb=256), folder / "broker.log")

    def wait_ready(self) -> None:
        client = KazooClient(self.zookeeper.address, timeout=60)
        client.start(PATIENCE_S)

        def registered() -> bool:
            assert self.process.running, self.process.tail()
            return client.exists(f"{self.chroot}/brokers/ids/{self.number}") is not None

        try:
            eventually(registered, what="the broker is registered")
        finally:
            self._held.release()
            client.stop()
            client.close()

    def create_topic(self, box: Toolbox, topic: str, partitions: int) -> None:
        """Creates a topic with Kafka's TopicCommand; returns once every partition has a leader."""
        words: tuple[str, ...] = ("--zookeeper", self.zookeeper.address, "--create", "--topic", topic)
        words += ("--partitions", str(partitions), "--replication-factor", "1")
        box.run(VERSION, "kafka.admin.TopicCommand", *words)
        with self.producer() as producer:
            eventually(lambda: len(producer.partitions_for(topic)) == partitions, what=f"leaders of {topic}")

    def producer(self) -> Producer:
        return Producer(self.address)

    def stop(self) -> None:
        self.process.kill()
        self._held.release()


def _listening(version: str, port: int) -> dict[str, object]:
    """3.0 took the settings of 0.8.2.2 away."""
    if version.startswith("3."):
        return {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    return {"port": port, "host.name": "127.0.0.1", "advertised.host.name": "127.0.0.1"}


class Producer:
    """Writes numbered records; remembers how many each partition has. For one thread."""

    def __init__(self, address: str) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=[address], api_version=(0, 8, 2), acks=1, retries=5, enable_idempotence=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close(timeout=PATIENCE_S)

    def partitions_for(self, topic: str) -> set[int]:
        return set(self._producer.partitions_for(topic) or ())

    def send(self, topic: str, partition: int, value: str) -> int:
        """Sends a record; its offset."""
        return int(self._producer.send(topic, value.encode(), partition=partition).get(PATIENCE_S).offset)

    def fill(self, topic: str, partitions: int, each: int) -> dict[int, int]:
        """Sends `each` more records to every partition; partition -> its log end afterwards."""
        waiting = [
            (p, self._producer.send(topic, f"{topic}-{p}-{i}".encode(), partition=p))
            for i in range(each)
            for p in range(partitions)
        ]
        ends: dict[int, int] = {}
        for partition, answer in waiting:
            ends[partition] = max(ends.get(partition, 0), answer.get(PATIENCE_S).offset + 1)
        return ends
