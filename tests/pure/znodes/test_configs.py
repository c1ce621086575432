"""Configurations, whom they are for, notifications of changes, throttles of a reassignment."""

from __future__ import annotations

import json

import pytest

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.config import BrokerConfig, ConfigEntity, EntityConfig, TopicConfig, UserConfig
from zkgroup.znodes.config_settings import LEADER_REPLICAS, parse_throttled_replicas, throttled_replicas
from zkgroup.znodes.notifications import ConfigChange, NotifyFormat, notify_format


def test_a_changed_configuration_keeps_every_other_setting_and_key() -> None:
    """0.8.2.2's tool refuses names that it does not know; zkgroup keeps them."""
    config = TopicConfig.decode(
        "/x", b'{"version":1,"config":{"retention.ms":"1","new.thing":"x","segment.ms":"2"},"more":[1]}'
    )
    changed = config.changed({"retention.ms": "5", LEADER_REPLICAS: "0:1"}, removed=["segment.ms", "unset"])

    assert changed.encode() == (
        b'{"version":1,"config":{"retention.ms":"5","new.thing":"x",'
        b'"leader.replication.throttled.replicas":"0:1"},"more":[1]}'
    )
    assert type(changed) is TopicConfig


def test_no_data_means_no_overrides() -> None:
    """As for Kafka: the parent of a user's clients has none."""
    for data in (None, b""):
        assert EntityConfig.decode("/x", data) == EntityConfig()
    assert TopicConfig().encode() == b'{"version":1,"config":{}}'


