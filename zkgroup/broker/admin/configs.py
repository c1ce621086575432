"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs of topics and brokers; blocking.

What is set lies in `/config`; defaults are those of the broker that answers. Sources:
kafka/server/ConfigHelper.scala and AdminManager.scala @2.8.2, org/apache/kafka/common/requests/
DescribeConfigsResponse.java@2.8.2 for the numbers of sources and types.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zkgroup.admin.configs import alter_config_change, is_secret, plan_config
from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.broker.admin.failures import Failure, RequestPartError, failure_of, refused_as
from zkgroup.errors import ConfigError, NotFoundError, ZkGroupError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import Znode
from zkgroup.wire.admin_apis import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    AlteredResource,
    AlteredResourceResult,
    ChangedResource,
    ConfigResource,
    ConfigSynonym,
    CreatedConfig,
    DescribedConfig,
    DescribedResource,
)
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.config import ConfigEntity, EntityConfig
from zkgroup.znodes.config_settings import CLEANUP_POLICY, REPLICAS, SETTINGS, without_listener
from zkgroup.znodes.ids import validate_topic

TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG = 1, 2, 3
STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 4, 5
SET, DELETE, APPEND, SUBTRACT = range(4)
"""Operations of IncrementalAlterConfigs."""

LISTS: Final = frozenset(
    [
        CLEANUP_POLICY,
        *REPLICAS,
        "log.cleanup.policy",
        "metric.reporters",
        "sasl.enabled.mechanisms",
        "sasl.kerberos.principal.to.local.rules",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
    ]
)
"""The configs that are lists (kafka/server/KafkaConfig.scala@2.8.2); those of a listener have a prefix."""

BOOLEAN, STRING, INT, SHORT, LONG, LIST, CLASS, PASSWORD = 1, 2, 3, 4, 5, 7, 8, 9
UNKNOWN_TYPE: Final = 0


@dataclass(frozen=True, slots=True)
class KnownConfig:
    """A config that brokers of zkgroup use, with its value where nothing is set."""

    name: str
    type: int
    """`BOOLEAN`, `STRING`, `INT`, `SHORT`, `LONG`, `LIST` or `CLASS`."""
    value: str | None
    """None for null: there is none."""
    source: int
    """`STATIC_BROKER_CONFIG` where the broker was started with another value than the default, else
    `DEFAULT_CONFIG`."""
    documentation: str
    read_only: bool = False
    """True if only a restart of the broker changes it."""
    follows: str | None = None
    """Of a topic's config: the config of brokers that is in effect where the topic has none."""


@dataclass(frozen=True, slots=True)
class KnownConfigs:
    """The configs of topics and of the broker that answers."""

    broker: int
    topic: Mapping[str, KnownConfig]
    of_broker: Mapping[str, KnownConfig]


def describe(
    ensemble: Ensemble,
    resources: Sequence[ConfigResource],
    known: KnownConfigs,
    *,
    synonyms: bool,
    documented: bool,
) -> tuple[DescribedResource, ...]:
    """The configs of each resource: what is set, and the defaults. All are read in one bulk read."""
    paths = [_own_paths(resource, known) for resource in resources]
    common = [entity.config_path for entity in (ConfigEntity.broker(known.broker), ConfigEntity.broker(None))]
    wanted = {path for one in paths if not isinstance(one, Failure) for path in one}
    stored: Mapping[str, Znode | None] | Failure = {}
    if wanted:
        try:
            ensemble.zk.sync("/")
            stored = ensemble.zk.read_many([*common, *sorted(wanted - set(common))])
        except ZkGroupError as error:
            stored = failure_of(error)
    return tuple(
        _described_resource(
            resource,
            failure if isinstance(failure, Failure) else stored,
            known,
            synonyms=synonyms,
            documented=documented,
        )
        for resource, failure in zip(resources, paths, strict=True)
    )


def _own_paths(resource: ConfigResource, known: KnownConfigs) -> list[str] | Failure:
    """The znodes of a resource, apart from those of brokers; or why it has none."""
    try:
        if resource.kind != TOPIC_RESOURCE:
            return [ConfigEntity.broker(_broker_named(resource.kind, resource.name, known)).config_path]
        with refused_as(ErrorCode.INVALID_TOPIC, ConfigError):
            validate_topic(resource.name)
    except ZkGroupError as error:
        return failure_of(error)
    return [Topic.path(resource.name), ConfigEntity.topic(resource.name).config_path]


def _described_resource(
    resource: ConfigResource,
    stored: Mapping[str, Znode | None] | Failure,
    known: KnownConfigs,
    *,
    synonyms: bool,
    documented: bool,
) -> DescribedResource:
    failure = stored if isinstance(stored, Failure) else None
    configs: Iterable[_Config] = ()
    if not isinstance(stored, Failure):
        try:
            if resource.kind == TOPIC_RESOURCE:
                configs = _topic_configs(stored, resource.name, known)
            else:
                broker = _broker_named(resource.kind, resource.name, known)
                configs = _broker_configs(stored, broker, known)
        except ZkGroupError as error:
            failure = failure_of(error)
    if failure is not None:
        code, message = failure
        return DescribedResource(error=code, error_message=message, kind=resource.kind, name=resource.name)
    wanted = set(resource.keys) if resource.keys else None
    rows = tuple(
        _described(one, synonyms=synonyms, documented=documented)
        for one in configs
        if wanted is None or one.name in wanted
    )
    return DescribedResource(error=ErrorCode.NONE, kind=resource.kind, name=resource.name, configs=rows)


