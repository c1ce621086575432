"""The configs that a zkgroup broker uses, with the values from its settings, for DescribeConfigs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, replace
from typing import Any, Final

from zkgroup.broker.admin.configs import (
    BOOLEAN,
    DEFAULT_CONFIG,
    INT,
    LIST,
    LONG,
    STATIC_BROKER_CONFIG,
    STRING,
    KnownConfig,
    KnownConfigs,
)
from zkgroup.broker.settings import BrokerSettings
from zkgroup.znodes.config_settings import LOG_SETTINGS, MIN_INSYNC_REPLICAS, OBEYED

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


def known_configs(broker: int, settings: BrokerSettings) -> KnownConfigs:
    """The configs of topics and of this broker."""
    by_name = {item.name: item for item in fields(BrokerSettings)}
    topic = {
        name: replace(_known(name, by_name[attribute], settings, type_), follows=_FOLLOWED.get(name))
        for name, (attribute, type_) in OF_TOPICS.items()
    }
    topic[CLEANUP_POLICY.name] = CLEANUP_POLICY
    return KnownConfigs(broker, topic, {one.name: one for one in _of_broker(broker, settings)})


def _of_broker(broker: int, settings: BrokerSettings) -> Iterator[KnownConfig]:
    """The id and the settings that Kafka has too, under Kafka's names."""
    yield KnownConfig(
        "broker.id", INT, str(broker), STATIC_BROKER_CONFIG, "Id of the broker.", read_only=True
    )
    for item in fields(BrokerSettings):
        if (name := item.metadata["kafka"]) is not None:
            value = getattr(settings, item.name)
            type_ = BOOLEAN if isinstance(value, bool) else INT if isinstance(value, int) else STRING
            yield _known(str(name), item, settings, type_, read_only=name not in OBEYED["brokers"])


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
