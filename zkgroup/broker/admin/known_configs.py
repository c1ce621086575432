"""The configs that a zkgroup broker uses, with the values from its settings, for DescribeConfigs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, replace
from types import MappingProxyType
from typing import Any, Final

from zkgroup.broker.admin.configs import (
    BOOLEAN,
    CLASS,
    DEFAULT_CONFIG,
    INT,
    LIST,
    LONG,
    SHORT,
    STATIC_BROKER_CONFIG,
    STRING,
    KnownConfig,
    KnownConfigs,
)
from zkgroup.broker.log.log_config import WEEK_MS
from zkgroup.broker.quotas.rates import WINDOW_MS, WINDOWS
from zkgroup.broker.replica_view import FETCH_BYTES_MAX
from zkgroup.broker.settings import INT32_MAX, BrokerSettings
from zkgroup.znodes.config_settings import LOG_SETTINGS, MIN_INSYNC_REPLICAS, OBEYED, without_listener

OF_TOPICS: Final[Mapping[str, tuple[str, int]]] = {
    "index.interval.bytes": ("log_index_interval_bytes", INT),
    "max.message.bytes": ("message_max_bytes", INT),
    "message.timestamp.type": ("log_message_timestamp_type", STRING),
    "min.insync.replicas": ("min_insync_replicas", INT),
    "retention.bytes": ("log_retention_bytes", LONG),
    "retention.ms": ("log_retention_ms", LONG),
    "segment.bytes": ("log_segment_bytes", INT),
    "segment.ms": ("log_roll_ms", LONG),
    "unclean.leader.election.enable": ("unclean_leader_election_enable", BOOLEAN),
}
"""Each config of topics that follows a setting of the broker, to the name of that setting, and its type."""
_FOLLOWED: Final = {
    MIN_INSYNC_REPLICAS: MIN_INSYNC_REPLICAS,
    **{of_topic: name for name, of_topic in LOG_SETTINGS["brokers"].items()},
}
"""Configs of topics to those of brokers that brokers apply where a topic has none."""
CLEANUP_POLICY: Final = KnownConfig(
    "cleanup.policy",
    LIST,
    "delete",
    DEFAULT_CONFIG,
    "With `delete` old segments are deleted, without it none; nothing is compacted.",
    follows="log.cleanup.policy",
)
_NO_LIMIT: Final = str(2**63 - 1)
_STARTED: Final[Mapping[str, tuple[int, str]]] = {
    "advertised.listeners": (STRING, "What the broker registers for clients."),
    "host.name": (STRING, "The address that the broker listens on."),
    "listeners": (STRING, "What the broker listens on."),
    "log.dirs": (STRING, "The data directory; `memory` where the logs are in memory."),
    "port": (INT, "The port that the broker listens on."),
    "zookeeper.connect": (STRING, "The ZooKeeper servers, with the chroot."),
}
"""Configs with which a broker was started, beside its settings, to type and documentation."""
_FIXED_OF_TOPICS: Final[Mapping[str, tuple[int, str | None, str]]] = {
    "compression.type": (STRING, "producer", "Batches are stored as they were sent."),
    "flush.ms": (LONG, _NO_LIMIT, "No log is forced to the disk by time."),
    "follower.replication.throttled.replicas": (LIST, "", "Replicas that are throttled as followers."),
    "leader.replication.throttled.replicas": (LIST, "", "Replicas that are throttled at their leaders."),
    "max.compaction.lag.ms": (LONG, _NO_LIMIT, "Nothing is compacted."),
    "message.downconversion.enable": (BOOLEAN, "false", "No batch is converted to an older format."),
    "message.format.version": (STRING, "2.8-IV1", "Record batches of Kafka 0.11 and later are kept."),
    "message.timestamp.difference.max.ms": (LONG, _NO_LIMIT, "Timestamps are not compared with the time."),
    "min.compaction.lag.ms": (LONG, "0", "Nothing is compacted."),
    "preallocate": (BOOLEAN, "false", "Files grow with what is written."),
    "segment.jitter.ms": (LONG, "0", "Segments begin at their time."),
}
"""Configs of topics whose default no setting changes, to type, value and documentation."""
_FIXED: Final[Mapping[str, tuple[int, str | None, str]]] = {
    "alter.config.policy.class.name": (CLASS, None, "There are no plug-ins."),
    "authorizer.class.name": (STRING, "", "The authorizer; without one everyone may do everything."),
    "broker.id.generation.enable": (BOOLEAN, "true", "A broker without an id gets one."),
    "client.quota.callback.class": (CLASS, None, "There are no plug-ins."),
    "compression.type": (STRING, "producer", "Batches are stored as they were sent."),
    "control.plane.listener.name": (STRING, None, "Controllers use the inter-broker listener."),
    "create.topic.policy.class.name": (CLASS, None, "There are no plug-ins."),
    "fetch.max.bytes": (INT, str(FETCH_BYTES_MAX), "Most bytes of an answer to a fetch."),
    "inter.broker.listener.name": (STRING, None, "The listener by which brokers reach each other."),
    "listener.security.protocol.map": (STRING, "PLAINTEXT:PLAINTEXT", "The protocol of each listener."),
    "log.cleaner.enable": (BOOLEAN, "false", "Nothing is compacted."),
    "log.cleaner.max.compaction.lag.ms": (LONG, _NO_LIMIT, "Nothing is compacted."),
    "log.cleaner.min.compaction.lag.ms": (LONG, "0", "Nothing is compacted."),
    "log.flush.interval.ms": (LONG, None, "No log is forced to the disk by time."),
    "log.message.downconversion.enable": (BOOLEAN, "false", "No batch is converted to an older format."),
    "log.message.format.version": (STRING, "2.8-IV1", "Record batches of Kafka 0.11 and later are kept."),
    "log.message.timestamp.difference.max.ms": (
        LONG,
        _NO_LIMIT,
        "Timestamps are not compared with the time.",
    ),
    "log.preallocate": (BOOLEAN, "false", "Files grow with what is written."),
    "max.connection.creation.rate": (INT, str(INT32_MAX), "There is no limit."),
    "controller.quota.window.num": (INT, str(WINDOWS), "Windows over which a rate is taken."),
    "controller.quota.window.size.seconds": (INT, str(WINDOW_MS // 1000), "Length of a window."),
    "quota.consumer.default": (LONG, _NO_LIMIT, "The default quota is in `/config/clients/<default>`."),
    "quota.producer.default": (LONG, _NO_LIMIT, "The default quota is in `/config/clients/<default>`."),
    "quota.window.num": (INT, str(WINDOWS), "Windows over which a rate is taken."),
    "quota.window.size.seconds": (INT, str(WINDOW_MS // 1000), "Length of a window."),
    "replica.selector.class": (STRING, None, "Consumers read from leaders."),
    "sasl.enabled.mechanisms": (LIST, "", "The mechanisms of a listener have its prefix."),
    "security.inter.broker.protocol": (STRING, "PLAINTEXT", "The protocol between brokers."),
    "ssl.client.auth": (STRING, "none", "What a listener demands has its prefix."),
    "transactional.id.expiration.ms": (INT, str(WEEK_MS), "How long an idempotent producer is remembered."),
}
"""The same of brokers."""
_TYPES: Final[Mapping[str, int]] = {
    "advertised.port": INT,
    "offsets.topic.replication.factor": SHORT,
    "zookeeper.connection.timeout.ms": INT,
    **dict.fromkeys(
        (
            "connections.max.idle.ms",
            "controlled.shutdown.retry.backoff.ms",
            "leader.imbalance.check.interval.seconds",
            "log.retention.bytes",
            "log.retention.check.interval.ms",
            "log.retention.ms",
            "log.roll.ms",
            "offsets.retention.check.interval.ms",
            "queued.max.request.bytes",
            "replica.lag.time.max.ms",
        ),
        LONG,
    ),
}
"""Types that Kafka has for configs of brokers, where they do not follow from the value."""


def known_configs(
    broker: int, settings: BrokerSettings, started: Mapping[str, str] = MappingProxyType({})
) -> KnownConfigs:
    """The configs of topics and of this broker.

    `started`: those of `_STARTED` that are known, and those of `_FIXED` that are not as there; these may have
    the prefix of a listener.
    """
    by_name = {item.name: item for item in fields(BrokerSettings)}
    topic = {
        name: replace(_known(name, by_name[attribute], settings, type_), follows=_FOLLOWED.get(name))
        for name, (attribute, type_) in OF_TOPICS.items()
    }
    topic |= _fixed(_FIXED_OF_TOPICS, read_only=False)
    topic |= {"flush.messages": _flush_messages("flush.messages", settings, read_only=False)}
    topic[CLEANUP_POLICY.name] = CLEANUP_POLICY
    of_broker = _fixed(_FIXED, read_only=True) | {one.name: one for one in _of_broker(broker, settings)}
    for name, value in started.items():
        if name in _STARTED:
            type_, text = _STARTED[name]
            of_broker[name] = KnownConfig(name, type_, value, STATIC_BROKER_CONFIG, text, read_only=True)
        elif value != (fixed := of_broker[without_listener(name)]).value or name != fixed.name:
            of_broker[name] = replace(fixed, name=name, value=value, source=STATIC_BROKER_CONFIG)
    return KnownConfigs(broker, topic, of_broker)


def _fixed(rows: Mapping[str, tuple[int, str | None, str]], *, read_only: bool) -> dict[str, KnownConfig]:
    return {
        name: KnownConfig(name, type_, value, DEFAULT_CONFIG, documentation, read_only)
        for name, (type_, value, documentation) in rows.items()
    }


def _flush_messages(name: str, settings: BrokerSettings, *, read_only: bool) -> KnownConfig:
    is_flushed = settings.flush == "batch"
    value, source = ("1", STATIC_BROKER_CONFIG) if is_flushed else (_NO_LIMIT, DEFAULT_CONFIG)
    documentation = "Records after which a log is forced to the disk."
    return KnownConfig(name, LONG, value, source, documentation, read_only)


def _of_broker(broker: int, settings: BrokerSettings) -> Iterator[KnownConfig]:
    """The id and the settings that Kafka has too, under Kafka's names."""
    yield KnownConfig(
        "broker.id", INT, str(broker), STATIC_BROKER_CONFIG, "Id of the broker.", read_only=True
    )
    for item in fields(BrokerSettings):
        if (name := item.metadata["kafka"]) is not None:
            value = getattr(settings, item.name)
            type_ = BOOLEAN if isinstance(value, bool) else INT if isinstance(value, int) else STRING
            type_ = _TYPES.get(str(name), type_)
            yield _known(str(name), item, settings, type_, read_only=name not in OBEYED["brokers"])
    yield replace(CLEANUP_POLICY, name="log.cleanup.policy", follows=None)
    yield _flush_messages("log.flush.interval.messages", settings, read_only=True)


def _known(
    name: str, item: Field[Any], settings: BrokerSettings, type_: int, *, read_only: bool = False
) -> KnownConfig:
    value = getattr(settings, item.name)
    source = DEFAULT_CONFIG if value == item.default else STATIC_BROKER_CONFIG
    in_seconds = name.endswith(".seconds") and item.name.endswith("_ms")
    text = _text(value // 1000 if in_seconds else value)
    return KnownConfig(name, type_, text, source, str(item.metadata["doc"]), read_only)


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
