"""The listeners in a broker's properties, by the rules of KafkaConfig.scala@2.8.2."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zkgroup.broker.security_settings import SecuritySettings, advertised, plain_address, security_of
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ConfigError
from zkgroup.security.listeners import Listener, parse_listeners
from zkgroup.znodes.brokers import BrokerRegistration, Endpoint, InterBrokerListener

MAP = "listener.security.protocol.map"
TWO = {
    "listeners": "INSIDE://10.0.0.1:9092, out-1://:9093",
    "advertised.listeners": "OUT-1://broker.example.org:443,inside://10.0.0.1:9092",
    MAP: "INSIDE:PLAINTEXT,OUT-1:PLAINTEXT,SPARE:SSL",
    "inter.broker.listener.name": "INSIDE",
}


def test_listeners_have_names_protocols_and_what_they_advertise() -> None:
    """Names are in capitals; a wildcard advertises another host."""
    found = parse_listeners(TWO)

    assert found.listeners == (
        Listener("INSIDE", "10.0.0.1", 9092, "PLAINTEXT", "10.0.0.1", 9092),
        Listener("OUT-1", "", 9093, "PLAINTEXT", "broker.example.org", 443),
    )
    assert (found.inter_broker, found.inter_broker_protocol) == ("INSIDE", "PLAINTEXT")


def test_a_listener_without_an_advertised_one_is_registered_for_nobody() -> None:
    """Kafka takes a part of the listeners as advertised ones; port 0 becomes the one that is listened on."""
    found = parse_listeners(
        {"listeners": "A://[::1]:0,B://h:7", MAP: "A:SSL,B:PLAINTEXT", "advertised.listeners": "A://o:0"}
        | {"inter.broker.listener.name": "a"}
    )

    opened = [each.bound("::1", 1234) for each in found.listeners]

    assert advertised(opened) == (Endpoint("A", "o", 1234, "SSL"),)
    assert plain_address(advertised(opened)) == (None, -1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"listeners": ""}, "setting listeners: expected NAME://HOST:PORT"),
        ({"listeners": "INSIDE:9092"}, "setting listeners: expected NAME://HOST:PORT.*'INSIDE:9092'"),
        ({"listeners": "INSIDE://h:70000"}, "setting listeners: expected NAME://HOST:PORT"),
        ({"listeners": "IN SIDE://h:1"}, "expected a name of letters"),
        ({"listeners": "INSIDE://h:1,inside://h:2"}, "found INSIDE twice"),
        ({"listeners": "INSIDE://h:1,OUT-1://i:1"}, "expected another port for each listener"),
        (
            {"listeners": "INSIDE://h:1,OTHER://i:2", "advertised.listeners": ""},
            "protocol for listener OTHER",
        ),
        (
            {"advertised.listeners": "INSIDE://h:1,SPARE://i:2"},
            "expected listeners of listeners.*found SPARE",
        ),
        (
            {"advertised.listeners": "INSIDE://0.0.0.0:1"},
            "listener INSIDE: '0.0.0.0' stands for every address",
        ),
        ({"advertised.listeners": ""}, "listener OUT-1: '' stands for every address.*OUT-1://NAME:PORT"),
        ({MAP: "INSIDE:TLS"}, f"setting {MAP}: expected NAME:PROTOCOL.*'INSIDE:TLS'"),
        ({MAP: "INSIDE:SSL,INSIDE:SSL"}, "found INSIDE twice"),
        (
            {"inter.broker.listener.name": "SPARE"},
            "expected an advertised listener .INSIDE, OUT-1., found SPARE",
        ),
        ({"security.inter.broker.protocol": "SSL"}, "found both"),
        (
            {"inter.broker.listener.name": "", "security.inter.broker.protocol": "TLS"},
            "expected one of PLAINTEXT",
        ),
    ],
)
def test_what_does_not_fit_is_named(changed: dict[str, str], message: str) -> None:
    """The setting, what it should be, and what it is."""
    with pytest.raises(ConfigError, match=message):
        parse_listeners(TWO | changed)


def test_a_broker_has_listeners_or_one_host_and_port() -> None:
    """Settings of one plain listener beside listeners would be without effect, so they are refused."""
    settings = BrokerSettings(advertised_host_name="outside")

    assert security_of(None, "::", 1, settings).inter_broker == InterBrokerListener("PLAINTEXT", "PLAINTEXT")
    assert SecuritySettings.of(TWO).inter_broker == InterBrokerListener("INSIDE", "PLAINTEXT")
    with pytest.raises(ConfigError, match=r"set advertised\.listeners instead"):
        security_of(SecuritySettings.of(TWO), "h", 1, settings)


TLS = {
    "listeners": "A://h:1,B://h:2",
    MAP: "A:SSL,B:SSL",
    "inter.broker.listener.name": "A",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "all.pem",
    "ssl.client.auth": "required",
}


def test_a_setting_of_one_listener_precedes_that_of_all() -> None:
    """The prefix has the name in small letters."""
    own = {"listener.name.b.ssl.keystore.location": "b.pem", "listener.name.b.ssl.client.auth": "none"}
    found = SecuritySettings.of(TLS | own)

    assert [(one.key_store, one.client_auth) for one in found.tls.values()] == [
        ("all.pem", "required"),
        ("b.pem", "none"),
    ]
    assert (found.client.protocol, found.client.tls) == ("SSL", replace(found.tls["A"], client_auth="none"))


def test_of_a_listener_with_logins_a_certificate_is_demanded_only_by_its_own_setting() -> None:
    """`ssl.client.auth` of all counts for SSL listeners only; brokers log in by the mechanism among them."""
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="canary" '
    logins = {
        MAP: "A:SASL_SSL,B:SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.a.plain.sasl.jaas.config": jaas + 'user_b="canary";',
    }
    found = SecuritySettings.of(TLS | logins)

    assert {name: one.client_auth for name, one in found.tls.items()} == {"A": "none", "B": "required"}
    assert (found.client.protocol, found.client.mechanism, found.client.username) == (
        "SASL_SSL",
        "PLAIN",
        "b",
    )
    assert "canary" not in repr(found)
    own = {"listener.name.a.ssl.client.auth": "required"}
    assert SecuritySettings.of(TLS | logins | own).tls["A"].client_auth == "required"
    with pytest.raises(ConfigError, match=r"inter\.broker\.protocol: expected one of PLAIN, found SCR"):
        SecuritySettings.of(TLS | logins | {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ssl.nonsense": "1"}, "setting ssl.nonsense: not known here"),
        ({"listener.name.a.connection.failed.authentication.delay.ms": "1"}, "delay.ms: not known here"),
        ({"listener.name.a.plain.sasl.enabled.mechanisms": "PLAIN"}, "mechanisms: not known here"),
        (
            {"listener.name.c.ssl.client.auth": "none"},
            "ssl.client.auth: not known here; .*begin with listener.name.a., listener.name.b.",
        ),
        ({"ssl.client.auth": "maybe"}, "ssl.client.auth: expected none, requested, required, found 'maybe'"),
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.type: expected PEM"),
        ({"ssl.endpoint.identification.algorithm": "dns"}, "expected https, or nothing"),
    ],
)
def test_a_setting_of_tls_that_does_not_fit_is_named(changed: dict[str, str], message: str) -> None:
    """A name that is not known is refused: what it was to protect would be open."""
    with pytest.raises(ConfigError, match=message):
        SecuritySettings.of(TLS | changed)


def test_a_broker_is_reached_by_the_name_or_else_the_protocol() -> None:
    """Brokers of Kafka may name their listeners otherwise; a listener without a host reaches nobody."""
    endpoints = (
        Endpoint("OUT", "o", 1, "PLAINTEXT"),
        Endpoint("INSIDE", "i", 2, "PLAINTEXT"),
        Endpoint("TLS", "t", 3, "SSL"),
    )
    found = BrokerRegistration.of(endpoints, 1)

    assert found.endpoint(InterBrokerListener("INSIDE", "PLAINTEXT")) == endpoints[1]
    assert found.endpoint(InterBrokerListener("PLAINTEXT", "PLAINTEXT")) == endpoints[0]
    assert found.endpoint(InterBrokerListener("INSIDE", "SSL")) == endpoints[2]
    assert found.endpoint(InterBrokerListener("INSIDE", "SASL_SSL")) is None