@pytest.mark.parametrize(
    "text",
    [
        '{"config":{}}',
        '{"version":2,"config":{}}',
        '{"version":"1","config":{}}',
        '{"version":1}',
        '{"version":1,"config":[]}',
        '{"version":1,"config":{"retention.ms":1}}',
        '{"version":1,"config":{"retention.ms":null}}',
        "[]",
        '"orders"',
        "{",
    ],
)
def test_another_version_or_a_value_that_is_no_text_is_corrupt(text: str) -> None:
    """0.8.2.2 fails on each with a cast error or "requirement failed"."""
    with pytest.raises(CorruptZnodeError, match="/config/topics/t"):
        TopicConfig.decode("/config/topics/t", text.encode())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (TopicConfig({"": "x"}), "setting ''"),
        (TopicConfig({"a": 1}), "setting 'a'.*found 1"),  # type: ignore[dict-item]
        (TopicConfig({"a": "\udcff"}), "setting a: expected text that UTF-8"),
        (TopicConfig({"\udcff": "a"}), "UTF-8"),
        (TopicConfig({"a": "x"}, {"version": 2}), "not Kafka's"),
        (TopicConfig({"a": "x" * 900_000}), "configuration of 1 settings: expected at most"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_configuration_that_would_fail_brokers_is_not_written(config: TopicConfig, message: str) -> None:
    """All values are texts, names are not empty, and it fits a request."""
    with pytest.raises(ConfigError, match=message):
        config.encode()


def test_quotes_backslashes_and_foreign_letters_survive() -> None:
    """Kafka 0.8.2.2 escapes nothing (K34); we do, and its parser understands it."""
    config = TopicConfig({'a"b\\c': 'é"\\\n\x1a/ 日本'})

    assert b'"a\\"b\\\\c":"\xc3\xa9\\"\\\\\\n\\u001a/ ' in config.encode()
    assert TopicConfig.decode("/x", config.encode()) == config


@pytest.mark.parametrize(
    ("entity", "text", "plain"),
    [
        (ConfigEntity.topic("orders"), "topics/orders", "orders"),
        (ConfigEntity.broker(3), "brokers/3", "3"),
        (ConfigEntity.broker(None), "brokers/<default>", None),
        (ConfigEntity.of_client("a b*c~d+é"), "clients/a%20b%2Ac%7Ed%2B%C3%A9", "a b*c~d+é"),
        (ConfigEntity.of_client(None), "clients/<default>", None),
        (ConfigEntity.user("CN=alice,O=x/y"), "users/CN%3Dalice%2CO%3Dx%2Fy", "CN=alice,O=x/y"),
        (ConfigEntity.user("<default>"), "users/%3Cdefault%3E", "<default>"),
        (ConfigEntity.user(None), "users/<default>", None),
        (ConfigEntity.user_client("al ice", "app/1"), "users/al%20ice/clients/app%2F1", "al ice"),
        (ConfigEntity.user_client(None, None), "users/<default>/clients/<default>", None),
        (ConfigEntity.ip("2001:db8::1"), "ips/2001:db8::1", "2001:db8::1"),
        (ConfigEntity.ip(None), "ips/<default>", None),
    ],
    ids=str,
)
def test_entities_are_named_as_kafka_names_them(entity: ConfigEntity, text: str, plain: str | None) -> None:
    """Users and clients percent-encoded, addresses plain, and the default of each a literal."""
    assert (entity.entity_path, str(entity), entity.config_path) == (text, text, f"/config/{text}")
    assert ConfigEntity.parse("/x", text) == entity
    assert entity.plain_name == plain


def test_the_client_of_a_user_is_decoded() -> None:
    """The default client too is shown like a client, because the entity kind differs."""
    assert ConfigEntity.user_client("a", "b c").plain_client == "b c"
    assert ConfigEntity.user_client("a", None).plain_client is None
    assert ConfigEntity.user("a").plain_client is None


def test_names_that_cannot_stand_in_a_path_are_refused() -> None:
    """Empty, dots alone, a broker below 0, an address with a slash."""
    for user in ("", ".", "..", "\udcff"):
        with pytest.raises(ConfigError):
            UserConfig.path(user)
    for address in ("", ".", "10.0.0.0/8", "a b", "a%b", "é"):
        with pytest.raises(ConfigError, match="IP address"):
            ConfigEntity.ip(address)
    with pytest.raises(ConfigError):
        BrokerConfig.path(-1)
    with pytest.raises(ConfigError):
        ConfigEntity.topic("a/b")


@pytest.mark.parametrize(
    ("data", "entity", "form"),
    [
        (b'"orders"', "topics/orders", "bare"),
        (b'{"version":1,"entity_type":"topics","entity_name":"orders"}', "topics/orders", "v1"),
        (b'{"version":1,"entity_type":"clients","entity_name":"app"}', "clients/app", "v1"),
        (b'{"version":2,"entity_path":"topics/orders"}', "topics/orders", "v2"),
        (b'{"version":2,"entity_path":"users/a/clients/<default>"}', "users/a/clients/<default>", "v2"),
        (b'{"version":2,"entity_path":"brokers/<default>"}', "brokers/<default>", "v2"),
    ],
)
def test_all_three_payloads_are_read_and_written(data: bytes, entity: str, form: NotifyFormat) -> None:
    """Tools of 0.8.2.2 write the bare string at us, later ones the others."""
    change = ConfigChange.decode("/x", data)

    assert (str(change.entity), change.format) == (entity, form)
    assert change.encode() == data


@pytest.mark.parametrize(
    "text",
    [
        "",
        '"',
        '""',
        '"a/b"',
        '".."',
        "5",
        "[]",
        "{}",
        '{"version":3,"entity_path":"topics/a"}',
        '{"version":"2","entity_path":"topics/a"}',
        '{"version":2}',
        '{"version":2,"entity_path":5}',
        '{"version":2,"entity_path":"topics"}',
        '{"version":2,"entity_path":"topics/"}',
        '{"version":2,"entity_path":"topics/a b"}',
        '{"version":2,"entity_path":"topics/a/clients/b"}',
        '{"version":2,"entity_path":"things/a"}',
        '{"version":2,"entity_path":"brokers/x"}',
        '{"version":2,"entity_path":"users/a/b"}',
        '{"version":2,"entity_path":"users//clients/a"}',
        '{"version":2,"entity_path":"users/a/clients/"}',
        '{"version":2,"entity_path":"users/a/clients/b/c"}',
        '{"version":1,"entity_type":"topics"}',
        '{"version":1,"entity_type":"topics","entity_name":9999999999}',
    ],
)
def test_an_unreadable_notification_is_reported_by_its_path(text: str) -> None:
    """So that its reader can pass over it."""
    path = ConfigChange.path(7)
    with pytest.raises(CorruptZnodeError) as refused:
        ConfigChange.decode(path, text.encode())
    assert refused.value.path == path == "/config/changes/config_change_0000000007"


@pytest.mark.parametrize(
    ("entity", "form"),
    [
        (ConfigEntity.broker(1), "bare"),
        (ConfigEntity.of_client("a"), "bare"),
        (ConfigEntity.user("a"), "v1"),
        (ConfigEntity.broker(None), "v1"),
        (ConfigEntity.of_client(None), "v1"),
    ],
    ids=str,
)
def test_a_change_that_the_brokers_cannot_know_is_not_announced(
    entity: ConfigEntity, form: NotifyFormat
) -> None:
    """A broker of 0.8.2.2 has topics only, one of 0.9 topics and clients."""
    with pytest.raises(ConfigError, match=f"change of {entity.kind}"):
        ConfigChange(entity, form).encode()


def test_a_name_that_is_no_topic_is_not_announced() -> None:
    """0.8.2.2 accepts any text between the quotes."""
    for form in ("bare", "v1", "v2"):
        with pytest.raises(ConfigError):
            ConfigChange(ConfigEntity("topics", 'a"b'), form).encode()  # type: ignore[arg-type]


def test_numbers_of_notifications_are_read_from_their_names() -> None:
    """Ten digits; foreign names have none, and ZooKeeper's counter may run below zero."""
    names = [
        "config_change_0000000012",
        "config_change_-2147483648",
        "config_change_",
        "config_change_x",
        "x",
    ]

    assert [ConfigChange.sequence_of(name) for name in names] == [12, -(2**31), None, None, None]
    assert ConfigChange.path(-5) == f"{ConfigChange.prefix()}-000000005"


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ([1], "bare"),
        ([5, 4, 1], "bare"),
        ([2], "v1"),
        ([3, 5], "v1"),
        ([2, 3], "v1"),
        ([4], "v2"),
        ([5, 4], "v2"),
        ([5], "v2"),
    ],
)
def test_the_oldest_registration_chooses_the_payload(versions: list[int], expected: str) -> None:
    """Never more than one of the three."""
    brokers = [BrokerRegistration("h", 1, version=version) for version in versions]

    assert notify_format(brokers, users_known=True) == expected
    assert notify_format(brokers, users_known=False) == expected


