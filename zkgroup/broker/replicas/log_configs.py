"""The settings of each topic's logs: its own, else those of brokers, or the defaults. Pure.

Nothing is compacted here. Nothing is deleted from a topic whose `cleanup.policy` lacks `delete`: where it is
`compact`, deletion by time or size would lose the last record of a key. With both, retention applies. With
`compact` a record needs a key, as in Kafka.

Names: kafka/log/LogConfig.scala, kafka/server/DynamicBrokerConfig.scala @2.8.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from zkgroup.broker.log.log_config import SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, LogConfig, TimestampType
from zkgroup.broker.log.storage import Flush
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ConfigError
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.config_settings import CLEANUP_POLICY, LOG_SETTINGS, cleanup_policies

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1


def log_config(settings: BrokerSettings) -> LogConfig:
    """The settings of the logs of a broker without dynamic configurations."""
    return LogConfig(
        segment_bytes=settings.log_segment_bytes,
        segment_ms=settings.log_roll_ms,
        retention_bytes=settings.log_retention_bytes,
        retention_ms=settings.log_retention_ms,
        index_interval_bytes=settings.log_index_interval_bytes,
        max_message_bytes=settings.message_max_bytes,
        message_timestamp_type=TimestampType(settings.log_message_timestamp_type),
        flush=Flush.BATCH if settings.flush == "batch" else Flush.NONE,
    )


Parse = Callable[[str], object]


def _number(least: int, most: int) -> Parse:
    def parse(text: str) -> int:
        number = int(text) if _NUMBER.fullmatch(text.strip()) else None
        if number is None or not least <= number <= most:
            raise ConfigError(f"expected a whole number from {least} to {most}, found {text!r}")
        return number

    return parse


def _timestamp_type(text: str) -> TimestampType:
    try:
        return TimestampType(text.strip())
    except ValueError:
        names = " or ".join(each.value for each in TimestampType)
        raise ConfigError(f"expected {names}, found {text!r}") from None


class _Setting(NamedTuple):
    attribute: str
    """Of `LogConfig`."""
    parse: Parse


_SETTINGS: Final[Mapping[str, _Setting]] = {
    "segment.bytes": _Setting("segment_bytes", _number(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)),
    "segment.ms": _Setting("segment_ms", _number(1, _LONG_MAX)),
    "retention.bytes": _Setting("retention_bytes", _number(-_LONG_MAX - 1, _LONG_MAX)),
    "retention.ms": _Setting("retention_ms", _number(-1, _LONG_MAX)),
    "index.interval.bytes": _Setting("index_interval_bytes", _number(0, _INT_MAX)),
    "max.message.bytes": _Setting("max_message_bytes", _number(0, _INT_MAX)),
    "message.timestamp.type": _Setting("message_timestamp_type", _timestamp_type),
}
"""By the name of a topic's setting."""


@dataclass(frozen=True, slots=True)
class TopicLogConfigs:
    """The settings of the logs of all topics; a value."""

    default: LogConfig
    """Of topics that are not in `topics`."""
    topics: Mapping[str, LogConfig] = field(default_factory=dict)

    def of(self, topic: str) -> LogConfig:
        return self.topics.get(topic, self.default)


class LogConfigs:
    """The present settings of topics and brokers, as far as they are about logs."""

    def __init__(self, broker: int, default: LogConfig) -> None:
        """`default` has the settings with which the broker was started."""
        self._default = default
        self._dynamic = ConfigEntity.broker(None), ConfigEntity.broker(broker)
        self._overrides: dict[ConfigEntity, dict[str, Any]] = {}
        self.present = TopicLogConfigs(default)

    def configured(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        """Sets the present settings of a topic or broker.

        Raises ConfigError for invalid values, after the valid ones are applied.
        """
        if entity.kind not in LOG_SETTINGS:
            return
        problems: list[str] = []
        values: dict[str, Any] = {}
        for name, of_topic in LOG_SETTINGS[entity.kind].items():
            if (text := overrides.get(name)) is None:
                continue
            try:
                values |= _parsed(of_topic, text)
            except ConfigError as error:
                problems.append(f"{name}: {error}")
        if values:
            self._overrides[entity] = values
        else:
            self._overrides.pop(entity, None)
        self.present = self._computed()
        if problems:
            raise ConfigError(f"{entity.config_path}: {'; '.join(problems)}")

    def _computed(self) -> TopicLogConfigs:
        brokers: dict[str, Any] = {}
        for entity in self._dynamic:
            brokers |= self._overrides.get(entity, {})
        topics = {
            entity.name: _config(self._default, brokers | values)
            for entity, values in self._overrides.items()
            if entity.kind == "topics"
        }
        return TopicLogConfigs(_config(self._default, brokers), topics)


def _parsed(name: str, text: str) -> dict[str, Any]:
    """Values of `LogConfig`."""
    if name == CLEANUP_POLICY:
        policies = cleanup_policies(text)
        if not policies <= {"compact", "delete"}:
            raise ConfigError(f"expected delete, compact, both or nothing, found {text!r}")
        return {"keeps_all": "delete" not in policies, "needs_keys": "compact" in policies}
    setting = _SETTINGS[name]
    return {setting.attribute: setting.parse(text)}


def _config(default: LogConfig, values: Mapping[str, Any]) -> LogConfig:
    config = replace(default, **values)
    return replace(config, retention_ms=-1, retention_bytes=-1) if config.keeps_all else config
