"""What each of Kafka's clients raises of a request that its user has no right to.

An attempt is a function that raises what the client makes of the refusal. The user has these rights and no
others: Describe on the topic `seen`, Read on the topic `read` and on the group `mine`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AiokafkaTopic
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.admin import NewTopic as ConfluentTopic
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition
from kafka import admin as kafka_python
from kafka.errors import for_code

from tests.long.interop.jars import compiled, kafka_jars
from tests.long.interop.members import HERE
from tests.long.interop.toolbox import Toolbox
from tests.waiting import PATIENCE_S, waiting
from tests.worlds.kafka_clients import ClientLogin, stop_aiokafka

SEEN, READ, HIDDEN = "seen", "read", "hidden"
"""Topics. Of `hidden` the user may not know that it exists."""
MINE, OTHERS = "mine", "others"
"""Groups."""
PATIENCE_MS: Final = PATIENCE_S * 1000
_KIND = re.compile(r"(topic|group|cluster|transactional_?id)_?authorization", re.IGNORECASE)


def kind_of(name: str) -> str:
    """`topic`, `group`, `cluster` or `transactionalid`, from the name of an exception or of an error."""
    found = _KIND.search(name)
    return found[1].lower().replace("_", "") if found else name


@dataclass(frozen=True)
class Visitor:
    """A client that is the user, at the brokers."""

    bootstrap: str
    login: ClientLogin


def of_kafka_python(visitor: Visitor) -> dict[str, Callable[[], object]]:
    """The attempts of kafka-python, by name.

    It does not end where a group subscribes to a topic that it may not see: 3.0.12 raises that on the thread
    of its network, which logs it.
    """
    at: dict[str, Any] = {"bootstrap_servers": visitor.bootstrap, **visitor.login.of_kafka_python}

    def produce(topic: str, **settings: Any) -> None:
        with KafkaProducer(
            **{**at, "enable_idempotence": False, "max_block_ms": PATIENCE_MS, **settings}
        ) as producer:
            producer.send(topic, b"value").get(PATIENCE_S)

    def transact() -> None:
        with KafkaProducer(**at, transactional_id="t", max_block_ms=PATIENCE_MS) as producer:
            producer.init_transactions()

    def consume(topic: str, group: str | None) -> None:
        more = {"group_id": group, "consumer_timeout_ms": PATIENCE_MS, "auto_offset_reset": "earliest"}
        consumer = KafkaConsumer(**at, **more)
        try:
            if group is None:
                consumer.assign([KafkaPythonPartition(topic, 0)])
            else:
                consumer.subscribe([topic])
            next(consumer)
        finally:
            consumer.close()

    def administer(act: Callable[[KafkaAdminClient], object]) -> object:
        admin = KafkaAdminClient(**at)
        try:
            found = act(admin)
        finally:
            admin.close()
        for code in _codes(found):
            raise for_code(code)
        return found

    acl = kafka_python.ACL(
        *("User:alice", "*", kafka_python.ACLOperation.WRITE, kafka_python.ACLPermissionType.ALLOW),
        kafka_python.ResourcePattern(
            kafka_python.ResourceType.TOPIC, SEEN, kafka_python.ACLResourcePatternType.LITERAL
        ),
    )
    setting = kafka_python.ConfigResource(kafka_python.ConfigResourceType.TOPIC, SEEN, {"retention.ms": "1"})
    new = {"made": {"num_partitions": 1, "replication_factor": 1}}
    admins: dict[str, Callable[[KafkaAdminClient], object]] = {
        "create a topic": lambda admin: admin.create_topics(new),
        "describe a topic": lambda admin: admin.describe_topics([HIDDEN]),
        "delete a topic": lambda admin: admin.delete_topics([SEEN]),
        "alter a configuration": lambda admin: admin.alter_configs([setting], raise_on_unknown=False),
        "describe a group": lambda admin: admin.describe_groups([OTHERS]),
        "delete a group": lambda admin: admin.delete_groups([MINE]),
        "add an access list": lambda admin: admin.create_acls([acl]),
    }
    return {
        "produce": partial(produce, SEEN),
        "produce to an unknown topic": partial(produce, HIDDEN),
        "produce idempotently": partial(produce, SEEN, enable_idempotence=True),
        "begin a transaction": transact,
        "read a topic": partial(consume, SEEN, None),
        "read in a group": partial(consume, READ, OTHERS),
        **{name: partial(administer, act) for name, act in admins.items()},
    }


def _codes(found: object) -> Iterable[int]:
    """The error codes in the answers of kafka-python's admin client."""
    if isinstance(found, Mapping):
        if found.get("error_code"):
            yield found["error_code"]
        for each in found.values():
            yield from _codes(each)
    elif isinstance(found, list | tuple):
        for each in found:
            yield from _codes(each)


