"""A cluster on a ZooKeeper server that is closed by rolling restarts, while clients send and read."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, Self

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import KafkaError

from tests.waiting import PATIENCE_S, eventually, happened, joined
from tests.worlds.certificates import Authority
from tests.worlds.kafka_clients import PLAIN_LISTENER, ClientLogin
from tests.worlds.running_brokers import QUICK
from zkgroup import Admin
from zkgroup.broker.broker import Broker
from zkgroup.broker.security_settings import SecuritySettings
from zkgroup.zookeeper import ClientSettings
from zkgroup.zookeeper.embedded.server import ReservedPort

BROKERS: Final = (1, 2, 3)
TOPIC: Final = "orders"
GROUP: Final = "readers"
PARTITIONS: Final = 6
MECHANISM: Final = "SCRAM-SHA-512"
LASTING_MS: Final = 60_000
"""No slow machine ends a session, or takes a follower out of an ISR."""
SETTINGS = replace(
    QUICK, replica_lag_time_max_ms=LASTING_MS, session_timeout_ms=LASTING_MS, min_insync_replicas=2
)
PAUSE_S: Final = 0.02
"""Between two records of a producer."""
GIVES_UP_MS: Final = round(PATIENCE_S * 1000 / 4)
"""After it a producer gives a record up. One whose password is no longer right would not move before."""


class Sent(Protocol):
    """A producer that waits for each acknowledgement."""

    def send(self, value: str) -> tuple[int, int] | None:
        """Partition and offset; None where the record was not acknowledged."""
        ...

    def close(self) -> None: ...


class _KafkaPythonProducer:
    def __init__(self, bootstrap: str, login: ClientLogin) -> None:
        self._client = KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            bootstrap_timeout_ms=60_000,
            delivery_timeout_ms=GIVES_UP_MS,
            request_timeout_ms=GIVES_UP_MS // 2,
            **login.of_python,
        )

    def send(self, value: str) -> tuple[int, int] | None:
        try:
            found = self._client.send(TOPIC, value.encode()).get(PATIENCE_S)
        except KafkaError:
            return None
        return found.partition, found.offset

    def close(self) -> None:
        self._client.close(timeout=PATIENCE_S)


class _ConfluentProducer:
    def __init__(self, bootstrap: str, login: ClientLogin) -> None:
        options = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0}
        self._client = ConfluentProducer(
            {**options, "message.timeout.ms": GIVES_UP_MS, **login.of_librdkafka}
        )

    def send(self, value: str) -> tuple[int, int] | None:
        found: list[tuple[int, int]] = []

        def answered(error: object, message: Any) -> None:
            if error is None:
                found.append((message.partition(), message.offset()))

        self._client.produce(TOPIC, value.encode(), on_delivery=answered)
        assert self._client.flush(PATIENCE_S) == 0
        return found[0] if found else None

    def close(self) -> None:
        self._client.flush(PATIENCE_S)


class _KafkaPythonConsumer:
    def __init__(self, bootstrap: str, login: ClientLogin) -> None:
        self._client = KafkaConsumer(
            TOPIC,
            bootstrap_servers=bootstrap,
            group_id=GROUP,
            auto_offset_reset="earliest",
            bootstrap_timeout_ms=60_000,
            **login.of_python,
        )

    def read(self) -> list[str]:
        try:
            found = self._client.poll(timeout_ms=200)
        except KafkaError:  # its password has changed, and it has not moved yet
            return []
        return [one.value.decode() for records in found.values() for one in records]

    def close(self) -> None:
        with suppress(KafkaError):
            self._client.close()


class _ConfluentConsumer:
    def __init__(self, bootstrap: str, login: ClientLogin) -> None:
        options = {"bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"}
        self._client = ConfluentConsumer({**options, "log_level": 0, **login.of_librdkafka})
        self._client.subscribe([TOPIC])

    def read(self) -> list[str]:
        found = self._client.consume(500, 0.2)
        return [str((one.value() or b"").decode()) for one in found if one.error() is None]

    def close(self) -> None:
        self._client.close()


class RunningClient:
    """A client on a thread of its own: it connects anew wherever it is told to move."""

    def __init__(self, name: str, login: ClientLogin, cluster: ClosingCluster) -> None:
        self.name = name
        self._cluster = cluster
        self._login = login
        self._stop, self._moving, self._moved = threading.Event(), threading.Event(), threading.Event()
        self.error: BaseException | None = None
        self.done = 0
        """Records that were acknowledged, or read, by the present connection."""
        self._thread = threading.Thread(target=self._run, name=name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._moving.set()
        joined(self._thread)

    def move(self, login: ClientLogin) -> threading.Event:
        """What happens when the client has closed its former connections and made others."""
        self._login = login
        self._moved.clear()
        self._moving.set()
        return self._moved

    def _pause(self) -> bool:
        return self._moving.wait(PAUSE_S)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.done = 0
                self._moving.clear()
                client = self._open(self._cluster.bootstrap(self._login.protocol), self._login)
                self._moved.set()
                try:
                    while not self._moving.is_set():
                        self._work(client)
                finally:
                    client.close()
        except BaseException as error:
            self.error = error
            raise

    def _open(self, bootstrap: str, login: ClientLogin) -> Any:
        raise NotImplementedError

    def _work(self, client: Any) -> None:
        raise NotImplementedError


class RunningProducer(RunningClient):
    """Sends one record after another; `acknowledged` has those with an acknowledgement."""

    def __init__(self, name: str, login: ClientLogin, cluster: ClosingCluster) -> None:
        super().__init__(name, login, cluster)
        self.acknowledged: dict[tuple[int, int], str] = {}
        self._numbers = itertools.count()

    def _open(self, bootstrap: str, login: ClientLogin) -> Sent:
        kind = _KafkaPythonProducer if self.name.startswith("kafka-python") else _ConfluentProducer
        return kind(bootstrap, login)

    def _work(self, client: Sent) -> None:
        value = f"{self.name}-{next(self._numbers)}"
        if (where := client.send(value)) is not None:
            self.acknowledged[where] = value
            self.done += 1
        self._pause()


class RunningConsumer(RunningClient):
    """A member of the group; `read` counts what was delivered to it."""

    def __init__(self, name: str, login: ClientLogin, cluster: ClosingCluster) -> None:
        super().__init__(name, login, cluster)
        self.read: Counter[str] = Counter()

    def _open(self, bootstrap: str, login: ClientLogin) -> Any:
        kind = _KafkaPythonConsumer if self.name.startswith("kafka-python") else _ConfluentConsumer
        return kind(bootstrap, login)

    def _work(self, client: Any) -> None:
        found = client.read()
        self.read.update(found)
        self.done += len(found)
        if not found:
            self._pause()


class ClosingCluster:
    """Three brokers with their records in folders, clients, and what is done to them."""

    def __init__(self, address: str, folder: Path, client_count: int) -> None:
        """`client_count`: half of them produce, half are members of one group, of two kinds each."""
        self._address, self._folder = address, folder
        self.authority = Authority(folder, "former")
        self.trust_store = folder / "trusted.pem"
        self.trust_store.write_bytes(self.authority.trust_store.read_bytes())
        self._issue()
        self._ports = {
            (broker, name): ReservedPort() for broker in BROKERS for name in ("PLAINTEXT", "SASL_SSL")
        }
        lasting = ClientSettings(session_timeout_ms=LASTING_MS)
        self.admin = Admin(address, connection=lasting, timeout_s=PATIENCE_S, undo_folder=folder)
        self.brokers: dict[int, Broker] = {}
        kinds = ("kafka-python", "confluent-kafka")
        numbered = list(zip(range(client_count), itertools.cycle(kinds), strict=False))
        half = client_count // 2
        self.producers = [RunningProducer(f"{kind}-{n}", PLAIN_LISTENER, self) for n, kind in numbered[:half]]
        self.consumers = [RunningConsumer(f"{kind}-{n}", PLAIN_LISTENER, self) for n, kind in numbered[half:]]

    def __enter__(self) -> Self:
        try:
            for broker in BROKERS:
                self._start(broker, {"listeners": self._listeners(broker, "PLAINTEXT")})
            self._wait_live()
            self.admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=len(BROKERS))
            self._wait_in_sync()
            for client in self.clients:
                client.start()
            self.wait_for_progress()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def clients(self) -> list[RunningClient]:
        return [*self.producers, *self.consumers]

    def close(self) -> None:
        for client in self.clients:
            if client._thread.ident is not None:
                client.stop()
        closing = [
            threading.Thread(target=partial(one.close, controlled_shutdown=False))
            for one in self.brokers.values()
        ]
        for thread in closing:
            thread.start()
        joined(*closing)
        self.admin.close()
        for port in self._ports.values():
            port.release()

    def bootstrap(self, protocol: str) -> str:
        return ",".join(f"127.0.0.1:{self._ports[one, protocol].number}" for one in BROKERS)

    def roll(self, user: str, password: str, inter_broker: str, *names: str) -> None:
        """Restarts the brokers one after the other, with these listeners; each is in sync before the next."""
        for broker in BROKERS:
            properties = {
                "listeners": self._listeners(broker, *names),
                "inter.broker.listener.name": inter_broker,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self._folder / f"broker-{broker}.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.trust_store),
                "sasl.enabled.mechanisms": MECHANISM,
                "sasl.mechanism.inter.broker.protocol": MECHANISM,
                f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": _jaas(user, password),
                "connections.max.reauth.ms": "5000",
                "connection.failed.authentication.delay.ms": "10",
            }
            self.brokers.pop(broker).close()
            self._start(broker, properties)
            self._wait_live()
            self._wait_in_sync()

    def move(self, login: ClientLogin) -> None:
        """Every client logs in so, in connections of its own that are new."""
        for moved in [client.move(login) for client in self.clients]:
            happened(moved)

    def trust_another_authority(self) -> None:
        """Beside the former one, which has issued what brokers show."""
        self.authority = Authority(self._folder, "later")
        both = self.trust_store.read_bytes() + self.authority.trust_store.read_bytes()
        self._replace(self.trust_store, both)

    def replace_certificates(self) -> None:
        """By those of the other authority; the former one is trusted no longer. No broker is restarted."""
        self._issue()
        self._replace(self.trust_store, self.authority.trust_store.read_bytes())

    def wait_for_progress(self) -> None:
        """Until each producer has sent by its connection, and the group has read what each sent last."""
        for producer in self.producers:
            done = producer.done
            eventually(partial(self._is_further, producer, done), what=f"{producer.name} sends")
        last = {one.name: next(reversed(one.acknowledged.values())) for one in self.producers}
        eventually(lambda: all(self._was_read(value) for value in last.values()), what=f"all read: {last}")

    def lost(self) -> list[tuple[str, tuple[int, int]]]:
        """Acknowledged records that are not at their offsets in the log."""
        log = self._log()
        sent = self.acknowledged
        return [(value, where) for where, value in sent.items() if log.get(where) != value]

    def wait_all_read(self) -> None:
        """Until members of the group have read every acknowledged record."""

        def unread() -> list[str]:
            return [value for value in self.acknowledged.values() if not self._was_read(value)]

        eventually(unread, lambda found: not found)

    @property
    def acknowledged(self) -> Mapping[tuple[int, int], str]:
        """What the producers were told, by partition and offset."""
        return {where: value for one in self.producers for where, value in dict(one.acknowledged).items()}

    def _log(self) -> dict[tuple[int, int], str]:
        login = self.producers[0]._login
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap(login.protocol),
            enable_auto_commit=False,
            **login.of_python,
        )
        try:
            partitions = [KafkaPythonPartition(TOPIC, number) for number in range(PARTITIONS)]
            consumer.assign(partitions)
            consumer.seek_to_beginning()
            ends = consumer.end_offsets(partitions)
            found: dict[tuple[int, int], str] = {}
            while any(consumer.position(one) < end for one, end in ends.items()):
                for tp, records in consumer.poll(timeout_ms=1000).items():
                    found |= {(tp.partition, one.offset): one.value.decode() for one in records}
            return found
        finally:
            consumer.close()

    def _is_further(self, client: RunningClient, done: int) -> bool:
        for one in self.clients:
            if one.error is not None:
                raise AssertionError(f"{one.name} has ended") from one.error
        return client.done > done

    def _was_read(self, value: str) -> bool:
        return any(value in one.read for one in self.consumers)

    def _start(self, broker: int, properties: Mapping[str, str]) -> None:
        one = Broker(
            self._address,
            broker=broker,
            data=self._folder / f"server-{broker}",
            settings=SETTINGS,
            security=SecuritySettings.of(properties),
        )
        self.brokers[broker] = one
        one.start()
        one.wait_registered(PATIENCE_S)

    def _listeners(self, broker: int, *names: str) -> str:
        return ",".join(f"{name}://127.0.0.1:{self._ports[broker, name].number}" for name in names)

    def _wait_live(self) -> None:
        everyone = self.brokers.keys()
        eventually(lambda: all(one.health().live_brokers == everyone for one in self.brokers.values()))

    def _wait_in_sync(self) -> None:
        def in_sync() -> list[int]:
            [topic] = self.admin.describe_topics(TOPIC)
            return [len(one.isr or ()) for one in topic.partitions]

        eventually(in_sync, lambda found: found == [len(BROKERS)] * PARTITIONS)

    def _issue(self) -> None:
        for broker in BROKERS:
            made = self.authority.key_store(f"next-{broker}", common_name=f"broker-{broker}")
            made.replace(self._folder / f"broker-{broker}.pem")

    def _replace(self, path: Path, content: bytes) -> None:
        beside = path.with_suffix(".next")
        beside.write_bytes(content)
        beside.replace(path)


def _jaas(user: str, password: str) -> str:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return f'{module} required username="{user}" password="{password}";'


def close_the_cluster(cluster: ClosingCluster) -> None:
    """An open cluster becomes one of SASL_SSL alone; then passwords and certificates change."""
    users = {"broker": "b-1", "broker-next": "b-2", "alice": "a-1"}
    for user, password in users.items():
        cluster.admin.add_user(user, password, mechanism=MECHANISM)
    first = ClientLogin(MECHANISM, "alice", "a-1", trust_store=cluster.trust_store)

    cluster.roll("broker", "b-1", "PLAINTEXT", "PLAINTEXT", "SASL_SSL")
    cluster.move(first)
    cluster.wait_for_progress()
    cluster.roll("broker", "b-1", "SASL_SSL", "PLAINTEXT", "SASL_SSL")
    cluster.roll("broker-next", "b-2", "SASL_SSL", "SASL_SSL")
    cluster.admin.delete_user("broker", mechanism=MECHANISM)
    cluster.wait_for_progress()

    cluster.admin.add_user("alice", "a-2", mechanism=MECHANISM)
    cluster.trust_another_authority()
    cluster.move(first._replace(password="a-2"))
    cluster.replace_certificates()
    cluster.wait_for_progress()
    cluster.move(first._replace(password="a-2", trust_store=cluster.authority.trust_store))
    cluster.wait_for_progress()


def quiet(caplog: Any) -> None:
    """What kafka-python logs of refused and closed connections is expected."""
    caplog.set_level(logging.CRITICAL, "kafka")
