"""Configurations: described, changed in one transaction with their notification."""

from __future__ import annotations

import pytest

from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin import ConfigEntity
from zkgroup.admin.configs import HIDDEN, alter_config, describe_configs, plan_config
from zkgroup.admin.topics.creation import plan_topic
from zkgroup.errors import ConfigError, ConflictError, NotFoundError
from zkgroup.model.requests import SetData
from zkgroup.znodes.config import BrokerConfig, TopicConfig
from zkgroup.znodes.notifications import config_changes_path

ORDERS = ConfigEntity.topic("orders")


@pytest.mark.parametrize(
    ("release", "payload"),
    [
        ("0.8.2.2", '"orders"'),
        ("0.9.0.1", '{"version":1,"entity_type":"topics","entity_name":"orders"}'),
        ("0.10.0.0", '{"version":1,"entity_type":"topics","entity_name":"orders"}'),
        ("1.1.1", '{"version":2,"entity_path":"topics/orders"}'),
        ("2.8.2", '{"version":2,"entity_path":"topics/orders"}'),
    ],
)
def test_the_notification_is_in_the_format_of_the_oldest_broker(
    world: MemoryGroups, release: str, payload: str
) -> None:
    """One notification in one format, beside brokers of 2.8.2 too."""
    cluster = MemoryCluster(world, 2, "2.8.2")
    cluster.broker(3, release)
    cluster.topic("orders", (1,), unknown="kept")

    alter_config(world.ensemble, plan_config(world.ensemble, ORDERS, {"retention.ms": "5"}))

    assert cluster.notifications() == [payload]
    assert cluster.overrides("/config/topics/orders") == {"unknown": "kept", "retention.ms": "5"}


def test_change_and_notification_are_one_transaction(world: MemoryGroups) -> None:
    """Kafka's tool writes one after the other; a crash in between leaves brokers with the old value."""
    MemoryCluster(world).topic("orders", (1,))

    alter_config(world.ensemble, plan_config(world.ensemble, ORDERS, {"retention.ms": "5"}))

    paths = [operation.path for operation in world.server.log[-1].operations]
    assert paths == ["/config/topics/orders", "/config/changes/config_change_"]


def test_a_configuration_that_changed_meanwhile_is_a_conflict(world: MemoryGroups) -> None:
    """The other operator's setting is not lost, and no broker is notified."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", (1,))
    plan = plan_config(world.ensemble, ORDERS, {"retention.ms": "1"})
    world.write(SetData("/config/topics/orders", TopicConfig({"b": "2"}).encode(), 0))

    with pytest.raises(ConflictError, match="/config/topics/orders"):
        alter_config(world.ensemble, plan)

    assert cluster.overrides("/config/topics/orders") == {"b": "2"}
    assert cluster.notifications() == []


@pytest.mark.parametrize(
    ("set_to", "removed", "told"),
    [
        ({}, [], "expected --set or --delete-config, found neither"),
        ({"retention.ms": "1"}, ["retention.ms"], "both"),
        ({}, ["missing"], "missing is not set"),
        ({"SCRAM-SHA-256": "x"}, [], "Kafka's own tool"),
        ({"": "x"}, [], "expected a setting that topics have"),
        ({"retention.msec": "1"}, [], "did you mean 'retention.ms'"),
        ({"unclean.leader.election.enable": "maybe"}, [], "true or false"),
        ({"retention.ms": "1 h"}, [], "whole number"),
    ],
)
def test_what_cannot_be_changed_is_refused(
    world: MemoryGroups, set_to: dict[str, str], removed: list[str], told: str
) -> None:
    """One clear error."""
    MemoryCluster(world).topic("orders", (1,))

    with pytest.raises(ConfigError, match=told):
        plan_config(world.ensemble, ORDERS, set_to, removed)


def test_settings_that_the_oldest_broker_ignores_are_noted(world: MemoryGroups) -> None:
    """The preview names settings that a version ignores: compression.type came with 0.9."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", (1,))
    wanted = {"compression.type": "gzip", "retention.ms": "1"}
    known = plan_config(world.ensemble, ORDERS, wanted)
    cluster.broker(4, "0.8.2.2")
    (note,) = plan_config(world.ensemble, ORDERS, wanted).notes

    assert known.notes == ()
    assert note.startswith("compression.type came with Kafka 0.9: older brokers")
    assert plan_topic(world.ensemble, "new", partitions=1, configs=wanted).notes[-1] == note
    assert plan_config(world.ensemble, ConfigEntity.topic("orders"), {"retention.ms": "1"}).notes == ()


