"""Configurations that a broker applies, by notification and at its start."""

from __future__ import annotations

from tests.pure.broker.stepped_brokers import BrokerNode, SteppedBrokers, alone
from tests.worlds.acls import UNREADABLE
from zkgroup.broker.machine.events import (
    ConfigChanged,
    CredentialsChanged,
    Prepared,
    Registered,
    TopicsFollowed,
)
from zkgroup.model.requests import Create, Delete
from zkgroup.security.scram import ScramCredential
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.config import BrokerConfig, ConfigEntity, EntityConfig, TopicConfig, UserConfig
from zkgroup.znodes.notifications import ConfigChange, config_changes_path
from zkgroup.zookeeper.settings import OPEN_ACL

MINUTE_MS = 60_000
TOPIC = ConfigEntity.topic("t")


def _configured(world: SteppedBrokers, topic: str, **overrides: str) -> None:
    data = TopicConfig({name.replace("_", "."): value for name, value in overrides.items()}).encode()
    world.server.put(TopicConfig.path(topic), data)


def _notify(world: SteppedBrokers, data: bytes) -> None:
    world.write(Create(ConfigChange.prefix(), data, sequential=True))
    world.run()


def _told(node: BrokerNode) -> list[tuple[str, dict[str, str]]]:
    return [(str(effect.entity), dict(effect.overrides)) for effect in node.emitted(ConfigChanged)]


def _standing(world: SteppedBrokers) -> list[int]:
    """The numbers of the notifications that exist."""
    return [number for number in range(20) if world.server.find(ConfigChange.path(number)) is not None]


def test_the_configuration_is_applied_before_the_broker_registers() -> None:
    """Of topics and brokers; an empty configuration is like none, and an unreadable one is reported."""
    world = SteppedBrokers()
    _configured(world, "t", retention_ms="5")
    _configured(world, "u")
    world.server.put(TopicConfig.path("v"), b'{"version":2,"config":{}}')
    world.server.put(BrokerConfig.path(1), BrokerConfig({"x": "1"}).encode())
    node = world.node()
    world.run()

    assert _told(node) == [("topics/t", {"retention.ms": "5"}), ("brokers/1", {"x": "1"})]
    assert [note.fields["path"] for note in node.notes("config.unreadable")] == ["/config/topics/v"]
    assert isinstance(node.effects[-1], Registered)


def test_the_configuration_that_a_topic_is_made_with_is_read_when_it_is_led() -> None:
    """No tool notifies of it, nor of its removal with the topic when a topic of the same name is created."""
    world = SteppedBrokers()
    node = world.node()
    world.run()
    _configured(world, "t", min_insync_replicas="2")
    world.run()
    assert _told(node) == []

    world.lead(node, isr=(1, 2))
    world.run()
    assert _told(node) == [("topics/t", {"min.insync.replicas": "2"})]

    world.write(Delete(TopicConfig.path("t"), -1))
    world.lead(node, isr=(1, 2), epoch=1)
    world.run()
    assert _told(node)[1:] == [("topics/t", {})]


def test_the_configuration_that_a_topic_is_made_with_is_read_when_it_is_followed() -> None:
    """A follower keeps its log by the settings of the topic as well."""
    world, node = alone()
    world.server.put(Topic.path("t"), Topic({0: (2, 1)}).encode())
    _configured(world, "t", retention_ms="5")
    node.loop.post(TopicsFollowed(frozenset({"t"})))
    world.run()

    assert _told(node) == [("topics/t", {"retention.ms": "5"})]


def test_all_three_payloads_are_understood() -> None:
    """Tools of 0.8.2.2 write the bare string; the notification only names the znode to read."""
    world, node = alone()
    for number, format_ in enumerate(("bare", "v1", "v2")):
        _configured(world, "t", retention_ms=str(number))
        _notify(world, ConfigChange(TOPIC, format_).encode())  # type: ignore[arg-type]

    assert _told(node) == [("topics/t", {"retention.ms": str(number)}) for number in range(3)]


def test_an_unreadable_notification_stops_no_later_one() -> None:
    """Later ones are applied, and all of them are deleted in time (K35)."""
    world, node = alone()
    for payload in (b"", b"{", b"17", b'{"version":9}', b'{"version":2,"entity_path":"x/y"}', b'"/"'):
        _notify(world, payload)
    _configured(world, "t", a="1")
    _notify(world, ConfigChange(TOPIC, "v2").encode())
    assert _told(node) == [("topics/t", {"a": "1"})]
    assert len(node.notes("config_change.unreadable")) == 6
    world.advance(16 * MINUTE_MS, step_ms=MINUTE_MS)
    _notify(world, ConfigChange(TOPIC, "v2").encode())

    assert _standing(world) == [7]