@dataclass(frozen=True, slots=True)
class _Config:
    name: str
    values: tuple[ConfigSynonym, ...]
    """The one in effect first; none where the value is null."""
    known: KnownConfig | None

    @property
    def value(self) -> str | None:
        return self.values[0].value if self.values else None

    @property
    def source(self) -> int:
        return self.values[0].source if self.values else DEFAULT_CONFIG


def _topic_configs(stored: Mapping[str, Znode | None], topic: str, known: KnownConfigs) -> Iterator[_Config]:
    if stored[Topic.path(topic)] is None:
        raise NotFoundError(f"there is no topic {topic!r}")
    entities = [ConfigEntity.topic(topic), ConfigEntity.broker(known.broker), ConfigEntity.broker(None)]
    overrides, own, common = _overrides(stored, entities)
    brokers = [(DYNAMIC_BROKER_CONFIG, own), (DYNAMIC_DEFAULT_BROKER_CONFIG, common)]
    return _configs([(TOPIC_CONFIG, overrides)], known.topic, brokers)


def created_configs(overrides: Mapping[str, str], known: KnownConfigs) -> tuple[CreatedConfig, ...]:
    """The configs of a new topic that has these overrides."""
    return tuple(
        CreatedConfig(
            name=one.name,
            value=one.value,
            read_only=False,
            source=one.source,
            is_sensitive=False,
        )
        for one in _configs([(TOPIC_CONFIG, overrides)], known.topic)
    )


def _broker_named(kind: int, name: str, known: KnownConfigs) -> int | None:
    """The id of the broker that answers; None for the default of all brokers."""
    if kind != BROKER_RESOURCE:
        text = f"expected a topic ({TOPIC_RESOURCE}) or a broker ({BROKER_RESOURCE}), found kind {kind}"
        raise RequestPartError(ErrorCode.INVALID_REQUEST, text)
    if name and name != str(known.broker):
        text = f"this is broker {known.broker}: ask broker {name} for its configs"
        raise RequestPartError(ErrorCode.INVALID_REQUEST, text)
    return known.broker if name else None


def _broker_configs(
    stored: Mapping[str, Znode | None], broker: int | None, known: KnownConfigs
) -> Iterator[_Config]:
    default = ConfigEntity.broker(None)
    if broker is None:
        (overrides,) = _overrides(stored, [default])
        return _configs([(DYNAMIC_DEFAULT_BROKER_CONFIG, overrides)], {})
    own, common = _overrides(stored, [ConfigEntity.broker(broker), default])
    levels = [(DYNAMIC_BROKER_CONFIG, own), (DYNAMIC_DEFAULT_BROKER_CONFIG, common)]
    return _configs(levels, known.of_broker)


_Levels = Sequence[tuple[int, Mapping[str, str]]]
"""Sources with what is set there, the first one in effect first."""


def _configs(levels: _Levels, known: Mapping[str, KnownConfig], brokers: _Levels = ()) -> Iterator[_Config]:
    """Each name that is set or known, with its values from the first level to the default.

    `brokers`: of brokers, which configs of topics may follow.
    """
    names = {name for _, overrides in levels for name in overrides}
    for name in sorted(names | known.keys()):
        values = [
            ConfigSynonym(name=name, value=overrides[name], source=source)
            for source, overrides in levels
            if name in overrides
        ]
        default = known.get(name)
        if default is not None:
            of_broker = default.follows
            values += [
                ConfigSynonym(name=of_broker, value=overrides[of_broker], source=source)
                for source, overrides in brokers
                if of_broker is not None and of_broker in overrides
            ]
            if default.value is not None:
                last = ConfigSynonym(name=of_broker or name, value=default.value, source=default.source)
                values.append(last)
        yield _Config(name, tuple(values), default)


def _described(config: _Config, *, synonyms: bool, documented: bool) -> DescribedConfig:
    is_hidden = is_secret(config.name)
    known = config.known
    return DescribedConfig(
        name=config.name,
        value=None if is_hidden else config.value,
        read_only=known is not None and known.read_only,
        source=config.source,
        is_sensitive=is_hidden,
        synonyms=config.values if synonyms and not is_hidden else (),
        config_type=known.type if known else PASSWORD if is_hidden else UNKNOWN_TYPE,
        documentation=known.documentation if known and documented else None,
    )


def _overrides(
    stored: Mapping[str, Znode | None], entities: Sequence[ConfigEntity]
) -> list[Mapping[str, str]]:
    """Returns the settings of each entity. Raises CorruptZnodeError."""
    paths = [entity.config_path for entity in entities]
    return [
        {} if (znode := stored[path]) is None else EntityConfig.decode(path, znode.data).overrides
        for path in paths
    ]