def of_confluent_kafka(visitor: Visitor) -> dict[str, Callable[[], object]]:
    """Those of confluent-kafka."""
    at: dict[str, Any] = {"bootstrap.servers": visitor.bootstrap, **visitor.login.of_librdkafka}

    def produce(topic: str) -> None:
        failed: list[Any] = []
        producer = ConfluentProducer(at)
        producer.produce(topic, b"value", partition=0, on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(PATIENCE_S) == 0
        raise KafkaException(failed[0])

    def produce_idempotently() -> None:
        producer = ConfluentProducer({**at, "enable.idempotence": True})
        producer.produce(SEEN, b"value", partition=0)
        producer.flush(PATIENCE_S)  # it raises, as the error is fatal

    def transact() -> None:
        ConfluentProducer({**at, "transactional.id": "t"}).init_transactions(PATIENCE_S)

    def consume(topic: str, group: str, *, is_assigned: bool = False) -> None:
        consumer = ConfluentConsumer({**at, "group.id": group, "auto.offset.reset": "earliest"})
        try:
            if is_assigned:
                consumer.assign([ConfluentPartition(topic, 0, 0)])
            else:
                consumer.subscribe([topic])
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            raise KafkaException(message.error())
        finally:
            consumer.close()

    def administer(act: Callable[[AdminClient], Any]) -> None:
        admin = AdminClient(at)  # it lives until the answers are there
        found = act(admin)
        for each in found.values() if isinstance(found, dict) else [found]:
            each.result(PATIENCE_S)

    acl = AclBinding(
        *(ResourceType.TOPIC, SEEN, ResourcePatternType.LITERAL, "User:alice", "*"),
        *(AclOperation.WRITE, AclPermissionType.ALLOW),
    )
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    setting = ConfigResource(ConfigResource.Type.TOPIC, SEEN, incremental_configs=[entry])
    admins: dict[str, Callable[[AdminClient], Any]] = {
        "create a topic": lambda admin: admin.create_topics([ConfluentTopic("made", 1, 1)]),
        "describe a topic": lambda admin: admin.describe_topics(TopicCollection([HIDDEN])),
        "delete a topic": lambda admin: admin.delete_topics([SEEN]),
        "alter a configuration": lambda admin: admin.incremental_alter_configs([setting]),
        "describe a group": lambda admin: admin.describe_consumer_groups([OTHERS]),
        "delete a group": lambda admin: admin.delete_consumer_groups([MINE]),
        "add an access list": lambda admin: admin.create_acls([acl]),
    }
    return {
        "produce": partial(produce, SEEN),
        "produce to an unknown topic": partial(produce, HIDDEN),
        "produce idempotently": produce_idempotently,
        "begin a transaction": transact,
        "read a topic": partial(consume, SEEN, MINE, is_assigned=True),
        "read in a group": partial(consume, READ, OTHERS),
        "read an unknown topic in a group": partial(consume, HIDDEN, MINE),
        **{name: partial(administer, act) for name, act in admins.items()},
    }


def of_aiokafka(visitor: Visitor) -> dict[str, Callable[[], object]]:
    """Those of aiokafka, whose admin client knows neither access lists nor the end of a group."""
    at: dict[str, Any] = {"bootstrap_servers": visitor.bootstrap, **visitor.login.of_aiokafka}

    async def produce(topic: str, **settings: Any) -> None:
        producer = AIOKafkaProducer(**at, **settings)
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"value", partition=0)
        finally:
            await producer.stop()

    async def consume(topic: str, group: str | None) -> None:
        consumer = AIOKafkaConsumer(**at, group_id=group, auto_offset_reset="earliest")
        if group is None:
            consumer.assign([AiokafkaPartition(topic, 0)])
        else:
            consumer.subscribe([topic])
        try:
            await consumer.start()
            await consumer.getone()
        finally:
            await stop_aiokafka(consumer)

    async def administer(act: Callable[[Any], Awaitable[Any]]) -> None:
        admin = AIOKafkaAdminClient(**at)
        await admin.start()
        try:
            found = await act(admin)
        finally:
            await admin.close()
        for code in _codes_of_rows(found):
            raise for_code(code)

    admins: dict[str, Callable[[Any], Awaitable[Any]]] = {
        "create a topic": lambda admin: admin.create_topics([AiokafkaTopic("made", 1, 1)]),
        "describe a topic": lambda admin: admin.describe_topics([HIDDEN]),
        "delete a topic": lambda admin: admin.delete_topics([SEEN]),
        "describe a group": lambda admin: admin.describe_consumer_groups([OTHERS]),
    }
    attempts: dict[str, Callable[[], Awaitable[None]]] = {
        "produce": partial(produce, SEEN),
        "produce to an unknown topic": partial(produce, HIDDEN),
        "produce idempotently": partial(produce, SEEN, enable_idempotence=True),
        "begin a transaction": partial(produce, SEEN, transactional_id="t"),
        "read a topic": partial(consume, SEEN, None),
        "read in a group": partial(consume, READ, OTHERS),
        "read an unknown topic in a group": partial(consume, HIDDEN, MINE),
        **{name: partial(administer, act) for name, act in admins.items()},
    }

    def run(attempt: Callable[[], Any]) -> None:
        asyncio.run(asyncio.wait_for(attempt(), PATIENCE_S))

    return {name: partial(run, attempt) for name, attempt in attempts.items()}


