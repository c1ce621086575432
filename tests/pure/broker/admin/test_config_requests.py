"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

import pytest

from tests.pure.broker.admin.conftest import BY
from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.stores import MeddledStore
from zkgroup.broker.admin.configs import (
    APPEND,
    DEFAULT_CONFIG,
    DELETE,
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    INT,
    LONG,
    SET,
    STATIC_BROKER_CONFIG,
    STRING,
    SUBTRACT,
    TOPIC_CONFIG,
    KnownConfig,
    KnownConfigs,
    alter,
    describe,
)
from zkgroup.broker.admin.known_configs import known_configs
from zkgroup.broker.security_settings import SecuritySettings
from zkgroup.broker.settings import BrokerSettings
from zkgroup.model.requests import ReadMany, Sync
from zkgroup.security.listeners import plaintext
from zkgroup.wire.admin_apis import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    AlteredResource,
    ChangedResource,
    ConfigOperation,
    ConfigResource,
    ConfigValue,
    DescribedResource,
)
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.config import ConfigEntity, TopicConfig

KNOWN = KnownConfigs(
    1,
    {
        "retention.ms": KnownConfig(
            "retention.ms", LONG, "604800000", DEFAULT_CONFIG, "age", follows="log.retention.ms"
        ),
        "segment.bytes": KnownConfig("segment.bytes", INT, "4096", STATIC_BROKER_CONFIG, "size"),
    },
    {
        "listeners": KnownConfig("listeners", STRING, "a:1", STATIC_BROKER_CONFIG, "where", True),
        "log.retention.ms": KnownConfig("log.retention.ms", LONG, "9", STATIC_BROKER_CONFIG, "age"),
        "num.partitions": KnownConfig("num.partitions", INT, "1", STATIC_BROKER_CONFIG, "count", True),
    },
)


def _describe(
    cluster: MemoryCluster, kind: int, name: str, keys: tuple[str, ...] | None = None
) -> DescribedResource:
    resource = ConfigResource(kind=kind, name=name, keys=keys)
    (row,) = describe(cluster.world.ensemble, [resource], KNOWN, synonyms=True, documented=True)
    return row


def _rows(described: DescribedResource) -> list[tuple[str, str | None, int]]:
    return [(one.name, one.value, one.source) for one in described.configs]


def test_a_topic_shows_its_overrides_and_the_brokers_defaults(cluster: MemoryCluster) -> None:
    """The synonyms of an override end with the default that it hides."""
    found = _describe(cluster, TOPIC_RESOURCE, "orders")

    assert _rows(found) == [
        ("retention.ms", "1000", TOPIC_CONFIG),
        ("segment.bytes", "4096", STATIC_BROKER_CONFIG),
    ]
    retention = found.configs[0]
    assert [(one.value, one.source) for one in retention.synonyms] == [
        ("1000", TOPIC_CONFIG),
        ("604800000", DEFAULT_CONFIG),
    ]
    assert (retention.config_type, retention.documentation) == (LONG, "age")
    assert _rows(_describe(cluster, TOPIC_RESOURCE, "orders", ("segment.bytes",))) == _rows(found)[1:]
    assert _describe(cluster, TOPIC_RESOURCE, "orders", ()) == found  # as in Kafka: no keys are all


def test_a_broker_keeps_a_name_that_it_does_not_know(cluster: MemoryCluster) -> None:
    """As Kafka 2.8.2 does; what it reads only at its start is refused below."""
    assert _alter_broker(cluster, "1", "cleanup.policy", "delete") == ErrorCode.NONE