def test_a_number_that_was_created_by_hand_stops_no_lower_one() -> None:
    """Kafka remembers the greatest number only; later changes would wait for it (controller.md 1.5)."""
    world, node = alone()
    world.write(Create(ConfigChange.path(9999), b"garbage"))
    world.run()
    for value in ("1", "2"):
        _configured(world, "t", a=value)
        _notify(world, ConfigChange(TOPIC, "v2").encode())

    assert _told(node) == [("topics/t", {"a": "1"}), ("topics/t", {"a": "2"})]


def test_old_notifications_go_and_younger_ones_stay() -> None:
    """By ctime, as the servers count the time, however wrong the clock of this machine is."""
    world, node = alone()
    _notify(world, ConfigChange(TOPIC, "v2").encode())
    world.advance(10 * MINUTE_MS, step_ms=MINUTE_MS)
    _notify(world, ConfigChange(TOPIC, "v2").encode())
    world.advance(6 * MINUTE_MS, step_ms=MINUTE_MS)
    _notify(world, ConfigChange(TOPIC, "v2").encode())

    assert _standing(world) == [1, 2]
    assert _told(node) == []


def test_what_was_changed_while_the_broker_was_away_is_applied_in_the_next_session() -> None:
    """Also if the notification is gone by then; a deleted configuration is reported as empty."""
    world = SteppedBrokers()
    _configured(world, "t", a="1")
    node = world.node()
    world.run()
    world.server.expire("n0")
    world.server.cut("n0", hold=True)
    world.server.remove(TopicConfig.path("t"))
    _configured(world, "u", b="2")
    world.server.resume("n0")
    world.run()

    assert _told(node)[1:] == [("topics/t", {}), ("topics/u", {"b": "2"})]


def test_a_notification_that_vanishes_counts_as_applied() -> None:
    """Another broker has deleted it between the list and the read."""
    world, node = alone()
    _configured(world, "t", a="1")
    world.write(Create(ConfigChange.prefix(), b'"t"', sequential=True))
    world.run(lambda: any("ReadMany" in str(flight.request) for flight in node.client.requests))
    world.server.remove(ConfigChange.path(0))
    world.run()
    _notify(world, b'"t"')

    assert _told(node) == [("topics/t", {"a": "1"})]
    assert config_changes_path() == "/config/changes"


def test_changes_are_seen_again_once_an_acl_lets_the_broker_look() -> None:
    """No watch was set meanwhile, so only the broker itself reads the znode again.

    The broker was notified of a change while the ACL denied the read; it is not notified later.
    """
    world, node = alone()
    _configured(world, "t", retention_ms="1")
    world.write(Create(ConfigChange.prefix(), ConfigChange(TOPIC, "v2").encode(), sequential=True))
    world.run(lambda: node.client.requests)
    world.server.set_acl(config_changes_path(), UNREADABLE)
    world.server.catch_up(node.client.name)
    world.run()
    assert _told(node) == []
    assert node.notes("unexpected_reply")

    world.server.set_acl(config_changes_path(), *OPEN_ACL)
    world.advance(2000)

    assert _told(node) == [("topics/t", {"retention.ms": "1"})]


SECRET = ScramCredential.of_password("SCRAM-SHA-256", "geheim", 4096, b"salt" * 4)


def _user(world: SteppedBrokers, name: str, **settings: str) -> None:
    named = {key.replace("_", "-") if key.isupper() else key: value for key, value in settings.items()}
    data = UserConfig(named).encode()
    world.server.put(UserConfig.path(name), data)


def _following() -> tuple[SteppedBrokers, BrokerNode]:
    world = SteppedBrokers()
    _user(world, "al ice", SCRAM_SHA_256=SECRET.encode(), producer_byte_rate="1")
    _user(world, "quota", producer_byte_rate="1")
    world.server.put("/config/users/<default>", UserConfig({"SCRAM-SHA-256": "x"}).encode())
    node = world.node(follows_users=True)
    return world, node


def _credentials(node: BrokerNode) -> list[tuple[str, list[str]]]:
    return [(one.user, list(one.credentials)) for one in node.emitted(CredentialsChanged)]


