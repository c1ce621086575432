"""Which listener of a registered broker a client uses, and the settings that say how."""

from __future__ import annotations

import kafka
import pytest

from zkgroup.clients import kafka_python
from zkgroup.clients.addresses import BrokerAddress, address_of, bootstrap_addresses
from zkgroup.errors import ConfigError
from zkgroup.security.client import BrokerAccess, ClientSecurity
from zkgroup.security.secret import Secret
from zkgroup.sources.kafka import KafkaSource
from zkgroup.znodes.brokers import BrokerRegistration, Endpoint

TLS = ClientSecurity(protocol="SSL")
USER = ClientSecurity(
    protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="alice", password=Secret("canary")
)
PLAIN_TEXT = ClientSecurity()


def registered(*listeners: str, inter_broker: str | None = None) -> BrokerRegistration:
    """`NAME:PROTOCOL` each, at ports from 1 on."""
    own = {"role": "data"} | ({"inter_broker_listener": inter_broker} if inter_broker else {})
    endpoints = [
        Endpoint(name, "h", port, protocol)
        for port, (name, _, protocol) in enumerate((one.partition(":") for one in listeners), 1)
    ]
    return BrokerRegistration.of(endpoints, 1, extensions={"zkgroup": own})


@pytest.mark.parametrize(
    ("broker", "access", "port"),
    [
        (registered("IN:SSL", "OUT:PLAINTEXT"), BrokerAccess(), 2),
        (registered("IN:PLAINTEXT", "OUT:PLAINTEXT"), BrokerAccess(), 1),
        (registered("IN:PLAINTEXT", "OUT:SSL"), BrokerAccess(security=TLS), 2),
        (registered("IN:SSL", "OUT:SSL", inter_broker="IN"), BrokerAccess(security=TLS), 2),
        (registered("IN:SSL", inter_broker="IN"), BrokerAccess(security=TLS), 1),
        (registered("IN:PLAINTEXT", "OUT:PLAINTEXT", inter_broker="IN"), BrokerAccess(), 2),
    ],
)
def test_the_listener_of_a_client(broker: BrokerRegistration, access: BrokerAccess, port: int) -> None:
    """Of the protocol; of several not the one among brokers, which is taken where it is the only one."""
    assert address_of(broker, access) == BrokerAddress("h", port, True, access.security)


def test_a_broker_without_such_a_listener() -> None:
    """The reason is the end of a sentence about it."""
    broker = registered("OUT:SSL")
    assert str(address_of(broker)).startswith("has no plain listener (--command-config")
    assert str(address_of(broker, BrokerAccess(security=PLAIN_TEXT))).startswith("has no plain listener")
    assert str(address_of(broker, BrokerAccess(security=USER))).startswith(
        "has no listener of SASL_PLAINTEXT"
    )


def test_several_listeners_are_named() -> None:
    """The operator chooses by addresses; nothing is guessed."""
    broker = registered("IN:SSL", "A:SSL", "B:SSL", inter_broker="IN")
    with pytest.raises(ConfigError, match=r"are of SSL: A://h:2, B://h:3; .*--bootstrap-server"):
        address_of(broker, BrokerAccess(security=TLS))


def test_brokers_named_by_addresses_negotiate_as_they_are_registered() -> None:
    """At any listener; one that is not registered as the oldest."""
    old = BrokerRegistration("old", 9, timestamp_ms=1)
    brokers = {1: registered("IN:PLAINTEXT", "OUT:SSL"), 2: old}
    found = bootstrap_addresses([("h", 2), ("old", 9), ("other", 1)], brokers, TLS)
    assert [one.negotiates for one in found] == [True, False, False]
    assert {one.security for one in found} == {TLS}


def test_kafka_python_gets_the_same() -> None:
    """Options that its clients know; `KafkaSource` refuses them beside `security`."""
    options = USER.kafka_python_options()
    assert options == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "canary",
    }
    assert {*options, *TLS.kafka_python_options()} <= kafka.KafkaConsumer.DEFAULT_CONFIG.keys()
    with pytest.raises(ConfigError, match="sasl_mechanism and security: give one"):
        KafkaSource(options={"sasl_mechanism": "PLAIN"}, security=USER)


def test_kafka_python_is_given_addresses_of_the_listener() -> None:
    """Of the brokers that host partitions, or those of `bootstrap.servers`."""
    brokers = [registered("IN:PLAINTEXT", "OUT:SSL"), registered("IN:PLAINTEXT")]
    access = BrokerAccess(security=TLS)
    assert kafka_python.addresses_of(brokers, access) == [BrokerAddress("h", 2, True, TLS)]
    access = BrokerAccess(security=TLS, bootstrap=(("::1", 7),))
    assert [str(one) for one in kafka_python.addresses_of(brokers, access)] == ["[::1]:7"]
    assert access.bootstrap_servers == ["[::1]:7"]