def test_brokers_of_kafka_decide_before_zkgroup_brokers() -> None:
    """zkgroup brokers read every payload; its controller registers in version 1 beside brokers of 2.8."""
    ours = BrokerRegistration("h", 1, version=1, extensions={"zkgroup": {"role": "controller"}})
    real = BrokerRegistration("h", 1, version=5)

    assert notify_format([ours, real], users_known=False) == "v2"
    assert notify_format([ours], users_known=True) == "bare"
    data = BrokerRegistration("h", 1, version=4, extensions={"zkgroup": {"role": "data"}})
    assert notify_format([ours, data], users_known=False) == "v2"
    assert notify_format([], users_known=True) == "v2"
    assert notify_format([], users_known=False) == "bare"


def test_throttled_replicas_are_partition_and_broker() -> None:
    """As Kafka's tools write them, in order; a star is every replica."""
    text = throttled_replicas([(10, 2), (0, 1), (0, 1), (2, 3)])

    assert text == "0:1,2:3,10:2"
    assert parse_throttled_replicas(text) == {(0, 1), (2, 3), (10, 2)}
    assert parse_throttled_replicas(" * ") is None
    assert parse_throttled_replicas("") == frozenset()
    for wrong in ("1", "1:2:3", "a:1", "1:-1", "1:9999999999", "*,1:1"):
        with pytest.raises(ConfigError, match="<partition>:<broker>"):
            parse_throttled_replicas(wrong)


def test_every_config_is_one_shape() -> None:
    """A notification's configuration can be read without knowing its entity kind."""
    change = ConfigChange.decode("/x", b'{"version":2,"entity_path":"brokers/3"}')

    assert change.entity.config_path == BrokerConfig.path(3)
    assert json.loads(BrokerConfig({"a": "1"}).encode()) == {"version": 1, "config": {"a": "1"}}


@pytest.mark.parametrize("path", ["/config/users/alice", "/config/brokers/1"])
@pytest.mark.parametrize(
    "data",
    [b'{"SCRAM-SHA-512":"canary', b'["canary"]', b'{"version":1,"config":{"ssl.key.password":["canary"]}}'],
)
def test_what_may_have_secrets_is_not_quoted(path: str, data: bytes) -> None:
    """Errors are printed and logged; that of a topic shows what was found."""
    with pytest.raises(CorruptZnodeError, match=f"{path}: expected .* not shown") as refused:
        EntityConfig.decode(path, data)
    assert "canary" not in str(refused.value)
    with pytest.raises(CorruptZnodeError, match="canary"):
        EntityConfig.decode("/config/topics/t", data)