def test_users_are_read_before_the_port_opens_and_followed() -> None:
    """By credential: a quota that changes is no news; a user who is deleted has none.

    Past bug: a port that opened before refused right passwords; Kafka's clients give up then.
    """
    world, node = _following()
    world.run()
    assert _credentials(node) == [("al ice", ["SCRAM-SHA-256"])]
    assert isinstance(node.effects[-1], Registered)
    (opens,) = node.emitted(Prepared)
    assert node.effects.index(opens) > node.effects.index(node.emitted(CredentialsChanged)[0])
    (told,) = node.emitted(CredentialsChanged)
    assert told.credentials["SCRAM-SHA-256"] == SECRET

    user = ConfigEntity.user("al ice")
    for settings in ({"SCRAM_SHA_256": SECRET.encode()}, {"SCRAM_SHA_512": "salt=c2VjcmV0"}, {}):
        _user(world, "al ice", **settings)
        _notify(world, ConfigChange(user, "v2").encode())
        _notify(world, ConfigChange(ConfigEntity.user_client("al ice", "app"), "v2").encode())
        _notify(world, ConfigChange(ConfigEntity.user(None), "v2").encode())

    assert _credentials(node)[1:] == [("al ice", []), ("al ice", [])]
    (note,) = node.notes("config.unreadable")
    assert note.fields["path"] == "/config/users/al%20ice"
    assert "c2VjcmV0" not in str(note.fields)


def test_a_broker_without_scram_is_told_of_no_credentials() -> None:
    """Nor does it pass them on with the quotas of their user."""
    world = SteppedBrokers()
    _user(world, "alice", SCRAM_SHA_256=SECRET.encode(), producer_byte_rate="1")
    node = world.node()
    world.run()

    assert _credentials(node) == []
    assert _told(node) == [("users/alice", {"producer_byte_rate": "1"})]


QUOTAS = {
    "clients/app": "producer_byte_rate",
    "clients/<default>": "consumer_byte_rate",
    "users/<default>": "request_percentage",
    "users/<default>/clients/<default>": "request_percentage",
    "users/al%20ice/clients/app": "controller_mutation_rate",
    "ips/127.0.0.1": "connection_creation_rate",
}


def _quota(world: SteppedBrokers, entity: str, value: str) -> None:
    world.server.put(f"/config/{entity}", EntityConfig({QUOTAS[entity]: value}).encode())


def test_quotas_are_read_before_the_broker_registers_and_followed() -> None:
    """Of clients, users, clients of users and addresses, with their defaults, and when they are removed."""
    world = SteppedBrokers()
    for entity in QUOTAS:
        _quota(world, entity, "1")
    node = world.node()
    world.run()
    assert sorted(_told(node)) == sorted((entity, {name: "1"}) for entity, name in QUOTAS.items())
    assert isinstance(node.effects[-1], Registered)

    known = len(_told(node))
    for entity in QUOTAS:
        _quota(world, entity, "2")
        _notify(world, ConfigChange(ConfigEntity.parse("", entity), "v2").encode())
        world.server.remove(f"/config/{entity}")
        _notify(world, ConfigChange(ConfigEntity.parse("", entity), "v2").encode())
    assert _told(node)[known:] == [
        told for entity, name in QUOTAS.items() for told in ((entity, {name: "2"}), (entity, {}))
    ]


def test_credentials_stay_while_zookeeper_is_away_and_are_read_in_the_next_session() -> None:
    """Nothing is told at the end of a session; changes of the meantime are, without a notification."""
    world, node = _following()
    world.run()
    world.server.expire(node.client.name)
    world.server.cut(node.client.name, hold=True)
    world.run()
    assert len(_credentials(node)) == 1

    world.server.remove(UserConfig.path("al ice"))
    _user(world, "bob", SCRAM_SHA_256=SECRET.encode())
    world.server.resume(node.client.name)
    world.run()

    assert _credentials(node)[1:] == [("al ice", []), ("bob", ["SCRAM-SHA-256"])]


def test_a_broker_that_may_not_list_users_registers_without_them() -> None:
    """Only users of its own configuration get in; the log says why."""
    world, node = _following()
    world.server.set_acl("/config/users", UNREADABLE)
    world.run()

    assert isinstance(node.effects[-1], Registered)
    assert _credentials(node) == []
    assert [note.fields["path"] for note in node.notes("config.unreadable")] == ["/config/users"]
