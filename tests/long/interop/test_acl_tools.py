"""`kafka-acls` at a zkgroup broker and by its ZooKeeper, and ACLs of zkgroup at a broker of Kafka."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from tests.long.interop.conftest import fetched
from tests.long.interop.servers import RealBroker, RealZooKeeper
from tests.long.interop.toolbox import Toolbox
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.kafka_clients import ClientLogin
from tests.worlds.unhurried import unhurried
from zkgroup import Admin
from zkgroup.broker import Broker, SecuritySettings

KAFKA = "2.8.2"
TOOLS = (KAFKA, "3.9.1")
ALICE = ClientLogin("PLAIN", "alice", "a")
PROPERTIES = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="a";'
    ),
    "sasl.enabled.mechanisms": "PLAIN",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
HEAD = re.compile(
    r"Current ACLs for resource `ResourcePattern\(resourceType=(\w+), name=(\S+), patternType=(\w+)\)`"
)
ROW = re.compile(r"\(principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)\)")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class World:
    """One broker with an authorizer, which nobody but a super user has rights at yet."""

    zookeeper: str
    broker: Broker
    admin: Admin
    box: Toolbox

    def acls(self, release: str, *words: str, by_zookeeper: bool = False) -> list[tuple[str, ...]]:
        """Runs `kafka-acls`; the ACLs that it has printed as the present ones."""
        server = ("--bootstrap-server", self._address("PLAINTEXT"))
        if by_zookeeper:
            server = ("--authorizer-properties", f"zookeeper.connect={self.zookeeper}")
        return printed_acls(self.box, release, *server, *words)

    def ours(self) -> list[tuple[str, ...]]:
        """The ACLs in ZooKeeper, as rows of the same form."""
        return sorted(
            (
                *(pattern.type.name, pattern.name, pattern.pattern_type.name, entry.principal, entry.host),
                *(entry.operation.name, entry.permission.name),
            )
            for pattern, entry in self.admin.list_acls().rows
        )

    def topics_of_alice(self) -> list[str]:
        """What alice is told of at the broker."""
        client = KafkaAdminClient(bootstrap_servers=self._address("SASL_PLAINTEXT"), **ALICE.of_kafka_python)
        try:
            return sorted(client.list_topics())
        finally:
            client.close()

    def _address(self, listener: str) -> str:
        assert self.broker.listeners is not None
        return self.broker.listeners[listener]


def printed_acls(box: Toolbox, release: str, *words: str) -> list[tuple[str, ...]]:
    """Runs `kafka-acls`; type, name, type of pattern, principal, host, operation and permission, sorted."""
    printed = box.run(release, "kafka.admin.AclCommand", *words)
    assert printed.code == 0, printed
    rows: list[tuple[str, ...]] = []
    of: tuple[str, ...] = ()
    for line in printed.text.splitlines():
        if head := HEAD.search(line):
            of = head.groups()
        elif line.startswith("Adding ACLs"):
            of = ()
        rows += [(*of, *row) for row in ROW.findall(line) if of]
    return sorted(rows)


@pytest.fixture
def world(
    request: pytest.FixtureRequest, real_zookeeper: RealZooKeeper, box: Toolbox, tmp_path: Path
) -> Iterator[World]:
    for release in TOOLS:
        fetched(release)
    address = f"{real_zookeeper.address}/acls-{next(_numbers)}"
    security = SecuritySettings.of(PROPERTIES)
    with (
        Broker(address, broker=1, settings=unhurried(), security=security) as broker,
        Admin(address, undo_folder=tmp_path) as admin,
    ):
        broker.wait_registered(PATIENCE_S)
        admin.create_topic("orders", 1, wait_s=PATIENCE_S)
        yield World(address, broker, admin, box)


READ = ("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW")
DENIED = ("TOPIC", "pre-", "PREFIXED", "User:*", "10.0.0.1", "ALL", "DENY")
ADD_READ = ("--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
ADD_DENIED = (
    *("--add", "--deny-principal", "User:*", "--deny-host", "10.0.0.1", "--operation", "All"),
    *("--topic", "pre-", "--resource-pattern-type", "prefixed"),
)


@pytest.mark.parametrize("release", TOOLS)
def test_a_tool_asks_a_broker(world: World, release: str) -> None:
    """Each is added once, listed by name, type of pattern and principal, and removed."""
    added = world.acls(release, *ADD_READ)
    if release == KAFKA:  # 3.9.1 lists nothing after it has added
        assert added == [READ]
    world.acls(release, *ADD_READ)
    world.acls(release, *ADD_DENIED)
    group = ("--group", "billing", "--topic", "orders", "--allow-principal", "User:bob")
    world.acls(release, "--add", "--consumer", *group)

    assert READ in world.ours()
    assert DENIED in world.ours()
    assert world.acls(release, "--list") == world.ours()
    assert len(world.ours()) == 5
    assert world.acls(release, "--list", "--topic", "pre-x") == []
    match = ("--list", "--topic", "pre-x", "--resource-pattern-type", "match")
    assert world.acls(release, *match) == [DENIED]
    assert {row[3] for row in world.acls(release, "--list", "--principal", "User:bob")} == {"User:bob"}
    assert world.topics_of_alice() == ["orders"]

    world.acls(release, "--remove", "--force", "--topic", "orders")
    world.acls(release, "--remove", "--force", "--group", "billing")
    assert world.ours() == [DENIED]
    assert world.topics_of_alice() == []


@pytest.mark.parametrize("release", TOOLS)
def test_a_tool_writes_into_zookeeper(world: World, release: str) -> None:
    """Brokers follow, and what zkgroup has written is listed; the last entry takes the znode with it."""
    added = world.acls(release, *ADD_READ, by_zookeeper=True)
    if release == KAFKA:  # 3.9.1 lists nothing after it has added
        assert added == [READ]
    eventually(lambda: world.topics_of_alice() == ["orders"], what="the broker lets alice read")
    world.admin.add_acls("User:*", "all", topics=["pre-"], prefixed=True, host="10.0.0.1", deny=True)

    assert world.acls(release, "--list", by_zookeeper=True) == [READ, DENIED] == world.ours()
    world.acls(release, "--remove", "--force", "--topic", "orders", by_zookeeper=True)
    eventually(lambda: world.topics_of_alice() == [], what="the broker does not let alice read")
    assert world.ours() == [DENIED]


def test_a_broker_of_kafka_follows_what_zkgroup_writes(
    real_zookeeper: RealZooKeeper, box: Toolbox, tmp_path: Path
) -> None:
    """It lists the ACLs by which it decides: added, removed, and brought back by an undo."""
    fetched(KAFKA)
    chroot = f"/acls-{next(_numbers)}"
    broker = RealBroker(
        *(real_zookeeper, tmp_path / "kafka", 1, chroot, KAFKA),
        authorizer_class_name="kafka.security.authorizer.AclAuthorizer",
        super_users="User:ANONYMOUS",
    )
    listed = ("--bootstrap-server", broker.address, "--list")
    try:
        broker.wait_ready()
        with Admin(f"{real_zookeeper.address}{chroot}", undo_folder=tmp_path) as admin:
            admin.add_acls("User:alice", "read", topics=["orders"])
            admin.add_acls("User:*", "all", topics=["pre-"], prefixed=True, host="10.0.0.1", deny=True)
            eventually(lambda: printed_acls(box, KAFKA, *listed) == [READ, DENIED], what="Kafka follows")
            removed = admin.remove_acls("User:alice", topics=["orders"])
            eventually(lambda: printed_acls(box, KAFKA, *listed) == [DENIED], what="Kafka follows")
            admin.undo(removed.undo_id)
            eventually(lambda: printed_acls(box, KAFKA, *listed) == [READ, DENIED], what="Kafka follows")
    finally:
        broker.stop()
