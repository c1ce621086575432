"""Kafka's clients at three brokers that talk SASL_SSL among themselves, by each kind of listener.

Each test is a row of a table in docs/interop.md. CI runs two of them, with one client each.
"""

from __future__ import annotations

import gc
import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.long.interop.conftest import fetched
from tests.long.interop.releases import EVERYTHING
from tests.long.interop.secured import CLIENTS, PYTHON, VALUES, JavaTools, Visit
from tests.long.interop.toolbox import Toolbox
from tests.worlds.certificates import Authority
from tests.worlds.kafka_clients import ClientLogin
from tests.worlds.listening_brokers import ListeningBrokers
from tests.worlds.tokens import Issuer
from zkgroup import Admin

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <(socket|ssl):ResourceWarning")

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MODULES = "org.apache.kafka.common.security"
AMONG_BROKERS = f'{MODULES}.scram.ScramLoginModule required username="broker" password="b";'
OF_PLAIN = f'{MODULES}.plain.PlainLoginModule required user_alice="a";'
LISTENERS = {
    "IN": "SASL_SSL",
    "TLS": "SSL",
    "CERTIFICATE": "SSL",
    "LOGIN": "SASL_PLAINTEXT",
    "BOTH": "SASL_SSL",
    "TOKEN": "SASL_SSL",
}
Client = Callable[[Visit], list[bytes]]
_numbers = itertools.count(1)
only_in_long_form = pytest.mark.skipif(
    not EVERYTHING, reason="python -m tests.long.interop.matrix runs every client at every listener"
)


@dataclass(frozen=True)
class World:
    """The brokers, and the authority of their certificates."""

    brokers: ListeningBrokers
    authority: Authority
    issuer: Issuer

    def visit(self, listener: str, login: ClientLogin) -> Visit:
        bootstrap = ",".join(self.brokers.addresses(listener).values())
        return Visit(bootstrap, login, f"topic-{next(_numbers)}")


@pytest.fixture
def world(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[World]:
    caplog.set_level(logging.CRITICAL, "kafka")
    authority, issuer = Authority(tmp_path), Issuer(tmp_path)
    properties = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "listener.security.protocol.map": ",".join(map(":".join, LISTENERS.items())),
        "inter.broker.listener.name": "IN",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.in.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.in.scram-sha-512.sasl.jaas.config": AMONG_BROKERS,
        "listener.name.login.plain.sasl.jaas.config": OF_PLAIN,
        "listener.name.both.plain.sasl.jaas.config": OF_PLAIN,
        "listener.name.certificate.ssl.client.auth": "required",
        "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
        **issuer.of_broker("TOKEN"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.key_store("broker")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.trust_store),
    }
    brokers = ListeningBrokers(lambda broker: properties)
    with Admin(client=brokers.zookeeper.client("admin"), undo_folder=tmp_path) as admin:
        admin.add_user("broker", "b", mechanism="SCRAM-SHA-512")
        for mechanism in MECHANISMS[1:]:
            admin.add_user("alice", "a", mechanism=mechanism)
    with brokers:
        yield World(brokers, authority, issuer)
    gc.collect()  # kafka-python 3.0 leaves sockets of refused connections to it


@pytest.fixture
def secured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """A client: what it does at a listener. Java has a JVM of its own: 2.8.2 counts messages in a static."""
    if request.param in PYTHON:
        yield PYTHON[request.param]
        return
    release = str(request.param).removeprefix("Java ")
    request.getfixturevalue("jars")
    fetched(release)
    with Toolbox() as box:
        yield JavaTools(box, release, tmp_path).visited


def clients(*in_ci: str, without: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """All but some of them; in CI these."""
    names = in_ci if in_ci and not EVERYTHING else [one for one in CLIENTS if one not in without]
    return pytest.mark.parametrize("secured", names, indirect=True)


def check(client: Client, visit: Visit) -> None:
    assert sorted(client(visit)) == VALUES


@only_in_long_form
@clients()
def test_ssl(world: World, secured: Client) -> None:
    """Without a certificate of the client."""
    check(secured, world.visit("TLS", ClientLogin(trust_store=world.authority.trust_store)))


@clients("confluent-kafka", without=("Java 2.8.2",))
def test_ssl_with_a_certificate_of_the_client(world: World, secured: Client) -> None:
    """The broker demands it. Java 2.8.2 reads keys only that are encrypted, and by PBES1."""
    own = world.authority.key_store("client", common_name="alice")
    login = ClientLogin(trust_store=world.authority.trust_store, key_store=own)
    check(secured, world.visit("CERTIFICATE", login))


@only_in_long_form
@clients()
def test_sasl_plaintext_by_plain(world: World, secured: Client) -> None:
    """By a user of the broker's own settings."""
    check(secured, world.visit("LOGIN", ClientLogin("PLAIN", "alice", "a")))


@only_in_long_form
@clients()
def test_sasl_plaintext_by_scram_sha_256(world: World, secured: Client) -> None:
    """By a user in ZooKeeper."""
    check(secured, world.visit("LOGIN", ClientLogin("SCRAM-SHA-256", "alice", "a")))


@only_in_long_form
@clients()
def test_sasl_plaintext_by_scram_sha_512(world: World, secured: Client) -> None:
    """By a user in ZooKeeper."""
    check(secured, world.visit("LOGIN", ClientLogin("SCRAM-SHA-512", "alice", "a")))


@only_in_long_form
@clients()
def test_sasl_ssl_by_plain(world: World, secured: Client) -> None:
    """The password is encrypted on the way."""
    login = ClientLogin("PLAIN", "alice", "a", world.authority.trust_store)
    check(secured, world.visit("BOTH", login))


@only_in_long_form
@clients()
def test_sasl_ssl_by_scram_sha_256(world: World, secured: Client) -> None:
    """As brokers among themselves, by the other hash."""
    login = ClientLogin("SCRAM-SHA-256", "alice", "a", world.authority.trust_store)
    check(secured, world.visit("BOTH", login))


@clients("Java 3.9.1")
def test_sasl_ssl_by_scram_sha_512(world: World, secured: Client) -> None:
    """As brokers among themselves."""
    login = ClientLogin("SCRAM-SHA-512", "alice", "a", world.authority.trust_store)
    check(secured, world.visit("BOTH", login))


@only_in_long_form
@clients(without=("Java 2.8.2",))
def test_sasl_ssl_by_oauthbearer(world: World, secured: Client) -> None:
    """By a token in a file. Java before 3.1 needs a class of one's own to read it."""
    login = ClientLogin(
        "OAUTHBEARER", trust_store=world.authority.trust_store, token_file=world.issuer.token_file()
    )
    check(secured, world.visit("TOKEN", login))