def test_a_topic_without_a_config_shows_that_of_the_brokers(cluster: MemoryCluster) -> None:
    """It is in effect: this broker's before that of all brokers, both before the default."""
    for name, value in (("", "5"), ("1", "6")):
        assert _alter_broker(cluster, name, "log.retention.ms", value) == ErrorCode.NONE
    _change(cluster, ("retention.ms", DELETE, None))

    retention = _describe(cluster, TOPIC_RESOURCE, "orders", ("retention.ms",)).configs[0]
    assert (retention.value, retention.source) == ("6", DYNAMIC_BROKER_CONFIG)
    assert [(one.name, one.value, one.source) for one in retention.synonyms] == [
        ("log.retention.ms", "6", DYNAMIC_BROKER_CONFIG),
        ("log.retention.ms", "5", DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("log.retention.ms", "604800000", DEFAULT_CONFIG),
    ]


def test_a_config_without_a_value_is_null(cluster: MemoryCluster) -> None:
    """It has no synonyms; the empty string would be a value."""
    rack = KnownConfig("broker.rack", STRING, None, DEFAULT_CONFIG, "rack", True)
    known = KnownConfigs(1, {}, {"broker.rack": rack})
    resource = ConfigResource(kind=BROKER_RESOURCE, name="1")

    (found,) = describe(cluster.world.ensemble, [resource], known, synonyms=True, documented=False)
    (row,) = found.configs
    assert (row.value, row.source, row.synonyms) == (None, DEFAULT_CONFIG, ())


@pytest.mark.parametrize(
    ("broker", "name", "value"),
    [
        ("1", "log.retention.ms", "abc"),
        ("1", "log.segment.bytes", "1"),
        ("", "log.message.timestamp.type", "Now"),
        ("", "min.insync.replicas", "0"),
        ("1", "num.partitions", "3"),
        ("1", "listeners", "b:2"),
        ("", "listeners", "b:2"),
        ("2147483648", "log.retention.ms", "1"),
        ("9" * 5000, "log.retention.ms", "1"),
        ("one", "log.retention.ms", "1"),
    ],
)
def test_a_config_that_a_broker_would_not_apply_is_refused(
    cluster: MemoryCluster, broker: str, name: str, value: str
) -> None:
    """Brokers would log that they ignore it, and the client would be told that it is set."""
    before = len(cluster.world.server.log)

    assert _alter_broker(cluster, broker, name, value) == ErrorCode.INVALID_REQUEST
    assert len(cluster.world.server.log) == before


def _alter_broker(cluster: MemoryCluster, broker: str, name: str, value: str) -> int:
    config = ConfigValue(name=name, value=value)
    resource = AlteredResource(kind=BROKER_RESOURCE, name=broker, configs=(config,))
    return alter(cluster.world.ensemble, resource, KNOWN, BY, validate_only=False).error


def test_a_broker_shows_its_own_settings_before_those_of_all(cluster: MemoryCluster) -> None:
    """Broker 1 answers for itself and for the default of all brokers only."""
    ensemble = cluster.world.ensemble
    for name, value in (("", "5"), ("1", "6")):
        config = ConfigValue(name="leader.replication.throttled.rate", value=value)
        resource = AlteredResource(kind=BROKER_RESOURCE, name=name, configs=(config,))
        assert alter(ensemble, resource, KNOWN, BY, validate_only=False).error == ErrorCode.NONE

    rate = "leader.replication.throttled.rate"
    assert _rows(_describe(cluster, BROKER_RESOURCE, "1")) == [
        (rate, "6", DYNAMIC_BROKER_CONFIG),
        ("listeners", "a:1", STATIC_BROKER_CONFIG),
        ("log.retention.ms", "9", STATIC_BROKER_CONFIG),
        ("num.partitions", "1", STATIC_BROKER_CONFIG),
    ]
    assert _rows(_describe(cluster, BROKER_RESOURCE, "")) == [(rate, "5", DYNAMIC_DEFAULT_BROKER_CONFIG)]
    other = _describe(cluster, BROKER_RESOURCE, "2")
    assert (other.error, other.configs) == (ErrorCode.INVALID_REQUEST, ())


def test_secrets_are_not_shown(cluster: MemoryCluster) -> None:
    """The value is null, and so are its synonyms."""
    entity = ConfigEntity.broker(1)
    data = b'{"version":1,"config":{"ssl.keystore.password":"secret"}}'
    cluster.world.server.put(entity.config_path, data)

    (row,) = [one for one in _describe(cluster, BROKER_RESOURCE, "1").configs if one.is_sensitive]
    assert (row.name, row.value, row.synonyms) == ("ssl.keystore.password", None, ())


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC_RESOURCE, "absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC_RESOURCE, "a/b", ErrorCode.INVALID_TOPIC),
        (8, "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described_has_an_error_of_its_own(
    cluster: MemoryCluster, kind: int, name: str, error: ErrorCode
) -> None:
    """The request is answered for its other resources."""
    assert _describe(cluster, kind, name).error == error


def test_all_resources_are_read_at_once(cluster: MemoryCluster) -> None:
    """Two requests to ZooKeeper, whatever is asked for; what cannot be described spoils nothing else."""
    cluster.topic("other", (1, 2))
    cluster.world.server.put(TopicConfig.path("other"), b"no JSON")
    resources = [
        ConfigResource(kind=kind, name=name, keys=None)
        for kind, name in (
            (2, "orders"),
            (2, "other"),
            (2, "absent"),
            (2, "a/b"),
            (4, "1"),
            (4, "2"),
            (4, ""),
        )
    ]
    store = MeddledStore(cluster.world.server.client())

    found = describe(cluster.world.operator(store), resources, KNOWN, synonyms=False, documented=False)

    assert [type(request) for request in store.requests] == [Sync, ReadMany]
    assert [(one.kind, one.name) for one in found] == [(one.kind, one.name) for one in resources]
    assert [one.error for one in found] == [0, -1, 3, 17, 0, 42, 0]
    assert [bool(one.configs) for one in found] == [True, False, False, False, True, False, False]


def test_a_broker_shows_its_id(cluster: MemoryCluster) -> None:
    """As Kafka does: static, an int, and read-only."""
    known = known_configs(7, BrokerSettings())
    resource = ConfigResource(kind=BROKER_RESOURCE, name="7", keys=("broker.id",))

    (found,) = describe(cluster.world.ensemble, [resource], known, synonyms=False, documented=False)

    (row,) = found.configs
    assert (row.name, row.value, row.source, row.config_type, row.read_only) == (
        "broker.id",
        "7",
        STATIC_BROKER_CONFIG,
        INT,
        True,
    )


def test_a_broker_shows_what_its_listeners_demand() -> None:
    """By the name of each, and no user: who reads that there is no login believes the port is open."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    given = {
        "listeners": "IN://h:1,OUT://h:2,PLAINTEXT://h:3",
        "listener.security.protocol.map": "IN:SSL,OUT:SASL_SSL,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "IN",
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.jaas.config": f'{module} required user_alice="canary";',
    }
    expected = {
        "inter.broker.listener.name": "IN",
        "listener.name.in.ssl.client.auth": "required",
        "listener.name.out.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.out.ssl.client.auth": "none",
        "listener.security.protocol.map": "IN:SSL,OUT:SASL_SSL,PLAINTEXT:PLAINTEXT",
        "security.inter.broker.protocol": "SSL",
    }

    found = known_configs(7, BrokerSettings(), SecuritySettings.of(given).described()).of_broker

    started = {one.name: one.value for one in found.values() if one.source == STATIC_BROKER_CONFIG}
    assert started == {"broker.id": "7", **expected}
    assert all(found[name].read_only for name in expected)
    plain = SecuritySettings(listeners=plaintext("h", 1)).described()
    assert known_configs(7, BrokerSettings(), plain) == known_configs(7, BrokerSettings())


def _change(cluster: MemoryCluster, *operations: tuple[str, int, str | None], topic: str = "orders") -> int:
    configs = tuple(ConfigOperation(name=n, operation=o, value=v) for n, o, v in operations)
    resource = ChangedResource(kind=TOPIC_RESOURCE, name=topic, configs=configs)
    return alter(cluster.world.ensemble, resource, KNOWN, BY, validate_only=False).error


def test_an_incremental_change_keeps_what_it_does_not_name(cluster: MemoryCluster) -> None:
    """KIP-339: set, delete, append and subtract; each change is notified to the brokers."""
    assert _change(cluster, ("segment.bytes", SET, "99")) == ErrorCode.NONE
    throttled = "leader.replication.throttled.replicas"
    assert _change(cluster, (throttled, APPEND, "0:1,0:2")) == ErrorCode.NONE
    assert _change(cluster, (throttled, SUBTRACT, "0:1"), ("retention.ms", DELETE, None)) == ErrorCode.NONE

    path = TopicConfig.path("orders")
    assert cluster.overrides(path) == {"segment.bytes": "99", throttled: "0:2"}
    assert len(cluster.notifications()) == 3


def test_a_replacing_change_removes_what_it_does_not_name(cluster: MemoryCluster) -> None:
    """AlterConfigs of before KIP-339."""
    resource = AlteredResource(
        kind=TOPIC_RESOURCE, name="orders", configs=(ConfigValue(name="segment.bytes", value="99"),)
    )
    alter(cluster.world.ensemble, resource, KNOWN, BY, validate_only=True)
    assert cluster.overrides(TopicConfig.path("orders")) == {"retention.ms": "1000"}

    alter(cluster.world.ensemble, resource, KNOWN, BY, validate_only=False)
    assert cluster.overrides(TopicConfig.path("orders")) == {"segment.bytes": "99"}


def test_a_change_that_changes_nothing_writes_nothing(cluster: MemoryCluster) -> None:
    """Brokers are not notified either."""
    assert _change(cluster, ("retention.ms", SET, "1000")) == ErrorCode.NONE
    assert _change(cluster, ("segment.bytes", DELETE, None)) == ErrorCode.NONE
    assert cluster.notifications() == []


@pytest.mark.parametrize(
    ("operation", "topic", "error"),
    [
        (("retention.ms", SET, "x"), "orders", ErrorCode.INVALID_REQUEST),
        (("leader.replication.throttled.replicas", SET, "x"), "orders", ErrorCode.INVALID_REQUEST),
        (("retention.ms", APPEND, "1"), "orders", ErrorCode.INVALID_REQUEST),
        (("segment.jitter.ms", SUBTRACT, "1"), "orders", ErrorCode.INVALID_REQUEST),
        (("retention", SET, "1"), "orders", ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), "orders", ErrorCode.INVALID_REQUEST),
        (("retention.ms", 9, "1"), "orders", ErrorCode.INVALID_REQUEST),
        (("retention.ms", SET, "1"), "absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("retention.ms", DELETE, None), "absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("retention.ms", SET, "1"), "a/b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_kafkas_code(
    cluster: MemoryCluster, operation: tuple[str, int, str | None], topic: str, error: ErrorCode
) -> None:
    """Nothing is written."""
    before = len(cluster.world.server.log)

    assert _change(cluster, operation, topic=topic) == error
    assert len(cluster.world.server.log) == before