def _codes_of_rows(found: Any) -> Iterable[int]:
    """The error codes in aiokafka's answers, which are responses, lists of them, or mappings."""
    if isinstance(found, list | tuple):
        for each in found:
            yield from _codes_of_rows(each)
    elif isinstance(found, dict):
        yield from _codes(found)
    elif hasattr(found, "to_object"):
        yield from _codes(found.to_object())


PYTHON: Final = {
    "kafka-python": of_kafka_python,
    "confluent-kafka": of_confluent_kafka,
    "aiokafka": of_aiokafka,
}


def raised(attempt: Callable[[], object]) -> str:
    """The exception that an attempt ends with, or what it returns, as text."""
    try:
        with waiting():
            return f"returned {attempt()!r}"
    except Exception as error:  # noqa: BLE001  the errors of three clients have no class in common
        return str(error.args[0].name()) if isinstance(error, KafkaException) else repr(error)


@dataclass(frozen=True)
class JavaRefusals:
    """Those of Kafka's Java client of one release."""

    box: Toolbox
    release: str
    folder: Path

    def raised(self, visitor: Visitor, attempt: str) -> str:
        """The name of the exception that an attempt ends with."""
        path = self.folder / "client.properties"
        settings = {"bootstrap.servers": visitor.bootstrap, **visitor.login.of_java}
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        classes = compiled(HERE / "Refusals.java", f"{kafka_jars(self.release)}/*")
        printed = self.box.run(self.release, "Refusals", str(path), attempt, classes=classes)
        assert printed.code == 0, printed.text
        (name,) = re.findall(r"^raised (\w+)$", printed.text, re.MULTILINE)
        return str(name)