def alter(
    ensemble: Ensemble,
    resource: AlteredResource | ChangedResource,
    known: KnownConfigs,
    by: ChangeRecord,
    *,
    validate_only: bool,
) -> AlteredResourceResult:
    """Changes the configs of one resource, and notifies the brokers."""
    error, message = ErrorCode.NONE, None
    try:
        entity = _entity(resource.kind, resource.name)
        (before,) = _overrides(ensemble.zk.read_many([entity.config_path]), [entity])
        after = (
            _replaced(resource)
            if isinstance(resource, AlteredResource)
            else _changed(resource, before, known)
        )
        set_to = {name: value for name, value in after.items() if before.get(name) != value}
        removed = sorted(before.keys() - after.keys())
        if set_to or removed:
            if entity.kind == "brokers":
                _refuse_read_only(set_to, known)
            with refused_as(_code_of_invalid(entity, set_to), ConfigError):
                # As Kafka 2.8, which keeps the names that it does not know.
                plan = plan_config(ensemble, entity, set_to, removed, allow_unknown=True)
                change = alter_config_change(ensemble, plan)
            if not validate_only:
                change.write(by)
        elif entity.kind == "topics":
            _check_exists(ensemble, resource.name)
    except ZkGroupError as raised:
        error, message = failure_of(raised)
    return AlteredResourceResult(error=error, error_message=message, kind=resource.kind, name=resource.name)


def _refuse_read_only(set_to: Iterable[str], known: KnownConfigs) -> None:
    """Refuses what a broker reads only at its start, in Kafka's words."""
    if read_only := [name for name in set_to if name in known.of_broker and known.of_broker[name].read_only]:
        text = f"Cannot update these configs dynamically: {', '.join(read_only)}"
        raise RequestPartError(ErrorCode.INVALID_REQUEST, text)


def _code_of_invalid(entity: ConfigEntity, set_to: Collection[str]) -> ErrorCode:
    """The error code of Kafka 2.8: one for an unknown config of a topic, one for an invalid value."""
    is_unknown = entity.kind == "topics" and not SETTINGS.keys() >= set(set_to)
    return ErrorCode.INVALID_CONFIG if is_unknown else ErrorCode.INVALID_REQUEST


_BROKER_ID: Final = re.compile(r"[0-9]{1,10}")


def _entity(kind: int, name: str) -> ConfigEntity:
    if kind == TOPIC_RESOURCE:
        with refused_as(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ConfigError):
            validate_topic(name)
        return ConfigEntity.topic(name)
    if kind != BROKER_RESOURCE or (name and not _BROKER_ID.fullmatch(name)):
        text = (
            f"expected a topic, a broker id, or an empty name for all brokers, found {name!r} of kind {kind}"
        )
        raise RequestPartError(ErrorCode.INVALID_REQUEST, text)
    return ConfigEntity.broker(int(name) if name else None)


def _check_exists(ensemble: Ensemble, topic: str) -> None:
    if ensemble.zk.exists(Topic.path(topic)) is None:
        raise NotFoundError(f"there is no topic {topic!r}")


def _replaced(resource: AlteredResource) -> dict[str, str]:
    """Of a config that is named twice the last value counts, as in Kafka before 3.2."""
    return {one.name: _given(one.name, one.value) for one in resource.configs}


def _changed(resource: ChangedResource, before: Mapping[str, str], known: KnownConfigs) -> dict[str, str]:
    if len({one.name for one in resource.configs}) != len(resource.configs):
        raise RequestPartError(ErrorCode.INVALID_REQUEST, "a config is named twice")
    after = dict(before)
    for one in resource.configs:
        if one.operation == SET:
            after[one.name] = _given(one.name, one.value)
        elif one.operation == DELETE:
            after.pop(one.name, None)
        elif one.operation in (APPEND, SUBTRACT):
            _check_list(one.name, one.operation)
            default = known.topic.get(one.name) if resource.kind == TOPIC_RESOURCE else None
            present = after.get(one.name, default.value if default else None)
            after[one.name] = _list_changed(present or "", _given(one.name, one.value), one.operation)
        else:
            text = f"{one.name}: expected operation 0 to 3, found {one.operation}"
            raise RequestPartError(ErrorCode.INVALID_REQUEST, text)
    return after


def _check_list(name: str, operation: int) -> None:
    """Refuses to append to a config that is no list, in Kafka's words."""
    if without_listener(name) not in LISTS:
        word = "append" if operation == APPEND else "subtract"
        text = f"Config value {word} is not allowed for config key: {name}"
        raise RequestPartError(ErrorCode.INVALID_REQUEST, text)


def _list_changed(present: str, value: str, operation: int) -> str:
    items = [item for item in present.split(",") if item]
    named = [item for item in value.split(",") if item]
    if operation == APPEND:
        return ",".join(dict.fromkeys([*items, *named]))
    return ",".join(item for item in items if item not in named)


def _given(name: str, value: str | None) -> str:
    if value is None:
        raise RequestPartError(ErrorCode.INVALID_REQUEST, f"{name}: expected a value, found null")
    return value