@pytest.mark.parametrize(
    ("name", "guess"),
    [
        ("leader.replication.throtled.rate", " (did you mean leader.replication.throttled.rate?)"),
        (
            "listener.name.internal.ssl.keystore.locaton",
            " (did you mean listener.name.internal.ssl.keystore.location?)",
        ),
        ("quite.its.own", ""),
    ],
)
def test_a_name_that_no_broker_takes_is_refused_with_the_nearest_one(
    world: MemoryGroups, name: str, guess: str
) -> None:
    """A mistyped throttle would seem to be set; a plug-in's setting can be forced."""
    MemoryCluster(world, 1, "2.8.2")
    entity, asked = ConfigEntity.broker(1), {"num.io.threads": "8", name: "1"}
    told = "Kafka's brokers have no such dynamic setting"
    with pytest.raises(ConfigError) as refused:
        plan_config(world.ensemble, entity, asked)
    plan = plan_config(world.ensemble, entity, asked, allow_unknown=True)

    assert f"{told}{guess}; `--allow-unknown`" in str(refused.value)
    assert [note.partition(";")[0] for note in plan.notes] == [
        f"{name} is no setting that Kafka's brokers take while they run{guess}"
    ]


def test_a_configuration_in_which_nothing_is_left_is_deleted_where_that_is_asked(world: MemoryGroups) -> None:
    """An undo does it if the change had created the configuration; brokers are notified as well."""
    MemoryCluster(world, 1, "2.8.2")
    entity, rate = ConfigEntity.broker(1), "leader.replication.throttled.rate"
    alter_config(world.ensemble, plan_config(world.ensemble, entity, {rate: "1"}))
    told = _changes(world)
    alter_config(world.ensemble, plan_config(world.ensemble, entity, {}, [rate], delete_empty=True))

    assert world.server.find(entity.config_path) is None
    assert _changes(world) == told + 1


def _changes(world: MemoryGroups) -> int:
    return sum(path.startswith(f"{config_changes_path()}/") for path in world.server.tree())


def test_a_broker_that_is_not_registered_is_noted(world: MemoryGroups) -> None:
    """It may be a typing error, or a stopped broker; the default of all brokers gets no note."""
    MemoryCluster(world, 1, "2.8.2")
    rate = {"leader.replication.throttled.rate": "1"}

    (note,) = plan_config(world.ensemble, ConfigEntity.broker(9), rate).notes

    assert note == "broker 9 is not registered: it applies this when it starts"
    assert plan_config(world.ensemble, ConfigEntity.broker(1), rate).notes == ()
    assert plan_config(world.ensemble, ConfigEntity.broker(None), rate).notes == ()


def test_a_host_name_in_place_of_an_address_is_noted(world: MemoryGroups) -> None:
    """Kafka's brokers resolve it, zkgroup's do not."""
    cluster = MemoryCluster(world, 1, "2.8.2")
    names, rate = ("localhost", "::1", None), {"connection_creation_rate": "5"}

    def noted() -> list[str | None]:
        plans = {name: plan_config(world.ensemble, ConfigEntity.ip(name), rate) for name in names}
        return [name for name, plan in plans.items() if any("resolve" in note for note in plan.notes)]

    assert noted() == []
    cluster.broker(3, "2.8.2", zkgroup={"role": "data"})
    assert noted() == ["localhost"]


