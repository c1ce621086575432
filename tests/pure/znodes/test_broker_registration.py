"""Registrations of brokers in the five formats of Kafka: read, chosen, written, refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.znodes.brokers import BrokerRegistration, Endpoint
from zkgroup.znodes.json_fields import parse

PLAIN = Endpoint("PLAINTEXT", "kafka-1", 9092, "PLAINTEXT")
SECURE = Endpoint("SSL", "kafka-1", 9093, "SSL")
NAMED = Endpoint("CLIENT", "kafka-1", 9094, "PLAINTEXT")
NOW = 1396019252998


def fields(registration: BrokerRegistration) -> dict[str, Any]:
    return dict(json.loads(registration.encode()))


def test_version_1_is_what_kafka_0_8_2_2_writes() -> None:
    """The five keys in its order, the time as text."""
    assert BrokerRegistration.of([PLAIN], NOW, 1).encode() == (
        b'{"jmx_port":-1,"timestamp":"1396019252998","host":"kafka-1","version":1,"port":9092}'
    )


def test_version_4_is_the_default() -> None:
    """Host and port are those of the first plain listener, for readers that know nothing else."""
    written = fields(BrokerRegistration.of([SECURE, NAMED], NOW, rack="r1", jmx_port=9999))

    assert written == {
        "listener_security_protocol_map": {"SSL": "SSL", "CLIENT": "PLAINTEXT"},
        "endpoints": ["SSL://kafka-1:9093", "CLIENT://kafka-1:9094"],
        "rack": "r1",
        "jmx_port": 9999,
        "host": "kafka-1",
        "timestamp": "1396019252998",
        "port": 9094,
        "version": 4,
    }


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_every_format_has_its_keys_and_is_read_again(version: int) -> None:
    """Each version adds its keys to those before, and 0.8.2.2 can parse all."""
    registration = BrokerRegistration.of(
        [PLAIN] if version == 1 else [PLAIN, SECURE],
        NOW,
        version,
        rack="r1" if version >= 3 else None,
        features={"f": {"min_version": 1, "max_version": 3}} if version == 5 else None,
        extensions={"zkgroup": {"role": "controller"}},
    )
    data = registration.encode()
    keys = ["endpoints", "rack", "listener_security_protocol_map", "features"][: version - 1]

    assert set(json.loads(data)) == {"version", "host", "port", "jmx_port", "timestamp", "zkgroup", *keys}
    assert parse(data) == json.loads(data)
    assert BrokerRegistration.decode("/x", data) == registration
    assert registration.role == "controller"


def test_listeners_are_named_by_their_protocol_up_to_version_3() -> None:
    """0.9 and 0.10.0 know no listener names."""
    assert BrokerRegistration.of([NAMED], NOW, 3).endpoints == ("PLAINTEXT://kafka-1:9094",)
    assert BrokerRegistration.of([NAMED], NOW, 4).endpoints == ("CLIENT://kafka-1:9094",)


def test_listeners_are_read_with_their_protocols() -> None:
    """By the map, by their names where there is none, and from host and port in version 1."""
    later = BrokerRegistration.of([SECURE, NAMED], NOW, 5)
    older = BrokerRegistration.of([PLAIN, SECURE], NOW, 2)
    oldest = BrokerRegistration.of([PLAIN, SECURE], NOW, 1)

    assert later.listeners == (SECURE, NAMED)
    assert older.listeners == (PLAIN, SECURE)
    assert oldest.listeners == (PLAIN,)


def test_addresses_of_ipv6_stand_in_brackets() -> None:
    """As Kafka formats and parses them."""
    endpoint = Endpoint("PLAINTEXT", "fe80::1%eth0", 9092, "PLAINTEXT")
    registration = BrokerRegistration.of([endpoint], NOW)

    assert registration.endpoints == ("PLAINTEXT://[fe80::1%eth0]:9092",)
    assert BrokerRegistration.decode("/x", registration.encode()).listeners == (endpoint,)
    assert Endpoint("PLAINTEXT", None, 9092, "PLAINTEXT").text == "PLAINTEXT://:9092"


def test_a_broker_without_a_plain_listener_has_no_host_and_port() -> None:
    """Null and -1, as Kafka writes it; version 1 cannot say that."""
    written = fields(BrokerRegistration.of([SECURE], NOW))

    assert (written["host"], written["port"]) == (None, -1)
    with pytest.raises(ConfigError, match="one plain listener"):
        BrokerRegistration.of([SECURE], NOW, 1).encode()


def test_rack_map_and_features_may_be_missing() -> None:
    """Of every version, as their writers leave them out or a foreign one does."""
    for version in range(2, 6):
        broker = BrokerRegistration.decode(
            "/x",
            b'{"version":%d,"host":"h","port":1,"jmx_port":-1,"timestamp":"5","endpoints":["SSL://h:1"]}'
            % version,
        )
        assert (broker.rack, broker.protocols, broker.features) == (None, {}, {})
        assert broker.listeners == (Endpoint("SSL", "h", 1, "SSL"),)


@pytest.mark.parametrize("version", [0, -1])
def test_version_0_is_refused(version: int) -> None:
    """Kafka knows none; the path is named."""
    data = b'{"version":%d,"host":"h","port":1,"jmx_port":-1,"timestamp":"5"}' % version

    with pytest.raises(CorruptZnodeError, match=r"/brokers/ids/7.*version 1"):
        BrokerRegistration.decode("/brokers/ids/7", data)


def test_a_later_version_is_read_but_not_written() -> None:
    """What a version 6 would add is kept, but we cannot know what it must not lack."""
    data = b'{"version":6,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"],"timestamp":"5","new":[1]}'
    broker = BrokerRegistration.decode("/x", data)

    assert (broker.version, broker.extensions) == (6, {"new": [1]})
    with pytest.raises(ConfigError, match="from 1 to 5, found 6"):
        broker.encode()


@pytest.mark.parametrize(
    "text",
    [
        '{"version":2,"host":"h","port":1,"endpoints":["h:1"]}',
        '{"version":2,"host":"h","port":1,"endpoints":["PLAINTEXT://h:99999999999"]}',
        '{"version":2,"host":"h","port":1,"endpoints":["PLAINTEXT://h:9999999999"]}',
        '{"version":2,"host":"h","port":1,"endpoints":["CLIENT://h:1"]}',
        '{"version":4,"host":"h","port":1,"endpoints":["CLIENT://h:1"],"listener_security_protocol_map":{}}',
        '{"version":4,"host":"h","port":1,"endpoints":["A://h:1"],"listener_security_protocol_map":{"B":"SSL"}}',
        '{"version":4,"host":"h","port":1,"endpoints":["A://h:1"],"listener_security_protocol_map":["A"]}',
        '{"version":4,"host":"h","port":1,"endpoints":["SSL://h:1"],"rack":1}',
        '{"version":5,"host":"h","port":1,"endpoints":["SSL://h:1"],"features":[]}',
        '{"version":"4","host":"h","port":1}',
    ],
)
def test_what_kafka_cannot_read_is_corrupt(text: str) -> None:
    """An endpoint without protocol, a rack that is not text: Kafka brokers throw, zkgroup names the path."""
    with pytest.raises(CorruptZnodeError, match="/brokers/ids/7"):
        BrokerRegistration.decode("/brokers/ids/7", text.encode())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"listeners": []}, "expected endpoints"),
        ({"version": 1, "rack": "r"}, "no 'rack'.*expected 3"),
        ({"version": 2, "rack": "r"}, "no 'rack'.*expected 3"),
        ({"features": {"f": {"max_version": 1}}}, "no 'features'.*expected 5"),
        ({"version": 5, "features": {"f": 1}}, "feature 'f'"),
        ({"version": 5, "features": {"f": {"max_version": 2**15}}}, "feature 'f'"),
        ({"version": 6}, "from 1 to 5"),
        ({"version": 3, "listeners": [PLAIN, NAMED]}, "one listener for each protocol"),
        ({"listeners": [PLAIN, PLAIN]}, "a protocol for each of the listeners"),
        ({"listeners": [Endpoint("client", "h", 1, "SSL")]}, "a security protocol for listener|capital"),
        ({"listeners": [Endpoint("A B", "h", 1, "SSL")]}, "capital letters"),
        ({"listeners": [Endpoint("A", "h", 1, "TLS")]}, "expected one of"),
        ({"listeners": [Endpoint("A", "h h", 1, "SSL")]}, "<listener>://<host>:<port>"),
        ({"listeners": [Endpoint("A", None, 1, "SSL")]}, "host name"),
        ({"listeners": [Endpoint("A", "h", 0, "SSL")]}, "port"),
        ({"listeners": [Endpoint("A", "h", 65536, "PLAINTEXT")]}, "port"),
        ({"listeners": [Endpoint("A", "", 1, "PLAINTEXT")]}, "host name"),
        ({"jmx_port": -2}, "jmx_port"),
        ({"timestamp_ms": -1}, "time"),
        ({"extensions": {"host": "x"}}, "not Kafka's"),
        ({"extensions": {"zkgroup": {"started": NOW}}}, "32 bits"),
        ({"extensions": {"zkgroup": [0.5]}}, "32 bits"),
        ({"rack": "\udcff", "version": 4}, "UTF-8"),
    ],
    ids=str,
)
def test_what_no_reader_should_meet_is_not_written(arguments: dict[str, Any], message: str) -> None:
    """One clear error before anything is sent (K34)."""
    given: dict[str, Any] = {"listeners": [PLAIN], "timestamp_ms": NOW, **arguments}

    with pytest.raises(ConfigError, match=message):
        BrokerRegistration.of(given.pop("listeners"), given.pop("timestamp_ms"), **given).encode()


def test_a_port_needs_a_host() -> None:
    """A null host is valid with port -1 only."""
    broker = BrokerRegistration(None, 9092, 4, NOW, -1, ("SSL://h:1",), protocols={"SSL": "SSL"})

    with pytest.raises(ConfigError, match="a host with port 9092"):
        broker.encode()


def test_a_registration_read_without_a_time_is_not_written() -> None:
    """0.8.2.2's next controller would fail for ever on a time that is no text."""
    broker = BrokerRegistration.decode("/x", b'{"host":"h","port":1,"timestamp":5}')

    with pytest.raises(ConfigError, match="time of registration"):
        broker.encode()


def test_a_broker_of_kafka_hosts_data() -> None:
    """Only zkgroup's key marks a broker without replicas (recipes 14)."""
    assert BrokerRegistration("h", 1).role == "data"
    assert BrokerRegistration("h", 1, extensions={"zkgroup": "1"}).role == "data"
    assert BrokerRegistration("h", 1, extensions={"zkgroup": {"role": "controller"}}).role == "controller"
