"""Kafka's clients at a broker with ACLs: each tells its user what it has no right to, and none hangs.

Each test is a row of a table in docs/interop.md. CI runs two of the clients.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition

from tests.long.interop.conftest import fetched
from tests.long.interop.matrix import operation
from tests.long.interop.refusals import (
    HIDDEN,
    MINE,
    PYTHON,
    READ,
    SEEN,
    JavaRefusals,
    Visitor,
    kind_of,
    raised,
)
from tests.long.interop.releases import EVERYTHING
from tests.long.interop.served_tools import RELEASES
from tests.waiting import PATIENCE_S, waiting
from tests.worlds.kafka_clients import ClientLogin
from tests.worlds.listening_brokers import ListeningBrokers
from zkgroup import Admin
from zkgroup.testing.kafka_cluster.cluster import FAST

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <(socket|ssl):ResourceWarning")

CLIENTS = (*PYTHON, *(f"Java {release}" for release in RELEASES))
IN_CI = ("kafka-python", "confluent-kafka")
ALICE = ClientLogin("PLAIN", "alice", "a")
PROPERTIES = {
    "listeners": "PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.login.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="a";'
    ),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """Alice at one broker, with the rights that `refusals` names. It has a coordinator of groups already."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    brokers = ListeningBrokers(lambda broker: PROPERTIES, count=1, settings=FAST)
    folder = tmp_path_factory.mktemp("undo")
    with brokers, Admin(client=brokers.zookeeper.client("admin"), undo_folder=folder) as admin:
        for topic in (SEEN, READ, HIDDEN):
            admin.create_topic(topic, 1, wait_s=PATIENCE_S)
        admin.add_acls("User:alice", "describe", topics=[SEEN])
        admin.add_acls("User:alice", "read", topics=[READ], groups=[MINE])
        consumer = KafkaConsumer(bootstrap_servers=brokers.address(1, "PLAINTEXT"), group_id=MINE)
        try:
            with waiting():
                consumer.committed(TopicPartition(READ, 0))
        finally:
            consumer.close()
        yield Visitor(brokers.address(1, "LOGIN"), ALICE)


@pytest.fixture
def refusal(request: pytest.FixtureRequest, visitor: Visitor, tmp_path: Path) -> str:
    """What a client lacks a right to, as it tells its user; the test's name is that of the attempt."""
    name, client = operation(request.node.originalname), str(request.param)
    if client in PYTHON:
        return kind_of(raised(PYTHON[client](visitor)[name]))
    release = client.removeprefix("Java ")
    request.getfixturevalue("jars")
    fetched(release)
    return kind_of(JavaRefusals(request.getfixturevalue("box"), release, tmp_path).raised(visitor, name))


def clients(without: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """The clients, but for some."""
    names = [one for one in (CLIENTS if EVERYTHING else IN_CI) if one not in without]
    return pytest.mark.parametrize("refusal", names, indirect=True)


@clients()
def test_produce(refusal: str) -> None:
    """Its topic may be described, and not be written."""
    assert refusal == "topic"


@clients()
def test_produce_to_an_unknown_topic(refusal: str) -> None:
    """A topic of which the user may not know that it exists."""
    assert refusal == "topic"


@clients()
def test_produce_idempotently(refusal: str) -> None:
    """Who may write no topic gets no producer id."""
    assert refusal == "cluster"


@clients()
def test_begin_a_transaction(refusal: str) -> None:
    """Refused before the broker says that it has none."""
    assert refusal == "transactionalid"


@clients()
def test_read_a_topic(refusal: str) -> None:
    """The assigned partition of a topic that may be described."""
    assert refusal == "topic"


@clients()
def test_read_in_a_group(refusal: str) -> None:
    """A topic that may be read, in a group that may not."""
    assert refusal == "group"


@clients(without=("kafka-python",))
def test_read_an_unknown_topic_in_a_group(refusal: str) -> None:
    """kafka-python 3.0.12 logs it and waits, at Kafka's brokers, too."""
    assert refusal == "topic"


@clients()
def test_create_a_topic(refusal: str) -> None:
    """A right of the cluster or of the topic."""
    assert refusal == "topic"


@clients()
def test_describe_a_topic(refusal: str) -> None:
    """The same answer whether it exists or not."""
    assert refusal == "topic"


@clients()
def test_delete_a_topic(refusal: str) -> None:
    """A topic that may be described."""
    assert refusal == "topic"


@clients(without=("aiokafka",))
def test_alter_a_configuration(refusal: str) -> None:
    """aiokafka's answer has no error."""
    assert refusal == "topic"


@clients()
def test_describe_a_group(refusal: str) -> None:
    """By its coordinator."""
    assert refusal == "group"


@clients(without=("aiokafka",))
def test_delete_a_group(refusal: str) -> None:
    """A group that may be read."""
    assert refusal == "group"


@clients(without=("aiokafka",))
def test_add_an_access_list(refusal: str) -> None:
    """A right of the cluster."""
    assert refusal == "cluster"