def test_settings_that_zkgroup_brokers_do_not_apply_are_named(world: MemoryGroups) -> None:
    """If a zkgroup broker with replicas is registered; settings that it supports are not named."""
    cluster = MemoryCluster(world, 1, "2.8.2")
    cluster.topic("orders", (1,))
    wanted = {"flush.ms": "1", "min.insync.replicas": "2", "retention.ms": "9", "segment.jitter.ms": "9"}
    assert plan_config(world.ensemble, ORDERS, wanted).notes == ()
    cluster.broker(2, "2.8.2", zkgroup={"role": "controller"})
    assert plan_config(world.ensemble, ORDERS, wanted).notes == ()
    cluster.broker(3, "2.8.2", zkgroup={"role": "data"})

    (note,) = plan_config(world.ensemble, ORDERS, wanted).notes
    assert (
        note == "flush.ms, segment.jitter.ms: brokers of zkgroup, of which one is registered, do not apply it"
    )
    assert plan_topic(world.ensemble, "new", partitions=1, configs=wanted).notes[-1] == note
    (note,) = plan_config(world.ensemble, ConfigEntity.broker(3), {"num.io.threads": "8"}).notes
    assert note.startswith("num.io.threads: brokers of zkgroup")


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete, compact"])
def test_a_note_says_that_brokers_of_zkgroup_do_not_compact(world: MemoryGroups, policy: str) -> None:
    """Kafka's brokers do; and neither `delete` nor an empty policy asks for it."""
    cluster = MemoryCluster(world, 1, "2.8.2")
    cluster.topic("orders", (1,))
    wanted = {"cleanup.policy": policy}
    assert plan_config(world.ensemble, ORDERS, wanted).notes == ()
    cluster.broker(3, "2.8.2", zkgroup={"role": "data"})

    kept = "delete by time and size only" if "delete" in policy else "keep every record"
    note = f"cleanup.policy={policy}: brokers of zkgroup do not compact, they {kept}"
    assert plan_config(world.ensemble, ORDERS, wanted).notes == (note,)
    assert plan_topic(world.ensemble, "new", partitions=1, configs=wanted).notes[-1] == note
    common = plan_config(world.ensemble, ConfigEntity.broker(None), {"log.cleanup.policy": policy})
    assert common.notes == (f"log.{note}",)
    for other in ("delete", ""):
        assert plan_config(world.ensemble, ORDERS, {"cleanup.policy": other}).notes == ()


def test_an_entity_that_old_brokers_do_not_know_is_refused(world: MemoryGroups) -> None:
    """A broker's settings are read from 0.10.1 on; in the formats before it there is no word for it."""
    MemoryCluster(world, release="0.8.2.2")

    with pytest.raises(ConfigError, match="single topics only"):
        plan_config(world.ensemble, ConfigEntity.broker(1), {"num.io.threads": "8"})


def test_a_topic_that_does_not_exist_is_not_found(world: MemoryGroups) -> None:
    """Its configuration would wait for a topic of that name."""
    MemoryCluster(world)

    with pytest.raises(NotFoundError, match="/brokers/topics/orders"):
        plan_config(world.ensemble, ORDERS, {"retention.ms": "1"})


def test_clients_of_users_get_their_parents(world: MemoryGroups) -> None:
    """`/config/users/<u>/clients/<c>`: three levels that may be missing."""
    cluster = MemoryCluster(world)
    entity = ConfigEntity.user_client("al ice", None)

    alter_config(world.ensemble, plan_config(world.ensemble, entity, {"producer_byte_rate": "9"}))
    _, rows, _ = describe_configs(world.ensemble, [], "users")

    assert cluster.notifications() == ['{"version":2,"entity_path":"users/al%20ice/clients/<default>"}']
    assert [(str(row.entity), row.configs) for row in rows] == [
        ("users/al%20ice/clients/<default>", {"producer_byte_rate": "9"})
    ]


def test_passwords_are_hidden_and_unreadable_ones_named(world: MemoryGroups) -> None:
    """The data that proves a password is not shown, nor are keys of brokers."""
    world.server.put("/config/users/alice", b'{"version":1,"config":{"SCRAM-SHA-256":"salt=x","a":"1"}}')
    key = "listener.name.outside.ssl.keystore.key"
    world.server.put("/config/brokers/1", BrokerConfig({key: "-----BEGIN", "a.secret": "x"}).encode())
    world.server.put("/config/users/bob", b"{")

    _, (alice,), unreadable = describe_configs(world.ensemble, [], "users")

    assert alice.configs == {"SCRAM-SHA-256": HIDDEN, "a": "1"}
    _, (broker,), _ = describe_configs(world.ensemble, [], "brokers")
    assert broker.configs == {key: HIDDEN, "a.secret": HIDDEN}
    assert "/config/users/bob" in unreadable[0]
